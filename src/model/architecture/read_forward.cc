// SPDX-License-Identifier: Apache-2.0
// What the blocks of an architecture file compute.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "model/architecture/reading.h"

namespace shardplan {

const Expression* ForwardStep::argument(std::string_view key) const {
  for (const auto& [name, value] : arguments) {
    if (name == key) return &value;
  }
  return nullptr;
}

namespace {

constexpr int kMaxForwardNesting = 16;
// Attributes of operations that are text, not expressions.
constexpr std::array<std::string_view, 3> kTextAttributes = {
    "equation", "approximate", "scaling"};

using Names = std::vector<std::string>;

// A kind of step, by the key that stands first in it, and the keys that it has
// beside `when`; "*" for any.
struct StepKind {
  std::string_view key;
  ForwardStep::Kind kind;
  std::vector<std::string_view> keys;
};
const std::vector<StepKind>& step_kinds() {
  using Kind = ForwardStep::Kind;
  static const std::vector<StepKind> kKinds = {
      {"op", Kind::Op, {"*"}},
      {"apply", Kind::Apply, {"as", "*"}},
      {"weight", Kind::Weight, {"out"}},
      {"unembed", Kind::Unembed, {"in", "out", "axes"}},
      {"activation", Kind::Activation, {"in", "out", "axes"}},
      {"rotate", Kind::Rotate, {"out", "axes"}},
      {"experts",
       Kind::Experts,
       {"in", "out", "gate", "up", "down", "both", "count", "size",
        "activation", "mix", "inputs_weighed"}},
      {"require", Kind::Require, {"else"}},
      {"note", Kind::Note, {}},
      {"repeat",
       Kind::Repeat,
       {"as", "carry", "first", "handed_on", "last", "steps"}},
      {"switch", Kind::Switch, {}},
  };
  return kKinds;
}

Names labels_of(const Node& axes) {
  Names labels;
  for (size_t i = 0; i < axes.size(); ++i) {
    const Node item = axes.item(i);
    labels.emplace_back(item.is_null() ? "" : item.text());
  }
  return labels;
}

class ForwardReader {
 public:
  ForwardReader(StepReader& reader, Diagnostics& diags)
      : reader_(reader), diags_(diags) {}

  std::vector<ForwardStep> steps(const Node& list, int depth) {
    std::vector<ForwardStep> result;
    if (depth > kMaxForwardNesting) {
      reader_.refuse(list.span(), "steps nest too deeply");
      return result;
    }
    if (!require(list, NodeKind::List, "`steps`", diags_)) return result;
    for (size_t i = 0; i < list.size(); ++i) {
      if (auto one = step(list.item(i), depth)) {
        result.push_back(*std::move(one));
      }
    }
    return result;
  }

 private:
  std::optional<ForwardStep> step(const Node& node, int depth) {
    if (!require(node, NodeKind::Map, "a step", diags_)) return std::nullopt;
    if (node.size() == 0) return reader_.refuse(node.span(), "a step is empty");
    const auto& kinds = step_kinds();
    const auto kind = std::ranges::find(kinds, node.key(0), &StepKind::key);
    if (kind == kinds.end()) {
      Names known;
      for (const StepKind& each : kinds) known.emplace_back(each.key);
      report_unknown_key(std::string(node.key(0)), node.key_span(0), known,
                         diags_);
      return std::nullopt;
    }
    ForwardStep result;
    result.kind = kind->kind;
    result.where = node.key_span(0);
    if (!known_keys(node, *kind) || !general(node, result)) return std::nullopt;
    return of_kind(node, *kind, depth, std::move(result));
  }

  bool known_keys(const Node& node, const StepKind& kind) {
    Names known = {std::string(kind.key), "when"};
    for (const std::string_view key : kind.keys) {
      if (key == "*") return true;
      known.emplace_back(key);
    }
    return reader_.known_keys(node, known);
  }

  bool general(const Node& node, ForwardStep& step) {
    reader_.optional(node, "in", step.in);
    reader_.optional(node, "out", step.out);
    if (const auto axes = node.find("axes")) {
      if (!require(*axes, NodeKind::List, "`axes`", diags_)) return false;
      step.axes = labels_of(*axes);
    }
    return reader_.optional(node, "when", step.when);
  }

  // A key whose value is an expression; one that must be there.
  bool argument(const Node& node, const char* key, ForwardStep& step) {
    const auto at = node.find(key);
    if (!at) {
      reader_.refuse(step.where, "the step has no " + in_backticks(key));
      return false;
    }
    auto value = reader_.expression(*at);
    if (!value) return false;
    step.arguments.emplace_back(key, *std::move(value));
    return true;
  }

