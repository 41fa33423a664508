// SPDX-License-Identifier: Apache-2.0
#include "model/forward/writer.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "base/words.h"
#include "core/fold.h"
#include "model/forward/tensor_view.h"

namespace shardplan {
namespace {

// Number of missing parameters in a message, and the number after which no more
// are looked for.
constexpr size_t kShown = 5;
constexpr size_t kEnough = 1000;

// `lora_alpha` divided by the rank. No tensor contains it; it is the same for
// all modules, and any value is good enough for runs with random numbers.
constexpr double kAdapterScale = 2;

struct ActivationName {
  std::string_view name;
  std::string_view op;
  std::string_view approximate = "";
};
constexpr std::array<ActivationName, 11> kActivations = {{
    {"silu", "silu"},
    {"swish", "silu"},
    {"gelu", "gelu", "none"},
    {"gelu_new", "gelu", "tanh"},
    {"gelu_pytorch_tanh", "gelu", "tanh"},
    {"gelu_fast", "gelu", "tanh"},
    {"gelu_python", "gelu", "none"},
    {"relu", "relu"},
    {"relu2", "relu"},
    {"tanh", "tanh"},
    {"sigmoid", "sigmoid"},
}};

}  // namespace

ForwardWriter::ForwardWriter(const ForwardInput& input, std::string_view title,
                             Span where, std::span<const OtherName> others,
                             Diagnostics& diags)
    : input_(input),
      names_(input.manifest, others),
      where_(where),
      diags_(diags) {
  description_.name = std::string(title);
  description_.sources = input.manifest.sources;
}

bool ForwardWriter::has(std::string_view parameter) const {
  return names_.find(parameter) != nullptr;
}

std::optional<Shape> ForwardWriter::shape_of(std::string_view parameter) const {
  const NamedParameter* const found = names_.find(parameter);
  if (found == nullptr) return std::nullopt;
  return names_.shape_of(*found);
}

std::optional<std::pair<int64_t, int64_t>> ForwardWriter::matrix_of(
    const std::string& layer, const std::string& weight_name) const {
  const std::string weight = layer + weight_name;
  const NamedParameter* const found = names_.find(has(weight) ? weight : layer);
  if (found == nullptr) return std::nullopt;
  const Shape& shape = names_.shape_of(*found);
  if (shape.size() < 2) return std::nullopt;
  std::pair matrix(shape[shape.size() - 2], shape.back());
  if (found->inputs_first) std::swap(matrix.first, matrix.second);
  return matrix;
}

std::string ForwardWriter::input(std::string name, Shape shape,
                                 ValueLabels axes, int64_t below) {
  DescribedValue value;
  value.name = name;
  rank_of_[name] = shape.size();
  value.shape = std::move(shape);
  if (below > 0) value.dtype = DType::I32;
  value.axes = std::move(axes);
  value.integers_below = below;
  description_.inputs.push_back(std::move(value));
  return name;
}

std::string ForwardWriter::parameter(std::string_view name,
                                     const Shape& shape) {
  int64_t layer = 0;
  const NamedParameter* found = names_.find(name, &layer);
  if (found == nullptr) {
    missing_.emplace_back(name);
    good_ = good_ && missing_.size() < kEnough;
    return missing_.back();
  }
  DescribedValue value;
  value.parameter = std::string(input_.manifest.any_name(found->index));
  value.name = value.parameter;
  value.where = input_.manifest.any_where(found->index);
  value.shape = shape;
  if (found->view != nullptr) return viewed(value, name, *found->view);
  if (found->stacked) value.shape->insert(value.shape->begin(), layers_);
  if (written_.insert(value.name).second) {
    description_.parameters.push_back(value);
  }
  rank_of_[value.name] = value.shape->size();
  if (!found->stacked) return value.name;
  return one_layer(value, layer, shape);
}

std::string ForwardWriter::viewed(DescribedValue stored, std::string_view name,
                                  const TensorView& view) {
  std::optional<ViewReading> reading = read_view(view, *stored.shape);
  if (!reading) {
    if (good_) {
      refuse("names of another program are not supported for a reduced model")
          .fact(in_backticks(stored.name) + " is made from a " +
                shape_text(view.shape) + "; here it would be made from a " +
                shape_text(*stored.shape))
          .help(
              "leave out `--scheme`, with rules for the names of the "
              "checkpoint, or run the full model (`--full`)");
    }
    return std::string(name);
  }
  stored.shape = std::move(reading->stored);
  const std::string result = reading->steps.empty()
                                 ? stored.name
                                 : stored.name + ":" + std::string(name);
  rank_of_[stored.name] = stored.shape->size();
  if (written_.insert(stored.name).second) {
    description_.parameters.push_back(stored);
  }
  if (!written_.insert(result).second) return result;
  std::string value = stored.name;
  for (size_t i = 0; i < reading->steps.size(); ++i) {
    const bool is_last = i + 1 == reading->steps.size();
    ViewReading::Step& step = reading->steps[i];
    value = op(step.op, {std::move(value)},
               is_last ? result : result + ":" + std::to_string(i),
               std::move(step.attributes));
  }
  return value;
}

std::string ForwardWriter::one_layer(const DescribedValue& stacked,
                                     int64_t layer, const Shape& shape) {
  std::string name = stacked.name + ":" + std::to_string(layer);
  if (!written_.insert(name).second) return name;
  const std::string row =
      sliced(stacked.name, 0, layer, layer + 1, name + ":row");
  return reshaped(row, shape, std::move(name));
}

size_t ForwardWriter::rank_of(std::string_view op,
                              const std::vector<std::string>& operands,
                              const AttributeValues& attributes) const {
  for (const auto& [name, value] : attributes) {
    if ((op == "reshape" || op == "expand") && name == "shape") {
      return std::get<std::vector<int64_t>>(value).size();
    }
    if (op == "einsum" && name == "equation") {
      const std::string& text = std::get<std::string>(value);
      return text.size() - text.find('>') - 1;
    }
  }
  const auto found =
      operands.empty() ? rank_of_.end() : rank_of_.find(operands.front());
  if (op == "embedding") return 3;
  if (op == "linear_recurrence" || op == "delta_recurrence") return 4;
  // dispatch adds a dimension for experts, and combine removes it.
  const size_t first = found == rank_of_.end() ? 3 : found->second;
  if (op == "dispatch") return first + 1;
  return op == "combine" || op == "last_token" ? first - 1 : first;
}

std::string ForwardWriter::letters(const std::string& value) const {
  const auto found = rank_of_.find(value);
  const size_t rank = found == rank_of_.end() ? 3 : found->second;
  // The letters exclude `i` and `o`, which are those of the kernel.
  constexpr std::string_view kLetters = "ebcdfgh";
  if (rank == 3) return "bs";
  if (rank == 2) return "b";
  return std::string(kLetters.substr(0, rank - 1));
}

std::string ForwardWriter::op(std::string_view op,
                              std::vector<std::string> operands,
                              std::string result, AttributeValues attributes,
                              ValueLabels axes) {
  rank_of_[result] = rank_of(op, operands, attributes);
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
  const bool handed_on =
      !handed_on_.empty() && result.starts_with(handed_on_) &&
      (result.size() == handed_on_.size() || result[handed_on_.size()] == ':');
  if (!handed_on) written.layer = layer_;
  description_.ops.push_back(std::move(written));
  return result;
}

std::string ForwardWriter::linear(const LinearUse& use) {
  const std::string weight = use.parameter + use.weight_name;
  // A fused or stacked weight may be a parameter without the last component.
  const std::string& name =
      has(weight) || !has(use.parameter) ? weight : use.parameter;
  const NamedParameter* const found = names_.find(name);
  const bool stored_first = found != nullptr && found->inputs_first;
  const bool inputs_first = stored_first != use.conv1d;
  Shape shape = inputs_first ? Shape{use.in, use.out} : Shape{use.out, use.in};
  std::string kernel = inputs_first ? "io" : "oi";
  const std::string dims = letters(use.x);
  const bool adapted =
      use.lora || (use.stack == 0 && has(use.parameter + kLoraIn));
  const std::string result = adapted ? use.result + ":base" : use.result;
  if (use.stack > 0) {
    kernel = dims.substr(0, 1) + kernel;
    shape.insert(shape.begin(), use.stack);
  }
  std::string value =
      op("einsum", {use.x, parameter(name, shape)},
         use.biased ? use.result + ":product" : result,
         {{"equation", dims + "i," + kernel + "->" + dims + "o"}}, use.axes);
  if (use.lora) {
    description_.ops.back().part =
        use.out == use.lora->rows ? OpPart::MergedProduct : OpPart::MergedHalf;
  }
  if (use.biased) {
    Shape bias_shape = {use.out};
    if (use.stack > 0) bias_shape.insert(bias_shape.begin(), use.stack);
    std::string bias = parameter(use.parameter + use.bias_name, bias_shape);
    if (use.stack > 0) {
      // There is one bias per index of the first dimension, for all indices of
      // the dimensions between it and the last.
      Shape rows(dims.size() + 1, 1);
      rows.front() = use.stack;
      rows.back() = use.out;
      bias = reshaped(bias, std::move(rows), use.result + ":bias");
    }
    value =
        op("add", {std::move(value), std::move(bias)}, result, {}, use.axes);
  }
  return adapted ? this->adapted(use, value) : value;
}

// Adds the contribution of a LoRA (Hu et al., 2021) as PEFT computes it: A x,
// then B of that, times a number.
std::string ForwardWriter::adapted(const LinearUse& use,
                                   const std::string& base) {
  std::string high;
  if (use.lora) {
    high = stack_adapter(use);
  } else {
    const std::string in = use.parameter + kLoraIn;
    const Shape& shape = names_.shape_of(*names_.find(in));
    const int64_t rank = shape.empty() ? 0 : shape.front();
    const std::string low =
        times_rows(use.x, parameter(in, {rank, use.in}), use.result + ":low");
    description_.ops.back().part = OpPart::AdapterInput;
    const std::string out =
        parameter(use.parameter + kLoraOut, {use.out, rank});
    high = times_rows(low, out, use.result + ":high", use.axes);
    description_.ops.back().part = OpPart::Adapter;
  }
  const std::string scaled = op("scale", {high}, use.result + ":scaled",
                                {{"by", kAdapterScale}}, use.axes);
  if (!use.lora) description_.ops.back().part = OpPart::Adapter;
  return op("add", {base, scaled}, use.result, {}, use.axes);
}

// Returns the contribution of an adapter of a stack, before it is scaled.
std::string ForwardWriter::stack_adapter(const LinearUse& use) {
  const StackLora& lora = *use.lora;
  const std::string in = lora.module + kLoraIn;
  const std::string out = lora.module + kLoraOut;
  const int64_t ranks = shape_of(in)->front();
  const int64_t rank = ranks / lora.experts;
  // The reshaped adapter is shared by all kernels of the stack.
  const auto by_expert = [&](const std::string& parameter, Shape shape) {
    std::string result = parameter + ":experts";
    if (!written_.insert(result).second) return result;
    return reshaped(parameter, std::move(shape), std::move(result));
  };
  std::string down =
      by_expert(parameter(in, {ranks, use.in}), {lora.experts, rank, use.in});
  std::string up = by_expert(parameter(out, {lora.rows, ranks}),
                             {lora.rows, rank, lora.experts});
  if (use.out != lora.rows) {
    up = sliced(up, 0, lora.first_row, lora.first_row + use.out,
                use.result + ":lora_rows");
  }
  const std::string dims = letters(use.x);
  std::string of_down = dims.substr(0, 1) + "ri";
  std::string of_up = "or" + dims.substr(0, 1);
  if (lora.expert >= 0) {
    const int64_t end = lora.expert + 1;
    down = sliced(down, 0, lora.expert, end, use.result + ":lora_A");
    up = sliced(up, 2, lora.expert, end, use.result + ":lora_B");
    down = reshaped(down, {rank, use.in}, use.result + ":lora_A:one");
    up = reshaped(up, {use.out, rank}, use.result + ":lora_B:one");
    of_down = "ri";
    of_up = "or";
  }
  const std::string low =
      op("einsum", {use.x, down}, use.result + ":low",
         {{"equation", dims + "i," + of_down + "->" + dims + "r"}});
  description_.ops.back().part = OpPart::MergedFactor;
  std::string high =
      op("einsum", {low, up}, use.result + ":high",
         {{"equation", dims + "r," + of_up + "->" + dims + "o"}}, use.axes);
  description_.ops.back().part = OpPart::MergedFactor;
  return high;
}

std::string ForwardWriter::times_rows(const std::string& x,
                                      const std::string& matrix,
                                      std::string result, ValueLabels axes) {
  const std::string dims = letters(x);
  return op("einsum", {x, matrix}, std::move(result),
            {{"equation", dims + "i,oi->" + dims + "o"}}, std::move(axes));
}

std::string ForwardWriter::reshaped(const std::string& x, Shape shape,
                                    std::string result, ValueLabels axes) {
  return op("reshape", {x}, std::move(result), {{"shape", std::move(shape)}},
            std::move(axes));
}

std::string ForwardWriter::sliced(const std::string& x, int64_t dim,
                                  int64_t begin, int64_t end,
                                  std::string result) {
  return op(
      "slice", {x}, std::move(result),
      {{"dim", number(dim)}, {"begin", number(begin)}, {"end", number(end)}});
}

std::string ForwardWriter::activation(std::string_view wanted,
                                      const std::string& x, std::string result,
                                      ValueLabels axes) {
  const ActivationName* const known = find_named(kActivations, wanted);
  if (known == nullptr) {
    if (good_) {
      refuse("activation function " + in_backticks(wanted) +
             " is not supported")
          .help("supported: " + joined(all_names(kActivations), ", "));
    }
    return x;
  }
  // Squared ReLU is from So et al., "Primer", 2021.
  if (wanted == "relu2") {
    const std::string positive = op(known->op, {x}, result + ":positive");
    return op("square", {positive}, std::move(result), {}, std::move(axes));
  }
  AttributeValues attributes;
  if (!known->approximate.empty()) {
    attributes.emplace_back("approximate", std::string(known->approximate));
  }
  return op(known->op, {x}, std::move(result), std::move(attributes),
            std::move(axes));
}

void ForwardWriter::in_layer(std::string name, int64_t i, std::string handed_on,
                             const std::function<void()>& write) {
  std::string stack = name.substr(0, name.rfind('.'));
  const bool is_layer =
      name == stack + "." + std::to_string(i) &&
      (stack == kMainStack || stack.ends_with("." + std::string(kMainStack)));
  if (layer_ >= 0 || !is_layer) return write();
  layer_ = static_cast<int>(description_.layers.size());
  description_.layers.push_back({std::move(name), std::move(stack), i});
  handed_on_ = std::move(handed_on);
  write();
  layer_ = -1;
  handed_on_.clear();
}

void ForwardWriter::probe(std::string value) {
  if (contains(description_.probes, value)) return;
  description_.probes.push_back(std::move(value));
  description_.probes_where.emplace_back();
}

void ForwardWriter::output(std::string value) {
  probe(value);
  description_.outputs.push_back(std::move(value));
  description_.outputs_where.emplace_back();
}

Diagnostics::Builder ForwardWriter::refuse(std::string message) {
  good_ = false;
  return diags_.error(Code::UnsupportedConfig, where_, std::move(message));
}

void ForwardWriter::report_missing() {
  auto problem =
      diags_.error(Code::InvalidGraph, where_,
                   "the forward pass of a `" + description_.name + "` needs " +
                       plural(std::ssize(missing_), "parameter") +
                       " that the model does not have");
  for (size_t i = 0; i < missing_.size() && i < kShown; ++i) {
    problem.fact("missing: " + in_backticks(missing_[i]));
  }
  if (missing_.size() > kShown) problem.fact("missing: ..");
  if (input_.manifest.views != nullptr) {
    problem.help(
        "`--scheme` splits these into tensors that the forward pass does not "
        "read; leave it out, with rules for the names of the checkpoint");
    return;
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < input_.manifest.size(); ++i) {
    names.emplace_back(input_.manifest.name(i));
  }
  if (const auto near = nearest(missing_.front(), names)) {
    problem.help("did you mean " + in_backticks(*near) + "?");
  } else {
    problem.help(
        "names must be those of Hugging Face or Flax; a checkpoint with a "
        "missing shard lacks its tensors");
  }
}

// Refuses adapters that no layer has read, unless the weight that they adapt is
// not read either: they do not belong to a linear layer.
void ForwardWriter::check_adapters() {
  std::set<std::string> read;
  for (const DescribedValue& value : description_.parameters) {
    read.insert(folded_name(value.parameter));
  }
  std::set<std::string> stored;
  const auto is_left_out = [&](std::string_view name) {
    if (is_stack_adapter(name)) return false;
    if (stored.empty()) {
      for (size_t i = 0; i < input_.manifest.size(); ++i) {
        stored.insert(folded_name(input_.manifest.name(i)));
      }
    }
    const std::string module(adapted_module(name));
    for (const char* weight : {"base_layer.weight", "weight"}) {
      const std::string base = folded_name(module + weight);
      if (stored.contains(base)) return !read.contains(base);
    }
    return false;
  };
  for (size_t i = 0; i < input_.manifest.size(); ++i) {
    const std::string_view name = input_.manifest.name(i);
    if (adapter_part(name).empty() || read.contains(folded_name(name)) ||
        is_left_out(name)) {
      continue;
    }
    refuse("the adapter " + in_backticks(name) +
           " does not belong to a linear layer of the forward pass");
    return;
  }
}

std::optional<GraphDescription> ForwardWriter::finish() {
  if (!missing_.empty()) {
    report_missing();
  } else if (good_) {
    check_adapters();
  }
  if (!missing_.empty() || !good_) return std::nullopt;
  return std::move(description_);
}

}  // namespace shardplan
