// SPDX-License-Identifier: Apache-2.0
// Architecture: what is known of a kind of model, as its file says
// (docs/formats/architecture.md): names for what a config.json holds, and the
// modules of a model with their parameters.
//
// An architecture is data: nothing in the program knows one by its name. The
// shipped ones stand in rules/architectures, a user's own is read by the same
// code.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"
#include "core/types.h"
#include "model/language/expression.h"
#include "syntax/document.h"

namespace shardplan {

// A name, and where its value comes from.
struct ValueRule {
  enum class Kind : uint8_t {
    Size,      // an integer of `least` or more
    Flag,      // true or false
    Number,    // more than 0 where only a forward pass reads it
    Text,      //
    Integers,  // a list
    Table,     // a value for every layer
  };
  std::string name;
  Span where;
  Kind kind = Kind::Size;
  std::vector<std::string> keys;     // of the config; the first that is there
  std::optional<Expression> absent;  // where there is none
  std::optional<Expression> null;    // where it is null
  // Where it is null, or absent and the configuration class has no value.
  std::optional<Expression> otherwise;
  std::optional<Expression> is;  // of names that no key says
  // A key whose entries are counted, where none of `keys` is there.
  std::string counted;
  // Of a flag: a key, whether it is there and not null.
  std::string given;
  int64_t least = 1;
  int64_t most = 0;  // as ValueRule::Kind has it
  // What words of the config mean: of a text, or of the items of a table.
  std::vector<std::pair<std::string, Expression>> words;
  std::optional<Expression> other_words;
  // Of a table whose key is no list but a map, from layers to maps: what stands
  // in these, for layers that differ from the others.
  std::string entry;
  // It changes what is computed, not what is stored: read when a forward pass
  // asks for it.
  bool of_forward = false;
};

// What a config must fulfil, else it is SP009 at the key.
struct Requirement {
  Span where;
  std::string name;  // by which another architecture replaces it; "" for none
  Expression that;
  std::string key;
  std::string message;
  std::vector<std::string> facts;  // `{heads}` is the value of a name
  // Only where names of tensors follow from the config, not where there are
  // tensors.
  bool of_names = false;
};

// What is said with a manifest, where `when` holds.
struct ArchitectureNote {
  Span where;
  std::optional<Expression> when;  // none: always
  std::string text;                // `{heads}` is the value of a name
};

// A dimension of a parameter, as a tree of products and of parts side by side.
struct DimTreePart;
struct DimTree {
  Span where;
  Expression size;  // of a leaf
  std::optional<Expression> per;
  std::vector<DimTreePart> parts;  // none: a leaf
};
struct DimTreePart {
  std::string name;
  DimTree dim;
};

// What a layer keeps while it generates, beside what it stores.
struct StateStep {
  enum class Kind : uint8_t {
    Cache,    // of every token; dims: one, its elements
    State,    // of every sequence; dims: its shape
    Nothing,  // the layer keeps nothing, whatever its blocks say
  };
  Kind kind = Kind::Cache;
  Span where;
  std::string name;
  std::optional<Expression> when;
  std::vector<DimTree> dims;
  // Of a cache: tokens that are kept, 0 for all; none: as the table `window`
  // says.
  std::optional<Expression> window;
  // Of a cache: how many tokens become one entry; none: 1.
  std::optional<Expression> every;
  // Of a cache of what an encoder gives: how many tokens that are.
  bool source = false;
  std::optional<Expression> tokens;  // none: it depends on the input
  std::optional<DType> dtype;        // none: that of the config
};

struct ModuleCase;

// What a linear layer is, as far as quantisation treats some otherwise.
enum class LinearRole : uint8_t {
  Layer,
  Head,       // the output embedding
  Last,       // what a model for another task ends with
  Gate,       // so small that most keep it as it is
  Router,     // the same, and no linear layer since transformers 5
  Grouped,    // each group on its own: no linear layer to bitsandbytes
  Experts,    // of gpt-oss, whose MXFP4 form is known
  Parameter,  // a matrix that is no linear layer where it is computed
};

// A module with its parameters, or several.
struct ModuleStep {
  enum class Kind : uint8_t {
    Linear,     // dims: out, in
    Embedding,  // dims: rows, columns
    RmsNorm,    // dims: size
    LayerNorm,  // dims: size
    Parameter,  // dims: its shape
    Buffer,     // the same, of a tensor that is no parameter
    Block,
    Section,
    Repeat,
    Switch,
  };
  Kind kind = Kind::Linear;
  Span where;
  std::string what;  // of a block or section, its name
  std::string name;  // of the module; "" for none of its own
  std::optional<Expression> when;

