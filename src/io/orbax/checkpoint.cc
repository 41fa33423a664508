// SPDX-License-Identifier: Apache-2.0
#include "io/orbax/checkpoint.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "base/words.h"
#include "io/dialects.h"
#include "io/fence.h"
#include "io/paths.h"
#include "syntax/document.h"
#include "syntax/json.h"
#include "syntax/tokens.h"

namespace shardplan {
namespace {

bool is_json_map(std::string_view head) {
  const size_t first = head.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && head[first] == '{';
}

// Appends the keys of a leaf to its names.
bool read_keys(const Node& entry, OrbaxLeaf& leaf, ErrorLimit& errors) {
  const auto keys = entry.find("key_metadata");
  if (!keys || !keys->is_list() || keys->size() == 0) {
    errors.malformed(leaf.where, "a leaf must list its keys in `key_metadata`");
    return false;
  }
  for (size_t i = 0; i < keys->size(); ++i) {
    const Node item = keys->item(i);
    const auto key = item.is_map() ? item.find("key") : std::nullopt;
    if (!key || (!key->is_string() && !key->integer())) {
      errors.malformed(item.span(),
                       "an item of `key_metadata` must have a `key`");
      return false;
    }
    if (i > 0) {
      leaf.name += '/';
      leaf.dotted += '.';
    }
    leaf.name += key->text();
    leaf.dotted += key->text();
  }
  return true;
}

bool read_value(const Node& entry, OrbaxLeaf& leaf, ErrorLimit& errors) {
  const auto value = entry.find("value_metadata");
  const auto type =
      value && value->is_map() ? value->find("value_type") : std::nullopt;
  if (!type || !type->is_string()) {
    errors.malformed(leaf.where,
                     "a leaf must have `value_metadata` with a `value_type`");
    return false;
  }
  leaf.value_type = type->text();
  const auto skip = value->find("skip_deserialize");
  leaf.empty = skip && skip->boolean().value_or(false);
  const auto written = value->find("write_shape");
  if (!written || written->is_null()) return true;
  leaf.write_shape = read_sizes(*written);
  if (!leaf.write_shape) {
    errors.malformed(written->span(), "`write_shape` must be a list of sizes");
  }
  return leaf.write_shape.has_value();
}

constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::optional<std::string> decode_base64(std::string_view text) {
  std::string bytes;
  while (text.ends_with('=')) text.remove_suffix(1);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const size_t value = kBase64.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    bits = (bits << 6U) | static_cast<uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes +=
          static_cast<char>((bits >> static_cast<unsigned>(count)) & 0xffU);
    }
  }
  return bytes;
}

// Reads one sharding from the JSON in its string.
class ShardingReader {
 public:
  ShardingReader(std::string_view text, Span outer, RecordedSharding& into)
      : source_("a sharding", std::string(text)),
        json_(source_, problems_),
        outer_(outer),
        into_(into) {}

  enum class Kind : uint8_t { Broken, Other, Known };

  Kind read() {
    const bool good =
        json_.advance() &&
        json_.map("a sharding", [&](const std::string& key,
                                    Span) { return read_key(key); }) &&
        json_.finish();
    if (!good) return Kind::Broken;
    if (type_ == "SingleDeviceSharding") return Kind::Known;
    if (type_ != "NamedSharding") return Kind::Other;
    return bind() ? Kind::Known : Kind::Broken;
  }
  const std::string& type() const { return type_; }
  // Returns why it is broken.
  std::string why() const {
    if (!why_.empty()) return why_;
    return problems_.all().empty() ? "" : problems_.all().front().message;
  }

 private:
  bool read_key(const std::string& key) {
    if (key == "sharding_type") return json_.string("`sharding_type`", type_);
    if (key == "shape") {
      return json_.list("`shape`", [&] {
        return json_.size("a mesh size", sizes_.emplace_back());
      });
    }
    if (key == "axis_names") {
      return json_.list("`axis_names`", [&] {
        return json_.string("an axis name", names_.emplace_back());
      });
    }
    if (key == "partition_spec") {
      return json_.list("`partition_spec`", [&] { return read_dimension(); });
    }
    return json_.skip();
  }

  bool read_dimension() {
    AxisNames& axes = into_.spec.dims.emplace_back();
    if (json_.token() == JsonReader::Token::Null) return true;
    const auto read_axis = [&](std::string_view what) {
      std::string axis;
      if (!json_.string(what, axis)) return false;
      axes.emplace_back(axis);
      return true;
    };
    if (json_.token() == JsonReader::Token::BeginArray) {
      return json_.list("a dimension", [&] { return read_axis("an axis"); });
    }
    return read_axis("a spec dimension");
  }

