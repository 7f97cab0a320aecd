// Compute rotation-invariant features of a cloud in float32 on a CPU: build a k-d tree, search the k nearest neighbours of each
// point, and write four numbers per neighbour. `methods/nn/rri.py` defines the numbers and computes them with SciPy and torch.
// Precondition: coordinates are finite, and their squares neither overflow nor underflow.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#ifdef __AVX512F__
#include <immintrin.h>
#endif
#if defined(__AVX512F__)
#define VECTOR 64
#elif defined(__AVX__)
#define VECTOR 32
#else
#define VECTOR 16
#endif

#define INLINE __attribute__((always_inline)) inline

namespace {

constexpr int MAX_NEIGHBOURS = 64;
constexpr int LANES = VECTOR / 4;  // float32 values per vector
constexpr int LEAF_POINTS = 16;    // maximum points of a leaf: a multiple of LANES
constexpr int BOX_BLOCK = 64;      // boxes tested together
constexpr int LEAF_BLOCK = 16;     // leaves whose points are tested together
constexpr int PADDING = 16;        // values that may be read after the end of an array
constexpr int MAX_CANDIDATES = MAX_NEIGHBOURS + LEAF_BLOCK * LEAF_POINTS;
constexpr float ROUNDING_SLACK = 1.0001f;
constexpr float PI = 3.14159265358979f;
constexpr float EXCLUDED = std::numeric_limits<float>::infinity();  // distance that no bound admits
constexpr float UNBOUNDED = std::numeric_limits<float>::max();      // bound that admits everything except EXCLUDED

typedef float Floats __attribute__((vector_size(VECTOR)));
typedef int32_t Ints __attribute__((vector_size(VECTOR)));

INLINE Ints lanes(int first) {  // first, first + 1, …
    Ints counted;
    for (int i = 0; i < LANES; ++i) counted[i] = i;
    return counted + first;
}

INLINE Floats load(const float* from) {
    Floats values;
    std::memcpy(&values, from, sizeof values);
    return values;
}

template <typename Vector, typename Number>
INLINE void store(const Vector& values, Number* into) {
    std::memcpy(into, &values, sizeof values);
}

INLINE int round_up(int count) { return (count + LANES - 1) / LANES * LANES; }

// Write the ascending indices of values within a bound and return their number. Without branches, none is mispredicted.
INLINE int select_within(const float* values, int count, float bound, int32_t* places) {
    int chosen = 0;
#ifdef __AVX512F__
    for (int i = 0; i < count; i += LANES) {
        const __mmask16 is = _mm512_cmp_ps_mask(_mm512_loadu_ps(values + i), _mm512_set1_ps(bound), _CMP_LE_OQ);
        _mm512_storeu_si512(places + chosen, _mm512_maskz_compress_epi32(is, reinterpret_cast<__m512i>(lanes(i))));
        chosen += __builtin_popcount(is);
    }
#else
    for (int i = 0; i < count; ++i) {
        places[chosen] = i;
        chosen += values[i] <= bound;
    }
#endif
    return chosen;
}

// A k-d tree in arrays: x, y, z and norm (n values each, then LEAF_POINTS of padding) in tree order. Node i has children 2 i and
// 2 i + 1; the nodes of the last level are leaves with equal shares of the points.
struct Tree {
    const float *x, *y, *z, *norm;
    float* boxes;  // lower x, y, z, then upper x, y, z of every node; each array ends with PADDING
    int64_t n;
    int levels;

    int64_t leaves() const { return int64_t{1} << levels; }
    int64_t edge(int64_t leaf) const { return n * leaf >> levels; }
    float* side(int which) const { return boxes + which * (2 * leaves() + PADDING); }
};

// Compute squared distances from one box to the boxes first … first + count - 1, in multiples of LANES.
INLINE void squared_box_distances(const float* const* sides, int64_t first, int count, const float* box, float* into) {
    for (int i = 0; i < count; i += LANES) {
        Floats sum = {};
        for (int side = 0; side < 3; ++side) {
            const Floats below = load(sides[side] + first + i) - box[side + 3];
            const Floats above = box[side] - load(sides[side + 3] + first + i);
            const Floats apart = below > above ? below : above;
            sum += apart > 0.0f ? apart * apart : Floats{};
        }
        store(lanes(i) < count ? sum : Floats{} + EXCLUDED, into + i);
    }
}

// Leaves in tree order with their boxes, one array per side.
struct Leaves {
    int count = 0;
    std::vector<int32_t> starts, sizes;
    std::vector<float> sides[6];

