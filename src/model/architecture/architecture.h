// SPDX-License-Identifier: Apache-2.0
// Architecture: the contents of an architecture file
// (docs/formats/architecture.md): names for the values in a config.json, and
// the modules of a model with their parameters.
//
// An architecture is data: no code depends on the name of one. The shipped
// files are in rules/architectures; the same code reads a user's own.
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

// A name of an architecture file, and the rule for its value in a config.
struct ValueRule {
  enum class Kind : uint8_t {
    Size,      // an integer from `least` to `most`
    Flag,      // true or false
    Number,    // positive if only a forward pass reads it
    Text,      // a string
    Integers,  // a list of integers
    Table,     // a value per layer
  };
  std::string name;
  Span where;
  Kind kind = Kind::Size;
  std::vector<std::string> keys;     // config keys; the first present is used
  std::optional<Expression> absent;  // the value if no key is present
  std::optional<Expression> null;    // the value if the key is null
  // The value if the key is null, or absent and the configuration class has no
  // default for it.
  std::optional<Expression> otherwise;
  std::optional<Expression> is;  // for names without a key
  // A key whose entries are counted if none of `keys` is present.
  std::string counted;
  // For a flag: the key. The flag is whether it is present and not null.
  std::string given;
  int64_t least = 1;
  int64_t most = 0;  // the upper limit of a Size
  // The values of words in the config: of a text, or of items of a list or
  // table. `other_words` is the value of all other words.
  std::vector<std::pair<std::string, Expression>> words;
  std::optional<Expression> other_words;
  // For a table whose key is a map from layers to maps: the key in these maps.
  // It gives the value of layers that differ from the others.
  std::string entry;
  // The value affects what is computed, not what is stored, so it is read only
  // for a forward pass.
  bool of_forward = false;
};

// A condition on configs. If it does not hold, SP009 is reported at `key`.
struct Requirement {
  Span where;
  std::string name;  // its name for files that inherit it; "" for none
  Expression that;
  std::string key;
  std::string message;
  std::vector<std::string> facts;  // `{heads}` becomes the value of that name
  // It is checked only if the names of tensors follow from the config, not if
  // the tensors are given.
  bool of_names = false;
};

// A remark that is shown with a manifest if `when` holds.
struct ArchitectureNote {
  Span where;
  std::optional<Expression> when;  // none: always shown
  std::string text;                // `{heads}` becomes the value of that name
};

// A dimension of a parameter, as a tree. A leaf has a size; any other node has
// parts side by side, repeated `per` times if that is given.
struct DimTreePart;
struct DimTree {
  Span where;
  Expression size;  // for a leaf
  std::optional<Expression> per;
  std::vector<DimTreePart> parts;  // empty for a leaf
};
struct DimTreePart {
  std::string name;
  DimTree dim;
};

// A cache or state that a layer holds during generation, besides its
// parameters.
struct StateStep {
  enum class Kind : uint8_t {
    Cache,    // an entry per token; dims: one, its elements
    State,    // one per sequence; dims: its shape
    Nothing,  // no cache or state, whatever the layer's blocks say
  };
  Kind kind = Kind::Cache;
  Span where;
  std::string name;
  std::optional<Expression> when;
  std::vector<DimTree> dims;
  // Cache: the number of previous tokens that the layer sees, 0 for all; none:
  // the table `window` decides.
  std::optional<Expression> window;
  // Cache: the number of tokens that are compressed into one entry; none: 1.
  std::optional<Expression> every;
  // Cache: the entries are for the outputs of an encoder, which has `tokens`
  // tokens.
  bool source = false;
  std::optional<Expression> tokens;  // none: the number depends on the input
  std::optional<DType> dtype;        // none: the config's dtype
};

struct ModuleCase;

// The kind of a linear layer, as far as quantisation methods distinguish them.
enum class LinearRole : uint8_t {
  Layer,
  Head,       // the output embedding
  Last,       // the last layer of a model for another task
  Gate,       // so small that most programs do not quantise it
  Router,     // the same, and not a linear layer since transformers 5
  Grouped,    // separate groups: not a linear layer to bitsandbytes and torchao
  Experts,    // stacked experts of gpt-oss, whose MXFP4 form is known
  Parameter,  // a matrix that is not a linear layer in the computation
};

// A module with its parameters, or a step that contains several.
struct ModuleStep {
  enum class Kind : uint8_t {
    Linear,     // dims: out, in
    Embedding,  // dims: rows, columns
    RmsNorm,    // dims: size
    LayerNorm,  // dims: size
    Parameter,  // dims: the shape
    Buffer,     // the same, for a tensor that is not a parameter
    Block,
    Section,
    Repeat,
    Switch,
  };
  Kind kind = Kind::Linear;
  Span where;
  std::string what;  // the name of a Block or Section
  std::string name;  // of the module; "" if it adds none
  std::optional<Expression> when;

