// A C interface to the TEASER++ library (Yang, Shi, Carlone 2020), called from methods/native/teaser.py by ctypes.

#include <algorithm>
#include <iostream>
#include <teaser/registration.h>

namespace {

// The library and its clique solver print to std::cout; a null buffer swallows it for the time of one call.
class Silence {
 public:
  Silence() : kept_(std::cout.rdbuf(nullptr)) {}
  ~Silence() {
    std::cout.rdbuf(kept_);
    std::cout.clear();
  }

 private:
  std::streambuf* kept_;
};

using Points = Eigen::Matrix<double, 3, Eigen::Dynamic>;

}  // namespace

// Solve for the pose of n matched points, src onto dst, both row-major (n, 3).
// pose receives the rotation (9, row-major) and the translation (3); clique the number of matches kept by the clique.
// Returns 0: solved; 1: the library calls its solution invalid; 2: it threw.
extern "C" int teaser_solve(const double* src, const double* dst, int n, double noise_bound, double clique_seconds,
                            double* pose, int* clique) {
  Silence silence;
  try {
    teaser::RobustRegistrationSolver::Params params;
    params.noise_bound = noise_bound;
    params.estimate_scaling = false;
    params.rotation_cost_threshold = 1e-12;
    params.max_clique_time_limit = clique_seconds;
    teaser::RobustRegistrationSolver solver(params);
    const Points a = Eigen::Map<const Points>(src, 3, n), b = Eigen::Map<const Points>(dst, 3, n);
    const auto solution = solver.solve(a, b);
    *clique = static_cast<int>(solver.getInlierMaxClique().size());
    Eigen::Map<Eigen::Matrix<double, 3, 3, Eigen::RowMajor>>(pose, 3, 3) = solution.rotation;
    std::copy_n(solution.translation.data(), 3, pose + 9);
    return solution.valid ? 0 : 1;
  } catch (...) {
    return 2;
  }
}
