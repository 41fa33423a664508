// SPDX-License-Identifier: Apache-2.0
#include "resolve/framework_semantics.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "resolve/name_resolution.h"

namespace shardplan {
namespace {

constexpr std::array<FrameworkSemantics, 7> kReadings = {{
    {"eformer", "corrects specs: leaves dimensions that do not fit unsharded",
     true, false, RuleBypass::Scalars, true, true, true, false, false,
     Uneven::Whole},
    {"flax", "uses specs unchanged; JAX rejects what does not fit", false, true,
     RuleBypass::None, false, false, false, false, false, Uneven::Refused},
    {"maxtext", "drops axes of size 1 and keeps the axes that divide", false,
     true, RuleBypass::None, false, false, false, true, false, Uneven::Prefix},
    {"easylm", "ignores rules for one-element arrays; otherwise JAX decides",
     false, false, RuleBypass::OneElement, true, false, false, false, false,
     Uneven::Refused},
    {"dtensor", "splits like torch.chunk, axis by axis", false, false,
     RuleBypass::None, false, false, false, false, false, Uneven::Chunked},
    {"hf", "tp_plan: ignores which digits are in names; blocks may be uneven",
     false, false, RuleBypass::None, false, false, false, false, true,
     Uneven::Blocks},
    {"gspmd", "pads indivisible dimensions", false, true, RuleBypass::None,
     false, false, false, false, false, Uneven::Padded},
}};

// Returns "fsdp=4,tp=2".
std::string sizes_text(const Mesh& mesh, const AxisNames& axes) {
  return joined_of(axes, ",", [&](const AxisName& axis) {
    return axis + "=" + std::to_string(mesh.size_of(axis));
  });
}

// Returns "3 ×3, 1".
std::string shards_text(const std::vector<ShardSize>& shards) {
  std::string text;
  for (const ShardSize& shard : shards) {
    text += (text.empty() ? "" : ", ") + std::to_string(shard.rows);
    if (shard.count > 1) text += " ×" + std::to_string(shard.count);
  }
  return text;
}

// The request that the semantics are applied to.
struct Asked {
  const TensorType* type = nullptr;
  const PartitionSpec* written = nullptr;  // null: no rule matches
  PartitionSpec spec;                      // `written` in mesh axes
  bool by_labels = false;                  // requested by the manifest's
                                           // logical axes
};

class Reader {
 public:
  Reader(const FrameworkSemantics& semantics, const RuleSet& rules,
         const Mesh& mesh)
      : semantics_(semantics), mesh_(mesh), vocabulary_(rules, mesh, {}) {}

  ReadOutcome read(const Asked& asked) {
    out_ = {};
    const Shape& shape = asked.type->shape;
    if (bypasses_rules(*asked.type)) {
      if (asked.written != nullptr) {
        note(shape.empty() ? "rules do not apply to scalars"
                           : "rules do not apply to one-element arrays");
      }
    } else if (asked.written == nullptr) {
      if (semantics_.needs_rule) refuse("no rule matches");
    } else if (understands(asked)) {
      place(asked.spec, shape);
    }
    return finish(*asked.type);
  }

 private:
  void note(std::string why) { out_.why.push_back(std::move(why)); }
  void refuse(std::string why) {
    // Errors replace the remarks that were made before the first of them.
    if (out_.kind != ReadKind::Refused) out_.why.clear();
    out_.kind = ReadKind::Refused;
    note(std::move(why));
  }
  // Notes a change to the spec, unless the spec is refused.
  void remark(std::string why) {
    if (out_.kind != ReadKind::Refused) note(std::move(why));
  }

  bool bypasses_rules(const TensorType& type) const {
    if (semantics_.rule_bypass == RuleBypass::None) return false;
    if (type.shape.empty()) return true;
    return semantics_.rule_bypass == RuleBypass::OneElement &&
           type.elements() == 1;
  }

  bool understands(const Asked& asked) {
    for (const AxisNames& axes : asked.written->dims) {
      for (const AxisName& axis : axes) {
        const NameKind kind =
            asked.by_labels ? NameKind::Logical : vocabulary_.kind_of(axis);
        std::string what;
        if (kind == NameKind::Logical && !semantics_.logical_axes) {
          what = "a logical axis";
        } else if (kind == NameKind::Semantic && !semantics_.semantic_axes) {
          what = "a semantic axis";
        }
        if (what.empty()) continue;
        out_.kind = ReadKind::NotRead;
        note(in_backticks(axis) + " is " + what +
             ", which is not supported here");
        return false;
      }
    }
    return true;
  }

  void place(const PartitionSpec& spec, const Shape& shape) {
    out_.spec.dims.resize(shape.size());
    const size_t rank = shape.size();
    if (spec.dims.size() > rank && !semantics_.cuts_to_rank) {
      refuse("the spec has " + plural(std::ssize(spec.dims), "dimension") +
             ", but the array has " + count_text(static_cast<int64_t>(rank)));
    } else if (spec.dims.size() > rank) {
      remark("truncated to " + plural(static_cast<int64_t>(rank), "dimension"));
    }
    for (size_t dim = 0; dim < std::min(rank, spec.dims.size()); ++dim) {
      const auto axes = known(dim, spec.dims[dim]);
      if (axes) out_.spec.dims[dim] = divided(dim, shape[dim], *axes);
    }
    refuse_repeated();
  }

  static std::string of_dim(size_t dim) {
    return "dimension " + std::to_string(dim);
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
      if (!mesh_.find(axis)) {
        const std::string why = "the mesh has no axis " + in_backticks(axis);
        if (semantics_.drops_unknown) {
          remark(of_dim(dim) + " is not sharded: " + why);
        } else {
          refuse(why);
        }
        return std::nullopt;
      }
      if (semantics_.drops_size_one && mesh_.size_of(axis) == 1) {
        remark(in_backticks(axis) + " of size 1 is removed");
        continue;
      }
      axes.push_back(axis);
    }
    return axes;
  }

