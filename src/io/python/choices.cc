// SPDX-License-Identifier: Apache-2.0
#include "io/python/choices.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "base/text.h"
#include "base/words.h"
#include "io/python/moe_spec.h"
#include "syntax/utf8.h"

namespace shardplan {
namespace {

constexpr int kMaxChoiceDepth = 64;

// Joins the text into one line and shortens it.
std::string brief(std::string_view text) {
  std::string line;
  for (const char c : text) {
    if (!is_blank(c)) {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  constexpr size_t kLongest = 60;
  if (line.size() <= kLongest) return line;
  size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0U) == 0x80U) {
    --end;
  }
  return line.substr(0, end) + "..";
}

std::string reading_text(const PythonObject& object) {
  const bool is_table =
      object.is_sequence() && !object.items.empty() &&
      std::ranges::all_of(object.items, [](const PythonItem& item) {
        return item.value->is_sequence();
      });
  if (is_table) return "a table of " + plural(std::ssize(object.items), "rule");
  return in_backticks(brief(object.where.text()));
}

// A name whose answer decides the value at one or more places.
struct Question {
  std::string name;
  Span where;
  std::vector<std::string> readings;
};
constexpr int64_t kMaxReadings = 4;

std::optional<bool> given_answer(const PythonChoices& choices,
                                 std::string_view name) {
  const RuleAnswer* answer = choices.reading.find_answer(name);
  if (answer == nullptr) return std::nullopt;
  if (has_word("true True 1", answer->value)) return true;
  if (has_word("false False 0", answer->value)) return false;
  return std::nullopt;
}

class ChoiceSettler {
 public:
  ChoiceSettler(std::span<const PythonToken> tokens,
                const PythonChoices& choices, Diagnostics& diags)
      : tokens_(tokens), answers_(python_answers(choices)), diags_(diags) {}

  std::optional<PythonValue> run(const PythonObject& object) {
    auto result = settle(object, 0);
    if (!result) return std::nullopt;
    for (const Question& question : open_) {
      auto report =
          diags_.error(Code::MalformedDocument, question.where,
                       "the table depends on " + in_backticks(question.name));
      int64_t more = -kMaxReadings;
      for (const std::string& reading : question.readings) {
        if (++more <= 0) report.fact(reading);
      }
      if (more > 0) report.fact("and " + plural(more, "more place"));
      report.help("pass `--set " + question.name + "=true` or `--set " +
                  question.name + "=false`");
    }
    return open_.empty() ? result : std::nullopt;
  }

 private:
  std::nullopt_t refuse(Span where, std::string message, std::string help) {
    return diags_.error(Code::MalformedDocument, where, std::move(message))
        .help(std::move(help));
  }

  std::nullopt_t refuse(const PythonProblem& problem) {
    auto report =
        diags_.error(Code::MalformedDocument, problem.where, problem.message);
    for (const std::string& fact : problem.facts) report.fact(fact);
    return report.help(problem.help);
  }

  // Copies only the object's own fields, so that a name with a plain value
  // stays a name.
  static PythonValue plain(const PythonObject& object) {
    return {object.kind, object.text, {}, object.where};
  }

  std::optional<PythonValue> settle(const PythonObject& object, int depth) {
    if (object.change) return refuse(*object.change);
    if (object.problem) return refuse(*object.problem);
    if (depth > kMaxChoiceDepth || ++settled_ > PythonObjects::kMost) {
      return refuse(
          object.where,
          "this value refers to itself or is nested deeper than 64 levels",
          "write the value itself");
    }
    if (object.is_opaque) return plain(object);
    if (object.kind == PythonKind::Choice) return choice(object, depth);
    if (object.kind == PythonKind::Sum) return sum(object, depth);
    if (object.kind == PythonKind::Starred) {
      return refuse(object.where, "this cannot be unpacked here",
                    "write the rules out");
    }
    const bool has_items =
        object.is_sequence() || object.kind == PythonKind::Call;
    return has_items ? with_items(object, depth) : plain(object);
  }