  bool bind() {
    if (names_.empty() || names_.size() != sizes_.size()) {
      why_ = "it has " + std::to_string(names_.size()) + " axis names and " +
             std::to_string(sizes_.size()) + " sizes";
      return false;
    }
    for (size_t i = 0; i < names_.size(); ++i) {
      if (!is_axis_name(names_[i])) {
        why_ = in_backticks(names_[i]) + " is not an axis name";
        return false;
      }
      into_.mesh.push_back({names_[i], sizes_[i], outer_, outer_, outer_});
    }
    for (const AxisName& axis : axes_in(into_.spec)) {
      if (contains(names_, axis)) continue;
      why_ = "its mesh has no axis " + in_backticks(axis);
      return false;
    }
    return true;
  }

  SourceFile source_;
  Diagnostics problems_;
  JsonReader json_;
  Span outer_;
  RecordedSharding& into_;
  std::string type_;
  std::vector<int64_t> sizes_;
  std::vector<std::string> names_;
  std::string why_;
};

bool has_metadata(const std::string& path, Host& host) {
  return host.file_info(path_in(path, kOrbaxMetadata, host)).has_value();
}

// Returns the items in a folder, starting with those that usually have the
// parameters.
std::vector<std::string> items_in(const std::string& directory, Host& host) {
  constexpr std::array<std::string_view, 4> kUsual = {"items", "state",
                                                      "default", "params"};
  std::vector<std::string> items;
  for (const std::string& name : host.list_directory(directory)) {
    const bool usual = contains(kUsual, name);
    const std::string path = path_in(directory, name, host);
    // A link out of the fence (io/fence.h) may be a file, with nothing below
    // it.
    const auto info = usual ? std::nullopt : host.file_info(path);
    if (info && !info->directory) continue;
    if (has_metadata(path, host)) items.push_back(name);
  }
  std::ranges::stable_sort(items, {}, [&](const std::string& name) {
    return std::ranges::find(kUsual, name);
  });
  return items;
}

// Returns 300 for `300`, `000300` and `step_300`.
std::optional<int64_t> step_number(std::string_view name) {
  const size_t split = name.rfind('_');
  if (split != std::string_view::npos) name.remove_prefix(split + 1);
  constexpr size_t kMaxDigits = 18;
  const bool is_number =
      name.size() <= kMaxDigits && std::ranges::all_of(name, is_digit);
  return is_number ? parse_integer(name) : std::nullopt;
}

std::optional<OrbaxItem> item_of(const std::string& directory, Host& host) {
  if (has_metadata(directory, host)) return OrbaxItem{directory, ""};
  std::vector<std::string> items = items_in(directory, host);
  if (items.empty()) return std::nullopt;
  OrbaxItem found{join_path(directory, items.front()), ""};
  if (items.size() > 1) {
    found.remark = "read 1 of " + plural(std::ssize(items), "item") + ": " +
                   in_backticks(found.path) + "; the others: " +
                   some_names({items.begin() + 1, items.end()});
  }
  return found;
}

// The rules of an Orbax checkpoint's `_sharding`: for each array, a rule for
// exactly its name, with the recorded spec.

bool read_recorded_shardings(SourcePtr source, const RuleReading&,
                             RuleSet& rules, Diagnostics& diags) {
  const auto shardings = read_orbax_sharding(source, diags);
  if (!shardings) return false;
  RecordedMesh mesh = common_mesh(*shardings, diags);
  if (!mesh.axes.empty()) {
    rules.mesh = std::move(mesh.axes);
    rules.mesh_where = mesh.where;
    rules.mesh_recorded = true;
  }
  add_recorded_rules(*shardings, rules, diags);
  rules.sources.push_back(std::move(source));
  return true;
}

}  // namespace

bool is_orbax_metadata(std::string_view head) {
  return is_json_map(head) && contains(head, "\"tree_metadata\"");
}

bool is_orbax_sharding(std::string_view head) {
  return is_json_map(head) && contains(head, "\\\"sharding_type\\\"");
}

