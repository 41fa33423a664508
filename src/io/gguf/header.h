// SPDX-License-Identifier: Apache-2.0
// The metadata of a GGUF file: named numbers, texts and arrays.
//
//   pair  = key:text  type:u32  value
//   text  = length:u64  bytes
//   array = type:u32  count:u64  values
//
// All numbers are little endian. Values stay in the file's bytes and are
// decoded on demand, because most of them are vocabularies. Source:
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

// Reads numbers and texts in sequence. Past the end every number is 0, every
// text is empty, and good() is false.
class GgufCursor {
 public:
  explicit GgufCursor(std::string_view bytes, size_t at = 0)
      : bytes_(bytes), at_(at), good_(at <= bytes.size()) {}

  bool good() const { return good_; }
  size_t at() const { return at_; }
  std::string_view bytes() const { return bytes_; }  // the whole text
  uint64_t left() const { return good_ ? bytes_.size() - at_ : 0; }

  // Reads an unsigned number of 1 to 8 bytes.
  uint64_t number(size_t size);
  uint32_t u32() { return static_cast<uint32_t>(number(4)); }
  uint64_t u64() { return number(8); }
  std::string_view text();
  // Skips `count` items of `size` bytes each.
  void skip(uint64_t count, uint64_t size);

 private:
  std::string_view bytes_;
  size_t at_;
  bool good_;
};

class GgufMetadata {
 public:
  // Reads the pair at the cursor. Returns why it is malformed, or "". If the
  // bytes end within the pair, it returns "" and the cursor is not good.
  std::string add(GgufCursor& cursor);

  // These return nullopt when the key is absent or its value has another kind.
  // Returns an integer of 63 bits and a sign.
  std::optional<int64_t> integer(const std::string& key) const;
  // Returns integers or booleans; a single integer counts as an array.
  std::optional<std::vector<int64_t>> integers(const std::string& key) const;
  std::optional<std::string_view> text(const std::string& key) const;
  // Returns the number of items of an array.
  std::optional<int64_t> length(const std::string& key) const;

 private:
  struct Value {
    std::string_view bytes;  // bytes of the file
    size_t at = 0;           // offset of the value
    uint32_t type = 0;
  };
  const Value* find(const std::string& key) const;

  std::map<std::string, Value> values_;
};

// The header of a GGUF file (versions 2 and 3): metadata, and the names, types
// and positions of its tensors.
//
//   "GGUF"  version:u32  tensors:u64  pairs:u64
//   pairs of metadata (GgufMetadata)
//   tensors: name:text  n:u32  sizes:u64[n]  type:u32  offset:u64
//   zeros up to general.alignment (32), then the data
//
// A file lists sizes fastest first; they are read in reverse, which is the
// usual order. Offsets count from the start of the data and are multiples of
// the alignment. The data is never read and may be absent. A row, which is the
// last dimension, consists of whole blocks. Source: github.com/ggml-org/ggml,
// docs/gguf.md; github.com/ggml-org/llama.cpp, ggml/src/gguf.cpp.

// Returns whether a file starts with `GGUF`.
bool is_gguf(std::string_view head);

// Returns the bytes up to the end of the header; the largest integer if `head`
// ends before it.
int64_t gguf_bytes_needed(std::string_view head);

// The facts in a header besides the names and types of tensors.
struct GgufHeader {
  GgufMetadata metadata;
  bool data_absent = false;
};

// Reads a header from a file's first bytes; `file_size` is the size of the
// whole file. Appends the tensors to `into` in the file's order; on failure
// some may have been added. Facts and the model's name come from the first
// header. Does not check that names are unique (check_distinct() in io/shards.h
// does). Spans point into a listing of the tensors, one per line, because the
// file is not text.
std::optional<GgufHeader> read_gguf_header(const SourcePtr& file,
                                           int64_t file_size, Manifest& into,
                                           Diagnostics& diags);

// The numbers that ggml uses for element types.

// Returns nullopt for a number that ggml does not define, has removed, or that
// this version does not read.
std::optional<DType> ggml_dtype(uint32_t number);

// The name of such a type and the reason: "Q4_0_4_4", "which ggml has removed".
// refused_ggml_type() returns nullopt if the number is unknown.
struct RefusedType {
  std::string_view name;
  std::string_view why;
};
std::optional<RefusedType> refused_ggml_type(uint32_t number);

}  // namespace shardplan
