// SPDX-License-Identifier: Apache-2.0
// Declarations: how a framework stores a model otherwise than its checkpoint
// has it, as the user declares (`--declare`). What is declared is counted, and
// what it makes right is not a finding.
//
//   replicate-kv-heads   where more shards than KV heads cut the heads, each
//                        shard stores one whole head
//   pad-vocab=M          the vocabulary of embedding and head is padded to the
//                        smallest multiple of M that its axes divide
//   interleave-gate-up   packed gate and up are stored so that each shard has
//                        its part of both
//   interleave-qkv       the same of fused q, k and v
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/source.h"
#include "core/mesh.h"
#include "core/partition_axis.h"
#include "core/spec.h"
#include "core/views.h"

namespace shardplan {

struct Declarations {
  bool replicate_kv_heads = false;
  int64_t pad_vocab = 0;  // a multiple of that; 0: not declared
  bool interleave_gate_up = false;
  bool interleave_qkv = false;

  bool any() const { return *this != Declarations(); }
  bool operator==(const Declarations&) const = default;
};

inline constexpr int64_t kMaxPadVocab = int64_t{1} << 20;

// Adds one, written as above; false when it is none, or M is not an integer
// from 1 to kMaxPadVocab.
bool add_declaration(std::string_view text, Declarations& declarations);

// As they are written, always in one order.
std::vector<std::string> declaration_texts(const Declarations& declarations);

// The forms above, for help: "pad-vocab=M".
std::vector<std::string> declaration_forms();

// Rules: patterns over parameter names, in order, each with a spec.
//
// The first rule whose pattern is found (re.search) in a name decides it. Rule
// numbers are 1-based over all rule files in the order read. An entry of a spec
// names mesh axes, semantic axes (`HEAD`) or logical axes (`embed`); with
// `mesh:` or `logical:` in front it says which. What they mean on a mesh is
// found in resolve/.

struct RuleForm;

// How a value lies along the axis of a plan of hooks.
enum class HookLayout : uint8_t {
  AsIs,    // as it comes
  Whole,   // on every device
  Last,    // cut along its last dimension
  Tokens,  // cut along its second dimension, the tokens of a sequence
};

// Hooks of a module: what they do to its input and output, and to gradients.
struct ModuleHook {
  enum class Task : uint8_t {
    None,
    SumGradients,        // of the module's parameters, over the devices
    SumOutputGradients,  // of a part of the module's output
    ReadShards,          // the module reads its own parameters as shards
    SumExperts,          // devices compute parts of all experts, added up
    OwnExperts,          // devices compute the experts that they have, added up
    Unknown,             // it is not known what the hooks do
  };
  HookLayout takes = HookLayout::AsIs;  // for which it takes its input
  HookLayout reads = HookLayout::AsIs;  // in which the module reads it
  HookLayout gives = HookLayout::AsIs;  // in which it leaves the output
  Task task = Task::Unknown;
  // The output is a DTensor, whose operations insert collectives themselves.
  bool gives_dtensor = false;

