// SPDX-License-Identifier: Apache-2.0
// MlirCursor: a position in the text of an MLIR module, with readers for a few
// token forms.
//
// It is not a parser of MLIR: it skips blanks and comments, decodes strings,
// and skips anything else as balanced brackets. Every call moves forward or
// fails; only decoded strings are allocated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/source.h"
#include "core/types.h"

namespace shardplan {

class MlirCursor {
 public:
  explicit MlirCursor(const SourceFile& source, uint64_t begin = 0);

  // The position after blanks and comments.
  uint64_t at() const { return at_; }
  bool done() const { return at_ >= text_.size(); }
  char peek() const { return done() ? '\0' : text_[at_]; }
  Span span_from(uint64_t begin) const;
  // The character or token at this position.
  Span here() const;

  // Skips `text` if it is next. A word must match completely.
  bool accept(std::string_view text);
  // Reads [A-Za-z0-9_.$-]+, such as `func.func`, `arg0`, `8x16xf32`; else
  // empty.
  std::string_view word();
  std::optional<int64_t> integer();
  // Reads a quoted string; empty if there is none or it has no end.
  std::optional<std::string> string();
  // Reads `@name` or `@"name"`, and returns the name without `@`.
  std::optional<std::string> symbol();
  // Skips text up to, and not including, one of `ends` outside of brackets and
  // strings. Returns false at the end of the text.
  bool skip_to(std::string_view ends);
  // Skips one character or string.
  void skip_one();

 private:
  void skip_blanks();

  const SourceFile* source_;
  std::string_view text_;
  uint64_t at_;
};

// Element types of MLIR's tensors. As in StableHLO, integers without a sign are
// signed, and `i1` is bool.

// Returns "f8E4M3FN", "i1" or "complex<f32>"; empty if MLIR has no such type.
std::string_view mlir_type_name(DType dtype);
// Accepts names as printed by MLIR; empty for types that DType lacks.
std::optional<DType> find_mlir_type(std::string_view name);

}  // namespace shardplan
