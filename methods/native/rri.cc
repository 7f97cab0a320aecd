// Rotation-invariant features of a cloud in one pass: a k-d tree, the k nearest other points of each point, four numbers for
// each. What `methods/nn/rri.py` does with SciPy and torch, and says what the numbers are; this is for float32 on a CPU. The
// caller sees to it that coordinates are finite and that their squares neither overflow nor vanish.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && __GNUC__ >= 12  // glibc picks the clone
#define CLONED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONED
#endif
#define INLINE static inline __attribute__((always_inline))

namespace {

constexpr int MOST = 64;   // neighbours
constexpr int LEAF = 32;   // points, at most
constexpr int WIDE = 16;   // numbers in the widest vector
constexpr int KEYS = 8;    // float64 in it
constexpr float PI = 3.14159265358979f;

// Points in the order of the tree, by coordinates; x, y, z, norm, each n long, with LEAF numbers of no meaning after the last.
// Node i has children 2 i and 2 i + 1; the nodes of the last level are leaves, with equal shares of the points.
struct Tree {
    const float *x, *y, *z, *norm;
    float* boxes;  // lower and upper corner of each node
    int64_t n;
    int levels;

    int64_t edge(int64_t leaf) const { return n * leaf >> levels; }
};

// The k nearest so far, nearest first, after one key less than all. A key is a squared distance and a place in the tree, a total
// order: the bits of the float32, then the place. Read as float64 they have the same order, and vectors have a least and a
// largest of those; ONE keeps them off the numbers next to zero, which a processor may take for zero.
struct Found {
    static constexpr uint64_t ONE = uint64_t{1} << 52, NOBODY = 0xffffffffu;

    double keys[1 + MOST + KEYS];
    int k;

    static double key_of(float squared, uint64_t place) {
        uint32_t bits;
        std::memcpy(&bits, &squared, sizeof bits);
        const uint64_t whole = (static_cast<uint64_t>(bits) << 32 | place) + ONE;
        double key;
        std::memcpy(&key, &whole, sizeof key);
        return key;
    }
    uint64_t whole(int rank) const {
        uint64_t bits;
        std::memcpy(&bits, &keys[1 + rank], sizeof bits);
        return bits - ONE;
    }
    uint32_t place(int rank) const { return static_cast<uint32_t>(whole(rank)); }
    float reach() const {
        const uint32_t bits = static_cast<uint32_t>(whole(k - 1) >> 32);
        float value;
        std::memcpy(&value, &bits, sizeof value);
        return value;
    }
    void fill(float squared) {
        keys[0] = 0;
        std::fill_n(keys + 1, MOST + KEYS, key_of(squared, NOBODY));
    }
    bool complete() const { return place(k - 1) != NOBODY; }

