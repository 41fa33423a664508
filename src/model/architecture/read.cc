// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "base/text.h"
#include "model/architecture/reading.h"
#include "model/config_reader.h"
#include "syntax/document.h"

namespace shardplan {
namespace {

using Blocks = std::map<std::string, ModuleBlock, std::less<>>;
using Names = std::vector<std::string>;

constexpr int kMaxNesting = 16;
// Names are computed from one another, as deep as there are names.
constexpr size_t kMaxValues = 300;

class Reader {
 public:
  explicit Reader(Diagnostics& diags) : diags_(diags) {}

  Diagnostics::Builder refuse(Span where, std::string message) {
    return diags_.error(Code::InvalidArchitecture, where, std::move(message));
  }

  // "5", "heads * head_dim", true and [1, 2] are expressions.
  std::optional<Expression> expression(const Node& node) {
    if (node.is_list()) return integers(node);
    if (node.is_map() || node.is_null()) {
      return refuse(node.span(),
                    "an expression must be text or a number, not " +
                        std::string(kind_name(node.kind())));
    }
    std::string why;
    auto read = parse_expression(node.text(), node.span(), why);
    if (read) return read;
    return refuse(node.span(),
                  in_backticks(node.text()) + " is no expression: " + why);
  }

  std::optional<std::string> text(const Node& node, std::string_view what) {
    if (node.is_list() || node.is_map() || node.is_null()) {
      return refuse(node.span(), std::string(what) + " must be text, not " +
                                     std::string(kind_name(node.kind())));
    }
    return std::string(node.text());
  }

  // A text, or a list of texts.
  Names texts(const Node& node, std::string_view what) {
    Names names;
    if (!node.is_list()) {
      if (auto one = text(node, what)) names.push_back(*std::move(one));
      return names;
    }
    for (size_t i = 0; i < node.size(); ++i) {
      if (auto one = text(node.item(i), what)) names.push_back(*std::move(one));
    }
    return names;
  }

  bool known_keys(const Node& map, std::vector<std::string> known) {
    return reject_unknown_keys(map, known, diags_);
  }

  std::optional<DimTree> dim(const Node& node, int depth = 0) {
    if (depth > kMaxNesting) {
      return refuse(node.span(), "a dimension nests too deep");
    }
    DimTree result;
    result.where = node.span();
    if (!node.is_map()) {
      auto size = expression(node);
      if (!size) return std::nullopt;
      result.size = *std::move(size);
      return result;
    }
    for (size_t i = 0; i < node.size(); ++i) {
      const std::string key(node.key(i));
      if (key == "per") {
        result.per = expression(node.item(i));
        if (!result.per) return std::nullopt;
        continue;
      }
      auto part = dim(node.item(i), depth + 1);
      if (!part) return std::nullopt;
      result.parts.push_back({key, *std::move(part)});
    }
    if (result.parts.empty()) {
      return refuse(node.span(), "a dimension has no parts");
    }
    return result;
  }

  std::vector<ModuleStep> steps(const Node& list, int depth = 0) {
    std::vector<ModuleStep> result;
    if (depth > kMaxNesting) {
      refuse(list.span(), "steps nest too deep");
      return result;
    }
    if (!require(list, NodeKind::List, "`steps`", diags_)) return result;
    for (size_t i = 0; i < list.size(); ++i) {
      if (auto one = step(list.item(i), depth))
        result.push_back(*std::move(one));
    }
    return result;
  }

 private:
  std::optional<Expression> integers(const Node& list) {
    std::vector<int64_t> numbers;
    for (size_t i = 0; i < list.size(); ++i) {
      const auto number = list.item(i).integer();
      if (!number) {
        return refuse(list.item(i).span(), "a list has integers only");
      }
      numbers.push_back(*number);
    }
    return constant_expression(ConfigValue::of(std::move(numbers)),
                               list.span());
  }