  // How many values it reads and makes.
  bool flow(const ForwardStep& step, size_t reads, size_t makes) {
    const auto wrong = [&](const Names& names, size_t wanted, const char* key) {
      if (names.size() == wanted) return false;
      reader_.refuse(step.where, in_backticks(key) + " names " +
                                     plural(std::ssize(names), "value") +
                                     ", not " + std::to_string(wanted));
      return true;
    };
    return !wrong(step.in, reads, "in") && !wrong(step.out, makes, "out");
  }

  std::optional<ForwardStep> of_kind(const Node& node, const StepKind& kind,
                                     int depth, ForwardStep step) {
    using Kind = ForwardStep::Kind;
    bool good = true;
    switch (step.kind) {
      case Kind::Op:
        good = reader_.optional(node, "op", step.what) &&
               attributes(node, step) && has_values(step);
        break;
      case Kind::Apply:
        good = reader_.optional(node, "apply", step.what) &&
               reader_.optional(node, "as", step.as) && arguments(node, step) &&
               has_values(step);
        break;
      case Kind::Weight:
        step.otherwise = reader_.texts(node.item(0), "`weight`");
        good = !step.otherwise.empty() && flow(step, 0, 1);
        if (!good) break;
        step.what = step.otherwise.front();
        step.otherwise.erase(step.otherwise.begin());
        break;
      case Kind::Unembed:
      case Kind::Activation:
        good = argument(node, kind.key.data(), step) && flow(step, 1, 1);
        break;
      case Kind::Rotate:
        step.in = reader_.texts(node.item(0), "`rotate`");
        good = flow(step, 1, 1);
        break;
      case Kind::Experts:
        good = experts(node, step) && flow(step, 3, 1);
        break;
      case Kind::Require:
        good = argument(node, "require", step) &&
               reader_.optional(node, "else", step.message);
        if (good && step.message.empty()) {
          return reader_.refuse(step.where, "`require` has no `else`");
        }
        break;
      case Kind::Note:
        good = reader_.optional(node, "note", step.message);
        break;
      case Kind::Repeat:
        good = repeat(node, step, depth);
        break;
      case Kind::Switch:
        good = cases(node.item(0), step, depth);
        break;
    }
    if (!good) return std::nullopt;
    return step;
  }

  bool has_values(const ForwardStep& step) {
    if (!step.in.empty() && !step.out.empty()) return true;
    reader_.refuse(step.where, "the step has no `in` or no `out`");
    return false;
  }

  bool attributes(const Node& node, ForwardStep& step) {
    for (size_t i = 1; i < node.size(); ++i) {
      const std::string_view key = node.key(i);
      if (key == "in" || key == "out" || key == "when" || key == "axes") {
        continue;
      }
      ForwardAttribute attribute;
      attribute.name = std::string(key);
      attribute.where = node.item(i).span();
      const Node value = node.item(i);
      const bool is_text = contains(kTextAttributes, key);
      if (is_text) {
        if (!reader_.optional(node, attribute.name, attribute.text))
          return false;
      } else if (value.is_list()) {
        attribute.is_list = true;
        for (size_t j = 0; j < value.size(); ++j) {
          auto read = reader_.expression(value.item(j));
          if (!read) return false;
          attribute.values.push_back(*std::move(read));
        }
      } else {
        auto read = reader_.expression(value);
        if (!read) return false;
        attribute.values.push_back(*std::move(read));
      }
      step.attributes.push_back(std::move(attribute));
    }
    return true;
  }

  bool arguments(const Node& node, ForwardStep& step) {
    for (size_t i = 1; i < node.size(); ++i) {
      const std::string_view key = node.key(i);
      if (key == "in" || key == "out" || key == "when" || key == "axes" ||
          key == "as") {
        continue;
      }
      auto value = reader_.expression(node.item(i));
      if (!value) return false;
      step.arguments.emplace_back(std::string(key), *std::move(value));
    }
    return true;
  }

  bool experts(const Node& node, ForwardStep& step) {
    if (!reader_.optional(node, "experts", step.what)) return false;
    for (const char* key : {"gate", "up", "down", "both"}) {
      ForwardAttribute attribute;
      attribute.name = key;
      if (!reader_.optional(node, key, attribute.text)) return false;
      if (!attribute.text.empty()) {
        step.attributes.push_back(std::move(attribute));
      }
    }
    if (!reader_.optional(node, "mix", step.mix)) return false;
    const bool weighed = node.find("inputs_weighed").has_value();
    return argument(node, "count", step) && argument(node, "size", step) &&
           (!weighed || argument(node, "inputs_weighed", step)) &&
           (!step.mix.empty() || argument(node, "activation", step));
  }

