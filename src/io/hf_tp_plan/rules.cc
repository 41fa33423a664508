// SPDX-License-Identifier: Apache-2.0
// The dialect `hf-tp-plan`: tensor-parallel plans of Hugging Face transformers,
// maps from names, with `*` for digits, to styles.
//
//   {"base_model_tp_plan": {"layers.*.self_attn.q_proj": "colwise", ..}}
//
// transformers looks up the whole name of a parameter first, then the name of
// its module, and silently replicates a parameter without an entry. Here a
// catch-all rule at the end replicates it, so that reports show it.
#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "core/fold.h"
#include "io/dialects.h"
#include "io/hf_tp_plan/python_file.h"
#include "io/hf_tp_plan/styles.h"
#include "syntax/document.h"
#include "syntax/python.h"
#include "syntax/python_program.h"
#include "syntax/tokens.h"

namespace shardplan {

namespace {

constexpr std::string_view kVersionKey = "transformers_version";
constexpr std::string_view kPrefixQuestion = "base_model_prefix";
constexpr std::string_view kJsonHelp =
    "write a model's plan with `json.dump({\"tp_plan\": model.tp_plan, "
    "\"transformers_version\": transformers.__version__}, open(\"plan.json\", "
    "\"w\"))`";

struct Entry {
  std::string key;
  Span where;
  std::string style;
  Span style_where;
  bool is_added = false;  // by transformers, not by the file
};

struct Table {
  std::string name;  // "base_model_tp_plan", ""
  Span where;
  std::vector<Entry> entries;
  std::string outer = {};  // modules that may enclose its names
  const TpClass* of_class = nullptr;
  const TpModules* model = nullptr;  // null: model type unknown
};

// Styles that exist since transformers 5.2; a file with one is for such a
// version.
constexpr std::string_view kLateStyles =
    "colwise_gather_output rowwise_split_input packed_colwise packed_rowwise "
    "embedding_rowwise embedding_colwise moe_tp_experts moe_identity_expert "
    "mla_kv_a_proj all_reduce local_params replicated_with_grad_allreduce "
    "ep_dispatch_experts megamoe_router megamoe_experts";

constexpr std::string_view kPlanNames = "tp_plan _tp_plan base_model_tp_plan";
constexpr std::string_view kExpertPlanNames =
    "ep_plan _ep_plan base_model_ep_plan";

// `LlamaConfig.base_model_tp_plan` counts as well.
bool is_one_of(std::string_view name, std::string_view names) {
  return has_word(names, last_word(name));
}

bool is_plan_name(std::string_view name) {
  return is_one_of(name, kPlanNames) || is_one_of(name, kExpertPlanNames);
}

bool is_quote(char c) { return c == '"' || c == '\''; }

// Returns whether the text has a value like `: "colwise"`, quoted or not.
// Styles that shard nothing are skipped: their names are words that any file
// may have.
bool has_style_value(std::string_view text) {
  for (const TpStyle& style : tp_styles()) {
    if (style.weight == TpCut::Whole) continue;
    for (size_t at = text.find(style.name); at != text.npos;
         at = text.find(style.name, at + 1)) {
      const size_t end = at + style.name.size();
      size_t before = at;
      if (before > 0 && is_quote(text[before - 1])) --before;
      while (before > 0 && text[before - 1] == ' ') --before;
      const bool ends =
          end == text.size() || contains("\"' \r\n,}#", text[end]);
      if (ends && before > 0 && text[before - 1] == ':') return true;
    }
  }
  return false;
}

bool recognize(std::string_view head) {
  // Plans with PyTorch's own styles belong to the dialect `dtensor`.
  if (contains(head, '\0') || contains(head, "wiseParallel(")) return false;
  return contains(head, "tp_plan\"") || contains(head, "tp_plan:") ||
         contains(head, "tp_plan =") || contains(head, "tp_plan=") ||
         has_style_value(head);
}

class Reader {
 public:
  Reader(const RuleReading& reading, RuleSet& rules, Diagnostics& diags)
      : reading_(reading), rules_(rules), errors_(diags, "the plan") {}

