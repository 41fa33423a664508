// SPDX-License-Identifier: Apache-2.0
// What every part of reading an architecture asks; for src/model/architecture
// alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture/architecture.h"
#include "syntax/document.h"

namespace shardplan {

// The modules that a step may be, with the keys of their dimensions in the
// order of ModuleStep::dims.
struct ModuleKind {
  std::string_view name;
  ModuleStep::Kind kind;
  std::vector<std::string_view> dims;
};
inline const std::vector<ModuleKind>& module_kinds() {
  static const std::vector<ModuleKind> kKinds = {
      {"linear", ModuleStep::Kind::Linear, {"to", "from"}},
      {"embedding", ModuleStep::Kind::Embedding, {"rows", "columns"}},
      {"rms_norm", ModuleStep::Kind::RmsNorm, {"size"}},
      {"layer_norm", ModuleStep::Kind::LayerNorm, {"size"}},
      {"parameter", ModuleStep::Kind::Parameter, {}},
      {"buffer", ModuleStep::Kind::Buffer, {}},
  };
  return kKinds;
}

// What a step begins with that says what a layer keeps.
inline constexpr std::string_view kStateSteps[] = {"cache", "state", "keeps"};
bool is_state_step(const Node& node);

using ModuleBlocks = std::map<std::string, ModuleBlock, std::less<>>;

// Expressions, steps and blocks of a file. What is wrong is SP018 at its place;
// what gives a list gives the rest of it then.
class StepReader {
 public:
  explicit StepReader(Diagnostics& diags) : diags_(diags) {}

  Diagnostics::Builder refuse(Span where, std::string message);
  // "5", "heads * head_dim", true and [1, 2] are expressions.
  std::optional<Expression> expression(const Node& node);
  std::optional<std::string> text(const Node& node, std::string_view what);
  // A text, or a list of texts.
  std::vector<std::string> texts(const Node& node, std::string_view what);
  bool known_keys(const Node& map, std::vector<std::string> known);
  // What stands at a key of a map, where there is one; false, with the reason
  // reported, where it is not of the value's type.
  bool optional(const Node& map, std::string_view key,
                std::optional<Expression>& value);
  bool optional(const Node& map, std::string_view key,
                std::optional<DType>& value);
  bool optional(const Node& map, std::string_view key, std::string& value);
  bool optional(const Node& map, std::string_view key,
                std::vector<std::string>& value);
  bool optional(const Node& map, std::string_view key, bool& value);
  // What layers keep is no module and stands apart, in `kept`.
  std::vector<ModuleStep> steps(const Node& list,
                                std::vector<StateStep>& state_steps,
                                int depth = 0);
  // What a block with these modules computes: read_forward.cc.
  std::optional<BlockForward> forward(const Node& node,
                                      const std::vector<ModuleStep>& modules);
  // Adds what a forward pass reads, by name; one that is there is replaced.
  void inputs(const Node& map, std::vector<InputRule>& result);
  // Adds those of a map to `blocks`; false where it is none.
  bool blocks(const Node& map, ModuleBlocks& blocks);

 private:
  std::optional<Expression> integers(const Node& list);
  std::optional<DimTree> dim(const Node& node, int depth = 0);
  std::optional<ModuleStep> step(const Node& node, int depth);
  // Of a step that is `cache`, `state` or `keeps`.
  std::optional<StateStep> state_step(const Node& node);
  bool state_elements(const Node& node, StateStep& result);
  std::optional<ModuleStep> repeat(const Node& node, int depth,
                                   ModuleStep result);
  std::optional<ModuleStep> cases(const Node& node, int depth,
                                  ModuleStep result);
  std::optional<ModuleStep> module(const Node& node, const ModuleKind& kind,
                                   ModuleStep result);
  bool shape(const Node& node, ModuleStep& result);
  bool linear_options(const Node& node, ModuleStep& result);
  std::optional<ModuleStep> section(const Node& node, ModuleStep result);
  std::optional<ModuleStep> block(const Node& node, ModuleStep result);
  bool arguments(const Node& node, std::vector<BlockArgument>& takes);
  std::optional<ModuleBlock> one_block(const Node& map, size_t index);

  Diagnostics& diags_;
};

// The keys below which names stand: "sizes", "counts", "flags", ..
std::vector<std::string> value_section_keys();
// Adds the names below these keys of `root` to `values`; one that is there is
// replaced.
void read_values(const Node& root, bool of_forward, StepReader& reader,
                 std::vector<ValueRule>& values, Diagnostics& diags);

// The names of the values that exist so far.
using ValueNames = std::set<std::string, std::less<>>;

// The operations of graph files that statements may use, by name.
std::span<const std::string_view> statement_operations();
// Whether a name means one of them, or a function of statements alone.
bool is_statement_function(std::string_view name);

// Appends the steps of a statement to `steps`, and what it makes to `values`.
// `modules` are the names of the block's modules; one that is called like an
// operation is meant where its name is.
// `intermediate` holds the names of the block's intermediate values so far,
// "hidden:sigmoid", and gets the new ones. False, and SP018 is reported, where
// the text is no statement.
bool read_statement(std::string_view text, Span where, StepReader& reader,
                    const ValueNames& modules, ValueNames& values,
                    ValueNames& intermediate, std::vector<ForwardStep>& steps);

// A step as it was written before there were statements, `{op: add, in: [x, y],
// out: z}`, as the statement to write instead; "" for a map that was no step.
std::string as_statement(const Node& step);

// Tokens, [batch, length], which every architecture may read.
InputRule token_input();

// SP018 for every name in an expression that nothing gives a value, for blocks
// and sections that there are none of, and for arguments that a block does not
// take, whatever a config says.
void check_names(const Architecture& architecture, Diagnostics& diags);
// The same of what its blocks compute, and for values that no step makes.
void check_forward(const Architecture& architecture, Diagnostics& diags);

}  // namespace shardplan
