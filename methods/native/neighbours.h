// Neighbours of points of a cloud within a radius, by a grid. Included by fpfh.cc and descriptor.cc.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace {

constexpr int64_t MOST_CELLS = 1 << 20;  // cells along an axis: three coordinates fit in 64 bits
constexpr int MOST_REACH = 3;       // cells around a point that are searched before all points are
constexpr int64_t MARGIN = MOST_REACH + 1;  // empty cells below and above the points

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

inline bool nearer(const Neighbour& a, const Neighbour& b) {
    return a.squared < b.squared || (a.squared == b.squared && a.row < b.row);
}

// Order the `count` nearest first.
inline void put_first(std::vector<Neighbour>& near, int64_t count) {
    if (count < static_cast<int64_t>(near.size())) std::nth_element(near.begin(), near.begin() + count, near.end(), nearer);
}

// Keep the nearest, at most `most`.
inline void keep_nearest(std::vector<Neighbour>& near, int64_t most) {
    put_first(near, most);
    if (static_cast<int64_t>(near.size()) > most) near.resize(most);
}

// The low corner and the largest side of the box around points.
inline std::pair<Vector, double> box(const Vector* points, int64_t size) {
    Vector low = points[0], high = points[0];
    for (int64_t i = 1; i < size; i++) {
        low = {std::min(low.x, points[i].x), std::min(low.y, points[i].y), std::min(low.z, points[i].z)};
        high = {std::max(high.x, points[i].x), std::max(high.y, points[i].y), std::max(high.z, points[i].z)};
    }
    const Vector extent = minus(high, low);
    return {low, std::max({extent.x, extent.y, extent.z})};
}

// The points of a cloud, sorted by the cell of a grid that contains them. Cells that follow each other along z are contiguous.
class Grid {
public:
    double edge;

    // Cells have the given edge, or a larger one if there were too many of them.
    Grid(const Vector* points, int64_t size, double given) : keys_(size), rows_(size), sorted_(size) {
        const auto [low, side] = box(points, size);
        low_ = low, side_ = side;
        edge = std::max(given, side / static_cast<double>(MOST_CELLS - 2 * MARGIN));
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
        if (beyond(point, distance)) return;
        if (reach * edge < distance) return add(0, keys_.size(), point, row, distance, near);
        for (int dx = -reach; dx <= reach; dx++)
            for (int dy = -reach; dy <= reach; dy++) {
                const auto first = std::lower_bound(keys_.begin(), keys_.end(), key(point, dx, dy, -reach));
                const auto last = std::upper_bound(first, keys_.end(), key(point, dx, dy, reach));
                add(first - keys_.begin(), last - keys_.begin(), point, row, distance, near);
            }
    }

private:
    // Add those of the sorted points in a range that are within the distance, without a branch: half of them are.
    void add(size_t first, size_t last, Vector point, int32_t row, double distance, std::vector<Neighbour>& near) const {
        size_t count = near.size();
        near.resize(count + last - first);
        for (size_t at = first; at < last; at++) {
            const Vector d = minus(sorted_[at], point);
            near[count] = {dot(d, d), rows_[at]};
            count += near[count].squared < distance * distance && rows_[at] != row;
        }
        near.resize(count);
    }

    int64_t key(Vector point, int dx, int dy, int dz) const {
        const auto cell = [this](double value, double low, int shift) {
            return static_cast<int64_t>((value - low) / edge) + MARGIN + shift;
        };
        return (cell(point.x, low_.x, dx) * MOST_CELLS + cell(point.y, low_.y, dy)) * MOST_CELLS + cell(point.z, low_.z, dz);
    }

    // Whether a point is farther than a distance from the box of the cloud, and its cell may have no key.
    bool beyond(Vector point, double distance) const {
        const Vector d = minus(point, low_);
        return std::min({d.x, d.y, d.z}) < -distance || std::max({d.x, d.y, d.z}) > side_ + distance;
    }

    Vector low_;
    double side_;
    std::vector<int64_t> keys_;
    std::vector<int32_t> rows_;
    std::vector<Vector> sorted_;
};

}  // namespace
