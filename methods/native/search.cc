// Search over rigid poses: nearest points, distance fields, scores of rotations and translations, trimmed ICP.
//
// methods/geometry/search.py defines the operations and computes them with NumPy where this kernel is unavailable. Clouds are
// centred and of unit scale. No operation reorders floating-point sums (no -ffast-math), and products are not contracted, so that
// all processors return the same bits.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#if defined(__AVX__)
#include <immintrin.h>
#endif

namespace {

constexpr int LANES = 8;
constexpr int LEAF = 16;        // points of a leaf, a multiple of LANES
constexpr float FAR = 1e15f;    // coordinate of padding, farther than any point
constexpr int ROW = 16;         // translations along x that a sweep adds at once
constexpr int BLOCK = 4;        // translations along each side of a block, which has its own best
constexpr int BLOCKS = (ROW / BLOCK) * (ROW / BLOCK) * (ROW / BLOCK);

typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));
typedef uint8_t Bytes __attribute__((vector_size(ROW)));
typedef uint16_t Sums __attribute__((vector_size(2 * ROW)));

inline Floats load(const float* from) {
    Floats lanes;
    std::memcpy(&lanes, from, sizeof lanes);
    return lanes;
}

inline Floats larger(Floats a, Floats b) { return a > b ? a : b; }

// Bit i is set if lane i of a comparison is true.
inline unsigned bits(Ints mask) {
#if defined(__AVX__)
    return static_cast<unsigned>(_mm256_movemask_ps(reinterpret_cast<__m256>(mask)));
#else
    unsigned result = 0;
    for (int i = 0; i < LANES; i++) result |= static_cast<unsigned>(mask[i] & 1) << i;
    return result;
#endif
}

// Leaves of a balanced k-d tree, each of at most LEAF points between the corners of its box.
struct Tree {
    int64_t size, leaves;
    std::vector<float> x, y, z;        // leaves * LEAF coordinates, padded with FAR
    std::vector<int32_t> row;          // row of the cloud at each place
    std::vector<int32_t> place;        // place of each row
    std::vector<float> box[6];         // low and high x, y, z of the leaves, padded to LANES with FAR
    std::vector<double> points;        // the cloud, (size, 3)

    Tree(const double* cloud, int64_t n) : size(n), points(cloud, cloud + 3 * n) {
        leaves = 1;
        while (leaves * LEAF < n) leaves *= 2;
        const int64_t places = leaves * LEAF, padded = (leaves + LANES - 1) / LANES * LANES;
        x.assign(places, FAR), y.assign(places, FAR), z.assign(places, FAR);
        row.assign(places, -1), place.assign(n, 0);
        for (auto& side : box) side.assign(padded, FAR);
        std::vector<int32_t> rows(n);
        std::iota(rows.begin(), rows.end(), 0);
        split(rows.data(), n, 0, leaves);
    }

    void split(int32_t* rows, int64_t n, int64_t first, int64_t count) {
        if (count == 1) return fill(rows, n, first);
        double low[3] = {1e30, 1e30, 1e30}, high[3] = {-1e30, -1e30, -1e30};
        for (int64_t i = 0; i < n; i++)
            for (int a = 0; a < 3; a++) {
                low[a] = std::min(low[a], points[3 * rows[i] + a]);
                high[a] = std::max(high[a], points[3 * rows[i] + a]);
            }
        int axis = 0;
        for (int a = 1; a < 3; a++)
            if (high[a] - low[a] > high[axis] - low[axis]) axis = a;
        const int64_t half = n / 2;
        std::nth_element(rows, rows + half, rows + n, [&](int32_t i, int32_t j) {
            const double a = points[3 * i + axis], b = points[3 * j + axis];
            return a < b || (a == b && i < j);
        });
        split(rows, half, first, count / 2);
        split(rows + half, n - half, first + count / 2, count / 2);
    }