  bool read(const SourcePtr& source) {
    errors_.diags().add_source(source);
    const std::string_view text = source->text();
    const size_t first = text.find_first_not_of(" \t\r\n");
    const bool is_flow = first != text.npos && text[first] == '{';
    std::vector<PythonDict> dicts;
    std::vector<PythonToken> tokens;
    if (!is_flow) {
      tokens = python_tokens(*source);
      dicts = python_dicts(tokens);
    }
    // A YAML map may look like a dictionary, but it has no assignments.
    const bool is_python =
        std::ranges::any_of(
            dicts, [](const PythonDict& dict) { return !dict.name.empty(); }) ||
        is_python_module(tokens);
    if (is_python) {
      read_python(tokens, dicts);
    } else if (!read_document(source)) {
      return false;
    }
    if (!settle_version()) return false;
    const std::vector<const Table*> chosen = choose(*source);
    if (chosen.empty() || !complete(chosen)) return false;
    for (const Table* table : chosen) add_table(*table);
    if (errors_.errors() > 0) return false;
    end_plan_of_hooks(kTpAxis, chosen.front()->where, rules_);
    return true;
  }

 private:
  void read_python(std::span<const PythonToken> tokens,
                   const std::vector<PythonDict>& dicts) {
    file_ = look_at_tp_file(tokens);
    std::vector<const PythonDict*> read;
    for (const PythonDict& dict : dicts) {
      const bool has_style =
          std::ranges::any_of(dict.entries, [&](const PythonEntry& entry) {
            return find_tp_style(tokens[entry.begin].text) != nullptr;
          });
      if (!is_plan_name(dict.name) && !has_style) continue;
      read.push_back(&dict);
      Table table{dict.name, dict.where, {}};
      table.of_class = file_.class_at(dict.where.begin);
      for (const PythonEntry& entry : dict.entries) {
        const PythonToken& style = tokens[entry.begin];
        if (entry.end == entry.begin + 1 &&
            style.kind == PythonTokenKind::String) {
          table.entries.push_back(
              {entry.key, entry.where, style.text, style.where});
        } else {
          errors_
              .malformed(style.where, "the style of " +
                                          in_backticks(entry.key) +
                                          " is not a string")
              .help(
                  "write the name of a style as a string; code is not "
                  "evaluated");
        }
      }
      if (dict.problem) {
        errors_.malformed(dict.problem, "this entry has no literal key")
            .help("write every entry as \"NAME\": \"STYLE\"");
      }
      tables_.push_back(std::move(table));
    }
    if (const auto change = python_dict_change(tokens, read)) {
      errors_.malformed(change->where, change->message)
          .help(std::string(kJsonHelp));
    }
    refuse_computed(tokens, dicts);
  }

  // Refuses a plan that is not a dictionary of strings, such as a
  // comprehension.
  void refuse_computed(std::span<const PythonToken> tokens,
                       const std::vector<PythonDict>& dicts) {
    for (size_t i = 0; i + 2 < tokens.size(); ++i) {
      if (!tokens[i].starts_line || !is_one_of(tokens[i].text, kPlanNames)) {
        continue;
      }
      size_t value = i + 1;
      while (value + 1 < tokens.size() && !tokens[value].is("=") &&
             !tokens[value].starts_line) {
        ++value;
      }
      if (!tokens[value].is("=") || tokens[value + 1].is("None")) continue;
      const Span begin = tokens[value + 1].where;
      if (std::ranges::any_of(dicts, [&](const PythonDict& dict) {
            return dict.where.begin == begin.begin;
          })) {
        continue;
      }
      errors_
          .malformed(begin, in_backticks(tokens[i].text) +
                                " is computed here; only a literal dictionary "
                                "of strings is supported")
          .help(std::string(kJsonHelp));
    }
  }