  std::optional<ModuleStep> step(const Node& node, int depth) {
    if (!require(node, NodeKind::Map, "a step", diags_)) return std::nullopt;
    if (node.size() == 0) return refuse(node.span(), "a step is empty");
    // What a step is stands first in it.
    const std::string_view what = node.key(0);
    ModuleStep result;
    result.where = node.key_span(0);
    result.what = std::string(what);
    if (const auto when = node.find("when"); when && what != "when") {
      result.when = expression(*when);
      if (!result.when) return std::nullopt;
    }
    if (what == "repeat") return repeat(node, depth, std::move(result));
    if (what == "switch") return cases(node, depth, std::move(result));
    const auto name = text(node.item(0), in_backticks(what));
    if (!name) return std::nullopt;
    result.name = *name;
    for (const ModuleKind& kind : module_kinds()) {
      if (kind.name == what) return module(node, kind, std::move(result));
    }
    if (what == "section") return section(node, std::move(result));
    return block(node, std::move(result));
  }

  std::optional<ModuleStep> repeat(const Node& node, int depth,
                                   ModuleStep result) {
    if (!known_keys(node, {"repeat", "name", "index", "start", "stored", "when",
                           "steps"})) {
      return std::nullopt;
    }
    result.kind = ModuleStep::Kind::Repeat;
    result.count = expression(node.item(0));
    if (!result.count) return std::nullopt;
    result.index = "i";
    if (const auto index = node.find("index")) {
      auto read = text(*index, "`index`");
      if (!read) return std::nullopt;
      result.index = *std::move(read);
    }
    if (const auto start = node.find("start")) {
      result.start = expression(*start);
      if (!result.start) return std::nullopt;
    }
    const auto name = node.find("name");
    if (!name) return refuse(result.where, "`repeat` has no `name`");
    auto read = text(*name, "`name`");
    if (!read) return std::nullopt;
    result.name = *std::move(read);
    if (const auto stored = node.find("stored")) {
      result.stacked = stored->text() == "stacked";
      if (!result.stacked) {
        return refuse(stored->span(),
                      "`stored` of `repeat` is `stacked`, or "
                      "not given");
      }
    }
    const bool numbered =
        result.name.find("{" + result.index + "}") != std::string::npos;
    if (numbered == result.stacked) {
      return refuse(name->span(),
                    result.stacked ? "a name of what is stacked has no index"
                                   : "the name lacks `{" + result.index + "}`");
    }
    const auto steps_node = node.find("steps");
    if (!steps_node) return refuse(result.where, "`repeat` has no `steps`");
    result.steps = steps(*steps_node, depth + 1);
    return result;
  }

  std::optional<ModuleStep> cases(const Node& node, int depth,
                                  ModuleStep result) {
    if (!known_keys(node, {"switch"})) return std::nullopt;
    result.kind = ModuleStep::Kind::Switch;
    const Node list = node.item(0);
    if (!require(list, NodeKind::List, "`switch`", diags_)) return std::nullopt;
    for (size_t i = 0; i < list.size(); ++i) {
      const Node item = list.item(i);
      if (!require(item, NodeKind::Map, "a case", diags_) ||
          !known_keys(item, {"when", "steps"})) {
        return std::nullopt;
      }
      ModuleCase one;
      if (const auto when = item.find("when")) {
        one.when = expression(*when);
        if (!one.when) return std::nullopt;
      } else if (i + 1 < list.size()) {
        return refuse(item.span(), "only the last case has no `when`");
      }
      if (const auto of = item.find("steps")) {
        one.steps = steps(*of, depth + 1);
      }
      result.cases.push_back(std::move(one));
    }
    return result;
  }

