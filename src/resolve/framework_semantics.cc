// SPDX-License-Identifier: Apache-2.0
// Reads a spec by the choices in the row of a framework.
#include "resolve/framework_semantics.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "core/fold.h"
#include "resolve/correct.h"
#include "resolve/name_resolution.h"

namespace shardplan {
namespace {

constexpr std::array<FrameworkSemantics, 7> kReadings = {{
    {.name = "eformer",
     .summary = "corrects specs: leaves dimensions that do not fit unsharded",
     .semantic_axes = true,
     .rule_bypass = RuleBypass::Scalars,
     .needs_rule = true,
     .cuts_to_rank = true,
     .drops_unknown = true,
     .uneven = Uneven::Whole},
    {.name = "flax",
     .summary = "uses specs unchanged; JAX rejects what does not fit",
     .logical_axes = true},
    {.name = "maxtext",
     .summary = "drops axes of size 1 and keeps the axes that divide",
     .logical_axes = true,
     .drops_size_one = true,
     .uneven = Uneven::Prefix},
    {.name = "easylm",
     .summary = "ignores rules for one-element arrays; otherwise JAX decides",
     .rule_bypass = RuleBypass::OneElement,
     .needs_rule = true},
    {.name = "dtensor",
     .summary = "splits like torch.chunk, axis by axis",
     .uneven = Uneven::Chunked},
    {.name = "hf",
     .summary =
         "tp_plan: ignores which digits are in names; blocks may be uneven",
     .folds_digits = true,
     .uneven = Uneven::Blocks},
    {.name = "gspmd",
     .summary = "pads indivisible dimensions",
     .logical_axes = true,
     .uneven = Uneven::Padded},
}};

// Returns "3 ×3, 1".
std::string shards_text(const std::vector<ShardSize>& shards) {
  return joined_of(shards, ", ", [](const ShardSize& shard) {
    const std::string rows = std::to_string(shard.rows);
    return shard.count > 1 ? rows + " ×" + std::to_string(shard.count) : rows;
  });
}

std::string of_dim(size_t dim) { return "dimension " + std::to_string(dim); }

// The request that the semantics are applied to.
struct Asked {
  const TensorType& type;
  const PartitionSpec* written = nullptr;  // null: no rule matches
  PartitionSpec spec = {};                 // `written` in mesh axes
  bool by_labels = false;                  // requested by the manifest's
                                           // logical axes
};

// Reads one request.
struct Reader {
  const FrameworkSemantics& semantics;
  const Mesh& mesh;
  const Vocabulary& vocabulary;
  ReadOutcome out = {};
  std::vector<size_t> uneven = {};  // dimensions

  ReadOutcome read(const Asked& asked) {
    const Shape& shape = asked.type.shape;
    if (bypasses_rules(asked.type)) {
      if (asked.written != nullptr) {
        note(shape.empty() ? "rules do not apply to scalars"
                           : "rules do not apply to one-element arrays");
      }
    } else if (asked.written == nullptr) {
      if (semantics.needs_rule) refuse("no rule matches");
    } else if (understands(asked)) {
      place(asked.spec, shape);
    }
    finish(asked.type);
    return std::move(out);
  }

  void note(std::string why) { out.why.push_back(std::move(why)); }
  void refuse(std::string why) {
    // Errors replace the remarks that were made before the first of them.
    if (out.kind != ReadKind::Refused) out.why.clear();
    out.kind = ReadKind::Refused;
    note(std::move(why));
  }
  // Notes a change to the spec, unless the spec is refused.
  void remark(std::string why) {
    if (out.kind != ReadKind::Refused) note(std::move(why));
  }

  bool bypasses_rules(const TensorType& type) const {
    if (semantics.rule_bypass == RuleBypass::None) return false;
    if (type.shape.empty()) return true;
    return semantics.rule_bypass == RuleBypass::OneElement &&
           type.elements() == 1;
  }

