// SPDX-License-Identifier: Apache-2.0
// SP206: units that a plan splits although sizes divide (model/units.h).
#include "findings/unit_findings.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "findings/checks.h"
#include "findings/findings.h"
#include "resolve/correct.h"
#include "resolve/resolve.h"

namespace shardplan {
namespace {

std::string number(int64_t value) { return std::to_string(value); }

// Returns "half a head", "1/3 of a head" or "1/4 of an expert".
std::string share_text(int64_t units, int64_t devices, std::string_view name) {
  const int64_t common = std::gcd(units, devices);
  const int64_t parts = devices / common;
  const int64_t whole = units / common;
  const std::string one =
      (name.starts_with('e') ? "an " : "a ") + std::string(name);
  if (whole == 1 && parts == 2) return "half " + one;
  return number(whole) + "/" + number(parts) + " of " + one;
}

// Returns the name of the dimension's lines: the last one of a matrix has
// columns.
std::string_view lines_name(const SplitUnit& split) {
  const auto rank = std::ssize(split.type.shape);
  return rank > 1 && split.unit.dim + 1 == rank ? "columns" : "rows";
}

// Returns "device 0 would hold gate rows 0-2047 and no up rows".
std::string first_shard_text(const SplitUnit& split) {
  const std::string lines(lines_name(split));
  const int64_t end = ceil_div(split.size, split.shards);
  std::string held;
  std::string missing;
  int64_t begin = 0;
  for (const Part& part : split.unit.parts) {
    const std::string name = std::string(part.name) + " " + lines;
    if (begin < end) {
      held += (held.empty() ? "" : ", ") + name + " 0-" +
              number(std::min(end - begin, part.rows) - 1) + " of " +
              number(part.rows);
    } else {
      missing += (missing.empty() ? "no " : ", no ") + name;
    }
    begin += part.rows;
  }
  return "device 0 would hold " + held +
         (missing.empty() ? "" : " and " + missing);
}

std::string packed_fact(const SplitUnit& split) {
  return joined(all_names(split.unit.parts), ", ", " and ") +
         " are side by side in the " + number(split.size) + " " +
         std::string(lines_name(split)) + ": " + first_shard_text(split);
}

std::string block_fact(const SplitUnit& split) {
  return "dimension " + number(split.unit.dim) + " is " + number(split.size) +
         ", in " + plural(split.unit.count, "quantisation block") + "; " +
         number(split.shards) + " shards of " +
         number(ceil_div(split.size, split.shards)) +
         " begin or end within a block";
}

std::string layer_fact(const SplitUnit& split) {
  return "dimension " + number(split.unit.dim) + " stacks " +
         number(split.unit.count) + " layers: a device would hold all of " +
         number(ceil_div(split.size, split.shards)) +
         " layers but none of the others, which it also needs";
}

// Returns the sizes of one axis that split nothing, next to `others` other
// shards.
std::vector<int64_t> legal_counts(const SplitUnit& split, int64_t others,
                                  const Declarations& declared) {
  const Unit& unit = split.unit;
  std::set<int64_t> candidates = {1};
  const auto add_divisors = [&](int64_t size) {
    if (size <= 0) return;
    for (const int64_t n : common_divisors(size, size, size)) {
      if (n % others == 0) candidates.insert(n / others);
    }
  };
  add_divisors(nth(split.type.shape, unit.dim));
  // Replication stores more rows than the checkpoint has.
  if (declared.replicate_kv_heads) add_divisors(unit.queries);
  std::vector<int64_t> legal;
  for (const int64_t n : candidates) {
    if (!is_cut(unit, n * others, declared)) legal.push_back(n);
  }
  return legal;
}

bool is_kv(const Unit& unit) {
  return unit.kind == UnitKind::KvHead || unit.kind == UnitKind::HeadGroup;
}

// One unit of one placement, and the classes in which it is split; keys and
// values are alike.
struct Finding {
  SplitUnit split;
  uint32_t placement = 0;
  std::vector<uint32_t> classes;
};

// Returns the declarations, if the placement is stored as declared. A plan that
// was edited by hand may have the one without the other.
Declarations declared_for(const LintInput& input, std::string_view name,
                          const Placement& placement, const UnitFacts& known) {
  if (!input.plan.declarations.any()) return {};
  const std::vector<StoredDim> expected =
      stored_dims(name, placement.type, placement.spec, input.plan.mesh,
                  input.plan.declarations, known);
  const auto has_size = [](const StoredDim& a, const StoredDim& b) {
    return a.dim == b.dim && a.size == b.size;
  };
  const bool same =
      std::ranges::equal(expected, placement.stored_dims, has_size);
  return same ? input.plan.declarations : Declarations();
}

std::vector<Finding> split_units(const LintInput& input,
                                 const ParameterClass& c,
                                 const UnitFacts& known) {
  const Placement& placement = input.plan.placements[c.kind];
  std::vector<Finding> result;
  if (placement.shards == 1) return result;
  const std::string_view name = input.manifest.name(c.first);
  Declarations declared = declared_for(input, name, placement, known);
  if (placement.rule > 0 && rule_of(input.plan, placement.rule).shards_parts) {
    declared.interleave_gate_up = declared.interleave_qkv = true;
  }
  // A tensor that a hook gathers before anything reads it may be split
  // anywhere.
  const bool is_put_together =
      placement.rule > 0 &&
      rule_of(input.plan, placement.rule).hook.output_layout ==
          HookLayout::Whole;
  const Shape stored = stored_shape(placement);
  for (const Unit& unit :
       units_of(name, placement.type, known.facts, known.hints)) {
    const size_t dim = to_size(unit.dim);
    if (dim >= placement.spec.dims.size()) continue;
    if (is_put_together && !unit.atomic) continue;
    SplitUnit split{unit, cutting_axes(unit, placement.spec.dims[dim]), 1,
                    placement.type, stored[dim]};
    split.shards = shard_count(input.plan.mesh, split.axes);
    erase_if(split.axes, [&](const AxisName& axis) {
      return input.plan.mesh.size_of(axis) == 1;
    });
    if (is_cut(unit, split.shards, declared)) {
      result.push_back({std::move(split), c.kind, {}});
    }
  }
  return result;
}

// Returns the severity. Splitting a group of experts is common (DeepSeek runs
// like this) and only means more traffic. Layers over an axis that gathers are
// slow, not wrong. Half of a stored block does not exist, wherever the facts
// come from.
Severity severity_of(const SplitUnit& split, const UnitFacts& known) {
  if (split.unit.kind == UnitKind::ExpertGroup) return Severity::Note;
  if (split.unit.atomic) return Severity::Error;
  const bool gathers = std::ranges::all_of(split.axes, is_gathered_axis);
  // Blocks are never inferred from a name, but given by facts or scales.
  const bool is_known =
      known.are_trusted() || split.unit.kind == UnitKind::QuantBlock;
  return is_known && !gathers ? Severity::Error : Severity::Warning;
}

// Returns the blocks that the scales of a weight imply, if the facts give
// others, and whether the scales are split; "" if they agree.
std::string scales_text(const SplitUnit& split, const UnitFacts& known,
                        std::string_view name) {
  const QuantBlocks* of_scales =
      split.unit.kind == UnitKind::QuantBlock
          ? find_blocks(known.hints.blocks, name, split.type.shape)
          : nullptr;
  if (of_scales == nullptr) return "";
  const size_t dim = to_size(split.unit.dim);
  const auto& said = dim + 1 == split.type.shape.size()
                         ? known.facts.quant_columns
                         : known.facts.quant_rows;
  if (said == of_scales->blocks[dim] || of_scales->blocks[dim] < 2) return "";
  std::string text = in_backticks(of_scales->scales) + " " +
                     shape_text(of_scales->scales_shape) +
                     " implies blocks of " +
                     std::to_string(of_scales->blocks[dim]) + " in dimension " +
                     std::to_string(dim);
  if (of_scales->placed && dim < of_scales->scales_shape.size() &&
      of_scales->scales_shape.size() == split.type.shape.size() &&
      of_scales->scales_shape[dim] % split.shards != 0) {
    text += "; " + std::to_string(split.shards) + " shards do not divide its " +
            std::to_string(of_scales->scales_shape[dim]) +
            ", so the scales would be replicated";
  }
  return text;
}

// Packed tensors and stacks are recognized by names and shapes alone.
bool rests_on_facts(UnitKind kind) {
  return kind != UnitKind::PackedGateUp && kind != UnitKind::GateUpPair &&
         kind != UnitKind::QuantBlock && kind != UnitKind::Layer;
}

// Returns how much more all parameters would need without the axes that split
// the unit.
std::string whole_text(const LintInput& input, const Finding& finding,
                       int64_t parameters) {
  const Placement& placement = input.plan.placements[finding.placement];
  Placement whole = placement;
  erase_if(nth(whole.spec.dims, finding.split.unit.dim),
           [&](const AxisName& a) { return contains(finding.split.axes, a); });
  measure(whole, input.plan.mesh, input.plan.on_indivisible);
  return "replicating them would take " +
         bytes_text(static_cast<double>(whole.bytes_per_device -
                                        placement.bytes_per_device) *
                    static_cast<double>(parameters)) +
         " more per device";
}

void report_split(const LintInput& input, const Finding& finding,
                  const UnitFacts& known, Diagnostics& diags) {
  const SplitUnit& split = finding.split;
  const Placement& placement = input.plan.placements[finding.placement];
  const Declarations& declared = input.plan.declarations;
  std::vector<std::string> names;
  int64_t count = 0;
  PerDevice held(input);  // parameters
  for (const uint32_t number : finding.classes) {
    count += input.folding.classes[number].count;
    held.add(input.of_class.of(number), 1);
    append_names(input.manifest, input.of_class.of(number), names);
  }
  auto report = diags.report(
      Code::SplitUnit, severity_of(split, known), {},
      split_message(split, input.plan.mesh) + " " + names_text(names));
  report.label(asked_span(input, placement, split.unit.dim),
               "shards dimension " + std::to_string(split.unit.dim));
  report.fact(split_fact(split));
  report.fact(legal_sizes(split, input.plan.mesh, declared));
  const auto most = static_cast<int64_t>(held.most());
  report.fact(whole_text(input, finding, most));
  const std::string scales = scales_text(split, known, names.front());
  if (!scales.empty()) report.fact(scales);
  const bool needs_facts = rests_on_facts(split.unit.kind);
  for (const std::string& why : known.why) {
    if (needs_facts) report.fact(why);
  }
  for (std::string& help : split_help(split, declared)) {
    report.help(std::move(help));
  }
  if (needs_facts && !known.are_trusted()) {
    report.help(
        "to be sure, give `heads`, `kv_heads` and `head_dim` as `facts` of the "
        "manifest, or put the model's config.json next to it");
  }
  report.about({placement.rule, split.unit.dim, ""});
  report.bytes(static_cast<double>(placement.bytes_per_device) *
               static_cast<double>(most));
  report.parameters(std::move(names)).findings(count);
}

}  // namespace

std::string split_message(const SplitUnit& split, const Mesh& mesh) {
  const Unit& unit = split.unit;
  return sizes_text(mesh, split.axes) + " splits the " +
         (unit.kind == UnitKind::Layer ? "stacked layer"
                                       : std::string(unit_name(unit.kind))) +
         (unit.parts.empty() ? "s of" : " of");
}

std::string split_fact(const SplitUnit& split) {
  const Unit& unit = split.unit;
  const std::string name(unit_name(unit.kind));
  if (unit.kind == UnitKind::Layer) return layer_fact(split);
  if (unit.inside) {
    return "dimension " + number(unit.dim) + ", of size " + number(split.size) +
           ", is within one " + name + ": any sharding splits it";
  }
  if (!unit.parts.empty()) return packed_fact(split);
  if (unit.kind == UnitKind::QuantBlock) return block_fact(split);
  return plural(unit.count, name) + " over " + number(split.shards) +
         " shards: " + share_text(unit.count, split.shards, name) +
         " on each, though " + number(split.size) + " mod " +
         number(split.shards) + " = " + number(split.size % split.shards);
}

std::string legal_sizes(const SplitUnit& split, const Mesh& mesh,
                        const Declarations& declared) {
  std::string text;
  for (const AxisName& axis : split.axes) {
    const int64_t others = split.shards / mesh.size_of(axis);
    const std::vector<int64_t> legal = legal_counts(split, others, declared);
    if (legal.empty()) continue;
    if (!text.empty()) text += "; ";
    text += "`" + axis + "` may be " + list_text(legal, legal.size());
  }
  if (!text.empty()) return text;
  return "no size of one axis alone keeps them whole";
}

std::vector<std::string> split_help(const SplitUnit& split,
                                    const Declarations& declared) {
  const Unit& unit = split.unit;
  const std::string dim = "dimension " + number(unit.dim);
  if (unit.kind == UnitKind::Layer) {
    return {"write `null` for " + dim +
            ": rules for scanned layers have one extra entry, for the stack"};
  }
  std::vector<std::string> help;
  if (unit.parts.empty() && !unit.inside && unit.count > 1) {
    help.push_back("use an axis size that divides " + number(unit.count) +
                   ", or leave the dimension unsharded " +
                   (is_kv(unit) ? "to replicate the " : "to keep the ") +
                   std::string(unit_name(unit.kind)) + "s" +
                   (is_kv(unit) ? "" : " whole"));
  } else {
    help.push_back("leave " + dim + " unsharded, or shard another dimension");
  }
  if (!unit.inside && is_kv(unit) && !declared.replicate_kv_heads &&
      split.shards > unit.count && split.shards % unit.count == 0) {
    help.emplace_back(
        "`--declare replicate-kv-heads` if each shard stores a whole KV head "
        "instead");
  }
  if (unit.kind == UnitKind::PackedGateUp && !declared.interleave_gate_up) {
    help.emplace_back(
        "`--declare interleave-gate-up` if each shard stores its part of both");
  }
  if (unit.kind == UnitKind::FusedQkv && !declared.interleave_qkv) {
    help.emplace_back(
        "`--declare interleave-qkv` if each shard stores its part of each");
  }
  return help;
}

void check_split_units(const LintInput& input, Diagnostics& diags) {
  const UnitFacts known = unit_facts_of(input);
  std::vector<Finding> findings;
  std::map<std::tuple<uint32_t, int, UnitKind, int64_t>, size_t> seen;
  for (size_t i = 0; i < input.folding.classes.size(); ++i) {
    for (Finding& finding :
         split_units(input, input.folding.classes[i], known)) {
      const Unit& unit = finding.split.unit;
      const auto [entry, is_new] =
          seen.try_emplace({finding.placement, unit.dim, unit.kind, unit.count},
                           findings.size());
      if (is_new) findings.push_back(std::move(finding));
      findings[entry->second].classes.push_back(static_cast<uint32_t>(i));
    }
  }
  for (const Finding& finding : findings) {
    report_split(input, finding, known, diags);
  }
}

}  // namespace shardplan
