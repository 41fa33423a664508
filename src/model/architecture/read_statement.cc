// SPDX-License-Identifier: Apache-2.0
// Translates statements into steps: one ForwardStep per operation, in the order
// of computation, which is from left to right for operands. An operand is the
// name of a value of the pass; every other expression is a size or number of
// the model.
#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "model/architecture/layouts.h"
#include "model/architecture/reading.h"
#include "model/language/statement.h"

namespace shardplan {
namespace {

using StepKind = ForwardStep::Kind;
using Term = ExpressionNode::Kind;

constexpr size_t kMaxStatementSteps = 200;

// Operations of graph files whose first argument after the operands is an
// attribute without a name: in `reshape(x, [batch, length])` it is `shape`.
struct StatementOperation {
  std::string_view name;
  std::string_view attribute;
};
constexpr StatementOperation kAttributes[] = {
    {"einsum", "equation"}, {"expand", "shape"},  {"max", "dims"},
    {"mean", "dims"},       {"reshape", "shape"}, {"scale", "by"},
    {"shift", "by"},        {"sum", "dims"},      {"top_k", "k"},
    {"transpose", "order"},
};
constexpr std::array<std::string_view, 51> kOperations = {
    // clang-format off
    "add", "alibi", "causal_convolution", "causal_mask", "choice_mask",
    "clamp", "combine", "concatenate", "decaying_maximum", "delta_recurrence",
    "dispatch", "divide", "einsum", "embedding", "exp", "expand", "gelu",
    "last_token", "layer_norm", "linear", "linear_recurrence", "matmul", "max",
    "maximum", "mean", "mixer_shares", "multiply", "negate", "position_scale",
    "relative_bias", "relu", "reshape", "rms_norm", "rope", "rsqrt", "scale",
    "shift", "sigmoid", "silu", "slice", "softmax", "softplus", "square",
    "subtract", "sum", "take", "tanh", "token_positions", "top_k", "transpose",
    "xielu",
    // clang-format on
};

// Functions of statements besides operations of graph files, with the name of
// the argument after the operands.
struct SpecialCall {
  std::string_view name;
  StepKind kind;
  std::string_view argument;
  size_t operands;
};
constexpr SpecialCall kSpecialCalls[] = {
    {"activate", StepKind::Activation, "activation", 1},
    {"unembed", StepKind::Unembed, "unembed", 1},
    {"rotate", StepKind::Rotate, "", 1},
    {"query_heads", StepKind::Heads, "", 1},
    {"key_heads", StepKind::Heads, "", 1},
    {"attention_scores", StepKind::Heads, "", 2},
    {"attention_values", StepKind::Heads, "", 2},
    {"experts", StepKind::Experts, "", 3},
};

// The operations of an operator: for two values, and for a value and a number.
// `sign` precedes the number on the right.
struct Arithmetic {
  Term kind;
  std::string_view both;
  std::string_view by_number;
  std::string_view sign;
};
constexpr Arithmetic kArithmetic[] = {
    {Term::Add, "add", "shift", ""},
    {Term::Subtract, "subtract", "shift", "-"},
    {Term::Multiply, "multiply", "scale", ""},
    {Term::Divide, "divide", "scale", "1.0 / "},
};

// Attributes of operations that are text, not expressions.
constexpr std::array<std::string_view, 3> kTextAttributes = {
    "equation", "approximate", "scaling"};
// Arguments of `experts` that are names of modules and blocks.
constexpr std::array<std::string_view, 6> kExpertNames = {
    "of", "gate", "up", "down", "both", "mix"};

class StatementReader {
 public:
  StatementReader(std::string_view text, Span where, StepReader& reader,
                  const ValueNames& modules, ValueNames& values,
                  NameCounts& intermediate)
      : text_(text),
        where_(where),
        reader_(reader),
        modules_(modules),
        values_(values),
        intermediate_(intermediate),
        // A scalar without quotes is in the file as it is here, so nodes have
        // exact places in the file.
        is_exact_(where.file != nullptr && where.text() == text) {}