  bool understands(const Asked& asked) {
    for (const AxisName& axis : axes_in(*asked.written)) {
      const NameKind kind =
          asked.by_labels ? NameKind::Logical : vocabulary.kind_of(axis);
      const bool is_logical = kind == NameKind::Logical;
      if (is_logical ? semantics.logical_axes
                     : kind != NameKind::Semantic || semantics.semantic_axes) {
        continue;
      }
      out.kind = ReadKind::NotRead;
      note(in_backticks(axis) +
           (is_logical ? " is a logical axis" : " is a semantic axis") +
           ", which is not supported here");
      return false;
    }
    return true;
  }

  void place(const PartitionSpec& spec, const Shape& shape) {
    const size_t rank = shape.size();
    out.spec.dims.resize(rank);
    if (spec.dims.size() > rank && semantics.cuts_to_rank) {
      remark("truncated to " + plural(std::ssize(shape), "dimension"));
    } else if (spec.dims.size() > rank) {
      refuse("the spec has " + plural(std::ssize(spec.dims), "dimension") +
             ", but the array has " + count_text(std::ssize(shape)));
    }
    for (size_t dim = 0; dim < std::min(rank, spec.dims.size()); ++dim) {
      const auto axes = known(dim, spec.dims[dim]);
      if (axes) out.spec.dims[dim] = divided(dim, shape[dim], *axes);
    }
    std::set<AxisName> used;
    for (const AxisName& axis : axes_in(out.spec)) {
      if (used.insert(axis).second) continue;
      refuse("axis " + in_backticks(axis) + " is named twice");
      break;
    }
  }

  // Returns the axes of a dimension that the mesh has; no value if the
  // dimension is left unsharded.
  std::optional<AxisNames> known(size_t dim, const AxisNames& asked) {
    AxisNames axes;
    for (const AxisName& axis : asked) {
      if (axis == kUnconstrained) {
        remark(of_dim(dim) + " is left to the compiler");
        return std::nullopt;
      }
      if (!mesh.find(axis)) {
        const std::string why = "the mesh has no axis " + in_backticks(axis);
        if (semantics.drops_unknown) {
          remark(of_dim(dim) + " is not sharded: " + why);
        } else {
          refuse(why);
        }
        return std::nullopt;
      }
      if (semantics.drops_size_one && mesh.size_of(axis) == 1) {
        remark(in_backticks(axis) + " of size 1 is removed");
        continue;
      }
      axes.push_back(axis);
    }
    return axes;
  }

  AxisNames divided(size_t dim, int64_t size, AxisNames axes) {
    if (is_divisible(size, axes, mesh)) return axes;
    const std::string why =
        std::to_string(size) + " is not divisible by " + sizes_text(mesh, axes);
    switch (semantics.uneven) {
      case Uneven::Whole:
        remark(of_dim(dim) + " is not sharded: " + why);
        return {};
      case Uneven::Refused:
        refuse(of_dim(dim) + ": " + why);
        break;
      case Uneven::Prefix:
        while (!is_divisible(size, axes, mesh)) axes.pop_back();
        remark(of_dim(dim) +
               (axes.empty() ? " is not sharded: "
                             : " keeps only " + axes_text(axes) + ": ") +
               why);
        break;
      case Uneven::Padded:
        remark(of_dim(dim) + " is padded: " + why);
        break;
      case Uneven::Chunked:
      case Uneven::Blocks:
        uneven.push_back(dim);
        break;
    }
    return axes;
  }

  std::vector<ShardSize> shards_of(const AxisNames& axes, int64_t size) const {
    if (semantics.uneven == Uneven::Blocks) {
      const Mesh line({{"blocks", shard_count(mesh, axes)}});
      return shard_sizes(line, {"blocks"}, Cut::Chunked, size);
    }
    const bool chunked = semantics.uneven == Uneven::Chunked;
    return shard_sizes(mesh, axes, chunked ? Cut::Chunked : Cut::Even, size);
  }

