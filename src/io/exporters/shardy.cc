// SPDX-License-Identifier: Apache-2.0
// The resolved table as a StableHLO module whose function takes the parameters:
// names, types and Shardy shardings. It has no body but a return.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "io/exporters/exporters.h"
#include "io/mlir_types.h"
#include "io/stablehlo_text.h"

namespace shardplan {
namespace {

std::string quoted_text(std::string_view text) {
  static constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\' || byte < 0x20 || byte == 0x7F) {
      result += '\\';
      result += kHex[byte >> 4U];
      result += kHex[byte & 0xFU];
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string sharding_text(const Placement& placement) {
  std::string text = "#sdy.sharding<@mesh, [";
  for (size_t dim = 0; dim < placement.type.shape.size(); ++dim) {
    text += dim == 0 ? "{" : ", {";
    std::string axes;
    if (dim < placement.spec.dims.size()) {
      for (const AxisName& axis : placement.spec.dims[dim]) {
        axes += (axes.empty() ? "" : ", ") + quoted_text(axis);
      }
    }
    const bool open =
        placement.requested && dim < placement.asked().dims.size() &&
        placement.asked().dims[dim] == AxisNames{std::string(kUnconstrained)};
    text += axes.empty() && open ? "?" : axes;
    text += "}";
  }
  return text + "]>";
}

std::string type_name(const TensorType& type) {
  std::string text = "tensor<";
  for (const int64_t size : type.shape) text += std::to_string(size) + "x";
  text += mlir_type_name(type.dtype);
  return text + ">";
}

// Why a parameter cannot be an argument, or empty.
std::string problem_of(std::string_view name, const Placement& placement,
                       const Plan& plan) {
  if (mlir_type_name(placement.type.dtype).empty()) {
    return "MLIR has no type for elements of " +
           std::string(dtype_name(placement.type.dtype));
  }
  if (!placement.stored.empty()) return "it is stored otherwise, as declared";
  if (name_of_location(name) != name) {
    return "its name would be read as a path of JAX, `" +
           printable(name_of_location(name)) + "`";
  }
  if (plan.on_indivisible != OnIndivisible::Chunk) return "";
  for (size_t dim = 0; dim < placement.spec.dims.size(); ++dim) {
    const int64_t shards = shard_count(plan.mesh, placement.spec.dims[dim]);
    if (placement.type.shape[dim] % shards != 0) {
      return "dimension " + std::to_string(dim) + " of size " +
             std::to_string(placement.type.shape[dim]) +
             " is cut into chunks of different sizes; Shardy pads them";
    }
  }
  return "";
}

std::optional<std::string> write(const ExportInput& input, Diagnostics& diags) {
  const Plan& plan = input.plan;
  std::string mesh;
  for (const Axis& axis : plan.mesh.axes()) {
    mesh += (mesh.empty() ? "" : ", ") + quoted_text(axis.name) + "=" +
            std::to_string(axis.size);
  }
  std::string text = "module @shardplan {\n  sdy.mesh @mesh = <[" + mesh +
                     "]>\n  func.func public @main(";
  bool good = true;
  for (size_t i = 0; i < input.manifest.size(); ++i) {
    const std::string_view name = input.manifest.name(i);
    const Placement& placement = plan.of(i);
    const std::string problem = problem_of(name, placement, plan);
    if (!problem.empty()) {
      good = false;
      diags
          .error(Code::Inexpressible, {},
                 "`" + printable(name) + "` cannot be an argument in Shardy")
          .fact(problem)
          .help("export to another target, or leave the parameter out")
          .parameters({std::string(name)});
      continue;
    }
    text += i == 0 ? "\n" : ",\n";
    text += "      %arg" + std::to_string(i) + ": " +
            type_name(placement.type) +
            " {sdy.sharding = " + sharding_text(placement) + "} loc(" +
            quoted_text(name) + ")";
  }
  if (!good) return std::nullopt;
  return text + ") {\n    return\n  }\n}\n";
}

}  // namespace

const ExportTarget kShardyTarget = {
    "shardy", "a StableHLO module with Shardy shardings, in MLIR text", write};

}  // namespace shardplan