  bool run(std::vector<ForwardStep>& steps) {
    std::string why;
    auto read = parse_statement(text_, why);
    if (!read) {
      reader_.refuse(where_, in_backticks(elide_middle(text_, 80, true)) +
                                 " is not a valid statement: " + why);
      return false;
    }
    statement_ = *std::move(read);
    const bool good = (is_split() ? split() : assign()) && finish();
    // The results exist even after a mistake: steps that read them have none.
    values_.insert(targets().begin(), targets().end());
    if (good) std::ranges::move(steps_, std::back_inserter(steps));
    return good;
  }

 private:
  const std::vector<std::string>& targets() const { return statement_.targets; }
  const ExpressionNode& node(int index) const {
    return nth(statement_.nodes, index);
  }
  // Without the blanks behind it.
  std::string_view text_of(int index) const {
    const size_t begin = node(index).begin;
    const std::string_view text = text_.substr(begin, node(index).end - begin);
    return text.substr(0, text.find_last_not_of(" \n") + 1);
  }
  Span place(int index) const {
    if (!is_exact_) return where_;
    const uint64_t begin = where_.begin + node(index).begin;
    return {where_.file, begin, begin + text_of(index).size()};
  }
  std::nullopt_t refuse(int index, const std::string& message) {
    reader_.refuse(place(index), message);
    return std::nullopt;
  }

  // Refuses a size or number, or a misspelt name, where a value must be.
  void no_value(int index) {
    const std::string text(text_of(index));
    suggest(reader_.refuse(place(index),
                           in_backticks(text) +
                               " is not a value that an earlier step makes"),
            text, std::vector<std::string>(values_.begin(), values_.end()));
  }

  // Returns whether a node is a value of the pass, not a size or number.
  bool is_value(int index) const {
    const ExpressionNode& one = node(index);
    switch (one.kind) {
      case Term::Name:
        return values_.contains(one.name);
      case Term::Negate:
        return is_value(one.first);
      case Term::Add:
      case Term::Subtract:
      case Term::Multiply:
      case Term::Divide:
      case Term::FloorDivide:
      case Term::Remainder:
        return is_value(one.first) || is_value(one.second);
      case Term::Call:
        return !is_number_function(one.name) ||
               (!one.arguments.empty() && is_value(one.arguments.front()));
      default:
        return false;
    }
  }

  ForwardStep& add(StepKind kind, int index, std::string_view what) {
    ForwardStep& step = steps_.emplace_back();
    step.kind = kind;
    step.where = place(index);
    step.what = what;
    return step;
  }
  // Names the result of the last step so that another step can read it.
  std::optional<std::string> intermediate(int index) {
    if (steps_.size() > kMaxStatementSteps) {
      return refuse(index, "the statement is too long");
    }
    const std::string& what = steps_.back().what;
    std::string name =
        targets().front() + ":" + what.substr(what.rfind('.') + 1);
    const int count = ++intermediate_[name];
    if (count > 1) name += std::to_string(count);
    steps_.back().out = {name};
    return name;
  }

  std::optional<Expression> number(int index) {
    return number(std::string(text_of(index)), index);
  }
  std::optional<Expression> number(const std::string& text, int index) {
    std::string why;
    auto read = parse_expression(text, place(index), why);
    if (read) return read;
    return refuse(index,
                  in_backticks(text) + " is not a valid expression: " + why);
  }

  // Appends the steps that compute a value and returns its name.
  std::optional<std::string> value(int index) {
    const ExpressionNode& one = node(index);
    switch (one.kind) {
      case Term::Name:
        return one.name;
      case Term::Call:
        return call(index);
      case Term::Negate:
        return negated(one.first, index);
      case Term::Add:
      case Term::Subtract:
      case Term::Multiply:
      case Term::Divide:
        return arithmetic(index);
      default:
        return refuse(index, "`//` and `%` are for sizes, not for values");
    }
  }

