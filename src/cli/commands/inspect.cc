// SPDX-License-Identifier: Apache-2.0
// `shardplan inspect MODEL`: the contents of a manifest, before any rule or
// mesh; with --shard, which device holds which slice of one parameter.
#include "cli/commands/inspect.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/flag_values.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/views/parameter_report.h"
#include "cli/views/tables.h"
#include "core/fold.h"
#include "core/manifest.h"
#include "model/quant_scales.h"
#include "report/report.h"
#include "session/session.h"

namespace shardplan::cli {
namespace {

constexpr size_t kLargest = 10;

std::string_view facts_from_text(FactsFrom from) {
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

// Returns "4096 on 21 of 42 layers".
std::string windows_text(const std::vector<int64_t>& windows) {
  std::map<int64_t, int64_t> layers;
  for (const int64_t window : windows) ++layers[window];
  std::string text;
  for (const auto& [window, count] : layers) {
    if (window == 0) continue;
    if (!text.empty()) text += ", ";
    text += (window < 0 ? "unknown" : std::to_string(window)) + " on " +
            std::to_string(count);
  }
  if (text.empty()) text = "none on any";
  return text + " of " + plural(std::ssize(windows), "layer");
}

// Returns which state the layers cache: "kv on 12, conv+delta on 36 of 48
// layers". Returns "" if all layers cache keys and values, or a latent, which
// heads and windows already describe.
std::string layer_state_text(const LayerStates& state) {
  std::vector<std::pair<std::string, int64_t>> layers;
  for (const uint32_t number : state.layers) {
    const LayerState& kind = state.kinds[number];
    std::vector<std::string> names;
    for (const CachedTensor& cached : kind.cached) {
      if (names.empty() || names.back() != cached.name) {
        names.push_back(cached.name);
      }
    }
    std::string text = names.empty() ? "nothing" : joined(names, "+");
    if (!kind.known) text = "unknown";
    const auto entry = std::ranges::find_if(
        layers, [&](const auto& each) { return each.first == text; });
    if (entry == layers.end()) {
      layers.emplace_back(std::move(text), 1);
    } else {
      ++entry->second;
    }
  }
  if (layers.empty() || (layers.size() == 1 && (layers[0].first == "kv" ||
                                                layers[0].first == "latent"))) {
    return "";
  }
  std::string text;
  for (const auto& [names, count] : layers) {
    text += (text.empty() ? "" : ", ") + names + " on " + std::to_string(count);
  }
  return text + " of " + plural(std::ssize(state.layers), "layer");
}

// Returns empty if no fact is known.
std::optional<Table> facts_table(const Manifest& manifest) {
  const Facts& facts = manifest.facts;
  std::vector<Row> rows;
  const auto add = [&](std::string_view name,
                       const std::optional<int64_t>& value) {
    if (value) {
      rows.push_back({std::string(name), Count{*value},
                      std::string(facts_from_text(facts.from))});
    }
  };
  for (const FactField& field : kFactFields) {
    add(field.name, facts.*field.member);
  }
  std::vector<int64_t> windows = facts.windows;
  // The state of layers without a window is listed below.
  if (!facts.state.layers.empty()) {
    std::ranges::replace(windows, kUnknownWindow, int64_t{0});
    const bool none =
        std::ranges::all_of(windows, [](int64_t w) { return w == 0; });
    if (none) windows.clear();
  }
  if (!windows.empty()) {
    rows.push_back({"windows", windows_text(windows),
                    std::string(facts_from_text(facts.from))});
  }
  if (std::string state = layer_state_text(facts.state); !state.empty()) {
    rows.push_back(
        {"state", std::move(state), std::string(facts_from_text(facts.from))});
  }
  if (const auto method = quantisation_by_names(manifest); !method.empty()) {
    rows.push_back({"quantised", std::string(method), "names"});
  }
  if (rows.empty()) return std::nullopt;
  return Table{"facts",
               "Facts",
               {left("fact"), right("value"), left("from")},
               rows_of(std::move(rows))};
}

Table dtypes_table(const Manifest& manifest) {
  struct Sum {
    int64_t tensors = 0;
    int64_t elements = 0;
    int64_t bytes = 0;
  };
  std::map<DType, Sum> sums;  // the totals fit 63 bits, and so do these parts
  for (size_t i = 0; i < manifest.size(); ++i) {
    const TensorType& type = manifest.type(i);
    Sum& sum = sums[type.dtype];
    ++sum.tensors;
    sum.elements += type.elements();
    sum.bytes += type.bytes();
  }
  std::vector<Row> rows;
  rows.reserve(sums.size());
  for (const auto& [dtype, sum] : sums) {
    rows.push_back({std::string(dtype_name(dtype)), Count{sum.tensors},
                    Count{sum.elements}, ByteSize{sum.bytes}});
  }
  std::ranges::stable_sort(rows, [](const Row& a, const Row& b) {
    return std::get<ByteSize>(a[3]).value > std::get<ByteSize>(b[3]).value;
  });
  return {"dtypes",
          "By dtype",
          {left("dtype"), right("tensors"), right("elements"), right("bytes")},
          rows_of(std::move(rows))};
}

std::vector<Column> parameter_columns() {
  return {{"parameter", "parameter", Align::Left, true},
          left("dtype"),
          left("shape"),
          right("elements"),
          right("bytes")};
}

Row parameter_row(std::string name, const TensorType& type) {
  return {std::move(name), std::string(dtype_name(type.dtype)),
          Dims{type.shape}, Count{type.elements()}, ByteSize{type.bytes()}};
}

struct Layers {
  Folding folding;
  std::vector<std::string> labels;
};

Layers labelled(Folding folding, const NameOf& name_of) {
  std::vector<std::string> labels = class_labels(folding, name_of);
  return {std::move(folding), std::move(labels)};
}

Layers fold_layers(const Manifest& manifest) {
  return labelled(fold_by_type(manifest),
                  [&](size_t i) { return manifest.name(i); });
}

Layers fold_buffers(const std::vector<Manifest::Buffer>& buffers) {
  std::map<std::pair<DType, Shape>, uint32_t> numbers;
  std::vector<uint32_t> kinds;
  for (const Manifest::Buffer& buffer : buffers) {
    const auto next = static_cast<uint32_t>(numbers.size());
    const auto key = std::pair(buffer.type.dtype, buffer.type.shape);
    kinds.push_back(numbers.emplace(key, next).first->second);
  }
  const auto name_of = [&](size_t i) -> std::string_view {
    return buffers[i].name;
  };
  return labelled(fold(kinds, name_of), name_of);
}

// Returns the parameters with layers folded; bytes and elements are totals of
// all parameters that a row represents.
Table inspect_folded_table(
    const Layers& layers,
    const std::function<const TensorType&(size_t)>& type_of) {
  std::vector<Row> rows;
  for (size_t i = 0; i < layers.labels.size(); ++i) {
    const ParameterClass& group = layers.folding.classes[i];
    const TensorType& type = type_of(group.first);
    Row row = {layers.labels[i],
               group.count > 1 ? "×" + std::to_string(group.count) : "",
               std::string(dtype_name(type.dtype)),
               Dims{type.shape},
               Count{type.elements() * group.count},
               ByteSize{type.bytes() * group.count}};
    rows.push_back(std::move(row));
  }
  Table table;
  table.audience = Audience::People;
  table.columns = parameter_columns();
  table.columns.insert(table.columns.begin() + 1, right("count", ""));
  table.rows = rows_of(std::move(rows));
  return table;
}

Table layers_table(const Manifest& manifest, const Layers& layers) {
  Table table = inspect_folded_table(
      layers, [&](size_t i) -> const TensorType& { return manifest.type(i); });
  table.id = "layers";
  table.title = "Parameters";
  return table;
}

Table parameters_table(const Manifest& manifest, Audience audience) {
  return {
      "parameters", "Parameters", parameter_columns(),
      [&manifest](const RowSink& sink) {
        for (size_t i = 0; i < manifest.size(); ++i) {
          sink(parameter_row(std::string(manifest.name(i)), manifest.type(i)));
        }
      },
      audience};
}

// Returns the kLargest of `size` elements by `bytes`; ties keep their order.
std::vector<size_t> largest_of(size_t size,
                               const std::function<int64_t(size_t)>& bytes) {
  std::vector<size_t> order(size);
  std::iota(order.begin(), order.end(), size_t{0});
  const size_t count = std::min(kLargest, size);
  std::partial_sort(order.begin(),
                    order.begin() + static_cast<std::ptrdiff_t>(count),
                    order.end(), [&](size_t a, size_t b) {
                      const int64_t left = bytes(a);
                      const int64_t right = bytes(b);
                      return left != right ? left > right : a < b;
                    });
  order.resize(count);
  return order;
}

Table largest_table(std::vector<Row> rows, Audience audience) {
  return {"largest", "Largest tensors", parameter_columns(),
          rows_of(std::move(rows)), audience};
}

Table largest_tensors(const Manifest& manifest, Audience audience) {
  std::vector<Row> rows;
  const auto bytes = [&](size_t i) { return manifest.type(i).bytes(); };
  for (size_t i : largest_of(manifest.size(), bytes)) {
    rows.push_back(
        parameter_row(std::string(manifest.name(i)), manifest.type(i)));
  }
  return largest_table(std::move(rows), audience);
}

// For people, equal layers are one row, and sizes are those of one tensor.
Table largest_classes(const Manifest& manifest, const Layers& layers) {
  std::vector<Row> rows;
  const auto type = [&](size_t i) -> const TensorType& {
    return manifest.type(layers.folding.classes[i].first);
  };
  const auto bytes = [&](size_t i) { return type(i).bytes(); };
  for (size_t i : largest_of(layers.labels.size(), bytes)) {
    rows.push_back(parameter_row(layers.labels[i], type(i)));
  }
  return largest_table(std::move(rows), Audience::People);
}

constexpr const char* kBuffersTitle = "Buffers (not parameters, never sharded)";

Table folded_buffers(const Manifest& manifest) {
  const std::vector<Manifest::Buffer>& buffers = manifest.buffers();
  Table table = inspect_folded_table(
      fold_buffers(buffers),
      [&](size_t i) -> const TensorType& { return buffers[i].type; });
  table.id = "folded_buffers";
  table.title = kBuffersTitle;
  table.columns[0] = {"buffer", "buffer", Align::Left, true};
  return table;
}

Table buffers_table(const Manifest& manifest, Audience audience) {
  Table table = {"buffers", kBuffersTitle, parameter_columns()};
  table.audience = audience;
  table.columns[0] = {"buffer", "buffer", Align::Left, true};
  table.rows = [&manifest](const RowSink& sink) {
    for (const Manifest::Buffer& buffer : manifest.buffers()) {
      sink(parameter_row(buffer.name, buffer.type));
    }
  };
  return table;
}

std::string inspect_headline(const Manifest& manifest, bool exact) {
  const int64_t elements = manifest.total_elements();
  std::string line =
      manifest.title + ": " + plural(std::ssize(manifest), "parameter") + ", " +
      (exact ? std::to_string(elements) : short_count_text(elements)) +
      " elements, " + size_text(manifest.total_bytes(), exact) + " (" +
      manifest.format + ")";
  if (!manifest.buffers().empty()) {
    line += "; plus " + plural(std::ssize(manifest.buffers()), "buffer") +
            " of " + size_text(manifest.buffer_bytes(), exact);
  }
  return line;
}

void add_inspect_summary(const Manifest& manifest, Report& report) {
  const std::string& name =
      manifest.model_name.empty() ? manifest.title : manifest.model_name;
  report.summary = {{"name", name},
                    {"format", manifest.format},
                    {"tensors", Count{std::ssize(manifest)}},
                    {"total_parameters", Count{manifest.total_elements()}},
                    {"total_bytes", ByteSize{manifest.total_bytes()}},
                    {"buffers", Count{manifest.buffer_elements()}},
                    {"buffer_tensors", Count{std::ssize(manifest.buffers())}},
                    {"buffer_bytes", ByteSize{manifest.buffer_bytes()}}};
}

void add_inspect_tables(const Manifest& manifest, bool expand, Report& report) {
  std::vector<Table>& tables = report.tables;
  if (auto facts = facts_table(manifest)) tables.push_back(*std::move(facts));
  tables.push_back(dtypes_table(manifest));
  if (expand) {
    tables.push_back(parameters_table(manifest, Audience::Everyone));
    tables.push_back(largest_tensors(manifest, Audience::Everyone));
  } else {
    const Layers layers = fold_layers(manifest);
    tables.push_back(layers_table(manifest, layers));
    tables.push_back(parameters_table(manifest, Audience::Programs));
    tables.push_back(largest_classes(manifest, layers));
    tables.push_back(largest_tensors(manifest, Audience::Programs));
  }
  if (manifest.buffers().empty()) return;
  if (!expand) tables.push_back(folded_buffers(manifest));
  tables.push_back(buffers_table(
      manifest, expand ? Audience::Everyone : Audience::Programs));
}

// Reports which slice of one parameter each device holds.
Exit run_shard(Context& context) {
  const auto session =
      open_session(context.options.planning, context.options.memory,
                   context.host, context.diags, context.progress);
  if (!session) return Exit::CouldNotRun;
  auto report = shard_report(context, *session, *context.options.inspect.shard);
  if (!report) return Exit::CouldNotRun;
  Report whole;
  add_inspect_summary(session->model.manifest, whole);
  report->summary.insert(report->summary.begin(), whole.summary.begin(),
                         whole.summary.end());
  return finish(context, *std::move(report));
}

}  // namespace

Exit run_inspect(Context& context) {
  if (context.options.inspect.shard) return run_shard(context);
  const auto model = read_model(context.options.planning, context.host,
                                context.diags, context.progress);
  if (!model) return Exit::CouldNotRun;
  const Manifest& manifest = model->manifest;
  Report report;
  report.command = context.options.command;
  report.headline = {inspect_headline(manifest, context.options.output.exact)};
  add_inspect_summary(manifest, report);
  add_inspect_tables(manifest, context.options.output.expand, report);
  return finish(context, std::move(report));
}

const std::vector<Flag>& inspect_flags() {
  static const std::vector<Flag> kFlags = {
      {"shard", Takes::Text, "NAME", "Inputs",
       "draw which device holds which slice of a parameter; needs rules and a "
       "mesh, or a plan",
       "inspect", [](auto& s, auto& o, auto&) { o.inspect.shard = s.value; },
       false, false},
  };
  return kFlags;
}

void validate_inspect(std::span<const Setting> given, const Options& options,
                      Diagnostics& diags) {
  if (options.inspect.shard) return;
  for (const Setting& setting : given) {
    if (!makes_plan(*setting.flag)) continue;
    diags
        .error(Code::Usage, {},
               title_of(setting) +
                   " does not apply to `inspect` without "
                   "`--shard`")
        .help("name a parameter with `--shard` to see where its shards are");
  }
}

}  // namespace shardplan::cli
