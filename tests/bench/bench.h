// SPDX-License-Identifier: Apache-2.0
// Measuring on a noisy machine: contestants run in turn, A B A B, and medians
// and their ratios are printed. Nothing here is a test. What is printed are the
// blocks of docs/design/performance.md, each behind a line `### name`
// (tests/bench/page.py).
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <time.h>

namespace shardplan::bench {

struct Contestant {
  std::string name;
  std::function<void()> run;
};

inline double seconds_of(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Median seconds of each contestant over `rounds` turns, after a warm-up.
inline std::vector<double> compare(const std::vector<Contestant>& contestants,
                                   int rounds) {
  std::vector<std::vector<double>> taken(contestants.size());
  for (int round = 0; round <= rounds; ++round) {
    for (size_t i = 0; i < contestants.size(); ++i) {
      const double seconds = seconds_of(contestants[i].run);
      if (round > 0) taken[i].push_back(seconds);
    }
  }
  std::vector<double> medians;
  medians.reserve(taken.size());
  for (std::vector<double>& values : taken) {
    medians.push_back(median(std::move(values)));
  }
  return medians;
}

// The measurements, one file each.
void bench_gemm();
void bench_manifest();
void bench_match();
void bench_simulate();
void bench_sweep();
void bench_resolve(const std::string& program);

}  // namespace shardplan::bench
