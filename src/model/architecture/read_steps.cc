// SPDX-License-Identifier: Apache-2.0
// Reads expressions, dimensions, steps and blocks of an architecture file.
#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/words.h"
#include "model/architecture/reading.h"

namespace shardplan {
namespace {

constexpr int kMaxNesting = 16;

struct RoleName {
  std::string_view name;
  LinearRole role;
};
constexpr RoleName kRoles[] = {
    {"true", LinearRole::Layer},      {"false", LinearRole::Parameter},
    {"head", LinearRole::Head},       {"last", LinearRole::Last},
    {"gate", LinearRole::Gate},       {"router", LinearRole::Router},
    {"experts", LinearRole::Experts}, {"grouped", LinearRole::Grouped},
};

// The value of `tokens` for an encoder whose number of tokens depends on the
// input.
constexpr std::string_view kSource = "source";
constexpr std::string_view kNothing = "nothing";

}  // namespace

Diagnostics::Builder StepReader::refuse(Span where, std::string message) {
  return diags_.error(Code::InvalidArchitecture, where, std::move(message));
}

std::optional<Expression> StepReader::expression(const Node& node) {
  if (node.is_list()) return integers(node);
  if (node.is_map() || node.is_null()) {
    return refuse(node.span(),
                  "an expression must be a string or a number, not " +
                      std::string(kind_name(node.kind())));
  }
  std::string why;
  auto read = parse_expression(node.text(), node.span(), why);
  if (read) return read;
  return refuse(node.span(), in_backticks(node.text()) +
                                 " is not a valid expression: " + why);
}

std::optional<std::string> StepReader::text(const Node& node,
                                            std::string_view what) {
  if (node.is_list() || node.is_map() || node.is_null()) {
    return refuse(node.span(), std::string(what) + " must be a string, not " +
                                   std::string(kind_name(node.kind())));
  }
  return std::string(node.text());
}

std::vector<std::string> StepReader::texts(const Node& node,
                                           std::string_view what) {
  std::vector<std::string> names;
  for (size_t i = 0; i < (node.is_list() ? node.size() : 1); ++i) {
    auto one = text(node.is_list() ? node.item(i) : node, what);
    if (one) names.push_back(*std::move(one));
  }
  return names;
}

bool StepReader::known_keys(const Node& map, std::vector<std::string> known) {
  return reject_unknown_keys(map, known, diags_);
}

bool StepReader::optional(const Node& map, std::string_view key,
                          std::optional<Expression>& value) {
  const auto at = map.find(key);
  if (!at) return true;
  value = expression(*at);
  return value.has_value();
}

bool StepReader::optional(const Node& map, std::string_view key,
                          std::optional<DType>& value) {
  const auto at = map.find(key);
  if (!at) return true;
  value = find_dtype(at->text());
  if (!value) refuse(at->span(), in_backticks(at->text()) + " is not a dtype");
  return value.has_value();
}

bool StepReader::optional(const Node& map, std::string_view key,
                          std::string& value) {
  const auto at = map.find(key);
  if (!at) return true;
  auto read = text(*at, in_backticks(key));
  if (read) value = *std::move(read);
  return read.has_value();
}

bool StepReader::optional(const Node& map, std::string_view key,
                          std::vector<std::string>& value) {
  const auto at = map.find(key);
  if (!at) return true;
  value = texts(*at, in_backticks(key));
  return !value.empty();
}

bool StepReader::optional(const Node& map, std::string_view key, bool& value) {
  const auto at = map.find(key);
  if (!at) return true;
  const auto read = at->boolean();
  if (!read) refuse(at->span(), in_backticks(key) + " must be true or false");
  value = read.value_or(false);
  return read.has_value();
}

std::optional<DimTree> StepReader::dim(const Node& node, int depth) {
  if (depth > kMaxNesting) {
    return refuse(node.span(), "a dimension nests too deeply");
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

std::vector<ModuleStep> StepReader::steps(const Node& list,
                                          std::vector<StateStep>& state_steps,
                                          int depth) {
  std::vector<ModuleStep> result;
  if (depth > kMaxNesting) {
    refuse(list.span(), "steps nest too deeply");
    return result;
  }
  if (!require(list, NodeKind::List, "`steps`", diags_)) return result;
  for (size_t i = 0; i < list.size(); ++i) {
    const Node item = list.item(i);
    if (item.is_map() && item.size() > 0 &&
        contains(kStateSteps, item.key(0))) {
      auto one = state_step(item);
      if (one) state_steps.push_back(*std::move(one));
    } else if (auto one = step(item, depth)) {
      result.push_back(*std::move(one));
    }
  }
  return result;
}

std::optional<Expression> StepReader::integers(const Node& list) {
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < list.size(); ++i) {
    const auto number = list.item(i).integer();
    if (!number)
      return refuse(list.item(i).span(), "a list may hold only integers");
    numbers.push_back(*number);
  }
  return constant_expression(ConfigValue::of(std::move(numbers)), list.span());
}

std::optional<ModuleStep> StepReader::step(const Node& node, int depth) {
  if (!require(node, NodeKind::Map, "a step", diags_)) return std::nullopt;
  if (node.size() == 0) return refuse(node.span(), "a step is empty");
  // The first key of a step is its kind.
  const std::string_view what = node.key(0);
  ModuleStep result;
  result.where = node.key_span(0);
  result.what = std::string(what);
  if (what != "when" && !optional(node, "when", result.when)) {
    return std::nullopt;
  }
  if (what == "repeat") return repeat(node, depth, std::move(result));
  if (what == "switch") {
    result.kind = ModuleStep::Kind::Switch;
    const bool good =
        known_keys(node, {"switch"}) &&
        cases(node.item(0), result.cases, [&](const Node& of, ModuleCase& one) {
          one.steps = steps(of, one.state_steps, depth + 1);
        });
    return good ? std::optional(std::move(result)) : std::nullopt;
  }
  const auto name = text(node.item(0), in_backticks(what));
  if (!name) return std::nullopt;
  result.name = *name;
  if (const ModuleKind* const kind = find_named(module_kinds(), what)) {
    return module(node, *kind, std::move(result));
  }
  if (what == "section") return section(node, std::move(result));
  return block(node, std::move(result));
}

std::optional<ModuleStep> StepReader::repeat(const Node& node, int depth,
                                             ModuleStep result) {
  if (!known_keys(node, {"repeat", "name", "index", "start", "stored", "when",
                         "steps"})) {
    return std::nullopt;
  }
  result.kind = ModuleStep::Kind::Repeat;
  result.count = expression(node.item(0));
  if (!result.count) return std::nullopt;
  result.index = "i";
  if (!optional(node, "index", result.index) ||
      !optional(node, "start", result.start)) {
    return std::nullopt;
  }
  const auto name = node.find("name");
  if (!name) return refuse(result.where, "`repeat` has no `name`");
  if (!optional(node, "name", result.name)) return std::nullopt;
  if (const auto stored = node.find("stored")) {
    result.stacked = stored->text() == "stacked";
    if (!result.stacked) {
      return refuse(stored->span(),
                    "`stored` of `repeat` must be `stacked` or absent");
    }
  }
  const bool numbered = contains(result.name, "{" + result.index + "}");
  if (numbered == result.stacked) {
    return refuse(name->span(),
                  result.stacked ? "the name of a stack must have no index"
                                 : "the name lacks `{" + result.index + "}`");
  }
  const auto steps_node = node.find("steps");
  if (!steps_node) return refuse(result.where, "`repeat` has no `steps`");
  result.steps = steps(*steps_node, result.state_steps, depth + 1);
  return result;
}

std::optional<ModuleStep> StepReader::module(const Node& node,
                                             const ModuleKind& kind,
                                             ModuleStep result) {
  result.kind = kind.kind;
  const bool plain = kind.dims.empty();
  std::vector<std::string> known = {std::string(kind.name), "when", "dtype"};
  if (plain) known.emplace_back("shape");
  known.insert(known.end(), kind.dims.begin(), kind.dims.end());
  if (kind.kind == ModuleStep::Kind::Linear) {
    known.insert(known.end(),
                 {"bias", "weight_name", "bias_name", "stored", "quantised"});
  }
  if (kind.kind == ModuleStep::Kind::LayerNorm) known.emplace_back("bias");
  const bool is_norm = kind.kind == ModuleStep::Kind::LayerNorm ||
                       kind.kind == ModuleStep::Kind::RmsNorm;
  if (is_norm) known.emplace_back("offset");
  if (!known_keys(node, known)) return std::nullopt;
  // A norm alone in a block can use the name of the block.
  if (result.name.empty() && !is_norm) {
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
  if (plain) {
    const auto list = node.find("shape");
    if (!list || !list->is_list()) {
      return refuse(list ? list->span() : result.where,
                    in_backticks(result.name) + " needs a list `shape`");
    }
    if (!dims(*list, result.dims)) return std::nullopt;
  }
  const bool good = optional(node, "bias", result.bias) &&
                    optional(node, "offset", result.offset) &&
                    linear_options(node, result) &&
                    optional(node, "dtype", result.dtype);
  return good ? std::optional(std::move(result)) : std::nullopt;
}

bool StepReader::dims(const Node& list, std::vector<DimTree>& result) {
  for (size_t i = 0; i < list.size(); ++i) {
    auto read = dim(list.item(i));
    if (!read) return false;
    result.push_back(*std::move(read));
  }
  return true;
}

bool StepReader::linear_options(const Node& node, ModuleStep& result) {
  if (const auto stored = node.find("stored")) {
    result.inputs_first = stored->text() == "in_out";
    if (!result.inputs_first && stored->text() != "out_in") {
      refuse(stored->span(), "`stored` must be `in_out` or `out_in`");
      return false;
    }
  }
  if (const auto quantised = node.find("quantised")) {
    const RoleName* const role = find_named(kRoles, quantised->text());
    if (role == nullptr) {
      refuse(quantised->span(),
             "`quantised` must be `true`, `false`, `head`, `last`, `gate`, "
             "`router` or `experts`");
      return false;
    }
    result.role = role->role;
  }
  return optional(node, "weight_name", result.weight_name) &&
         optional(node, "bias_name", result.bias_name);
}

std::optional<StateStep> StepReader::state_step(const Node& node) {
  StateStep result;
  result.where = node.key_span(0);
  const std::string_view what = node.key(0);
  std::vector<std::string> known = {std::string(what), "when"};
  if (what == "cache") {
    known.insert(known.end(), {"of", "window", "every", "tokens"});
  } else if (what == "state") {
    result.kind = StateStep::Kind::State;
    known.insert(known.end(), {"shape", "dtype"});
  } else {
    result.kind = StateStep::Kind::Nothing;
  }
  auto name = text(node.item(0), in_backticks(what));
  if (!name || !known_keys(node, known)) return std::nullopt;
  result.name = *std::move(name);
  if (!optional(node, "when", result.when)) return std::nullopt;
  if (result.kind == StateStep::Kind::Nothing) {
    if (result.name == kNothing) return result;
    return refuse(node.item(0).span(),
                  "`keeps` must be `nothing`; give what a layer keeps in "
                  "`cache` and `state`");
  }
  if (result.name.empty()) {
    return refuse(result.where, in_backticks(what) + " has no name");
  }
  if (!state_elements(node, result)) return std::nullopt;
  return result;
}

bool StepReader::state_elements(const Node& node, StateStep& result) {
  const bool cache = result.kind == StateStep::Kind::Cache;
  const std::string_view key = cache ? "of" : "shape";
  const auto elements = node.find(key);
  const bool listed = elements && elements->is_list();
  if (!elements || listed == cache || (listed && elements->size() == 0)) {
    refuse(elements ? elements->span() : result.where,
           in_backticks(result.name) +
               (cache ? " needs `of`, the elements per token"
                      : " needs a list `shape`"));
    return false;
  }
  if (cache) {
    auto read = dim(*elements);
    if (!read) return false;
    result.dims.push_back(*std::move(read));
  } else if (!dims(*elements, result.dims)) {
    return false;
  }
  const auto window = node.find("window");
  const auto tokens = node.find("tokens");
  if (window && tokens) {
    refuse(tokens->span(),
           "give either `window`, of generated tokens, or `tokens`, of an "
           "encoder's tokens");
    return false;
  }
  result.source = tokens.has_value();
  if (!optional(node, "window", result.window)) return false;
  const auto every = node.find("every");
  if (every && (window || tokens)) {
    refuse(every->span(),
           "`every` applies to all generated tokens: it cannot be combined "
           "with `window` or `tokens`");
    return false;
  }
  const bool counted = tokens && tokens->text() != kSource;
  return optional(node, "every", result.every) &&
         (!counted || optional(node, "tokens", result.tokens)) &&
         optional(node, "dtype", result.dtype);
}

std::optional<ModuleStep> StepReader::section(const Node& node,
                                              ModuleStep result) {
  if (!known_keys(node, {"section", "name", "block", "when"})) {
    return std::nullopt;
  }
  result.kind = ModuleStep::Kind::Section;
  result.what = std::exchange(result.name, "");
  result.part = "body";
  if (!optional(node, "name", result.name) ||
      !optional(node, "block", result.part)) {
    return std::nullopt;
  }
  return result;
}

std::optional<ModuleStep> StepReader::block(const Node& node,
                                            ModuleStep result) {
  result.kind = ModuleStep::Kind::Block;
  for (size_t i = 1; i < node.size(); ++i) {
    if (node.key(i) == "when") continue;
    auto value = expression(node.item(i));
    if (!value) return std::nullopt;
    result.arguments.emplace_back(node.key(i), *std::move(value));
  }
  return result;
}

std::optional<ModuleBlock> StepReader::one_block(const Node& map,
                                                 size_t index) {
  ModuleBlock block;
  block.name = std::string(map.key(index));
  block.where = map.key_span(index);
  const Node node = map.item(index);
  if (node.is_list()) {
    block.steps = steps(node, block.state_steps);
    return block;
  }
  if (!require(node, NodeKind::Map, "a block", diags_) ||
      !known_keys(node, {"takes", "steps", "forward"})) {
    return std::nullopt;
  }
  const auto takes = node.find("takes");
  if (takes && !arguments(*takes, block.takes)) return std::nullopt;
  const auto steps = node.find("steps");
  if (steps) block.steps = this->steps(*steps, block.state_steps);
  if (const auto computed = node.find("forward")) {
    block.forward = forward(*computed, block.steps);
    if (!block.forward) return std::nullopt;
  } else if (!steps) {
    return refuse(block.where, "block " + in_backticks(block.name) +
                                   " has neither `steps` nor `forward`");
  }
  return block;
}

bool StepReader::arguments(const Node& node,
                           std::vector<BlockArgument>& takes) {
  if (!require(node, NodeKind::Map, "arguments", diags_)) return false;
  for (size_t i = 0; i < node.size(); ++i) {
    BlockArgument argument{std::string(node.key(i)), {}};
    if (!node.item(i).is_null()) {
      argument.otherwise = expression(node.item(i));
      if (!argument.otherwise) return false;
    }
    takes.push_back(std::move(argument));
  }
  return true;
}

bool StepReader::blocks(const Node& map, ModuleBlocks& blocks) {
  if (!require(map, NodeKind::Map, "`blocks`", diags_)) return false;
  for (size_t i = 0; i < map.size(); ++i) {
    const std::string_view name = map.key(i);
    if (has_word("repeat switch section when", name) ||
        contains(kStateSteps, name) ||
        find_named(module_kinds(), name) != nullptr) {
      refuse(map.key_span(i),
             in_backticks(name) + " cannot be the name of a block");
      continue;
    }
    auto block = one_block(map, i);
    if (block && block->steps.empty() && is_statement_function(name)) {
      refuse(map.key_span(i), in_backticks(name) +
                                  " cannot be the name of a block: statements "
                                  "have a function of this name");
      continue;
    }
    if (block) {
      blocks.insert_or_assign(block->name, *std::move(block));
    }
  }
  return true;
}

}  // namespace shardplan