  std::vector<DimTree> dims;
  std::optional<Expression> bias;
  // Norms: the number that is added to the weight before it is used.
  std::optional<Expression> offset;
  std::string weight_name = ".weight";
  std::string bias_name = ".bias";
  bool inputs_first = false;  // the matrix is stored [in, out]
  LinearRole role = LinearRole::Layer;
  std::optional<DType> dtype;

  std::vector<std::pair<std::string, Expression>> arguments;  // Block's
  std::string part;                                           // Section's block

  std::optional<Expression> count;  // Repeat: how often
  std::optional<Expression> start;  // Repeat: the first index; none: 0
  std::string index;
  bool stacked = false;  // one tensor with an additional first dimension
  std::vector<ModuleStep> steps;
  std::vector<StateStep> state_steps;
  std::vector<ModuleCase> cases;  // Switch
};

struct ModuleCase {
  std::optional<Expression> when;  // none: always applies
  std::vector<ModuleStep> steps;
  std::vector<StateStep> state_steps;
};

struct BlockArgument {
  std::string name;
  std::optional<Expression> otherwise;  // the default, evaluated at each use
};

// An attribute of an operation: a value, a list of values, or a text.
struct ForwardAttribute {
  std::string name;
  Span where;
  std::vector<Expression> values;
  bool is_list = false;
  std::string text;  // if there are no values
};

struct ForwardCase;

// An operation of a forward pass, or a step that contains several. A statement
// of the file (model/language/statement.h) becomes one step per operation.
// Names of values belong to the block that contains the step.
struct ForwardStep {
  enum class Kind : uint8_t {
    Op,          // an operation of graph files
    Apply,       // a module or block of this block, or a block without modules
    Weight,      // the matrix of a module, as a value
    Unembed,     // the product with the rows of an embedding
    Activation,  // an activation function, by its name in a config
    Rotate,      // rotary positions, according to the config
    Heads,       // splits values into heads, or computes attention with them
    Experts,     // the weighted outputs of each token's experts
    Same,        // another name for a value
    Require,     // refuses the config unless the condition holds
    Note,        // shown with the run
    Repeat,      // the steps of repeated modules
    Switch,
  };
  Kind kind = Kind::Op;
  Span where;
  std::string what;  // the operation, the module, or a block that has no name;
                     // Repeat: its name, "layers.{i}"
  // Weight: the modules to read if the one before is not stored, in order.
  std::vector<std::string> otherwise;
  std::vector<std::string> in;
  std::vector<std::string> out;
  // Only the following steps of the same statement read the result.
  bool is_unnamed = false;
  std::string as;  // prefix for the names of a block's values
  std::optional<Expression> when;
  // The semantic axes of the result, "" for a dimension without one; or the
  // name of a layout (model/architecture/layouts.h).
  std::vector<std::string> axes;
  std::string layout;
  // For a value scaled or shifted by a number: the value of `by` for which the
  // step computes nothing.
  std::optional<double> neutral;
  std::vector<ForwardAttribute> attributes;
  // Arguments of a block besides those of its modules; for `activate` and
  // `unembed`, the text of the same name; for a requirement, its condition.
  std::vector<std::pair<std::string, Expression>> arguments;
  std::string message;  // Require, Note
  // Experts: the block that combines gate and up; "" for an activation.
  std::string mix;

  // Repeat: the value that a layer passes to the next, the value that the first
  // layer reads, and the name of the last layer's result. The last step of a
  // layer makes the value.
  std::string carried;
  std::string first;
  std::string last;
  std::vector<ForwardStep> steps;
  std::vector<ForwardCase> cases;  // Switch

  const Expression* argument(std::string_view key) const;
};

struct ForwardCase {
  std::optional<Expression> when;  // none: always applies
  std::vector<ForwardStep> steps;
};

// The computation of a block.
struct BlockForward {
  Span where;
  std::vector<std::string> takes;  // values, in the order of `in`
  std::vector<std::string> gives;
  std::vector<BlockArgument> arguments;
  std::vector<ForwardStep> steps;
};

// An input of a forward pass: tokens, or the numbers of an image.
struct InputRule {
  std::string name;
  Span where;
  std::vector<Expression> shape;    // may use `batch`, `length`, ..
  std::vector<std::string> axes;    // semantic axes, "" for none
  std::optional<Expression> below;  // integers from 0 to less than this
};

// The sizes of a forward pass, which the shapes of inputs can use: the number
// of sequences, of tokens per sequence, and of tokens that a decoder reads
// besides an encoder's.
inline constexpr std::string_view kPassSizes[] = {"batch", "length",
                                                  "target_length"};

// A further name that blocks can use: the token that pads sequences, from
// `pad_token_id`, or -1 if the config has none.
inline constexpr std::string_view kPaddingToken = "padding_token";