  bool read_document(const SourcePtr& source) {
    const auto document = parse_document(source, errors_.diags());
    if (!document) return false;
    const auto root =
        require(document->root(), NodeKind::Map, "tp_plan", errors_.diags());
    if (!root) return false;
    if (const auto version = root->find(kVersionKey)) {
      read_version(version->span(), version->text());
    }
    bool named = false;
    for (size_t i = 0; i < root->size(); ++i) {
      const std::string_view key = root->key(i);
      if (!is_plan_name(key)) continue;
      named = true;
      if (root->item(i).is_null()) continue;
      read_map(root->item(i), key, root->key_span(i));
    }
    if (!named) read_map(*root, "", {source.get(), 0, 1});
    return true;
  }

  void read_version(Span where, std::string_view text) {
    version_ = parse_version(text);
    if (version_) return;
    errors_
        .malformed(where, in_backticks(text) + " is not a transformers version")
        .help("write, for example, \"4.57.1\"");
  }

  const RuleAnswer* ask(std::string_view question) {
    rules_.questions.emplace_back(question);
    return reading_.find_answer(question);
  }

  // Determines the version; an answer overrides the file.
  bool settle_version() {
    const RuleAnswer* answer = ask(kVersionKey);
    if (answer != nullptr) read_version(answer->where, answer->value);
    if (answer != nullptr && !version_) return false;
    is_version_given_ = version_.has_value();
    is_late_ = file_.has_strict_configs;
    for (const Table& table : tables_) {
      for (const Entry& entry : table.entries) {
        is_late_ = is_late_ || has_word(kLateStyles, entry.style);
      }
    }
    return true;
  }

  DigitFolding folding() const {
    return (version_ ? *version_ >= kWholePartsSince : is_late_)
               ? DigitFolding::WholeParts
               : DigitFolding::EveryRun;
  }

  void read_map(const Node& node, std::string_view name, Span where) {
    if (!node.is_map()) {
      errors_.malformed(node.span(), in_backticks(name) +
                                         " must be a map, not " +
                                         std::string(kind_name(node.kind())));
      return;
    }
    Table table{std::string(name), where, {}};
    for (size_t i = 0; i < node.size() && !errors_.stopped(); ++i) {
      if (name.empty() && node.key(i) == kVersionKey) continue;
      const Node value = node.item(i);
      if (!value.is_string()) {
        errors_
            .malformed(value.span(), "the style of " +
                                         in_backticks(node.key(i)) +
                                         " must be a string, not " +
                                         std::string(kind_name(value.kind())))
            .help("styles are names such as `colwise` and `rowwise`");
        continue;
      }
      table.entries.push_back({std::string(node.key(i)), node.key_span(i),
                               std::string(value.text()), value.span()});
    }
    tables_.push_back(std::move(table));
  }

  // Returns the tables that make up the plan: those of `tp_plan` and of the
  // base model together, or the one that was asked for.
  std::vector<const Table*> choose(const SourceFile& source) {
    std::vector<const Table*> chosen;
    for (const Table& table : tables_) {
      const bool wanted = reading_.table
                              ? table.name == *reading_.table ||
                                    table.name.ends_with("." + *reading_.table)
                              : !is_one_of(table.name, kExpertPlanNames);
      if (wanted) chosen.push_back(&table);
    }
    const bool all_plans = std::ranges::all_of(chosen, [](const Table* table) {
      return is_one_of(table->name, kPlanNames);
    });
    if (chosen.size() == 1 || (!chosen.empty() && all_plans)) return chosen;
    if (errors_.errors() > 0) return {};
    auto report = errors_.malformed(
        {&source, 0, 0},
        chosen.empty()
            ? (reading_.table
                   ? "there is no plan named " + in_backticks(*reading_.table)
                   : std::string("no tensor-parallel plan found"))
            : "the file has " + plural(std::ssize(chosen), "plan"));
    for (const Table& table : tables_) {
      report.fact("plan: " + in_backticks(table.name));
    }
    report.help(tables_.empty()
                    ? "write a plan as a map from names to styles, preferably "
                      "under `base_model_tp_plan` or `tp_plan`"
                    : "choose one with `--table NAME`");
    return {};
  }

