// SPDX-License-Identifier: Apache-2.0
#include "io/gguf/metadata.h"

#include <array>
#include <bit>
#include <cstring>

#include "base/text.h"

namespace shardplan {
namespace {

constexpr uint32_t kBool = 7;
constexpr uint32_t kText = 8;
constexpr uint32_t kArray = 9;

// Bytes of a value, by type; 0 if the size is not fixed.
constexpr std::array<uint8_t, 13> kSizes = {1, 1, 2, 2, 4, 4, 4,
                                            1, 0, 0, 8, 8, 8};
// Arrays of arrays are legal, though no known writer produces them.
constexpr int kMaxDepth = 8;

std::string unknown_type(uint32_t type) {
  return "a value of unknown type " + std::to_string(type);
}

std::string skip_value(GgufCursor& cursor, uint32_t type, int depth) {
  if (type >= kSizes.size()) return unknown_type(type);
  if (type == kText) cursor.text();
  if (type != kText && type != kArray) cursor.skip(1, kSizes.at(type));
  if (type != kArray) return "";
  const uint32_t of = cursor.u32();
  const uint64_t count = cursor.u64();
  if (!cursor.good()) return "";
  if (of >= kSizes.size()) return unknown_type(of);
  if (kSizes.at(of) != 0) {
    cursor.skip(count, kSizes.at(of));
    return "";
  }
  if (depth == kMaxDepth) return "arrays nested too deeply";
  // Every item occupies bytes, so the end of the file ends the loop.
  for (uint64_t i = 0; i < count && cursor.good(); ++i) {
    std::string why = skip_value(cursor, of, depth + 1);
    if (!why.empty()) return why;
  }
  return "";
}

std::optional<int64_t> read_integer(GgufCursor& cursor, uint32_t type) {
  switch (type) {
    case 1:
      return static_cast<int8_t>(cursor.number(1));
    case 3:
      return static_cast<int16_t>(cursor.number(2));
    case 5:
      return static_cast<int32_t>(cursor.number(4));
    case 11:
      return static_cast<int64_t>(cursor.number(8));
    case 0:
    case 2:
    case 4:
    case kBool:
    case 10: {
      const uint64_t value = cursor.number(kSizes.at(type));
      if (value > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

uint64_t GgufCursor::number(size_t size) {
  if (left() < size) {
    good_ = false;
    return 0;
  }
  static_assert(std::endian::native == std::endian::little);
  uint64_t value = 0;
  std::memcpy(&value, bytes_.data() + at_, size);
  at_ += size;
  return value;
}

std::string_view GgufCursor::text() {
  const uint64_t length = u64();
  if (left() < length) good_ = false;
  if (!good_) return "";
  at_ += length;
  return bytes_.substr(at_ - length, length);
}

void GgufCursor::skip(uint64_t count, uint64_t size) {
  if (size == 0 || count > left() / size) {
    good_ = good_ && count == 0;
    return;
  }
  at_ += count * size;
}

std::string GgufMetadata::add(GgufCursor& cursor) {
  const std::string_view key = cursor.text();
  const uint32_t type = cursor.u32();
  if (!cursor.good()) return "";
  if (key.empty()) return "a metadata key is empty";
  const std::string name = in_backticks(key.substr(0, 100));
  const Value value{cursor, type};
  std::string why = skip_value(cursor, type, 0);
  if (!why.empty()) return "the metadata key " + name + " has " + why;
  if (cursor.good() && !values_.emplace(std::string(key), value).second) {
    return "the metadata key " + name + " is given twice";
  }
  return "";
}

const GgufMetadata::Value* GgufMetadata::find(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::optional<int64_t> GgufMetadata::integer(const std::string& key) const {
  const Value* value = find(key);
  if (value == nullptr || value->type == kBool) return std::nullopt;
  GgufCursor cursor = value->begin;
  return read_integer(cursor, value->type);
}

std::optional<std::vector<int64_t>> GgufMetadata::integers(
    const std::string& key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != kArray) {
    const std::optional<int64_t> single = integer(key);
    if (!single) return std::nullopt;
    return std::vector<int64_t>{*single};
  }
  GgufCursor cursor = value->begin;
  const uint32_t of = cursor.u32();
  const uint64_t count = cursor.u64();
  std::vector<int64_t> items;
  for (uint64_t i = 0; i < count; ++i) {
    const std::optional<int64_t> item = read_integer(cursor, of);
    if (!item) return std::nullopt;
    items.push_back(*item);
  }
  return items;
}

std::optional<std::string_view> GgufMetadata::text(
    const std::string& key) const {
  const Value* value = find(key);
  if (value == nullptr || value->type != kText) return std::nullopt;
  return GgufCursor(value->begin).text();
}

std::optional<int64_t> GgufMetadata::length(const std::string& key) const {
  const Value* value = find(key);
  if (value == nullptr || value->type != kArray) return std::nullopt;
  GgufCursor cursor = value->begin;
  cursor.u32();
  // add() made sure that the count does not exceed the bytes of the file.
  return static_cast<int64_t>(cursor.u64());
}

}  // namespace shardplan
