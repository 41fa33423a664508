// SPDX-License-Identifier: Apache-2.0
#include "core/name_classes.h"

#include <algorithm>
#include <cstring>

#include "core/fold.h"

namespace shardplan {
namespace {

// Replaces numbers in the hash of a name. No byte of UTF-8 has this value.
constexpr char kNumberMark = '\xff';

bool is_at(std::string_view text, std::string_view name, size_t at) {
  return name.size() - at >= text.size() &&
         std::memcmp(name.data() + at, text.data(), text.size()) == 0;
}

// Hashes the name with a mark in place of each number, so that all names of a
// class have the same hash.
uint32_t hash_of_class(std::string_view name) {
  const auto is_digit_at = [&](size_t at) {
    return at < name.size() && name[at] >= '0' && name[at] <= '9';
  };
  uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  bool begins = true;                   // whether a component begins here
  for (size_t at = 0; at < name.size();) {
    char c = name[at];
    size_t end = at;
    while (begins && is_digit_at(end)) ++end;
    if (end > at &&
        (end == name.size() || name[end] == '.' || name[end] == '/')) {
      c = kNumberMark;
      at = end;
    } else {
      ++at;
    }
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    begins = c == '.' || c == '/';
  }
  return static_cast<uint32_t>(hash ^ (hash >> 32U));
}

}  // namespace

std::string_view NameClasses::text(uint32_t number, size_t index) const {
  const size_t piece = classes_[number].first_piece + index;
  const uint64_t begin = piece_begin_[piece];
  return {texts_.data() + begin, piece_begin_[piece + 1] - begin};
}

std::string NameClasses::folded_name(uint32_t number) const {
  std::string name(text(number, 0));
  for (size_t i = 1; i <= numbers(number); ++i) {
    name += '*';
    name += text(number, i);
  }
  return name;
}

// A text after a number begins with a separator or ends the name, and one
// before a number ends with a separator or begins the name. So the digits
// between them are a whole component, and the name cannot be split in any other
// way.
bool NameClasses::has(uint32_t number, std::string_view name) const {
  size_t at = 0;
  for (size_t i = 0;; ++i) {
    const std::string_view piece = text(number, i);
    if (!is_at(piece, name, at)) return false;
    at += piece.size();
    if (i == numbers(number)) return at == name.size();
    const size_t begin = at;
    while (at < name.size() && name[at] >= '0' && name[at] <= '9') ++at;
    if (at == begin) return false;
  }
}

uint32_t NameClasses::add(std::string_view name) {
  uint32_t number = 0;
  if (!classes_.empty()) {
    number = classes_[last_].next;
    if (!has(number, name)) {
      number = find_or_add(name);
      classes_[last_].next = number;
    }
  } else {
    number = find_or_add(name);
  }
  last_ = number;
  return number;
}

void NameClasses::grow() {
  constexpr size_t kLeast = 64;
  table_.assign(table_.empty() ? kLeast : table_.size() * 2, 0);
  const size_t mask = table_.size() - 1;
  for (size_t i = 0; i < hashes_.size(); ++i) {
    size_t slot = hashes_[i] & mask;
    while (table_[slot] != 0) slot = (slot + 1) & mask;
    table_[slot] = static_cast<uint32_t>(i + 1);
  }
}

uint32_t NameClasses::find_or_add(std::string_view name) {
  const uint32_t hash = hash_of_class(name);
  if (table_.size() < 2 * (classes_.size() + 1)) grow();
  const size_t mask = table_.size() - 1;
  size_t slot = hash & mask;
  for (; table_[slot] != 0; slot = (slot + 1) & mask) {
    const uint32_t number = table_[slot] - 1;
    if (hashes_[number] == hash && has(number, name)) return number;
  }
  const std::string folded = marked_name(name, kNumberMark);
  const auto number = static_cast<uint32_t>(classes_.size());
  table_[slot] = number + 1;
  hashes_.push_back(hash);
  if (piece_begin_.empty()) piece_begin_.push_back(0);
  Class added{static_cast<uint32_t>(piece_begin_.size() - 1), 0, number};
  for (size_t begin = 0; begin <= folded.size(); ++added.pieces) {
    const size_t end = std::min(folded.find(kNumberMark, begin), folded.size());
    texts_.append(folded, begin, end - begin);
    piece_begin_.push_back(texts_.size());
    begin = end + 1;
  }
  classes_.push_back(added);
  return number;
}

}  // namespace shardplan
