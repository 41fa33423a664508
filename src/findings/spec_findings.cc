// SPDX-License-Identifier: Apache-2.0
// Findings about specs: the corrections that shapes and the mesh required, and
// the cost of padding or uneven chunks.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "findings/checks.h"
#include "findings/findings.h"
#include "model/units.h"
#include "resolve/name_resolution.h"

namespace shardplan {
namespace {

std::string axis_word(const AxisNames& axes) {
  return (axes.size() == 1 ? "axis " : "axes ") + quoted_names(texts_of(axes));
}

std::string sized(const Mesh& mesh, const AxisNames& axes) {
  return joined_of(axes, ", ", [&](const AxisName& axis) {
    return "axis `" + axis + "` is " + std::to_string(mesh.size_of(axis));
  });
}

std::string of_dim(int64_t dim) { return "dimension " + std::to_string(dim); }

// The units of parameters by placement. Facts that follow from all names
// together are computed on first use.
struct PlacedUnits {
  const LintInput& input;
  std::optional<UnitFacts> known = {};
  std::vector<std::vector<size_t>> classes_of = {};

  // Returns the units in a dimension of a placement, for all names that have
  // it.
  std::vector<Unit> in(size_t placement, int dim) {
    if (!known) {
      known = unit_facts_of(input);
      classes_of.resize(input.plan.placements.size());
      for (size_t i = 0; i < input.folding.classes.size(); ++i) {
        classes_of[input.folding.classes[i].kind].push_back(i);
      }
    }
    std::vector<Unit> units;
    for (const size_t number : classes_of[placement]) {
      const std::string_view name =
          input.manifest.name(input.folding.classes[number].first);
      std::ranges::copy_if(units_of(name, input.plan.placements[placement].type,
                                    known->facts, known->hints),
                           std::back_inserter(units),
                           [&](const Unit& unit) { return unit.dim == dim; });
    }
    return units;
  }
};

// Removes the sizes of an axis that split a unit while the other axes are
// fixed. Returns the names of the units for which it removed any: "head", "KV
// head".
std::set<std::string> keep_whole(const LintInput& input,
                                 const std::vector<Unit>& units,
                                 const AxisName& axis, const AxisNames& axes,
                                 std::vector<int64_t>& sizes) {
  const Mesh& mesh = input.plan.mesh;
  std::set<std::string> names;
  for (const Unit& unit : units) {
    const AxisNames cutting = cutting_axes(unit, axes);
    if (!contains(cutting, axis)) continue;
    const int64_t others = shard_count(mesh, cutting) / mesh.size_of(axis);
    if (std::erase_if(sizes, [&](int64_t size) {
          return is_cut(unit, size * others, input.plan.declarations);
        }) > 0) {
      names.emplace(unit_name(unit.kind));
    }
  }
  return names;
}

// Returns "`tp` may be 1, 3 or 9": for each axis, the sizes that divide the
// dimension and split no head or other unit, while the other axes are fixed.
std::string legal_sizes(const LintInput& input, const AxisNames& axes,
                        int64_t size, const std::vector<Unit>& units) {
  const Mesh& mesh = input.plan.mesh;
  std::string text;
  for (const AxisName& axis : axes) {
    const int64_t others = shard_count(mesh, axes) / mesh.size_of(axis);
    if (size % others != 0) continue;
    std::vector<int64_t> all = common_divisors(
        size / others, size / others, std::max<int64_t>(mesh.devices(), 64));
    const std::set<std::string> kept =
        keep_whole(input, units, axis, axes, all);
    if (all.empty()) continue;
    if (!text.empty()) text += "; ";
    text += "`" + axis + "` may be " + list_text(all, all.size());
    for (const std::string& unit : kept) {
      text += (unit == *kept.begin() ? ", with whole " : " and ") + unit + "s";
    }
  }
  if (!text.empty()) return text;
  return "no size of one axis alone divides " + std::to_string(size);
}

std::string padding_help(int64_t size, int64_t shards) {
  constexpr int64_t kTile = 128;  // matrix units and Megatron pad to this
  const auto smallest = checked_mul(ceil_div(size, shards), shards);
  const auto rounded = checked_mul(ceil_div(size, kTile), kTile);
  if (!smallest) return "use a smaller mesh";
  std::string text = "pad the dimension to " + std::to_string(*smallest);
  if (rounded && *rounded % shards == 0 && rounded != smallest) {
    text += ", or to " + std::to_string(*rounded) + " (a multiple of 128)";
  }
  return text;
}

void report_indivisible(const LintInput& input, size_t number,
                        const Correction& correction, int64_t count,
                        PlacedUnits& units, Diagnostics& diags) {
  const Placement& placement = input.plan.placements[number];
  const std::span<const uint32_t> members = input.of_placement.of(number);
  std::vector<std::string> names = names_of(input.manifest, members);
  const Mesh& mesh = input.plan.mesh;
  // The requested axes that the mesh has.
  AxisNames axes = nth(placement.requested_spec().dims, correction.dim);
  erase_if(axes, [&](const AxisName& axis) { return !mesh.find(axis); });
  const int64_t size = nth(stored_shape(placement), correction.dim);
  const int64_t shards = shard_count(mesh, axes);
  const std::string dim = of_dim(correction.dim);
  auto report =
      diags.report(Code::IndivisibleDimension,
                   input.plan.on_indivisible == OnIndivisible::Error
                       ? Severity::Error
                       : code_info(Code::IndivisibleDimension).severity,
                   {},
                   dim + " of " + names_text(names) + " is not divisible by " +
                       axis_word(axes));
  report.about({placement.rule, correction.dim, ""});
  report.parameters(std::move(names)).findings(count);
  if (input.summary != nullptr) return;  // the rest is never shown
  report.label(asked_span(input, placement, correction.dim), "shards " + dim);
  report.fact(dim + " is " + std::to_string(size) + "; " + sized(mesh, axes) +
              "; " + std::to_string(size) + " mod " + std::to_string(shards) +
              " = " + std::to_string(size % shards));
  report.fact(axis_word(correction.dropped) +
              (correction.dropped.size() == 1 ? " is" : " are") +
              " dropped here: " + spec_text(placement.spec) + ", " +
              cost_text(input, placement, members));
  report.fact(legal_sizes(input, axes, size, units.in(number, correction.dim)));
  report.bytes(static_cast<double>(per_device(
      input, members,
      placement.bytes_per_device - requested_bytes(input.plan, placement))));
  report.help(padding_help(size, shards));
}

// Findings about one spec entry of a rule, for all placements that it made.
struct EntryKey {
  Code code;
  int rule;  // 0: requested by logical axes
  int dim;
  std::string reason;
  auto operator<=>(const EntryKey&) const = default;  // NOLINT: no pointer
};
struct EntryUse {
  PerDevice extra;  // bytes beyond the requested ones
  PerDevice held;   // bytes
  AxisNames dropped = {};
  Span where = {};  // the place of the request
  std::vector<std::string> names = {};
  int64_t count = 0;  // of parameters
};

// Entries beyond the rank that have no axes are not reported if another one is:
// one with axes, or an earlier one. Returns the dimension of those that are.
std::optional<int> reported_null(const Placement& placement) {
  std::optional<int> first;
  for (const Correction& correction : placement.corrections) {
    if (correction.code != Code::SpecLongerThanRank) continue;
    if (!correction.dropped.empty()) return std::nullopt;
    first = std::min(correction.dim, first.value_or(correction.dim));
  }
  return first;
}

// The names that entries may use and their meanings, looked up once for all
// findings, since there may be as many of these as rules.
class Entries {
 public:
  explicit Entries(const Plan& plan)
      : known_(plan.declared_axes.begin(), plan.declared_axes.end()),
        others_(plan.other_names.begin(), plan.other_names.end()),
        meant_(plan.rules.size() + 1) {
    known_.emplace(kUnconstrained);
    for (const Axis& axis : plan.mesh.all_axes()) {
      known_.insert(axis.name);
      axes_.push_back(axis.name);
    }
    axes_.insert(axes_.end(), plan.declared_axes.begin(),
                 plan.declared_axes.end());
    for (const Placement& placement : plan.placements) {
      if (placement.rule < 1 || !placement.resolved) continue;
      nth(meant_, placement.rule).push_back(&*placement.resolved);
    }
  }

