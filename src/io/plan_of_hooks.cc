// SPDX-License-Identifier: Apache-2.0
// What the dialects of plans that module hooks run have in common: their last
// rule, and how entries of such a plan are written, for advice.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "io/dialects.h"

namespace shardplan {
namespace {

// Projections into and out of an attention or MLP block. Hooks run only the
// collectives that the styles name, so a block is correct only if the
// projections into it are sharded over their outputs and those out of it over
// their inputs.
constexpr std::array<std::string_view, 11> kInto = {
    "q_proj",    "k_proj",  "v_proj", "wq", "wk", "wv",
    "gate_proj", "up_proj", "w1",     "w3", "fc1"};
constexpr std::array<std::string_view, 6> kOutOf = {
    "o_proj", "wo", "out_proj", "down_proj", "w2", "fc2"};

enum class Way : uint8_t { Into, OutOf };

std::optional<Way> way_of(std::string_view module) {
  if (contains(kInto, module)) return Way::Into;
  if (contains(kOutOf, module)) return Way::OutOf;
  return std::nullopt;
}

// Returns how a spec shards a weight of shape [out, in]: Into over the outputs,
// OutOf over the inputs; nullopt if it does neither or both.
std::optional<Way> way_of(const PartitionSpec& spec, bool from_last) {
  std::vector<AxisNames> dims = spec.dims;
  if (from_last && dims.size() == 1) dims.insert(dims.begin(), AxisNames());
  dims.resize(std::max<size_t>(2, dims.size()));
  if (dims.size() > 2 || dims[0].empty() == dims[1].empty()) {
    return std::nullopt;
  }
  return dims[0].empty() ? Way::OutOf : Way::Into;
}

std::pair<std::string_view, std::string_view> split(std::string_view key) {
  const size_t dot = key.rfind('.');
  if (dot == std::string_view::npos) return {"", key};
  return {key.substr(0, dot), key.substr(dot + 1)};
}

std::string_view unquoted(std::string_view text) {
  if (text.size() > 1 && (text[0] == '"' || text[0] == '\'')) {
    text.remove_prefix(1);
    text.remove_suffix(1);
  }
  return text;
}

// Returns the value of an entry as it is written: a string, or a call with its
// arguments.
std::string_view style_of(const Rule& rule) {
  const std::string_view text = rule.spec_where.file->text();
  const size_t begin = rule.spec_where.begin;
  size_t end = rule.spec_where.end;
  int depth = 0;
  for (size_t i = end; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')' && depth > 0 && --depth == 0) {
      end = i + 1;
      break;
    }
    const bool goes_on = text[i] == '.' || text[i] == '_' || is_letter(text[i]);
    if (depth == 0 && !goes_on) break;
  }
  return text.substr(begin, end - begin);
}

// Writes an entry for a module of a block whose other modules the plan shards:
// the key has its neighbours' prefix, the style is that of similar modules.
std::optional<std::string> entry_for(const RuleSet& rules,
                                     std::string_view name, Way wanted) {
  const auto [module, leaf] = split(name);
  const auto [parent, last] = split(module);
  if (leaf != "weight" || way_of(last) != wanted) return std::nullopt;
  const Rule* partner = nullptr;  // the opposite way, in the same block
  const Rule* like = nullptr;     // the same way, preferably in the same block
  std::string_view prefix;
  bool is_near = false;
  for (const Rule& rule : rules.rules) {
    if (rule.by_dialect || rule.shipped || !rule.where.file) continue;
    const auto way = way_of(rule.spec, rule.from_last);
    const auto [of, own] = split(unquoted(rule.where.text()));
    if (!way || way_of(own) != way) continue;
    const bool is_beside =
        parent == of || (parent.ends_with(of) && !of.empty() &&
                         parent[parent.size() - of.size() - 1] == '.');
    if (is_beside && *way != wanted && partner == nullptr) {
      partner = &rule;
      prefix = of;
    }
    if (*way == wanted && (like == nullptr || (is_beside && !is_near))) {
      like = &rule;
      is_near = is_beside;
    }
  }
  if (partner == nullptr) return std::nullopt;
  std::string style;
  if (like != nullptr) {
    style = style_of(*like);
  } else {
    const bool calls = contains(style_of(*partner), '(');
    style = wanted == Way::Into ? (calls ? "ColwiseParallel()" : "\"colwise\"")
                                : (calls ? "RowwiseParallel()" : "\"rowwise\"");
  }
  return "\"" + std::string(prefix) + "." + std::string(last) + "\": " + style;
}

std::optional<std::string> write_entries(const RuleSet& rules,
                                         const WantedRule& wanted) {
  const auto way = way_of(wanted.spec, false);
  if (!way || wanted.names.empty()) return std::nullopt;
  std::string text;
  for (const std::string& name : wanted.names) {
    const auto entry = entry_for(rules, name, *way);
    if (!entry) return std::nullopt;
    text += (text.empty() ? "" : ", ") + *entry;
  }
  return text;
}

constexpr RuleForm kHooksForm = {
    write_entries, nullptr, "the plan",
    "no single entry is enough: hooks run only the collectives of their "
    "styles, so shard all modules of a block together, and give an embedding "
    "or a head a style that gathers"};

}  // namespace

void end_plan_of_hooks(std::string_view axis, Span where, RuleSet& rules) {
  Rule rest;
  rest.pattern = ".*";
  rest.where = where;
  rest.spec_where = where;
  rest.by_dialect = true;
  rest.hook.task = ModuleHook::Task::None;
  rules.rules.push_back(std::move(rest));
  AxisNames& axes = rules.declared_axes;
  if (!contains(axes, axis)) axes.emplace_back(axis);
  rules.run_as = RunAs::Hooks;
  rules.hook_axis = axis;
  rules.form = &kHooksForm;
}

}  // namespace shardplan
