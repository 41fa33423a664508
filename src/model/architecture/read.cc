// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "base/text.h"
#include "base/words.h"
#include "model/architecture/quantisation.h"
#include "model/architecture/reading.h"
#include "model/config_reader.h"
#include "syntax/document.h"

namespace shardplan {
namespace {

ArchitectureClass read_class(const Node& map, size_t index,
                             StepReader& reader) {
  ArchitectureClass result;
  result.class_name = std::string(map.key(index));
  result.where = map.key_span(index);
  result.steps = reader.steps(map.item(index), result.state_steps);
  return result;
}

// An ending of the same name is replaced.
void read_class_endings(const Node& map, Architecture& result,
                        StepReader& reader, Diagnostics& diags) {
  if (!require(map, NodeKind::Map, "`class_endings`", diags)) return;
  for (size_t i = 0; i < map.size(); ++i) {
    std::erase_if(result.class_endings, [&](const ArchitectureClass& each) {
      return each.class_name == map.key(i);
    });
    result.class_endings.push_back(read_class(map, i, reader));
  }
}

// The maximum number of sections, and of `others` in a section.
constexpr size_t kMaxSections = 100;

class ArchitectureReader {
 public:
  ArchitectureReader(const Architecture& shared, const FindArchitecture& find,
                     Diagnostics& diags)
      : shared_(shared), find_(find), diags_(diags), reader_(diags) {}

  std::shared_ptr<const Architecture> run(const SourcePtr& source) {
    const int64_t errors = diags_.count(Severity::Error);
    const auto document = parse_document(source, diags_);
    if (!document) return nullptr;
    const auto root =
        require(document->root(), NodeKind::Map, "an architecture", diags_);
    if (!root) return nullptr;
    if (!reader_.known_keys(*root, {"architecture", "summary",
                                    "like",         "model_types",
                                    "sizes",        "counts",
                                    "flags",        "numbers",
                                    "texts",        "lists",
                                    "tables",       "require",
                                    "notes",        "quantisations_unknown",
                                    "ignored_keys", "blocks",
                                    "sections",     "classes",
                                    "computes",     "forward",
                                    "other_names",  "released_scale",
                                    "by_names",     "module_names",
                                    "class_endings"})) {
      return nullptr;
    }
    auto result = std::make_shared<Architecture>();
    if (const auto like = root->find("like")) {
      const auto base = known_architecture(*like);
      if (base == nullptr) return nullptr;
      *result = *base;
      result->classes.clear();
      result->model_types.clear();
      result->computes = false;
      result->by_names = true;
      result->like = base->name;
    } else {
      *result = shared_;
    }
    result->sources.push_back(source);
    read_head(*root, *result);
    read_values(*root, false, reader_, result->values, diags_);
    if (const auto list = root->find("require")) {
      read_requirements(*list, result->requirements);
    }
    if (const auto list = root->find("notes")) read_notes(*list, *result);
    if (const auto map = root->find("forward")) read_forward(*map, *result);
    if (const auto map = root->find("sections")) read_sections(*map, *result);
    if (const auto map = root->find("blocks")) {
      reader_.blocks(*map, result->blocks);
    }
    if (const auto map = root->find("class_endings")) {
      read_class_endings(*map, *result, reader_, diags_);
    }
    const auto classes = root->find("classes");
    if (classes) read_classes(*classes, *result);
    if (!classes || classes->size() == 0) {
      reader_.refuse(root->span(), "the architecture has no `classes`");
    }
    if (diags_.count(Severity::Error) == errors) check_names(*result, diags_);
    if (result->computes && diags_.count(Severity::Error) == errors) {
      check_forward(*result, diags_);
    }
    return diags_.count(Severity::Error) == errors ? result : nullptr;
  }