  bool is_other(const AxisName& name) const { return others_.contains(name); }

  // Returns the first of `axes` that neither the mesh nor a declaration has.
  std::optional<AxisName> first_unknown(const AxisNames& axes) const {
    for (const AxisName& axis : axes) {
      if (!known_.contains(axis) && !is_other(axis)) return axis;
    }
    return std::nullopt;
  }

  // Returns the axis that was probably meant. With thousands of names and axes,
  // only the first are compared.
  std::optional<std::string> nearest_to(const AxisName& axis) {
    constexpr size_t kMaxCompared = 100000;
    const auto [entry, is_new] = nearest_.try_emplace(axis, std::nullopt);
    if (is_new && compared_ < kMaxCompared) {
      compared_ += axes_.size();
      entry->second = nearest(axis, axes_);
    }
    return entry->second;
  }

  // Returns the meanings of a rule's spec, one per placement.
  const std::vector<const PartitionSpec*>& meanings(int rule) const {
    return nth(meant_, rule);
  }

 private:
  std::set<AxisName> known_;
  std::set<AxisName> others_;
  std::vector<std::string> axes_;
  std::vector<std::vector<const PartitionSpec*>> meant_;  // by rule
  std::map<AxisName, std::optional<std::string>> nearest_;
  size_t compared_ = 0;
};

// Under `--parity`, a declared axis that the mesh lacks is unknown anyway.
bool is_declared(const LintInput& input, const AxisName& axis) {
  return input.rules != nullptr && contains(input.rules->declared_axes, axis);
}

// Returns ", view `experts` has ep=8,edp=4".
std::string views_text(const Mesh& mesh) {
  std::string text;
  for (const MeshView& view : mesh.views()) {
    text += ", view `" + view.name + "` has " + axes_text(view.axes);
  }
  return text;
}

// Returns "`--mesh fsdp=4,tp=2`", or the flag of the view that the rule is for.
std::string flag_with_axis(const Mesh& mesh, std::string_view view,
                           const std::string& more) {
  return view.empty() ? "`--mesh " + mesh_text(mesh) + "," + more + "`"
                      : "`--view " + std::string(view) + ":" +
                            axes_text(mesh.axes_of(view)) + "," + more + "`";
}

void explain_unknown(const LintInput& input, int rule, const AxisName& axis,
                     Entries& entries, Diagnostics::Builder& report) {
  const Plan& plan = input.plan;
  if (axis.empty()) {
    // A field of `partition_axis` is None, within the tuple of another field or
    // beside an axis in a spec.
    report.help(
        "set the `partition_axis` field that is None to the axes you want, or "
        "leave it out of the dimension");
    return;
  }
  const bool is_ours = form_of(input) == nullptr;
  const std::string view = rule < 1 ? "" : rule_of(plan, rule).view;
  report.fact("the mesh has " + mesh_text(plan.mesh) + views_text(plan.mesh));
  if (is_declared(input, axis)) {
    report.fact("the rules declare it, which eFormer and JAX ignore");
    report.help("without `--parity` it counts as size 1");
    report.help("add the axis with " +
                flag_with_axis(plan.mesh, view, axis + "=1"));
    return;
  }
  if (const auto near = entries.nearest_to(axis)) {
    report.help("replace " + in_backticks(axis) + " with `" + *near + "`");
  } else if (axis == "None" || axis == "none") {
    report.help(is_ours ? "write `null` for None"
                        : "write None itself, without quotes");
  } else {
    report.help("remove " + in_backticks(axis) + " from the spec");
  }
  report.help("add the axis with " +
              flag_with_axis(plan.mesh, view, axis + "=N") +
              ", or declare it with " +
              (!is_ours       ? "`--axes " + axis + "`"
               : view.empty() ? "`axes:`"
                              : "`view_axes:`") +
              " to make it optional");
}

std::string message_of(const EntryKey& key, const EntryUse& use,
                       const AxisName& unknown) {
  const std::string names = names_text(use.names);
  switch (key.code) {
    case Code::UnknownAxis:
      return unknown.empty() ? "None is listed among the axes of a dimension"
                             : "unknown axis " + in_backticks(unknown);
    case Code::RepeatedAxis:
      return key.reason + " of " + names;
    case Code::MixedViews:
      return "the spec of " + names + " names axes of two views: " + key.reason;
    case Code::NotDealt:
      return names + " cannot be placed whole: " + key.reason;
    case Code::SpecLongerThanRank:
      return "the spec of rule " + std::to_string(key.rule) +
             " has an entry for " + of_dim(key.dim) + ", but " + key.reason +
             ": " + names;
    default:
      return names + " is replicated because it is small";
  }
}

// Returns what the parameters of an entry lose. The bytes that an unknown or
// repeated axis would have saved are unknown, so the held bytes are given.
std::string loss_of(const EntryKey& key, const EntryUse& use) {
  const std::string held = bytes_text(use.held.most()) + " per device";
  switch (key.code) {
    case Code::NotDealt:
      return "it is replicated, except as the spec shards it: " + held;
    case Code::UnknownAxis:
    case Code::RepeatedAxis:
    case Code::MixedViews:
      return of_dim(key.dim) + " of " + names_text(use.names) +
             " becomes unsharded: " + held;
    case Code::SpecLongerThanRank:
      return "the entry is ignored: " + held;
    default:
      return bytes_text(use.extra.most()) + " more per device than requested";
  }
}

// Returns "`HEAD` means `tp`" if the entry names anything but mesh axes.
std::string meaning_text(const LintInput& input, const EntryKey& key,
                         const Entries& entries) {
  if (key.rule < 1) return "";
  const PartitionSpec& written = rule_of(input.plan, key.rule).spec;
  const size_t dim = to_size(key.dim);
  if (dim >= written.dims.size()) return "";
  const AxisNames& names = written.dims[dim];
  if (std::ranges::none_of(names, [&](const AxisName& name) {
        return entries.is_other(name);
      })) {
    return "";
  }
  for (const PartitionSpec* meant : entries.meanings(key.rule)) {
    if (dim >= meant->dims.size()) continue;
    return in_backticks(axes_text(names)) + " means " +
           in_backticks(axes_text(meant->dims[dim]));
  }
  return "";
}

constexpr std::array<std::pair<Code, std::string_view>, 4> kHelpFor = {{
    {Code::RepeatedAxis, "use each axis for only one dimension of a parameter"},
    {Code::MixedViews,
     "use axes of one view in a spec; `view: NAME` in a rule selects the view"},
    {Code::NotDealt,
     "use `deal` for experts stored one by one, such as "
     "`experts.3.up_proj.weight`; shard stacked experts over their expert "
     "dimension"},
    {Code::SpecLongerThanRank,
     "write a separate rule for parameters of this rank"},
}};

void report_entry(const LintInput& input, const EntryKey& key, EntryUse use,
                  Entries& entries, Diagnostics& diags) {
  const AxisName unknown = entries.first_unknown(use.dropped).value_or("");
  auto report =
      diags.report(key.code, use.where, message_of(key, use, unknown));
  report.about({key.rule, key.dim, unknown});
  if (input.summary != nullptr) {  // the rest is never shown
    if (use.count > 0) {
      report.parameters(std::move(use.names)).findings(use.count);
    }
    return;
  }
  if (input.rules == nullptr && key.rule > 0) {
    report.fact(rule_text(input.plan, key.rule));
  }
  if (const std::string meaning = meaning_text(input, key, entries);
      !meaning.empty()) {
    report.fact(meaning);
  }
  if (key.code == Code::UnknownAxis) {
    explain_unknown(input, key.rule, unknown, entries, report);
  }
  report.bytes(static_cast<double>(
      (key.code == Code::SmallParameter ? use.extra : use.held).most()));
  if (key.code == Code::SmallParameter) report.fact(key.reason);
  if (!use.names.empty()) report.fact(loss_of(key, use));
  for (const auto& [code, help] : kHelpFor) {
    if (code == key.code) report.help(std::string(help));
  }
  if (!use.names.empty()) {
    report.parameters(std::move(use.names)).findings(use.count);
  }
}

// Adds the rules that decided nothing but name an axis that does not exist.
// Skips rules for a view that the mesh lacks, which are meant for another run.
void add_idle_rules(const LintInput& input, const Entries& known,
                    std::map<EntryKey, EntryUse>& entries) {
  for (size_t i = 0; i < input.plan.rules.size(); ++i) {
    const PlanRule& rule = input.plan.rules[i];
    if (!input.plan.mesh.has_view(rule.view)) continue;
    for (size_t dim = 0; dim < rule.spec.dims.size(); ++dim) {
      const auto unknown = known.first_unknown(rule.spec.dims[dim]);
      if (!unknown || is_declared(input, *unknown)) continue;
      const EntryKey key{Code::UnknownAxis, static_cast<int>(i) + 1,
                         static_cast<int>(dim),
                         "axis `" + *unknown + "` is unknown"};
      entries.try_emplace(
          key, EntryUse{PerDevice(input), PerDevice(input), rule.spec.dims[dim],
                        spec_span(input, key.rule, key.dim)});
    }
  }
}

bool is_moved(const Placement& placement) {
  return std::ranges::count(placement.corrections, Code::UnevenShards,
                            &Correction::code) > 0;
}

bool is_uneven(const Mesh& mesh, const Placement& placement) {
  const Shape shape = stored_shape(placement);
  for (size_t dim = 0; dim < placement.spec.dims.size(); ++dim) {
    if (shape[dim] % shard_count(mesh, placement.spec.dims[dim]) != 0) {
      return true;
    }
  }
  return false;
}

// Returns the bytes of a placement's parameters on the fullest device in even
// shards; extra_bytes() returns how many more they have.
double even_bytes(const LintInput& input, size_t number) {
  const Placement& placement = input.plan.placements[number];
  const TensorType stored{placement.type.dtype, stored_shape(placement)};
  return static_cast<double>(stored.bytes()) /
         static_cast<double>(placement.shards) *
         static_cast<double>(
             per_device(input, input.of_placement.of(number), 1));
}
double extra_bytes(const LintInput& input, size_t number) {
  const int64_t held =
      per_device(input, input.of_placement.of(number),
                 input.plan.placements[number].bytes_per_device);
  return static_cast<double>(held) - even_bytes(input, number);
}

constexpr const char* kMoreThanEven =
    " more on the fullest device than even shards would take";

void report_uneven(const LintInput& input, size_t number, int64_t count,
                   PlacedUnits& units, Diagnostics& diags) {
  const Placement& placement = input.plan.placements[number];
  const std::vector<std::string> names =
      names_of(input.manifest, input.of_placement.of(number));
  const Mesh& mesh = input.plan.mesh;
  const Cut cut = cut_of(input.plan.on_indivisible);
  const Shape shape = stored_shape(placement);
  for (int dim = 0; dim < std::ssize(placement.spec.dims); ++dim) {
    const AxisNames& axes = nth(placement.spec.dims, dim);
    const int64_t size = nth(shape, dim);
    const int64_t shards = shard_count(mesh, axes);
    if (size % shards == 0) continue;
    auto report =
        diags.report(Code::UnevenShards, asked_span(input, placement, dim),
                     of_dim(dim) + " of " + names_text(names) +
                         (cut == Cut::Even ? " is padded over "
                                           : " is sharded unevenly over ") +
                         axis_word(axes));
    const std::string sizes = joined_of(
        shard_sizes(mesh, axes, cut, size), ", ", [](const ShardSize& s) {
          return std::to_string(s.count) + " of " + std::to_string(s.rows);
        });
    report.fact(of_dim(dim) + " is " + std::to_string(size) + "; " +
                sized(mesh, axes) + "; shards by rows: " + sizes);
    const double extra = extra_bytes(input, number);
    report.bytes(extra);
    report.fact(bytes_text(extra) + kMoreThanEven);
    for (const Correction& moved : placement.corrections) {
      if (moved.code != Code::UnevenShards || dim > 0) continue;
      report.fact(of_dim(moved.dim) + ": " + moved.reason);
    }
    report.fact(legal_sizes(input, axes, size, units.in(number, dim)));
    report.help(padding_help(size, shards));
    report.about({placement.rule, dim, ""});
    report.parameters(names).findings(count);
  }
}

// Collects the parameters that FSDP2 splits into nearly even rows, as it always
// does, into one note.
struct RowsNote {
  const LintInput& input;
  std::vector<std::string> names = {};
  AxisNames axes = {};
  int64_t parameters = 0;
  int64_t moved = 0;
  double extra = 0;

