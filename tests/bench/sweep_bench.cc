// SPDX-License-Identifier: Apache-2.0
// Points of a sweep: budgets with margins, per second on one thread.
#include <cstdio>
#include <string>
#include <vector>

#include "base/real_host.h"
#include "base/text.h"
#include "io/load.h"
#include "memory/sweep.h"
#include "resolve/resolve.h"
#include "tests/bench/bench.h"
#include "tests/support/source_dir.h"

namespace shardplan::bench {
namespace {

constexpr int64_t kPointsPerMesh = 100;

// Points of all cuts of 64 devices over two axes; 0 when something failed.
int64_t sweep(const Manifest& manifest, const RuleSet& rules,
              Diagnostics& diags) {
  const auto meshes = factorizations(64, {"fsdp", "tp"}, 100);
  const auto matches = match_rules(manifest, rules, {}, diags);
  if (!meshes || !matches) return 0;
  int64_t points = 0;
  for (const Mesh& mesh : *meshes) {
    auto plan = resolve(manifest, rules, *matches, mesh, {}, diags);
    if (!plan) return 0;
    const LayerGroups units = layer_groups(manifest, plan->placement_of);
    const SweepMesh on{*std::move(plan), {mesh.size_of("tp"), 1, 1}, 0, 0};
    BudgetOptions options;
    options.kv_sharding = on.kv_sharding;
    options.limit =
        DeviceLimit{"bench", int64_t{80} << 30, int64_t{80} << 30, false};
    for (int64_t i = 0; i < kPointsPerMesh; ++i) {
      options.kv = KvRequest{1 + i, 8192, DType::BF16, 16, false};
      points += sweep_point(manifest, on, units, options, diags).has_value();
    }
  }
  return points;
}

}  // namespace

void bench_sweep() {
  std::printf(
      "### sweep\n"
      "| model | points | points a second |\n|---|---:|---:|\n");
  const auto host = make_real_host();
  for (const std::string name : {"llama-3.1-70b", "deepseek-v3"}) {
    Diagnostics diags;
    const std::string config =
        (source_dir() / "tests/data/configs" / (name + ".json")).string();
    const auto manifest = load_manifest(config, *host, diags);
    const std::vector<std::string> sets = {
        name.starts_with("llama") ? "@llama" : "@deepseek_v3"};
    const auto rules = load_rules(sets, std::nullopt, {}, *host, diags);
    if (!manifest || !rules) continue;
    int64_t points = 0;
    const double seconds =
        seconds_of([&] { points = sweep(*manifest, *rules, diags); });
    std::printf(
        "| %s | %s | %s |\n", name.c_str(),
        count_text(static_cast<int64_t>(points)).c_str(),
        count_text(static_cast<int64_t>(static_cast<double>(points) / seconds))
            .c_str());
  }
}

}  // namespace shardplan::bench