  bool repeat(const Node& node, ForwardStep& step, int depth) {
    if (!reader_.optional(node, "repeat", step.what) ||
        !reader_.optional(node, "as", step.as) ||
        !reader_.optional(node, "carry", step.carried) ||
        !reader_.optional(node, "first", step.first) ||
        !reader_.optional(node, "handed_on", step.handed_on) ||
        !reader_.optional(node, "last", step.last)) {
      return false;
    }
    const auto inner = node.find("steps");
    if (!inner || step.carried.empty() || step.first.empty() ||
        step.handed_on.empty()) {
      reader_.refuse(
          step.where,
          "`repeat` needs `carry`, `first`, `handed_on` and `steps`");
      return false;
    }
    if (step.as.empty()) step.as = step.what;
    step.steps = steps(*inner, depth + 1);
    return true;
  }

  bool cases(const Node& list, ForwardStep& step, int depth) {
    if (!require(list, NodeKind::List, "`switch`", diags_)) return false;
    for (size_t i = 0; i < list.size(); ++i) {
      const Node item = list.item(i);
      if (!require(item, NodeKind::Map, "a case", diags_) ||
          !reader_.known_keys(item, {"when", "steps"})) {
        return false;
      }
      ForwardCase one;
      if (!reader_.optional(item, "when", one.when)) return false;
      if (!one.when && i + 1 < list.size()) {
        reader_.refuse(item.span(), "only the last case may have no `when`");
        return false;
      }
      if (const auto of = item.find("steps")) one.steps = steps(*of, depth + 1);
      step.cases.push_back(std::move(one));
    }
    return true;
  }

  StepReader& reader_;
  Diagnostics& diags_;
};

}  // namespace

std::optional<BlockForward> StepReader::forward(const Node& node) {
  if (!require(node, NodeKind::Map, "`forward`", diags_) ||
      !known_keys(node, {"takes", "gives", "with", "steps"})) {
    return std::nullopt;
  }
  BlockForward result;
  result.where = node.span();
  optional(node, "takes", result.takes);
  optional(node, "gives", result.gives);
  const auto steps = node.find("steps");
  if (result.takes.empty() || result.gives.empty() || !steps) {
    return refuse(node.span(), "`forward` needs `takes`, `gives` and `steps`");
  }
  const auto with = node.find("with");
  if (with && !arguments(*with, result.arguments)) return std::nullopt;
  result.steps = ForwardReader(*this, diags_).steps(*steps, 0);
  return result;
}

namespace {

Expression known_expression(std::string_view text) {
  std::string why;
  return *parse_expression(text, {}, why);
}

}  // namespace

InputRule token_input() {
  return {"input_ids",
          {},
          {known_expression("batch"), known_expression("length")},
          {"BATCH", "LENGTH"},
          known_expression("vocab")};
}

const InputRule* Architecture::find_input(std::string_view wanted) const {
  return find_named(inputs, wanted);
}

void StepReader::inputs(const Node& map, std::vector<InputRule>& result) {
  if (!require(map, NodeKind::Map, "inputs", diags_)) return;
  for (size_t i = 0; i < map.size(); ++i) {
    const Node of = map.item(i);
    if (!require(of, NodeKind::Map, "an input", diags_) ||
        !known_keys(of, {"shape", "axes", "below"})) {
      continue;
    }
    InputRule input;
    input.name = std::string(map.key(i));
    input.where = map.key_span(i);
    const auto shape = of.find("shape");
    if (!shape || !shape->is_list()) {
      refuse(input.where, "an input needs a list `shape`");
      continue;
    }
    for (size_t dim = 0; dim < shape->size(); ++dim) {
      auto size = expression(shape->item(dim));
      if (size) input.shape.push_back(*std::move(size));
    }
    if (const auto axes = of.find("axes")) {
      if (!require(*axes, NodeKind::List, "axes", diags_)) continue;
      input.axes = labels_of(*axes);
    }
    if (!input.axes.empty() && input.axes.size() != shape->size()) {
      refuse(input.where, "an input needs one entry of `axes` per dimension");
    }
    if (const auto below = of.find("below")) input.below = expression(*below);
    std::erase_if(result, [&](const InputRule& other) {
      return other.name == input.name;
    });
    result.push_back(std::move(input));
  }
}

}  // namespace shardplan
