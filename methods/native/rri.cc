// Rotation-invariant features of a cloud in one pass: a k-d tree, the k nearest other points of each point, four numbers for
// each. What `methods/nn/rri.py` does with SciPy and torch, and says what the numbers are; this is for float32 on a CPU. The
// caller sees to it that coordinates are finite and that their squares neither overflow nor vanish.

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

constexpr int MOST = 64;                   // neighbours
constexpr int WIDE = VECTOR / 4;           // float32 in a vector
constexpr int LEAF = 16;                   // points, at most; whole vectors
constexpr int BOXES = 64;                  // looked at together
constexpr int CLOSE = 16;                  // leaves looked at together
constexpr int ROOM = 16;                   // numbers that may be read after the last
constexpr int HELD = MOST + CLOSE * LEAF;  // candidates at once
constexpr float SLACK = 1.0001f;           // for rounding
constexpr float PI = 3.14159265358979f;
constexpr float NOWHERE = std::numeric_limits<float>::infinity();  // no bound lets it in
constexpr float ANYWHERE = std::numeric_limits<float>::max();      // a bound that lets in all but NOWHERE

typedef float Floats __attribute__((vector_size(VECTOR)));
typedef int32_t Ints __attribute__((vector_size(VECTOR)));

INLINE Ints lanes(int first) {  // first, first + 1, …
    Ints counted;
    for (int i = 0; i < WIDE; ++i) counted[i] = i;
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

INLINE int whole(int count) { return (count + WIDE - 1) / WIDE * WIDE; }

// Where in whole vectors the values are that a bound lets in, in order; how many. No branch to be guessed wrong.
INLINE int choose(const float* values, int count, float bound, int32_t* places) {
    int chosen = 0;
#ifdef __AVX512F__
    for (int i = 0; i < count; i += WIDE) {
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

// Points in the order of the tree, by coordinates; x, y, z, norm, each n long, with LEAF numbers of no meaning after the last.
// Node i has children 2 i and 2 i + 1; the nodes of the last level are leaves, with equal shares of the points.
struct Tree {
    const float *x, *y, *z, *norm;
    float* boxes;  // by side: the lower x, y, z, then the upper x, y, z of each node, each with ROOM numbers after the last
    int64_t n;
    int levels;

    int64_t leaves() const { return int64_t{1} << levels; }
    int64_t edge(int64_t leaf) const { return n * leaf >> levels; }
    float* side(int which) const { return boxes + which * (2 * leaves() + ROOM); }
};

// Squared distances from one box to boxes first … first + count - 1, given by side, in whole vectors.
INLINE void squares(const float* const* sides, int64_t first, int count, const float* box, float* into) {
    for (int i = 0; i < count; i += WIDE) {
        Floats sum = {};
        for (int side = 0; side < 3; ++side) {
            const Floats below = load(sides[side] + first + i) - box[side + 3];
            const Floats above = box[side] - load(sides[side + 3] + first + i);
            const Floats apart = below > above ? below : above;
            sum += apart > 0.0f ? apart * apart : Floats{};
        }
        store(lanes(i) < count ? sum : Floats{} + NOWHERE, into + i);
    }
}

// Leaves in the order of the tree, and their boxes by side.
struct Leaves {
    int count = 0;
    std::vector<int32_t> starts, sizes;
    std::vector<float> sides[6];

    void add(const Tree& t, int64_t leaf) {
        if (count == static_cast<int>(starts.size())) {
            starts.resize(2 * count + BOXES), sizes.resize(2 * count + BOXES);
            for (auto& side : sides) side.resize(2 * count + BOXES + WIDE);
        }
        for (int side = 0; side < 6; ++side) sides[side][count] = t.side(side)[t.leaves() + leaf];
        starts[count] = static_cast<int32_t>(t.edge(leaf));
        sizes[count++] = static_cast<int32_t>(t.edge(leaf + 1) - t.edge(leaf));
    }

    // Those near a box, found by all nodes a few levels up and all leaves below the near ones: fewer steps than a descent.
    INLINE void collect(const Tree& t, const float* box, float bound) {
        const float* all[6];
        for (int side = 0; side < 6; ++side) all[side] = t.side(side);
        const int down = std::min(t.levels, 6), below = 1 << down;
        const int64_t nodes = t.leaves() >> down;
        float apart[BOXES];
        int32_t high[BOXES + WIDE], low[BOXES + WIDE];
        count = 0;
        for (int64_t first = 0; first < nodes; first += BOXES) {
            const int some = static_cast<int>(std::min<int64_t>(BOXES, nodes - first));
            squares(all, nodes + first, some, box, apart);
            const int chosen = choose(apart, whole(some), bound, high);
            for (int i = 0; i < chosen; ++i) {
                const int64_t from = (first + high[i]) * below;
                squares(all, t.leaves() + from, below, box, apart);
                const int near = choose(apart, whole(below), bound, low);
                for (int j = 0; j < near; ++j) add(t, from + low[j]);
            }
        }
    }
};

// Candidates for the k nearest: after `shrink` the nearest so far, nearest first, then more in the order of the tree.
struct Found {
    int k, count;
    float squared[HELD + WIDE];
    int32_t place[HELD + WIDE];

    float reach() const { return squared[k - 1]; }

    // Keep the k nearest; of equally near ones the first in the tree. A rank is a count of nearer ones: a hundred or two
    // comparisons of vectors, and no branch to be guessed wrong.
    INLINE void shrink() {
        float sorted[HELD + WIDE];
        int32_t from[HELD + WIDE];
        Ints sum = {};
        std::fill_n(squared + count, WIDE, NOWHERE);
        for (int first = 0; first < count; first += WIDE) {
            const Floats here = load(squared + first);
            Ints rank = {};
            for (int j = 0; j < count; ++j) rank -= squared[j] < here;
            sum += rank;
            for (int i = 0; i < WIDE; ++i) {
                sorted[rank[i]] = squared[first + i];
                from[rank[i]] = place[first + i];
            }
        }
        int total = 0;
        for (int i = 0; i < WIDE; ++i) total += sum[i];
        if (total != count * (count - 1) / 2 + (whole(count) - count) * count) sort(sorted, from);  // some are equally near
        count = std::min(count, k);
        std::copy_n(sorted, count, squared), std::copy_n(from, count, place);
    }

    void sort(float* sorted, int32_t* from) const {
        int order[HELD];
        std::iota(order, order + count, 0);
        std::stable_sort(order, order + count, [this](int i, int j) { return squared[i] < squared[j]; });
        for (int i = 0; i < count; ++i) sorted[i] = squared[order[i]], from[i] = place[order[i]];
    }

    // Add the points of some leaves that a bound on the squared distance lets in, but not the point itself.
    INLINE void add(const Tree& t, const Leaves& leaves, const int32_t* which, int some, int32_t self, float bound) {
        float apart[CLOSE * LEAF];
        int32_t places[CLOSE * LEAF], chosen[CLOSE * LEAF + WIDE];
        for (int i = 0; i < some; ++i) {
            const int32_t start = leaves.starts[which[i]], end = start + leaves.sizes[which[i]];
            for (int j = 0; j < LEAF; j += WIDE) {
                const Ints at = lanes(start + j);
                const Floats x = load(t.x + start + j) - t.x[self], y = load(t.y + start + j) - t.y[self],
                             z = load(t.z + start + j) - t.z[self];
                store((at < end) & (at != self) ? x * x + y * y + z * z : Floats{} + NOWHERE, apart + i * LEAF + j);
                store(at, places + i * LEAF + j);
            }
        }
        const int more = choose(apart, some * LEAF, bound, chosen);
        for (int i = 0; i < more; ++i) {
            squared[count + i] = apart[chosen[i]];
            place[count + i] = places[chosen[i]];
        }
        count += more;
    }
};

// The k nearest of a point in some leaves, as far as a bound on the squared distance lets them in.
INLINE void search(const Tree& t, const Leaves& leaves, int32_t self, float bound, Found& found) {
    const float point[6] = {t.x[self], t.y[self], t.z[self], t.x[self], t.y[self], t.z[self]};
    const float* sides[6];
    for (int side = 0; side < 6; ++side) sides[side] = leaves.sides[side].data();
    float apart[BOXES];
    int32_t close[BOXES + WIDE];
    found.count = 0;
    for (int first = 0; first < leaves.count; first += BOXES) {
        const int some = std::min(BOXES, leaves.count - first);
        squares(sides, first, some, point, apart);
        const int chosen = choose(apart, whole(some), bound, close);
        for (int i = 0; i < chosen; ++i) close[i] += first;
        for (int i = 0; i < chosen; i += CLOSE) {
            if (found.count > MOST) {
                found.shrink();
                bound = std::min(bound, std::nextafter(found.reach(), -1.0f));  // what is as near, but later, is not wanted
            }
            found.add(t, leaves, close + i, std::min(CLOSE, chosen - i), self, bound);
        }
    }
    found.shrink();
}

// Within 3e-7 of atan2: an odd polynomial of degree 17 on [0, 1] (least squares, reweighted), and the octant.
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

// The angle from each azimuth to the next one, where defined, else 0; of equal ones the later column is the next. All against
// all in vector registers takes less time than a sort at these k. Azimuths that are not defined are infinite: no one's next.
INLINE void gaps(const float* azimuth, int k, float* gap) {
    for (int first = 0; first < k; first += WIDE) {
        float from[WIDE], least[WIDE];
        std::copy_n(azimuth + first, WIDE, from);
        std::fill_n(least, WIDE, 2 * PI);
        for (int j = 0; j < k; ++j)
            for (int i = 0; i < WIDE; ++i) {
                const float turn = azimuth[j] - from[i], around = turn + 2 * PI;
                const float before = j > first + i ? -1e-30f : 0.0f;  // equal azimuths: the later column is ahead by nothing
                const float forward = turn > before ? turn : around;
                least[i] = forward < least[i] ? forward : least[i];
            }
        for (int i = 0; i < WIDE && first + i < k; ++i) gap[first + i] = std::isinf(from[i]) ? 0.0f : least[i];
    }
}

INLINE void describe(const Tree& t, int64_t self, const Found& found, float least, float* out) {
    const int k = found.k;
    const float radius = t.norm[self], over = 1.0f / std::max(radius, least);
    const float nx = t.x[self] * over, ny = t.y[self] * over, nz = t.z[self] * over;
    const float sign = nz < 0 ? -1.0f : 1.0f, a = -1.0f / (sign + nz), b = nx * ny * a;
    const float ux = 1 + sign * nx * nx * a, uy = sign * b, uz = -sign * nx;  // a frame of the normal (Duff et al. 2017)
    const float vx = b, vy = sign + ny * ny * a, vz = -ny;
    float qx[MOST] = {}, qy[MOST] = {}, qz[MOST] = {}, azimuth[MOST], angle[MOST];
    const int directed = radius > least;
    for (int j = 0; j < k; ++j) {
        const int32_t at = found.place[j];
        qx[j] = t.x[at], qy[j] = t.y[at], qz[j] = t.z[at];
        out[j] = radius;
        out[k + j] = t.norm[at];
    }
    for (int first = 0; first < k; first += WIDE)
        for (int j = first; j < first + WIDE; ++j) {
            const float along = qx[j] * nx + qy[j] * ny + qz[j] * nz;
            const float u = qx[j] * ux + qy[j] * uy + qz[j] * uz;
            const float v = qx[j] * vx + qy[j] * vy + qz[j] * vz;
            const float across = std::sqrt(u * u + v * v);
            angle[j] = directed ? angle_of(across, along) : 0.0f;
            azimuth[j] = directed && across > least ? angle_of(v, u) : std::numeric_limits<float>::infinity();
        }
    std::copy_n(angle, k, out + 2 * k);
    gaps(azimuth, k, out + 3 * k);
}

struct Point {
    float at[3];
    int32_t row;  // of the cloud
};

// Order the points first … last - 1, which are those of a node, by halves of the longest side of their box.
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

// Whatever a bound and rounding leave out of the k nearest is found without a bound.
INLINE void search_all(const Tree& t, int32_t self, Leaves& leaves, Found& found) {
    const float box[6] = {t.x[self], t.y[self], t.z[self], t.x[self], t.y[self], t.z[self]};
    leaves.collect(t, box, ANYWHERE);
    search(t, leaves, self, ANYWHERE, found);
}

// Write the features of the points begin … end - 1, which lie in one leaf. No point's neighbours are farther than those of
// another and the way there; those of the first are no farther than the nearest in the least node that is sure to hold k.
INLINE void describe_some(const Tree& t, const int32_t* own, int64_t leaf, int64_t begin, int64_t end, float least,
                          Leaves& leaves, Found& found, float* out) {
    const int k = found.k;
    int up = 0;
    while (up < t.levels && (t.n >> (t.levels - up)) <= k) ++up;
    leaves.count = 0;
    for (int64_t i = leaf >> up << up, last = i + (int64_t{1} << up); i < last; ++i) leaves.add(t, i);
    search(t, leaves, static_cast<int32_t>(begin), ANYWHERE, found);

    float reach[LEAF], farthest = 0, box[6];
    for (int64_t i = begin; i < end; ++i) farthest = std::max(farthest, distance(t, begin, i));
    for (int side = 0; side < 6; ++side) box[side] = t.side(side)[t.leaves() + leaf];
    reach[0] = std::sqrt(found.reach());
    const float all = (reach[0] + farthest) * SLACK;
    leaves.collect(t, box, all * all);
    for (int64_t self = begin; self < end; ++self) {
        float bound = reach[0] + distance(t, begin, self);
        for (int64_t i = begin + 1; i < self; ++i) bound = std::min(bound, reach[i - begin] + distance(t, i, self));
        search(t, leaves, static_cast<int32_t>(self), bound * SLACK * bound * SLACK, found);
        if (found.count < k) search_all(t, self, leaves, found);
        reach[self - begin] = std::sqrt(found.reach());
        describe(t, self, found, least, out + 4 * int64_t{k} * own[self]);
    }
}

}  // namespace

extern "C" {

// Levels of the tree of n points.
int rri_levels(int64_t n) {
    int levels = 0;
    while (((n - 1) >> levels) + 1 > LEAF) ++levels;
    return levels;
}

// From points (n, 3): planes (4, n) of x, y, z and norm in the order of the tree, with room for 16 numbers after them; own (n),
// the points' rows in the cloud; boxes (6, (2 << levels) + 16).
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
    std::fill_n(planes + 4 * n, LEAF, 0.0f);
}

// Features of the points begin … end - 1 of the tree, each to its own row of out (n, 4 k). 1 <= k <= 64, k < n < 2^31.
void rri_describe(const float* planes, const int32_t* own, float* boxes, int64_t n, int64_t begin, int64_t end, int k,
                  float least, float* out) {
    const Tree t{planes, planes + n, planes + 2 * n, planes + 3 * n, boxes, n, rri_levels(n)};
    Found found;
    found.k = k;
    Leaves leaves;
    for (int64_t leaf = begin * t.leaves() / n; leaf < t.leaves() && t.edge(leaf) < end; ++leaf) {
        const int64_t first = std::max(begin, t.edge(leaf)), last = std::min(end, t.edge(leaf + 1));
        if (first < last) describe_some(t, own, leaf, first, last, least, leaves, found, out);
    }
}
}