  std::vector<DimTree> dims;
  std::optional<Expression> bias;
  // Of a norm: what is added to its weight before it is used.
  std::optional<Expression> offset;
  std::string weight_name = ".weight";
  std::string bias_name = ".bias";
  bool inputs_first = false;  // its matrix is [in, out]
  LinearRole role = LinearRole::Layer;
  std::optional<DType> dtype;

  std::vector<std::pair<std::string, Expression>> arguments;  // of a block
  std::string part;                                           // of a section

  std::optional<Expression> count;  // of a repeat
  std::optional<Expression> start;  // the first index; default 0
  std::string index;
  bool stacked = false;  // one tensor with a dimension in front
  std::vector<ModuleStep> steps;
  std::vector<StateStep> state_steps;
  std::vector<ModuleCase> cases;  // of a switch
};

struct ModuleCase {
  std::optional<Expression> when;  // none: otherwise
  std::vector<ModuleStep> steps;
  std::vector<StateStep> state_steps;
};

struct BlockArgument {
  std::string name;
  std::optional<Expression> otherwise;  // computed where the block is used
};

// An attribute of an operation: a value, some, or text that stands for itself.
struct ForwardAttribute {
  std::string name;
  Span where;
  std::vector<Expression> values;
  bool is_list = false;
  std::string text;  // where there are no values
};

struct ForwardCase;

// One operation of a forward pass, or several. A statement of the file
// (model/architecture/statement.h) becomes one for each operation. Names of
// values are those of the block that the step belongs to.
struct ForwardStep {
  enum class Kind : uint8_t {
    Op,          // an operation of graph files
    Apply,       // a module or block of the same block, or a block without any
    Weight,      // the matrix of a module, as a value
    Unembed,     // the product with the rows of an embedding
    Activation,  // by its name in a config
    Rotate,      // positions, according to the config
    Heads,       // cuts queries into heads, or pairs them with their KV heads
    Experts,     // the weighted outputs of the experts of each token
    Same,        // another name for a value
    Require,     // else the config is refused
    Note,        // shown with the run
    Repeat,      // the steps of modules that are repeated
    Switch,
  };
  Kind kind = Kind::Op;
  Span where;
  std::string what;  // operation; module, or block without a name; of a repeat
                     // its name: "layers.{i}"
  // Of a weight: modules to read where the one before is not stored.
  std::vector<std::string> otherwise;
  std::vector<std::string> in;
  std::vector<std::string> out;
  // Only the next steps of the same statement read the result.
  bool is_unnamed = false;
  std::string as;  // prefix of the names of a block's values
  std::optional<Expression> when;
  // Semantic axes of the result, "" for none; or the name of a layout
  // (model/architecture/layouts.h).
  std::vector<std::string> axes;
  std::string layout;
  // A number that is scaled or shifted by: where `by` has this value the step
  // computes nothing.
  std::optional<double> neutral;
  std::vector<ForwardAttribute> attributes;
  // Arguments of a block besides those that its modules have; of `activate`
  // and `unembed` the text that is named so.
  std::vector<std::pair<std::string, Expression>> arguments;
  std::string message;  // of a requirement or a note
  // Of experts: the block that mixes gate and up, "" for an activation.
  std::string mix;

  // Of a repeat: the value that layers hand on, what it is before the first,
  // and its name in the last. The last step of a layer makes it.
  std::string carried;
  std::string first;
  std::string last;
  std::vector<ForwardStep> steps;
  std::vector<ForwardCase> cases;  // of a switch