  // Adds the entries that transformers adds to the plans of a Python file.
  bool complete(const std::vector<const Table*>& chosen) {
    std::vector<Table*> of_configs;
    bool has_heads = false;
    for (Table& table : tables_) {
      // Keys of a base model's plan lack the name that the whole model gives
      // its base model, and those of an unnamed plan may.
      if (table.name.empty() || contains(table.name, "base_model")) {
        table.outer = kUsualTpModules.outer;
      }
      if (!contains(chosen, &table) || table.of_class == nullptr) continue;
      if (table.name == "base_model_tp_plan" ||
          table.name == "base_model_ep_plan") {
        of_configs.push_back(&table);
      } else if (table.name == "_tp_plan") {
        has_heads = true;
      }
    }
    if (of_configs.empty()) return !has_heads || refuse_heads(chosen);
    if (!name_outer(of_configs)) return false;
    std::erase_if(of_configs, [](const Table* table) {
      return table->name != "base_model_tp_plan" || table->entries.empty();
    });
    return of_configs.empty() || compose(of_configs, has_heads);
  }

  // Refuses a plan that only covers heads, as in a modeling file; the base
  // model's plan is in another file.
  bool refuse_heads(const std::vector<const Table*>& chosen) {
    for (const Table* table : chosen) {
      for (const Entry& entry : table->entries) {
        if (contains(entry.key, '*')) return true;
      }
    }
    errors_
        .malformed(chosen.front()->where,
                   "this plan covers only a head: the base model's plan is in "
                   "the configuration file")
        .help("give `configuration_NAME.py` instead")
        .help(std::string(kJsonHelp));
    return false;
  }

  bool name_outer(const std::vector<Table*>& tables) {
    const RuleAnswer* prefix = ask(kPrefixQuestion);
    if (prefix != nullptr && !is_module_path(prefix->value)) {
      errors_
          .malformed(prefix->where,
                     in_backticks(prefix->value) + " is not a module name")
          .help("write, for example, `--set base_model_prefix=transformer`");
      return false;
    }
    for (Table* table : tables) {
      table->model = find_tp_modules(table->of_class->model_type);
      if (prefix != nullptr) {
        table->outer = alternatives(prefix->value);
      } else if (table->model != nullptr) {
        table->outer = table->model->outer;
      } else if (is_module_path(file_.base_model_prefix)) {
        table->outer = alternatives(file_.base_model_prefix);
      }
    }
    return true;
  }

  static bool is_module_path(std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, [](char c) {
      return c == '_' || c == '.' || is_digit(c) || is_letter(c);
    });
  }

  // Returns "talker|model" for "talker.model".
  static std::string alternatives(std::string path) {
    std::ranges::replace(path, '.', '|');
    return path;
  }

  // Adds the entries that depend on the version of transformers.
  bool compose(const std::vector<Table*>& tables, bool has_heads) {
    const bool is_assumed = !version_ && file_.has_strict_configs;
    if (is_assumed) version_ = kNewestVersion;
    if (!version_ || *version_ < kHeadsSince) return true;
    bool shards_embedding = *version_ >= kEmbeddingSince;
    if (!shards_embedding && *version_ >= kTiedEmbeddingSince) {
      const auto tied = ask_whether_tied(tables.front()->where);
      if (!tied) return false;
      shards_embedding = *tied;
    }
    std::vector<std::string> added;
    const auto add = [&](Table& table, std::string_view key,
                         std::string_view style) {
      const bool is_there = std::ranges::any_of(
          table.entries, [&](const Entry& entry) { return entry.key == key; });
      if (is_there) return;
      table.entries.push_back({std::string(key), table.where,
                               std::string(style), table.where, true});
      std::string text = in_backticks(key) + " as " + in_backticks(style);
      if (!contains(added, text)) added.push_back(std::move(text));
    };
    bool is_known = true;
    for (Table* table : tables) {
      is_known = is_known && table->model != nullptr;
      const TpModules& model =
          table->model != nullptr ? *table->model : kUsualTpModules;
      if (!has_heads && !model.head.empty()) {
        add(*table, model.head, model.head_style);
      }
      if (shards_embedding) add(*table, "embed_tokens", "embedding_rowwise");
    }
    if (is_assumed || !is_known) {
      note_assumptions(tables, added, is_assumed, is_known);
    }
    return true;
  }

