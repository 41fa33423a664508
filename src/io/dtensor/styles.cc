// SPDX-License-Identifier: Apache-2.0
#include "io/dtensor/styles.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/text.h"
#include "base/words.h"
#include "io/dialects.h"
#include "io/dtensor/placements.h"
#include "syntax/python_program.h"

namespace shardplan {
namespace {

constexpr std::string_view kAxis = "tp";
// The prefix that a name may have before the path in a key: a layer's number,
// or the base model within a model with a head.
constexpr std::string_view kBefore =
    "^(?:(?:.*\\.)?\\d+\\.|(?:model|transformer|language_model|module)\\.)?";

enum class Style : uint8_t { Column, Row, Whole, Input };

using Task = ModuleHook::Task;

// `Float8ColwiseParallel` and torchtitan's `colwise_parallel` shard parameters
// in the same way.
std::optional<Style> find_style(std::string_view name) {
  std::string plain = lower_case(name);
  std::erase(plain, '_');
  if (plain.ends_with("colwiseparallel")) return Style::Column;
  if (plain.ends_with("rowwiseparallel")) return Style::Row;
  if (plain.ends_with("sequenceparallel") || plain == "noparallel") {
    return Style::Whole;
  }
  if (plain.starts_with("prepare") && contains(plain, "module")) {
    return Style::Input;
  }
  return std::nullopt;
}

// Returns the name that a value calls: "ColwiseParallel" for
// `tp.ColwiseParallel(..)`.
std::string called_name(std::span<const PythonToken> tokens,
                        const PythonEntry& entry) {
  size_t at = entry.begin;
  if (at >= entry.end || tokens[at].kind != PythonTokenKind::Name) return "";
  const std::string name = read_last_name(tokens.first(entry.end), at);
  return at < entry.end && tokens[at].is("(") ? name : "";
}

// Returns 1 for an opening bracket, -1 for a closing one, else 0.
int nesting(const PythonToken& token) {
  if (token.is("(") || token.is("[") || token.is("{")) return 1;
  return token.is(")") || token.is("]") || token.is("}") ? -1 : 0;
}

// Returns whether nothing follows the call.
bool is_call_alone(std::span<const PythonToken> tokens,
                   const PythonEntry& entry) {
  int depth = 0;
  for (size_t i = entry.begin; i < entry.end; ++i) {
    const int change = nesting(tokens[i]);
    depth += change;
    if (change < 0 && depth == 0) return i + 1 == entry.end;
  }
  return false;
}

// Returns the tokens of a call's argument, those after `NAME=`; empty if the
// argument is absent.
std::span<const PythonToken> argument(std::span<const PythonToken> call,
                                      std::string_view name) {
  int depth = 0;
  for (size_t i = 0; i + 1 < call.size(); ++i) {
    depth += nesting(call[i]);
    if (depth != 1 || !call[i].is(name) || !call[i + 1].is("=")) continue;
    size_t end = i + 2;
    for (int inside = 0; end < call.size(); ++end) {
      if (inside == 0 && (call[end].is(",") || call[end].is(")"))) break;
      inside += nesting(call[end]);
    }
    return call.subspan(i + 2, end - i - 2);
  }
  return {};
}

// Returns Tokens for `Shard(1)` and Whole for `Replicate()`; in a tuple, the
// first that is not None counts. Returns nullopt for anything else.
std::optional<HookLayout> layout_in(std::span<const PythonToken> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].is("Replicate")) return HookLayout::Whole;
    if (!tokens[i].is("Shard") || i + 2 >= tokens.size()) continue;
    std::string dim;
    for (size_t at = i + 2; at < tokens.size() && !tokens[at].is(")"); ++at) {
      if (!tokens[at].is("dim") && !tokens[at].is("=")) dim += tokens[at].text;
    }
    if (dim == "1") return HookLayout::Tokens;
    if (dim == "-1" || dim == "2") return HookLayout::Last;
    return std::nullopt;
  }
  return std::nullopt;
}