 private:
  void read_head(const Node& root, Architecture& result) {
    if (!root.find("architecture")) {
      reader_.refuse(root.span(), "the file has no `architecture`");
    }
    reader_.optional(root, "architecture", result.name);
    reader_.optional(root, "summary", result.summary);
    reader_.optional(root, "model_types", result.model_types);
    reader_.optional(root, "ignored_keys", result.ignored_keys);
    reader_.optional(root, "computes", result.computes);
    reader_.optional(root, "by_names", result.by_names);
    if (const auto names = root.find("other_names")) {
      read_other_names(*names, result.other_names);
    }
    if (const auto names = root.find("module_names")) {
      read_module_names(*names, result);
    }
    reader_.optional(root, "released_scale", result.released_scale);
    reader_.optional(root, "quantisations_unknown",
                     result.quantisations_unknown);
    if (const auto methods = root.find("quantisations_unknown")) {
      for (const std::string& method : result.quantisations_unknown) {
        if (find_method(method)) continue;
        reader_.refuse(methods->span(),
                       in_backticks(method) + " is not a quantisation method");
      }
    }
  }

  void read_other_names(const Node& map, std::vector<OtherName>& result) {
    if (!require(map, NodeKind::Map, "`other_names`", diags_)) return;
    for (size_t i = 0; i < map.size(); ++i) {
      const std::string part(map.key(i));
      for (std::string& other : reader_.texts(map.item(i), "other names")) {
        if (contains(part, '.') || contains(other, '.')) {
          reader_.refuse(map.key_span(i),
                         "a part of a name must not have dots");
          continue;
        }
        result.push_back({part, std::move(other)});
      }
    }
  }

  void read_module_names(const Node& map, Architecture& result) {
    if (!require(map, NodeKind::Map, "`module_names`", diags_)) return;
    for (size_t i = 0; i < map.size(); ++i) {
      const Node of_class = map.item(i);
      if (!require(of_class, NodeKind::Map, "names of a class", diags_)) {
        continue;
      }
      auto& names = result.module_names[std::string(map.key(i))];
      for (size_t k = 0; k < of_class.size(); ++k) {
        if (auto name = reader_.text(of_class.item(k), "a name in memory")) {
          names.push_back({std::string(of_class.key(k)), *std::move(name)});
        }
      }
    }
  }

  // Reads the values, inputs and requirements that only a forward pass uses.
  void read_forward(const Node& node, Architecture& result) {
    if (!require(node, NodeKind::Map, "`forward`", diags_) ||
        !reader_.known_keys(
            node, {"sizes", "counts", "flags", "numbers", "texts", "lists",
                   "tables", "require", "inputs"})) {
      return;
    }
    read_values(node, true, reader_, result.values, diags_);
    if (const auto map = node.find("inputs")) {
      reader_.inputs(*map, result.inputs);
    }
    if (const auto list = node.find("require")) {
      read_requirements(*list, result.forward_requirements);
    }
  }

  void read_requirements(const Node& list, std::vector<Requirement>& result) {
    if (!require(list, NodeKind::List, "`require`", diags_)) return;
    for (size_t i = 0; i < list.size(); ++i) {
      const Node node = list.item(i);
      if (!require(node, NodeKind::Map, "a requirement", diags_)) continue;
      if (const auto name = node.find("drop")) {
        if (reader_.known_keys(node, {"drop"})) drop(*name, result);
      } else if (auto read = read_requirement(node)) {
        put(*std::move(read), result);
      }
    }
  }

  static std::vector<Requirement>::iterator of_name(
      std::string_view name, std::vector<Requirement>& all) {
    return name.empty() ? all.end()
                        : std::ranges::find(all, name, &Requirement::name);
  }

  // Adds a requirement. If it has a name, it replaces the inherited one of that
  // name.
  static void put(Requirement requirement, std::vector<Requirement>& all) {
    const auto known = of_name(requirement.name, all);
    if (known == all.end()) {
      all.push_back(std::move(requirement));
    } else {
      *known = std::move(requirement);
    }
  }