    void add(const Tree& t, int64_t leaf) {
        if (count == static_cast<int>(starts.size())) {
            starts.resize(2 * count + BOX_BLOCK), sizes.resize(2 * count + BOX_BLOCK);
            for (auto& side : sides) side.resize(2 * count + BOX_BLOCK + LANES);
        }
        for (int side = 0; side < 6; ++side) sides[side][count] = t.side(side)[t.leaves() + leaf];
        starts[count] = static_cast<int32_t>(t.edge(leaf));
        sizes[count++] = static_cast<int32_t>(t.edge(leaf + 1) - t.edge(leaf));
    }

    // Collect the leaves near a box: test all nodes a few levels above the leaves, then all leaves below the near ones. This
    // takes fewer steps than a descent from the root.
    INLINE void collect(const Tree& t, const float* box, float bound) {
        const float* all[6];
        for (int side = 0; side < 6; ++side) all[side] = t.side(side);
        const int down = std::min(t.levels, 6), below = 1 << down;
        const int64_t nodes = t.leaves() >> down;
        float apart[BOX_BLOCK];
        int32_t high[BOX_BLOCK + LANES], low[BOX_BLOCK + LANES];
        count = 0;
        for (int64_t first = 0; first < nodes; first += BOX_BLOCK) {
            const int some = static_cast<int>(std::min<int64_t>(BOX_BLOCK, nodes - first));
            squared_box_distances(all, nodes + first, some, box, apart);
            const int chosen = select_within(apart, round_up(some), bound, high);
            for (int i = 0; i < chosen; ++i) {
                const int64_t from = (first + high[i]) * below;
                squared_box_distances(all, t.leaves() + from, below, box, apart);
                const int near = select_within(apart, round_up(below), bound, low);
                for (int j = 0; j < near; ++j) add(t, from + low[j]);
            }
        }
    }
};

// Candidates for the k nearest neighbours: the nearest so far in ascending order after `shrink`, followed by new ones.
struct Neighbours {
    int k, count;
    float squared[MAX_CANDIDATES + LANES];
    int32_t place[MAX_CANDIDATES + LANES];

    float reach() const { return squared[k - 1]; }

    // Keep the k nearest; ties go to the first in the tree. The rank of a candidate is the number of nearer ones: one or two
    // hundred vector comparisons without branches.
    INLINE void shrink() {
        float sorted[MAX_CANDIDATES + LANES];
        int32_t from[MAX_CANDIDATES + LANES];
        Ints sum = {};
        std::fill_n(squared + count, LANES, EXCLUDED);
        for (int first = 0; first < count; first += LANES) {
            const Floats here = load(squared + first);
            Ints rank = {};
            for (int j = 0; j < count; ++j) rank -= squared[j] < here;
            sum += rank;
            for (int i = 0; i < LANES; ++i) {
                sorted[rank[i]] = squared[first + i];
                from[rank[i]] = place[first + i];
            }
        }
        int total = 0;
        for (int i = 0; i < LANES; ++i) total += sum[i];
        if (total != count * (count - 1) / 2 + (round_up(count) - count) * count) sort(sorted, from);  // ties
        count = std::min(count, k);
        std::copy_n(sorted, count, squared), std::copy_n(from, count, place);
    }

    void sort(float* sorted, int32_t* from) const {
        int order[MAX_CANDIDATES];
        std::iota(order, order + count, 0);
        std::stable_sort(order, order + count, [this](int i, int j) { return squared[i] < squared[j]; });
        for (int i = 0; i < count; ++i) sorted[i] = squared[order[i]], from[i] = place[order[i]];
    }

