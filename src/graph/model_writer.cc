// SPDX-License-Identifier: Apache-2.0
#include "graph/model_writer.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace shardplan {
namespace {

// Missing parameters that a message names; beyond kEnough no more are sought.
constexpr size_t kShown = 5;
constexpr size_t kEnough = 1000;

// The number of the layer in "layers.3.mlp.up_proj.weight".
int64_t layer_of(std::string_view name) {
  while (!name.empty()) {
    const size_t end = std::min(name.find('.'), name.size());
    const std::string_view part = name.substr(0, end);
    if (!part.empty() &&
        part.find_first_not_of("0123456789") == std::string_view::npos) {
      return std::stoll(std::string(part));
    }
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return 0;
}

struct ActivationName {
  std::string_view name;
  std::string_view op;
  std::string_view approximate = "";
};
constexpr std::array<ActivationName, 10> kActivations = {{
    {"silu", "silu"},
    {"swish", "silu"},
    {"gelu", "gelu", "none"},
    {"gelu_new", "gelu", "tanh"},
    {"gelu_pytorch_tanh", "gelu", "tanh"},
    {"gelu_fast", "gelu", "tanh"},
    {"gelu_python", "gelu", "none"},
    {"relu", "relu"},
    {"tanh", "tanh"},
    {"sigmoid", "sigmoid"},
}};

}  // namespace

ModelWriter::ModelWriter(const FamilyInput& input, const ModelConfig& config,
                         std::string_view family, Diagnostics& diags)
    : input_(input), config_(config), diags_(diags) {
  description_.name = std::string(family);
  description_.sources = input.manifest.sources;
}

bool ModelWriter::has(std::string_view parameter) const {
  return input_.names.find(parameter) != nullptr;
}

bool ModelWriter::inputs_first(std::string_view parameter) const {
  const NamedParameter* found = input_.names.find(parameter);
  return found != nullptr && found->inputs_first;
}

std::string ModelWriter::token_ids(std::string name, Labels axes) {
  DescribedValue ids;
  ids.name = name;
  ids.shape = Shape{input_.pass.batch, input_.pass.length};
  ids.dtype = DType::I32;
  ids.axes = std::move(axes);
  ids.integers_below = *config_.vocab;
  description_.inputs.push_back(std::move(ids));
  return name;
}

std::string ModelWriter::parameter(std::string_view name, const Shape& shape) {
  const NamedParameter* found = input_.names.find(name);
  if (found == nullptr) {
    missing_.emplace_back(name);
    good_ = good_ && missing_.size() < kEnough;
    return missing_.back();
  }
  DescribedValue value;
  value.parameter = std::string(input_.manifest.name(found->index));
  value.name = value.parameter;
  value.where = input_.manifest.where(found->index);
  value.shape = shape;
  if (found->stacked) {
    value.shape->insert(value.shape->begin(), *config_.layers);
  }
  if (written_.insert(value.name).second) {
    description_.parameters.push_back(value);
  }
  if (!found->stacked) return value.name;
  return one_layer(value, layer_of(name), shape);
}

std::string ModelWriter::one_layer(const DescribedValue& stacked, int64_t layer,
                                   const Shape& shape) {
  std::string name = stacked.name + ":" + std::to_string(layer);
  if (!written_.insert(name).second) return name;
  const std::string row =
      op("slice", {stacked.name}, name + ":row",
         {{"dim", 0.0}, {"begin", number(layer)}, {"end", number(layer + 1)}});
  return op("reshape", {row}, std::move(name), {{"shape", shape}});
}

std::string ModelWriter::op(std::string_view op,
                            std::vector<std::string> operands,
                            std::string result, GivenAttributes attributes,
                            Labels axes) {
  DescribedOp written;
  written.op = std::string(op);
  written.operands_where.resize(operands.size());
  written.operands = std::move(operands);
  written.results = {result};
  written.results_where.resize(1);
  for (auto& [name, value] : attributes) {
    DescribedAttribute& attribute = written.attributes.emplace_back();
    attribute.name = std::move(name);
    attribute.value = std::move(value);
  }
  written.axes = std::move(axes);
  description_.ops.push_back(std::move(written));
  return result;
}

std::string ModelWriter::linear(const LinearUse& use) {
  const std::string weight = use.parameter + ".weight";
  // A fused or stacked weight may be a parameter without the last part.
  const std::string& name =
      has(weight) || !has(use.parameter) ? weight : use.parameter;
  const bool inputs_first = this->inputs_first(name) != use.conv1d;
  Shape shape = inputs_first ? Shape{use.in, use.out} : Shape{use.out, use.in};
  std::string letters = inputs_first ? "io" : "oi";
  Shape bias_shape = {use.out};
  if (use.stack > 0) {
    letters = use.dims.substr(0, 1) + letters;
    shape.insert(shape.begin(), use.stack);
  }
  const std::string bias = use.parameter + ".bias";
  const bool biased = use.stack == 0 && has(bias);
  std::string product =
      op("einsum", {use.x, parameter(name, shape)},
         biased ? use.result + ":product" : use.result,
         {{"equation", use.dims + "i," + letters + "->" + use.dims + "o"}},
         use.axes);
  if (!biased) return product;
  return op("add", {std::move(product), parameter(bias, bias_shape)},
            use.result, {}, use.axes);
}

std::string ModelWriter::activation(const std::string& x, std::string result,
                                    Labels axes) {
  const std::string& wanted = config_.activation;
  for (const ActivationName& known : kActivations) {
    if (known.name != wanted) continue;
    GivenAttributes attributes;
    if (!known.approximate.empty()) {
      attributes.emplace_back("approximate", std::string(known.approximate));
    }
    return op(known.op, {x}, std::move(result), std::move(attributes),
              std::move(axes));
  }
  if (good_) {
    std::string names;
    for (const ActivationName& known : kActivations) {
      names += (names.empty() ? "" : ", ") + std::string(known.name);
    }
    refuse("activation function " + in_backticks(wanted) + " is not known")
        .help("known are " + names);
  }
  return x;
}

void ModelWriter::probe(std::string value) {
  if (std::find(description_.probes.begin(), description_.probes.end(),
                value) != description_.probes.end()) {
    return;
  }
  description_.probes.push_back(std::move(value));
  description_.probes_where.emplace_back();
}

void ModelWriter::output(std::string value) {
  probe(value);
  description_.outputs.push_back(std::move(value));
  description_.outputs_where.emplace_back();
}

bool ModelWriter::is_base_model(std::string_view head) {
  if (has(head)) return false;
  constexpr std::string_view kHeads = "LMHeadModel";
  const std::string& kind = config_.architecture;
  const bool base = kind.ends_with("Model") && !kind.ends_with(kHeads);
  // A config that does not tie them names a head that is not there.
  const bool untied = config_.where && !config_.tied.value_or(true);
  if (!base && !untied) return false;
  diags_
      .report(Code::UnsupportedConfig, Severity::Note, config_.where,
              "the model has no head: its output is `last_hidden_state`, not "
              "logits")
      .fact(base ? "the config's architecture is " + in_backticks(kind)
                 : "there is no " + in_backticks(head) +
                       ", and `tie_word_embeddings` is not true");
  return true;
}

Diagnostics::Builder ModelWriter::refuse(std::string message) {
  good_ = false;
  return diags_.error(Code::UnsupportedConfig, config_.where,
                      std::move(message));
}

void ModelWriter::report_missing() {
  auto problem = diags_.error(
      Code::InvalidGraph, config_.where,
      "the forward pass of a `" + description_.name + "` needs " +
          plural(static_cast<int64_t>(missing_.size()), "parameter") +
          " that the model does not have");
  for (size_t i = 0; i < missing_.size() && i < kShown; ++i) {
    problem.fact("missing: " + in_backticks(missing_[i]));
  }
  if (missing_.size() > kShown) problem.fact("missing: ..");
  std::vector<std::string> names;
  for (size_t i = 0; i < input_.manifest.size(); ++i) {
    names.emplace_back(input_.manifest.name(i));
  }
  if (const auto near = nearest(missing_.front(), names)) {
    problem.help("did you mean " + in_backticks(*near) + "?");
  } else {
    problem.help(
        "names are those of Hugging Face or Flax; a checkpoint of which a "
        "shard is missing lacks what is in it");
  }
}

std::optional<GraphDescription> ModelWriter::finish() {
  if (!missing_.empty()) {
    report_missing();
    return std::nullopt;
  }
  if (!good_) return std::nullopt;
  return std::move(description_);
}

}  // namespace shardplan