  void drop(const Node& name, std::vector<Requirement>& all) {
    const auto known = of_name(name.text(), all);
    if (known != all.end()) {
      all.erase(known);
      return;
    }
    std::vector<std::string> names = all_names(all);
    std::erase(names, "");
    suggest(reader_.refuse(name.span(), "there is no requirement " +
                                            in_backticks(name.text())),
            name.text(), names);
  }

  std::optional<Requirement> read_requirement(const Node& node) {
    if (!reader_.known_keys(node,
                            {"name", "that", "key", "else", "facts", "of"})) {
      return std::nullopt;
    }
    const auto that = node.find("that");
    const auto message = node.find("else");
    if (!that || !message) {
      return reader_.refuse(node.span(),
                            "a requirement needs `that` and `else`");
    }
    auto read = reader_.expression(*that);
    if (!read) return std::nullopt;
    Requirement requirement{
        node.span(), "",   *std::move(read), "", std::string(message->text()),
        {},          false};
    reader_.optional(node, "name", requirement.name);
    if (const auto key = node.find("key")) requirement.key = key->text();
    reader_.optional(node, "facts", requirement.facts);
    if (const auto of = node.find("of")) {
      requirement.of_names = of->text() == "names";
      if (!requirement.of_names) {
        return reader_.refuse(of->span(),
                              "`of` of a requirement must be `names`");
      }
    }
    return requirement;
  }

  void read_notes(const Node& list, Architecture& result) {
    if (!require(list, NodeKind::List, "`notes`", diags_)) return;
    for (size_t i = 0; i < list.size(); ++i) {
      const Node node = list.item(i);
      if (!require(node, NodeKind::Map, "a note", diags_) ||
          !reader_.known_keys(node, {"note", "when"})) {
        continue;
      }
      ArchitectureNote note{node.span(), {}, ""};
      if (!node.find("note")) {
        reader_.refuse(node.span(), "a note needs `note`");
        continue;
      }
      reader_.optional(node, "note", note.text);
      if (!reader_.optional(node, "when", note.when)) continue;
      result.notes.push_back(std::move(note));
    }
  }

  std::shared_ptr<const Architecture> known_architecture(const Node& name) {
    auto found = find_(name.text());
    if (found == nullptr) {
      reader_.refuse(name.span(),
                     "there is no architecture " + in_backticks(name.text()));
    }
    return found;
  }

  bool read_others(const Node& node, ConfigSection& section) {
    const auto list = node.find("others");
    if (!list) return true;
    if (!require(*list, NodeKind::List, "`others`", diags_)) return false;
    if (list->size() > kMaxSections) {
      reader_.refuse(list->span(), "there are too many `others`");
      return false;
    }
    for (size_t i = 0; i < list->size(); ++i) {
      auto other = known_architecture(list->item(i));
      if (other == nullptr) return false;
      if (other->model_types.empty()) {
        reader_.refuse(list->item(i).span(),
                       in_backticks(other->name) +
                           " needs `model_types`, by which it is chosen");
        return false;
      }
      section.others.push_back(std::move(other));
    }
    return true;
  }

  void read_sections(const Node& map, Architecture& result) {
    if (!require(map, NodeKind::Map, "`sections`", diags_)) return;
    if (map.size() + result.sections.size() > kMaxSections) {
      reader_.refuse(map.span(), "there are too many `sections`");
      return;
    }
    for (size_t i = 0; i < map.size(); ++i) {
      const Node node = map.item(i);
      if (!require(node, NodeKind::Map, "a section", diags_) ||
          !reader_.known_keys(node, {"key", "architecture", "others", "any",
                                     "defaults", "optional", "flat"})) {
        continue;
      }
      const auto key = node.find("key");
      const auto name = node.find("architecture");
      if (!key || !name) {
        reader_.refuse(map.key_span(i),
                       "a section needs `key` and `architecture`");
        continue;
      }
      auto of = known_architecture(*name);
      if (of == nullptr) continue;
      ConfigSection section{std::string(map.key(i)), map.key_span(i),
                            std::string(key->text()), std::move(of)};
      if (read_others(node, section) &&
          reader_.optional(node, "any", section.by_model_type) &&
          reader_.optional(node, "defaults", section.has_defaults) &&
          reader_.optional(node, "optional", section.is_optional) &&
          reader_.optional(node, "flat", section.may_be_flat)) {
        result.sections.push_back(std::move(section));
      }
    }
  }

