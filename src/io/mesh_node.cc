// SPDX-License-Identifier: Apache-2.0
#include "io/mesh_node.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/text.h"

namespace shardplan {
namespace {

using Axes = std::optional<std::vector<AxisRequest>>;

// Read as the flag's value would be, with places moved into this file.
Axes read_mesh_text(const Node& node, Diagnostics& diags) {
  const SourceFile text("mesh", std::string(node.text()));
  const size_t inside = node.span().text().find(node.text());
  const auto moved = [&](Span span) {
    const Span whole = node.span();
    // Escapes in the text: only the whole of it has a place.
    if (inside == std::string_view::npos) return whole;
    const uint64_t base = whole.begin + inside;
    return Span{whole.file, base + span.begin, base + span.end};
  };
  Diagnostics problems;
  Axes axes = parse_mesh_text(text, problems);
  for (const Diagnostic& problem : problems.all()) {
    auto copy = diags.error(problem.code, {}, problem.message);
    for (const Label& label : problem.labels) {
      copy.label(moved(label.where), label.text);
    }
    for (const std::string& fact : problem.facts) copy.fact(fact);
    for (const std::string& help : problem.help) copy.help(help);
  }
  if (!axes) return std::nullopt;
  for (AxisRequest& axis : *axes) {
    axis.where = moved(axis.where);
    axis.name_where = moved(axis.name_where);
    axis.size_where = moved(axis.size_where);
  }
  return axes;
}

}  // namespace

std::optional<AxisRequest> read_axis_size(const Node& map, size_t index,
                                          Diagnostics& diags) {
  const Node size = map.item(index);
  const std::string name(map.key(index));
  if (!require(size, NodeKind::Integer, name, diags)) return std::nullopt;
  if (!size.integer()) {
    return diags.error(
        Code::InvalidMesh, size.span(),
        "the size of axis `" + printable(name) + "` does not fit 63 bits");
  }
  const Span key = map.key_span(index);
  return AxisRequest{
      name, *size.integer(),
      Span{key.file, key.begin, std::max(key.end, size.span().end)}, key,
      size.span()};
}

Axes read_mesh_node(const Node& node, Diagnostics& diags) {
  if (node.is_string()) return read_mesh_text(node, diags);
  if (!require(node, NodeKind::Map, "mesh", diags)) return std::nullopt;
  Axes axes{std::in_place};
  for (size_t i = 0; i < node.size(); ++i) {
    auto axis = read_axis_size(node, i, diags);
    if (!axis) return std::nullopt;
    axes->push_back(*std::move(axis));
  }
  return axes;
}

}  // namespace shardplan
