// Fast Point Feature Histograms (Rusu et al. 2009): 33 numbers for each point of a cloud with normals.
//
// methods/geometry/fpfh.py says what the numbers are and computes them with Open3D where this kernel is unavailable. Sums are not
// reordered and products are not contracted, so that all processors return the same bits for any number of threads.

#include <atomic>
#include <cstring>
#include <limits>
#include <thread>

#include "neighbours.h"

namespace {

constexpr int LANES = 4;
constexpr int BINS = 11;            // of each of the three angles
constexpr int SIZE = 3 * BINS;      // numbers of a feature
constexpr int64_t CHUNK = 32;       // points that a thread takes at once
constexpr int64_t SAMPLES = 33;     // points by which the size of cells is chosen

typedef double Doubles __attribute__((vector_size(8 * LANES)));
typedef int64_t Longs __attribute__((vector_size(8 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));

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
    thread_local std::vector<Neighbour> near;  // many more than are kept pass through it
    near.clear();
    double distance = 0;
    for (int reach = 1; distance < radius && static_cast<int64_t>(near.size()) < most - 1; reach++) {
        distance = reach <= MOST_REACH ? std::min(radius, reach * grid.edge) : radius;
        grid.collect(points[row], static_cast<int32_t>(row), distance, reach, near);
    }
    keep_nearest(near, most - 1);
    return near;
}

inline Doubles load(const double* from) {
    Doubles lanes;
    std::memcpy(&lanes, from, sizeof lanes);
    return lanes;
}

inline Doubles roots(Doubles a) {
    for (int i = 0; i < LANES; i++) a[i] = std::sqrt(a[i]);
    return a;
}

inline Doubles magnitude(Doubles a) { return a < 0 ? -a : a; }

struct Vectors {
    Doubles x, y, z;
};

inline Doubles all(double a) { return Doubles{a, a, a, a}; }  // 0 + a would lose the sign of -0
inline Vectors all(Vector a) { return {all(a.x), all(a.y), all(a.z)}; }
inline Vectors times(Doubles s, Vectors a) { return {s * a.x, s * a.y, s * a.z}; }
inline Doubles dot(Vectors a, Vectors b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
inline Vectors cross(Vectors a, Vectors b) { return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x}; }
inline Vectors choose(Longs mask, Vectors a, Vectors b) { return {mask ? a.x : b.x, mask ? a.y : b.y, mask ? a.z : b.z}; }

// The bins of numbers in [-1, 1].
inline Ints bins(Doubles values) {
    const Ints bin = __builtin_convertvector(BINS * (values + 1) * 0.5, Ints);
    const Ints low = bin < 0 ? Ints{} : bin;
    return low > BINS - 1 ? Ints{} + (BINS - 1) : low;
}

// Cosines and sines of the bounds of bins of angles from 0 to pi: the odd multiples of pi / BINS.
constexpr double BOUNDS[BINS / 2][2] = {{0.9594929736144974, 0.28173255684142967},
                                        {0.6548607339452851, 0.7557495743542583},
                                        {0.14231483827328512, 0.9898214418809327},
                                        {-0.41541501300188644, 0.9096319953545184},
                                        {-0.8412535328311812, 0.5406408174555976}};

// The bins of the angles of (x, y), from -pi to pi. Bounds are the same on both sides of 0.
inline Ints angle_bins(Doubles x, Doubles y) {
    const Longs below = reinterpret_cast<Longs>(y) < 0;  // the sign bit: -0 is below
    const Doubles height = below ? -y : y;
    Longs passed = {};
    for (const auto& bound : BOUNDS) {
        const Doubles side = bound[0] * height - bound[1] * x;
        passed -= below ? side > 0 : side >= 0;
    }
    return BINS / 2 + __builtin_convertvector(below ? -passed : passed, Ints);
}

// Coordinates and normals of the neighbours of a point, padded to whole vectors.
struct Surroundings {
    std::vector<double> values[6];

    void copy(const Vector* points, const Vector* normals, const std::vector<Neighbour>& near) {
        const size_t padded = (near.size() + LANES - 1) / LANES * LANES;
        for (auto& value : values) value.resize(padded);
        for (size_t i = 0; i < padded; i++) {
            const int32_t row = near[std::min(i, near.size() - 1)].row;
            const Vector p = points[row], n = normals[row];
            values[0][i] = p.x, values[1][i] = p.y, values[2][i] = p.z;
            values[3][i] = n.x, values[4][i] = n.y, values[5][i] = n.z;
        }
    }

    Vectors at(size_t i, int first) const { return {load(&values[first][i]), load(&values[first + 1][i]), load(&values[first + 2][i])}; }
};

// Count the bins of the angles between a point's normal, those of its neighbours and the lines between them.
void count_pairs(Vector point, Vector own, const Surroundings& others, size_t size, int32_t* counts) {
    const Vectors here = all(point), mine = all(own);
    for (size_t i = 0; i < size; i += LANES) {
        const Vectors there = others.at(i, 0), theirs = others.at(i, 3);
        const Vectors line = {there.x - here.x, there.y - here.y, there.z - here.z};
        const Doubles length = roots(dot(line, line));
        const Doubles at_point = dot(mine, line) / length, at_other = dot(theirs, line) / length;
        const Longs swap = magnitude(at_point) < magnitude(at_other);  // the frame is that of the normal nearer to the line
        const Vectors normal = choose(swap, theirs, mine), other = choose(swap, mine, theirs);
        const Vectors raw = cross(choose(swap, {-line.x, -line.y, -line.z}, line), normal);
        const Doubles norm = roots(dot(raw, raw));
        const Vectors v = times(1 / norm, raw);
        const Ints both[3] = {angle_bins(dot(normal, other), dot(cross(normal, v), other)), bins(dot(v, other)),
                              bins(swap ? -at_other : at_point)};
        const Longs defined = (length > 0) & (norm > 0);
        for (size_t lane = 0; lane < std::min<size_t>(LANES, size - i); lane++)
            for (int part = 0; part < 3; part++) counts[BINS * part + (defined[lane] ? both[part][lane] : BINS / 2)]++;
    }
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
        if (near[i].empty()) return;
        thread_local Surroundings others;
        int32_t counts[SIZE] = {};
        others.copy(at, normal, near[i]);
        count_pairs(at[i], normal[i], others, near[i].size(), counts);
        const double amount = 100.0 / static_cast<double>(near[i].size());
        thread_local std::vector<double> sums;  // of so many amounts, rounded after each as in Open3D
        sums.assign(1, 0.0);
        while (sums.size() <= near[i].size()) sums.push_back(sums.back() + amount);
        for (int j = 0; j < SIZE; j++) simple[i * SIZE + j] = sums[counts[j]];
    });
    parallel(size, threads, [&](int64_t i) { combine(simple.data(), i, near[i], features + i * SIZE); });
}
}
