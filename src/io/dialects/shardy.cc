// SPDX-License-Identifier: Apache-2.0
// The shardings of the arguments of a StableHLO module: `sdy.sharding` of
// Shardy, or `mhlo.sharding`, which has no names of axes. A rule per argument.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "io/dialects/dialects.h"
#include "io/stablehlo_text.h"

namespace shardplan {
namespace {

Rule rule_of(const StableHloArgument& argument, Span where) {
  Rule rule;
  rule.pattern = exact_pattern(argument.name);
  rule.where = argument.where;
  rule.spec_where = where;
  return rule;
}

// What a sharding says beyond where the values lie is told, once per file.
void note_openness(const StableHloModule& module, Diagnostics& diags) {
  const StableHloArgument* open = nullptr;
  const StableHloArgument* ordered = nullptr;
  int64_t count = 0;
  for (const StableHloArgument& argument : module.arguments) {
    if (!argument.sharding) continue;
    if (argument.sharding->open_beside_axes) {
      if (open == nullptr) open = &argument;
      ++count;
    }
    if (argument.sharding->priorities && ordered == nullptr) {
      ordered = &argument;
    }
  }
  if (open != nullptr) {
    diags
        .report(Code::Inexpressible, Severity::Note, open->sharding->where,
                "open dimensions are read as closed")
        .fact(plural(count, "argument") + (count == 1 ? " has" : " have") +
              " a dimension that `?` allows to be sharded further; a spec "
              "has the axes that are listed");
  }
  if (ordered != nullptr) {
    diags
        .report(Code::Inexpressible, Severity::Note, ordered->sharding->where,
                "priorities of shardings are not kept")
        .fact("they order how shardings are propagated to other values");
  }
}

bool read_shardy(const StableHloModule& module, RuleSet& rules,
                 Diagnostics& diags) {
  const ShardyMesh* mesh = nullptr;
  if (!find_mesh(module, mesh, diags)) return false;
  for (const StableHloArgument& argument : module.arguments) {
    if (!argument.sharding) continue;
    Rule rule = rule_of(argument, argument.sharding->where);
    rule.spec = argument.sharding->spec;
    rule.dim_where = argument.sharding->dim_where;
    rules.rules.push_back(std::move(rule));
  }
  rules.mesh = mesh->axes;
  rules.mesh_where = mesh->where;
  if (mesh->has_device_ids) {
    diags
        .report(Code::Inexpressible, Severity::Note, mesh->where,
                "the order of devices is not kept")
        .fact("devices are numbered by their coordinates on the mesh here");
  }
  note_openness(module, diags);
  return true;
}

bool name_axes(const std::vector<int64_t>& sizes, const RuleReading& reading,
               Span where, std::vector<Axis>& mesh, Diagnostics& diags) {
  std::string found;
  for (const int64_t size : sizes) {
    found += (found.empty() ? "" : " x ") + std::to_string(size);
  }
  if (reading.axes.size() != sizes.size()) {
    diags
        .error(Code::MalformedDocument, where,
               reading.axes.empty()
                   ? "`mhlo.sharding` has no names of axes"
                   : plural(static_cast<int64_t>(reading.axes.size()), "name") +
                         (reading.axes.size() == 1 ? " is" : " are") +
                         " given for " +
                         plural(static_cast<int64_t>(sizes.size()), "axis"))
        .fact("the shardings are made of axes of " +
              (found.empty() ? std::string("no size") : found) +
              " devices, major to minor")
        .help("name them in that order: `--axes a,b`");
    return false;
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    mesh.push_back({reading.axes[i], sizes[i]});
  }
  return true;
}

bool read_hlo(const StableHloModule& module, const RuleReading& reading,
              RuleSet& rules, Diagnostics& diags) {
  std::vector<HloSharding> shardings;
  for (const StableHloArgument& argument : module.arguments) {
    if (argument.hlo_sharding) shardings.push_back(*argument.hlo_sharding);
  }
  const auto sizes = axis_sizes_of(shardings, diags);
  if (!sizes) return false;
  std::vector<Axis> mesh;
  if (!sizes->empty()) {
    const auto first = std::find_if(
        shardings.begin(), shardings.end(),
        [](const HloSharding& sharding) { return !sharding.tiles.empty(); });
    if (module.partitions && *module.partitions != first->devices()) {
      diags
          .error(Code::MalformedDocument, first->where,
                 "a sharding is not over all devices")
          .fact("it is over " + std::to_string(first->devices()) +
                ", the module has " + std::to_string(*module.partitions) +
                " partitions");
      return false;
    }
    if (!name_axes(*sizes, reading, first->where, mesh, diags)) return false;
    rules.mesh.emplace();
    rules.mesh_where = first->where;
    for (const Axis& axis : mesh) {
      rules.mesh->push_back(
          {axis.name, axis.size, first->where, first->where, first->where});
    }
  }
  for (const StableHloArgument& argument : module.arguments) {
    if (!argument.hlo_sharding) continue;
    Rule rule = rule_of(argument, argument.hlo_sharding->where);
    rule.spec = spec_of(*argument.hlo_sharding, mesh);
    rule.dim_where.assign(rule.spec.dims.size(), rule.spec_where);
    rules.rules.push_back(std::move(rule));
  }
  return true;
}

bool read(SourcePtr source, const RuleReading& reading, RuleSet& rules,
          Diagnostics& diags) {
  diags.keep(source);
  const auto module = read_stablehlo(*source, diags);
  const SourceFile& file = *source;
  rules.sources.push_back(std::move(source));
  if (!module) return false;
  const auto has = [&](auto member) {
    return std::any_of(module->arguments.begin(), module->arguments.end(),
                       [&](const StableHloArgument& argument) {
                         return (argument.*member).has_value();
                       });
  };
  const bool shardy = has(&StableHloArgument::sharding);
  const bool hlo = has(&StableHloArgument::hlo_sharding);
  if (shardy && hlo) {
    diags
        .error(Code::Inexpressible, {&file, 0, 0},
               "some arguments have `sdy.sharding`, others `mhlo.sharding`")
        .help("lower the program with one partitioner");
    return false;
  }
  if (shardy) return read_shardy(*module, rules, diags);
  if (hlo) return read_hlo(*module, reading, rules, diags);
  diags
      .error(Code::UnrecognizedFormat, {&file, 0, 0},
             "no argument of the module has a sharding")
      .fact("it has " +
            plural(static_cast<int64_t>(module->arguments.size()), "argument"))
      .help(
          "pass shardings to jit (`in_shardings`, or arrays that have some) "
          "before lowering");
  return false;
}

}  // namespace

const RuleDialect kShardy = {"shardy",
                             "shardings of the arguments of a StableHLO module",
                             looks_like_stablehlo, read};

}  // namespace shardplan