  void note_assumptions(const std::vector<Table*>& tables,
                        const std::vector<std::string>& added, bool is_assumed,
                        bool is_known) {
    auto report = errors_.diags().report(
        Code::PatternReadingsDiffer,
        is_known ? Severity::Note : Severity::Warning, tables.front()->where,
        "the plan is completed as in transformers " + version_text(*version_));
    if (!added.empty()) report.fact("it adds " + joined(added, ", "));
    if (!is_known) {
      report.fact(
          "the model type is unknown, so the usual base model name and head "
          "plan are assumed");
      report.help(
          "give the base model's name with `--set base_model_prefix=NAME`");
    }
    if (is_assumed) {
      report.fact(
          "the file is from transformers 5.4 or later, which adds `lm_head` "
          "since 5.14 and `embed_tokens` since 5.21 (since 5.15 if tied)");
      report.help(
          "choose another version with `--set transformers_version=5.10`");
    }
    report.help(std::string(kJsonHelp));
  }

  std::optional<bool> ask_whether_tied(Span where) {
    const RuleAnswer* answer = ask("tie_word_embeddings");
    if (answer != nullptr && answer->value == "true") return true;
    if (answer != nullptr && answer->value == "false") return false;
    return errors_.malformed(where, "the plan depends on `tie_word_embeddings`")
        .fact(
            "transformers 5.15 to 5.20 shard the embedding only if it is tied "
            "to the head")
        .help("give `--set tie_word_embeddings=true` or `=false`");
  }

  void add_table(const Table& table) {
    std::vector<Entry> entries = table.entries;
    // Whole names come before the modules that they belong to.
    std::ranges::stable_sort(entries, std::greater(), [](const Entry& entry) {
      return std::ranges::count(entry.key, '.');
    });
    for (Entry& entry : entries) {
      if (errors_.stopped()) return;
      // Multimodal models use this prefix for their text model, which has
      // another name in checkpoints.
      constexpr std::string_view kOfText = "model.language_model.";
      if (table.outer.empty() && entry.key.starts_with(kOfText)) {
        entry.key.erase(0, kOfText.size());
        add_entry(entry, kUsualTpModules.outer);
      } else {
        add_entry(entry, table.outer);
      }
    }
  }

  void add_entry(const Entry& entry, std::string_view outer) {
    const TpStyle* style = find_tp_style(entry.style);
    if (style == nullptr) return report_style(entry);
    if (is_version_given_ && !is_in(*style, *version_)) {
      return report_version(entry, *style);
    }
    if (!can_be_folded_name(entry.key, folding())) {
      return report_dead_key(entry);
    }
    const bool is_bias = last_word(entry.key) == "bias";
    if (!is_bias && style->bias != style->weight) {
      add_rule(entry, KeyPart::Bias, outer, style->bias, false, style->hook);
    }
    add_rule(entry, KeyPart::Module, outer,
             is_bias ? style->bias : style->weight, style->packed, style->hook);
    // Experts that are stored one by one are placed whole on ranks.
    const std::string each_expert = key_pattern(
        entry.key, KeyPart::Module, outer, FusedKeys::AlsoEachExpert);
    if (style->weight != TpCut::First ||
        each_expert == rules_.rules.back().pattern) {
      return;
    }
    add_rule(entry, KeyPart::Module, outer, TpCut::Whole, false, style->hook);
    Rule& dealt = rules_.rules.back();
    dealt.pattern = each_expert;
    dealt.deal = kTpAxis;
    dealt.shipped = true;
  }

