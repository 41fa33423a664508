// SPDX-License-Identifier: Apache-2.0
// A place in the text of an MLIR module, and the few forms that are read there.
//
// Not a parser of MLIR: blanks and comments are skipped, strings decoded, and
// what nobody asked for is passed over as balanced brackets. Every call moves
// forward or fails; nothing is allocated but decoded strings.
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
  explicit MlirCursor(const SourceFile& source, uint64_t begin = 0,
                      uint64_t end = UINT64_MAX);

  // The place behind blanks and comments.
  uint64_t at() const { return at_; }
  bool done() const { return at_ >= text_.size(); }
  char peek() const { return done() ? '\0' : text_[at_]; }
  Span span_from(uint64_t begin) const;
  // The character, or token, at this place.
  Span here() const;

  // Moves behind `text` if it stands here; words end at a word's end.
  bool accept(std::string_view text);
  // [A-Za-z0-9_.$-]+, such as `func.func`, `arg0`, `8x16xf32`; else empty.
  std::string_view word();
  std::optional<int64_t> integer();
  // A string in quotes; empty when none stands here or it does not end.
  std::optional<std::string> string();
  // `@name` or `@"name"`, without the sign.
  std::optional<std::string> symbol();
  // Passes over text up to, not over, one of `ends` outside of brackets and
  // strings. False at the end of the text.
  bool skip_to(std::string_view ends);
  // Passes over one character or string.
  void skip_one();

 private:
  void skip_blanks();
  bool skip_string();

  const SourceFile* source_;
  std::string_view text_;  // up to the limit
  uint64_t at_;
};

// Element types of MLIR's tensors. Integers without a sign are signed ones, as
// StableHLO has them, and `i1` is bool.

// "f8E4M3FN", "i1", "complex<f32>"; empty where MLIR has no such type.
std::string_view mlir_type_name(DType dtype);
// Names as MLIR prints them; empty for types that we do not have.
std::optional<DType> find_mlir_type(std::string_view name);

}  // namespace shardplan