  // Computes the sizes of the shards.
  void finish(const TensorType& type) {
    if (out.kind != ReadKind::Placed) return out.spec.dims.clear();
    for (size_t dim = 0; dim < out.spec.dims.size(); ++dim) {
      const AxisNames& axes = out.spec.dims[dim];
      if (axes.empty()) continue;
      out.shards.push_back(shards_of(axes, type.shape[dim]));
      if (contains(uneven, dim)) {
        note(of_dim(dim) + " of " + std::to_string(type.shape[dim]) +
             " is split into " + shards_text(out.shards.back()));
      }
    }
    if (names_no_axis(out.spec)) out.spec.dims.clear();
    Placement placement;
    placement.type = type;
    placement.spec = out.spec;
    measure(placement, mesh, OnIndivisible::Pad);
    out.bytes_per_device = placement.bytes_per_device;
  }
};

// Returns "experts.*.w*" for "experts.0.w1", the key that tp_plan is searched
// for.
std::string without_digits(std::string_view name) {
  return fold_digits(name, DigitFolding::EveryRun);
}

// Returns, per parameter, the first rule that decides any parameter whose name
// differs from its own only in digits; 0 for none.
std::vector<int> merged_rules(const Manifest& manifest, const Plan& plan) {
  std::unordered_map<std::string, int> first;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const int rule = plan.of(i).rule;
    if (rule == 0) continue;
    const auto [entry, is_new] =
        first.try_emplace(without_digits(manifest.name(i)), rule);
    entry->second = std::min(entry->second, rule);
  }
  std::vector<int> rules;
  rules.reserve(manifest.size());
  for (size_t i = 0; i < manifest.size(); ++i) {
    rules.push_back(first[without_digits(manifest.name(i))]);
  }
  return rules;
}

Asked asked_of(const Placement& placement) {
  if (!placement.requested) return {placement.type};
  return {placement.type, &*placement.requested, placement.requested_spec(),
          placement.rule == 0};
}

// Returns the request of the same parameter under another rule.
Asked asked_of(const TensorType& type, const Rule& rule) {
  return {
      type, &rule.spec,
      rule.from_last ? aligned_to_last(rule, type.shape.size()) : rule.spec};
}

}  // namespace

std::span<const FrameworkSemantics> framework_semantics() { return kReadings; }

const FrameworkSemantics* find_framework_semantics(std::string_view name) {
  return find_named(kReadings, name);
}

bool agree(const ReadOutcome& a, const ReadOutcome& b) {
  return std::tie(a.kind, a.spec, a.bytes_per_device, a.shards) ==
         std::tie(b.kind, b.spec, b.bytes_per_device, b.shards);
}

ReadOutcomes read_as(const FrameworkSemantics& semantics,
                     const Manifest& manifest, const RuleSet& rules,
                     const Plan& verbatim) {
  const Vocabulary vocabulary(rules, verbatim.mesh, {});
  std::vector<int> merged;
  if (semantics.folds_digits) merged = merged_rules(manifest, verbatim);
  std::map<std::pair<uint32_t, int>, uint32_t> known;
  ReadOutcomes model;
  model.outcome_of.reserve(manifest.size());
  for (size_t i = 0; i < manifest.size(); ++i) {
    const Placement& placement = verbatim.of(i);
    const int rule =
        merged.empty() || merged[i] == 0 ? placement.rule : merged[i];
    const auto next = static_cast<uint32_t>(model.outcomes.size());
    const auto [entry, is_new] =
        known.try_emplace({verbatim.placement_of[i], rule}, next);
    model.outcome_of.push_back(entry->second);
    if (!is_new) continue;
    Reader reader{semantics, verbatim.mesh, vocabulary};
    const bool is_own = rule == placement.rule;
    ReadOutcome& outcome = model.outcomes.emplace_back(reader.read(
        is_own ? asked_of(placement)
               : asked_of(placement.type, nth(rules.rules, rule - 1))));
    if (is_own) continue;
    outcome.why.insert(outcome.why.begin(),
                       "rule " + std::to_string(rule) + " applies to all of " +
                           in_backticks(without_digits(manifest.name(i))));
  }
  return model;
}

}  // namespace shardplan
