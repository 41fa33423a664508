// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/runner/graph_run.h"

#include "base/checked.h"
#include "graph/build.h"
#include "io/graph/graph_file.h"
#include "sim/execute.h"
#include "spmd/partition.h"

namespace shardplan::conformance {
namespace {

constexpr Arithmetic kArithmetic = Arithmetic::F32;

void append_numbers(const Json& nested, std::vector<double>& numbers) {
  if (nested.is_number()) {
    numbers.push_back(nested.get<double>());
    return;
  }
  for (const Json& item : nested) append_numbers(item, numbers);
}

Json encode_part(const std::vector<double>& numbers, const Shape& shape,
                 size_t dim, size_t& at) {
  if (dim == shape.size()) return numbers[at++];
  Json list = Json::array();
  for (int64_t i = 0; i < shape[dim]; ++i) {
    list.push_back(encode_part(numbers, shape, dim + 1, at));
  }
  return list;
}

// Returns layouts in which inputs, parameters and constraints are placed
// according to their specs.
WantedLayouts declared_layouts(const Graph& graph, const Mesh& mesh) {
  WantedLayouts layouts;
  for (const Value& value : graph.values) {
    const bool given = value.kind != Value::Kind::Result;
    layouts.emplace_back();
    if (!given && !value.spec) continue;
    layouts.back() = layout_of(mesh, value.spec.value_or(PartitionSpec()),
                               value.shape.size());
  }
  return layouts;
}

}  // namespace

Tensor decode_tensor(const Json& nested) {
  Shape shape;
  for (const Json* item = &nested; item->is_array(); item = &item->front()) {
    shape.push_back(static_cast<int64_t>(item->size()));
    if (item->empty()) break;
  }
  return decode_tensor(nested, shape);
}

Tensor decode_tensor(const Json& nested, const Shape& shape) {
  std::vector<double> numbers;
  append_numbers(nested, numbers);
  if (element_count(shape) != static_cast<int64_t>(numbers.size())) {
    throw InternalError("a list that is not an array of its shape");
  }
  return make_tensor(element_of(kArithmetic), shape, numbers);
}

Json encode_tensor(const Tensor& tensor) {
  size_t at = 0;
  return encode_part(values_of(tensor), tensor.shape, 0, at);
}

Tensor stacked(const std::vector<Tensor>& tensors) {
  Shape shape = tensors.front().shape;
  shape.insert(shape.begin(), static_cast<int64_t>(tensors.size()));
  Tensor whole = make_tensor(tensors.front().element, shape);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    copy_into(reshaped(slice(whole, 0, row, row + 1), tensors[i].shape),
              tensors[i]);
  }
  return whole;
}

std::optional<GraphDescription> shipped_graph(const std::string& name,
                                              const DimSizes& dims,
                                              Diagnostics& diags) {
  SourcePtr source = find_shipped_graph(name, diags);
  if (source == nullptr) return std::nullopt;
  return read_graph(std::move(source), dims, diags);
}

std::optional<std::vector<Tensor>> run_on_devices(
    const GraphDescription& description,
    const std::map<std::string, Tensor>& given, int64_t devices,
    Diagnostics& diags, Overlap overlap) {
  const auto graph = build_graph(description, {}, diags);
  if (!graph) return std::nullopt;
  const auto mesh = make_mesh({{"tp", devices, {}, {}, {}}}, {}, {}, diags);
  if (!mesh) return std::nullopt;
  PerValue<Tensor> values(graph->values.size());
  for (const ValueId v : values.ids()) {
    const Value& value = graph->values[v];
    if (value.kind != Value::Kind::Result) values[v] = given.at(value.name);
  }
  const Program program =
      partition(*graph, *mesh, declared_layouts(*graph, *mesh), {overlap});
  ExecuteOptions options;
  options.arithmetic = kArithmetic;
  const Execution run = execute(program, values, options);
  std::vector<Tensor> parts;
  for (const Tensor& part : run.registers[program.outputs.front()]) {
    parts.push_back(contiguous(part));
  }
  return parts;
}

}  // namespace shardplan::conformance
