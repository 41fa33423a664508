// SPDX-License-Identifier: Apache-2.0
// Units: heads, KV heads and experts that a plan cuts though numbers divide.
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/text.h"
#include "resolve/gathered_axes.h"
#include "resolve/lint.h"
#include "resolve/units.h"

namespace shardplan {
namespace {

// "half a head", "1/3 of a head", "3 devices share 2 heads"
std::string share_text(int64_t units, int64_t devices, std::string_view name) {
  const int64_t common = std::gcd(units, devices);
  const int64_t parts = devices / common;
  const int64_t whole = units / common;
  if (whole == 1 && parts == 2) return "half a " + std::string(name);
  return std::to_string(whole) + "/" + std::to_string(parts) + " of a " +
         std::string(name);
}

// One unit of one placement, and all parameters that it is cut in: keys and
// values are alike.
struct SplitUnit {
  Unit unit;
  AxisNames axes;      // that cut it
  int64_t shards = 1;  // their product
  uint32_t placement = 0;
  std::vector<uint32_t> classes;
};

std::vector<SplitUnit> split_units(const LintInput& input,
                                   const ParameterClass& c,
                                   const ModelFacts& facts) {
  const Placement& placement = input.plan.placements[c.kind];
  std::vector<SplitUnit> result;
  if (placement.shards == 1) return result;
  for (const Unit& unit :
       units_of(input.manifest.name(c.first), placement.type, facts)) {
    const auto dim = static_cast<size_t>(unit.dim);
    if (dim >= placement.spec.dims.size()) continue;
    SplitUnit split{unit, placement.spec.dims[dim], 1, c.kind, {}};
    // A cut along them ends where a head begins to matter.
    std::erase_if(split.axes, is_gathered_axis);
    split.shards = shard_count(input.plan.mesh, split.axes);
    if (split.shards > 1 && unit.count % split.shards != 0) {
      result.push_back(std::move(split));
    }
  }
  return result;
}

// "tp may be 1, 2, 4 or 8", the other axes of the dimension staying.
std::string legal_sizes(const LintInput& input, const SplitUnit& split,
                        int64_t size) {
  const Mesh& mesh = input.plan.mesh;
  const AxisName& axis = split.axes.back();
  const int64_t others = split.shards / mesh.size_of(axis);
  if (split.unit.count % others != 0) {
    return "no size of `" + axis +
           "` keeps them whole while the other axes "
           "stay";
  }
  return "`" + axis + "` may be " +
         list_text(common_divisors(split.unit.count / others, size,
                                   split.unit.count));
}

void report_split(const LintInput& input, const SplitUnit& split,
                  const InferredFacts* inferred, Diagnostics& diags) {
  const Placement& placement = input.plan.placements[split.placement];
  std::vector<std::string> names;
  for (const uint32_t number : split.classes) {
    for (std::string& member :
         names_of(input.manifest, input.of_class.of(number))) {
      names.push_back(std::move(member));
    }
  }
  const int64_t size =
      placement.type.shape[static_cast<size_t>(split.unit.dim)];
  const std::string name(unit_name(split.unit.kind));
  std::string axes;
  for (const AxisName& axis : split.axes) {
    if (!axes.empty()) axes += ",";
    axes += axis + "=" + std::to_string(input.plan.mesh.size_of(axis));
  }
  auto report = diags.report(
      Code::SplitUnit,
      inferred == nullptr ? Severity::Error : Severity::Warning, {},
      axes + " cuts the " + name + "s of " + names_text(names));
  report.label(spec_span(input, placement.rule, split.unit.dim),
               "shards dimension " + std::to_string(split.unit.dim));
  report.fact(plural(split.unit.count, name) + " over " +
              std::to_string(split.shards) +
              " shards: " + share_text(split.unit.count, split.shards, name) +
              " on each, though " + std::to_string(size) + " mod " +
              std::to_string(split.shards) + " = " +
              std::to_string(size % split.shards));
  report.fact(legal_sizes(input, split, size));

  Placement whole = placement;
  std::erase_if(whole.spec.dims[static_cast<size_t>(split.unit.dim)],
                [&](const AxisName& a) { return !is_gathered_axis(a); });
  measure(whole, input.plan.mesh, input.plan.on_indivisible);
  report.fact("kept whole on every device they would take " +
              bytes_text(static_cast<double>(whole.bytes_per_device -
                                             placement.bytes_per_device) *
                         static_cast<double>(names.size())) +
              " more per device");
  if (inferred != nullptr) {
    for (const std::string& why : inferred->why) report.fact(why);
    report.help(
        "give `heads`, `kv_heads` and `head_dim` as `facts` of the "
        "manifest, or put the model's config.json beside it, to be "
        "sure");
  } else {
    report.help("use a size of the axis that divides " +
                std::to_string(split.unit.count) +
                ", or leave the dimension unsharded to replicate the " + name +
                "s");
  }
  report.parameters(std::move(names));
}

}  // namespace

void lint_units(const LintInput& input, Diagnostics& diags) {
  const bool given = input.manifest.facts.from == FactsFrom::Config ||
                     input.manifest.facts.from == FactsFrom::Manifest;
  InferredFacts inferred;
  if (!given) inferred = infer_facts(input.manifest);
  const ModelFacts& facts = given ? input.manifest.facts : inferred.facts;
  if (facts.from == FactsFrom::None) return;
  std::vector<SplitUnit> splits;
  std::map<std::tuple<uint32_t, int, UnitKind, int64_t>, size_t> known;
  for (size_t i = 0; i < input.folding.classes.size(); ++i) {
    for (SplitUnit& split :
         split_units(input, input.folding.classes[i], facts)) {
      const auto [entry, is_new] = known.try_emplace(
          {split.placement, split.unit.dim, split.unit.kind, split.unit.count},
          splits.size());
      if (is_new) splits.push_back(std::move(split));
      splits[entry->second].classes.push_back(static_cast<uint32_t>(i));
    }
  }
  for (const SplitUnit& split : splits) {
    report_split(input, split, given ? nullptr : &inferred, diags);
  }
}

}  // namespace shardplan
