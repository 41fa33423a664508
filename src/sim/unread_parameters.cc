// SPDX-License-Identifier: Apache-2.0
#include "sim/unread_parameters.h"

#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/text.h"
#include "core/fold.h"

namespace shardplan {
namespace {

constexpr size_t kShown = 8;

// Names in the manifest of the parameters behind the outputs and the probes.
std::unordered_set<std::string_view> read_names(const Graph& graph) {
  std::vector<bool> wanted(graph.values.size());
  for (const int value : graph.outputs)
    wanted[static_cast<size_t>(value)] = true;
  for (const int value : graph.probes)
    wanted[static_cast<size_t>(value)] = true;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (!wanted[static_cast<size_t>(node->result)]) continue;
    for (const int value : node->operands) {
      wanted[static_cast<size_t>(value)] = true;
    }
  }
  std::unordered_set<std::string_view> names;
  for (size_t v = 0; v < wanted.size(); ++v) {
    const Value& value = graph.values[v];
    if (wanted[v] && value.kind == Value::Kind::Parameter) {
      names.insert(value.parameter);
    }
  }
  return names;
}

bool counts_layers(std::string_view component) {
  static constexpr std::array<std::string_view, 6> kNames = {
      "layers", "layer", "h", "blocks", "block", "blk"};
  for (const std::string_view name : kNames) {
    if (component == name) return true;
  }
  return false;
}

// The number after the component that counts layers.
std::optional<int64_t> layer_of(std::string_view name) {
  std::string_view before;
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find_first_of("/.", begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    int64_t number = 0;
    const auto read =
        std::from_chars(part.data(), part.data() + part.size(), number);
    if (counts_layers(before) && read.ec == std::errc() &&
        read.ptr == part.data() + part.size()) {
      return number;
    }
    before = part;
    begin = end + 1;
  }
  return std::nullopt;
}

}  // namespace

void report_unread_parameters(const Graph& graph, const Manifest& manifest,
                              const UnreadScope& scope, Diagnostics& diags) {
  const auto read = read_names(graph);
  constexpr uint32_t kRead = 0;
  constexpr uint32_t kUnread = 1;
  constexpr uint32_t kLeftOut = 2;
  std::vector<uint32_t> kinds(manifest.size(), kRead);
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (read.count(manifest.name(i)) > 0) continue;
    const auto layer = scope.layers ? layer_of(manifest.name(i)) : std::nullopt;
    kinds[i] = layer && *layer >= *scope.layers ? kLeftOut : kUnread;
  }
  const auto name_of = [&](size_t i) { return manifest.name(i); };
  const Folding folding = fold(kinds, name_of);
  std::vector<int64_t> read_of_name(folding.folded_names.size());
  for (const ParameterClass& c : folding.classes) {
    if (c.kind == kRead) read_of_name[c.folded] += c.count;
  }
  const auto is_reported = [&](const ParameterClass& c) {
    return c.kind == kUnread &&
           (scope.whole_model || read_of_name[c.folded] > 0);
  };
  std::vector<std::string> names;
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (is_reported(folding.classes[folding.class_of[i]])) {
      names.emplace_back(manifest.name(i));
    }
  }
  if (names.empty()) return;
  const std::string count =
      plural(static_cast<int64_t>(names.size()), "parameter");
  auto finding =
      diags.report(Code::UnreadParameter, {},
                   "the forward pass never reads " + count + " of the model");
  const std::vector<std::string> labels = class_labels(folding, name_of);
  size_t shown = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const ParameterClass& c = folding.classes[i];
    if (!is_reported(c)) continue;
    if (++shown > kShown) continue;
    const int64_t others = read_of_name[c.folded];
    finding.fact("`" + printable(labels[i]) + "` " +
                 (c.count == 1 ? "is" : "are") + " not read" +
                 (others == 0
                      ? ""
                      : "; " + count_text(others) + " of the same kind " +
                            (others == 1 ? "is" : "are")));
  }
  if (shown > kShown) {
    finding.fact("and so on: " +
                 plural(static_cast<int64_t>(shown - kShown), "more kind"));
  }
  finding.help(
      "what the model would compute with them is lost without an error: look "
      "for layers that no stage runs");
  finding.parameters(std::move(names));
}

}  // namespace shardplan
