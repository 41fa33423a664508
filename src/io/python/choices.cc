// SPDX-License-Identifier: Apache-2.0
#include "io/python/choices.h"

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <utility>

#include "base/text.h"
#include "base/words.h"
#include "core/spec.h"

namespace shardplan {
namespace {

constexpr int kMaxChoiceDepth = 64;

// Joins the text into one line and shortens it.
std::string brief(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (!blank) {
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
constexpr size_t kMaxReadings = 4;

std::optional<bool> given_answer(const PythonChoices& choices,
                                 std::string_view name) {
  const RuleAnswer* answer = choices.reading.find_answer(name);
  if (answer == nullptr) return std::nullopt;
  const std::string& text = answer->value;
  if (text == "true" || text == "True" || text == "1") return true;
  if (text == "false" || text == "False" || text == "0") return false;
  return std::nullopt;
}

std::optional<bool> answer_of(const PythonChoices& choices,
                              std::string_view name) {
  std::vector<std::string>& all = choices.questions;
  if (!contains(all, name)) all.emplace_back(name);
  return given_answer(choices, name);
}

class ChoiceSettler {
 public:
  ChoiceSettler(std::span<const PythonToken> tokens,
                const PythonChoices& choices, Diagnostics& diags)
      : tokens_(tokens),
        choices_(choices),
        answers_(python_answers(choices)),
        diags_(diags) {}

  std::optional<PythonValue> run(const PythonObject& object) {
    auto result = settle(object, 0);
    if (!result) return std::nullopt;
    for (const Question& question : open_) {
      auto report =
          diags_.error(Code::MalformedDocument, question.where,
                       "the table depends on " + in_backticks(question.name));
      const size_t shown = std::min(question.readings.size(), kMaxReadings);
      for (size_t i = 0; i < shown; ++i) report.fact(question.readings[i]);
      if (shown < question.readings.size()) {
        report.fact("and " + plural(static_cast<int64_t>(
                                        question.readings.size() - shown),
                                    "more place"));
      }
      report.help("pass `--set " + question.name + "=true` or `--set " +
                  question.name + "=false`");
    }
    if (!open_.empty()) return std::nullopt;
    return result;
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
    return {object.kind, object.text, {}, object.where, ""};
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
    switch (object.kind) {
      case PythonKind::Choice:
        return choice(object, depth);
      case PythonKind::Sum:
        return sum(object, depth);
      case PythonKind::Starred:
        return refuse(object.where, "this cannot be unpacked here",
                      "write the rules out");
      case PythonKind::Tuple:
      case PythonKind::List:
      case PythonKind::Call:
        return with_items(object, depth);
      default:
        return plain(object);
    }
  }

  static bool is_sequence(const PythonValue& value) {
    return value.kind == PythonKind::Tuple || value.kind == PythonKind::List;
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
      if ((is_map && !is_dict) || (is_list && !is_sequence(*settled))) {
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
    const bool is_moe = object.kind == PythonKind::Call &&
                        last_word(object.text) == "get_moe_partition_spec";
    return is_moe ? moe_spec(result) : result;
  }

  // Concatenates sequences of one kind, or strings.
  std::optional<PythonValue> sum(const PythonObject& object, int depth) {
    std::optional<PythonValue> result;
    for (const PythonItem& item : object.items) {
      auto part = settle(*item.value, depth + 1);
      if (!part) return std::nullopt;
      const bool is_known =
          is_sequence(*part) || part->kind == PythonKind::String;
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
    open.readings.push_back(
        "line " + std::to_string(where.file->position(where.begin).line) +
        ": " + if_true + " if true, " + if_false + " if false");
  }

  std::optional<bool> ask(const std::string& name, Span where,
                          const std::string& if_true,
                          const std::string& if_false) {
    const auto answer = answer_of(choices_, name);
    if (!answer) add_question(name, where, if_true, if_false);
    return answer;
  }

  struct MoeArguments {
    std::string direction;
    std::array<PythonValue, 7> values;
    std::array<bool, 7> given = {};
  };
  static constexpr std::array<std::string_view, 7> kMoeNames = {
      "partition_manager", "direction",      "tensors_are_expert", "is_bias",
      "fsdp_is_ep_bound",  "sp_is_ep_bound", "module_view"};
  enum MoeArgument { Manager, Direction, Tensors, Bias, Fsdp, Sp, View };

  static std::optional<bool> literal_bool(const PythonValue& value) {
    if (value.kind != PythonKind::Name) return std::nullopt;
    if (value.text == "True") return true;
    if (value.text == "False") return false;
    return std::nullopt;
  }

  // Returns the spec that EasyDeL 0.2's get_moe_partition_spec returns; its
  // axes are those of eformer's PartitionAxis.
  static PartitionSpec moe_axes(const MoeArguments& all, bool is_bias,
                                bool is_view, bool tensors, bool fsdp, bool sp,
                                bool in_short) {
    const auto axis = [&](const char* brief_name, const char* semantic) {
      return AxisName(in_short ? brief_name : semantic);
    };
    const AxisName tp = axis("tp", "__TENSOR_PARALLEL__");
    PartitionSpec spec;
    if (tensors) {
      spec.dims = {{tp}, {}};
      if (!is_bias) spec.dims.emplace_back();
      return spec;
    }
    AxisNames experts = {axis("ep", "__EXPERT_PARALLEL__")};
    if (is_view && sp) experts.push_back(axis("sp", "__SEQUENCE_PARALLEL__"));
    if (is_view && fsdp) {
      experts.push_back(axis("fsdp", "__FULLY_SHARDED_DATA_PARALLEL__"));
    }
    if (is_bias) {
      spec.dims = {experts, {tp}};
    } else if (all.direction == "column") {
      spec.dims = {experts, {}, {tp}};
    } else {
      spec.dims = {experts, {tp}, {}};
    }
    return spec;
  }

  std::optional<PythonValue> moe_spec(const PythonValue& call) {
    MoeArguments all;
    for (size_t i = 0; i < call.items.size(); ++i) {
      const PythonValue& item = call.items[i];
      const auto* const found =
          item.keyword.empty()
              ? kMoeNames.begin() +
                    static_cast<std::ptrdiff_t>(std::min(i, kMoeNames.size()))
              : std::ranges::find(kMoeNames, item.keyword);
      if (found == kMoeNames.end()) {
        return refuse(item.where,
                      "unknown argument of `get_moe_partition_spec`",
                      "write the PartitionSpec that it returns");
      }
      const auto at = static_cast<size_t>(found - kMoeNames.begin());
      all.values[at] = item;
      all.given[at] = true;
    }
    all.direction = all.values[Direction].text;
    const std::optional<bool> is_bias = fixed(all, Bias);
    const std::optional<bool> is_view = fixed(all, View);
    const bool is_direction =
        all.values[Direction].kind == PythonKind::String &&
        (all.direction == "column" || all.direction == "row");
    if (!is_direction || !is_bias || !is_view || !all.given[Tensors]) {
      return refuse(
          call.where,
          "this `get_moe_partition_spec` call cannot be evaluated: it needs "
          "`direction`, `tensors_are_expert`, and literals for "
          "`is_bias` and `module_view`",
          "write the PartitionSpec that it returns");
    }
    const auto text = [&](bool tensors, bool fsdp, bool sp) {
      return in_backticks(python_spec(
          moe_axes(all, *is_bias, *is_view, tensors, fsdp, sp, true)));
    };
    note_argument(all, Fsdp);
    note_argument(all, Sp);
    const auto tensors =
        argument(all, Tensors, text(true, true, true), text(false, true, true));
    bool fsdp = true;
    bool sp = true;
    if (tensors == false && *is_view) {
      sp = argument(all, Sp, text(false, true, true), text(false, true, false))
               .value_or(true);
      fsdp = argument(all, Fsdp, text(false, true, sp), text(false, false, sp))
                 .value_or(true);
    }
    return spec_value(moe_axes(all, *is_bias, *is_view, tensors.value_or(true),
                               fsdp, sp, false),
                      call.where);
  }

  // Returns the literal value of an argument; false, the default, if absent.
  static std::optional<bool> fixed(const MoeArguments& all, size_t at) {
    if (!all.given[at]) return false;
    return literal_bool(all.values[at]);
  }

  void note_argument(const MoeArguments& all, size_t at) {
    const PythonValue& value = all.values[at];
    if (all.given[at] && value.kind == PythonKind::Name &&
        !literal_bool(value)) {
      answer_of(choices_, last_word(value.text));
    }
  }

  // Returns the value of an argument; true, the default of both, if absent.
  std::optional<bool> argument(const MoeArguments& all, size_t at,
                               const std::string& if_true,
                               const std::string& if_false) {
    if (!all.given[at]) return true;
    const PythonValue& value = all.values[at];
    if (const auto literal = literal_bool(value)) return literal;
    return ask(std::string(last_word(value.text)), value.where, if_true,
               if_false);
  }

  static PythonValue spec_value(const PartitionSpec& spec, Span where) {
    PythonValue call{PythonKind::Call, "PartitionSpec", {}, where, ""};
    for (const AxisNames& axes : spec.dims) {
      PythonValue entry{PythonKind::None, "", {}, where, ""};
      if (axes.size() > 1) entry.kind = PythonKind::Tuple;
      for (const AxisName& axis : axes) {
        PythonValue text{PythonKind::String, axis, {}, where, ""};
        if (axes.size() == 1) {
          entry = std::move(text);
        } else {
          entry.items.push_back(std::move(text));
        }
      }
      call.items.push_back(std::move(entry));
    }
    return call;
  }

  std::span<const PythonToken> tokens_;
  const PythonChoices& choices_;
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
