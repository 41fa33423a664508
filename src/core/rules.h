// SPDX-License-Identifier: Apache-2.0
// Rules: an ordered list of patterns over parameter names, each with a spec.
//
// The first rule whose pattern matches a name (re.search) determines its spec.
// Rule numbers are 1-based over all rule files in the order read. An entry of a
// spec names mesh axes, semantic axes (`HEAD`) or logical axes (`embed`); the
// prefix `mesh:` or `logical:` makes it unambiguous. resolve/ translates them
// to mesh axes.
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

struct RuleForm;

// The layout of a value along the axis of a plan that hooks run.
enum class HookLayout : uint8_t {
  AsIs,    // unchanged
  Whole,   // replicated
  Last,    // sharded along the last dimension
  Tokens,  // sharded along the second dimension, the tokens of a sequence
};

// The hooks of a module: their effect on its input, output and gradients.
struct ModuleHook {
  enum class Task : uint8_t {
    None,
    SumGradients,        // all-reduce the gradients of the module's parameters
    SumOutputGradients,  // all-reduce the gradient of a part of the output
    ReadShards,          // the module reads its own parameters as shards
    SumExperts,          // devices compute parts of all experts, then reduce
    OwnExperts,          // devices compute their own experts, then reduce
    Unknown,             // the effect of the hooks is not known
  };
  // The input layout that the hooks assume, and the one that the module reads.
  HookLayout input_layout = HookLayout::AsIs;
  HookLayout desired_input_layout = HookLayout::AsIs;
  HookLayout output_layout = HookLayout::AsIs;
  Task task = Task::Unknown;
  // The output is a DTensor, whose operations insert collectives.
  bool output_is_dtensor = false;

  bool is_known() const { return task != Task::Unknown; }
  bool operator==(const ModuleHook&) const = default;
};

struct Rule {
  std::string pattern;  // Python's re syntax
  PartitionSpec spec;
  Span where;                   // the pattern
  Span spec_where;              // the whole spec
  std::vector<Span> dim_where;  // per entry of the spec
  // Whether the rule comes from shardplan, not from a file of the user. Shipped
  // sets cover many models and two naming schemes, so a shipped rule that
  // matches no name is not worth a warning.
  bool shipped = false;
  // The whole rule, if its file can be edited; else empty.
  Span item_where = {};
  // The entries of the spec apply to the last dimensions (Hugging Face's
  // "colwise" is dimension -2), not the first.
  bool from_last = false;
  // With from_last, a parameter with fewer dimensions than the spec uses the
  // first entries ("colwise" shards a one-dimensional parameter), not the last.
  bool short_uses_first = false;
  // If a sharded dimension has parts side by side, such as gate and up, each
  // device stores its share of each part (Hugging Face's "packed_colwise").
  bool shards_parts = false;
  // The dimension whose size determines the meaning of semantic axes: decoding
  // if it is 1, else training (eformer's integer mode). Negative: counted from
  // the last.
  std::optional<int> decode_dim = {};
  // The view whose axes the spec names. If the mesh has no such view, the rule
  // does not apply. Empty: it applies to every mesh.
  std::string view = {};
  // The axis along which experts that are separate parameters are placed whole;
  // the spec shards each expert on its rank (core/plan.h, ExpertPlacement).
  // Empty: none.
  AxisName deal = {};
  // The mesh does not have the rule's view, as far as is known. A rule that is
  // read stays inactive until mark_inactive_views finds its view.
  bool inactive = false;
  // The rule is not in the file: it is the dialect's default for everything
  // else.
  bool by_dialect = false;
  const RuleForm* form = nullptr;  // of its file, as RuleSet::form
  // The hooks of the matched module, in a plan that hooks run.
  ModuleHook hook = {};
};

// A logical axis, such as `embed`, and the mesh axes that it may use. The order
// of the rules is their priority.
struct LogicalRule {
  std::optional<std::string> name;  // None as a key is legal in flax
  AxisNames axes;                   // empty: None
  Span where;                       // the name
  Span axes_where;
  // The view whose axes these are; empty: the mesh, or the only view that has
  // them. If the mesh has no such view, the rule does not apply.
  std::string view = {};
  // If labels place experts that are separate parameters, they are placed whole
  // along the axis.
  bool deal = false;
  bool shipped = false;   // as Rule::shipped
  bool inactive = false;  // as Rule::inactive
};

// How logical rules place the axes of one array.
enum class LogicalReading : uint8_t {
  // By priority: a mesh axis that an earlier rule uses is not used again, and
  // later rules for the same name are its fallbacks (flax, MaxText, t5x).
  Priority,
  // Every name stands for its axes, regardless of the others (levanter,
  // haliax).
  Mapping,
};

// How the logical rules of a file combine with those of earlier files.
enum class LogicalMerge : uint8_t {
  Append,
  ReplaceNames,  // replace rules of the same names (MaxText's model configs)
  ReplaceAll,    // replace all (MaxText's override_logical_axis_rules)
};

// Who runs the sharded model, and therefore decides on collectives.
enum class RunAs : uint8_t {
  // A compiler or library that inserts the collectives that the specs require
  // (XLA, DTensor).
  Compiler,
  // Hooks of modules, which run exactly the collectives of their styles
  // (transformers' `tp_plan`, PyTorch's parallel styles).
  Hooks,
};

// The size of an axis that is given separately from the mesh.
struct AxisSize {
  AxisRequest axis;
  bool over_slices = false;
};

