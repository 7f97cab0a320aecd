// Learned local descriptors: patches in local reference frames, the point-wise layers of the network, and their maximum.
//
// methods/geometry/patches.py and methods/nn/descriptor.py define the numbers, and compute them where this kernel is unavailable.
// Wide layers are exact products of integers of 13 bits. Other sums are not reordered and products are not contracted, so that
// all processors return the same bits.

#include <cstring>

#include "neighbours.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace {

constexpr int LANES = 8;
constexpr int POINTS = 4;           // of a patch, whose products are summed together
constexpr int BLOCK = 2 * LANES;    // outputs that are summed together
constexpr int LEVELS = 4095;        // largest integer of an activation or a weight: sums of 128 products fit in 32 bits
constexpr int SWEEPS = 12;          // of Jacobi's rotations; five suffice nearly always

typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));
typedef int16_t Shorts __attribute__((vector_size(2 * LANES)));
typedef int16_t Pairs __attribute__((vector_size(4 * LANES)));

template <typename Lanes, typename Number>
inline Lanes load(const Number* from) {
    Lanes lanes;
    std::memcpy(&lanes, from, sizeof lanes);
    return lanes;
}

// The sum of the products of two numbers in each of eight lanes.
inline Ints products(Pairs a, Pairs b) {
#if defined(__AVX2__)
    return reinterpret_cast<Ints>(_mm256_madd_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#else
    Ints sums;
    for (int i = 0; i < LANES; i++) sums[i] = a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1];
    return sums;
#endif
}

// A wide layer: weights as integers (outputs / 8, inputs / 2, 8, 2), what a unit of each output is worth, and the bias.
struct Layer {
    int64_t inputs, outputs;
    const int16_t* weights;
    const float *units, *bias;
};

// The network of one scale: the first layer's weights (4, outputs), the last row of which is the bias, and two wide layers.
struct Scale {
    double radius;
    const float* first;
    Layer second, third;
};

// The memory of a patch: activations as floats and as integers, of at most `points` points and the widest layer.
struct Memory {
    std::vector<float> offsets, values;
    std::vector<int16_t> integers;

    Memory(int64_t points, int64_t widest) : values(points * widest), integers(points * widest) {}
};

inline Floats positive(Floats a) { return a > 0 ? a : Floats{}; }

// Convert activations to integers, and return what a unit is worth.
float quantised(Memory& memory, int64_t count) {
    Floats most = {};
    for (int64_t i = 0; i < count; i += LANES) {
        const Floats value = load<Floats>(&memory.values[i]);
        most = value > most ? value : most;
    }
    float largest = 0;
    for (int i = 0; i < LANES; i++) largest = std::max(largest, most[i]);
    const Floats factor = Floats{} + (largest > 0 ? LEVELS / largest : 0);
    for (int64_t i = 0; i < count; i += LANES) {
        const Ints rounded = __builtin_convertvector(load<Floats>(&memory.values[i]) * factor + 0.5f, Ints);
        const Shorts narrow = __builtin_convertvector(rounded, Shorts);
        std::memcpy(&memory.integers[i], &narrow, sizeof narrow);
    }
    return largest / LEVELS;
}

// The sums of a wide layer for POINTS points, and BLOCK outputs from `output`.
inline void sums(const Layer& layer, const int16_t* points, int64_t output, Ints (&sum)[POINTS][2]) {
    const int16_t* weights = layer.weights + output * layer.inputs;
    for (auto& row : sum) row[0] = row[1] = Ints{};
    for (int64_t k = 0; k < layer.inputs / 2; k++) {
        const Pairs low = load<Pairs>(weights + 2 * LANES * k), high = load<Pairs>(weights + LANES * (layer.inputs + 2 * k));
        for (int p = 0; p < POINTS; p++) {
            int32_t pair;
            std::memcpy(&pair, points + p * layer.inputs + 2 * k, sizeof pair);
            const Pairs both = reinterpret_cast<Pairs>(Ints{} + pair);
            sum[p][0] += products(both, low), sum[p][1] += products(both, high);
        }
    }
}

