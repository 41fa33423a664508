// SPDX-License-Identifier: Apache-2.0
// ValueScope: what the names in an expression of a step refer to: first the
// arguments of the block and the indices of the repetitions around the step,
// then the names of the architecture.
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
  bool shared = false;  // a block of all architectures sees only its arguments
  std::vector<std::pair<std::string, ConfigValue>> own;

  const ConfigValue* find(std::string_view name, std::string& why) const;

  // These evaluate an expression. They return nothing, and report SP009 with
  // the expression's place, if it has no value of the requested kind.
  std::optional<ConfigValue> value(const Expression& expression) const;
  std::optional<ConfigValue> of_kind(const Expression& expression,
                                     ConfigValue::Kind kind) const;
  // Returns `otherwise` if there is no condition.
  std::optional<bool> flag(const std::optional<Expression>& condition,
                           bool otherwise = true) const;
  std::optional<int64_t> integer(const Expression& expression, int64_t least,
                                 int64_t most) const;
  // Returns the size of a dimension, which is positive.
  std::optional<int64_t> size(const DimTree& dim) const;

  // Returns the label, count and parts of a dimension. REQUIRES: size(dim) has
  // a value.
  std::optional<DimKind> kind(const DimTree& dim) const;
  // Returns whether the expression may differ between the indices of a
  // repetition: it mentions this index or a table.
  bool varies(const Expression& expression, const std::string& index) const;
  // Appends the values of these expressions to `key`, so that layers with the
  // same key are alike. Returns false, and reports it, if the work is spent.
  bool append_values(const std::vector<const Expression*>& varying,
                     int64_t layer, std::string& key) const;

  // Replaces each `{name}` with the name's value, or with "" if that is not an
  // integer.
  std::string filled(const std::string& text) const;

  // Evaluates an expression without a report; `why` gets the reason.
  std::optional<ConfigValue> quiet(const Expression& expression,
                                   std::string& why) const;

  // Returns the scope of a block's steps: its arguments, from those that are
  // given (evaluated here) or from their defaults. Returns nothing if one has
  // no value.
  std::optional<ValueScope> within(
      const std::vector<BlockArgument>& takes, bool is_shared,
      const std::vector<std::pair<std::string, Expression>>& given) const;
};

// Returns the kind of a dimension of this size. A single name can be split
// anywhere; a product only between the units that its first name counts.
DimKind size_kind(const Expression& expression, const ValueScope& scope);

// The maximum nesting of blocks and sections.
inline constexpr int kMaxBlockDepth = 64;

// The maximum size of a dimension.
inline constexpr int64_t kMaxDim = int64_t{1} << 40;

// Replaces `{index}` in a name: "layers.{i}" becomes "layers.3".
std::string numbered_name(std::string name, const std::string& index,
                          int64_t value);
// Joins names with a dot: "model" and "norm" give "model.norm". Either may be
// empty.
std::string joined_name(const std::string& prefix, const std::string& name);

}  // namespace shardplan
