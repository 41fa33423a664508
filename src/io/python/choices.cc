// SPDX-License-Identifier: Apache-2.0
#include "io/python/choices.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "core/spec.h"

namespace shardplan {
namespace {

constexpr int kMaxChoiceDepth = 64;

int64_t column_of(const PythonToken& token) {
  return token.where.file->position(token.where.begin).column;
}

std::string_view last_name(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

// The statement that a token stands in begins here.
size_t statement_begin(std::span<const PythonToken> tokens, size_t at) {
  int brackets = 0;
  while (at > 0) {
    const PythonToken& token = tokens[at];
    if (token.is(")") || token.is("]") || token.is("}")) ++brackets;
    if (token.is("(") || token.is("[") || token.is("{")) {
      brackets = std::max(0, brackets - 1);
    }
    if (brackets == 0 && token.starts_line &&
        token.kind == PythonTokenKind::Name) {
      break;
    }
    --at;
  }
  return at;
}

// On one line, and not long.
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

std::string reading_text(const PythonValue& value) {
  const auto is_sequence = [](const PythonValue& each) {
    return each.kind == PythonKind::Tuple || each.kind == PythonKind::List;
  };
  const bool is_table =
      is_sequence(value) && !value.items.empty() &&
      std::all_of(value.items.begin(), value.items.end(), is_sequence);
  if (is_table) {
    return "a table of " +
           plural(static_cast<int64_t>(value.items.size()), "rule");
  }
  return in_backticks(brief(value.where.text()));
}

// What an answer decides, at one or more places.
struct Question {
  std::string name;
  Span where;
  std::vector<std::string> readings;
};
constexpr size_t kMostReadings = 4;

class ChoiceSettler {
 public:
  ChoiceSettler(std::span<const PythonToken> tokens, size_t table,
                const PythonChoices& choices, Diagnostics& diags)
      : tokens_(tokens), table_(table), choices_(choices), diags_(diags) {}

  std::optional<PythonValue> run(const PythonValue& value) {
    auto result = settle(value, 0);
    if (!result) return std::nullopt;
    for (const Question& question : open_) {
      auto report =
          diags_.error(Code::MalformedDocument, question.where,
                       "the table depends on " + in_backticks(question.name));
      const size_t shown = std::min(question.readings.size(), kMostReadings);
      for (size_t i = 0; i < shown; ++i) report.fact(question.readings[i]);
      if (shown < question.readings.size()) {
        report.fact("and in " + plural(static_cast<int64_t>(
                                           question.readings.size() - shown),
                                       "more place"));
      }
      report.help("say `--set " + question.name + "=true`, or `--set " +
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

  std::optional<PythonValue> settle(const PythonValue& value, int depth) {
    if (depth > kMaxChoiceDepth) {
      return refuse(value.where,
                    "this stands for itself, or is nested deeper "
                    "than 64 levels",
                    "write the value itself");
    }
    switch (value.kind) {
      case PythonKind::Choice:
        return choice(value, depth);
      case PythonKind::Name:
        return name(value, depth);
      case PythonKind::Starred:
        return refuse(value.where, "this cannot be put in here",
                      "write the rules out");
      case PythonKind::Tuple:
      case PythonKind::List:
      case PythonKind::Call:
        return with_items(value, depth);
      default:
        return value;
    }
  }

  std::optional<PythonValue> with_items(const PythonValue& value, int depth) {
    PythonValue result = value;
    result.items.clear();
    for (const PythonValue& item : value.items) {
      const bool is_map = item.keyword == "**";
      const bool is_list = item.kind == PythonKind::Starred;
      auto settled = settle(is_list ? item.items[0] : item, depth + 1);
      if (!settled) return std::nullopt;
      const bool is_dict =
          settled->kind == PythonKind::Call && settled->text == "dict";
      const bool is_sequence = settled->kind == PythonKind::Tuple ||
                               settled->kind == PythonKind::List;
      if ((is_map && !is_dict) || (is_list && !is_sequence)) {
        return refuse(item.where,
                      in_backticks(brief(item.where.text())) +
                          " is not followed: its items are not written out "
                          "in this file",
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
    const bool is_moe = value.kind == PythonKind::Call &&
                        last_name(value.text) == "get_moe_partition_spec";
    return is_moe ? moe_spec(result) : result;
  }

  // `A if CONDITION else B`. With no answer A is looked at, for what else it
  // depends on.
  std::optional<PythonValue> choice(const PythonValue& value, int depth) {
    at_ = value.condition_begin;
    end_ = value.condition_end;
    readings_ = {reading_text(value.items[0]), reading_text(value.items[1])};
    understood_ = true;
    const std::optional<bool> first = any_of();
    if (!understood_ || at_ != end_) {
      Span where = tokens_[value.condition_begin].where;
      where.end = tokens_[value.condition_end - 1].where.end;
      return refuse(where,
                    "the condition " + in_backticks(brief(where.text())) +
                        " is not read: only names with `not`, `and` and `or` "
                        "are",
                    "write the one value that is meant");
    }
    return settle(value.items[first.value_or(true) ? 0 : 1], depth + 1);
  }

  bool take(std::string_view word) {
    const bool is_there = at_ < end_ && tokens_[at_].is(word);
    if (is_there) ++at_;
    return is_there;
  }

  std::optional<bool> any_of() {
    std::optional<bool> left = all_of();
    while (understood_ && take("or")) {
      const std::optional<bool> right = all_of();
      if (left == true || right == true) {
        left = true;
      } else if (!left || !right) {
        left = std::nullopt;
      }
    }
    return left;
  }

  std::optional<bool> all_of() {
    std::optional<bool> left = operand(false);
    while (understood_ && take("and")) {
      const std::optional<bool> right = operand(false);
      if (left == false || right == false) {
        left = false;
      } else if (!left || !right) {
        left = std::nullopt;
      }
    }
    return left;
  }

  std::optional<bool> operand(bool is_negated) {
    while (take("not")) is_negated = !is_negated;
    if (take("(")) {
      const auto inside = any_of();
      understood_ = understood_ && take(")");
      return inside && is_negated ? std::optional(!*inside) : inside;
    }
    if (at_ >= end_ || tokens_[at_].kind != PythonTokenKind::Name) {
      understood_ = false;
      return std::nullopt;
    }
    Span where = tokens_[at_].where;
    std::string last = tokens_[at_++].text;
    while (take(".")) {
      if (at_ >= end_) break;
      where.end = tokens_[at_].where.end;
      last = tokens_[at_++].text;
    }
    if (last == "True" || last == "False") {
      return (last == "True") != is_negated;
    }
    const auto answer =
        is_negated ? ask(last, where, readings_.second, readings_.first)
                   : ask(last, where, readings_.first, readings_.second);
    return answer && is_negated ? std::optional(!*answer) : answer;
  }

  std::optional<bool> ask(const std::string& question, Span where,
                          const std::string& if_true,
                          const std::string& if_false) {
    note(question);
    const RuleAnswer* answer = choices_.reading.find_answer(question);
    if (answer != nullptr) {
      const std::string& text = answer->value;
      if (text == "true" || text == "True" || text == "1") return true;
      if (text == "false" || text == "False" || text == "0") return false;
    }
    const auto known = std::find_if(
        open_.begin(), open_.end(),
        [&](const Question& other) { return other.name == question; });
    Question& open = known != open_.end()
                         ? *known
                         : open_.emplace_back(Question{question, where, {}});
    open.readings.push_back(
        "line " + std::to_string(where.file->position(where.begin).line) +
        ": " + if_true + " if it is true, " + if_false + " if not");
    return std::nullopt;
  }

  void note(const std::string& question) {
    std::vector<std::string>& all = choices_.questions;
    if (std::find(all.begin(), all.end(), question) == all.end()) {
      all.push_back(question);
    }
  }

  // Assignments to a name in tokens [begin, end) of at most this column.
  std::vector<size_t> assignments(std::string_view wanted, size_t begin,
                                  size_t end, int64_t column, bool& is_inner) {
    std::vector<size_t> found;
    for (size_t i = begin; i + 1 < end; ++i) {
      if (!tokens_[i].starts_line || !tokens_[i].is(wanted)) continue;
      size_t value = i + 1;
      if (tokens_[value].is(":")) {
        while (value + 1 < end && !tokens_[value].is("=") &&
               !tokens_[value + 1].starts_line) {
          ++value;
        }
      }
      if (!tokens_[value].is("=")) continue;
      is_inner = is_inner || column_of(tokens_[i]) > column;
      found.push_back(value + 1);
    }
    return found;
  }

  // By its only assignment; a name that has none stays.
  std::optional<PythonValue> name(const PythonValue& value, int depth) {
    if (value.text.find('.') != std::string::npos) return value;
    const size_t statement = statement_begin(tokens_, table_);
    size_t function = statement;
    while (function > 0 &&
           !(tokens_[function].starts_line && tokens_[function].is("def"))) {
      --function;
    }
    bool is_inner = false;
    auto found = assignments(value.text, function, statement,
                             column_of(tokens_[statement]), is_inner);
    if (found.empty()) {
      const auto all = assignments(value.text, 0, tokens_.size(), 1, is_inner);
      is_inner = false;
      for (const size_t at : all) {
        const size_t begin = statement_begin(tokens_, at);
        if (column_of(tokens_[begin]) == 1) found.push_back(at);
      }
    }
    if (found.empty()) return value;
    if (found.size() > 1 || is_inner) {
      return refuse(
          value.where,
          in_backticks(value.text) + " is assigned " +
              (found.size() > 1 ? "more than once" : "within a condition") +
              ", so that it is not followed",
          "write its value here");
    }
    size_t at = found.front();
    const auto meant =
        parse_python_value(tokens_, at, diags_, PythonParts::All);
    if (!meant) return std::nullopt;
    const PythonToken& next = tokens_[at];
    if (next.kind != PythonTokenKind::End && !next.starts_line) {
      return refuse(next.where,
                    in_backticks(value.text) +
                        " is an expression, which is "
                        "not evaluated",
                    "write its value");
    }
    auto settled = settle(*meant, depth + 1);
    if (settled) settled->keyword = value.keyword;
    return settled;
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

  // What EasyDeL 0.2's function of that name returns; its axes are those of
  // eformer's PartitionAxis.
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
              : std::find(kMoeNames.begin(), kMoeNames.end(), item.keyword);
      if (found == kMoeNames.end()) {
        return refuse(item.where,
                      "this argument of `get_moe_partition_spec` is not known",
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
      return refuse(call.where,
                    "this `get_moe_partition_spec` is not followed: it needs "
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

  // False where it is not given.
  static std::optional<bool> fixed(const MoeArguments& all, size_t at) {
    if (!all.given[at]) return false;
    return literal_bool(all.values[at]);
  }

  void note_argument(const MoeArguments& all, size_t at) {
    const PythonValue& value = all.values[at];
    if (all.given[at] && value.kind == PythonKind::Name &&
        !literal_bool(value)) {
      note(std::string(last_name(value.text)));
    }
  }

  // True where it is not given, as both are by default.
  std::optional<bool> argument(const MoeArguments& all, size_t at,
                               const std::string& if_true,
                               const std::string& if_false) {
    if (!all.given[at]) return true;
    const PythonValue& value = all.values[at];
    if (const auto literal = literal_bool(value)) return literal;
    return ask(std::string(last_name(value.text)), value.where, if_true,
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
  size_t table_;
  const PythonChoices& choices_;
  Diagnostics& diags_;
  std::vector<Question> open_;
  // Of the condition that is looked at.
  size_t at_ = 0;
  size_t end_ = 0;
  bool understood_ = true;
  std::pair<std::string, std::string> readings_;
};

}  // namespace

std::optional<PythonValue> settle_python_value(
    const PythonValue& value, std::span<const PythonToken> tokens, size_t table,
    const PythonChoices& choices, Diagnostics& diags) {
  return ChoiceSettler(tokens, table, choices, diags).run(value);
}

}  // namespace shardplan
