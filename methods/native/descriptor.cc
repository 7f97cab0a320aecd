// Patches of learned local descriptors: normals, and moments about them.
//
// methods/geometry/patches.py defines the numbers, and computes them where this kernel is unavailable. Sums are not reordered and
// products are not contracted, so that all processors return the same bits.

#include "neighbours.h"

namespace {

constexpr int RINGS = 6, LEVELS = 7, ORDERS = 4;  // as in methods/geometry/patches.py
constexpr int SUMS = 1 + 2 * ORDERS;              // of a cell
constexpr double USUAL = 16;                      // points that count as one
constexpr int SWEEPS = 12;                        // of Jacobi's rotations; five suffice nearly always

// Offsets of the nearest points within a radius, in radii.
struct Patch {
    std::vector<Neighbour> near;
    std::vector<Vector> offsets;

    void find(const Grid& grid, const Vector* points, Vector key, double radius, int64_t most) {
        grid.collect(key, -1, radius, 1, near);
        keep_nearest(near, most);
        offsets.resize(near.size());
        for (size_t i = 0; i < near.size(); i++) offsets[i] = times(1 / radius, minus(points[near[i].row], key));
    }
};

// The eigenvectors (columns of v) and eigenvalues (the diagonal of a) of a symmetric matrix, by Jacobi's rotations.
void eigen(double (&a)[3][3], double (&v)[3][3]) {
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) v[i][j] = i == j;
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        const double off = a[0][1] * a[0][1] + a[0][2] * a[0][2] + a[1][2] * a[1][2];
        if (off <= 1e-30 * (a[0][0] * a[0][0] + a[1][1] * a[1][1] + a[2][2] * a[2][2])) return;
        for (int p = 0; p < 2; p++)
            for (int q = p + 1; q < 3; q++) {
                if (a[p][q] == 0) continue;
                const double theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
                const double t = (theta < 0 ? -1 : 1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
                const double c = 1 / std::sqrt(t * t + 1), s = t * c;
                for (int k = 0; k < 3; k++) {
                    const double x = a[k][p], y = a[k][q];
                    a[k][p] = c * x - s * y, a[k][q] = s * x + c * y;
                }
                for (int k = 0; k < 3; k++) {
                    const double x = a[p][k], y = a[q][k];
                    a[p][k] = c * x - s * y, a[q][k] = s * x + c * y;
                    const double left = v[k][p], right = v[k][q];
                    v[k][p] = c * left - s * right, v[k][q] = s * left + c * right;
                }
            }
    }
}

// The direction of least spread of a patch.
Vector normal(const Patch& patch) {
    double a[3][3] = {}, v[3][3];
    for (const Vector o : patch.offsets) {
        a[0][0] += o.x * o.x, a[0][1] += o.x * o.y, a[0][2] += o.x * o.z;
        a[1][1] += o.y * o.y, a[1][2] += o.y * o.z, a[2][2] += o.z * o.z;
    }
    a[1][0] = a[0][1], a[2][0] = a[0][2], a[2][1] = a[1][2];
    eigen(a, v);
    int least = 0;
    for (int i = 1; i < 3; i++)
        if (a[i][i] < a[least][least]) least = i;
    return {v[0][least], v[1][least], v[2][least]};
}

// The moments of a cell, or of the part of a point that is in it.
struct Sums {
    double sum[SUMS];

    void add(double share, const Sums& other) {
        for (int i = 0; i < SUMS; i++) sum[i] += share * other.sum[i];
    }
};

// The powers of the direction (x, y) around the axis at a distance from it.
Sums powers(double x, double y, double distance) {
    const double away = std::max(distance, 1e-6), real = x / away, imaginary = y / away;
    Sums point;
    point.sum[0] = 1 / USUAL;
    double re = 1 / USUAL, im = 0;
    for (int k = 0; k < ORDERS; k++) {
        const double next = re * real - im * imaginary;
        im = re * imaginary + im * real, re = next;
        point.sum[2 * k + 1] = re, point.sum[2 * k + 2] = im;
    }
    return point;
}

// The number below a position among `count`, of which there is one above.
inline int below(double position, int count) { return std::max(0, std::min(static_cast<int>(position), count - 2)); }

// Write the moments (SUMS, RINGS, LEVELS) of a patch about the axis z, with directions counted from x.
void write_moments(const Patch& patch, Vector x, Vector z, float* moments) {
    const Vector y = cross(z, x);
    Sums cells[RINGS][LEVELS] = {};
    for (const Vector o : patch.offsets) {
        const double along = dot(o, x), beside = dot(o, y), distance = std::sqrt(along * along + beside * beside);
        const double ring = distance * (RINGS - 1), level = (dot(o, z) + 1) * (LEVELS - 1) / 2;
        const Sums point = powers(along, beside, distance);
        const int r = below(ring, RINGS), l = below(level, LEVELS);
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++)
                cells[r + i][l + j].add((1 - std::abs(ring - r - i)) * (1 - std::abs(level - l - j)), point);
    }
    for (int k = 0; k < SUMS; k++)
        for (int r = 0; r < RINGS; r++)
            for (int l = 0; l < LEVELS; l++) *moments++ = static_cast<float>(cells[r][l].sum[k]);
}

}  // namespace

extern "C" {

// Write the normals (count, 3) at keys (count, 3) of a cloud (size, 3), from at most `most` points within the radius.
void descriptor_normals(const double* keys, int64_t count, const double* cloud, int64_t size, double radius, int64_t most,
                        double* normals) {
    const auto *key = reinterpret_cast<const Vector*>(keys), *points = reinterpret_cast<const Vector*>(cloud);
    auto* result = reinterpret_cast<Vector*>(normals);
    const Grid grid(points, size, radius);
    Patch patch;
    for (int64_t i = 0; i < count; i++) {
        patch.find(grid, points, key[i], radius, most);
        result[i] = normal(patch);
    }
}

// Write the moments of the patches of keys (count, 3) about axes (count, 3), with directions counted from `across` (count, 3).
//
// Those of a key start `stride` numbers after those of the key before it.
void descriptor_moments(const double* keys, const double* across, const double* axes, int64_t count, const double* cloud,
                        int64_t size, double radius, int64_t most, int64_t stride, float* moments) {
    const auto *key = reinterpret_cast<const Vector*>(keys), *points = reinterpret_cast<const Vector*>(cloud);
    const auto *x = reinterpret_cast<const Vector*>(across), *z = reinterpret_cast<const Vector*>(axes);
    const Grid grid(points, size, radius);
    Patch patch;
    for (int64_t i = 0; i < count; i++) {
        patch.find(grid, points, key[i], radius, most);
        write_moments(patch, x[i], z[i], moments + i * stride);
    }
}
}