// Replace the activations of points (size, 3) by the first layer's.
void first_layer(const float* offsets, int64_t size, const float* weights, int64_t outputs, Memory& memory) {
    for (int64_t p = 0; p < size; p++)
        for (int64_t o = 0; o < outputs; o += LANES) {
            Floats value = load<Floats>(weights + 3 * outputs + o);
            for (int a = 0; a < 3; a++) value += offsets[3 * p + a] * load<Floats>(weights + a * outputs + o);
            value = positive(value);
            std::memcpy(&memory.values[p * outputs + o], &value, sizeof value);
        }
}

// Replace the activations of points by a wide layer's.
void wide_layer(const Layer& layer, int64_t size, Memory& memory) {
    const Floats unit = Floats{} + quantised(memory, size * layer.inputs);
    Ints sum[POINTS][2];
    for (int64_t o = 0; o < layer.outputs; o += BLOCK)
        for (int64_t p = 0; p < size; p += POINTS) {
            sums(layer, &memory.integers[p * layer.inputs], o, sum);
            for (int i = 0; i < POINTS; i++)
                for (int half = 0; half < 2; half++) {
                    const int64_t at = o + half * LANES;
                    const Floats scale = unit * load<Floats>(layer.units + at);
                    const Floats value = positive(__builtin_convertvector(sum[i][half], Floats) * scale + load<Floats>(layer.bias + at));
                    std::memcpy(&memory.values[(p + i) * layer.outputs + at], &value, sizeof value);
                }
        }
}

// Write the maximum of the last layer over the points.
void last_layer(const Layer& layer, int64_t size, Memory& memory, float* pooled) {
    const Floats unit = Floats{} + quantised(memory, size * layer.inputs);
    Ints sum[POINTS][2];
    for (int64_t o = 0; o < layer.outputs; o += BLOCK) {
        Ints most[2] = {Ints{} + INT32_MIN, Ints{} + INT32_MIN};
        for (int64_t p = 0; p < size; p += POINTS) {
            sums(layer, &memory.integers[p * layer.inputs], o, sum);
            for (auto& row : sum)
                for (int half = 0; half < 2; half++) most[half] = row[half] > most[half] ? row[half] : most[half];
        }
        for (int half = 0; half < 2; half++) {
            const int64_t at = o + half * LANES;
            const Floats scale = unit * load<Floats>(layer.units + at);
            const Floats value = __builtin_convertvector(most[half], Floats) * scale + load<Floats>(layer.bias + at);
            std::memcpy(pooled + at, &value, sizeof value);
        }
    }
}

// Offsets of a patch in radii, nearest first as far as repeated, and how often each counts in a patch of `most` points.
struct Patch {
    std::vector<Neighbour> near;
    std::vector<Vector> offsets;
    std::vector<double> copies;