  void add_rule(const Entry& entry, KeyPart part, std::string_view outer,
                TpCut cut, bool is_packed, const ModuleHook& hook) {
    Rule rule;
    // A spec of one expert cannot express whole experts on each device.
    rule.pattern = key_pattern(
        entry.key, part, outer,
        cut == TpCut::First ? FusedKeys::AsWritten : FusedKeys::AlsoEachExpert);
    rule.shipped = entry.is_added;
    rule.shards_parts = is_packed;
    rule.hook = hook;
    rule.short_uses_first = cut == TpCut::SecondLast;
    rule.where = entry.where;
    rule.spec_where = entry.style_where;
    const AxisNames axis = {std::string(kTpAxis)};
    if (cut != TpCut::Whole) rule.spec.dims.push_back(axis);
    if (cut == TpCut::SecondLast) rule.spec.dims.emplace_back();
    rule.from_last = cut == TpCut::SecondLast || cut == TpCut::Last;
    rule.dim_where.assign(rule.spec.dims.size(), entry.style_where);
    rules_.rules.push_back(std::move(rule));
  }

  void report_version(const Entry& entry, const TpStyle& style) {
    errors_
        .malformed(entry.style_where,
                   "transformers " + version_text(*version_) +
                       " has no style " + in_backticks(entry.style))
        .fact("versions that have it: " + std::string(style.versions))
        .help(
            "before 5.1, write `colwise_rep` for `colwise_gather_output` and "
            "`rowwise_rep` for `rowwise_split_input`")
        .help(
            "choose another version with `--set transformers_version=VERSION`");
  }

  void report_style(const Entry& entry) {
    suggest(errors_.malformed(
                entry.style_where,
                in_backticks(entry.style) + " is not a tensor-parallel style"),
            entry.style, all_names(tp_styles()),
            "styles are `colwise`, `rowwise`, `grouped_gemm`, `replicate` and "
            "others; docs/formats/hf-tp-plan.md lists all");
  }

  void report_dead_key(const Entry& entry) {
    std::string sample = entry.key;
    std::ranges::replace(sample, '*', '0');
    auto report = errors_.diags().report(
        Code::UnusedRule, entry.where,
        in_backticks(entry.key) + " cannot match any parameter");
    report.fact(in_backticks(sample) + " is looked up as " +
                in_backticks(fold_digits(sample, folding())));
    if (folding() == DigitFolding::WholeParts) {
      report.help(
          "since transformers 5.2, `*` matches a number between dots; of two "
          "consecutive numbers it matches only the first");
    } else if (can_be_folded_name(entry.key, DigitFolding::WholeParts)) {
      report.help(
          "before transformers 5.2, every run of digits in a name becomes `*`; "
          "if the plan is for a later version, add `\"transformers_version\": "
          "\"5.2.0\"` next to the plan");
    } else {
      report.help("write `*` for every run of digits in a name");
    }
  }

  const RuleReading& reading_;
  RuleSet& rules_;
  ErrorLimit errors_;
  std::vector<Table> tables_;
  // The version that an answer or the file states, if any, or that is assumed.
  std::optional<TransformersVersion> version_;
  bool is_version_given_ = false;
  bool is_late_ = false;  // 5.2 or later
  TpPythonFile file_;
};

bool read(SourcePtr source, const RuleReading& reading, RuleSet& rules,
          Diagnostics& diags) {
  const bool good = Reader(reading, rules, diags).read(source);
  rules.sources.push_back(std::move(source));
  return good;
}

}  // namespace

const RuleDialect kHfTpPlan = {
    "hf-tp-plan", "Hugging Face transformers tensor-parallel plans", recognize,
    read};

}  // namespace shardplan
