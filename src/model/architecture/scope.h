// SPDX-License-Identifier: Apache-2.0
// ValueScope: what an expression of a step sees: the arguments of a block and
// the indices around it, then the names of the architecture.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/manifest.h"
#include "model/architecture/values.h"

namespace shardplan {

struct ValueScope {
  ConfigValues* values = nullptr;
  bool shared = false;  // a block of all architectures: its arguments only
  std::vector<std::pair<std::string, ConfigValue>> own;

  const ConfigValue* find(std::string_view name, std::string& why) const;

  // All are empty, and what is wrong is SP009 with the expression's place,
  // where there is no value of the kind that is asked for.
  std::optional<ConfigValue> value(const Expression& expression) const;
  std::optional<ConfigValue> of_kind(const Expression& expression,
                                     ConfigValue::Kind kind) const;
  // Without a condition it is `otherwise`.
  std::optional<bool> flag(const std::optional<Expression>& condition,
                           bool otherwise = true) const;
  std::optional<int64_t> integer(const Expression& expression, int64_t least,
                                 int64_t most) const;
  // 1 or more, and so that the product of two fits 63 bits.
  std::optional<int64_t> size(const DimTree& dim) const;

  // What the tree says besides its size. REQUIRES: size(dim) has one.
  std::optional<DimKind> kind(const DimTree& dim) const;
  // Whether the expression may differ between indices of a repeat: it mentions
  // this one, or a table.
  bool varies(const Expression& expression, const std::string& index) const;
  // Appends to `key` what tells this layer from others: the value of each.
  // False, and it is reported, where the work is spent.
  bool append_values(const std::vector<const Expression*>& varying,
                     int64_t layer, std::string& key) const;

  // `{heads}` becomes its value, where it is an integer.
  std::string filled(const std::string& text) const;

  // Without a report, the reason in `why`.
  std::optional<ConfigValue> quiet(const Expression& expression,
                                   std::string& why) const;

  // The scope of a block's steps: its arguments, from those that are given
  // (evaluated here) or from their defaults. Empty where one has no value.
  std::optional<ValueScope> within(
      const std::vector<BlockArgument>& takes, bool is_shared,
      const std::vector<std::pair<std::string, Expression>>& given) const;
};

// What a dimension of that size is: a size alone may be cut anywhere, a product
// between its first factors.
DimKind size_kind(const Expression& expression, const ValueScope& scope);

// Blocks within blocks, and sections.
inline constexpr int kMaxBlockDepth = 64;

// The largest dimension, so that the product of two fits 63 bits.
inline constexpr int64_t kMaxDim = int64_t{1} << 40;

// "layers.{i}" of layer 3: "layers.3".
std::string numbered_name(std::string name, const std::string& index,
                          int64_t value);
// "model" and "norm": "model.norm"; either may be empty.
std::string joined_name(const std::string& prefix, const std::string& name);

}  // namespace shardplan
