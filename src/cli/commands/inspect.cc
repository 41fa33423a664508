// SPDX-License-Identifier: Apache-2.0
// `shardplan inspect MODEL`: the contents of a manifest, before any rule or
// mesh; with --shard, which device holds which slice of one parameter.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "base/words.h"
#include "cli/commands.h"
#include "cli/flag_values.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/views/columns.h"
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

std::string facts_from_text(FactsFrom from) {
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
  layers.erase(0);
  const std::string text = joined_of(layers, ", ", [](const auto& entry) {
    return (entry.first < 0 ? "unknown" : std::to_string(entry.first)) +
           " on " + std::to_string(entry.second);
  });
  return (text.empty() ? "none on any" : text) + " of " +
         plural(std::ssize(windows), "layer");
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
    const auto entry =
        std::ranges::find(layers, text, &decltype(layers)::value_type::first);
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
  return joined_of(layers, ", ",
                   [](const auto& entry) {
                     return entry.first + " on " + std::to_string(entry.second);
                   }) +
         " of " + plural(std::ssize(state.layers), "layer");
}

// Returns empty if no fact is known.
std::optional<Table> facts_table(const Manifest& manifest) {
  const Facts& facts = manifest.facts;
  const std::string from = facts_from_text(facts.from);
  std::vector<Row> rows;
  for (const FactField& field : kFactFields) {
    const std::optional<int64_t>& value = facts.*field.member;
    if (value) rows.push_back({std::string(field.name), Count{*value}, from});
  }
  std::vector<int64_t> windows = facts.windows;
  // The state of layers without a window is listed below.
  if (!facts.state.layers.empty()) {
    std::ranges::replace(windows, kUnknownWindow, int64_t{0});
    if (std::ranges::count(windows, 0) == std::ssize(windows)) windows.clear();
  }
  if (!windows.empty()) {
    rows.push_back({"windows", windows_text(windows), from});
  }
  if (std::string state = layer_state_text(facts.state); !state.empty()) {
    rows.push_back({"state", std::move(state), from});
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
  for (const auto& [dtype, sum] : sums) {
    rows.push_back({std::string(dtype_name(dtype)), Count{sum.tensors},
                    Count{sum.elements}, ByteSize{sum.bytes}});
  }
  std::ranges::stable_sort(rows, std::greater<>(), [](const Row& row) {
    return std::get<ByteSize>(row[3]).value;
  });
  return {"dtypes",
          "By dtype",
          {left("dtype"), right("tensors"), right("elements"), right("bytes")},
          rows_of(std::move(rows))};
}

// `what` is "parameter" or "buffer".
std::vector<Column> tensor_columns(const char* what) {
  return {elastic(what), left("dtype"), left("shape"), right("elements"),
          right("bytes")};
}

Row tensor_row(std::string name, const TensorType& type) {
  return {std::move(name), std::string(dtype_name(type.dtype)),
          Dims{type.shape}, Count{type.elements()}, ByteSize{type.bytes()}};
}

using TypeOf = std::function<const TensorType&(size_t)>;

// Returns tensors with layers folded; bytes and elements are totals of all
// tensors that a row represents.
Table inspect_folded_table(std::string id, std::string title, const char* what,
                           const Folding& folding,
                           const std::vector<std::string>& labels,
                           const TypeOf& type_of) {
  std::vector<Row> rows;
  for (size_t i = 0; i < labels.size(); ++i) {
    const ParameterClass& group = folding.classes[i];
    const TensorType& type = type_of(group.first);
    rows.push_back({labels[i],
                    group.count > 1 ? "×" + std::to_string(group.count) : "",
                    std::string(dtype_name(type.dtype)), Dims{type.shape},
                    Count{type.elements() * group.count},
                    ByteSize{type.bytes() * group.count}});
  }
  std::vector<Column> columns = tensor_columns(what);
  columns.insert(columns.begin() + 1, right("count", ""));
  return {std::move(id), std::move(title), std::move(columns),
          rows_of(std::move(rows)), Audience::People};
}

Table parameters_table(const Manifest& manifest, Audience audience) {
  return {"parameters", "Parameters", tensor_columns("parameter"),
          [&manifest](const RowSink& sink) {
            for (size_t i = 0; i < manifest.size(); ++i) {
              sink(tensor_row(std::string(manifest.name(i)), manifest.type(i)));
            }
          },
          audience};
}

// Returns the largest of `count` tensors; of equal ones, the first.
Table largest_table(size_t count, const NameOf& name_of, const TypeOf& type_of,
                    Audience audience) {
  std::vector<std::pair<int64_t, size_t>> order;  // -bytes and number
  order.reserve(count);
  for (size_t i = 0; i < count; ++i) order.emplace_back(-type_of(i).bytes(), i);
  const size_t shown = std::min(kLargest, count);
  std::ranges::partial_sort(order,
                            order.begin() + static_cast<std::ptrdiff_t>(shown));
  std::vector<Row> rows;
  for (const auto& [bytes, i] : std::span(order).first(shown)) {
    rows.push_back(tensor_row(std::string(name_of(i)), type_of(i)));
  }
  return {"largest", "Largest tensors", tensor_columns("parameter"),
          rows_of(std::move(rows)), audience};
}

void add_buffer_tables(const Manifest& manifest, bool expand, Report& report) {
  const std::vector<Manifest::Buffer>& buffers = manifest.buffers();
  if (buffers.empty()) return;
  const char* const title = "Buffers (not parameters, never sharded)";
  if (!expand) {
    std::map<std::pair<DType, Shape>, uint32_t> numbers;
    std::vector<uint32_t> kinds;
    for (const Manifest::Buffer& buffer : buffers) {
      const auto next = static_cast<uint32_t>(numbers.size());
      const auto key = std::pair(buffer.type.dtype, buffer.type.shape);
      kinds.push_back(numbers.emplace(key, next).first->second);
    }
    const NameOf name_of = [&](size_t i) -> std::string_view {
      return buffers[i].name;
    };
    const Folding folding = fold(kinds, name_of);
    report.tables.push_back(inspect_folded_table(
        "folded_buffers", title, "buffer", folding,
        class_labels(folding, name_of),
        [&](size_t i) -> const TensorType& { return buffers[i].type; }));
  }
  report.tables.push_back({"buffers", title, tensor_columns("buffer"),
                           [&buffers](const RowSink& sink) {
                             for (const Manifest::Buffer& buffer : buffers) {
                               sink(tensor_row(buffer.name, buffer.type));
                             }
                           },
                           expand ? Audience::Everyone : Audience::Programs});
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

std::vector<std::pair<std::string, Cell>> inspect_summary(
    const Manifest& manifest) {
  const std::string& name =
      manifest.model_name.empty() ? manifest.title : manifest.model_name;
  return {{"name", name},
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
  const NameOf name_of = [&](size_t i) { return manifest.name(i); };
  const TypeOf type_of = [&](size_t i) -> const TensorType& {
    return manifest.type(i);
  };
  const Folding folding = expand ? Folding() : fold_by_type(manifest);
  const std::vector<std::string> labels = class_labels(folding, name_of);
  const Audience each = expand ? Audience::Everyone : Audience::Programs;
  if (auto facts = facts_table(manifest)) tables.push_back(*std::move(facts));
  tables.push_back(dtypes_table(manifest));
  if (!expand) {
    tables.push_back(inspect_folded_table("layers", "Parameters", "parameter",
                                          folding, labels, type_of));
  }
  tables.push_back(parameters_table(manifest, each));
  if (!expand) {
    // Equal layers are one row, and sizes are those of one tensor.
    tables.push_back(largest_table(
        labels.size(), [&](size_t i) -> std::string_view { return labels[i]; },
        [&](size_t i) -> const TensorType& {
          return manifest.type(folding.classes[i].first);
        },
        Audience::People));
  }
  tables.push_back(largest_table(manifest.size(), name_of, type_of, each));
  add_buffer_tables(manifest, expand, report);
}

// Reports which slice of one parameter each device holds.
Exit run_shard(Context& context) {
  const auto session = open_session(context);
  if (!session) return Exit::CouldNotRun;
  auto report = shard_report(context, *session, *context.options.inspect.shard);
  if (!report) return Exit::CouldNotRun;
  auto summary = inspect_summary(session->model.manifest);
  append(summary, std::move(report->summary));
  report->summary = std::move(summary);
  return finish(context, std::move(report));
}

}  // namespace

Exit run_inspect(Context& context) {
  if (context.options.inspect.shard) return run_shard(context);
  const auto model = read_model(context.options.planning, context.host,
                                context.diags, context.progress);
  if (!model) return Exit::CouldNotRun;
  const Manifest& manifest = model->manifest;
  Report report;
  report.headline = {inspect_headline(manifest, context.options.output.exact)};
  report.summary = inspect_summary(manifest);
  add_inspect_tables(manifest, context.options.output.expand, report);
  return finish(context, std::move(report));
}

std::vector<Flag> inspect_flags() {
  return {
      {"shard", Takes::Text, "NAME", "Inputs",
       "draw which device holds which slice of a parameter; needs rules and a "
       "mesh, or a plan",
       "inspect", [](auto& s, auto& o, auto&) { o.inspect.shard = s.value; },
       false, false},
  };
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
