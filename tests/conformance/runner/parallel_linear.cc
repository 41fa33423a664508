// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/runner/parallel_linear.h"

#include <algorithm>
#include <array>
#include <string>

#include "resolve/matmul_spec.h"
#include "tests/conformance/runner/graph_run.h"
#include "tests/conformance/runner/vector_case.h"

namespace shardplan {
namespace {

enum class Class : uint8_t { Integer, NarrowFloat, Float, Complex, Blocks };

Class class_of(DType dtype) {
  switch (dtype) {
    case DType::F64:
    case DType::F32:
    case DType::F16:
    case DType::BF16:
      return Class::Float;
    case DType::C64:
    case DType::C128:
      return Class::Complex;
    case DType::F8E4M3:
    case DType::F8E5M2:
    case DType::F8E4M3FN:
    case DType::F8E8M0:
    case DType::F6E2M3:
    case DType::F6E3M2:
    case DType::F4E2M1:
    case DType::F8E4M3FNUZ:
    case DType::F8E5M2FNUZ:
      return Class::NarrowFloat;
    case DType::I64:
    case DType::I32:
    case DType::I16:
    case DType::I8:
    case DType::I4:
    case DType::U64:
    case DType::U32:
    case DType::U16:
    case DType::U8:
    case DType::U4:
    case DType::Bool:
      return Class::Integer;
    default:
      return Class::Blocks;
  }
}

bool is_64_bit(DType dtype) {
  return dtype == DType::F64 || dtype == DType::C128;
}

// Returns the least type above both, any integer for two integers; empty if
// there is none.
//
// REQUIRES: neither is a block type.
std::optional<DType> joined(DType a, DType b) {
  if (a == b) return a;
  const Class of_a = class_of(a);
  const Class of_b = class_of(b);
  if (of_a == Class::Complex || of_b == Class::Complex) {
    return is_64_bit(a) || is_64_bit(b) ? DType::C128 : DType::C64;
  }
  if (of_a != of_b) return of_a < of_b ? b : a;
  if (of_a == Class::Integer) return a;
  if (of_a == Class::NarrowFloat) return std::nullopt;
  return is_64_bit(a) || is_64_bit(b) ? DType::F64 : DType::F32;
}

}  // namespace

std::optional<DType> promoted_dtype(std::span<const DType> operands,
                                    std::optional<DType> wish,
                                    Diagnostics& diags) {
  if (wish) {
    const Class kind = class_of(*wish);
    if (kind != Class::Integer && kind != Class::Blocks) return wish;
    return diags
        .error(Code::InvalidGraph, {},
               "`" + std::string(dtype_name(*wish)) +
                   "` is not a dtype to compute in")
        .help("it must be a float or complex");
  }
  std::optional<DType> result;
  for (const DType dtype : operands) {
    const auto next = result ? joined(*result, dtype) : dtype;
    if (class_of(dtype) == Class::Blocks || !next) {
      return diags.error(Code::InvalidGraph, {},
                         "`" + std::string(dtype_name(dtype)) + "` and " +
                             (result ? "`" + std::string(dtype_name(*result)) +
                                           "` have no common dtype"
                                     : "other dtypes have none in common"));
    }
    result = *next;
  }
  if (!result || class_of(*result) == Class::Integer) return DType::F32;
  return result;
}

std::optional<PartitionSpec> original_collective_output(
    int left_rank, const std::optional<PartitionSpec>& left,
    const std::optional<PartitionSpec>& right, const AxisNames& axes) {
  if (!left || !right) return std::nullopt;
  PartitionSpec spec;
  if (left_rank == 2) {
    if (right->dims.size() < 2) return std::nullopt;
    spec.dims = {right->dims[1], right->dims[0]};
    return spec;
  }
  spec.dims.resize(static_cast<size_t>(std::max(0, left_rank - 1)));
  spec.dims.push_back(axes);
  return spec;
}

}  // namespace shardplan

