// SPDX-License-Identifier: Apache-2.0
// shardplan_bench [PART...]: prints what is measured, as ratios where they say
// more than times. PART is one of: whole, reading, matching, sweep, gemm,
// simulate; all of them by default. The program that is run is the one built
// beside.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/bench/bench.h"

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  const fs::path beside =
      fs::canonical("/proc/self/exe").parent_path().parent_path() / "shardplan";
  const std::vector<std::string> parts(argv + 1, argv + argc);
  const auto asked = [&](const char* part) {
    return parts.empty() ||
           std::find(parts.begin(), parts.end(), part) != parts.end();
  };
  // First, while this process is small (see resolve_bench.cc).
  if (asked("whole")) shardplan::bench::bench_resolve(beside.string());
  if (asked("reading")) shardplan::bench::bench_manifest();
  if (asked("matching")) shardplan::bench::bench_match();
  if (asked("sweep")) shardplan::bench::bench_sweep();
  if (asked("gemm") || asked("simulate")) {
    std::printf("### arithmetic\n```\n");
    if (asked("gemm")) shardplan::bench::bench_gemm();
    if (asked("simulate")) shardplan::bench::bench_simulate();
    std::printf("```\n");
  }
  return 0;
}
