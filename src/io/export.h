// SPDX-License-Identifier: Apache-2.0
// Exporting: a plan, or the rules it was made with, as another tool reads it.
//
// One table of targets. A target with rules of its own writes the rules where
// they were given and can be said there; else it writes the resolved table, one
// entry per parameter or per layer. What it cannot say is SP014, never an
// approximation. Reading back what was written, on the same mesh and without
// further flags, gives the same plan.
//
// Most targets have one mesh. For these a plan with views is written on the
// sub-axes of its mesh and views (core/views.h), where every device holds what
// it holds in the plan, and is read back on the mesh of these.
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
  // The rules, where they alone make the plan's specs under its
  // `on_indivisible`; null for a saved plan, and where flags had a part in it.
  const RuleSet* rules = nullptr;
  // Why there are none: "a saved plan has no rules". Empty when there are.
  std::string no_rules = {};
  // Parameters that no rule matches are meant to be replicated.
  bool replicate_unmatched = false;
  // What the plan was made of, as the user named it, a line each:
  // "rules: rules.yaml".
  std::vector<std::string> origin = {};
  // Whether rules alone make a plan of this model. It is asked about rules on
  // sub-axes; empty: they do.
  std::function<bool(const RuleSet&, const Plan&)> suffice = {};
};

// What a target can say beyond specs on one mesh.
enum class ExportViews : uint8_t {
  None,       // it is given the plan on sub-axes
  DealsOnly,  // so, but for experts that are dealt out whole
  Views,      // of the mesh
  Deals,      // these, and experts that are dealt out whole
};

struct ExportTarget {
  std::string_view name;  // as --to takes it
  std::string_view summary;
  // For export_text, which gives it only what its `views` allow.
  std::optional<std::string> (*write)(const ExportInput&, Diagnostics&);
  ExportViews views = ExportViews::None;
};
std::span<const ExportTarget> export_targets();
const ExportTarget* find_export_target(std::string_view name);

// The whole text. Empty, with every reason reported, when anything cannot be
// said.
std::optional<std::string> export_text(const ExportTarget& target,
                                       const ExportInput& input,
                                       Diagnostics& diags);

// The targets of `export`, one file each, as io/export.cc lists them.

// Our own rules format; docs/formats/rules.md.
extern const ExportTarget kYamlTarget;
extern const ExportTarget kJsonTarget;
// A table of (pattern, PartitionSpec), as EasyLM, EasyDeL and eFormer have it.
extern const ExportTarget kPythonTarget;
// A module with a PartitionSpec per parameter and a function that makes the
// mesh.
extern const ExportTarget kJaxTarget;
// Logical axis rules: of flax as Python, of MaxText as YAML.
extern const ExportTarget kFlaxTarget;
extern const ExportTarget kMaxTextTarget;
// Of Hugging Face, of PyTorch, and of StableHLO.
extern const ExportTarget kHfTpPlanTarget;
extern const ExportTarget kDtensorTarget;
extern const ExportTarget kShardyTarget;
// Arguments of Megatron-LM.
extern const ExportTarget kMegatronTarget;

// What a target of `export` cannot say (SP014), and the comment that stands
// above what it does say.

// One diagnostic: `message`, followed by the name of the first parameter.
void report_inexpressible(const ExportInput& input,
                          const std::vector<size_t>& parameters,
                          const std::string& message, const std::string& why,
                          const std::string& help, Diagnostics& diags);

// What no spec says: dimensions that are stored differently (`--declare`), that
// axes do not divide (`pad`, `chunk`), or that are left to the compiler
// (UNCONSTRAINED). Reports one diagnostic per kind, with all its parameters.
bool specs_are_expressible(const ExportInput& input, std::string_view target,
                           Diagnostics& diags);

// Patterns end in `$`, which is also found before a newline that ends a name.
bool names_are_expressible(const ExportInput& input, std::string_view target,
                           Diagnostics& diags);

// The logical axis rules, for targets that have no others; null, with the
// reason reported, where the plan is not made from them alone.
const RuleSet* logical_rules_of(const ExportInput& input,
                                std::string_view target, Diagnostics& diags);

// Why the rules alone would not give the plan again; empty where they do, and
// `input.rules` is there then.
std::string why_no_rules(const ExportInput& input);

// What stands in a rules file and is not a part of a plan: a note that the
// target leaves it out.
void note_activations(const ExportInput& input, std::string_view target,
                      Diagnostics& diags);
void note_slices(const ExportInput& input, std::string_view target,
                 Diagnostics& diags);

// The same of what hooks run, for any target.
void note_hooks(const ExportInput& input, std::string_view target,
                Diagnostics& diags);

// "Partition rules, as given; `shardplan export --to yaml`", then what they
// come from and what else a reader should know; a line each, without `# `.
std::vector<std::string> header_lines(const ExportInput& input,
                                      std::string_view what,
                                      std::string_view target);
// How many parameters are left out, where any are, and why.
void add_left_out(int64_t count, std::vector<std::string>& lines);
// Each behind `# `.
std::string comment_text(const std::vector<std::string>& lines);

// The resolved table: a plan as rules, for targets that read rules.
//
// One anchored pattern per parameter; parameters that differ only in numbers
// (whole components of digits) and have equal specs share one, where no other
// parameter of the manifest has such a name. So every pattern is found in the
// names it stands for and in no other, and their order does not matter.

struct TableEntry {
  std::string pattern;
  PartitionSpec spec;     // of mesh axes
  std::string view = {};  // as in a rule
  AxisName deal = {};
};

struct ResolvedTable {
  std::vector<TableEntry> entries;  // by their first parameter
  // Parameters that no rule matches are left out: a reader reports them as
  // they are reported here. None where they are meant to be replicated.
  int64_t left_out = 0;
};

ResolvedTable resolved_table(const ExportInput& input);

// Whether a table leaves the parameter out.
bool is_left_out(const ExportInput& input, size_t parameter);

}  // namespace shardplan
