// SPDX-License-Identifier: Apache-2.0
#include "model/naming/stack.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "model/architecture/axis_labels.h"

namespace shardplan {
namespace {

class Joining {
 public:
  Joining(const TensorStack& stack, const NameScheme& scheme, Renamed& result,
          TensorViews& views)
      : stack_(stack), scheme_(scheme), result_(result), views_(views) {}

  // Returns why the members cannot be combined; nothing if they were.
  std::optional<StackMisfit> run() {
    const NameRule& rule = *stack_.rule;
    if (auto why = incomplete()) return why;
    // One member of each part, which represents the others.
    std::vector<const StackMember*> parts(rule.from.size());
    for (const StackMember& member : stack_.members) {
      const StackMember*& part = parts[member.part];
      if (part == nullptr) part = &member;
      if (part->tensor.type != member.tensor.type) {
        return StackMisfit{&member.tensor, in_backticks(part->tensor.name) +
                                               " is " +
                                               type_text(part->tensor.type) +
                                               ", and both belong to " +
                                               in_backticks(result_.name)};
      }
    }
    const Renamed& first = parts.front()->tensor;
    result_.type = first.type;
    result_.kind = first.kind;
    result_.buffer = first.buffer;
    if (rule.join) {
      if (auto why = join_parts(parts)) return why;
    }
    for (size_t i = 0; i < rule.stack.size(); ++i) {
      const size_t at = rule.stack[i].second;
      if (at > result_.type.shape.size()) {
        return StackMisfit{&first, "a dimension is stacked past the end of " +
                                       in_backticks(result_.name)};
      }
      DimKind kind;
      kind.label = kind.axis = label_of(i);
      const auto offset = static_cast<std::ptrdiff_t>(at);
      result_.type.shape.insert(result_.type.shape.begin() + offset,
                                std::ssize(indices(i)));
      result_.kind.insert(result_.kind.begin() + offset, std::move(kind));
    }
    add_views(parts);
    return std::nullopt;
  }

 private:
  // Returns a misfit unless the members fill every position of the stack
  // exactly once.
  std::optional<StackMisfit> incomplete() const {
    int64_t expected = std::ssize(stack_.rule->from);
    for (size_t i = 0; i < stack_.rule->stack.size(); ++i) {
      expected *= std::ssize(indices(i));
      if (expected > std::ssize(stack_.members)) break;
    }
    std::set<std::pair<std::vector<int64_t>, size_t>> places;
    for (const StackMember& member : stack_.members) {
      places.emplace(member.at, member.part);
    }
    const auto found = std::ssize(stack_.members);
    if (found == expected && std::ssize(places) == found) return std::nullopt;
    return StackMisfit{&stack_.members.front().tensor,
                       in_backticks(result_.name) +
                           " is made of several tensors: " +
                           (found < expected ? "some are missing"
                                             : "some have the same position")};
  }

  // Returns the indices along a stacked dimension, ascending.
  std::vector<int64_t> indices(size_t which) const {
    std::set<int64_t> values;
    for (const StackMember& member : stack_.members) {
      values.insert(member.at[which]);
    }
    return {values.begin(), values.end()};
  }

  // Returns the label of a stacked dimension; "" if it has none.
  std::string label_of(size_t which) const {
    const std::string& number = stack_.rule->stack[which].first.text;
    const auto label = scheme_.labels.find(number);
    return label == scheme_.labels.end() ? "" : label->second;
  }

  // Adds a view of the stack for each tensor. All experts of a layer share one
  // view.
  void add_views(const std::vector<const StackMember*>& parts) {
    const NameRule& rule = *stack_.rule;
    std::vector<std::vector<int64_t>> values(rule.stack.size());
    std::optional<size_t> experts;
    for (size_t i = 0; i < rule.stack.size(); ++i) {
      values[i] = indices(i);
      if (label_of(i) == kExpertsLabel) experts = i;
    }
    const auto rows_of = [&](size_t count) {
      int64_t rows = 0;
      for (size_t p = 0; p < count; ++p) {
        rows += parts[p]->tensor.type.shape[*rule.join];
      }
      return rows;
    };
    for (const StackMember& member : stack_.members) {
      if (member.tensor.in_parts) continue;
      if (experts && member.at[*experts] != values[*experts].front()) continue;
      TensorView view{
          result_.name, member.tensor.plain_shape, member.tensor.moves, {}, {}};
      for (size_t i = 0; i < rule.stack.size(); ++i) {
        const auto place = std::ranges::lower_bound(values[i], member.at[i]);
        view.stacked.push_back({rule.stack[i].second, std::ssize(values[i]),
                                i == experts ? -1 : place - values[i].begin()});
      }
      if (rule.join) {
        view.joined = {*rule.join, rows_of(member.part), rows_of(parts.size())};
      }
      std::string name = member.tensor.plain;
      if (experts) {
        view.shape.insert(view.shape.begin(), std::ssize(values[*experts]));
        name = without_number(rule.from[member.part],
                              rule.stack[*experts].first.text, name);
      }
      views_[std::move(name)] = std::move(view);
    }
  }

  // Returns "mlp.experts.up_proj.weight" for "mlp.experts.3.up_proj.weight".
  static std::string without_number(const NamePattern& pattern,
                                    std::string_view number,
                                    const std::string& name) {
    const auto match = match_name(pattern, name);
    if (!match) return name;
    std::string result;
    size_t numbers = 0;
    for (const NamePiece& piece : pattern.pieces) {
      if (piece.kind == NamePiece::Kind::Any) {
        result += match->any;
      } else if (piece.kind != NamePiece::Kind::Number) {
        result += piece.text;
      } else if (piece.text != number) {
        result += std::to_string(match->numbers[numbers++].second);
      } else {
        ++numbers;
        if (result.ends_with('.')) result.pop_back();
      }
    }
    return result;
  }

  std::optional<StackMisfit> join_parts(
      const std::vector<const StackMember*>& parts) {
    const size_t at = *stack_.rule->join;
    const Renamed& first = parts.front()->tensor;
    if (at >= result_.type.shape.size()) {
      return StackMisfit{&first, "there is no such dimension to join"};
    }
    DimKind joined;
    int64_t rows = 0;
    for (const StackMember* part : parts) {
      const TensorType& type = part->tensor.type;
      Shape like = type.shape;
      if (like.size() == result_.type.shape.size()) {
        like[at] = result_.type.shape[at];
      }
      const auto sum =
          like == result_.type.shape && type.dtype == result_.type.dtype
              ? checked_add(rows, type.shape[at])
              : std::nullopt;
      if (!sum) {
        return StackMisfit{&part->tensor, "it does not fit next to " +
                                              in_backticks(first.name) + ", " +
                                              type_text(first.type)};
      }
      rows = *sum;
      const DimKind& dim = part->tensor.kind[at];
      joined.parts.push_back(
          {part->module, dim.label, type.shape[at], dim.count});
    }
    result_.type.shape[at] = rows;
    result_.kind[at] = std::move(joined);
    label_joined(result_.kind, at);
    return std::nullopt;
  }

  const TensorStack& stack_;
  const NameScheme& scheme_;
  Renamed& result_;
  TensorViews& views_;
};

}  // namespace

std::optional<StackMisfit> join_stack(const TensorStack& stack,
                                      const NameScheme& scheme, Renamed& result,
                                      TensorViews& views) {
  return Joining(stack, scheme, result, views).run();
}

}  // namespace shardplan
