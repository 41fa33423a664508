// SPDX-License-Identifier: Apache-2.0
// SP206: what a plan cuts though numbers divide; units.h has the kinds.
#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/text.h"
#include "resolve/gathered_axes.h"
#include "resolve/lint.h"
#include "resolve/stored.h"
#include "resolve/unit_facts.h"
#include "resolve/unit_text.h"
#include "resolve/units.h"

namespace shardplan {
namespace {

// One unit of one placement, and all parameters that it is cut in: keys and
// values are alike.
struct Finding {
  SplitUnit split;
  uint32_t placement = 0;
  std::vector<uint32_t> classes;
};

// What is declared counts for a placement that is stored so. A plan that was
// changed by hand may say the one without the other.
Declarations declared_for(const LintInput& input, std::string_view name,
                          const Placement& placement, const UnitFacts& known) {
  if (!input.plan.declarations.any()) return {};
  const std::vector<StoredDim> expected =
      stored_dims(name, placement.type, placement.spec, input.plan.mesh,
                  input.plan.declarations, known);
  const bool same = std::equal(expected.begin(), expected.end(),
                               placement.stored.begin(), placement.stored.end(),
                               [](const StoredDim& a, const StoredDim& b) {
                                 return a.dim == b.dim && a.size == b.size;
                               });
  return same ? input.plan.declarations : Declarations();
}

std::vector<Finding> split_units(const LintInput& input,
                                 const ParameterClass& c,
                                 const UnitFacts& known) {
  const Placement& placement = input.plan.placements[c.kind];
  std::vector<Finding> result;
  if (placement.shards == 1) return result;
  const std::string_view name = input.manifest.name(c.first);
  const Declarations declared = declared_for(input, name, placement, known);
  const Shape stored = stored_shape(placement);
  for (const Unit& unit :
       units_of(name, placement.type, known.facts, known.hints)) {
    const auto dim = static_cast<size_t>(unit.dim);
    if (dim >= placement.spec.dims.size()) continue;
    SplitUnit split{unit, cutting_axes(unit, placement.spec.dims[dim]), 1,
                    placement.type, stored[dim]};
    split.shards = shard_count(input.plan.mesh, split.axes);
    std::erase_if(split.axes, [&](const AxisName& axis) {
      return input.plan.mesh.size_of(axis) == 1;
    });
    if (is_cut(unit, split.shards, declared)) {
      result.push_back({std::move(split), c.kind, {}});
    }
  }
  return result;
}

// Cutting a group of experts is common (DeepSeek runs so), and only means more
// traffic. Layers over an axis that gathers are slow, not wrong. Half of a
// stored block does not exist, whoever gives the facts.
Severity severity_of(const SplitUnit& split, const UnitFacts& known) {
  if (split.unit.kind == UnitKind::ExpertGroup) return Severity::Note;
  if (split.unit.stored) return Severity::Error;
  const bool gathers =
      std::all_of(split.axes.begin(), split.axes.end(), is_gathered_axis);
  // Blocks are never inferred from a name: facts or scales tell them.
  const bool told = known.given() || split.unit.kind == UnitKind::QuantBlock;
  return told && !gathers ? Severity::Error : Severity::Warning;
}

// Where the scales of a weight tell its blocks, and no facts do: what they
// tell, and what becomes of them.
std::string scales_text(const SplitUnit& split, const UnitFacts& known,
                        std::string_view name) {
  const QuantBlocks* told =
      split.unit.kind == UnitKind::QuantBlock && !known.facts.quant_rows &&
              !known.facts.quant_columns
          ? find_blocks(known.hints.blocks, name, split.type.shape)
          : nullptr;
  if (told == nullptr) return "";
  const auto dim = static_cast<size_t>(split.unit.dim);
  std::string text = "`" + printable(told->scales) + "` " +
                     shape_text(told->scales_shape) + " tells blocks of " +
                     std::to_string(told->blocks[dim]) + " in dimension " +
                     std::to_string(dim);
  if (told->placed && dim < told->scales_shape.size() &&
      told->scales_shape.size() == split.type.shape.size() &&
      told->scales_shape[dim] % split.shards != 0) {
    text += "; " + std::to_string(split.shards) + " shards do not divide its " +
            std::to_string(told->scales_shape[dim]) +
            ", so that every device would hold all of them";
  }
  return text;
}

// Packed tensors and stacks are told by names and shapes alone.
bool rests_on_facts(UnitKind kind) {
  return kind != UnitKind::PackedGateUp && kind != UnitKind::GateUpPair &&
         kind != UnitKind::QuantBlock && kind != UnitKind::Layer;
}

// What all of the parameters would take more if the axes that cut the unit left
// the dimension.
std::string whole_text(const LintInput& input, const Finding& finding,
                       int64_t parameters) {
  const Placement& placement = input.plan.placements[finding.placement];
  Placement whole = placement;
  std::erase_if(whole.spec.dims[static_cast<size_t>(finding.split.unit.dim)],
                [&](const AxisName& a) {
                  const AxisNames& cutting = finding.split.axes;
                  return std::find(cutting.begin(), cutting.end(), a) !=
                         cutting.end();
                });
  measure(whole, input.plan.mesh, input.plan.on_indivisible);
  return "kept whole on every device they would take " +
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
  for (const uint32_t number : finding.classes) {
    count += input.folding.classes[number].count;
    for (std::string& member :
         names_of(input.manifest, input.of_class.of(number))) {
      names.push_back(std::move(member));
    }
  }
  auto report = diags.report(
      Code::SplitUnit, severity_of(split, known), {},
      split_message(split, input.plan.mesh) + " " + names_text(names));
  report.label(asked_span(input, placement, split.unit.dim),
               "shards dimension " + std::to_string(split.unit.dim));
  report.fact(split_fact(split));
  report.fact(legal_sizes(split, input.plan.mesh, declared));
  report.fact(whole_text(input, finding, count));
  const std::string scales = scales_text(split, known, names.front());
  if (!scales.empty()) report.fact(scales);
  const bool needs_facts = rests_on_facts(split.unit.kind);
  for (const std::string& why : known.why) {
    if (needs_facts) report.fact(why);
  }
  for (std::string& help : split_help(split, declared)) {
    report.help(std::move(help));
  }
  if (needs_facts && !known.given()) {
    report.help(
        "give `heads`, `kv_heads` and `head_dim` as `facts` of the "
        "manifest, or put the model's config.json beside it, to be "
        "sure");
  }
  report.about({placement.rule, split.unit.dim, ""});
  name_parameters(report, std::move(names), count);
}

}  // namespace

void lint_units(const LintInput& input, Diagnostics& diags) {
  const UnitFacts known = input.summary == nullptr
                              ? unit_facts(input.manifest, input.folding)
                              : input.summary->known;
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
