// SPDX-License-Identifier: Apache-2.0
#include "model/config_classes.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "base/checked.h"
#include "base/shipped.h"
#include "base/words.h"
#include "model/config_reader.h"

namespace shardplan {
namespace {

constexpr std::string_view kRecording = "architectures/config_classes.jsonl";

// Returns the line of each model type. A lookup may be for any text and as
// frequent as references between files, so it must not search all lines.
std::map<std::string_view, std::string_view> read_lines() {
  constexpr std::string_view kMark = "\"model_type\":\"";
  const auto files = shipped_files();
  const auto file = std::ranges::find(files, kRecording, &ShippedFile::path);
  SHARDPLAN_CHECK(file != files.end());
  std::map<std::string_view, std::string_view> lines;
  for (std::string_view text = file->text; !text.empty();) {
    const std::string_view line = next_line(text);
    // The key is near the end of the line.
    const size_t mark = line.rfind(kMark);
    if (mark == line.npos) continue;
    const size_t begin = mark + kMark.size();
    lines.emplace(line.substr(begin, line.find('"', begin) - begin), line);
  }
  return lines;
}

}  // namespace

std::optional<Node> ConfigClass::member(std::string_view key) const {
  return line_.root().find(key);
}

std::string ConfigClass::title() const {
  const auto versions = member("versions");
  return std::string(member("class")->text()) + " of transformers " +
         std::string(versions->item(versions->size() - 1).text());
}

std::string_view ConfigClass::prefix() const {
  constexpr std::string_view kEnd = "Config";
  std::string_view name = member("class")->text();
  if (name.ends_with(kEnd)) name.remove_suffix(kEnd.size());
  return name;
}

std::optional<Node> ConfigClass::declared(std::string_view key,
                                          bool older) const {
  std::optional<Node> found;
  if (const auto all = member("defaults")) found = value_at(*all, key);
  const auto other = older ? member("older") : std::nullopt;
  if (other && other->size() > 0) {
    if (const auto own = value_at(other->item(0), key)) found = own;
  }
  if (!found || found->text() == "<absent>") return std::nullopt;
  return found;
}

std::optional<Node> ConfigClass::default_of(std::string_view key,
                                            bool older) const {
  const auto found = declared(key, older);
  return found && !found->is_null() ? found : std::nullopt;
}

bool ConfigClass::is_null(std::string_view key, bool older) const {
  const auto found = declared(key, older);
  return found && found->is_null();
}

bool ConfigClass::is_default(std::string_view key, const Node& value) const {
  for (const bool older : {false, true}) {
    const auto usual = default_of(key, older);
    if (usual && usual->kind() == value.kind() && !value.is_map() &&
        !value.is_list() && usual->text() == value.text()) {
      return true;
    }
  }
  return false;
}

std::vector<std::string> ConfigClass::aliases(std::string_view key,
                                              bool older) const {
  std::vector<std::string> names;
  const auto map = member("attribute_map");
  const auto before = older ? member("older") : std::nullopt;
  for (size_t i = 0; map && i < map->size(); ++i) {
    const std::string_view name = map->key(i);
    const std::string_view real = map->item(i).text();
    // A key with its own default in that version was not an alias there.
    if (before && before->size() > 0 && before->item(0).find(name)) continue;
    if (name == key) names.emplace_back(real);
    if (real == key) names.emplace_back(name);
  }
  return names;
}

bool ConfigClass::changes_tensors(std::string_view key) const {
  const auto list = member("shapes");
  for (size_t i = 0; list && i < list->size(); ++i) {
    if (list->item(i).text() == key) return true;
  }
  for (const char* more : {"shapes_if", "undeclared"}) {
    const auto map = member(more);
    if (map && map->find(key)) return true;
  }
  return false;
}

std::shared_ptr<const ConfigClass> find_config_class(
    std::string_view model_type) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const ConfigClass>, std::less<>>
      known;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = known.find(model_type);
  if (found != known.end()) return found->second;
  static const auto kLines = read_lines();
  const auto line = kLines.find(model_type);
  // Lookups may be for any text, so unknown types are not cached.
  if (line == kLines.end()) return nullptr;
  Diagnostics diags;
  auto document = parse_document(
      std::make_shared<SourceFile>("rules/" + std::string(kRecording),
                                   std::string(line->second)),
      diags);
  SHARDPLAN_CHECK(document.has_value());
  return known
      .emplace(model_type,
               std::make_shared<const ConfigClass>(*std::move(document)))
      .first->second;
}

std::shared_ptr<const ConfigClass> find_config_class(
    std::span<const std::string> model_types, std::string_view class_name) {
  std::shared_ptr<const ConfigClass> best;
  for (const std::string& type : model_types) {
    auto found = find_config_class(type);
    if (found == nullptr) continue;
    const bool is_like = class_name.starts_with(found->prefix());
    if (best == nullptr ||
        (is_like && (!class_name.starts_with(best->prefix()) ||
                     found->prefix().size() > best->prefix().size()))) {
      best = std::move(found);
    }
  }
  return best;
}

}  // namespace shardplan