    // Without a branch: each place keeps its key, or takes the new one, or the one before it.
    void insert(double key) {
        for (int first = (k - 1) / KEYS * KEYS; first >= 0; first -= KEYS) {
            double here[KEYS], before[KEYS];
            std::memcpy(here, keys + 1 + first, sizeof here);
            std::memcpy(before, keys + first, sizeof before);
            for (int i = 0; i < KEYS; ++i) here[i] = std::max(std::min(here[i], key), before[i]);
            std::memcpy(keys + 1 + first, here, sizeof here);
        }
    }
};

INLINE float square_to_box(const float* box, float px, float py, float pz) {
    const float dx = std::max(std::max(box[0] - px, px - box[3]), 0.0f);
    const float dy = std::max(std::max(box[1] - py, py - box[4]), 0.0f);
    const float dz = std::max(std::max(box[2] - pz, pz - box[5]), 0.0f);
    return dx * dx + dy * dy + dz * dz;
}

INLINE void scan(const Tree& t, int64_t leaf, int64_t self, Found& found) {
    const int64_t first = t.edge(leaf), count = t.edge(leaf + 1) - first;
    const float px = t.x[self], py = t.y[self], pz = t.z[self], reach = found.reach();
    float squared[LEAF];
    for (int i = 0; i < LEAF; ++i) {  // always as many: whole vectors
        const float dx = t.x[first + i] - px, dy = t.y[first + i] - py, dz = t.z[first + i] - pz;
        squared[i] = dx * dx + dy * dy + dz * dz;
    }
    int near[LEAF], some = 0;
    for (int i = 0; i < count; ++i) {  // no branch to be guessed wrong
        near[some] = i;
        some += squared[i] <= reach && first + i != self;
    }
    for (int i = 0; i < some; ++i) found.insert(Found::key_of(squared[near[i]], first + near[i]));
}

INLINE void search(const Tree& t, int64_t self, Found& found) {
    struct Waiting {
        int64_t node;
        float squared;
    } waiting[2 * 64];
    int count = 0;
    waiting[count++] = {1, 0.0f};
    const int64_t leaves = int64_t{1} << t.levels;
    while (count) {
        const Waiting next = waiting[--count];
        if (next.squared > found.reach()) continue;
        int64_t node = next.node;
        while (node < leaves) {
            const float a = square_to_box(t.boxes + 12 * node, t.x[self], t.y[self], t.z[self]);
            const float b = square_to_box(t.boxes + 12 * node + 6, t.x[self], t.y[self], t.z[self]);
            const int64_t nearer = 2 * node + (b < a);
            const float farther = std::max(a, b);
            if (farther <= found.reach()) waiting[count++] = {nearer ^ 1, farther};
            node = nearer;
        }
        scan(t, node - leaves, self, found);
    }
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
        const uint32_t at = found.place(j);
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

// Order the points first … last - 1, which are those of a node, by halves of the longest side of their box.
void split(const float* xyz, int32_t* own, int64_t first, int64_t last, Tree& t, int64_t node, int level) {
    float low[3], high[3];
    int axis = 0;
    for (int side = 0; side < 3; ++side) {
        low[side] = std::numeric_limits<float>::infinity(), high[side] = -low[side];
        for (int64_t i = first; i < last; ++i) {
            const float value = xyz[3 * int64_t{own[i]} + side];
            low[side] = std::min(low[side], value), high[side] = std::max(high[side], value);
        }
        if (high[side] - low[side] > high[axis] - low[axis]) axis = side;
    }
    std::copy_n(low, 3, t.boxes + 6 * node), std::copy_n(high, 3, t.boxes + 6 * node + 3);
    if (level == t.levels) return;
    const int64_t right = (2 * node + 1) << (t.levels - level - 1);  // its first leaf
    const int64_t middle = t.edge(right - (int64_t{1} << t.levels));
    std::nth_element(own + first, own + middle, own + last,
                     [=](int64_t i, int64_t j) { return xyz[3 * i + axis] < xyz[3 * j + axis]; });
    split(xyz, own, first, middle, t, 2 * node, level + 1);
    split(xyz, own, middle, last, t, 2 * node + 1, level + 1);
}

}  // namespace

extern "C" {

// Levels of the tree of n points; it has 2 << levels nodes.
int rri_levels(int64_t n) {
    int levels = 0;
    while ((n >> levels) + 1 > LEAF) ++levels;
    return levels;
}

// From points (n, 3): planes (4, n) of x, y, z and norm in the order of the tree, with room for 32 numbers after them; own (n),
// the points' rows in the cloud; boxes (2 << levels, 6).
void rri_build(const float* xyz, int64_t n, float* planes, int32_t* own, float* boxes) {
    Tree t{planes, planes + n, planes + 2 * n, planes + 3 * n, boxes, n, rri_levels(n)};
    std::iota(own, own + n, 0);
    split(xyz, own, 0, n, t, 1, 0);
    for (int64_t i = 0; i < n; ++i) {
        const float* p = xyz + 3 * int64_t{own[i]};
        planes[i] = p[0], planes[n + i] = p[1], planes[2 * n + i] = p[2];
        planes[3 * n + i] = std::sqrt(p[0] * p[0] + p[1] * p[1] + p[2] * p[2]);
    }
    std::fill_n(planes + 4 * n, LEAF, 0.0f);
}

// Features of the points begin … end - 1 of the tree, each to its own row of out (n, 4 k). 1 <= k <= 64, k < n.
CLONED void rri_describe(const float* planes, const int32_t* own, float* boxes, int64_t n, int64_t begin, int64_t end, int k,
                         float least, float* out) {
    const Tree t{planes, planes + n, planes + 2 * n, planes + 3 * n, boxes, n, rri_levels(n)};
    Found found;
    found.k = k;
    float bound = std::numeric_limits<float>::infinity();
    for (int64_t self = begin; self < end; ++self) {
        if (self > begin) {  // the neighbours of the last point and itself are no farther than this
            const float dx = t.x[self] - t.x[self - 1], dy = t.y[self] - t.y[self - 1], dz = t.z[self] - t.z[self - 1];
            bound = (std::sqrt(found.reach()) + std::sqrt(dx * dx + dy * dy + dz * dz)) * 1.0001f;
        }
        found.fill(bound * bound);
        search(t, self, found);
        if (!found.complete()) {  // rounding of tiny numbers
            found.fill(std::numeric_limits<float>::infinity());
            search(t, self, found);
        }
        describe(t, self, found, least, out + 4 * int64_t{k} * own[self]);
    }
}
}