namespace shardplan::conformance {
// Conformance of EasyDeL: get_matmul_output_sharding, get_output_partition_spec
// and the checks of TensorParallelConfig.

namespace {

std::optional<PartitionSpec> decode_optional(const Json& spec) {
  if (spec.is_null()) return std::nullopt;
  return decode_spec(spec);
}

Answer matmul(const Json& inputs) {
  return {encode_spec(
              original_matmul_output(decode_optional(inputs.at("lhs_pspec")),
                                     decode_optional(inputs.at("rhs_pspec")))),
          std::nullopt, ""};
}

Answer collective(const Json& inputs) {
  const auto rank = inputs.at("lhs_ndim").get<int>();
  const auto spec_of = [&](const char* has, const char* key) {
    return inputs.value(has, true) ? decode_optional(inputs.at(key))
                                   : std::nullopt;
  };
  const auto left = spec_of("lhs_has_sharding", "lhs_spec");
  const auto right = spec_of("rhs_has_sharding", "rhs_spec");
  if (left && right && rank == 2 && right->dims.size() < 2) {
    return {nullptr, Code::SpecLongerThanRank, "the weight has two dimensions"};
  }
  const PartitionSpec axes = decode_spec(Json::array({inputs.at("axis_name")}));
  const auto spec =
      original_collective_output(rank, left, right, axes.dims.front());
  return {spec ? encode_spec(*spec) : Json(), std::nullopt, ""};
}

// Returns the names of a mesh that is given with sizes, as a list, or by one
// name.
Json names_of_mesh(const Json& mesh) {
  if (mesh.is_object()) return mesh.at("axis_names");
  return mesh.is_string() ? Json::array({mesh}) : mesh;
}

// Checks a configuration, which is only done if a multiplication method is
// chosen.
Answer parallel_config(const Json& inputs) {
  const Json method = inputs.value("matmul_method", Json());
  const Json axis = inputs.value("axis_name", Json("tp"));
  const Json names = names_of_mesh(inputs.value("mesh", Json()));
  if (!method.is_null() && names.is_null()) {
    return {nullptr, Code::InvalidMesh, "no mesh"};
  }
  if (!method.is_null() &&
      std::find(names.begin(), names.end(), axis) == names.end()) {
    return {nullptr, Code::UnknownAxis, axis.dump()};
  }
  return {{{"axis_name", axis},
           {"mesh_axis_names", names},
           {"reduce_output", inputs.value("reduce_output", Json(false))},
           {"reduce_scatter_output",
            inputs.value("reduce_scatter_output", Json(false))},
           {"matmul_method", method}},
          std::nullopt,
          ""};
}

bool is_same_matmul_error(const Answer& answer, const Json& error) {
  const auto type = error.at("type").get<std::string>();
  if (type == "IndexError") return answer.refused == Code::SpecLongerThanRank;
  if (type == "AssertionError") return answer.refused == Code::InvalidMesh;
  return type == "ValueError" && answer.refused == Code::UnknownAxis;
}

bool never_refuses(const Answer& /*answer*/, const Json& /*error*/) {
  return false;
}

}  // namespace

const std::vector<Function>& matmul_functions() {
  static const std::vector<Function> kFunctions = {
      {"get_matmul_output_sharding", matmul, never_refuses, nullptr,
       canonical_spec},
      {"get_output_partition_spec", collective, is_same_matmul_error, nullptr,
       canonical_spec},
      {"TensorParallelConfig", parallel_config, is_same_matmul_error},
  };
  return kFunctions;
}

// Conformance of EasyDeL's ParallelLinear and its row- and column-parallel
// kinds, with the shipped graph. A layer without a bias runs with a zero bias.

namespace {

// NumPy's names of the dtypes that a layer may compute in.
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

Answer refused_layer(std::string message) {
  return {nullptr, Code::InvalidGraph, std::move(message)};
}

// The number of outputs of a layer, and the number of layers merged into it.
struct Outputs {
  int64_t features = 0;
  int64_t merged = 1;
};

// Returns empty for a list of one size, which the original turns into an
// invalid shape.
std::optional<Outputs> outputs_of(const Json& out_features) {
  const Json plain = plain_lists(out_features);
  if (!plain.is_array()) return Outputs{plain.get<int64_t>(), 1};
  if (plain.size() < 2) return std::nullopt;
  Outputs outputs{0, static_cast<int64_t>(plain.size())};
  for (const Json& size : plain) outputs.features += size.get<int64_t>();
  return outputs;
}

// Replaces the shipped `scale` of the graph's `linear`.
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

// Returns the kernel that the layer is called with, else its own.
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
  if (!outputs) return refused_layer("a list of one size is not a size");
  if (bias && outputs->merged > 1) {
    return refused_layer("a bias of several sizes has no shape");
  }
  const Json scale = kwargs.value("scale", Json());
  if (scale == "fan_out" && outputs->merged > 1) {
    return refused_layer("`scale: fan_out` of several sizes");
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

// Returns whether the error is of the same kind: shapes, scales and dtypes that
// do not fit are ValueErrors and TypeErrors.
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
