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
constexpr float PI = 3.14159265358979f;

// Points in the order of the tree, by coordinates; x, y, z, norm, each n long. `own` are their places in the cloud.
// Node i has children 2 i and 2 i + 1; the nodes of the last level are leaves, with equal shares of the points.
struct Tree {
    const float *x, *y, *z, *norm, *boxes;  // boxes: lower and upper corner of each node
    const int32_t* own;
    int64_t n;
    int levels;

    int64_t edge(int64_t leaf) const { return n * leaf >> levels; }
};

struct Found {
    uint64_t key[MOST];  // bits of the squared distance, then the place in the tree: a total order
    int k;

    float reach() const {
        const uint32_t bits = static_cast<uint32_t>(key[k - 1] >> 32);
        float value;
        std::memcpy(&value, &bits, sizeof value);
        return value;
    }
    void fill(float squared) {
        uint32_t bits;
        std::memcpy(&bits, &squared, sizeof bits);
        std::fill_n(key, k, static_cast<uint64_t>(bits) << 32 | 0xffffffffu);
    }
    bool complete() const { return static_cast<uint32_t>(key[k - 1]) != 0xffffffffu; }
};

INLINE float square_to_box(const float* box, float px, float py, float pz) {
    const float dx = std::max(std::max(box[0] - px, px - box[3]), 0.0f);
    const float dy = std::max(std::max(box[1] - py, py - box[4]), 0.0f);
    const float dz = std::max(std::max(box[2] - pz, pz - box[5]), 0.0f);
    return dx * dx + dy * dy + dz * dz;
}

