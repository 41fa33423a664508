// SPDX-License-Identifier: Apache-2.0
// ModelWriter: a model's forward pass, written down an operation at a time over
// the parameters that a checkpoint has (graph/family.h).
//
// A linear layer is one einsum in the layout in which its weight is stored, and
// a layer of stacked ones a view: weights are never copied. Shapes of
// parameters are those that the sizes of the model give; graph/build.h compares
// them with the checkpoint's. What is computed on the way has the name of a
// result, a colon and a word, as in graph/composites.h.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/diagnostic.h"
#include "core/facts.h"
#include "core/graph_description.h"
#include "graph/family.h"

namespace shardplan {

using Labels = std::vector<std::string>;  // semantic axes, "" for none
using GivenAttributes =
    std::vector<std::pair<std::string, decltype(DescribedAttribute::value)>>;

// One use of a linear layer: the last dimension of `x` is contracted.
struct LinearUse {
  std::string x;
  std::string dims;       // a letter for every dimension of x but the last
  std::string parameter;  // "layers.0.mlp.up_proj": .weight, perhaps .bias
  int64_t in = 0;
  int64_t out = 0;
  std::string result;
  // Of the result; empty: not said. A product that a bias is added to has them,
  // too: the sums of a row parallel layer are complete before its bias is
  // added.
  Labels axes = {};
  // GPT-2's: [in, out] in PyTorch, [out, in] in Flax.
  bool conv1d = false;
  // A kernel per index of the first dimension of x, so many; 0: one for all.
  int64_t stack = 0;
};

class ModelWriter {
 public:
  // `config` is complete (graph/family.h); all must outlive the writer.
  ModelWriter(const FamilyInput& input, const ModelConfig& config,
              std::string_view family, Diagnostics& diags);

  const FamilyInput& input() const { return input_; }
  const ModelConfig& config() const { return config_; }
  // False after something was refused: what is written then is thrown away.
  bool good() const { return good_; }

  // By names of the convention (graph/family.h).
  bool has(std::string_view parameter) const;
  // Whether its matrices are [in, out].
  bool inputs_first(std::string_view parameter) const;

  // Whether the model ends without a head, so that its last hidden states are
  // its output: its class is that of a base model (`LlamaModel`), or the config
  // ties no embedding and there is no such parameter. A note says so.
  bool is_base_model(std::string_view head);

  // All give the name of a value. `shape` of a parameter of one layer is that
  // without the dimension that counts layers. One that the checkpoint lacks is
  // reported by finish().
  std::string token_ids(std::string name, Labels axes);
  std::string parameter(std::string_view name, const Shape& shape);
  std::string op(std::string_view op, std::vector<std::string> operands,
                 std::string result, GivenAttributes attributes = {},
                 Labels axes = {});
  std::string linear(const LinearUse& use);
  // An activation function by its name in transformers' ACT2FN; SP009 for one
  // that there is no operation for.
  std::string activation(const std::string& x, std::string result,
                         Labels axes = {});

  void probe(std::string value);
  void output(std::string value);
  // What the family cannot do yet: SP009.
  Diagnostics::Builder refuse(std::string message);

  // Empty, with the reason reported, when something was refused or parameters
  // are missing (SP015).
  std::optional<GraphDescription> finish();

 private:
  std::string one_layer(const DescribedValue& stacked, int64_t layer,
                        const Shape& shape);
  void report_missing();

  const FamilyInput& input_;
  const ModelConfig& config_;
  Diagnostics& diags_;
  GraphDescription description_;
  std::set<std::string> written_;  // values that may be asked for again
  std::vector<std::string> missing_;
  bool good_ = true;
};

// A size as an attribute's value.
inline double number(int64_t size) { return static_cast<double>(size); }

}  // namespace shardplan
