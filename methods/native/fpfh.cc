// Fast Point Feature Histograms (Rusu et al. 2009): 33 numbers for each point of a cloud with normals.
//
// methods/geometry/fpfh.py says what the numbers are and computes them with Open3D where this kernel is unavailable. Sums are not
// reordered and products are not contracted, so that all processors return the same bits for any number of threads.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

namespace {

constexpr int BINS = 11;            // of each of the three angles
constexpr int SIZE = 3 * BINS;      // numbers of a feature
constexpr int64_t CHUNK = 32;       // points that a thread takes at once
constexpr int64_t MOST_CELLS = 1 << 20;  // cells along an axis: three coordinates fit in 64 bits
constexpr int MOST_REACH = 3;       // cells around a point that are searched before all points are
constexpr int64_t MARGIN = MOST_REACH + 1;  // empty cells below and above the points
constexpr int64_t SAMPLES = 33;     // points by which the size of cells is chosen

struct Vector {
    double x, y, z;
};

inline Vector minus(Vector a, Vector b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
inline Vector times(double s, Vector a) { return {s * a.x, s * a.y, s * a.z}; }
inline double dot(Vector a, Vector b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
inline Vector cross(Vector a, Vector b) { return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x}; }

struct Neighbour {
    double squared;  // distance
    int32_t row;
};

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

// The points of a cloud, sorted by the cell of a grid that contains them. Cells that follow each other along z are contiguous.
class Grid {
public:
    const double edge;

    Grid(const Vector* points, int64_t size, double edge) : edge(edge), low_(points[0]), keys_(size), rows_(size), sorted_(size) {
        for (int64_t i = 1; i < size; i++)
            low_ = {std::min(low_.x, points[i].x), std::min(low_.y, points[i].y), std::min(low_.z, points[i].z)};
        std::vector<std::pair<int64_t, int32_t>> order(size);
        for (int64_t i = 0; i < size; i++) order[i] = {key(points[i], 0, 0, 0), static_cast<int32_t>(i)};
        std::sort(order.begin(), order.end());
        for (int64_t i = 0; i < size; i++) {
            keys_[i] = order[i].first;
            rows_[i] = order[i].second;
            sorted_[i] = points[order[i].second];
        }
    }

    // Collect the points other than `row` within a distance of a point: in the `reach` cells around, or of all if it is larger.
    void collect(Vector point, int32_t row, double distance, int reach, std::vector<Neighbour>& near) const {
        near.clear();
        const auto add = [&](size_t at) {
            const Vector d = minus(sorted_[at], point);
            const double squared = dot(d, d);
            if (squared < distance * distance && rows_[at] != row) near.push_back({squared, rows_[at]});
        };
        if (reach * edge < distance) {
            for (size_t at = 0; at < keys_.size(); at++) add(at);
            return;
        }
        for (int dx = -reach; dx <= reach; dx++)
            for (int dy = -reach; dy <= reach; dy++) {
                const auto first = std::lower_bound(keys_.begin(), keys_.end(), key(point, dx, dy, -reach));
                const int64_t last = key(point, dx, dy, reach);
                for (size_t at = first - keys_.begin(); at < keys_.size() && keys_[at] <= last; at++) add(at);
            }
    }

private:
    int64_t key(Vector point, int dx, int dy, int dz) const {
        const auto cell = [this](double value, double low, int shift) {
            return static_cast<int64_t>((value - low) / edge) + MARGIN + shift;
        };
        return (cell(point.x, low_.x, dx) * MOST_CELLS + cell(point.y, low_.y, dy)) * MOST_CELLS + cell(point.z, low_.z, dz);
    }

    Vector low_;
    std::vector<int64_t> keys_;
    std::vector<int32_t> rows_;
    std::vector<Vector> sorted_;
};

// The edge of cells within a radius that suits searches for `most` neighbours: within it, nine of ten points have them all.
double suitable_edge(const Vector* points, int64_t size, double radius, int64_t most) {
    Vector low = points[0], high = points[0];
    for (int64_t i = 1; i < size; i++) {
        low = {std::min(low.x, points[i].x), std::min(low.y, points[i].y), std::min(low.z, points[i].z)};
        high = {std::max(high.x, points[i].x), std::max(high.y, points[i].y), std::max(high.z, points[i].z)};
    }
    const Vector extent = minus(high, low);
    const double least = std::max({extent.x, extent.y, extent.z}) / static_cast<double>(MOST_CELLS - 2 * MARGIN);
    if (most >= size) return std::max(radius, least);  // all within the radius are neighbours
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
    return std::max({std::min(radius, *most_of), least, std::numeric_limits<double>::min()});
}

// The nearest points within a radius, at most `most` with the point itself, which is left out.
std::vector<Neighbour> neighbours(const Vector* points, const Grid& grid, int64_t row, double radius, int64_t most) {
    std::vector<Neighbour> near;
    double distance = 0;
    for (int reach = 1; distance < radius && static_cast<int64_t>(near.size()) < most - 1; reach++) {
        distance = reach <= MOST_REACH ? std::min(radius, reach * grid.edge) : radius;
        grid.collect(points[row], static_cast<int32_t>(row), distance, reach, near);
    }
    const auto nearer = [](const Neighbour& a, const Neighbour& b) {
        return a.squared < b.squared || (a.squared == b.squared && a.row < b.row);
    };
    if (static_cast<int64_t>(near.size()) > most - 1) {
        std::nth_element(near.begin(), near.begin() + (most - 1), near.end(), nearer);
        near.resize(most - 1);
    }
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