    // Add the points of some leaves within a bound on the squared distance, except the point itself.
    INLINE void add(const Tree& t, const Leaves& leaves, const int32_t* which, int some, int32_t self, float bound) {
        float apart[LEAF_BLOCK * LEAF_POINTS];
        int32_t places[LEAF_BLOCK * LEAF_POINTS], chosen[LEAF_BLOCK * LEAF_POINTS + LANES];
        for (int i = 0; i < some; ++i) {
            const int32_t start = leaves.starts[which[i]], end = start + leaves.sizes[which[i]];
            for (int j = 0; j < LEAF_POINTS; j += LANES) {
                const Ints at = lanes(start + j);
                const Floats x = load(t.x + start + j) - t.x[self], y = load(t.y + start + j) - t.y[self],
                             z = load(t.z + start + j) - t.z[self];
                store((at < end) & (at != self) ? x * x + y * y + z * z : Floats{} + EXCLUDED, apart + i * LEAF_POINTS + j);
                store(at, places + i * LEAF_POINTS + j);
            }
        }
        const int more = select_within(apart, some * LEAF_POINTS, bound, chosen);
        for (int i = 0; i < more; ++i) {
            squared[count + i] = apart[chosen[i]];
            place[count + i] = places[chosen[i]];
        }
        count += more;
    }
};

// Find the k nearest neighbours of a point in some leaves, within a bound on the squared distance.
INLINE void search(const Tree& t, const Leaves& leaves, int32_t self, float bound, Neighbours& nearest) {
    const float point[6] = {t.x[self], t.y[self], t.z[self], t.x[self], t.y[self], t.z[self]};
    const float* sides[6];
    for (int side = 0; side < 6; ++side) sides[side] = leaves.sides[side].data();
    float apart[BOX_BLOCK];
    int32_t close[BOX_BLOCK + LANES];
    nearest.count = 0;
    for (int first = 0; first < leaves.count; first += BOX_BLOCK) {
        const int some = std::min(BOX_BLOCK, leaves.count - first);
        squared_box_distances(sides, first, some, point, apart);
        const int chosen = select_within(apart, round_up(some), bound, close);
        for (int i = 0; i < chosen; ++i) close[i] += first;
        for (int i = 0; i < chosen; i += LEAF_BLOCK) {
            if (nearest.count > MAX_NEIGHBOURS) {
                nearest.shrink();
                bound = std::min(bound, std::nextafter(nearest.reach(), -1.0f));  // drop later ties
            }
            nearest.add(t, leaves, close + i, std::min(LEAF_BLOCK, chosen - i), self, bound);
        }
    }
    nearest.shrink();
}

// Approximate atan2 to 3e-7: an odd polynomial of degree 17 on [0, 1] (reweighted least squares), then the octant.
INLINE float angle_of(float y, float x) {
    const float ax = std::fabs(x), ay = std::fabs(y);
    const float large = std::max(ax, ay), small = std::min(ax, ay);
    const float a = small / std::max(large, std::numeric_limits<float>::min()), s = a * a;
    float p = 0.002456720219925046f;
    p = p * s - 0.014401339925825596f;
    p = p * s + 0.03978119045495987f;
    p = p * s - 0.07234854251146317f;
    p = p * s + 0.1049894466996193f;
    p = p * s - 0.14161229133605957f;
    p = p * s + 0.19985906779766083f;
    p = p * s - 0.33332598209381104f;
    p = p * s + 0.9999998807907104f;
    float angle = a * p;
    angle = ay > ax ? PI / 2 - angle : angle;
    angle = x < 0 ? PI - angle : angle;
    return y < 0 ? -angle : angle;
}

// Compute the angle from each azimuth to the next larger one, 0 where undefined; of equal azimuths the later column is the next.
// Comparing all pairs in vector registers is faster than sorting at these k. Undefined azimuths are infinite and never next.
INLINE void azimuth_gaps(const float* azimuth, int k, float* gap) {
    for (int first = 0; first < k; first += LANES) {
        float from[LANES], least[LANES];
        std::copy_n(azimuth + first, LANES, from);
        std::fill_n(least, LANES, 2 * PI);
        for (int j = 0; j < k; ++j)
            for (int i = 0; i < LANES; ++i) {
                const float turn = azimuth[j] - from[i], around = turn + 2 * PI;
                const float before = j > first + i ? -1e-30f : 0.0f;  // equal azimuths: the later column is ahead by 0
                const float forward = turn > before ? turn : around;
                least[i] = forward < least[i] ? forward : least[i];
            }
        for (int i = 0; i < LANES && first + i < k; ++i) gap[first + i] = std::isinf(from[i]) ? 0.0f : least[i];
    }
}

INLINE void describe_point(const Tree& t, int64_t self, const Neighbours& nearest, float least, float* out) {
    const int k = nearest.k;
    const float radius = t.norm[self], over = 1.0f / std::max(radius, least);
    const float nx = t.x[self] * over, ny = t.y[self] * over, nz = t.z[self] * over;
    const float sign = nz < 0 ? -1.0f : 1.0f, a = -1.0f / (sign + nz), b = nx * ny * a;
    const float ux = 1 + sign * nx * nx * a, uy = sign * b, uz = -sign * nx;  // orthonormal frame (Duff et al. 2017)
    const float vx = b, vy = sign + ny * ny * a, vz = -ny;
    float qx[MAX_NEIGHBOURS] = {}, qy[MAX_NEIGHBOURS] = {}, qz[MAX_NEIGHBOURS] = {};
    float azimuth[MAX_NEIGHBOURS], angle[MAX_NEIGHBOURS];
    const int directed = radius > least;
    for (int j = 0; j < k; ++j) {
        const int32_t at = nearest.place[j];
        qx[j] = t.x[at], qy[j] = t.y[at], qz[j] = t.z[at];
        out[j] = radius;
        out[k + j] = t.norm[at];
    }
    for (int first = 0; first < k; first += LANES)
        for (int j = first; j < first + LANES; ++j) {
            const float along = qx[j] * nx + qy[j] * ny + qz[j] * nz;
            const float u = qx[j] * ux + qy[j] * uy + qz[j] * uz;
            const float v = qx[j] * vx + qy[j] * vy + qz[j] * vz;
            const float across = std::sqrt(u * u + v * v);
            angle[j] = directed ? angle_of(across, along) : 0.0f;
            azimuth[j] = directed && across > least ? angle_of(v, u) : std::numeric_limits<float>::infinity();
        }
    std::copy_n(angle, k, out + 2 * k);
    azimuth_gaps(azimuth, k, out + 3 * k);
}

struct Point {
    float at[3];
    int32_t row;  // of the cloud
};

// Split the points first … last - 1 of a node recursively at the median of the longest side of their box.
void split(Point* points, int64_t first, int64_t last, const Tree& t, int64_t node, int level) {
    int axis = 0;
    float longest = -1;
    for (int side = 0; side < 3; ++side) {
        float low = points[first].at[side], high = low;
        for (int64_t i = first + 1; i < last; ++i) {
            low = std::min(low, points[i].at[side]), high = std::max(high, points[i].at[side]);
        }
        t.side(side)[node] = low, t.side(side + 3)[node] = high;
        if (high - low > longest) longest = high - low, axis = side;
    }
    if (level == t.levels) return;
    const int64_t right = (2 * node + 1) << (t.levels - level - 1);  // its first leaf
    const int64_t middle = t.edge(right - t.leaves());
    std::nth_element(points + first, points + middle, points + last,
                     [axis](const Point& a, const Point& b) { return a.at[axis] < b.at[axis]; });
    split(points, first, middle, t, 2 * node, level + 1);
    split(points, middle, last, t, 2 * node + 1, level + 1);
}

INLINE float distance(const Tree& t, int64_t i, int64_t j) {
    const float x = t.x[i] - t.x[j], y = t.y[i] - t.y[j], z = t.z[i] - t.z[j];
    return std::sqrt(x * x + y * y + z * z);
}

// Search without a bound, in case rounding excluded a neighbour.
INLINE void search_all(const Tree& t, int32_t self, Leaves& leaves, Neighbours& nearest) {
    const float box[6] = {t.x[self], t.y[self], t.z[self], t.x[self], t.y[self], t.z[self]};
    leaves.collect(t, box, UNBOUNDED);
    search(t, leaves, self, UNBOUNDED, nearest);
}

// Write the features of the points begin … end - 1 of one leaf. Bounds follow from the triangle inequality: the k-th neighbour of
// a point is no farther than that of another point plus the distance between them. The first point's bound comes from the
// smallest node around it that contains more than k points.
INLINE void describe_block(const Tree& t, const int32_t* own, int64_t leaf, int64_t begin, int64_t end, float least,
                          Leaves& leaves, Neighbours& nearest, float* out) {
    const int k = nearest.k;
    int up = 0;
    while (up < t.levels && (t.n >> (t.levels - up)) <= k) ++up;
    leaves.count = 0;
    for (int64_t i = leaf >> up << up, last = i + (int64_t{1} << up); i < last; ++i) leaves.add(t, i);
    search(t, leaves, static_cast<int32_t>(begin), UNBOUNDED, nearest);

    float reach[LEAF_POINTS], farthest = 0, box[6];
    for (int64_t i = begin; i < end; ++i) farthest = std::max(farthest, distance(t, begin, i));
    for (int side = 0; side < 6; ++side) box[side] = t.side(side)[t.leaves() + leaf];
    reach[0] = std::sqrt(nearest.reach());
    const float all = (reach[0] + farthest) * ROUNDING_SLACK;
    leaves.collect(t, box, all * all);
    for (int64_t self = begin; self < end; ++self) {
        float bound = reach[0] + distance(t, begin, self);
        for (int64_t i = begin + 1; i < self; ++i) bound = std::min(bound, reach[i - begin] + distance(t, i, self));
        search(t, leaves, static_cast<int32_t>(self), bound * ROUNDING_SLACK * bound * ROUNDING_SLACK, nearest);
        if (nearest.count < k) search_all(t, self, leaves, nearest);
        reach[self - begin] = std::sqrt(nearest.reach());
        describe_point(t, self, nearest, least, out + 4 * int64_t{k} * own[self]);
    }
}

}  // namespace

