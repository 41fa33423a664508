// SPDX-License-Identifier: Apache-2.0
// EasyDeL: ParallelLinear and its row and column parallel kinds, by the shipped
// graph. A layer without a bias runs with a bias of zeros.
#include <algorithm>
#include <array>
#include <string>

#include "conformance/graph_run.h"
#include "graph/promotion.h"

namespace shardplan::conformance {
namespace {

// NumPy's names of what a layer may compute in.
constexpr std::array<std::pair<DType, const char*>, 6> kNames = {{
    {DType::F64, "float64"},
    {DType::F32, "float32"},
    {DType::F16, "float16"},
    {DType::BF16, "bfloat16"},
    {DType::C64, "complex64"},
    {DType::C128, "complex128"},
}};

Json encode_dtype(DType dtype) {
  const auto found =
      std::find_if(kNames.begin(), kNames.end(),
                   [&](const auto& name) { return name.first == dtype; });
  return found == kNames.end() ? Json(dtype_name(dtype)) : Json(found->second);
}

std::optional<DType> decode_dtype(const Json& name) {
  return name.is_null() ? std::nullopt : find_dtype(name.get<std::string>());
}

Answer refused(std::string message) {
  return {nullptr, Code::InvalidGraph, std::move(message)};
}

// How many outputs a layer has, and of how many layers they are merged.
struct Outputs {
  int64_t features = 0;
  int64_t merged = 1;
};

// Empty for a list of one, of which the original makes a shape that is none.
std::optional<Outputs> outputs_of(const Json& out_features) {
  const Json plain = plain_lists(out_features);
  if (!plain.is_array()) return Outputs{plain.get<int64_t>(), 1};
  if (plain.size() < 2) return std::nullopt;
  Outputs outputs{0, static_cast<int64_t>(plain.size())};
  for (const Json& size : plain) outputs.features += size.get<int64_t>();
  return outputs;
}

// `scale` of the graph's `linear`, in place of the one that it ships with.
void set_scale(const Json& scale, GraphDescription& graph) {
  for (DescribedOp& op : graph.ops) {
    if (op.op != "linear") continue;
    op.attributes.clear();
    if (scale.is_null()) continue;
    DescribedAttribute attribute;
    attribute.name = "scale";
    if (scale.is_number()) {
      attribute.value = scale.get<double>();
    } else {
      attribute.value = scale.get<std::string>();
    }
    op.attributes.push_back(std::move(attribute));
  }
}

// The layer's own kernel, or the one that it is called with.
Tensor kernel_of(const Json& inputs, const Shape& shape) {
  const Json own = inputs.value("kernel", Json());
  const Json given = inputs.value("w", Json());
  if (given.is_array()) return decode_tensor(given);
  if (given == "ones") {
    const auto count = static_cast<size_t>(element_count(shape).value_or(0));
    return make_tensor(Element::F32, shape, std::vector<double>(count, 1));
  }
  return own.is_null() ? make_tensor(Element::F32, shape)
                       : decode_tensor(own, shape);
}

std::optional<DType> computed_dtype(const Json& inputs, Diagnostics& diags) {
  const Json& kwargs = inputs.at("kwargs");
  const auto x = decode_dtype(inputs.value("x_dtype", Json("float32")));
  const auto held = decode_dtype(kwargs.value("param_dtype", Json("float32")));
  const std::array<DType, 2> operands = {x.value_or(DType::F32),
                                         held.value_or(DType::F32)};
  return promoted_dtype(operands, decode_dtype(kwargs.value("dtype", Json())),
                        diags);
}

Answer parallel_linear(const Json& inputs) {
  const Json& kwargs = inputs.at("kwargs");
  const auto outputs = outputs_of(kwargs.at("out_features"));
  const bool bias = kwargs.value("use_bias", true);
  if (!outputs) return refused("a list of one size is no size");
  if (bias && outputs->merged > 1) {
    return refused("a bias of several sizes has no shape");
  }
  const Json scale = kwargs.value("scale", Json());
  if (scale == "fan_out" && outputs->merged > 1) {
    return refused("`scale: fan_out` of several sizes");
  }
  Diagnostics diags;
  const auto dtype = computed_dtype(inputs, diags);
  if (!dtype) return refusal(diags);
  const Shape kernel = {kwargs.at("in_features").get<int64_t>(),
                        outputs->features};
  auto graph = shipped_graph("parallel_linear",
                             {{"in", kernel[0]}, {"out", kernel[1]}}, diags);
  if (!graph) return refusal(diags);
  set_scale(scale, *graph);
  DescribedValue& x = graph->inputs.front();
  x.shape = inputs.at("x_shape").get<Shape>();
  x.axes.clear();
  const Json held = inputs.value("bias", Json());
  std::map<std::string, Tensor> given;
  given["x"] = decode_tensor(inputs.at("x"), *x.shape);
  given["kernel"] = kernel_of(inputs, kernel);
  given["bias"] = held.is_null() ? make_tensor(Element::F32, {kernel[1]})
                                 : decode_tensor(held);
  graph->parameters.front().shape = given["kernel"].shape;
  const auto results = run_on_devices(*graph, given, 1, diags);
  if (!results) return refusal(diags);
  const auto name = inputs.value("class", std::string("ParallelLinear"));
  return {{{"y", encode_tensor(results->front())},
           {"y_dtype", encode_dtype(*dtype)},
           {"tp_merged", outputs->merged},
           {"direction", name == "RowParallelLinear"      ? Json("row")
                         : name == "ColumnParallelLinear" ? Json("column")
                                                          : Json()}},
          std::nullopt,
          ""};
}

// Shapes, scales and dtypes that do not fit are ValueErrors and TypeErrors.
bool is_same_linear_error(const Answer& answer, const Json& error) {
  const auto type = error.at("type").get<std::string>();
  return answer.refused == Code::InvalidGraph &&
         (type == "ValueError" || type.ends_with("TypeError"));
}

}  // namespace

const std::vector<Function>& parallel_linear_functions() {
  static const std::vector<Function> kFunctions = {
      {"ParallelLinear", parallel_linear, is_same_linear_error, nullptr,
       nullptr, agree_within_4_ulps},
      {"RowParallelLinear", parallel_linear, is_same_linear_error, nullptr,
       nullptr, agree_within_4_ulps},
      {"ColumnParallelLinear", parallel_linear, is_same_linear_error, nullptr,
       nullptr, agree_within_4_ulps},
  };
  return kFunctions;
}

}  // namespace shardplan::conformance
