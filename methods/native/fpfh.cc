// Fast Point Feature Histograms (Rusu et al. 2009): 33 numbers for each point of a cloud with normals.
//
// methods/geometry/fpfh.py says what the numbers are and computes them with Open3D where this kernel is unavailable. Sums are not
// reordered and products are not contracted, so that all processors return the same bits for any number of threads.

#include <atomic>
#include <limits>
#include <thread>

#include "neighbours.h"

namespace {

constexpr int BINS = 11;            // of each of the three angles
constexpr int SIZE = 3 * BINS;      // numbers of a feature
constexpr int64_t CHUNK = 32;       // points that a thread takes at once
constexpr int64_t SAMPLES = 33;     // points by which the size of cells is chosen

// Call work(i) for i in [0, count) on a number of threads.
template <typename Work>
void parallel(int64_t count, int threads, Work work) {
    std::atomic<int64_t> next{0};
    auto run = [&] {
        for (int64_t first; (first = next.fetch_add(CHUNK)) < count;)
            for (int64_t i = first; i < std::min(first + CHUNK, count); i++) work(i);
    };
    std::vector<std::thread> others;
    for (int i = 1; i < threads && i * CHUNK < count; i++) others.emplace_back(run);
    run();
    for (auto& other : others) other.join();
}

// The edge of cells within a radius that suits searches for `most` neighbours: within it, nine of ten points have them all.
double suitable_edge(const Vector* points, int64_t size, double radius, int64_t most) {
    if (most >= size) return radius;  // all within the radius are neighbours
    std::vector<double> last, squared(size);
    for (int64_t sample = 0; sample < SAMPLES; sample++) {
        const Vector point = points[sample * (size - 1) / (SAMPLES - 1)];
        for (int64_t i = 0; i < size; i++) {
            const Vector d = minus(points[i], point);
            squared[i] = dot(d, d);
        }
        std::nth_element(squared.begin(), squared.begin() + most, squared.end());
        last.push_back(std::sqrt(squared[most]));
    }
    const auto most_of = last.begin() + SAMPLES * 9 / 10;
    std::nth_element(last.begin(), most_of, last.end());
    return std::max(std::min(radius, *most_of), std::numeric_limits<double>::min());
}

// The nearest points within a radius, at most `most` with the point itself, which is left out.
std::vector<Neighbour> neighbours(const Vector* points, const Grid& grid, int64_t row, double radius, int64_t most) {
    std::vector<Neighbour> near;
    double distance = 0;
    for (int reach = 1; distance < radius && static_cast<int64_t>(near.size()) < most - 1; reach++) {
        distance = reach <= MOST_REACH ? std::min(radius, reach * grid.edge) : radius;
        grid.collect(points[row], static_cast<int32_t>(row), distance, reach, near);
    }
    keep_nearest(near, most - 1);
    return near;
}

// The bin of a number in [-1, 1].
inline int bin(double value) { return std::clamp(static_cast<int>(BINS * (value + 1) * 0.5), 0, BINS - 1); }

// Cosines and sines of the bounds of bins of angles from 0 to pi: the odd multiples of pi / BINS.
constexpr double BOUNDS[BINS / 2][2] = {{0.9594929736144974, 0.28173255684142967},
                                        {0.6548607339452851, 0.7557495743542583},
                                        {0.14231483827328512, 0.9898214418809327},
                                        {-0.41541501300188644, 0.9096319953545184},
                                        {-0.8412535328311812, 0.5406408174555976}};

// The bin of the angle of (x, y), from -pi to pi. Bounds are the same on both sides of 0.
inline int angle_bin(double x, double y) {
    const bool below = std::signbit(y);
    const double height = below ? -y : y;
    int passed = 0;
    for (const auto& bound : BOUNDS) {
        const double side = bound[0] * height - bound[1] * x;
        passed += below ? side > 0 : side >= 0;
    }
    return BINS / 2 + (below ? -passed : passed);
}

// Add to the histograms of a point the angles between its normal, that of a neighbour and the line between them.
void add_pair(Vector point, Vector normal, Vector other, Vector other_normal, double amount, double* histograms) {
    int angle = BINS / 2, first = BINS / 2, second = BINS / 2;
    Vector line = minus(other, point);
    const double length = std::sqrt(dot(line, line));
    if (length > 0) {
        const double here = dot(normal, line) / length, there = dot(other_normal, line) / length;
        const bool swap = std::abs(here) < std::abs(there);  // the frame is that of the normal nearer to the line
        if (swap) {
            std::swap(normal, other_normal);
            line = times(-1, line);
        }
        Vector v = cross(line, normal);
        const double norm = std::sqrt(dot(v, v));
        if (norm > 0) {
            v = times(1 / norm, v);
            second = bin(swap ? -there : here);
            first = bin(dot(v, other_normal));
            angle = angle_bin(dot(normal, other_normal), dot(cross(normal, v), other_normal));
        }
    }
    histograms[angle] += amount;
    histograms[BINS + first] += amount;
    histograms[2 * BINS + second] += amount;
}

// A point's own histograms, and those of its neighbours weighted by the inverse squared distance, each scaled to 100.
void combine(const double* simple, int64_t row, const std::vector<Neighbour>& near, double* feature) {
    std::fill(feature, feature + SIZE, 0.0);
    for (const Neighbour& neighbour : near) {
        if (neighbour.squared == 0) continue;
        const double* theirs = simple + neighbour.row * SIZE;
        const double weight = 1 / neighbour.squared;
        for (int j = 0; j < SIZE; j++) feature[j] += weight * theirs[j];
    }
    for (int part = 0; part < SIZE; part += BINS) {
        double sum = 0;
        for (int j = part; j < part + BINS; j++) sum += feature[j];
        const double scale = sum != 0 ? 100 / sum : 0;
        for (int j = part; j < part + BINS; j++) feature[j] = feature[j] * scale + simple[row * SIZE + j];
    }
}

}  // namespace

extern "C" {

// Write the features (size, 33) of points and unit normals (size, 3), from at most `most` points within a radius.
void fpfh_describe(const double* points, const double* normals, int64_t size, double radius, int64_t most, int threads,
                   double* features) {
    const auto* at = reinterpret_cast<const Vector*>(points);
    const auto* normal = reinterpret_cast<const Vector*>(normals);
    const Grid grid(at, size, suitable_edge(at, size, radius, most));
    std::vector<std::vector<Neighbour>> near(size);
    std::vector<double> simple(size * SIZE);
    parallel(size, threads, [&](int64_t i) {
        near[i] = neighbours(at, grid, i, radius, most);
        for (const Neighbour& other : near[i]) {
            add_pair(at[i], normal[i], at[other.row], normal[other.row], 100.0 / static_cast<double>(near[i].size()),
                     &simple[i * SIZE]);
        }
    });
    parallel(size, threads, [&](int64_t i) { combine(simple.data(), i, near[i], features + i * SIZE); });
}
}