  std::optional<std::string> arithmetic(int index) {
    const ExpressionNode& one = node(index);
    const Arithmetic& row =
        *std::ranges::find(kArithmetic, one.kind, &Arithmetic::kind);
    if (one.kind == Term::Divide && !is_value(one.first)) {
      return refuse(index, "a number cannot be divided by a value");
    }
    if (!is_value(one.first) || !is_value(one.second)) {
      return by_number(row, index);
    }
    auto left = value(one.first);
    auto right = left ? value(one.second) : std::nullopt;
    if (!right) return std::nullopt;
    add(StepKind::Op, index, row.both).in = {*left, *right};
    return intermediate(index);
  }
  std::optional<std::string> negated(int of, int index) {
    auto operand = value(of);
    if (!operand) return std::nullopt;
    add(StepKind::Op, index, "negate").in = {*operand};
    return intermediate(index);
  }

  // Appends a step that scales or shifts a value by a number. A value on the
  // right of `-` is negated.
  std::optional<std::string> by_number(const Arithmetic& row, int index) {
    const int left = node(index).first;
    const int right = node(index).second;
    const bool first = is_value(left);
    auto operand = first              ? value(left)
                   : row.sign.empty() ? value(right)
                                      : negated(right, right);
    if (!operand) return std::nullopt;
    const int amount = first ? right : left;
    std::string text(text_of(amount));
    if (first && !row.sign.empty()) {
      text = std::string(row.sign) + "(" + text + ")";
    }
    auto by = number(text, amount);
    if (!by) return std::nullopt;
    ForwardStep& step = add(StepKind::Op, index, row.by_number);
    step.in = {*operand};
    step.neutral = row.by_number == "scale" ? 1 : 0;
    step.attributes.push_back(
        {"by", place(amount), {*std::move(by)}, false, ""});
    return intermediate(index);
  }

  std::optional<std::string> call(int index) {
    const std::string& name = node(index).name;
    ForwardStep step;
    step.where = place(index);
    step.what = name;
    const SpecialCall* const special = find_named(kSpecialCalls, name);
    bool good = true;
    if (modules_.contains(name) && contains(kOperations, name)) {
      good = use(index, step);
    } else if (name == "weight") {
      good = weight(index, step);
    } else if (name == "split") {
      return refuse(index,
                    "`split` must be the whole right side of a statement");
    } else if (special != nullptr) {
      step.kind = special->kind;
      if (special->kind == StepKind::Experts) step.what.clear();
      good = arguments(index, special->argument, step) &&
             is_complete(*special, index, step);
    } else if (contains(kOperations, name)) {
      step.kind = StepKind::Op;
      const auto* const known = find_named(kAttributes, name);
      good = arguments(index, known != nullptr ? known->attribute : "", step);
    } else {
      good = use(index, step);
    }
    if (!good) return std::nullopt;
    if (step.kind != StepKind::Weight && step.in.empty()) {
      return refuse(index, in_backticks(name) + " reads no value");
    }
    steps_.push_back(std::move(step));
    return intermediate(index);
  }

  // Reads a call of a module or block. The names of its values get the prefix
  // of the result's name.
  bool use(int index, ForwardStep& step) {
    step.kind = StepKind::Apply;
    const size_t dot = targets().front().rfind('.');
    if (dot != std::string::npos) step.as = targets().front().substr(0, dot);
    return arguments(index, "", step);
  }

  bool weight(int index, ForwardStep& step) {
    step.kind = StepKind::Weight;
    for (const int module : node(index).arguments) {
      step.otherwise.emplace_back(text_of(module));
    }
    if (step.otherwise.empty()) {
      refuse(index, "`weight` names no module");
      return false;
    }
    step.what = step.otherwise.front();
    step.otherwise.erase(step.otherwise.begin());
    return true;
  }

  bool is_complete(const SpecialCall& call, int index,
                   const ForwardStep& step) {
    const auto needs = [&](std::string_view key) {
      if (step.argument(key) != nullptr) return true;
      refuse(index, in_backticks(call.name) + " needs " + in_backticks(key));
      return false;
    };
    if (step.in.size() != call.operands) {
      refuse(index, in_backticks(call.name) + " reads " +
                        plural(static_cast<int64_t>(call.operands), "value") +
                        ", not " + std::to_string(step.in.size()));
      return false;
    }
    if (call.kind != StepKind::Experts) {
      return call.argument.empty() || needs(call.argument);
    }
    if (step.what.empty()) {
      refuse(index, "`experts` needs `of`, the name of its modules");
      return false;
    }
    return needs("count") && needs("size") &&
           (!step.mix.empty() || needs("activation"));
  }

