// SPDX-License-Identifier: Apache-2.0
// Functions and types that the readers of architecture files share.
// src/model/naming also uses them to read naming schemes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/architecture/architecture.h"
#include "syntax/document.h"

namespace shardplan {

// A kind of module that a step can be, with the keys of its dimensions in the
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

// First keys of the steps that declare what a layer holds during generation.
inline constexpr std::string_view kStateSteps[] = {"cache", "state", "keeps"};

using ModuleBlocks = std::map<std::string, ModuleBlock, std::less<>>;

// Reads expressions, steps and blocks of a file. Mistakes are SP018 at their
// location. A function that returns a list continues after a mistake with the
// rest of the list.
class StepReader {
 public:
  explicit StepReader(Diagnostics& diags) : diags_(diags) {}

  Diagnostics::Builder refuse(Span where, std::string message);
  // Reads an expression: "5", "heads * head_dim", true and [1, 2].
  std::optional<Expression> expression(const Node& node);
  std::optional<std::string> text(const Node& node, std::string_view what);
  // Reads a text, or a list of texts.
  std::vector<std::string> texts(const Node& node, std::string_view what);
  bool known_keys(const Node& map, std::vector<std::string> known);
  // These read the value at a key of a map, if the key is present. They return
  // false, with the reason reported, if it is not of the value's type.
  bool optional(const Node& map, std::string_view key,
                std::optional<Expression>& value);
  bool optional(const Node& map, std::string_view key,
                std::optional<DType>& value);
  bool optional(const Node& map, std::string_view key, std::string& value);
  bool optional(const Node& map, std::string_view key,
                std::vector<std::string>& value);
  bool optional(const Node& map, std::string_view key, bool& value);
  // Reads a list of steps. Steps that declare what layers hold during
  // generation are not modules and are appended to `state_steps`.
  std::vector<ModuleStep> steps(const Node& list,
                                std::vector<StateStep>& state_steps,
                                int depth = 0);
  // Reads the cases of a `switch`; `read(list, one)` reads the steps of one.
  template <typename Case, typename Read>
  bool cases(const Node& list, std::vector<Case>& result, Read read) {
    if (!require(list, NodeKind::List, "`switch`", diags_)) return false;
    for (size_t i = 0; i < list.size(); ++i) {
      const Node item = list.item(i);
      if (!require(item, NodeKind::Map, "a case", diags_) ||
          !known_keys(item, {"when", "steps"})) {
        return false;
      }
      Case one;
      if (!optional(item, "when", one.when)) return false;
      if (!one.when && i + 1 < list.size()) {
        refuse(item.span(), "only the last case may have no `when`");
        return false;
      }
      if (const auto of = item.find("steps")) read(*of, one);
      result.push_back(std::move(one));
    }
    return true;
  }
  // Reads what a block with these modules computes (read_forward.cc).
  std::optional<BlockForward> forward(const Node& node,
                                      const std::vector<ModuleStep>& modules);
  // Adds the inputs of a forward pass; one of the same name is replaced.
  void inputs(const Node& map, std::vector<InputRule>& result);
  // Adds the blocks of a map to `blocks`. Returns false if it is not a map.
  bool blocks(const Node& map, ModuleBlocks& blocks);

 private:
  std::optional<Expression> integers(const Node& list);
  std::optional<DimTree> dim(const Node& node, int depth = 0);
  std::optional<ModuleStep> step(const Node& node, int depth);
  // Reads a step that is `cache`, `state` or `keeps`.
  std::optional<StateStep> state_step(const Node& node);
  bool state_elements(const Node& node, StateStep& result);
  std::optional<ModuleStep> repeat(const Node& node, int depth,
                                   ModuleStep result);
  std::optional<ModuleStep> module(const Node& node, const ModuleKind& kind,
                                   ModuleStep result);
  // Reads a list of dimensions and appends them.
  bool dims(const Node& list, std::vector<DimTree>& result);
  bool linear_options(const Node& node, ModuleStep& result);
  std::optional<ModuleStep> section(const Node& node, ModuleStep result);
  std::optional<ModuleStep> block(const Node& node, ModuleStep result);
  bool arguments(const Node& node, std::vector<BlockArgument>& takes);
  std::optional<ModuleBlock> one_block(const Node& map, size_t index);

  Diagnostics& diags_;
};

// Returns the keys that contain names: "sizes", "counts", "flags", ..
std::vector<std::string> value_section_keys();
// Adds the names under these keys of `root` to `values`; one of the same name
// is replaced.
void read_values(const Node& root, bool of_forward, StepReader& reader,
                 std::vector<ValueRule>& values, Diagnostics& diags);

// The names of the values that exist so far.
using ValueNames = std::set<std::string, std::less<>>;
// How many intermediate values have a name so far.
using NameCounts = std::map<std::string, int, std::less<>>;

// Returns the operations of graph files that statements can use, by name.
std::span<const std::string_view> statement_operations();
// Returns whether the name is such an operation, or a function of statements.
bool is_statement_function(std::string_view name);

// Appends the steps of a statement to `steps`, and the names of its results to
// `values`. `modules` are the names of the block's modules; a module takes
// precedence over an operation of the same name. `intermediate` contains the
// names of the block's intermediate values so far, such as "hidden:sigmoid",
// and the new ones are added. Returns false, and reports SP018, if the text is
// not a statement.
bool read_statement(std::string_view text, Span where, StepReader& reader,
                    const ValueNames& modules, ValueNames& values,
                    NameCounts& intermediate, std::vector<ForwardStep>& steps);

// Returns the statement that replaces a step in the syntax before statements,
// `{op: add, in: [x, y], out: z}`; "" if the map was not such a step.
std::string as_statement(const Node& step);

// Returns the input that every architecture has: tokens, [batch, length].
InputRule token_input();

// Reports SP018 for every name in an expression that is not defined, for blocks
// and sections that do not exist, and for arguments that a block does not have,
// independently of a config.
void check_names(const Architecture& architecture, Diagnostics& diags);
// Does the same for what the blocks compute, and for values that no step makes.
void check_forward(const Architecture& architecture, Diagnostics& diags);

}  // namespace shardplan