extern "C" {

// Return the number of levels of the tree of n points.
int rri_levels(int64_t n) {
    int levels = 0;
    while (((n - 1) >> levels) + 1 > LEAF_POINTS) ++levels;
    return levels;
}

// Build the tree of points xyz (n, 3). Outputs: planes (4, n) with x, y, z, norm in tree order, followed by 16 values of padding;
// own (n), the row of each point in the cloud; boxes (6, (2 << levels) + 16).
void rri_build(const float* xyz, int64_t n, float* planes, int32_t* own, float* boxes) {
    const Tree t{planes, planes + n, planes + 2 * n, planes + 3 * n, boxes, n, rri_levels(n)};
    std::vector<Point> points(n);
    for (int64_t i = 0; i < n; ++i) points[i] = {{xyz[3 * i], xyz[3 * i + 1], xyz[3 * i + 2]}, static_cast<int32_t>(i)};
    split(points.data(), 0, n, t, 1, 0);
    for (int64_t i = 0; i < n; ++i) {
        const auto& [at, row] = points[i];
        for (int side = 0; side < 3; ++side) planes[side * n + i] = at[side];
        planes[3 * n + i] = std::sqrt(at[0] * at[0] + at[1] * at[1] + at[2] * at[2]);
        own[i] = row;
    }
    std::fill_n(planes + 4 * n, LEAF_POINTS, 0.0f);
}

// Write the features of the tree's points begin … end - 1 to their rows of out (n, 4 k). 1 <= k <= 64, k < n < 2^31.
void rri_describe(const float* planes, const int32_t* own, float* boxes, int64_t n, int64_t begin, int64_t end, int k,
                  float least, float* out) {
    const Tree t{planes, planes + n, planes + 2 * n, planes + 3 * n, boxes, n, rri_levels(n)};
    Neighbours nearest;
    nearest.k = k;
    Leaves leaves;
    for (int64_t leaf = begin * t.leaves() / n; leaf < t.leaves() && t.edge(leaf) < end; ++leaf) {
        const int64_t first = std::max(begin, t.edge(leaf)), last = std::min(end, t.edge(leaf + 1));
        if (first < last) describe_block(t, own, leaf, first, last, least, leaves, nearest, out);
    }
}
}