  std::optional<ModuleStep> module(const Node& node, const ModuleKind& kind,
                                   ModuleStep result) {
    result.kind = kind.kind;
    const bool plain = kind.dims.empty();
    Names known = {std::string(kind.name), "when", "dtype"};
    if (plain) known.emplace_back("shape");
    for (const std::string_view dim : kind.dims) known.emplace_back(dim);
    if (kind.kind == ModuleStep::Kind::Linear) {
      for (const char* key :
           {"bias", "weight_name", "bias_name", "stored", "quantised"}) {
        known.emplace_back(key);
      }
    }
    if (kind.kind == ModuleStep::Kind::LayerNorm) known.emplace_back("bias");
    if (!known_keys(node, known)) return std::nullopt;
    if (result.name.empty()) {
      return refuse(result.where, in_backticks(kind.name) + " has no name");
    }
    for (const std::string_view key : kind.dims) {
      const auto at = node.find(key);
      if (!at) {
        return refuse(result.where, in_backticks(kind.name) + " " +
                                        in_backticks(result.name) + " has no " +
                                        in_backticks(key));
      }
      auto read = dim(*at);
      if (!read) return std::nullopt;
      result.dims.push_back(*std::move(read));
    }
    if (plain && !shape(node, result)) return std::nullopt;
    if (const auto bias = node.find("bias")) {
      result.bias = expression(*bias);
      if (!result.bias) return std::nullopt;
    }
    if (!linear_options(node, result)) return std::nullopt;
    if (const auto dtype = node.find("dtype")) {
      result.dtype = find_dtype(dtype->text());
      if (!result.dtype) {
        return refuse(dtype->span(),
                      in_backticks(dtype->text()) + " is no dtype");
      }
    }
    return result;
  }

  bool shape(const Node& node, ModuleStep& result) {
    const auto list = node.find("shape");
    if (!list || !list->is_list()) {
      refuse(list ? list->span() : result.where,
             in_backticks(result.name) + " has no list `shape`");
      return false;
    }
    for (size_t i = 0; i < list->size(); ++i) {
      auto read = dim(list->item(i));
      if (!read) return false;
      result.dims.push_back(*std::move(read));
    }
    return true;
  }

  bool linear_options(const Node& node, ModuleStep& result) {
    if (const auto stored = node.find("stored")) {
      result.inputs_first = stored->text() == "in_out";
      if (!result.inputs_first && stored->text() != "out_in") {
        refuse(stored->span(), "`stored` is `in_out` or `out_in`");
        return false;
      }
    }
    if (const auto quantised = node.find("quantised")) {
      const auto value = quantised->boolean();
      if (!value) {
        refuse(quantised->span(), "`quantised` is true or false");
        return false;
      }
      result.quantised = *value;
    }
    for (const auto& [key, member] :
         {std::pair{"weight_name", &ModuleStep::weight_name},
          std::pair{"bias_name", &ModuleStep::bias_name}}) {
      const auto at = node.find(key);
      if (!at) continue;
      auto read = text(*at, in_backticks(key));
      if (!read) return false;
      result.*member = *std::move(read);
    }
    return true;
  }

  std::optional<ModuleStep> section(const Node& node, ModuleStep result) {
    if (!known_keys(node, {"section", "name", "block", "when"})) {
      return std::nullopt;
    }
    result.kind = ModuleStep::Kind::Section;
    result.what = std::exchange(result.name, "");
    result.part = "body";
    for (const auto& [key, member] : {std::pair{"name", &ModuleStep::name},
                                      std::pair{"block", &ModuleStep::part}}) {
      const auto at = node.find(key);
      if (!at) continue;
      auto read = text(*at, in_backticks(key));
      if (!read) return std::nullopt;
      result.*member = *std::move(read);
    }
    return result;
  }

  std::optional<ModuleStep> block(const Node& node, ModuleStep result) {
    result.kind = ModuleStep::Kind::Block;
    for (size_t i = 1; i < node.size(); ++i) {
      if (node.key(i) == "when") continue;
      auto value = expression(node.item(i));
      if (!value) return std::nullopt;
      result.arguments.emplace_back(node.key(i), *std::move(value));
    }
    return result;
  }