  // Reads the arguments of a call. Those without a name are values, or the
  // attribute called `attribute`.
  bool arguments(int index, std::string_view attribute, ForwardStep& step) {
    for (const int argument : node(index).arguments) {
      if (is_value(argument)) {
        auto operand = value(argument);
        if (!operand) return false;
        step.in.push_back(*std::move(operand));
      } else if (attribute.empty()) {
        no_value(argument);
        return false;
      } else if (!named(std::string(attribute), argument, step)) {
        return false;
      }
    }
    return std::ranges::all_of(node(index).named, [&](const auto& one) {
      return named(one.first, one.second, step);
    });
  }

  bool named(const std::string& key, int index, ForwardStep& step) {
    const std::string text(text_of(index));
    if (step.kind == StepKind::Experts && contains(kExpertNames, key)) {
      if (key == "of") {
        step.what = text;
      } else if (key == "mix") {
        step.mix = text;
      } else {
        step.attributes.push_back({key, place(index), {}, false, text});
      }
      return true;
    }
    if (step.kind == StepKind::Op) return attribute(key, index, step);
    auto argument = number(index);
    if (!argument) return false;
    step.arguments.emplace_back(key, *std::move(argument));
    return true;
  }

  bool attribute(const std::string& key, int index, ForwardStep& step) {
    ForwardAttribute result;
    result.name = key;
    result.where = place(index);
    std::vector<int> parts = {index};
    if (contains(kTextAttributes, key)) {
      result.text = node(index).constant.text;
      if (result.text.empty()) {
        refuse(index, in_backticks(key) + " must be a text in quotes");
        return false;
      }
      parts.clear();
    } else if (node(index).kind == Term::List) {
      result.is_list = true;
      parts = node(index).arguments;
    }
    for (const int part : parts) {
      auto each = number(part);
      if (!each) return false;
      result.values.push_back(*std::move(each));
    }
    step.attributes.push_back(std::move(result));
    return true;
  }

  bool is_split() const {
    const ExpressionNode& root = node(statement_.value);
    return root.kind == Term::Call && root.name == "split";
  }

  // Appends a slice per target: consecutive parts of the last dimension.
  bool split() {
    const int index = statement_.value;
    const std::vector<int>& all = node(index).arguments;
    if (all.size() != targets().size() + 1 || !is_value(all.front()) ||
        !node(index).named.empty()) {
      refuse(index,
             "`split(x, a, b)` needs a size for each of the names before `=`");
      return false;
    }
    const auto operand = value(all.front());
    if (!operand) return false;
    std::string end;
    for (size_t i = 0; i < targets().size(); ++i) {
      const int size = all[i + 1];
      const std::string begin = end;
      end += (end.empty() ? "(" : " + (") + std::string(text_of(size)) + ")";
      ForwardStep step;
      step.where = place(index);
      step.what = "slice";
      step.in = {*operand};
      step.out = {targets()[i]};
      for (const auto& [key, text] :
           {std::pair<std::string, std::string>{"dim", "-1"},
            {"begin", begin},
            {"end", end}}) {
        if (text.empty()) continue;
        auto amount = number(text, size);
        if (!amount) return false;
        step.attributes.push_back(
            {key, place(size), {*std::move(amount)}, false, ""});
      }
      steps_.push_back(std::move(step));
    }
    return true;
  }

  bool assign() {
    const int root = statement_.value;
    if (!is_value(root)) {
      no_value(root);
      return false;
    }
    const auto made = value(root);
    if (!made) return false;
    const bool is_new = !steps_.empty() && steps_.back().out.front() == *made;
    if (!is_new) {
      if (statement_.layout >= 0) {
        refuse(statement_.layout,
               "a layout belongs to the statement that computes the value");
        return false;
      }
      add(StepKind::Same, root, "").in = {*made};
    }
    if (targets().size() > 1 && steps_.back().kind != StepKind::Apply) {
      refuse(root, "this gives exactly one value");
      return false;
    }
    steps_.back().out = targets();
    return true;
  }

