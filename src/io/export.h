// SPDX-License-Identifier: Apache-2.0
// Exporting: writes a plan, or the rules it was made with, in the format of
// another tool.
//
// There is one table of targets. A target whose format has rules writes the
// rules, if they were given and the format can express them. Otherwise it
// writes the resolved table, one entry per parameter or per layer. Anything
// that the format cannot express is SP014, never an approximation. Reading back
// the written text, on the same mesh and without further flags, gives the same
// plan.
//
// Most targets have a single mesh. For these, a plan with views is written on
// the sub-axes of its mesh and views (core/views.h), where every device holds
// what it holds in the plan, and is read back on the mesh of sub-axes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "core/rules.h"

namespace shardplan {

struct ExportInput {
  const Manifest& manifest;
  const Plan& plan;
  // The rules, if they alone make the plan's specs under its `on_indivisible`;
  // null for a saved plan, and when flags changed the specs.
  const RuleSet* rules = nullptr;
  // Why `rules` is null: "a saved plan has no rules". Empty if there are rules.
  std::string no_rules = {};
  // Whether parameters that no rule matches are deliberately replicated.
  bool replicate_unmatched = false;
  // The inputs of the plan as the user named them, one line each: "rules:
  // rules.yaml".
  std::vector<std::string> origin = {};
  // Returns whether the rules alone make the plan. Called for rules on
  // sub-axes; if empty, they are assumed to.
  std::function<bool(const RuleSet&, const Plan&)> suffice = {};
};

// The features beyond specs on one mesh that a target can express.
enum class ExportViews : uint8_t {
  None,       // no views: it gets the plan on sub-axes
  DealsOnly,  // also no views, but experts placed whole on ranks
  Views,      // views of the mesh
  Deals,      // views, and experts placed whole on ranks
};

struct ExportTarget {
  std::string_view name;  // the value of --to
  std::string_view summary;
  // Called by export_text(), which passes only what `views` allows.
  std::optional<std::string> (*write)(const ExportInput&, Diagnostics&);
  ExportViews views = ExportViews::None;
};
std::span<const ExportTarget> export_targets();
const ExportTarget* find_export_target(std::string_view name);

// Returns the whole text; nullopt, with every reason reported, when anything
// cannot be expressed.
std::optional<std::string> export_text(const ExportTarget& target,
                                       const ExportInput& input,
                                       Diagnostics& diags);

// The export targets, one file each, in the order of io/export.cc.

// The rules format of this program; docs/formats/rules.md.
extern const ExportTarget kYamlTarget;
extern const ExportTarget kJsonTarget;
// A table of (pattern, PartitionSpec), as in EasyLM, EasyDeL and eFormer.
extern const ExportTarget kPythonTarget;
// A Python module with a PartitionSpec per parameter and a function that makes
// the mesh.
extern const ExportTarget kJaxTarget;
// Logical axis rules: flax rules in Python, MaxText rules in YAML.
extern const ExportTarget kFlaxTarget;
extern const ExportTarget kMaxTextTarget;
// The formats of Hugging Face transformers, PyTorch and StableHLO.
extern const ExportTarget kHfTpPlanTarget;
extern const ExportTarget kDtensorTarget;
extern const ExportTarget kShardyTarget;
// Command-line arguments of Megatron-LM.
extern const ExportTarget kMegatronTarget;

// Reports of what a target cannot express (SP014), and the comment at the top
// of the text that it writes.

// Returns whether a dimension of the spec is UNCONSTRAINED.
bool names_unconstrained(const PartitionSpec& spec);

// Reports one error: `message`, followed by the name of the first parameter.
void report_inexpressible(const ExportInput& input,
                          const std::vector<size_t>& parameters,
                          const std::string& message, const std::string& why,
                          const std::string& help, Diagnostics& diags);

// Returns whether specs alone express the plan. Reports one error per kind,
// with all its parameters, for dimensions that are stored differently
// (`--declare`), that axes do not divide (`pad`, `chunk`), or that are left to
// the compiler (UNCONSTRAINED).
bool specs_are_expressible(const ExportInput& input, std::string_view target,
                           Diagnostics& diags);

// Returns whether patterns can express all names. A name that ends in a newline
// is an error: `$`, which ends patterns, also matches before that newline.
bool names_are_expressible(const ExportInput& input, std::string_view target,
                           Diagnostics& diags);

// Returns the logical axis rules, for targets that have no other rules; null,
// with the reason reported, when the plan is not made from them alone.
const RuleSet* logical_rules_of(const ExportInput& input,
                                std::string_view target, Diagnostics& diags);

// Returns why the rules alone would not reproduce the plan; empty if they do,
// in which case `input.rules` is not null.
std::string why_no_rules(const ExportInput& input);

// Notes that the target leaves out activation specs, or which axes span slices:
// both are in a rules file but not in a plan.
void note_activations(const ExportInput& input, std::string_view target,
                      Diagnostics& diags);
void note_slices(const ExportInput& input, std::string_view target,
                 Diagnostics& diags);

// Notes that the target leaves out what hooks run; applies to every target.
void note_hooks(const ExportInput& input, std::string_view target,
                Diagnostics& diags);

// Returns "Partition rules, as given; `shardplan export --to yaml`", followed
// by the inputs and other facts that a reader should know; one line each,
// without `# `.
std::vector<std::string> header_lines(const ExportInput& input,
                                      std::string_view what,
                                      std::string_view target);
// Adds how many parameters are left out, and why, if `count` is not 0.
void add_left_out(int64_t count, std::vector<std::string>& lines);
// Joins the lines, each with `# ` in front.
std::string comment_text(const std::vector<std::string>& lines);

// The resolved table: a plan as rules, for targets that read rules.
//
// The table has one anchored pattern per parameter. Parameters that differ only
// in numbers (whole components of digits) and have equal specs share a pattern
// if no other parameter of the manifest has such a name. So every pattern
// matches exactly the names it stands for, and the order does not matter.

struct TableEntry {
  std::string pattern;
  PartitionSpec spec;     // over mesh axes
  std::string view = {};  // the view, as in a rule
  AxisName deal = {};
};

struct ResolvedTable {
  std::vector<TableEntry> entries;  // in the order of their first parameters
  // How many parameters are left out because no rule matches them; readers of
  // the table report them as this program does. 0 if they are deliberately
  // replicated.
  int64_t left_out = 0;
};

ResolvedTable resolved_table(const ExportInput& input);

// Returns whether the resolved table leaves the parameter out.
bool is_left_out(const ExportInput& input, size_t parameter);

}  // namespace shardplan