  Diagnostics& diags_;
};

std::optional<ModuleBlock> read_block(Reader& reader, const Node& map,
                                      size_t index, Diagnostics& diags) {
  ModuleBlock block;
  block.name = std::string(map.key(index));
  block.where = map.key_span(index);
  const Node node = map.item(index);
  if (node.is_list()) {
    block.steps = reader.steps(node);
    return block;
  }
  if (!require(node, NodeKind::Map, "a block", diags) ||
      !reader.known_keys(node, {"takes", "steps"})) {
    return std::nullopt;
  }
  const auto takes = node.find("takes");
  if (takes && !require(*takes, NodeKind::Map, "`takes`", diags)) {
    return std::nullopt;
  }
  for (size_t i = 0; takes && i < takes->size(); ++i) {
    BlockArgument argument{std::string(takes->key(i)), {}};
    if (!takes->item(i).is_null()) {
      argument.otherwise = reader.expression(takes->item(i));
      if (!argument.otherwise) return std::nullopt;
    }
    block.takes.push_back(std::move(argument));
  }
  const auto steps = node.find("steps");
  if (!steps) {
    return reader.refuse(
        block.where, "block " + in_backticks(block.name) + " has no `steps`");
  }
  block.steps = reader.steps(*steps);
  return block;
}

bool read_block_map(Reader& reader, const Node& map, Blocks& blocks,
                    Diagnostics& diags) {
  if (!require(map, NodeKind::Map, "`blocks`", diags)) return false;
  for (size_t i = 0; i < map.size(); ++i) {
    const std::string_view name = map.key(i);
    const bool taken =
        name == "repeat" || name == "switch" || name == "section" ||
        name == "when" ||
        std::any_of(module_kinds().begin(), module_kinds().end(),
                    [&](const ModuleKind& kind) { return kind.name == name; });
    if (taken) {
      reader.refuse(map.key_span(i),
                    in_backticks(name) + " cannot be the name of a block");
      continue;
    }
    if (auto block = read_block(reader, map, i, diags)) {
      blocks.insert_or_assign(block->name, *std::move(block));
    }
  }
  return true;
}

struct ValueSection {
  const char* key;
  ValueRule::Kind kind;
  int64_t most;
};
constexpr std::array<ValueSection, 7> kValueSections = {{
    {"sizes", ValueRule::Kind::Size, kMaxSize},
    {"counts", ValueRule::Kind::Size, kMaxCount},
    {"flags", ValueRule::Kind::Flag, 1},
    {"numbers", ValueRule::Kind::Number, 0},
    {"texts", ValueRule::Kind::Text, 0},
    {"lists", ValueRule::Kind::Integers, 0},
    {"tables", ValueRule::Kind::Table, 0},
}};

class ArchitectureReader {
 public:
  ArchitectureReader(const Blocks& shared, const FindArchitecture& find,
                     Diagnostics& diags)
      : shared_(shared), find_(find), diags_(diags), reader_(diags) {}

  std::shared_ptr<const Architecture> run(const SourcePtr& source) {
    const int64_t errors = diags_.count(Severity::Error);
    const auto document = parse_document(source, diags_);
    if (!document) return nullptr;
    const auto root =
        require(document->root(), NodeKind::Map, "an architecture", diags_);
    if (!root) return nullptr;
    if (!reader_.known_keys(
            *root, {"architecture", "summary", "like", "model_types", "sizes",
                    "counts", "flags", "numbers", "texts", "lists", "tables",
                    "require", "quantisations", "ignored_keys", "blocks",
                    "sections", "classes"})) {
      return nullptr;
    }
    auto result = std::make_shared<Architecture>();
    if (const auto like = root->find("like")) {
      const auto base = find_(like->text());
      if (base == nullptr) {
        reader_.refuse(like->span(), "there is no architecture " +
                                         in_backticks(like->text()));
        return nullptr;
      }
      *result = *base;
      result->classes.clear();
      result->model_types.clear();
      result->like = base->name;
    } else {
      result->blocks = shared_;
    }
    result->sources.push_back(source);
    read_head(*root, *result);
    for (const ValueSection& section : kValueSections) {
      if (const auto map = root->find(section.key)) {
        read_values(*map, section, *result);
      }
    }
    if (const auto list = root->find("require")) {
      read_requirements(*list, *result);
    }
    if (const auto map = root->find("sections")) read_sections(*map, *result);
    if (const auto map = root->find("blocks")) {
      read_block_map(reader_, *map, result->blocks, diags_);
    }
    if (const auto map = root->find("classes")) read_tasks(*map, *result);
    if (result->classes.empty()) {
      reader_.refuse(root->span(), "the architecture names no `classes`");
    }
    if (diags_.count(Severity::Error) == errors) check_names(*result, diags_);
    return diags_.count(Severity::Error) == errors ? result : nullptr;
  }