    void fill(const int32_t* rows, int64_t n, int64_t leaf) {
        std::vector<float>* planes[3] = {&x, &y, &z};
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = leaf * LEAF + i;
            row[at] = rows[i], place[rows[i]] = static_cast<int32_t>(at);
            for (int a = 0; a < 3; a++) {
                const float value = static_cast<float>(points[3 * rows[i] + a]);
                (*planes[a])[at] = value;
                box[a][leaf] = i ? std::min(box[a][leaf], value) : value;
                box[3 + a][leaf] = i ? std::max(box[3 + a][leaf], value) : value;
            }
        }
    }

    float squared(int32_t at, const float* q) const {
        const float dx = x[at] - q[0], dy = y[at] - q[1], dz = z[at] - q[2];
        return dx * dx + dy * dy + dz * dz;
    }

    // Place of the point nearest to q; `start` is a place that bounds its distance.
    int32_t nearest(const float* q, int32_t start) const {
        const Floats qx = Floats{} + q[0], qy = Floats{} + q[1], qz = Floats{} + q[2];
        const Floats zero = {};
        int32_t best = start;
        float least = squared(start, q);
        for (int64_t first = 0; first < leaves; first += LANES) {
            const Floats dx = larger(larger(load(&box[0][first]) - qx, qx - load(&box[3][first])), zero);
            const Floats dy = larger(larger(load(&box[1][first]) - qy, qy - load(&box[4][first])), zero);
            const Floats dz = larger(larger(load(&box[2][first]) - qz, qz - load(&box[5][first])), zero);
            const Floats apart = dx * dx + dy * dy + dz * dz;
            for (unsigned open = bits(apart < least); open; open &= open - 1) {
                const int lane = __builtin_ctz(open);
                if (apart[lane] < least) scan(first + lane, qx, qy, qz, least, best);
            }
        }
        return best;
    }

    void scan(int64_t leaf, Floats qx, Floats qy, Floats qz, float& least, int32_t& best) const {
        for (int part = 0; part < LEAF; part += LANES) {
            const int64_t at = leaf * LEAF + part;
            const Floats dx = load(&x[at]) - qx, dy = load(&y[at]) - qy, dz = load(&z[at]) - qz;
            const Floats apart = dx * dx + dy * dy + dz * dz;
            for (unsigned nearer = bits(apart < least); nearer; nearer &= nearer - 1) {
                const int lane = __builtin_ctz(nearer);
                if (apart[lane] < least) least = apart[lane], best = static_cast<int32_t>(at + lane);
            }
        }
    }
};

// Call work(i) for i in [0, count) on a number of threads, each taking the next `chunk`.
template <class Work>
void parallel(int64_t count, int threads, int64_t chunk, Work work) {
    std::atomic<int64_t> next{0};
    const auto run = [&] {
        for (int64_t first = next.fetch_add(chunk); first < count; first = next.fetch_add(chunk))
            for (int64_t i = first; i < std::min(count, first + chunk); i++) work(i);
    };
    std::vector<std::thread> others;
    for (int i = 1; i < threads && i * chunk < count; i++) others.emplace_back(run);
    run();
    for (auto& other : others) other.join();
}

// Rows of [R | t], row by row.
struct Pose {
    double m[12];

    void apply(const double* p, double* out) const {
        for (int a = 0; a < 3; a++) out[a] = m[4 * a] * p[0] + m[4 * a + 1] * p[1] + m[4 * a + 2] * p[2] + m[4 * a + 3];
    }

    Pose inverse() const {
        Pose back;
        for (int a = 0; a < 3; a++) {
            for (int b = 0; b < 3; b++) back.m[4 * a + b] = m[4 * b + a];
            back.m[4 * a + 3] = -(m[a] * m[3] + m[4 + a] * m[7] + m[8 + a] * m[11]);
        }
        return back;
    }
};

// Squared distances and rows of the points of a tree nearest to moved queries.
struct Matches {
    std::vector<double> squared;
    std::vector<int32_t> place;

    explicit Matches(int64_t n) : squared(n), place(n, 0) {}

    void update(const Tree& tree, const double* queries, const Pose& pose) {
        for (size_t i = 0; i < squared.size(); i++) {
            double moved[3];
            pose.apply(queries + 3 * i, moved);
            const float q[3] = {static_cast<float>(moved[0]), static_cast<float>(moved[1]), static_cast<float>(moved[2])};
            int32_t start = place[i];
            if (i && tree.squared(place[i - 1], q) < tree.squared(start, q)) start = place[i - 1];
            place[i] = tree.nearest(q, start);
            const double* p = &tree.points[3 * tree.row[place[i]]];
            const double dx = p[0] - moved[0], dy = p[1] - moved[1], dz = p[2] - moved[2];
            squared[i] = dx * dx + dy * dy + dz * dz;
        }
    }

