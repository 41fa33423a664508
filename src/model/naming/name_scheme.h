// SPDX-License-Identifier: Apache-2.0
// NameScheme: what another program calls the tensors of a model, and how it
// keeps them, as a file says (docs/formats/scheme.md): GGUF's names, Flax's
// kernels, MaxText's stacked layers.
//
// It starts from the tensors that save_pretrained writes, which follow from an
// architecture and a config. Invariant: every tensor is renamed, or dropped
// with a reason that is said, or the model is refused; none is lost in silence.
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

// A name with places for numbers, and for any text: "model.layers.{i}.*".
struct NamePiece {
  enum class Kind : uint8_t {
    Text,
    Number,  // decimal digits without a leading 0; `text` is what they are
             // called
    Any,     // one character or more; at most once in a name
    Value,   // of an expression, in names that are made
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

// What a name that matches says.
struct NameMatch {
  std::vector<std::pair<std::string_view, int64_t>> numbers;
  std::string_view any;
};
std::optional<NameMatch> match_name(const NamePattern& pattern,
                                    std::string_view name);
// Whether a name with these folded parts (core/fold.h) may match. Never false
// where one does.
bool may_match_folded(const NamePattern& pattern, std::string_view folded);

// A tensor that a rule makes.
struct NamedTarget {
  NamePattern name;
  std::optional<Expression> size;  // of the dimension that is split
  std::vector<size_t> order;       // none: as it is
  std::vector<Expression> shape;   // none: as it is
};

// What becomes of tensors whose names match.
struct NameRule {
  Span where;
  std::vector<NamePattern> from;  // several are joined
  // Conditions.
  std::optional<ModuleStep::Kind> of;
  std::optional<size_t> dims;
  std::optional<Expression> when;
  // What it does, in this order. Dimensions are counted from 0.
  std::vector<size_t> order;
  std::vector<Expression> shape;
  std::vector<size_t> then;
  std::optional<size_t> split;
  std::vector<NamedTarget> to;  // one, but for a split
  std::optional<size_t> join;
  // What of the numbers of names becomes which dimension of the result, `i`, or
  // `i // 6` and `i % 6`; by dimension.
  std::vector<std::pair<Expression, size_t>> stack;
  std::optional<DType> dtype;
  // Instead: why the program has none, why it is not known.
  std::string dropped;
  std::string refused;
};

// A tensor that the program has besides, or one for every index.
struct AddedTensor {
  std::string index;                // "" for one alone
  std::optional<Expression> count;  // of indices, from 0
  NamePattern name;
  std::vector<Expression> shape;
  std::optional<DType> dtype;  // none: that of the model's weights
  std::optional<Expression> when;
};

// What the program's own rules call the dimensions of an array.
struct NamedAxes {
  std::string name;  // in which each `*` is any text
  // One per dimension; `..` stands for as many as the layers have that are
  // stacked in it (NameScheme::stacked).
  std::vector<std::optional<std::string>> axes;
};
inline constexpr std::string_view kStackedAxes = "..";

struct NameRules {
  std::vector<NameRule> rules;  // the first that matches counts
  std::vector<AddedTensor> added;
};

struct NameScheme {
  std::string name;
  std::string summary;
  std::optional<DType> vectors;  // what tensors of one dimension have
  // What a stacked dimension is called, by what is stacked: `i`.
  std::map<std::string, std::string, std::less<>> labels;
  // The first that matches a parameter's new name and has as many dimensions
  // labels it. Where a scheme has any, every parameter must be labelled.
  std::vector<NamedAxes> axes;
  std::vector<NamedAxes> stacked;
  // What a label was called in older rules of the program, newest first.
  std::map<std::string, std::vector<std::string>> earlier;
  // Beside those of an architecture; read where an expression asks for them.
  std::vector<ValueRule> values;
  NameRules all;  // of all architectures, after their own
  std::map<std::string, NameRules, std::less<>> architectures;
  SourcePtr source;  // keeps places alive
};

// Rules of a scheme, and of one of its architectures.
inline constexpr size_t kMaxNameRules = 4000;
inline constexpr size_t kMaxNamedAxes = 500;

// Reads a file. What is wrong is SP018, or SP002 and SP004, at its place.
std::shared_ptr<const NameScheme> read_name_scheme(const SourcePtr& source,
                                                   Diagnostics& diags);

// A shipped one (rules/schemes) by its name; null when there is none. It is
// read once. REQUIRES: shipped files have no mistakes.
std::shared_ptr<const NameScheme> find_name_scheme(std::string_view name);
std::vector<std::string> name_scheme_names();
// Those that have an architecture of this name.
std::vector<std::string> name_schemes_of(std::string_view architecture);

}  // namespace shardplan