 private:
  void read_head(const Node& root, Architecture& result) {
    const auto name = root.find("architecture");
    if (!name) {
      reader_.refuse(root.span(), "the file names no `architecture`");
    } else if (auto read = reader_.text(*name, "`architecture`")) {
      result.name = *std::move(read);
    }
    if (const auto summary = root.find("summary")) {
      result.summary = reader_.text(*summary, "`summary`").value_or("");
    }
    if (const auto types = root.find("model_types")) {
      result.model_types = reader_.texts(*types, "`model_types`");
    }
    if (const auto keys = root.find("ignored_keys")) {
      result.ignored_keys = reader_.texts(*keys, "`ignored_keys`");
    }
    if (const auto methods = root.find("quantisations")) {
      result.quantisations = reader_.texts(*methods, "`quantisations`");
    }
  }

  void read_values(const Node& map, const ValueSection& section,
                   Architecture& result) {
    if (!require(map, NodeKind::Map, in_backticks(section.key), diags_)) return;
    for (size_t i = 0; i < map.size(); ++i) {
      if (result.values.size() >= kMaxValues) {
        reader_.refuse(map.key_span(i), "there are too many names");
        return;
      }
      ValueRule rule;
      rule.name = std::string(map.key(i));
      rule.where = map.key_span(i);
      rule.kind = section.kind;
      rule.most = section.most;
      if (!read_value(map.item(i), rule)) continue;
      const auto known = std::find_if(
          result.values.begin(), result.values.end(),
          [&](const ValueRule& other) { return other.name == rule.name; });
      if (known == result.values.end()) {
        result.values.push_back(std::move(rule));
      } else {
        *known = std::move(rule);  // of the architecture that this one is like
      }
    }
  }

  bool read_value(const Node& node, ValueRule& rule) {
    if (!node.is_map()) {
      rule.keys = reader_.texts(node, "a key of the config");
      return !rule.keys.empty();
    }
    if (!reader_.known_keys(
            node, {"key", "else", "if_absent", "if_null", "is", "count_of",
                   "least", "most", "values", "other"})) {
      return false;
    }
    for (const auto& [key, members] :
         {std::pair{"else", std::vector{&ValueRule::otherwise}},
          std::pair{"if_absent", std::vector{&ValueRule::absent}},
          std::pair{"if_null", std::vector{&ValueRule::null}},
          std::pair{"is", std::vector{&ValueRule::is}},
          std::pair{"other", std::vector{&ValueRule::other_words}}}) {
      const auto at = node.find(key);
      if (!at) continue;
      const auto value = reader_.expression(*at);
      if (!value) return false;
      for (const auto member : members) rule.*member = value;
    }
    if (const auto counted = node.find("count_of")) {
      auto read = reader_.text(*counted, "`count_of`");
      if (!read) return false;
      rule.counted = *std::move(read);
    }
    if (const auto keys = node.find("key")) {
      rule.keys = reader_.texts(*keys, "a key of the config");
    }
    for (const auto& [key, member] : {std::pair{"least", &ValueRule::least},
                                      std::pair{"most", &ValueRule::most}}) {
      const auto at = node.find(key);
      if (!at) continue;
      const auto number = at->integer();
      if (!number || *number < 0 || *number > kMaxSize) {
        reader_.refuse(at->span(), in_backticks(key) + " is from 0 to " +
                                       count_text(kMaxSize));
        return false;
      }
      rule.*member = *number;
    }
    if (const auto words = node.find("values")) {
      if (!require(*words, NodeKind::Map, "`values`", diags_)) return false;
      for (size_t i = 0; i < words->size(); ++i) {
        auto value = reader_.expression(words->item(i));
        if (!value) return false;
        rule.words.emplace_back(words->key(i), *std::move(value));
      }
    }
    if (rule.keys.empty() != rule.is.has_value()) {
      reader_.refuse(rule.where,
                     in_backticks(rule.name) + " has either a `key` or `is`");
      return false;
    }
    return true;
  }