  std::optional<PythonValue> with_items(const PythonObject& object, int depth) {
    PythonValue result = plain(object);
    for (const PythonItem& item : object.items) {
      const bool is_map = item.keyword == "**";
      const bool is_list = item.value->kind == PythonKind::Starred;
      auto settled = settle(is_list ? *item.value->items[0].value : *item.value,
                            depth + 1);
      if (!settled) return std::nullopt;
      const bool is_dict =
          settled->kind == PythonKind::Call && settled->text == "dict";
      if ((is_map && !is_dict) || (is_list && !is_python_sequence(*settled))) {
        return refuse(
            item.value->where,
            in_backticks(brief(item.value->where.text())) +
                " cannot be read: its items are not literals in this file",
            "write them out");
      }
      if (is_map || is_list) {
        for (PythonValue& inner : settled->items) {
          result.items.push_back(std::move(inner));
        }
        continue;
      }
      settled->keyword = item.keyword;
      result.items.push_back(*std::move(settled));
    }
    if (object.kind != PythonKind::Call || !is_moe_spec_call(object.text)) {
      return result;
    }
    const auto ask = [&](const PythonValue& name, const std::string& if_true,
                         const std::string& if_false) {
      add_question(std::string(last_word(name.text)), name.where, if_true,
                   if_false);
    };
    return moe_partition_spec(result, answers_, ask, diags_);
  }

  // Concatenates sequences of one kind, or strings.
  std::optional<PythonValue> sum(const PythonObject& object, int depth) {
    std::optional<PythonValue> result;
    for (const PythonItem& item : object.items) {
      auto part = settle(*item.value, depth + 1);
      if (!part) return std::nullopt;
      const bool is_known =
          is_python_sequence(*part) || part->kind == PythonKind::String;
      if (!is_known || (result && result->kind != part->kind)) {
        const std::string text = in_backticks(brief(item.value->where.text()));
        return refuse(
            tokens_[object.condition_begin].where,
            "this `+` is not evaluated: " + text +
                (is_known ? " has a different type than the operand before it"
                          : " is not a literal in this file"),
            "write the whole value");
      }
      if (!result) {
        result = std::move(part);
        result->where = object.where;
        continue;
      }
      result->text += part->text;
      for (PythonValue& inner : part->items) {
        result->items.push_back(std::move(inner));
      }
    }
    return result;
  }

  // Evaluates `A if CONDITION else B`. Without an answer it evaluates A, to
  // find the other names that the value depends on.
  std::optional<PythonValue> choice(const PythonObject& object, int depth) {
    const PythonCondition condition = read_python_condition(
        tokens_, object.condition_begin, object.condition_end, answers_);
    if (!condition.is_understood) {
      Span where = tokens_[object.condition_begin].where;
      where.end = tokens_[object.condition_end - 1].where.end;
      return refuse(
          where,
          "the condition " + in_backticks(brief(where.text())) +
              " is not supported: use only names with `not`, `and` and `or`",
          "write the intended value");
    }
    const std::string first = reading_text(*object.items[0].value);
    const std::string second = reading_text(*object.items[1].value);
    for (const PythonCondition::Open& open : condition.open) {
      add_question(open.name, open.where, open.is_negated ? second : first,
                   open.is_negated ? first : second);
    }
    return settle(*object.items[condition.value.value_or(true) ? 0 : 1].value,
                  depth + 1);
  }

  void add_question(const std::string& name, Span where,
                    const std::string& if_true, const std::string& if_false) {
    const auto known = std::ranges::find(open_, name, &Question::name);
    Question& open = known != open_.end()
                         ? *known
                         : open_.emplace_back(Question{name, where, {}});
    open.readings.push_back("line " + line_of(where) + ": " + if_true +
                            " if true, " + if_false + " if false");
  }

  std::span<const PythonToken> tokens_;
  PythonAnswers answers_;
  Diagnostics& diags_;
  std::vector<Question> open_;
  size_t settled_ = 0;
};

}  // namespace

PythonAnswers python_answers(const PythonChoices& choices) {
  // A module may have many conditions, but few different names.
  const auto known = std::make_shared<std::set<std::string>>(
      choices.questions.begin(), choices.questions.end());
  return [&choices, known](const std::string& name) {
    if (known->insert(name).second) choices.questions.push_back(name);
    return given_answer(choices, name);
  };
}

std::optional<PythonValue> settle_python_value(
    const PythonObject& object, std::span<const PythonToken> tokens,
    const PythonChoices& choices, Diagnostics& diags) {
  return ChoiceSettler(tokens, choices, diags).run(object);
}

}  // namespace shardplan
