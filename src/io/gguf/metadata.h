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

namespace shardplan {

// Reads numbers and texts in sequence. Past the end every number is 0, every
// text is empty, and good() is false.
class GgufCursor {
 public:
  explicit GgufCursor(std::string_view bytes, size_t at = 0)
      : bytes_(bytes), at_(at), good_(at <= bytes.size()) {}

  bool good() const { return good_; }
  size_t at() const { return at_; }
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
    GgufCursor begin;
    uint32_t type = 0;
  };
  const Value* find(const std::string& key) const;

  std::map<std::string, Value> values_;
};

}  // namespace shardplan