// Returns the effect of a style's hooks, from its call. Source: style.py,
// defaults of its classes; activations have three dimensions.
ModuleHook hook_of(Style style, std::string_view name,
                   std::span<const PythonToken> call) {
  const bool is_known =
      name == "ColwiseParallel" || name == "RowwiseParallel" ||
      name == "SequenceParallel" || name == "PrepareModuleInput";
  if (!is_known) return {};
  ModuleHook hook = {.task = Task::None};
  const auto set = [&](HookLayout& layout, std::string_view argument_name,
                       std::optional<HookLayout> otherwise) {
    const auto given = argument(call, argument_name);
    const auto found = given.empty() ? otherwise : layout_in(given);
    if (!found) hook.task = Task::Unknown;
    layout = found.value_or(layout);
  };
  const auto keeps_dtensor = [&](bool otherwise) {
    const auto given = argument(call, "use_local_output");
    if (given.empty()) return otherwise;
    if (!given[0].is("True") && !given[0].is("False")) {
      hook.task = Task::Unknown;
    }
    return given[0].is("False");
  };
  switch (style) {
    case Style::Column:
    case Style::Row:
      hook.desired_input_layout =
          style == Style::Column ? HookLayout::Whole : HookLayout::Last;
      set(hook.input_layout, "input_layouts", hook.desired_input_layout);
      set(hook.output_layout, "output_layouts",
          style == Style::Column ? HookLayout::Last : HookLayout::Whole);
      hook.output_is_dtensor = keeps_dtensor(false);
      break;
    case Style::Whole:
      hook.input_layout = hook.desired_input_layout = hook.output_layout =
          HookLayout::Tokens;
      if (!argument(call, "sequence_dim").empty()) hook.task = Task::Unknown;
      hook.output_is_dtensor = keeps_dtensor(true);
      break;
    case Style::Input: {
      const bool by_name = argument(call, "input_layouts").empty();
      set(hook.input_layout, by_name ? "input_kwarg_layouts" : "input_layouts",
          {});
      set(hook.desired_input_layout,
          by_name ? "desired_input_kwarg_layouts" : "desired_input_layouts",
          {});
      hook.output_is_dtensor = keeps_dtensor(true);
      break;
    }
  }
  return hook;
}

// Uses the name alone, since a plan does not state what a module is.
bool is_embedding(std::string_view key) {
  const std::string_view last = last_word(key);
  return contains(last, "embed") || last == "wte" || last == "wpe";
}

class PlanReader {
 public:
  PlanReader(std::span<const PythonToken> tokens, const RuleReading& reading,
             RuleSet& rules, ErrorLimit& errors)
      : tokens_(tokens), reading_(reading), rules_(rules), errors_(errors) {}

  bool read(const std::vector<const PythonDict*>& plans) {
    std::vector<const PythonDict*> chosen = plans;
    std::erase_if(chosen, [&](const PythonDict* plan) {
      return reading_.table && plan->name != *reading_.table &&
             !plan->name.ends_with("." + *reading_.table);
    });
    if (chosen.empty()) {
      auto report = errors_.malformed(
          plans.front()->where,
          "there is no plan named " + in_backticks(*reading_.table));
      for (const PythonDict* plan : plans) {
        report.fact("plan: " + in_backticks(plan->name));
      }
      return false;
    }
    if (!check_unchanged(tokens_, chosen,
                         "write every entry of the plan in one dictionary",
                         errors_)) {
      return false;
    }
    for (const PythonDict* plan : chosen) {
      for (const PythonEntry& entry : plan->entries) {
        if (!errors_.stopped()) add(entry);
      }
      if (plan->problem) {
        errors_.malformed(plan->problem, "this entry has no literal key")
            .help("write every entry as \"NAME\": STYLE(..)");
      }
    }
    if (errors_.errors() > 0) return false;
    end_plan_of_hooks(kAxis, chosen.front()->where, rules_);
    if (embeddings_.empty()) return true;
    errors_.diags()
        .report(Code::PatternReadingsDiffer, Severity::Note,
                chosen.front()->where,
                quoted_names(embeddings_) + (embeddings_.size() == 1
                                                 ? " is read as an embedding"
                                                 : " are read as embeddings"))
        .fact(
            "a plan does not record module types; under RowwiseParallel "
            "PyTorch shards an embedding by rows and a linear layer by columns")
        .help(
            "if one is a linear layer, give its placements, such as "
            "`[Shard(0)]`");
    return true;
  }