  // Reads classes with their steps, and beginnings of names with endings:
  // `Llama: [ForCausalLM, Model]`.
  void read_classes(const Node& map, Architecture& result) {
    if (!require(map, NodeKind::Map, "`classes`", diags_)) return;
    for (size_t i = 0; i < map.size(); ++i) {
      const Node steps = map.item(i);
      if (!steps.is_list() || steps.size() == 0 || steps.item(0).is_map()) {
        result.classes.push_back(read_class(map, i, reader_));
        continue;
      }
      for (size_t k = 0; k < steps.size(); ++k) {
        add_class(map.key(i), steps.item(k), result);
      }
    }
  }

  void add_class(std::string_view beginning, const Node& ending,
                 Architecture& result) {
    const auto name = reader_.text(ending, "an ending of a class");
    if (!name) return;
    std::vector<std::string> known;
    for (const ArchitectureClass& each : result.class_endings) {
      known.push_back(each.class_name);
      if (each.class_name != *name) continue;
      result.classes.push_back(each);
      result.classes.back().class_name = std::string(beginning) + *name;
      return;
    }
    reader_
        .refuse(ending.span(), "there is no ending " + in_backticks(*name) +
                                   " in `class_endings`")
        .help("the endings are " + joined(known, ", "));
  }

  const Architecture& shared_;
  const FindArchitecture& find_;
  Diagnostics& diags_;
  StepReader reader_;
};

}  // namespace

const ValueRule* Architecture::find_value(std::string_view wanted) const {
  return find_named(values, wanted);
}

const ArchitectureClass* Architecture::find_class(
    std::string_view class_name) const {
  const auto found =
      std::ranges::find(classes, class_name, &ArchitectureClass::class_name);
  return found == classes.end() ? nullptr : &*found;
}

bool ConfigSection::is_flat(const Node& config) const {
  const auto own = may_be_flat ? config.find(key) : std::nullopt;
  return may_be_flat && (!own || own->is_null());
}

const ConfigSection* Architecture::find_section(std::string_view wanted) const {
  return find_named(sections, wanted);
}

std::shared_ptr<const Architecture> read_architecture(
    const SourcePtr& source, const Architecture& shared,
    const FindArchitecture& find, Diagnostics& diags) {
  return ArchitectureReader(shared, find, diags).run(source);
}

std::optional<Architecture> read_shared_architecture(const SourcePtr& source,
                                                     Diagnostics& diags) {
  const int64_t errors = diags.count(Severity::Error);
  const auto document = parse_document(source, diags);
  if (!document) return std::nullopt;
  const auto root =
      require(document->root(), NodeKind::Map, "a file of blocks", diags);
  if (!root) return std::nullopt;
  StepReader reader(diags);
  Architecture result;
  result.inputs = {token_input()};
  result.sources.push_back(source);
  if (!reader.known_keys(*root, {"sizes", "blocks", "class_endings"})) {
    return std::nullopt;
  }
  read_values(*root, false, reader, result.values, diags);
  if (const auto map = root->find("blocks")) reader.blocks(*map, result.blocks);
  for (auto& [name, block] : result.blocks) block.shared = true;
  if (const auto map = root->find("class_endings")) {
    read_class_endings(*map, result, reader, diags);
  }
  if (diags.count(Severity::Error) != errors) return std::nullopt;
  return result;
}

}  // namespace shardplan
