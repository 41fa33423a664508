// SPDX-License-Identifier: Apache-2.0
#include "io/graph/graph_file.h"

#include <utility>

#include "base/shipped.h"
#include "base/text.h"
#include "base/words.h"
#include "io/formats.h"
#include "io/graph/graph_reader.h"
#include "io/load.h"
#include "syntax/document.h"

namespace shardplan {
namespace {

bool looks_like_json_graph(std::string_view head) {
  if (!json_value_of(head, "\"graph\"").starts_with('"')) return false;
  if (json_value_of(head, "\"ops\"").starts_with('[')) return true;
  // Parameters may fill the head before any operation.
  return head.size() == kHeadBytes &&
         (json_value_of(head, "\"parameters\"").starts_with('{') ||
          json_value_of(head, "\"inputs\"").starts_with('{'));
}

bool has_key(std::string_view line, std::string_view key) {
  return line.starts_with(key) && line.substr(key.size()).starts_with(':');
}

bool looks_like_yaml_graph(std::string_view head) {
  bool named = false;
  bool has_parts = false;
  while (!head.empty()) {
    const std::string_view line = next_line(head);
    if (has_key(line, "graph")) {
      const size_t value = line.find_first_not_of(" \t\r", 6);
      named = value != line.npos && line[value] != '{' && line[value] != '#';
    }
    for (const char* key : {"ops", "inputs", "parameters"}) {
      has_parts = has_parts || has_key(line, key);
    }
    if (named && has_parts) return true;
  }
  return false;
}

std::optional<Manifest> read(const ManifestSource& model, Host& /*host*/,
                             Diagnostics& diags) {
  const auto graph = read_graph(model.file, {}, diags);
  return graph ? graph_manifest(*graph, diags) : std::nullopt;
}

}  // namespace

bool looks_like_graph(std::string_view head) {
  head = head.substr(0, kHeadBytes);
  const size_t begin = head.find_first_not_of(" \t\r\n");
  if (begin != head.npos && head[begin] == '{') {
    return looks_like_json_graph(head);
  }
  return looks_like_yaml_graph(head);
}

std::optional<GraphDescription> read_graph(SourcePtr source,
                                           const DimSizes& dims,
                                           Diagnostics& diags) {
  const auto document = parse_document(source, diags);
  if (!document) return std::nullopt;
  auto graph = read_graph_node(document->root(), dims, diags);
  if (graph) graph->sources.push_back(std::move(source));
  return graph;
}

SourcePtr find_shipped_graph(std::string_view name, Diagnostics& diags) {
  SourcePtr found = find_shipped(kGraphFolder, name, diags);
  if (found != nullptr) return found;
  auto problem =
      diags.error(Code::UnreadableFile, {},
                  "no shipped graph named `@" + std::string(name) + "`");
  if (const auto near = nearest(name, shipped_names(kGraphFolder))) {
    problem.help("did you mean `@" + *near + "`?");
  }
  return nullptr;
}

std::optional<GraphDescription> load_graph(const std::string& path,
                                           const DimSizes& dims, Host& host,
                                           Diagnostics& diags,
                                           const SourcePtr& head) {
  SourcePtr source = path.starts_with('@')
                         ? find_shipped_graph(path.substr(1), diags)
                     : head != nullptr && !has_more(path, *head, host)
                         ? head
                         : read_source(path, kWholeFile, host, diags);
  if (source == nullptr) return std::nullopt;
  return read_graph(std::move(source), dims, diags);
}

std::optional<Manifest> graph_manifest(const GraphDescription& description,
                                       Diagnostics& diags) {
  Manifest manifest;
  bool good = true;
  for (const DescribedValue& value : description.parameters) {
    if (!value.shape && !good && is_repeated(description, value.layer)) {
      continue;
    }
    if (!value.shape) {
      diags
          .error(Code::InvalidGraph, value.where,
                 "parameter `" + value.name + "` has no shape")
          .help(
              "give its shape: a graph read as a model must state every shape");
      good = false;
      continue;
    }
    if (!manifest.add(value.parameter, {value.dtype, *value.shape},
                      value.where)) {
      return diags.error(Code::MalformedDocument, value.where,
                         "the parameters exceed 2^63 bytes");
    }
    if (value.axes.size() != value.shape->size()) continue;
    AxisLabels labels;
    for (const std::string& axis : value.axes) {
      labels.push_back(axis.empty() ? std::optional<std::string>() : axis);
    }
    manifest.set_axes(manifest.size() - 1, std::move(labels));
  }
  if (!good) return std::nullopt;
  manifest.model_name = description.name;
  manifest.sources = description.sources;
  return manifest;
}

const ManifestFormat kGraph = {
    "graph", "the parameters of a graph file, or of a shipped graph (@NAME)",
    looks_like_graph, read};

}  // namespace shardplan