  const Expression* argument(std::string_view key) const;
};

struct ForwardCase {
  std::optional<Expression> when;  // none: otherwise
  std::vector<ForwardStep> steps;
};

// What a block computes.
struct BlockForward {
  Span where;
  std::vector<std::string> takes;  // values, in the order of `in`
  std::vector<std::string> gives;
  std::vector<BlockArgument> arguments;
  std::vector<ForwardStep> steps;
};

// What a forward pass reads: tokens, or the numbers of an image.
struct InputRule {
  std::string name;
  Span where;
  std::vector<Expression> shape;    // of a pass: `batch`, `length`, ..
  std::vector<std::string> axes;    // semantic, "" for none
  std::optional<Expression> below;  // integers from 0 up to less than this
};

// The sizes of a pass, by which shapes of inputs are given: sequences, tokens
// of each, and tokens that a decoder reads beside them.
inline constexpr std::string_view kPassSizes[] = {"batch", "length",
                                                  "target_length"};

// Beside these, what is computed knows which token fills sequences up, by
// `pad_token_id`: -1 where that does not say.
inline constexpr std::string_view kPaddingToken = "padding_token";

struct ModuleBlock {
  std::string name;
  Span where;
  std::vector<BlockArgument> takes;
  std::vector<ModuleStep> steps;
  std::vector<StateStep> state_steps;
  std::optional<BlockForward> forward;
  // Of all architectures: it sees its arguments, not the names of one.
  bool shared = false;
};

// What a class of models has: `LlamaForCausalLM`.
struct ArchitectureClass {
  std::string class_name;
  Span where;
  std::vector<ModuleStep> steps;
  std::vector<StateStep> state_steps;
};

// What another version, or a program's memory, calls a part of a module's name.
struct OtherName {
  std::string part;   // "block_sparse_moe", as this file has it
  std::string other;  // "mlp"
};

// What modules are called in memory whose tensors are saved under another name,
// by the beginning of that: `vision_tower` is `model.vision_tower`. A component
// `*` is a number.
struct ModuleName {
  std::string saved;
  std::string in_memory;
};

struct Architecture;

// A part of a config with an architecture of its own: `vision_config`.
struct ConfigSection {
  std::string name;
  Span where;
  std::string key;
  std::shared_ptr<const Architecture> architecture;
  // Those that it has instead where its `model_type` is one of theirs.
  std::vector<std::shared_ptr<const Architecture>> others = {};
  // It is that of the section's own `model_type`, and the one above where it
  // has none.
  bool by_model_type = false;
  // Where the config has none, all its values are those of its class.
  bool has_defaults = false;
  // A config may lack it: what uses it is then left out.
  bool is_optional = false;
  // Its keys may stand at the top of the config, beside those of the whole.
  bool may_be_flat = false;

  // Whether this config has them there: no map of its own.
  bool is_flat(const Node& config) const;
};

struct Architecture {
  std::string name;
  std::string summary;
  std::string like;  // the one that it builds on; "" for none
  std::vector<std::string> model_types;
  // Methods of quantisation whose tensors are not known of it.
  std::vector<std::string> quantisations_unknown;
  // What the scales of FP8 are called in checkpoints that transformers 5 did
  // not write, where that is not `weight_scale_inv`. Their config may say that
  // they are one byte each, and that experts have 4 bits.
  std::string released_scale;
  // Keys that change tensors by their recording, and are known not to matter.
  std::vector<std::string> ignored_keys;
  std::vector<ValueRule> values;
  std::vector<Requirement> requirements;
  std::vector<ArchitectureNote> notes;
  std::vector<OtherName> other_names;
  // By class.
  std::map<std::string, std::vector<ModuleName>, std::less<>> module_names;
  // Whether its forward pass is what its blocks compute, and what a config must
  // fulfil for that.
  bool computes = false;
  // Whether a model without a config may be taken for one of it: not where its
  // names may be all of another's.
  bool by_names = true;
  std::vector<Requirement> forward_requirements;
  std::vector<InputRule> inputs;
  std::map<std::string, ModuleBlock, std::less<>> blocks;
  std::vector<ArchitectureClass>
      classes;  // the first is meant where a config names none
  std::vector<ConfigSection> sections;
  std::vector<SourcePtr> sources;  // keep places alive

  const ValueRule* find_value(std::string_view name) const;
  const ArchitectureClass* find_class(std::string_view class_name) const;
  const ConfigSection* find_section(std::string_view name) const;
  const InputRule* find_input(std::string_view name) const;
};

// A name of every architecture: the major version of transformers that wrote
// the config, 0 where that does not say.
inline constexpr std::string_view kSavedBy = "saved_by";

// How often an architecture may build on another, and blocks may nest.
inline constexpr size_t kMaxArchitectureDepth = 16;

// Finds another architecture by its name; null, with the reason reported, where
// there is none.
using FindArchitecture =
    std::function<std::shared_ptr<const Architecture>(std::string_view name)>;

// Reads a file. `shared` are blocks that every architecture may use. What is
// wrong is SP018, or SP002 and SP004, at its place.
std::shared_ptr<const Architecture> read_architecture(
    const SourcePtr& source,
    const std::map<std::string, ModuleBlock, std::less<>>& shared,
    const FindArchitecture& find, Diagnostics& diags);

// The blocks of a file that has nothing else.
std::optional<std::map<std::string, ModuleBlock, std::less<>>> read_blocks(
    const SourcePtr& source, Diagnostics& diags);

}  // namespace shardplan