  void read_requirements(const Node& list, Architecture& result) {
    if (!require(list, NodeKind::List, "`require`", diags_)) return;
    for (size_t i = 0; i < list.size(); ++i) {
      const Node node = list.item(i);
      if (!require(node, NodeKind::Map, "a requirement", diags_) ||
          !reader_.known_keys(node, {"that", "key", "else", "facts"})) {
        continue;
      }
      const auto that = node.find("that");
      const auto message = node.find("else");
      if (!that || !message) {
        reader_.refuse(node.span(), "a requirement has `that` and `else`");
        continue;
      }
      auto read = reader_.expression(*that);
      if (!read) continue;
      Requirement requirement{
          node.span(), *std::move(read), "", std::string(message->text()), {}};
      if (const auto key = node.find("key")) {
        requirement.key = std::string(key->text());
      }
      if (const auto facts = node.find("facts")) {
        requirement.facts = reader_.texts(*facts, "`facts`");
      }
      result.requirements.push_back(std::move(requirement));
    }
  }

  void read_sections(const Node& map, Architecture& result) {
    if (!require(map, NodeKind::Map, "`sections`", diags_)) return;
    for (size_t i = 0; i < map.size(); ++i) {
      const Node node = map.item(i);
      if (!require(node, NodeKind::Map, "a section", diags_) ||
          !reader_.known_keys(node, {"key", "architecture", "any"})) {
        continue;
      }
      const auto key = node.find("key");
      const auto name = node.find("architecture");
      if (!key || !name) {
        reader_.refuse(map.key_span(i),
                       "a section has `key` and `architecture`");
        continue;
      }
      auto of = find_(name->text());
      if (of == nullptr) {
        reader_.refuse(name->span(), "there is no architecture " +
                                         in_backticks(name->text()));
        continue;
      }
      ConfigSection section{std::string(map.key(i)), map.key_span(i),
                            std::string(key->text()), std::move(of), false};
      if (const auto any = node.find("any")) {
        section.by_model_type = any->boolean().value_or(false);
        if (!any->boolean()) {
          reader_.refuse(any->span(), "`any` is true or false");
          continue;
        }
      }
      result.sections.push_back(std::move(section));
    }
  }

  void read_tasks(const Node& map, Architecture& result) {
    if (!require(map, NodeKind::Map, "`classes`", diags_)) return;
    for (size_t i = 0; i < map.size(); ++i) {
      result.classes.push_back({std::string(map.key(i)), map.key_span(i),
                                reader_.steps(map.item(i))});
    }
  }

  const Blocks& shared_;
  const FindArchitecture& find_;
  Diagnostics& diags_;
  Reader reader_;
};

}  // namespace

const ValueRule* Architecture::find_value(std::string_view wanted) const {
  for (const ValueRule& rule : values) {
    if (rule.name == wanted) return &rule;
  }
  return nullptr;
}

const ModelClass* Architecture::find_class(std::string_view class_name) const {
  for (const ModelClass& model_class : classes) {
    if (model_class.class_name == class_name) return &model_class;
  }
  return nullptr;
}

const ConfigSection* Architecture::find_section(std::string_view wanted) const {
  for (const ConfigSection& section : sections) {
    if (section.name == wanted) return &section;
  }
  return nullptr;
}

std::shared_ptr<const Architecture> read_architecture(
    const SourcePtr& source, const Blocks& shared, const FindArchitecture& find,
    Diagnostics& diags) {
  return ArchitectureReader(shared, find, diags).run(source);
}

std::optional<Blocks> read_blocks(const SourcePtr& source, Diagnostics& diags) {
  const int64_t errors = diags.count(Severity::Error);
  const auto document = parse_document(source, diags);
  if (!document) return std::nullopt;
  const auto root =
      require(document->root(), NodeKind::Map, "a file of blocks", diags);
  if (!root) return std::nullopt;
  Reader reader(diags);
  Blocks blocks;
  if (!reader.known_keys(*root, {"blocks"})) return std::nullopt;
  if (const auto map = root->find("blocks")) {
    read_block_map(reader, *map, blocks, diags);
  }
  for (auto& [name, block] : blocks) block.shared = true;
  if (diags.count(Severity::Error) != errors) return std::nullopt;
  return blocks;
}

}  // namespace shardplan