    void find(const Grid& grid, const Vector* points, int64_t size, Vector key, double radius, int64_t most) {
        grid.collect(key, -1, radius, 1, near);
        most = std::min(most, size);
        keep_nearest(near, most);
        const auto found = static_cast<int64_t>(near.size());
        const int64_t extra = found ? most % found : 0;
        put_first(near, extra);
        offsets.assign(std::max<int64_t>(found, 1), Vector{0, 0, 0});
        copies.assign(offsets.size(), 1);
        for (int64_t i = 0; i < found; i++) {
            const Vector d = times(1 / radius, minus(points[near[i].row], key));
            offsets[i] = d;
            copies[i] = static_cast<double>(most / found + (i < extra));
        }
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

struct Frame {
    Vector x, y, z;
};

// The local reference frame of a key, see `frames` of methods/geometry/patches.py.
Frame frame(const Patch& inner, const Patch& outer) {
    double a[3][3] = {}, v[3][3];
    for (size_t i = 0; i < inner.offsets.size(); i++) {
        const Vector o = inner.offsets[i], c = times(inner.copies[i], o);
        a[0][0] += c.x * o.x, a[0][1] += c.x * o.y, a[0][2] += c.x * o.z;
        a[1][1] += c.y * o.y, a[1][2] += c.y * o.z, a[2][2] += c.z * o.z;
    }
    a[1][0] = a[0][1], a[2][0] = a[0][2], a[2][1] = a[1][2];
    eigen(a, v);
    int least = 0, most = 0;
    for (int i = 1; i < 3; i++) {
        if (a[i][i] < a[least][least]) least = i;
        if (a[i][i] >= a[most][most]) most = i;
    }
    Vector z = {v[0][least], v[1][least], v[2][least]}, x = {0, 0, 0};
    double above = 0;
    for (size_t i = 0; i < outer.offsets.size(); i++) {
        const Vector o = outer.offsets[i];
        const double height = dot(o, z), near = std::max(1 - std::sqrt(dot(o, o)), 0.0);
        above += outer.copies[i] * height;
        const Vector part = times(outer.copies[i] * near * near * height * height, o);
        x = {x.x + part.x, x.y + part.y, x.z + part.z};
    }
    if (above > 0) z = times(-1, z);
    x = minus(x, times(dot(x, z), z));
    const double length = std::sqrt(dot(x, x));
    x = length > 1e-9 ? times(1 / length, x) : Vector{v[0][most], v[1][most], v[2][most]};
    return {x, cross(z, x), z};
}

// Write the pooled numbers of a patch.
void pool(const Scale& scale, const Patch& patch, const Frame& axes, Memory& memory, float* pooled) {
    const auto size = static_cast<int64_t>(patch.offsets.size()), padded = (size + POINTS - 1) / POINTS * POINTS;
    memory.offsets.resize(3 * padded);
    for (int64_t i = 0; i < padded; i++) {  // points repeated at the end do not change the maximum
        const Vector o = patch.offsets[std::min(i, size - 1)];
        memory.offsets[3 * i] = static_cast<float>(dot(o, axes.x));
        memory.offsets[3 * i + 1] = static_cast<float>(dot(o, axes.y));
        memory.offsets[3 * i + 2] = static_cast<float>(dot(o, axes.z));
    }
    first_layer(memory.offsets.data(), padded, scale.first, scale.second.inputs, memory);
    wide_layer(scale.second, padded, memory);
    last_layer(scale.third, padded, memory, pooled);
}

}  // namespace

extern "C" {

// Write the pooled numbers (count, scales, outputs) of keys (count, 3).
//
// Patches have at most `most` points of the scales' clouds (sizes[s], 3), which follow each other in `clouds`.
void descriptor_pool(const double* keys, int64_t count, const double* clouds, const int64_t* sizes, const Scale* networks,
                     int64_t scales, int64_t most, float* pooled) {
    const auto* key = reinterpret_cast<const Vector*>(keys);
    const auto* points = reinterpret_cast<const Vector*>(clouds);
    std::vector<const Vector*> starts;
    std::vector<Grid> grids;
    int64_t widest = 0;
    for (int64_t s = 0; s < scales; points += sizes[s++]) {
        starts.push_back(points);
        grids.emplace_back(points, sizes[s], networks[s].radius);
        widest = std::max({widest, networks[s].second.inputs, networks[s].third.inputs});
    }
    const int64_t outputs = networks[0].third.outputs;
    Memory memory(most + POINTS, widest);
    std::vector<Patch> patches(scales);
    for (int64_t i = 0; i < count; i++) {
        for (int64_t s = 0; s < scales; s++) patches[s].find(grids[s], starts[s], sizes[s], key[i], networks[s].radius, most);
        const Frame axes = frame(patches[0], patches[scales - 1]);
        for (int64_t s = 0; s < scales; s++)
            pool(networks[s], patches[s], axes, memory, pooled + (i * scales + s) * outputs);
    }
}
}
