// SPDX-License-Identifier: Apache-2.0
// ForwardWriter: a forward pass, written down an operation at a time over the
// parameters that a checkpoint has.
//
// A linear layer is one einsum in the layout in which its weight is stored, and
// a layer of stacked ones a view: weights are never copied. Shapes of
// parameters are those that the sizes of the model give; graph/build.h compares
// them with the checkpoint's. What is computed on the way has the name of a
// result, a colon and a word, as in graph/composites.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "core/graph_description.h"
#include "core/manifest.h"
#include "model/forward/parameter_names.h"
#include "model/forward/tensor_view.h"

namespace shardplan {

using ValueLabels = std::vector<std::string>;  // semantic axes, "" for none

// How much of a model is run, on what.
struct ForwardPass {
  int64_t batch = 2;                // sequences
  int64_t length = 16;              // tokens of each
  std::optional<int64_t> layers;    // the first so many; else all
  std::optional<int64_t> capacity;  // tokens of a sequence that an expert has
                                    // room for; else all of them
  // Tokens that a decoder reads beside those of an encoder; else as many.
  std::optional<int64_t> target_length = {};
  // Stacks of experts are cut over their experts by no axis: they are read as
  // stacks though they are stored one by one.
  bool experts_whole = false;
  // Equal parts of each sequence that are sent to experts by themselves: as
  // many as devices that a sequence is cut over, where experts are on a view of
  // the mesh. A length that they do not divide is sent whole.
  int64_t token_groups = 1;

  bool operator==(const ForwardPass&) const = default;
};

// What a LoRA adds to kernels of experts. `lora_A` [experts x rank, in] has the
// ranks of an expert side by side, `lora_B` [out, rank x experts] those of all
// experts. PEFT (0.21, tuners/lora/layer.py, ParamWrapper) adds the product of
// both to the kernels, which tokens are then multiplied with: the same numbers
// as here, where tokens are multiplied with one after the other, at another
// cost (OpPart::MergedProduct).
struct StackLora {
  std::string module;  // "layers.3.mlp.experts.base_layer"
  int64_t experts = 0;
  int64_t expert = -1;  // the kernel's; -1: the kernel is of all
  // Of `out` of the adapters, what the kernel has: gate or up of both.
  int64_t rows = 0;
  int64_t first_row = 0;
};

// One use of a linear layer: the last dimension of `x` is contracted.
struct LinearUse {
  std::string x;
  std::string parameter;  // "layers.0.mlp.up_proj": .weight, perhaps .bias
  int64_t in = 0;
  int64_t out = 0;
  std::string result;
  // Of the result; empty: not said. A product that a bias is added to has them,
  // too: the sums of a row parallel layer are complete before its bias is
  // added.
  ValueLabels axes = {};
  bool biased = false;
  // GPT-2's: [in, out] in PyTorch, [out, in] in Flax.
  bool conv1d = false;
  // A kernel per index of the first dimension of x, so many; 0: one for all.
  int64_t stack = 0;
  std::string weight_name = ".weight";
  std::string bias_name = ".bias";
  std::optional<StackLora> lora = {};  // of a stack that this is a kernel of
};

// What a forward pass is written from. The manifest must outlive the writer.
struct ForwardInput {
  const Manifest& manifest;
  ForwardPass pass;
};

class ForwardWriter {
 public:
  // `title` names the model in messages, `where` is its config. `others` are
  // other names of the manifest's (model/forward/parameter_names.h).
  ForwardWriter(const ForwardInput& input, std::string_view title, Span where,
                std::span<const OtherName> others, Diagnostics& diags);

  const ForwardPass& pass() const { return input_.pass; }
  // False after something was refused: what is written then is thrown away.
  bool good() const { return good_; }
  // By names of the convention (model/forward/parameter_names.h).
  bool has(std::string_view parameter) const;
  // In the manifest.
  std::optional<Shape> shape_of(std::string_view parameter) const;
  // Out and in of a linear layer's weight there, or in and out of a Conv1D's.
  std::optional<std::pair<int64_t, int64_t>> matrix_of(
      const std::string& layer, const std::string& weight_name) const;

  // Dimensions of the result of an operation.
  size_t rank_of(std::string_view op, const std::vector<std::string>& operands,
                 const AttributeValues& attributes) const;

  // All give the name of a value. `shape` of a parameter of one layer is that
  // without the dimension that counts layers, of which there are `layers`. One
  // that the checkpoint lacks is reported by finish().
  // Integers up to less than `below`; floating-point numbers where that is 0.
  std::string input(std::string name, Shape shape, ValueLabels axes,
                    int64_t below);
  std::string parameter(std::string_view name, const Shape& shape);
  std::string op(std::string_view op, std::vector<std::string> operands,
                 std::string result, AttributeValues attributes = {},
                 ValueLabels axes = {});
  std::string linear(const LinearUse& use);
  // The product of x with the rows of an embedding.
  std::string unembedded(const std::string& x, const std::string& table,
                         std::string result, ValueLabels axes);
  // An activation function by its name in transformers' ACT2FN; SP009 for one
  // that there is no operation for.
  std::string activation(std::string_view name, const std::string& x,
                         std::string result, ValueLabels axes = {});

  // Operations that `write` adds are of the layer `name`, the i-th of its
  // stack: "encoder.layers.3". They are of no layer where `name` is none of the
  // model's, as are blocks that predict further tokens, and of the outer one
  // within a layer. `handed_on`: what the last layer gives has this name of the
  // model's, and is computed behind the layers; empty: none.
  void in_layer(std::string name, int64_t i, std::string handed_on,
                const std::function<void()>& write);
  void set_layers(int64_t layers) { layers_ = layers; }
  void probe(std::string value);
  void output(std::string value);
  // What cannot be computed: SP009.
  Diagnostics::Builder refuse(std::string message);

  // Empty, with the reason reported, when something was refused or parameters
  // are missing (SP015).
  std::optional<GraphDescription> finish();

 private:
  std::string adapted(const LinearUse& use, const std::string& base);
  std::string adapted_stack(const LinearUse& use, const std::string& base);
  // The checkpoint's tensor `name`, of which `stored` has the shape.
  std::string viewed(DescribedValue stored, std::string_view name,
                     const TensorView& view);
  std::string one_layer(const DescribedValue& stacked, int64_t layer,
                        const Shape& shape);
  // One for every dimension of a value but the last.
  std::string letters(const std::string& value) const;
  void report_missing();
  void check_adapters();

  ForwardInput input_;
  ParameterNames names_;
  Span where_;
  Diagnostics& diags_;
  GraphDescription description_;
  std::set<std::string> written_;  // values that may be asked for again
  std::map<std::string, size_t, std::less<>> rank_of_;
  std::vector<std::string> missing_;
  int64_t layers_ = 0;
  int layer_ = -1;  // of the description
  std::string handed_on_;
  bool good_ = true;
};

// A size as an attribute's value.
inline double number(int64_t size) { return static_cast<double>(size); }

}  // namespace shardplan
