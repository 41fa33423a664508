// SPDX-License-Identifier: Apache-2.0
// The metadata of a GGUF file: named numbers, texts and arrays.
//
//   pair  = key:text  type:u32  value
//   text  = length:u64  bytes
//   array = type:u32  count:u64  values
//
// All little endian. Values stay where they are in the file and are decoded
// when they are asked for: most of them are vocabularies. Facts:
// github.com/ggml-org/ggml, docs/gguf.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"
#include "core/manifest.h"
#include "core/types.h"

namespace shardplan {

// Reads numbers one after the other. Beyond the end every number is 0 and every
// text empty, and good() stays false.
class GgufCursor {
 public:
  explicit GgufCursor(std::string_view bytes, size_t at = 0)
      : bytes_(bytes), at_(at), good_(at <= bytes.size()) {}

  bool good() const { return good_; }
  size_t at() const { return at_; }
  std::string_view bytes() const { return bytes_; }  // all of them
  uint64_t left() const { return good_ ? bytes_.size() - at_ : 0; }

  // An unsigned number of 1 to 8 bytes.
  uint64_t number(size_t size);
  uint32_t u32() { return static_cast<uint32_t>(number(4)); }
  uint64_t u64() { return number(8); }
  std::string_view text();
  // `count` things of `size` bytes each.
  void skip(uint64_t count, uint64_t size);

 private:
  std::string_view bytes_;
  size_t at_;
  bool good_;
};

class GgufMetadata {
 public:
  // Reads the pair at the cursor. Empty, or why it is malformed; when the bytes
  // end, nothing is said and the cursor is not good.
  std::string add(GgufCursor& cursor);

  // Each empty when the key is absent or its value of another kind.
  // An integer that fits 63 bits and a sign.
  std::optional<int64_t> integer(const std::string& key) const;
  // An array of integers or booleans; a single integer counts as one item.
  std::optional<std::vector<int64_t>> integers(const std::string& key) const;
  std::optional<std::string_view> text(const std::string& key) const;
  // Items of an array.
  std::optional<int64_t> length(const std::string& key) const;

 private:
  struct Value {
    std::string_view bytes;  // of the file
    size_t at = 0;           // where the value begins
    uint32_t type = 0;
  };
  const Value* find(const std::string& key) const;

  std::map<std::string, Value> values_;
};

// The header of a GGUF file (versions 2 and 3): metadata, and names, types and
// places of its tensors.
//
//   "GGUF"  version:u32  tensors:u64  pairs:u64
//   pairs of metadata (metadata.h)
//   tensors: name:text  n:u32  sizes:u64[n]  type:u32  offset:u64
//   zeros up to general.alignment (32), then the data
//
// Sizes are listed fastest first and read the other way round, as everybody
// else has them. Offsets count from the data's start and are multiples of the
// alignment. The data is never read and may be absent. A row, that is the last
// dimension, consists of whole blocks. Facts: github.com/ggml-org/ggml,
// docs/gguf.md; github.com/ggml-org/llama.cpp, ggml/src/gguf.cpp.

// Whether a file starts with `GGUF`.
bool is_gguf(std::string_view head);

// Bytes up to the end of the header; the largest number when `head` does not
// reach it.
int64_t gguf_bytes_needed(std::string_view head);

// What a header says beside names and types of tensors.
struct GgufHeader {
  GgufMetadata metadata;
  bool data_absent = false;
};

// Reads a header out of a file's first bytes; `file_size` is that of the whole
// file. Its tensors go behind those of `into`, in its order, where it is
// refused some may be there; facts and the model's name are those of the first
// header. That names are unique is not checked (io/shards.h). Places are in a
// listing of the tensors, one a line, since the file itself is not a text.
std::optional<GgufHeader> read_gguf_header(const SourcePtr& file,
                                           int64_t file_size, Manifest& into,
                                           Diagnostics& diags);

// ggml's numbers for element types.

// Empty for a number that ggml does not have, has no longer, or that this
// version does not read.
std::optional<DType> ggml_dtype(uint32_t number);

// The name of such a type, and what became of it: "Q4_0_4_4", "which ggml has
// removed". Empty when the number is unknown.
struct RefusedType {
  std::string_view name;
  std::string_view why;
};
std::optional<RefusedType> refused_ggml_type(uint32_t number);

}  // namespace shardplan
