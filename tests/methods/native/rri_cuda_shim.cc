// The CUDA kernel of the features as a function of the host: every block and thread in turn. K is a macro.

#include <cmath>

struct Dim3 {
  int x, y, z;
};
static Dim3 blockIdx, blockDim, threadIdx;
#define __global__
#include "rri.cu"

extern "C" void run(const float* planes, const float* least, float* features, int n, int clouds, int threads) {
  blockDim.x = threads;
  for (blockIdx.y = 0; blockIdx.y < clouds; ++blockIdx.y)
    for (blockIdx.x = 0; blockIdx.x * threads < n; ++blockIdx.x)
      for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) rri(planes, least, features, n);
}
