// SPDX-License-Identifier: Apache-2.0
// ForwardWriter: writes a forward pass as a graph, one operation at a time,
// over the parameters of a checkpoint.
//
// A linear layer is one einsum in the layout in which its weight is stored, and
// a layer of a stack is a view, so weights are never copied. Shapes of
// parameters follow from the sizes of the model; graph/build.h compares them
// with the checkpoint's. An intermediate value is named after a result, with a
// colon and a word, as in graph/composites.h.
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

// How much of a model runs, and on which input.
struct ForwardPass {
  int64_t batch = 2;                // sequences
  int64_t length = 16;              // tokens per sequence
  std::optional<int64_t> layers;    // only the first ones; none: all
  std::optional<int64_t> capacity;  // tokens of a sequence that an expert has
                                    // room for; none: all
  // Tokens that a decoder reads besides an encoder's; none: `length`.
  std::optional<int64_t> target_length = {};
  // No axis shards stacks over their experts, so experts are read as stacks
  // even if they are stored one by one.
  bool experts_whole = false;
  // The number of equal parts of a sequence that are sent to experts
  // separately: the number of devices that a sequence is sharded over, if
  // experts are on a view of the mesh. A sequence whose length is not divisible
  // is sent whole.
  int64_t token_groups = 1;

  bool operator==(const ForwardPass&) const = default;
};

// A LoRA of a stack of experts. `lora_A` [experts x rank, in] has the ranks of
// an expert side by side, `lora_B` [out, rank x experts] the experts of a rank.
// PEFT (0.21, tuners/lora/layer.py, ParamWrapper) adds the product of both to
// the kernels and multiplies tokens with the sums. Here tokens are multiplied
// with one after the other, which gives the same numbers at another cost
// (OpPart::MergedProduct).
struct StackLora {
  std::string module;  // "layers.3.mlp.experts.base_layer"
  int64_t experts = 0;
  int64_t expert = -1;  // that of the kernel; -1: the kernel is of all experts
  // The rows of `lora_B`, and the first one for the kernel, which may be gate
  // or up of a stack of both.
  int64_t rows = 0;
  int64_t first_row = 0;
};

// A use of a linear layer, which contracts the last dimension of `x`.
struct LinearUse {
  std::string x;
  std::string parameter;  // "layers.0.mlp.up_proj": .weight, perhaps .bias
  int64_t in = 0;
  int64_t out = 0;
  std::string result;
  // Axes of the result; empty: not specified. If a bias is added, the product
  // has them as well: the sums of a row-parallel layer are complete before its
  // bias is added.
  ValueLabels axes = {};
  bool biased = false;
  // The layer is a Conv1D of GPT-2: [in, out] in PyTorch, [out, in] in Flax.
  bool conv1d = false;
  // Number of kernels, one per index of the first dimension of x; 0: one for
  // all.
  int64_t stack = 0;
  std::string weight_name = ".weight";
  std::string bias_name = ".bias";
  std::optional<StackLora> lora = {};  // of the stack that contains this kernel
};

// The input of a ForwardWriter. The manifest must outlive the writer.
struct ForwardInput {
  const Manifest& manifest;
  ForwardPass pass;
};

class ForwardWriter {
 public:
  // `title` is the name of the model in messages, `where` is its config.
  // `others` are other names in the manifest (model/forward/parameter_names.h).
  ForwardWriter(const ForwardInput& input, std::string_view title, Span where,
                std::span<const OtherName> others, Diagnostics& diags);

  const ForwardPass& pass() const { return input_.pass; }
  // Returns false after something was refused; what is written then is
  // discarded.
  bool good() const { return good_; }
  // These find parameters by names of the convention
  // (model/forward/parameter_names.h).
  bool has(std::string_view parameter) const;
  // Returns the shape in the manifest.
  std::optional<Shape> shape_of(std::string_view parameter) const;
  // Returns out and in of a linear layer's weight in the manifest, or in and
  // out of a Conv1D's.
  std::optional<std::pair<int64_t, int64_t>> matrix_of(
      const std::string& layer, const std::string& weight_name) const;

  // Returns the rank of the result of an operation.
  size_t rank_of(std::string_view op, const std::vector<std::string>& operands,
                 const AttributeValues& attributes) const;

  // These return the name of a value. The `shape` of a parameter of one layer
  // is without the dimension that counts layers (set_layers()). finish()
  // reports parameters that the checkpoint lacks.
  // An input has integers less than `below`, or floating-point numbers if
  // `below` is 0.
  std::string input(std::string name, Shape shape, ValueLabels axes,
                    int64_t below);
  std::string parameter(std::string_view name, const Shape& shape);
  std::string op(std::string_view op, std::vector<std::string> operands,
                 std::string result, AttributeValues attributes = {},
                 ValueLabels axes = {});
  std::string linear(const LinearUse& use);
  // Writes the products of x with the rows of a matrix, such as an embedding.
  std::string times_rows(const std::string& x, const std::string& matrix,
                         std::string result, ValueLabels axes = {});
  std::string reshaped(const std::string& x, Shape shape, std::string result,
                       ValueLabels axes = {});
  // Writes the elements [begin, end) of a dimension; -1 is the last.
  std::string sliced(const std::string& x, int64_t dim, int64_t begin,
                     int64_t end, std::string result);
  // Writes an activation function, by its name in transformers' ACT2FN. Reports
  // SP009 if there is no operation for it.
  std::string activation(std::string_view name, const std::string& x,
                         std::string result, ValueLabels axes = {});

  // Assigns the operations that `write` adds to the layer `name`, the i-th of
  // its stack: "encoder.layers.3". They belong to no layer if `name` is not in
  // a stack called kMainStack, as for blocks that predict further tokens, and
  // to the outer layer within a layer. `handed_on` is the name of the last
  // layer's result, which is computed after the layers; empty: none.
  void in_layer(std::string name, int64_t i, std::string handed_on,
                const std::function<void()>& write);
  void set_layers(int64_t layers) { layers_ = layers; }
  void probe(std::string value);
  void output(std::string value);
  // Reports SP009 for something that cannot be computed.
  Diagnostics::Builder refuse(std::string message);

  // Returns nothing, with the reason reported, if something was refused or
  // parameters are missing (SP015).
  std::optional<GraphDescription> finish();

 private:
  std::string adapted(const LinearUse& use, const std::string& base);
  std::string stack_adapter(const LinearUse& use);
  // Reads the checkpoint's tensor `name` from a stored one. On entry, `stored`
  // has the shape of the checkpoint's tensor.
  std::string viewed(DescribedValue stored, std::string_view name,
                     const TensorView& view);
  std::string one_layer(const DescribedValue& stacked, int64_t layer,
                        const Shape& shape);
  // Returns a letter for every dimension of a value except the last.
  std::string letters(const std::string& value) const;
  void report_missing();
  void check_adapters();

  ForwardInput input_;
  ParameterNames names_;
  Span where_;
  Diagnostics& diags_;
  GraphDescription description_;
  std::set<std::string> written_;  // values to write only once
  std::map<std::string, size_t, std::less<>> rank_of_;
  std::vector<std::string> missing_;
  int64_t layers_ = 0;
  int layer_ = -1;  // index in the description; -1: none
  std::string handed_on_;
  bool good_ = true;
};

// The adapters that a LoRA adds next to the weight of a module.
inline constexpr const char* kLoraIn = ".lora_A.weight";
inline constexpr const char* kLoraOut = ".lora_B.weight";

// Converts a size to an attribute's value.
inline double number(int64_t size) { return static_cast<double>(size); }

}  // namespace shardplan
