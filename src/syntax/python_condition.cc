// SPDX-License-Identifier: Apache-2.0
// read_python_condition of syntax/python_program.h.
#include <optional>
#include <string>
#include <utility>

#include "syntax/python_program.h"

namespace shardplan {
namespace {

constexpr int kMaxConditionDepth = 64;

class ConditionReader {
 public:
  ConditionReader(std::span<const PythonToken> tokens, size_t begin, size_t end,
                  const PythonAnswers& answers)
      : tokens_(tokens), at_(begin), end_(end), answers_(answers) {}

  PythonCondition run() {
    result_.is_understood = true;
    result_.value = operands(true);
    result_.is_understood = result_.is_understood && at_ == end_;
    return std::move(result_);
  }

 private:
  bool accept(std::string_view word) {
    const bool is_there = at_ < end_ && tokens_[at_].is(word);
    if (is_there) ++at_;
    return is_there;
  }

  // Reads operands of `or`, each of which may be several of `and`; or those of
  // `and`. One that has the value `deciding` decides.
  std::optional<bool> operands(bool deciding) {
    const auto next = [&] { return deciding ? operands(false) : operand(); };
    std::optional<bool> left = next();
    while (result_.is_understood && accept(deciding ? "or" : "and")) {
      const std::optional<bool> right = next();
      if (left == deciding || right == deciding) {
        left = deciding;
      } else if (!left || !right) {
        left = std::nullopt;
      }
    }
    return left;
  }

  std::optional<bool> operand() {
    bool is_negated = false;
    while (accept("not")) is_negated = !is_negated;
    if (accept("(")) {
      // Limits brackets to the nesting depth of values.
      if (++depth_ > kMaxConditionDepth) result_.is_understood = false;
      if (!result_.is_understood) return std::nullopt;
      const auto inside = operands(true);
      --depth_;
      result_.is_understood = result_.is_understood && accept(")");
      return inside ? std::optional(*inside != is_negated) : std::nullopt;
    }
    if (at_ >= end_ || tokens_[at_].kind != PythonTokenKind::Name) {
      result_.is_understood = false;
      return std::nullopt;
    }
    Span where = tokens_[at_].where;
    std::string last = tokens_[at_++].text;
    while (accept(".")) {
      if (at_ >= end_) break;
      where.end = tokens_[at_].where.end;
      last = tokens_[at_++].text;
    }
    if (last == "True" || last == "False") {
      return (last == "True") != is_negated;
    }
    if (const auto answer = answers_(last)) return *answer != is_negated;
    result_.open.push_back({last, where, is_negated});
    return std::nullopt;
  }

  std::span<const PythonToken> tokens_;
  size_t at_;
  size_t end_;
  const PythonAnswers& answers_;
  PythonCondition result_;
  int depth_ = 0;
};

}  // namespace

PythonCondition read_python_condition(std::span<const PythonToken> tokens,
                                      size_t begin, size_t end,
                                      const PythonAnswers& answers) {
  return ConditionReader(tokens, begin, end, answers).run();
}

}  // namespace shardplan
