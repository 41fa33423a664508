// SPDX-License-Identifier: Apache-2.0
#include "io/maxtext_dump.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "io/document.h"
#include "io/error_limit.h"

namespace shardplan {
namespace {

// One key at the beginning of `path`, which loses it: `['w']`, `[0]` or `.w`.
std::optional<std::string> cut_key(std::string_view& path) {
  if (path.starts_with('.')) {
    const size_t end = std::min(path.find('/'), path.size());
    std::string key(path.substr(1, end - 1));
    path.remove_prefix(end);
    if (key.empty()) return std::nullopt;
    return key;
  }
  if (!path.starts_with('[')) return std::nullopt;
  path.remove_prefix(1);
  std::string key;
  const char quote = path.empty() ? '\0' : path[0];
  const bool quoted = quote == '\'' || quote == '"';
  if (quoted) path.remove_prefix(1);
  const char last = quoted ? quote : ']';
  size_t at = 0;
  for (; at < path.size() && path[at] != last; ++at) {
    if (quoted && path[at] == '\\' && at + 1 < path.size()) ++at;
    key += path[at];
  }
  if (at == path.size()) return std::nullopt;
  path.remove_prefix(at + 1);
  if (quoted) {
    if (!path.starts_with(']')) return std::nullopt;
    path.remove_prefix(1);
  }
  return key;
}

class DumpReader {
 public:
  explicit DumpReader(Diagnostics& diags) : errors_(diags, "the dump") {}

  std::optional<MaxtextDump> read(const Node& root) {
    MaxtextDump dump;
    for (size_t i = 0; i < root.size() && !errors_.stopped(); ++i) {
      DumpEntry entry;
      entry.sharding.name = key_path_name(root.key(i));
      entry.sharding.where = root.key_span(i);
      if (!root.item(i).is_map()) {
        errors_.malformed(root.item(i).span(),
                          "an array of the dump must be a map");
        continue;
      }
      read_entry(root.item(i), entry);
      dump.named = dump.named || !entry.sharding.mesh.empty();
      dump.entries.push_back(std::move(entry));
    }
    if (errors_.errors() > 0) return std::nullopt;
    return dump;
  }

 private:
  void read_entry(const Node& map, DumpEntry& entry) {
    if (const auto mesh = map.find("mesh")) read_mesh(*mesh, entry.sharding);
    const auto spec = map.find("partition_spec");
    if (spec && spec->is_list()) {
      read_spec(*spec, entry.sharding);
    } else {
      errors_.malformed(spec ? spec->span() : map.span(),
                        "an array must have a list as `partition_spec`");
    }
    const auto shape = map.find("shape");
    if (!shape || shape->is_null()) return;
    entry.shape.emplace();
    for (size_t i = 0; i < shape->size(); ++i) {
      const auto size = shape->item(i).integer();
      if (!size || *size < 0) {
        errors_.malformed(shape->item(i).span(),
                          "an entry of `shape` must be a size");
        return;
      }
      entry.shape->push_back(*size);
    }
    if (!shape->is_list()) {
      errors_.malformed(shape->span(), "`shape` must be a list of sizes");
    } else if (entry.sharding.spec.dims.size() > entry.shape->size()) {
      errors_.malformed(
          entry.sharding.spec_where,
          "the spec has " +
              plural(static_cast<int64_t>(entry.sharding.spec.dims.size()),
                     "dimension") +
              ", but the shape has " + std::to_string(entry.shape->size()));
    }
  }

  void read_mesh(const Node& mesh, RecordedSharding& sharding) {
    const auto names = mesh.find("axis_names");
    const auto sizes = mesh.find("shape");
    if (!names || !names->is_list() || !sizes || !sizes->is_map()) {
      errors_.malformed(mesh.span(),
                        "a mesh must have a list of `axis_names` and a map of "
                        "sizes, `shape`");
      return;
    }
    sharding.mesh_where = mesh.span();
    for (size_t i = 0; i < names->size(); ++i) {
      const Node name = names->item(i);
      const auto size =
          name.is_string() ? sizes->find(name.text()) : std::nullopt;
      if (!size || !size->integer()) {
        errors_.malformed(name.span(), "this axis has no size in `shape`");
        return;
      }
      sharding.mesh.push_back({std::string(name.text()), *size->integer(),
                               name.span(), name.span(), size->span()});
    }
  }

  void read_spec(const Node& spec, RecordedSharding& sharding) {
    sharding.spec_where = spec.span();
    for (size_t i = 0; i < spec.size(); ++i) {
      const Node dim = spec.item(i);
      AxisNames& axes = sharding.spec.dims.emplace_back();
      if (dim.is_null()) continue;
      if (!dim.is_list()) {
        read_axis(dim, axes);
        continue;
      }
      for (size_t k = 0; k < dim.size(); ++k) read_axis(dim.item(k), axes);
    }
  }

  void read_axis(const Node& node, AxisNames& axes) {
    if (node.is_string() && is_axis_name(node.text())) {
      axes.emplace_back(node.text());
      return;
    }
    errors_.malformed(node.span(), "this is not an axis name");
  }

  ErrorLimit errors_;
};

}  // namespace

std::string key_path_name(std::string_view path) {
  const std::string whole(path);
  std::string name;
  while (true) {
    const bool attribute = path.starts_with('.');
    const auto key = cut_key(path);
    if (!key) return whole;
    const bool boxed =
        attribute && *key == "value" && path.empty() && !name.empty();
    if (!boxed) name += (name.empty() ? "" : "/") + *key;
    if (path.empty()) return name;
    if (!path.starts_with('/')) return whole;
    path.remove_prefix(1);
  }
}

bool is_maxtext_dump(std::string_view head) {
  const size_t first = head.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && head[first] == '{' &&
         head.find("\"partition_spec\"") != std::string_view::npos &&
         head.find("\"dtype\"") == std::string_view::npos;
}

std::optional<MaxtextDump> read_maxtext_dump(const SourcePtr& file,
                                             Diagnostics& diags) {
  const auto document = parse_document(file, diags);
  if (!document ||
      !require(document->root(), NodeKind::Map, "dump", diags)) {
    return std::nullopt;
  }
  return DumpReader(diags).read(document->root());
}

}  // namespace shardplan