  // Sets the layout and the condition of the steps.
  bool finish() {
    std::vector<std::string> axes;
    std::string layout;
    if (statement_.layout >= 0) {
      const ExpressionNode& of = node(statement_.layout);
      for (const int axis : of.arguments) {
        if (node(axis).kind != Term::Name) {
          refuse(axis, "an axis must be a name, or null");
          return false;
        }
        axes.emplace_back(text_of(axis) == "null" ? "" : text_of(axis));
      }
      if (of.kind != Term::List) layout = text_of(statement_.layout);
      if (!layout.empty() && find_layout(layout) == nullptr) {
        const auto names = all_names(kValueLayouts);
        suggest(reader_.refuse(place(statement_.layout),
                               "there is no layout " + in_backticks(layout)),
                layout, names,
                "layouts: " + joined(names, ", ") +
                    "; or a list of axes, `as [BATCH, LENGTH, null]`");
        return false;
      }
    }
    std::optional<Expression> when;
    if (statement_.when >= 0) {
      when = number(statement_.when);
      if (!when) return false;
    }
    for (ForwardStep& step : steps_) {
      step.when = when;
      step.is_unnamed = !contains(targets(), step.out.front());
      if (step.is_unnamed) continue;
      step.axes = axes;
      step.layout = layout;
    }
    return true;
  }

  std::string_view text_;
  Span where_;
  StepReader& reader_;
  const ValueNames& modules_;
  ValueNames& values_;
  NameCounts& intermediate_;
  bool is_exact_;
  Statement statement_;
  std::vector<ForwardStep> steps_;
};

std::string list_items(const Node& node) {
  if (!node.is_list()) return std::string(node.text());
  std::string text;
  for (size_t i = 0; i < node.size(); ++i) {
    if (i > 0) text += ", ";
    text += node.item(i).is_null() ? "null" : node.item(i).text();
  }
  return text;
}

}  // namespace

std::span<const std::string_view> statement_operations() { return kOperations; }

bool is_statement_function(std::string_view name) {
  return name == "weight" || name == "split" || contains(kOperations, name) ||
         find_named(kSpecialCalls, name) != nullptr;
}

bool read_statement(std::string_view text, Span where, StepReader& reader,
                    const ValueNames& modules, ValueNames& values,
                    NameCounts& intermediate, std::vector<ForwardStep>& steps) {
  return StatementReader(text, where, reader, modules, values, intermediate)
      .run(steps);
}

std::string as_statement(const Node& step) {
  constexpr std::string_view kOld[] = {
      "op", "apply", "weight", "activation", "rotate", "unembed", "experts"};
  const std::string_view kind = step.key(0);
  const auto out = step.find("out");
  if (!contains(kOld, kind) || !out) return "";
  const std::string first = list_items(step.item(0));
  const auto in = step.find("in");
  std::string text = list_items(*out) + " = ";
  text += kind == "op" || kind == "apply" ? first
          : kind == "activation"          ? "activate"
                                          : std::string(kind);
  text += "(" + (in ? list_items(*in) : first);
  if (kind == "activation" || kind == "unembed") text += ", " + first;
  if (kind == "experts") text += ", of = " + first;
  for (size_t i = 1; i < step.size(); ++i) {
    const std::string_view key = step.key(i);
    constexpr std::string_view kOthers[] = {"in", "out", "when", "axes", "as"};
    if (contains(kOthers, key)) continue;
    const std::string value = list_items(step.item(i));
    text += ", " + std::string(key) + " = " +
            (step.item(i).is_list()           ? "[" + value + "]"
             : contains(kTextAttributes, key) ? "'" + value + "'"
                                              : value);
  }
  text += ")";
  if (const auto axes = step.find("axes")) {
    text += " as [" + list_items(*axes) + "]";
  }
  if (const auto when = step.find("when")) {
    text += " if " + std::string(when->text());
  }
  return text;
}

}  // namespace shardplan
