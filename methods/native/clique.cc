// The largest clique of matches that keep their distances, by branch and bound with colours as bounds (San Segundo 2011).

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <vector>

namespace {

typedef std::vector<uint64_t> Bits;

class Search {
public:
    Search(std::vector<Bits> neighbours, double seconds)
        : neighbours_(std::move(neighbours)), size_(static_cast<int>(neighbours_.size())), words_((size_ + 63) / 64),
          end_(std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds))) {}

    // The vertices of the largest clique, or of the largest until the time is over.
    const std::vector<int>& run() {
        Bits all(words_);
        for (int v = 0; v < size_; v++) all[v / 64] |= uint64_t(1) << (v % 64);
        expand(all);
        return best_;
    }

private:
    // Order the candidates by colours, none of which two neighbours share: with `colours[i]`, no clique among the first i + 1 is larger.
    void colour(Bits left, std::vector<int>& order, std::vector<int>& colours) const {
        for (int colour = 1;; colour++) {
            Bits free = left;
            bool any = false;
            for (int word = 0; word < words_; word++)
                while (free[word]) {
                    const int v = 64 * word + __builtin_ctzll(free[word]);
                    any = true;
                    left[word] &= ~(uint64_t(1) << (v % 64));
                    free[word] &= ~(uint64_t(1) << (v % 64));
                    for (int k = word; k < words_; k++) free[k] &= ~neighbours_[v][k];
                    order.push_back(v), colours.push_back(colour);
                }
            if (!any) return;
        }
    }

    void expand(Bits candidates) {
        std::vector<int> order, colours;
        colour(candidates, order, colours);
        if (order.empty() && clique_.size() > best_.size()) best_ = clique_;
        for (int i = static_cast<int>(order.size()) - 1; i >= 0; i--) {
            if (clique_.size() + colours[i] <= best_.size() || std::chrono::steady_clock::now() > end_) return;
            Bits common(words_);
            for (int k = 0; k < words_; k++) common[k] = candidates[k] & neighbours_[order[i]][k];
            clique_.push_back(order[i]);
            expand(std::move(common));
            clique_.pop_back();
            candidates[order[i] / 64] &= ~(uint64_t(1) << (order[i] % 64));
        }
    }

    std::vector<Bits> neighbours_;
    int size_, words_;
    std::chrono::steady_clock::time_point end_;
    std::vector<int> clique_, best_;
};

// Vertices in an order in which each has the fewest neighbours among those before it and itself (the last is removed first).
std::vector<int> degenerate_order(const std::vector<uint8_t>& adjacent, int size) {
    std::vector<int> degree(size), order(size);
    for (int i = 0; i < size; i++) degree[i] = static_cast<int>(std::count(&adjacent[i * size], &adjacent[(i + 1) * size], 1));
    std::vector<bool> removed(size);
    for (int place = size - 1; place >= 0; place--) {
        int least = -1;
        for (int v = 0; v < size; v++)
            if (!removed[v] && (least < 0 || degree[v] < degree[least])) least = v;
        removed[least] = true;
        order[place] = least;
        for (int v = 0; v < size; v++) degree[v] -= adjacent[least * size + v];
    }
    return order;
}

double distance(const double* points, int i, int j) {
    const double x = points[3 * i] - points[3 * j], y = points[3 * i + 1] - points[3 * j + 1], z = points[3 * i + 2] - points[3 * j + 2];
    return std::sqrt(x * x + y * y + z * z);
}

}  // namespace

extern "C" {

// Write the rows of the largest set of matches p to q (size, 3) whose distances differ by at most `tolerance`, and their number.
void clique_largest(const double* p, const double* q, int64_t size, double tolerance, double seconds, int32_t* rows, int32_t* count) {
    const int n = static_cast<int>(size);
    std::vector<uint8_t> adjacent(size * size);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            adjacent[i * size + j] = adjacent[j * size + i] = std::abs(distance(p, i, j) - distance(q, i, j)) <= tolerance;
    const std::vector<int> order = degenerate_order(adjacent, n);
    std::vector<Bits> neighbours(n, Bits((n + 63) / 64));
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            if (adjacent[order[i] * size + order[j]]) neighbours[i][j / 64] |= uint64_t(1) << (j % 64);
    Search search(std::move(neighbours), seconds);
    *count = 0;
    for (int v : search.run()) rows[(*count)++] = order[v];
    std::sort(rows, rows + *count);
}
}