  bool is_known() const { return task != Task::Unknown; }
  bool operator==(const ModuleHook&) const = default;
};

struct Rule {
  std::string pattern;  // Python's re syntax
  PartitionSpec spec;
  Span where;                   // the pattern
  Span spec_where;              // the whole spec
  std::vector<Span> dim_where;  // per entry of the spec
  // Of shardplan, not of the file. Shipped sets cover many models and two
  // naming schemes: that one of their rules matches no name is not worth a
  // warning.
  bool shipped = false;
  // The whole rule, where its file can be edited; else nothing.
  Span item_where = {};
  // The spec's entries are those of the last dimensions (Hugging Face's
  // "colwise" is dimension -2), else of the first.
  bool from_last = false;
  // Of such a spec, a parameter with fewer dimensions has the first entries
  // ("colwise" shards what has one dimension), else the last.
  bool short_has_first = false;
  // Of parts that stand side by side in a sharded dimension, such as gate and
  // up, each device stores its share of each (Hugging Face's "packed_colwise").
  bool shards_parts = false;
  // What semantic axes mean follows from the size of this dimension: decoding
  // where it is 1, else training (eformer's integer mode). Negative ones count
  // from the last.
  std::optional<int> decode_dim = {};
  // The view whose axes the spec names: where the mesh has no view of this
  // name, the rule decides nothing. Empty: a rule of every mesh.
  std::string view = {};
  // Experts that are stored one by one are dealt out whole over this axis, and
  // the spec cuts each where it is (core/plan.h, Dealt). Empty: they are not.
  AxisName deal = {};
  // It is of a view that the mesh does not have, as far as is known: one that
  // is read is inactive until settle_views finds its view.
  bool inactive = false;
  // No line of the file says it: the dialect does with what nothing else names.
  bool by_dialect = false;
  const RuleForm* form = nullptr;  // of its file, as RuleSet::form
  // What the hooks of the matched module do, in a plan that hooks run.
  ModuleHook hook = {};
};

// A logical axis, such as `embed`, and the mesh axes that it may have. The
// order of rules is their priority.
struct LogicalRule {
  std::optional<std::string> name;  // None as a key is legal in flax
  AxisNames axes;                   // empty: None
  Span where;                       // the name
  Span axes_where;
  // The view whose axes these are; empty: of the mesh, or of the one view that
  // has them. Where the mesh has no view of this name, the rule places nothing.
  std::string view = {};
  // Experts that are stored one by one are dealt out whole over the axis, where
  // labels place them.
  bool deal = false;
  bool shipped = false;   // as Rule::shipped
  bool inactive = false;  // as Rule::inactive
};

// How logical rules place the axes of one array.
enum class LogicalReading : uint8_t {
  // By priority: a mesh axis that an earlier rule took is not given twice, and
  // later rules of a name are its fallbacks (flax, MaxText, t5x).
  Priority,
  // Every name means its axes, whatever the others have (levanter, haliax).
  Mapping,
};

// What the logical rules of a file do to those of the files before it.
enum class LogicalMerge : uint8_t {
  Append,
  ReplaceNames,  // a name's earlier rules go (MaxText's model configs)
  ReplaceAll,    // MaxText's override_logical_axis_rules
};

// Who runs the sharded model, and so decides about collectives.
enum class RunAs : uint8_t {
  // A compiler or library that inserts what specs make necessary (XLA,
  // DTensor).
  Compiler,
  // Hooks of modules, which run exactly the collectives that their styles name
  // (transformers' `tp_plan`, PyTorch's parallel styles).
  Hooks,
};

// The size of an axis that is given apart from the mesh.
struct AxisSize {
  AxisRequest axis;
  bool over_slices = false;
};

// Of a file that only overrides what another one says: what is wrong when no
// file comes before it.
struct OverridesOther {
  Span where;
  std::string problem;
  std::string help;
};

// Adds the logical rules of a later file to those of the files before it.
void merge_logical_rules(std::vector<LogicalRule> later, LogicalMerge how,
                         std::vector<LogicalRule>& all);

struct RuleSet {
  std::vector<Rule> rules;
  // Axes that rules may name though the mesh lacks them (then of size 1).
  AxisNames declared_axes;
  // `mesh:` of the first file that has one.
  std::optional<std::vector<AxisRequest>> mesh;
  Span mesh_where;
  // `views:` of all files, those of the first file first.
  std::vector<ViewRequest> views = {};
  // `view_axes:`, by view: axes that its rules may name though it lacks them.
  std::map<std::string, AxisNames> view_axes = {};
  // It is the one that a program ran on, not one that was asked for.
  bool mesh_recorded = false;
  // Over slices that are joined by a slower network: what each axis of `mesh`
  // is multiplied by. Empty, or one entry per axis of `mesh`.
  std::vector<AxisRequest> dcn_mesh;
  // MaxText's: a later mesh takes the place of an earlier one, and sizes of any
  // file are those of the mesh, the last of an axis first.
  bool mesh_replaces = false;
  std::vector<AxisSize> sizes;
  std::optional<OverridesOther> overrides;

  // What a spec may name besides mesh axes; `logical_rules` also place the
  // parameters that have logical axes in the manifest and no rule.
  std::vector<LogicalRule> logical_rules;
  LogicalReading logical_reading = LogicalReading::Priority;
  // `labels: architecture`: logical names are also those that architectures
  // give to dimensions.
  bool architecture_labels = false;
  RunAs run_as = RunAs::Compiler;
  // The axis that hooks' styles cut over; empty where no plan says.
  AxisName hook_axis = {};
  // How a file of this dialect says what is added to it; null: as ours does.
  const RuleForm* form = nullptr;
  Span architecture_labels_where = {};
  LogicalMerge logical_merge = LogicalMerge::Append;
  std::optional<PartitionAxis> partition_axis;  // resolved; absent: defaults
  Span partition_axis_where;
  // Specs of graph values; patterns over the names of values.
  std::vector<Rule> activations;

  // What the files leave open, answered or not (RuleReading::answers).
  std::vector<std::string> questions;

  std::vector<SourcePtr> sources;  // keeps spans alive
};

// A rule that is to be added to a file.
struct WantedRule {
  std::string_view pattern;
  const PartitionSpec& spec;
  // All parameters that it is for, with `*` for numbers; may be empty.
  const std::vector<std::string>& names;
  const Mesh& mesh;
};

// What a user types in a file of rules of some dialect, for advice.
struct RuleForm {
  // One rule, or the entries that say the same. Empty where the dialect cannot.
  std::optional<std::string> (*rule)(const RuleSet&, const WantedRule&);
  // What to do about a logical axis that no rule places.
  std::string (*logical)(std::string_view name);
  // Entries in no order: what they are added to, "the plan".
  std::string_view unordered;
  // What to do where it cannot say a rule.
  std::string_view instead;
  // `--scheme NAME` gives a config's tensors the names and labels that its
  // program has; empty where that has no names of its own.
  std::string_view scheme = {};
  // The program gives every declared axis a size, 1 where none is named.
  bool sizes_declared = false;
};

// Marks the rules of views that the mesh does not have, and declares the axes
// that the views it has may lack.
void settle_views(RuleSet& rules, const Mesh& mesh);
// Removes shipped rules of views if no view is requested, so that the other
// rules keep their numbers.
void drop_shipped_views(RuleSet& rules);

// A pattern that is found in this name and in no other: `^` and `$` around it,
// special characters escaped.
std::string exact_pattern(std::string_view name);

}  // namespace shardplan