INLINE void scan(const Tree& t, int64_t leaf, int64_t self, Found& found) {
    const int64_t first = t.edge(leaf), count = t.edge(leaf + 1) - first;
    const float px = t.x[self], py = t.y[self], pz = t.z[self];
    float squared[LEAF];  // loops over whole arrays become vector instructions
    for (int64_t i = 0; i < count; ++i) {
        const float dx = t.x[first + i] - px, dy = t.y[first + i] - py, dz = t.z[first + i] - pz;
        squared[i] = dx * dx + dy * dy + dz * dz;
    }
    float reach = found.reach();
    for (int64_t i = 0; i < count; ++i) {
        if (squared[i] > reach || first + i == self) continue;
        uint32_t bits;
        std::memcpy(&bits, &squared[i], sizeof bits);
        const uint64_t key = static_cast<uint64_t>(bits) << 32 | static_cast<uint32_t>(first + i);
        int at = found.k - 1;
        if (key >= found.key[at]) continue;
        for (; at > 0 && found.key[at - 1] > key; --at) found.key[at] = found.key[at - 1];
        found.key[at] = key;
        reach = found.reach();
    }
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
// all in vector registers takes less time than a sort at these k. The arrays have room for whole vectors.
INLINE void gaps(const float* azimuth, const int32_t* defined, int k, float* gap) {
    float least[MOST];
    for (int i = 0; i < MOST; ++i) least[i] = 2 * PI;
    const int padded = (k + WIDE - 1) / WIDE * WIDE;
    for (int j = 0; j < k; ++j) {
        if (!defined[j]) continue;
        const float to = azimuth[j];
        for (int i = 0; i < padded; ++i) {
            const float turn = to - azimuth[i], around = turn + 2 * PI;
            const float before = j > i ? -1e-30f : 0.0f;  // equal azimuths: the later column is ahead by nothing
            const float forward = turn > before ? turn : around;
            least[i] = forward < least[i] ? forward : least[i];
        }
    }
    for (int i = 0; i < k; ++i) gap[i] = defined[i] ? least[i] : 0.0f;
}

INLINE void describe(const Tree& t, int64_t self, const Found& found, float least, float* out) {
    const int k = found.k;
    const float radius = t.norm[self], over = 1.0f / std::max(radius, least);
    const float nx = t.x[self] * over, ny = t.y[self] * over, nz = t.z[self] * over;
    const float sign = nz < 0 ? -1.0f : 1.0f, a = -1.0f / (sign + nz), b = nx * ny * a;
    const float ux = 1 + sign * nx * nx * a, uy = sign * b, uz = -sign * nx;  // a frame of the normal (Duff et al. 2017)
    const float vx = b, vy = sign + ny * ny * a, vz = -ny;
    float qx[MOST] = {}, qy[MOST] = {}, qz[MOST] = {}, azimuth[MOST], angle[MOST];
    int32_t defined[MOST];
    const int directed = radius > least;
    for (int j = 0; j < k; ++j) {
        const uint32_t at = static_cast<uint32_t>(found.key[j]);
        qx[j] = t.x[at], qy[j] = t.y[at], qz[j] = t.z[at];
        out[j] = radius;
        out[k + j] = t.norm[at];
    }
    const int padded = (k + WIDE - 1) / WIDE * WIDE;
    for (int j = 0; j < padded; ++j) {
        const float along = qx[j] * nx + qy[j] * ny + qz[j] * nz;
        const float u = qx[j] * ux + qy[j] * uy + qz[j] * uz;
        const float v = qx[j] * vx + qy[j] * vy + qz[j] * vz;
        const float across = std::sqrt(u * u + v * v);
        angle[j] = angle_of(across, along);
        azimuth[j] = angle_of(v, u);
        defined[j] = across > least ? directed : 0;
    }
    for (int j = 0; j < k; ++j) out[2 * k + j] = directed ? angle[j] : 0.0f;
    gaps(azimuth, defined, k, out + 3 * k);
}

void split(const float* xyz, int32_t* own, int64_t n, int levels, int64_t node, int level, float* boxes) {
    const int64_t leaf = (node << (levels - level)) - (int64_t{1} << levels);
    const int64_t wide = int64_t{1} << (levels - level);
    const int64_t first = n * leaf >> levels, last = n * (leaf + wide) >> levels;
    float* box = boxes + 6 * node;
    for (int axis = 0; axis < 3; ++axis) {
        box[axis] = std::numeric_limits<float>::infinity(), box[3 + axis] = -box[axis];
        for (int64_t i = first; i < last; ++i) {
            const float value = xyz[3 * int64_t{own[i]} + axis];
            box[axis] = std::min(box[axis], value);
            box[3 + axis] = std::max(box[3 + axis], value);
        }
    }
    if (level == levels) return;
    int axis = 0;
    for (int other = 1; other < 3; ++other)
        if (box[3 + other] - box[other] > box[3 + axis] - box[axis]) axis = other;
    const int64_t middle = n * (leaf + wide / 2) >> levels;
    std::nth_element(own + first, own + middle, own + last,
                     [=](int64_t i, int64_t j) { return xyz[3 * i + axis] < xyz[3 * j + axis]; });
    split(xyz, own, n, levels, 2 * node, level + 1, boxes);
    split(xyz, own, n, levels, 2 * node + 1, level + 1, boxes);
}

}  // namespace

extern "C" {

// Levels of the tree of n points; it has 2 << levels nodes.
int rri_levels(int64_t n) {
    int levels = 0;
    while ((n >> levels) + 1 > LEAF) ++levels;
    return levels;
}

// From points (n, 3): planes (4, n) of x, y, z and norm in the order of the tree, own (n), boxes (2 << levels, 6).
void rri_build(const float* xyz, int64_t n, float* planes, int32_t* own, float* boxes) {
    std::iota(own, own + n, 0);
    split(xyz, own, n, rri_levels(n), 1, 0, boxes);
    for (int64_t i = 0; i < n; ++i) {
        const float* p = xyz + 3 * static_cast<int64_t>(own[i]);
        planes[i] = p[0], planes[n + i] = p[1], planes[2 * n + i] = p[2];
        planes[3 * n + i] = std::sqrt(p[0] * p[0] + p[1] * p[1] + p[2] * p[2]);
    }
}

// Features of the points begin … end - 1 of the tree, each to its own row of out (n, 4 k). 1 <= k <= 64, k < n.
CLONED void rri_describe(const float* planes, const int32_t* own, const float* boxes, int64_t n, int64_t begin, int64_t end,
                         int k, float least, float* out) {
    const Tree t{planes, planes + n, planes + 2 * n, planes + 3 * n, boxes, own, n, rri_levels(n)};
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
        describe(t, self, found, least, out + 4 * static_cast<int64_t>(k) * own[self]);
    }
}
}
