// SPDX-License-Identifier: Apache-2.0
// shardplan_bench [PROGRAM]: prints what is measured, as ratios where they say
// more than times. PROGRAM is the shardplan to run, by default the one built
// beside.
#include <cstdio>
#include <filesystem>

#include "tests/bench/bench.h"

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  const fs::path beside =
      fs::canonical("/proc/self/exe").parent_path().parent_path() / "shardplan";
  // First, while this process is small (see resolve_bench.cc).
  shardplan::bench::bench_resolve(argc > 1 ? argv[1] : beside.string());
  shardplan::bench::bench_manifest();
  shardplan::bench::bench_match();
  shardplan::bench::bench_sweep();
  std::printf("### arithmetic\n```\n");
  shardplan::bench::bench_gemm();
  shardplan::bench::bench_simulate();
  std::printf("```\n");
  return 0;
}