    // Number of matches that a share keeps, at least three.
    int64_t count(double keep) const {
        const int64_t n = static_cast<int64_t>(squared.size());
        return std::min(n, std::max<int64_t>(3, static_cast<int64_t>(std::nearbyint(keep * static_cast<double>(n)))));
    }

    // Largest squared distance that the share `keep` and the limit leave.
    double threshold(double keep, double limit, std::vector<double>& scratch) const {
        const int64_t kept = count(keep);
        if (kept == static_cast<int64_t>(squared.size())) return limit * limit;
        scratch = squared;
        std::nth_element(scratch.begin(), scratch.begin() + (kept - 1), scratch.end());
        return std::min(limit * limit, scratch[kept - 1]);
    }
};

// Rotation of least squares from the sums of products of centred pairs (Horn 1987): Jacobi's method on his 4 x 4 matrix.
void horn(const double s[9], double R[9]) {
    double a[4][4] = {{s[0] + s[4] + s[8], s[5] - s[7], s[6] - s[2], s[1] - s[3]},
                      {s[5] - s[7], s[0] - s[4] - s[8], s[1] + s[3], s[6] + s[2]},
                      {s[6] - s[2], s[1] + s[3], s[4] - s[0] - s[8], s[5] + s[7]},
                      {s[1] - s[3], s[6] + s[2], s[5] + s[7], s[8] - s[0] - s[4]}};
    double v[4][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}};
    for (int pass = 0; pass < 20; pass++) {
        double off = 0, all = 0;
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) (i == j ? all : off) += a[i][j] * a[i][j];
        if (off <= 1e-30 * all) break;
        for (int p = 0; p < 3; p++)
            for (int q = p + 1; q < 4; q++) {
                if (a[p][q] == 0) continue;
                const double theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
                const double t = (theta < 0 ? -1 : 1) / (std::fabs(theta) + std::sqrt(theta * theta + 1));
                const double c = 1 / std::sqrt(t * t + 1), d = t * c;
                for (int k = 0; k < 4; k++) {
                    const double kp = a[k][p], kq = a[k][q];
                    a[k][p] = c * kp - d * kq, a[k][q] = d * kp + c * kq;
                }
                for (int k = 0; k < 4; k++) {
                    const double pk = a[p][k], qk = a[q][k], vp = v[k][p], vq = v[k][q];
                    a[p][k] = c * pk - d * qk, a[q][k] = d * pk + c * qk;
                    v[k][p] = c * vp - d * vq, v[k][q] = d * vp + c * vq;
                }
            }
    }
    int top = 0;
    for (int i = 1; i < 4; i++)
        if (a[i][i] > a[top][top]) top = i;
    const double w = v[0][top], x = v[1][top], y = v[2][top], z = v[3][top];
    const double n = w * w + x * x + y * y + z * z;
    const double rotation[9] = {w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y),
                                2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x),
                                2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z};
    for (int i = 0; i < 9; i++) R[i] = rotation[i] / n;
}

// Sums of matched pairs (p of the source, q of the target), from which the pose of least squares follows.
struct Pairs {
    double count = 0, p[3] = {}, q[3] = {}, pq[9] = {};

    void add(const double* a, const double* b) {
        count += 1;
        for (int i = 0; i < 3; i++) {
            p[i] += a[i], q[i] += b[i];
            for (int j = 0; j < 3; j++) pq[3 * i + j] += a[i] * b[j];
        }
    }

    Pose solve() const {
        double s[9], R[9];
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) s[3 * i + j] = pq[3 * i + j] - p[i] * q[j] / count;
        horn(s, R);
        Pose pose;
        for (int i = 0; i < 3; i++) {
            for (int j = 0; j < 3; j++) pose.m[4 * i + j] = R[3 * i + j];
            pose.m[4 * i + 3] = (q[i] - R[3 * i] * p[0] - R[3 * i + 1] * p[1] - R[3 * i + 2] * p[2]) / count;
        }
        return pose;
    }
};

// Queries of both clouds, and the trees of both in which they are searched.
struct Pair {
    const Tree &source, &target;
    const double *source_queries, *target_queries;
    int64_t source_count, target_count;
};