std::optional<OrbaxItem> find_orbax_item(const std::string& directory,
                                         Host& host) {
  if (auto item = item_of(directory, host)) return item;
  std::vector<std::pair<int64_t, std::string>> steps;
  for (std::string& name : host.list_directory(directory)) {
    const auto number = step_number(name);
    if (number) steps.emplace_back(*number, std::move(name));
  }
  std::sort(steps.rbegin(), steps.rend());
  for (const auto& [number, name] : steps) {
    auto item = item_of(path_in(directory, name, host), host);
    if (!item) continue;
    if (steps.size() == 1) return item;
    std::vector<std::string> others;
    for (const auto& step : steps) {
      if (step.second != name) others.push_back(step.second);
    }
    std::string remark =
        "read the newest of " + plural(std::ssize(steps), "step") +
        " that has arrays: " + in_backticks(join_path(directory, name)) +
        "; the others: " + some_names(others);
    if (!item->remark.empty()) remark += "; " + item->remark;
    item->remark = std::move(remark);
    return item;
  }
  return std::nullopt;
}

std::optional<Shape> read_sizes(const Node& list) {
  if (!list.is_list()) return std::nullopt;
  Shape sizes;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::optional<int64_t> size = list.item(i).integer();
    if (!size || *size < 0) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

std::optional<OrbaxTree> read_orbax_metadata(const SourcePtr& file,
                                             Diagnostics& diags) {
  const auto document = parse_document(file, diags);
  if (!document ||
      !require(document->root(), NodeKind::Map, "_METADATA", diags)) {
    return std::nullopt;
  }
  const auto tree = document->root().find("tree_metadata");
  if (!tree) {
    return diags.error(Code::MalformedDocument, document->root().span(),
                       "`_METADATA` has no `tree_metadata`");
  }
  if (!require(*tree, NodeKind::Map, "tree_metadata", diags)) {
    return std::nullopt;
  }
  ErrorLimit errors(diags, "`_METADATA`");
  OrbaxTree result;
  if (const auto ocdbt = document->root().find("use_ocdbt")) {
    result.use_ocdbt = ocdbt->boolean().value_or(false);
  }
  for (size_t i = 0; i < tree->size() && !errors.stopped(); ++i) {
    OrbaxLeaf leaf;
    leaf.where = tree->key_span(i);
    const Node entry = tree->item(i);
    if (!entry.is_map()) {
      errors.malformed(entry.span(), "a leaf of `tree_metadata` must be a map");
      continue;
    }
    if (read_keys(entry, leaf, errors) && read_value(entry, leaf, errors)) {
      result.leaves.push_back(std::move(leaf));
    }
  }
  if (errors.errors() > 0) return std::nullopt;
  return result;
}

std::optional<std::vector<RecordedSharding>> read_orbax_sharding(
    const SourcePtr& file, Diagnostics& diags) {
  std::vector<RecordedSharding> result;
  ErrorLimit errors(diags, "`_sharding`");
  JsonReader json(*file, diags);
  int64_t others = 0;
  std::string other;
  Span other_where;
  const auto read_entry = [&](const std::string& key, Span where) {
    std::string text;
    if (!json.string("a sharding", text)) return false;
    const Span place = json.span();
    const auto name = decode_base64(key);
    if (!name || !is_valid_utf8(*name)) {
      errors.malformed(where,
                       "a key of `_sharding` is not a base64-encoded name");
      return !errors.stopped();
    }
    RecordedSharding sharding{*name, where, {}, place, {}, place};
    ShardingReader reader(text, place, sharding);
    const ShardingReader::Kind kind = reader.read();
    if (kind == ShardingReader::Kind::Broken) {
      errors.malformed(place, "the sharding of " + in_backticks(*name) +
                                  " is malformed: " + reader.why());
    } else if (kind == ShardingReader::Kind::Known) {
      result.push_back(std::move(sharding));
    } else if (others++ == 0) {
      other = reader.type();
      other_where = place;
    }
    return !errors.stopped();
  };
  const bool good =
      json.advance() && json.map("`_sharding`", read_entry) && json.finish();
  if (!good || errors.errors() > 0) return std::nullopt;
  if (others > 0) {
    diags
        .report(Code::UnsupportedKey, Severity::Warning, other_where,
                plural(others, "sharding") +
                    " of an unsupported kind: " + in_backticks(other))
        .fact("only NamedSharding and SingleDeviceSharding are supported");
  }
  return result;
}

const RuleDialect kOrbaxRules = {
    "orbax", "the shardings recorded in an Orbax checkpoint's `_sharding`",
    is_orbax_sharding, read_recorded_shardings, &kRecordedForm};

}  // namespace shardplan