// The error for a file that only overrides another one, if no file precedes it.
struct OverridesOther {
  Span where;
  std::string problem;
  std::string help;
};

// Combines the logical rules of a later file with those of earlier files.
void merge_logical_rules(std::vector<LogicalRule> later, LogicalMerge how,
                         std::vector<LogicalRule>& all);

struct RuleSet {
  std::vector<Rule> rules;
  // Axes that rules may name though the mesh lacks them (then of size 1).
  AxisNames declared_axes;
  // `mesh:` of the first file that has one.
  std::optional<std::vector<AxisRequest>> mesh;
  Span mesh_where;
  // `views:` of all files, in the order of the files.
  std::vector<ViewRequest> views = {};
  // `view_axes:`, by view: axes that its rules may name though it lacks them.
  std::map<std::string, AxisNames> view_axes = {};
  // Whether `mesh` is the mesh that a program ran on, not a requested one.
  bool mesh_recorded = false;
  // Sizes over slices, which a slower network connects: the factor of each axis
  // of `mesh`. Empty, or one entry per axis of `mesh`.
  std::vector<AxisRequest> dcn_mesh;
  // MaxText: a later mesh replaces an earlier one, and the sizes in all files
  // apply to the mesh; the last size of an axis is first in `sizes`.
  bool mesh_replaces = false;
  std::vector<AxisSize> sizes;
  std::optional<OverridesOther> overrides;

  // The names that a spec may use besides mesh axes. `logical_rules` also place
  // parameters that have logical axes in the manifest and match no rule.
  std::vector<LogicalRule> logical_rules;
  LogicalReading logical_reading = LogicalReading::Priority;
  // `labels: architecture`: logical names include those that architectures give
  // to dimensions.
  bool architecture_labels = false;
  RunAs run_as = RunAs::Compiler;
  // The axis that the hooks' styles shard over; empty if no plan names one.
  AxisName hook_axis = {};
  // The syntax in which advice for this dialect is written; null: shardplan's
  // own.
  const RuleForm* form = nullptr;
  Span architecture_labels_where = {};
  LogicalMerge logical_merge = LogicalMerge::Append;
  std::optional<PartitionAxis> partition_axis;  // resolved; absent: defaults
  Span partition_axis_where;
  // Specs of graph values; the patterns match names of values.
  std::vector<Rule> activations;

  // Questions that the files leave open, answered or not
  // (RuleReading::answers).
  std::vector<std::string> questions;

  std::vector<SourcePtr> sources;  // keeps spans alive
};

// A rule that advice suggests adding to a file.
struct WantedRule {
  std::string_view pattern;
  const PartitionSpec& spec;
  // All parameters that the rule is for, with `*` for numbers; may be empty.
  const std::vector<std::string>& names;
  const Mesh& mesh;
};

// How to write rules in some dialect, for advice.
struct RuleForm {
  // Returns a rule, or the equivalent entries. Empty if the dialect cannot
  // express it.
  std::optional<std::string> (*rule)(const RuleSet&, const WantedRule&);
  // Returns advice for a logical axis that no rule places.
  std::string (*logical)(std::string_view name);
  // The thing that unordered entries are added to, "the plan"; empty for
  // ordered rules.
  std::string_view unordered;
  // Advice for rules that the dialect cannot express.
  std::string_view instead;
  // The argument of `--scheme` that gives a config's tensors the program's
  // names and labels; empty if the program has no names of its own.
  std::string_view scheme = {};
  // The program gives every declared axis a size, by default 1.
  bool sizes_declared = false;
};

// Marks rules inactive if the mesh lacks their view, and declares the view_axes
// of the views that it has.
void mark_inactive_views(RuleSet& rules, const Mesh& mesh);
// Removes the shipped rules that belong to views. Called if no view is
// requested, so that the other rules keep their usual numbers.
void drop_shipped_views(RuleSet& rules);

// Returns a pattern that matches exactly this name: `^` and `$` around it,
// special characters escaped.
std::string exact_pattern(std::string_view name);

// Declarations: how a framework stores a model differently from its checkpoint,
// as declared by the user (`--declare`). Sizes include what is declared, and a
// spec that is valid because of a declaration is not reported.
//
//   replicate-kv-heads   with more shards than KV heads, each shard stores one
//                        whole head
//   pad-vocab=M          the vocabulary of embedding and head is padded to the
//                        smallest multiple of M that its axes divide
//   interleave-gate-up   packed gate and up are stored so that each shard has
//                        its part of both
//   interleave-qkv       the same for fused q, k and v

struct Declarations {
  bool replicate_kv_heads = false;
  int64_t pad_vocab = 0;  // pads to a multiple of this; 0: not declared
  bool interleave_gate_up = false;
  bool interleave_qkv = false;

  bool any() const { return *this != Declarations(); }
  bool operator==(const Declarations&) const = default;
};

inline constexpr int64_t kMaxPadVocab = int64_t{1} << 20;

// Adds one declaration, written as above. Returns false if it is unknown or M
// is not an integer from 1 to kMaxPadVocab.
bool add_declaration(std::string_view text, Declarations& declarations);

// Returns the declarations as written, in a fixed order.
std::vector<std::string> declaration_texts(const Declarations& declarations);

// Returns the forms above, for help: "pad-vocab=M".
std::vector<std::string> declaration_forms();

}  // namespace shardplan
