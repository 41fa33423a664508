// SPDX-License-Identifier: Apache-2.0
// `shardplan inspect MODEL`: what is in a manifest, before any rule or mesh.
#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "core/fold.h"
#include "core/manifest.h"
#include "io/load.h"
#include "report/report.h"

namespace shardplan::cli {
namespace {

constexpr size_t kLargest = 10;

std::string_view from_text(FactsFrom from) {
  switch (from) {
    case FactsFrom::Config:
      return "config";
    case FactsFrom::Manifest:
      return "manifest";
    case FactsFrom::Inferred:
      return "names and shapes";
    case FactsFrom::None:
      break;
  }
  return "";
}

Table facts_table(const ModelFacts& facts) {
  std::vector<Row> rows;
  const auto add = [&](const char* name, const std::optional<int64_t>& value) {
    if (value) {
      rows.push_back({std::string(name), Count{*value},
                      std::string(from_text(facts.from))});
    }
  };
  add("layers", facts.layers);
  add("heads", facts.heads);
  add("kv_heads", facts.kv_heads);
  add("head_dim", facts.head_dim);
  add("experts", facts.experts);
  Table table;
  table.id = "facts";
  table.title = "Facts";
  table.columns = {
      {"fact", "fact"}, {"value", "value", Align::Right}, {"from", "from"}};
  table.rows = rows_of(std::move(rows));
  return table;
}

Table dtypes_table(const Manifest& manifest) {
  struct Sum {
    int64_t tensors = 0;
    int64_t elements = 0;
    int64_t bytes = 0;
  };
  std::map<DType, Sum> sums;  // totals fit 63 bits, so do parts of them
  for (size_t i = 0; i < manifest.size(); ++i) {
    const TensorType& type = manifest.type(i);
    Sum& sum = sums[type.dtype];
    ++sum.tensors;
    sum.elements += type.elements();
    sum.bytes += type.bytes();
  }
  std::vector<Row> rows;
  for (const auto& [dtype, sum] : sums) {
    rows.push_back({std::string(dtype_name(dtype)), Count{sum.tensors},
                    Count{sum.elements}, ByteSize{sum.bytes}});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::get<ByteSize>(a[3]).value > std::get<ByteSize>(b[3]).value;
  });
  Table table;
  table.id = "dtypes";
  table.title = "By dtype";
  table.columns = {{"dtype", "dtype"},
                   {"tensors", "tensors", Align::Right},
                   {"elements", "elements", Align::Right},
                   {"bytes", "bytes", Align::Right}};
  table.rows = rows_of(std::move(rows));
  return table;
}

std::vector<Column> parameter_columns() {
  return {{"parameter", "parameter", Align::Left, true},
          {"dtype", "dtype"},
          {"shape", "shape", Align::Right},
          {"elements", "elements", Align::Right},
          {"bytes", "bytes", Align::Right}};
}

Row parameter_row(std::string name, const TensorType& type) {
  return {std::move(name), std::string(dtype_name(type.dtype)),
          Dims{type.shape}, Count{type.elements()}, ByteSize{type.bytes()}};
}

// Layers folded; bytes and elements are those of all that a row stands for.
Table layers_table(const Manifest& manifest) {
  std::vector<uint32_t> kinds(manifest.size());
  for (size_t i = 0; i < kinds.size(); ++i) kinds[i] = manifest.type_number(i);
  const NameOf name_of = [&](size_t i) { return manifest.name(i); };
  const Folding folding = fold(kinds, name_of);
  const std::vector<std::string> labels = class_labels(folding, name_of);
  std::vector<Row> rows;
  for (size_t i = 0; i < folding.classes.size(); ++i) {
    const ParameterClass& group = folding.classes[i];
    const TensorType& type = manifest.type(group.first);
    Row row = {labels[i],
               group.count > 1 ? "×" + std::to_string(group.count) : "",
               std::string(dtype_name(type.dtype)),
               Dims{type.shape},
               Count{type.elements() * group.count},
               ByteSize{type.bytes() * group.count}};
    rows.push_back(std::move(row));
  }
  Table table;
  table.id = "layers";
  table.title = "Parameters";
  table.audience = Audience::People;
  table.columns = parameter_columns();
  table.columns.insert(table.columns.begin() + 1, {"count", "", Align::Right});
  table.rows = rows_of(std::move(rows));
  return table;
}

Table parameters_table(const Manifest& manifest, Audience audience) {
  Table table;
  table.id = "parameters";
  table.title = "Parameters";
  table.audience = audience;
  table.columns = parameter_columns();
  table.rows = [&manifest](const RowSink& sink) {
    for (size_t i = 0; i < manifest.size(); ++i) {
      sink(parameter_row(std::string(manifest.name(i)), manifest.type(i)));
    }
  };
  return table;
}

Table largest_table(const Manifest& manifest) {
  std::vector<size_t> order(manifest.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const size_t count = std::min(kLargest, order.size());
  std::partial_sort(order.begin(),
                    order.begin() + static_cast<std::ptrdiff_t>(count),
                    order.end(), [&](size_t a, size_t b) {
                      const int64_t left = manifest.type(a).bytes();
                      const int64_t right = manifest.type(b).bytes();
                      return left != right ? left > right : a < b;
                    });
  std::vector<Row> rows;
  for (size_t i = 0; i < count; ++i) {
    rows.push_back(parameter_row(std::string(manifest.name(order[i])),
                                 manifest.type(order[i])));
  }
  Table table;
  table.id = "largest";
  table.title = "Largest";
  table.columns = parameter_columns();
  table.rows = rows_of(std::move(rows));
  return table;
}

Table buffers_table(const Manifest& manifest) {
  Table table;
  table.id = "buffers";
  table.title = "Buffers (not parameters, never placed)";
  table.columns = parameter_columns();
  table.columns[0] = {"buffer", "buffer", Align::Left, true};
  table.rows = [&manifest](const RowSink& sink) {
    for (const Manifest::Buffer& buffer : manifest.buffers()) {
      sink(parameter_row(buffer.name, buffer.type));
    }
  };
  return table;
}

std::string headline(const Manifest& manifest) {
  std::string line =
      printable(manifest.title) + ": " +
      plural(static_cast<int64_t>(manifest.size()), "parameter") + ", " +
      short_count_text(manifest.total_elements()) + " elements, " +
      bytes_text(static_cast<double>(manifest.total_bytes())) + " (" +
      manifest.format + ")";
  if (!manifest.buffers().empty()) {
    line += "; " +
            plural(static_cast<int64_t>(manifest.buffers().size()), "buffer") +
            " of " + bytes_text(static_cast<double>(manifest.buffer_bytes())) +
            " beside them";
  }
  return line;
}

}  // namespace

Exit run_inspect(Context& context) {
  context.progress.stage("reading " + context.options.arguments[0]);
  const auto manifest =
      load_manifest(context.options.arguments[0], context.host, context.diags);
  if (!manifest) return Exit::CouldNotRun;
  const std::string& name =
      manifest->model_name.empty() ? manifest->title : manifest->model_name;
  Report report;
  report.command = context.options.command;
  report.summary = {{"name", name},
                    {"format", manifest->format},
                    {"tensors", Count{static_cast<int64_t>(manifest->size())}},
                    {"total_parameters", Count{manifest->total_elements()}},
                    {"total_bytes", ByteSize{manifest->total_bytes()}},
                    {"buffers", Count{manifest->buffer_elements()}},
                    {"buffer_tensors",
                     Count{static_cast<int64_t>(manifest->buffers().size())}},
                    {"buffer_bytes", ByteSize{manifest->buffer_bytes()}}};
  report.headline = {headline(*manifest)};
  if (manifest->facts.from != FactsFrom::None) {
    report.tables.push_back(facts_table(manifest->facts));
  }
  report.tables.push_back(dtypes_table(*manifest));
  if (context.options.expand) {
    report.tables.push_back(parameters_table(*manifest, Audience::Everyone));
  } else {
    report.tables.push_back(layers_table(*manifest));
    report.tables.push_back(parameters_table(*manifest, Audience::Programs));
  }
  report.tables.push_back(largest_table(*manifest));
  if (!manifest->buffers().empty()) {
    report.tables.push_back(buffers_table(*manifest));
  }
  return finish(context, std::move(report));
}

}  // namespace shardplan::cli