Pose refine(const Pair& pair, Pose pose, double keep, double first, double last, int64_t steps, double tolerance) {
    Matches there(pair.source_count), back(pair.target_count);
    std::vector<double> scratch;
    double previous = std::numeric_limits<double>::infinity();
    const bool shrinks = first != last;
    for (int64_t step = 0; step < steps; step++) {
        const double passed = static_cast<double>(step) / static_cast<double>(std::max<int64_t>(steps - 1, 1));
        const double limit = shrinks ? first + (last - first) * passed : first;
        there.update(pair.target, pair.source_queries, pose);
        back.update(pair.source, pair.target_queries, pose.inverse());
        Pairs sums;
        double total[2] = {}, kept[2] = {};
        const double most[2] = {there.threshold(keep, limit, scratch), back.threshold(keep, limit, scratch)};
        for (int64_t i = 0; i < pair.source_count; i++)
            if (there.squared[i] <= most[0]) {
                sums.add(pair.source_queries + 3 * i, &pair.target.points[3 * pair.target.row[there.place[i]]]);
                total[0] += std::sqrt(there.squared[i]), kept[0] += 1;
            }
        for (int64_t i = 0; i < pair.target_count; i++)
            if (back.squared[i] <= most[1]) {
                sums.add(&pair.source.points[3 * pair.source.row[back.place[i]]], pair.target_queries + 3 * i);
                total[1] += std::sqrt(back.squared[i]), kept[1] += 1;
            }
        if (sums.count < 3) break;
        pose = sums.solve();
        const double mean = (kept[0] ? total[0] / kept[0] : 0) + (kept[1] ? total[1] / kept[1] : 0);
        if (!shrinks && previous - mean < tolerance * mean) break;
        previous = mean;
    }
    return pose;
}

double trimmed_mean(const Matches& matches, double keep) {
    const int64_t kept = matches.count(keep);
    std::vector<double> values = matches.squared;
    std::nth_element(values.begin(), values.begin() + (kept - 1), values.end());
    double sum = 0;
    for (int64_t i = 0; i < kept; i++) sum += values[i];
    return sum / static_cast<double>(kept);
}

double truncated_mean(const Matches& matches, double limit) {
    double sum = 0;
    for (double value : matches.squared) sum += std::min(value / (limit * limit), 1.0);
    return sum / static_cast<double>(matches.squared.size());
}

// Depth map (cells, cells), x fastest, of what one camera saw along z: the least depth near each column, infinite where it saw
// nothing, so that no surface can be there.
struct View {
    const float* depth;
    int32_t cells;
    float half;
};

inline int32_t cell_of(float value, float half, float per_cell, int32_t cells) {
    const int32_t cell = static_cast<int32_t>(std::floor((value + half) * per_cell + 0.5f));
    return std::min(std::max(cell, 0), cells - 1);
}

// Residual of the queries near the cloud, share of those that are not and hidden from the camera, and of those it would have seen.
void explain(const Tree& tree, const View& view, const double* queries, int64_t n, const Pose& pose, double limit, double* out) {
    Matches matches(n);
    matches.update(tree, queries, pose);
    const float per_cell = static_cast<float>(view.cells - 1) / (2 * view.half);
    double sums[3] = {};
    for (int64_t i = 0; i < n; i++) {
        if (matches.squared[i] < limit * limit) {
            sums[0] += matches.squared[i] / (limit * limit);
            continue;
        }
        double moved[3];
        pose.apply(queries + 3 * i, moved);
        const int32_t x = cell_of(static_cast<float>(moved[0]), view.half, per_cell, view.cells);
        const int32_t y = cell_of(static_cast<float>(moved[1]), view.half, per_cell, view.cells);
        sums[static_cast<float>(moved[2]) < view.depth[y * view.cells + x] ? 2 : 1] += 1;
    }
    for (int k = 0; k < 3; k++) out[k] = sums[k] / static_cast<double>(n);
}

}  // namespace