struct ModuleBlock {
  std::string name;
  Span where;
  std::vector<BlockArgument> takes;
  std::vector<ModuleStep> steps;
  std::vector<StateStep> state_steps;
  std::optional<BlockForward> forward;
  // Every architecture can use the block, so it sees only its arguments and no
  // names of an architecture.
  bool shared = false;
};

// The steps of a model class such as `LlamaForCausalLM`, or of all classes
// whose names end with `ForCausalLM`.
struct ArchitectureClass {
  std::string class_name;
  Span where;
  std::vector<ModuleStep> steps;
  std::vector<StateStep> state_steps;
};

// A component of module names that another version, or a model in memory, names
// differently.
struct OtherName {
  std::string part;   // the name in this file: "block_sparse_moe"
  std::string other;  // the other name: "mlp"
};

// The name in memory of modules that are saved under another name. Both are
// beginnings of names: `vision_tower` is `model.vision_tower`. A component `*`
// is a number.
struct ModuleName {
  std::string saved;
  std::string in_memory;
};

struct Architecture;

// A part of a config that has its own architecture, such as `vision_config`.
struct ConfigSection {
  std::string name;
  Span where;
  std::string key;
  std::shared_ptr<const Architecture> architecture;
  // Architectures that apply instead if the section's `model_type` is one of
  // theirs.
  std::vector<std::shared_ptr<const Architecture>> others = {};
  // The section's own `model_type` determines the architecture; `architecture`
  // applies if it has none.
  bool by_model_type = false;
  // If the config lacks the section, all its values are the defaults of its
  // class.
  bool has_defaults = false;
  // The config may lack the section; steps that use it then have a condition.
  bool is_optional = false;
  // The section's keys may be at the top level of the config, among those of
  // the whole.
  bool may_be_flat = false;

  // Returns whether this config has them there: that is allowed, and the config
  // has no map for the section.
  bool is_flat(const Node& config) const;
};

struct Architecture {
  std::string name;
  std::string summary;
  std::string like;  // the architecture that this one extends; "" for none
  std::vector<std::string> model_types;
  // Methods of quantisation whose tensors are unknown for this architecture.
  std::vector<std::string> quantisations_unknown;
  // The name of FP8 scales in checkpoints that transformers 5 did not write, if
  // it is not `weight_scale_inv`. Configs of such checkpoints may specify
  // scales of one byte and experts of 4 bits.
  std::string released_scale;
  // Keys that are recorded as changing tensors, but are known not to matter.
  std::vector<std::string> ignored_keys;
  std::vector<ValueRule> values;
  std::vector<Requirement> requirements;
  std::vector<ArchitectureNote> notes;
  std::vector<OtherName> other_names;
  // Keyed by the name of the model class.
  std::map<std::string, std::vector<ModuleName>, std::less<>> module_names;
  // Whether the blocks define the forward pass. A config must then fulfil
  // `forward_requirements`.
  bool computes = false;
  // Whether a model without a config may be recognised by its names as this
  // architecture; false if another architecture may have all of these names.
  bool by_names = true;
  std::vector<Requirement> forward_requirements;
  std::vector<InputRule> inputs;
  std::map<std::string, ModuleBlock, std::less<>> blocks;
  std::vector<ArchitectureClass> classes;  // the first is the default
  // The steps that `classes` may name by the ends of class names.
  std::vector<ArchitectureClass> class_endings;
  std::vector<ConfigSection> sections;
  std::vector<SourcePtr> sources;  // own the text of the spans

  const ValueRule* find_value(std::string_view name) const;
  const ArchitectureClass* find_class(std::string_view class_name) const;
  const ConfigSection* find_section(std::string_view name) const;
  const InputRule* find_input(std::string_view name) const;
};

// A name that every architecture has: the major version of transformers that
// wrote the config, or 0 if the config does not say.
inline constexpr std::string_view kSavedBy = "saved_by";

// The maximum length of a chain of architectures that extend one another, and
// the maximum nesting of blocks.
inline constexpr size_t kMaxArchitectureDepth = 16;

// Finds another architecture by its name. Returns null if there is none.
using FindArchitecture =
    std::function<std::shared_ptr<const Architecture>(std::string_view name)>;

// Reads an architecture file. `shared` is what every architecture has. Reports
// mistakes as SP018, or SP002 and SP004, at their location, and then returns
// null.
std::shared_ptr<const Architecture> read_architecture(
    const SourcePtr& source, const Architecture& shared,
    const FindArchitecture& find, Diagnostics& diags);

// Reads the file of what every architecture has: sizes, blocks and endings of
// classes.
std::optional<Architecture> read_shared_architecture(const SourcePtr& source,
                                                     Diagnostics& diags);

}  // namespace shardplan
