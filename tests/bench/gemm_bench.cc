// SPDX-License-Identifier: Apache-2.0
// Matrix products in float32 on one thread: GFLOP/s of ours beside what fused
// multiply-adds on registers alone reach here, and beside NumPy where python3
// has it.
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "graph/gemm.h"
#include "tests/bench/bench.h"

namespace shardplan::bench {
namespace {

constexpr int kRounds = 5;

struct Size {
  int64_t m;
  int64_t n;
  int64_t k;
  int repeats;  // of a measurement, so that it takes milliseconds
};

double operations(const Size& size) {
  return 2.0 * static_cast<double>(size.m) * static_cast<double>(size.n) *
         static_cast<double>(size.k) * size.repeats;
}

// Sums that do not wait for each other: enough for two units of latency 4.
using Sums = std::make_index_sequence<10>;
constexpr int kSteps = 1 << 21;

#if defined(__x86_64__)
template <size_t... kIndex>
__attribute__((target("avx2,fma"))) float with_avx2(
    float x, std::index_sequence<kIndex...> /*sums*/) {
  const __m256 factor = _mm256_set1_ps(x);
  __m256 sums[] = {_mm256_set1_ps(static_cast<float>(kIndex))...};
  for (int step = 0; step < kSteps; ++step) {
    ((sums[kIndex] = _mm256_fmadd_ps(sums[kIndex], factor, factor)), ...);
  }
  return (_mm256_cvtss_f32(sums[kIndex]) + ...);
}

template <size_t... kIndex>
__attribute__((target("avx512f"))) float with_avx512(
    float x, std::index_sequence<kIndex...> /*sums*/) {
  const __m512 factor = _mm512_set1_ps(x);
  __m512 sums[] = {_mm512_set1_ps(static_cast<float>(kIndex))...};
  for (int step = 0; step < kSteps; ++step) {
    ((sums[kIndex] = _mm512_fmadd_ps(sums[kIndex], factor, factor)), ...);
  }
  return (_mm512_cvtss_f32(sums[kIndex]) + ...);
}
#endif

struct Peak {
  std::string name;
  double operations = 0;
  std::function<void()> run;
};

// The widest fused multiply-adds of this processor; no name where it has none.
Peak peak_of_registers(float& seen) {
#if defined(__x86_64__)
  constexpr double kPerLane = 2.0 * kSteps * Sums::size();
  if (__builtin_cpu_supports("avx512f")) {
    return {"AVX-512", 16 * kPerLane,
            [&] { seen += with_avx512(0.5F, Sums()); }};
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return {"AVX2", 8 * kPerLane, [&] { seen += with_avx2(0.5F, Sums()); }};
  }
#endif
  return {"", 0, [&] { seen += 1; }};
}

// NumPy's median seconds on one thread; 0 where python3 has no NumPy.
double numpy_seconds(const Size& size) {
  char command[512];
  std::snprintf(
      command, sizeof(command),
      "OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python3 -c 'import numpy, time;"
      "a = numpy.ones((%lld, %lld), numpy.float32);"
      "b = numpy.ones((%lld, %lld), numpy.float32);"
      "t = lambda: (time.perf_counter(), [a @ b for _ in range(%d)],"
      " time.perf_counter());"
      "d = sorted(e - s for s, _, e in (t() for _ in range(%d)));"
      "print(d[len(d) // 2])' 2>/dev/null",
      static_cast<long long>(size.m), static_cast<long long>(size.k),
      static_cast<long long>(size.k), static_cast<long long>(size.n),
      size.repeats, kRounds);
  FILE* run = popen(command, "r");
  if (run == nullptr) return 0;
  char line[64] = {};
  const bool printed = std::fgets(line, sizeof(line), run) != nullptr;
  pclose(run);
  return printed ? std::strtod(line, nullptr) : 0;
}

void bench_size(const Size& size, const Peak& peak, bool has_numpy) {
  const std::vector<float> a(static_cast<size_t>(size.m * size.k), 1);
  const std::vector<float> b(static_cast<size_t>(size.k * size.n), 1);
  std::vector<float> c(static_cast<size_t>(size.m * size.n));
  const MatrixProduct<float> product{
      {a.data(), size.k, 1}, {b.data(), size.n, 1}, {c.data(), size.n, 1}};
  const std::vector<Contestant> contestants = {
      {"shardplan",
       [&] {
         for (int i = 0; i < size.repeats; ++i) {
           gemm(size.m, size.n, size.k, std::span(&product, 1),
                Arithmetic::F32);
         }
       }},
      {"registers", peak.run},
  };
  // NumPy runs between two of our turns, and we are the mean of the two.
  const std::vector<double> before = compare(contestants, kRounds);
  const double numpy = has_numpy ? numpy_seconds(size) : 0;
  const std::vector<double> after = compare(contestants, kRounds);
  const double seconds = (before[0] + after[0]) / 2;
  const double rate = operations(size) / seconds;
  std::printf("  %4lld x %4lld x %4lld   %7.1f GFLOP/s",
              static_cast<long long>(size.m), static_cast<long long>(size.n),
              static_cast<long long>(size.k), rate / 1e9);
  if (peak.operations > 0) {
    const double best = peak.operations / ((before[1] + after[1]) / 2);
    std::printf("   %.2f of the registers' %.0f", rate / best, best / 1e9);
  }
  if (numpy > 0) std::printf("   %.2fx NumPy", numpy / seconds);
  std::printf("\n");
}

}  // namespace

void bench_gemm() {
  float seen = 0;
  const Peak peak = peak_of_registers(seen);
  std::printf("matrix products, float32, one thread, kernels of %s; peak: %s\n",
              gemm_kernels(),
              peak.name.empty() ? "SKIPPED, no fused multiply-adds"
                                : peak.name.c_str());
  const bool has_numpy = numpy_seconds({1, 1, 1, 1}) > 0;
  if (!has_numpy) std::printf("  SKIPPED: NumPy, which python3 has not\n");
  for (const Size& size : {Size{2048, 2048, 2048, 1}, Size{512, 1376, 4096, 1},
                           Size{8, 1376, 4096, 10}, Size{64, 64, 64, 2000}}) {
    bench_size(size, peak, has_numpy);
  }
  if (seen == 0) std::printf("nothing was summed\n");
}

}  // namespace shardplan::bench