 private:
  void add(const PythonEntry& entry) {
    const std::string name = called_name(tokens_, entry);
    const auto style = find_style(name);
    if (!style || !is_call_alone(tokens_, entry)) {
      Span where = tokens_[entry.begin].where;
      where.end = tokens_[std::max(entry.begin + 1, entry.end) - 1].where.end;
      errors_
          .malformed(where, style ? "this value is not evaluated"
                                  : "the style of " + in_backticks(entry.key) +
                                        " is not supported")
          .help(
              "use ColwiseParallel, RowwiseParallel, SequenceParallel, "
              "PrepareModuleInput or similar; give placements for the "
              "parameters of other modules");
      return;
    }
    const auto [known, is_new] = styles_.try_emplace(entry.key, *style);
    if (!is_new && known->second != *style) {
      errors_
          .malformed(entry.where,
                     "the file has two styles for " + in_backticks(entry.key))
          .help("choose a plan with `--table NAME`, or remove one");
      return;
    }
    if (!is_new) return;
    hook_ = hook_of(*style, last_word(name),
                    tokens_.subspan(entry.begin, entry.end - entry.begin));
    if (*style == Style::Whole || *style == Style::Input) {
      add_rule(entry, "\\.[^.]*$", {});
      // An input style shards nothing; the rule covers what the plan
      // replicates.
      rules_.rules.back().shipped = *style == Style::Input;
      return;
    }
    const bool embeds = is_embedding(entry.key);
    if (embeds) {
      embeddings_.push_back(entry.key);
      // Token ids are replicated, so the hooks for any other layout are
      // unknown.
      if (hook_.input_layout != HookLayout::Whole) hook_ = {};
      hook_.desired_input_layout = hook_.input_layout;
    }
    PartitionSpec weight;
    if ((*style == Style::Column) == embeds) weight.dims.emplace_back();
    weight.dims.push_back({std::string(kAxis)});
    const bool cuts_bias = *style == Style::Column && !embeds;
    add_rule(entry, cuts_bias ? "\\.(?:weight|bias)$" : "\\.weight$",
             std::move(weight));
    if (cuts_bias || embeds) return;
    // A layer may have no bias.
    add_rule(entry, "\\.bias$", {});
    rules_.rules.back().shipped = true;
  }

  void add_rule(const PythonEntry& entry, std::string_view end,
                PartitionSpec spec) {
    Rule rule;
    rule.pattern = std::string(kBefore) + fnmatch_parts(entry.key);
    rule.pattern += end;
    rule.where = entry.where;
    rule.spec_where = tokens_[entry.begin].where;
    rule.dim_where.assign(spec.dims.size(), rule.spec_where);
    rule.spec = std::move(spec);
    rule.hook = hook_;
    rules_.rules.push_back(std::move(rule));
  }

  std::span<const PythonToken> tokens_;
  const RuleReading& reading_;
  RuleSet& rules_;
  ErrorLimit& errors_;
  std::map<std::string, Style> styles_;
  ModuleHook hook_;  // hook of the current entry
  std::vector<std::string> embeddings_;
};

}  // namespace

bool has_parallel_styles(std::string_view text) {
  for (const std::string_view word :
       {"ColwiseParallel(", "RowwiseParallel(", "SequenceParallel(",
        "colwise_parallel(", "rowwise_parallel("}) {
    if (contains(text, word)) return true;
  }
  return false;
}

std::vector<const PythonDict*> parallel_plans(
    std::span<const PythonToken> tokens, const std::vector<PythonDict>& dicts) {
  std::vector<const PythonDict*> plans;
  for (const PythonDict& dict : dicts) {
    const bool is_plan =
        std::ranges::any_of(dict.entries, [&](const PythonEntry& entry) {
          return find_style(called_name(tokens, entry)).has_value();
        });
    if (is_plan) plans.push_back(&dict);
  }
  return plans;
}

bool check_unchanged(std::span<const PythonToken> tokens,
                     const std::vector<const PythonDict*>& dicts,
                     std::string_view help, ErrorLimit& errors) {
  const auto change = python_dict_change(tokens, dicts);
  if (!change) return true;
  errors.malformed(change->where, change->message).help(std::string(help));
  return false;
}

bool read_parallel_plans(std::span<const PythonToken> tokens,
                         const std::vector<const PythonDict*>& plans,
                         const RuleReading& reading, RuleSet& rules,
                         ErrorLimit& errors) {
  return PlanReader(tokens, reading, rules, errors).read(plans);
}

}  // namespace shardplan
