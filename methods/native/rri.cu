// Rotation-invariant features of all clouds of a batch, one thread per point: its K nearest others by brute force, then the four
// blocks of numbers that methods/nn/rri.py defines. K is a macro. The loops over K are unrolled, so that the arrays are registers.
//
// planes: (clouds, 4, n), x, y, z and the distance from the centroid; least: (clouds), the length below which a direction is
// undefined; features: (clouds, n, 4 K). A grid has blocks of points along x and clouds along y.
//
// Plain C++ without headers: NVRTC compiles it for a GPU, g++ with a shim for the tests.

extern "C" __global__ void rri(const float* planes, const float* least, float* features, int n) {
  const float turn = 6.2831853f, undefined = 1e9f, far = 3.0e38f;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int cloud = blockIdx.y;
  if (i >= n) return;
  const float* x = planes + 4ll * cloud * n;
  const float *y = x + n, *z = y + n, *r = z + n;
  const float px = x[i], py = y[i], pz = z[i], pr = r[i], low = least[cloud];

  float square[K];
  int near[K];
#pragma unroll
  for (int s = 0; s < K; ++s) {
    square[s] = far;
    near[s] = i;
  }
  for (int j = 0; j < n; ++j) {
    const float dx = x[j] - px, dy = y[j] - py, dz = z[j] - pz;
    float carried = dx * dx + dy * dy + dz * dz;
    if (j == i || !(carried < square[K - 1])) continue;
    int carried_index = j;
#pragma unroll
    for (int s = 0; s < K; ++s) {
      if (carried < square[s]) {
        const float displaced = square[s];
        const int displaced_index = near[s];
        square[s] = carried;
        near[s] = carried_index;
        carried = displaced;
        carried_index = displaced_index;
      }
    }
  }

  // The reflection that maps the normal to the axis -sign z, see _in_frames of methods/nn/rri_batched.py.
  const float over = 1.0f / fmaxf(pr, low), nx = px * over, ny = py * over, nz = pz * over;
  const float sign = copysignf(1.0f, nz), share = 1.0f / (1.0f + fabsf(nz));
  const bool here = pr > low;
  float azimuth[K];
  float* out = features + (1ll * cloud * n + i) * 4 * K;
#pragma unroll
  for (int s = 0; s < K; ++s) {
    const float qx = x[near[s]], qy = y[near[s]], qz = z[near[s]];
    const float along = qx * nx + qy * ny + qz * nz, part = (along + sign * qz) * share;
    const float u = qx - nx * part, v = (qy - ny * part) * sign, across = sqrtf(u * u + v * v);
    out[s] = pr;
    out[K + s] = r[near[s]];
    out[2 * K + s] = here ? atan2f(across, along) : 0.0f;
    azimuth[s] = here && across > low ? atan2f(v, u) : undefined;
  }

  // The next azimuth counter-clockwise; of equal ones, the next in the order of the neighbours, and the last goes on.
#pragma unroll
  for (int s = 0; s < K; ++s) {
    float gap = turn;
#pragma unroll
    for (int t = 0; t < K; ++t) {
      float ahead = azimuth[t] - azimuth[s];
      if (ahead < 0.0f || (ahead == 0.0f && t <= s)) ahead += turn;
      if (azimuth[t] < undefined && ahead < gap) gap = ahead;
    }
    out[3 * K + s] = azimuth[s] < undefined ? gap : 0.0f;
  }
}
