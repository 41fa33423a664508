// SPDX-License-Identifier: Apache-2.0
// NameScheme: the names and layouts that another program uses for the tensors
// of a model, read from a file (docs/formats/scheme.md): GGUF's names, Flax's
// kernels, MaxText's stacked layers.
//
// Its input is the tensors that save_pretrained writes, which follow from an
// architecture and a config. Invariant: every tensor is renamed, or dropped
// with a reported reason, or the model is rejected; none is lost silently.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"
#include "core/types.h"
#include "model/architecture/architecture.h"
#include "model/language/expression.h"

namespace shardplan {

// A name with placeholders for numbers and for any text: "model.layers.{i}.*".
struct NamePiece {
  enum class Kind : uint8_t {
    Text,
    Number,  // decimal digits without a leading 0; `text` is the number's name
    Any,     // one character or more; at most once in a name
    Value,   // value of an expression, in names of results
  };
  Kind kind = Kind::Text;
  std::string text;
  std::optional<Expression> value;
};
struct NamePattern {
  std::string text;
  Span where;
  std::vector<NamePiece> pieces;
};

// The values of the placeholders in a name that matches.
struct NameMatch {
  std::vector<std::pair<std::string_view, int64_t>> numbers;
  std::string_view any;
};
std::optional<NameMatch> match_name(const NamePattern& pattern,
                                    std::string_view name);
// Returns whether a name with this folded form (core/fold.h) may match. Never
// false if one does.
bool may_match_folded(const NamePattern& pattern, std::string_view folded);

// A tensor that a rule produces.
struct NamedTarget {
  NamePattern name;
  std::optional<Expression> size;  // of the dimension that is split
  std::vector<size_t> order;       // empty: unchanged
  std::vector<Expression> shape;   // empty: unchanged
};

// A rule for the tensors whose names match.
struct NameRule {
  Span where;
  std::vector<NamePattern> from;  // several are joined
  // Conditions.
  std::optional<ModuleStep::Kind> of;
  std::optional<size_t> dims;
  std::optional<Expression> when;
  // The operations, in this order. Dimensions are counted from 0.
  std::vector<size_t> order;
  std::vector<Expression> shape;
  std::vector<size_t> then;
  std::optional<size_t> split;
  std::vector<NamedTarget> to;  // one, except for a split
  std::optional<size_t> join;
  // By dimension of the result: the number in the names that is stacked in it,
  // such as `i`, or `i // 6` and `i % 6`.
  std::vector<std::pair<Expression, size_t>> stack;
  std::optional<DType> dtype;
  // Instead of an operation: why the program has no such tensor, or why it is
  // not supported.
  std::string dropped;
  std::string refused;
};

// An additional tensor of the program, or one for every index.
struct AddedTensor {
  std::string index;                // "" for a single tensor
  std::optional<Expression> count;  // of indices, from 0
  NamePattern name;
  std::vector<Expression> shape;
  std::optional<DType> dtype;  // absent: that of the model's weights
  std::optional<Expression> when;
};

// The names of an array's dimensions in the program's own rules.
struct NamedAxes {
  std::string name;  // each `*` stands for any text
  // One per dimension. `..` stands for the dimensions of the layers that are
  // stacked in the array (NameScheme::stacked).
  std::vector<std::optional<std::string>> axes;
};
inline constexpr std::string_view kStackedAxes = "..";

struct NameRules {
  std::vector<NameRule> rules;  // the first that matches applies
  std::vector<AddedTensor> added;
};

struct NameScheme {
  std::string name;
  std::string summary;
  std::optional<DType> vectors;  // dtype of one-dimensional tensors
  // The label of a stacked dimension, by the name of the stacked number: `i`.
  std::map<std::string, std::string, std::less<>> labels;
  // The first entry that matches a parameter's new name and has as many
  // dimensions labels it. If a scheme has any, every parameter must get labels.
  std::vector<NamedAxes> axes;
  std::vector<NamedAxes> stacked;
  // Names of a label in older rules of the program, newest first.
  std::map<std::string, std::vector<std::string>> earlier;
  // Additional to those of an architecture; evaluated when an expression uses
  // them.
  std::vector<ValueRule> values;
  NameRules all;  // for all architectures, after their own
  std::map<std::string, NameRules, std::less<>> architectures;
  SourcePtr source;  // keeps spans alive
};

// Limits for a scheme with one of its architectures.
inline constexpr size_t kMaxNameRules = 4000;
inline constexpr size_t kMaxNamedAxes = 500;

// Reads a file. Reports SP018, SP002 or SP004 at the location of an error.
std::shared_ptr<const NameScheme> read_name_scheme(const SourcePtr& source,
                                                   Diagnostics& diags);

// Returns a shipped scheme (rules/schemes) by its name, or null. Each is read
// once. REQUIRES: shipped files have no errors.
std::shared_ptr<const NameScheme> find_name_scheme(std::string_view name);
std::vector<std::string> name_scheme_names();
// Returns the schemes that support this architecture.
std::vector<std::string> name_schemes_of(std::string_view architecture);

}  // namespace shardplan
