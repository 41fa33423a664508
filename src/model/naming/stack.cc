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

// The label of dimensions that count experts in schemes.
constexpr std::string_view kExpertsLabel = "experts";

class Joining {
 public:
  Joining(const TensorStack& stack, const NameScheme& scheme, Renamed& result,
          TensorViews& views)
      : stack_(stack), scheme_(scheme), result_(result), views_(views) {}

  std::optional<StackMisfit> run() {
    join();
    return std::move(misfit_);
  }

 private:
  bool misfit(const Renamed& tensor, std::string why) {
    misfit_ = StackMisfit{&tensor, std::move(why)};
    return false;
  }

  // Returns whether the members fill every position of the stack exactly once.
  bool complete() {
    const NameRule& rule = *stack_.rule;
    int64_t expected = std::ssize(rule.from);
    for (size_t i = 0; i < rule.stack.size(); ++i) {
      expected *= distinct(i);
      if (expected > std::ssize(stack_.members)) break;
    }
    std::set<std::pair<std::vector<int64_t>, size_t>> places;
    for (const StackMember& member : stack_.members) {
      places.emplace(member.at, member.part);
    }
    const auto found = std::ssize(stack_.members);
    if (found == expected && places.size() == stack_.members.size())
      return true;
    return misfit(stack_.members.front().tensor,
                  in_backticks(result_.name) + " is made of several tensors: " +
                      (found < expected ? "some are missing"
                                        : "some have the same position"));
  }

  int64_t distinct(size_t which) const {
    std::set<int64_t> values;
    for (const StackMember& member : stack_.members) {
      values.insert(member.at[which]);
    }
    return std::ssize(values);
  }

  bool join() {
    const NameRule& rule = *stack_.rule;
    if (!complete()) return false;
    // One member of each part, which represents the others.
    std::vector<const StackMember*> parts(rule.from.size());
    for (const StackMember& member : stack_.members) {
      const StackMember*& part = parts[member.part];
      if (part == nullptr) part = &member;
      if (part->tensor.type != member.tensor.type) {
        return misfit(member.tensor, in_backticks(part->tensor.name) + " is " +
                                         type_text(part->tensor.type) +
                                         ", and both belong to " +
                                         in_backticks(result_.name));
      }
    }
    const Renamed& first = parts.front()->tensor;
    result_.type = first.type;
    result_.kind = first.kind;
    result_.buffer = first.buffer;
    if (rule.join && !join_parts(parts)) return false;
    for (size_t i = 0; i < rule.stack.size(); ++i) {
      const auto& [what, at] = rule.stack[i];
      if (at > result_.type.shape.size()) {
        return misfit(first, "a dimension is stacked past the end of " +
                                 in_backticks(result_.name));
      }
      const int64_t count = distinct(i);
      const auto label = scheme_.labels.find(what.text);
      DimKind kind;
      if (label != scheme_.labels.end()) kind.label = label->second;
      kind.axis = kind.label;
      const auto offset = static_cast<std::ptrdiff_t>(at);
      result_.type.shape.insert(result_.type.shape.begin() + offset, count);
      result_.kind.insert(result_.kind.begin() + offset, std::move(kind));
    }
    add_views(parts);
    return true;
  }

  // Adds a view of the stack for each tensor. All experts of a layer share one
  // view.
  void add_views(const std::vector<const StackMember*>& parts) {
    const NameRule& rule = *stack_.rule;
    std::vector<std::vector<int64_t>> values(rule.stack.size());
    std::optional<size_t> experts;
    for (size_t i = 0; i < rule.stack.size(); ++i) {
      for (const StackMember& member : stack_.members) {
        values[i].push_back(member.at[i]);
      }
      std::ranges::sort(values[i]);
      values[i].erase(std::unique(values[i].begin(), values[i].end()),
                      values[i].end());
      const auto label = scheme_.labels.find(rule.stack[i].first.text);
      if (label != scheme_.labels.end() && label->second == kExpertsLabel) {
        experts = i;
      }
    }
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
        int64_t begin = 0;
        for (size_t p = 0; p < member.part; ++p) {
          begin += parts[p]->tensor.type.shape[*rule.join];
        }
        view.joined = {*rule.join, begin, joined_size(parts, *rule.join)};
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
  static int64_t joined_size(const std::vector<const StackMember*>& parts,
                             size_t at) {
    int64_t rows = 0;
    for (const StackMember* part : parts) rows += part->tensor.type.shape[at];
    return rows;
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

  bool join_parts(const std::vector<const StackMember*>& parts) {
    const size_t at = *stack_.rule->join;
    if (at >= result_.type.shape.size()) {
      return misfit(parts.front()->tensor,
                    "there is no such dimension to join");
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
        return misfit(part->tensor,
                      "it does not fit next to " +
                          in_backticks(parts.front()->tensor.name) + ", " +
                          type_text(parts.front()->tensor.type));
      }
      rows = *sum;
      const DimKind& dim = part->tensor.kind[at];
      joined.parts.push_back(
          {part->module, dim.label, type.shape[at], dim.count});
    }
    result_.type.shape[at] = rows;
    result_.kind[at] = std::move(joined);
    label_joined(result_.kind, at);
    return true;
  }

  const TensorStack& stack_;
  const NameScheme& scheme_;
  Renamed& result_;
  TensorViews& views_;
  std::optional<StackMisfit> misfit_;
};

}  // namespace

std::optional<StackMisfit> join_stack(const TensorStack& stack,
                                      const NameScheme& scheme, Renamed& result,
                                      TensorViews& views) {
  return Joining(stack, scheme, result, views).run();
}

}  // namespace shardplan