extern "C" {

void* search_tree(const double* cloud, int64_t n) { return new Tree(cloud, n); }

void search_free(void* tree) { delete static_cast<Tree*>(tree); }

// Distances of queries (n, 3) to the nearest points.
void search_distances(const void* handle, const double* queries, int64_t n, int threads, double* distances) {
    const Tree& tree = *static_cast<const Tree*>(handle);
    constexpr int64_t PART = 256;
    parallel((n + PART - 1) / PART, threads, 1, [&](int64_t part) {
        int32_t start = tree.place[0];
        for (int64_t i = part * PART; i < std::min(n, (part + 1) * PART); i++) {
            const double* q = queries + 3 * i;
            const float rounded[3] = {static_cast<float>(q[0]), static_cast<float>(q[1]), static_cast<float>(q[2])};
            start = tree.nearest(rounded, start);
            const double* p = &tree.points[3 * tree.row[start]];
            const double dx = p[0] - q[0], dy = p[1] - q[1], dz = p[2] - q[2];
            distances[i] = std::sqrt(dx * dx + dy * dy + dz * dz);
        }
    });
}

// Penalties (cells, cells, cells), x fastest: min(d / cap, 1)^2 in 255 steps, of the distance d from a cell's centre to the cloud.
void search_field(const void* handle, int32_t cells, float half, float cap, int threads, uint8_t* field) {
    const Tree& tree = *static_cast<const Tree*>(handle);
    const float step = 2 * half / static_cast<float>(cells - 1);
    parallel(cells, threads, 1, [&](int64_t k) {
        int32_t start = tree.place[0];
        for (int32_t j = 0; j < cells; j++)
            for (int32_t i = 0; i < cells; i++) {
                const float q[3] = {i * step - half, j * step - half, static_cast<float>(k) * step - half};
                start = tree.nearest(q, start);
                const float ratio = std::min(tree.squared(start, q) / (cap * cap), 1.0f);
                field[(k * cells + j) * cells + i] = static_cast<uint8_t>(ratio * 255 + 0.5f);
            }
    });
}

// Sum of the penalties at the points (n, 3) moved by each pose (count, 3, 4).
void search_scores(const uint8_t* field, int32_t cells, float half, const float* points, int64_t n, const float* poses,
                   int64_t count, int threads, int32_t* scores) {
    const float per_cell = static_cast<float>(cells - 1) / (2 * half);
    parallel(count, threads, 64, [&](int64_t k) {
        const float* m = poses + 12 * k;
        int32_t sum = 0;
        for (int64_t i = 0; i < n; i++) {
            const float* p = points + 3 * i;
            int32_t at[3];
            for (int a = 0; a < 3; a++)
                at[a] = cell_of(m[4 * a] * p[0] + m[4 * a + 1] * p[1] + m[4 * a + 2] * p[2] + m[4 * a + 3], half, per_cell, cells);
            sum += field[(at[2] * cells + at[1]) * cells + at[0]];
        }
        scores[k] = sum;
    });
}

// Best translation of each rotation (count, 3, 3) in each block of a cube of ROW^3 translations by whole cells, -ROW/2 to
// ROW/2 - 1: sums of penalties (count, BLOCKS) and translations in cells (count, BLOCKS, 3). At most 257 points. Moved points
// must stay ROW/2 cells from the border; others are clamped to that.
void search_sweep(const uint8_t* field, int32_t cells, float half, const float* points, int64_t n, const float* rotations,
                  int64_t count, int threads, int32_t* scores, int32_t* shifts) {
    const float per_cell = static_cast<float>(cells - 1) / (2 * half);
    const int32_t low = ROW / 2, high = cells - ROW / 2;
    parallel(count, threads, 8, [&](int64_t k) {
        const float* m = rotations + 9 * k;
        std::vector<const uint8_t*> corner(n);
        for (int64_t i = 0; i < n; i++) {
            const float* p = points + 3 * i;
            int32_t at[3];
            for (int a = 0; a < 3; a++) {
                at[a] = cell_of(m[3 * a] * p[0] + m[3 * a + 1] * p[1] + m[3 * a + 2] * p[2], half, per_cell, cells);
                at[a] = std::min(std::max(at[a], low), high) - low;
            }
            corner[i] = field + (at[2] * cells + at[1]) * cells + at[0];
        }
        int32_t* best = scores + BLOCKS * k;
        int32_t* where = shifts + 3 * BLOCKS * k;
        for (int b = 0; b < BLOCKS; b++) best[b] = std::numeric_limits<int32_t>::max();
        for (int32_t z = 0; z < ROW; z++)
            for (int32_t y = 0; y < ROW; y++) {
                Sums sums = {};
                const int64_t offset = (z * cells + y) * cells;
                for (int64_t i = 0; i < n; i++) {
                    Bytes row;
                    std::memcpy(&row, corner[i] + offset, sizeof row);
                    sums += __builtin_convertvector(row, Sums);
                }
                for (int32_t x = 0; x < ROW; x++) {
                    const int b = x / BLOCK + ROW / BLOCK * (y / BLOCK + ROW / BLOCK * (z / BLOCK));
                    if (sums[x] < best[b]) {
                        best[b] = sums[x];
                        where[3 * b] = x - low, where[3 * b + 1] = y - low, where[3 * b + 2] = z - low;
                    }
                }
            }
    });
}

// Rows of the first `most` poses (count, 3, 4) unlike all before: with a trace of the relative rotation of at most `trace`, or a
// squared distance of translations of at least `squared`. Returns their number.
int64_t search_separate(const double* poses, int64_t count, int64_t most, double trace, double squared, int64_t* rows) {
    int64_t chosen = 0;
    for (int64_t k = 0; k < count && chosen < most; k++) {
        const double* a = poses + 12 * k;
        const bool unlike = std::all_of(rows, rows + chosen, [&](int64_t row) {
            const double* b = poses + 12 * row;
            const double x = a[3] - b[3], y = a[7] - b[7], z = a[11] - b[11];
            if (!(x * x + y * y + z * z < squared)) return true;
            double sum = 0;
            for (int i = 0; i < 3; i++) sum += a[4 * i] * b[4 * i] + a[4 * i + 1] * b[4 * i + 1] + a[4 * i + 2] * b[4 * i + 2];
            return !(sum > trace);
        });
        if (unlike) rows[chosen++] = k;
    }
    return chosen;
}

// Refine poses (count, 3, 4) in place, see methods/geometry/search.py.
void search_refine(const void* source, const void* target, const double* source_queries, int64_t source_count,
                   const double* target_queries, int64_t target_count, double keep, double first, double last, int64_t steps,
                   double tolerance, double* poses, int64_t count, int threads) {
    const Pair pair{*static_cast<const Tree*>(source), *static_cast<const Tree*>(target), source_queries, target_queries,
                    source_count, target_count};
    parallel(count, threads, 1, [&](int64_t k) {
        Pose pose;
        std::memcpy(pose.m, poses + 12 * k, sizeof pose.m);
        pose = refine(pair, pose, keep, first, last, steps, tolerance);
        std::memcpy(poses + 12 * k, pose.m, sizeof pose.m);
    });
}

// Fits (count, 2, 2) of poses (count, 3, 4): trimmed and truncated means from source to target, and back.
void search_fits(const void* source, const void* target, const double* source_queries, int64_t source_count,
                 const double* target_queries, int64_t target_count, double keep, double limit, const double* poses,
                 int64_t count, int threads, double* fits) {
    const Tree &a = *static_cast<const Tree*>(source), &b = *static_cast<const Tree*>(target);
    parallel(count, threads, 1, [&](int64_t k) {
        Pose pose;
        std::memcpy(pose.m, poses + 12 * k, sizeof pose.m);
        Matches there(source_count), back(target_count);
        there.update(b, source_queries, pose);
        back.update(a, target_queries, pose.inverse());
        const double values[4] = {trimmed_mean(there, keep), truncated_mean(there, limit), trimmed_mean(back, keep),
                                  truncated_mean(back, limit)};
        std::memcpy(fits + 4 * k, values, sizeof values);
    });
}

// How both cameras explain poses (count, 3, 4), from source to target and back (count, 2, 3), see methods/geometry/search.py.
void search_views(const void* source, const void* target, const double* source_queries, int64_t source_count,
                  const double* target_queries, int64_t target_count, const float* source_depth, const float* target_depth,
                  int32_t cells, float half, double limit, const double* poses, int64_t count, int threads, double* shares) {
    const Tree &a = *static_cast<const Tree*>(source), &b = *static_cast<const Tree*>(target);
    const View from_source{source_depth, cells, half}, from_target{target_depth, cells, half};
    parallel(count, threads, 1, [&](int64_t k) {
        Pose pose;
        std::memcpy(pose.m, poses + 12 * k, sizeof pose.m);
        explain(b, from_target, source_queries, source_count, pose, limit, shares + 6 * k);
        explain(a, from_source, target_queries, target_count, pose.inverse(), limit, shares + 6 * k + 3);
    });
}
}