  void add(size_t number, int64_t count) {
    const Placement& placement = input.plan.placements[number];
    const std::span<const uint32_t> members = input.of_placement.of(number);
    append_names(input.manifest, members, names);
    parameters += count;
    extra += extra_bytes(input, number);
    if (is_moved(placement)) moved += count;
    for (const AxisName& axis : placement.spec.dims[0]) {
      if (is_gathered_axis(axis) && !contains(axes, axis)) {
        axes.push_back(axis);
      }
    }
  }

  void report(Diagnostics& diags) {
    if (parameters == 0) return;
    auto note = diags.report(Code::UnevenShards, Severity::Note, {},
                             "dimension 0 of " + names_text(names) +
                                 " is sharded by rows over " + axis_word(axes) +
                                 ", as FSDP2 does");
    note.fact(bytes_text(extra) + kMoreThanEven);
    if (moved > 0) {
      note.fact(
          "for " + plural(moved, "parameter") +
          " the rules name another dimension, which the axis does not divide");
    }
    note.bytes(extra);
    note.parameters(std::move(names)).findings(parameters);
  }
};

}  // namespace

void check_spec_entries(const LintInput& input, Diagnostics& diags) {
  std::map<EntryKey, EntryUse> entries;
  for (size_t i = 0; i < input.plan.placements.size(); ++i) {
    const Placement& placement = input.plan.placements[i];
    const std::span<const uint32_t> members = input.of_placement.of(i);
    const int64_t count = count_of(input, members);
    const std::optional<int> null_dim = reported_null(placement);
    std::optional<int64_t> requested;  // bytes, computed on first use
    for (const Correction& correction : placement.corrections) {
      if (correction.code == Code::IndivisibleDimension ||
          correction.code == Code::UnevenShards ||
          is_unplaced_label(correction)) {  // check_lost_labels reports these
        continue;
      }
      // A small parameter is one finding, however many dimensions it loses.
      if (correction.code == Code::SmallParameter &&
          &correction != &placement.corrections.front()) {
        continue;
      }
      if (correction.code == Code::SpecLongerThanRank &&
          correction.dropped.empty() && correction.dim != null_dim) {
        continue;
      }
      EntryUse& use =
          entries
              .try_emplace({correction.code, placement.rule, correction.dim,
                            correction.reason},
                           EntryUse{PerDevice(input), PerDevice(input)})
              .first->second;
      use.dropped = correction.dropped;
      use.where = asked_span(input, placement, correction.dim);
      use.count += count;
      use.held.add(members, placement.bytes_per_device);
      if (!requested) requested = requested_bytes(input.plan, placement);
      use.extra.add(members, std::max<int64_t>(
                                 0, placement.bytes_per_device - *requested));
      append_names(input.manifest, members, use.names);
    }
  }
  Entries known(input.plan);
  add_idle_rules(input, known, entries);
  for (auto& [key, use] : entries) {
    report_entry(input, key, std::move(use), known, diags);
  }
}

void check_divisions(const LintInput& input, Diagnostics& diags) {
  report_uneven_dealing(input, diags);
  PlacedUnits units{input};
  RowsNote rows{input};
  for (size_t i = 0; i < input.plan.placements.size(); ++i) {
    const Placement& placement = input.plan.placements[i];
    const int64_t count = count_of(input, input.of_placement.of(i));
    for (const Correction& correction : placement.corrections) {
      if (correction.code != Code::IndivisibleDimension) continue;
      report_indivisible(input, i, correction, count, units, diags);
    }
    if (allows_uneven(input.plan.on_indivisible)) {
      if (!is_moved(placement) && !is_uneven(input.plan.mesh, placement)) {
        continue;
      }
      const bool little = extra_bytes(input, i) <=
                          input.options.tolerance * even_bytes(input, i);
      if (input.plan.on_indivisible == OnIndivisible::Rows && little) {
        rows.add(i, count);
      } else {
        report_uneven(input, i, count, units, diags);
      }
    }
  }
  rows.report(diags);
}

}  // namespace shardplan