  bool divides(int64_t size, const AxisNames& axes) const {
    const int64_t shards = shard_count(mesh_, axes);
    return size == 0 || (shards != INT64_MAX && size % shards == 0);
  }

  AxisNames divided(size_t dim, int64_t size, AxisNames axes) {
    if (divides(size, axes)) return axes;
    const std::string why = std::to_string(size) + " is not divisible by " +
                            sizes_text(mesh_, axes);
    switch (semantics_.uneven) {
      case Uneven::Whole:
        remark(of_dim(dim) + " is not sharded: " + why);
        return {};
      case Uneven::Refused:
        refuse(of_dim(dim) + ": " + why);
        return axes;
      case Uneven::Prefix:
        while (!divides(size, axes)) axes.pop_back();
        remark(of_dim(dim) +
               (axes.empty() ? " is not sharded: "
                             : " keeps only " + axes_text(axes) + ": ") +
               why);
        return axes;
      case Uneven::Padded:
        remark(of_dim(dim) + " is padded: " + why);
        return axes;
      case Uneven::Chunked:
      case Uneven::Blocks:
        uneven_.push_back(dim);
        return axes;
    }
    return axes;
  }

  void refuse_repeated() {
    std::set<AxisName> used;
    for (const AxisNames& axes : out_.spec.dims) {
      for (const AxisName& axis : axes) {
        if (used.insert(axis).second) continue;
        refuse("axis " + in_backticks(axis) + " is named twice");
        return;
      }
    }
  }

  std::vector<ShardSize> shards_of(const AxisNames& axes, int64_t size) const {
    if (semantics_.uneven == Uneven::Blocks) {
      const Mesh line({{"blocks", shard_count(mesh_, axes)}});
      return shard_sizes(line, {"blocks"}, Cut::Chunked, size);
    }
    const bool chunked = semantics_.uneven == Uneven::Chunked;
    return shard_sizes(mesh_, axes, chunked ? Cut::Chunked : Cut::Even, size);
  }

  ReadOutcome finish(const TensorType& type) {
    const std::vector<size_t> uneven = std::exchange(uneven_, {});
    if (out_.kind != ReadKind::Placed) {
      out_.spec.dims.clear();
      return std::move(out_);
    }
    for (size_t dim = 0; dim < out_.spec.dims.size(); ++dim) {
      const AxisNames& axes = out_.spec.dims[dim];
      if (axes.empty()) continue;
      out_.shards.push_back(shards_of(axes, type.shape[dim]));
      if (contains(uneven, dim)) {
        note(of_dim(dim) + " of " + std::to_string(type.shape[dim]) +
             " is split into " + shards_text(out_.shards.back()));
      }
    }
    if (names_no_axis(out_.spec)) out_.spec.dims.clear();
    Placement placement;
    placement.type = type;
    placement.spec = out_.spec;
    measure(placement, mesh_, OnIndivisible::Pad);
    out_.bytes_per_device = placement.bytes_per_device;
    return std::move(out_);
  }

  const FrameworkSemantics& semantics_;
  const Mesh& mesh_;
  Vocabulary vocabulary_;
  ReadOutcome out_;
  std::vector<size_t> uneven_;
};

// Returns "experts.*.w*" for "experts.0.w1", the key that tp_plan is searched
// for.
std::string without_digits(std::string_view name) {
  std::string result;
  bool in_number = false;
  for (const char c : name) {
    if (!is_digit(c)) result += c;
    if (is_digit(c) && !in_number) result += '*';
    in_number = is_digit(c);
  }
  return result;
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
    const auto found = first.find(without_digits(manifest.name(i)));
    rules.push_back(found == first.end() ? 0 : found->second);
  }
  return rules;
}

Asked asked_of(const Placement& placement) {
  Asked asked;
  asked.type = &placement.type;
  if (!placement.requested) return asked;
  asked.written = &*placement.requested;
  asked.spec = placement.requested_spec();
  asked.by_labels = placement.rule == 0;
  return asked;
}

// Returns the request of the same parameter under another rule.
Asked asked_of(const TensorType& type, const Rule& rule) {
  Asked asked;
  asked.type = &type;
  asked.written = &rule.spec;
  asked.spec = rule.spec;
  if (rule.from_last) asked.spec = aligned_to_last(rule, type.shape.size());
  return asked;
}

}  // namespace

std::span<const FrameworkSemantics> framework_semantics() { return kReadings; }

const FrameworkSemantics* find_framework_semantics(std::string_view name) {
  return find_named(kReadings, name);
}

bool agree(const ReadOutcome& a, const ReadOutcome& b) {
  if (a.kind != b.kind) return false;
  return a.kind != ReadKind::Placed ||
         (a.spec == b.spec && a.bytes_per_device == b.bytes_per_device &&
          a.shards == b.shards);
}

ReadOutcomes read_as(const FrameworkSemantics& semantics,
                     const Manifest& manifest, const RuleSet& rules,
                     const Plan& verbatim) {
  Reader reader(semantics, rules, verbatim.mesh);
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
    if (rule == placement.rule) {
      model.outcomes.push_back(reader.read(asked_of(placement)));
      continue;
    }
    const Rule& other = rules.rules[static_cast<size_t>(rule) - 1];
    model.outcomes.push_back(reader.read(asked_of(placement.type, other)));
    model.outcomes.back().why.insert(
        model.outcomes.back().why.begin(),
        "rule " + std::to_string(rule) + " applies to all of " +
            in_backticks(without_digits(manifest.name(i))));
  }
  return model;
}

}  // namespace shardplan
