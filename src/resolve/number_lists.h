// SPDX-License-Identifier: Apache-2.0
// Number lists: distinct lists of the numbers of patterns that match a name.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace shardplan {

// Sorts distinct numbers from 0 upwards; if they are dense, by a bit set.
inline void sort_numbers(std::vector<int>& numbers) {
  if (numbers.empty()) return;
  const int largest = *std::ranges::max_element(numbers);
  const size_t words = static_cast<size_t>(largest) / 64 + 1;
  if (numbers.size() < words) {
    std::ranges::sort(numbers);
    return;
  }
  std::vector<uint64_t> places(words);
  for (const int number : numbers) {
    places[static_cast<size_t>(number) / 64] |= uint64_t{1} << (number % 64);
  }
  auto out = numbers.begin();
  for (size_t i = 0; i < words; ++i) {
    for (uint64_t left = places[i]; left != 0; left &= left - 1) {
      *out++ = static_cast<int>(64 * i) + std::countr_zero(left);
    }
  }
}

// Distinct lists of numbers, each stored once and numbered.
class NumberLists {
 public:
  // List 0 is the empty one.
  NumberLists() { number_of({}); }
  NumberLists(NumberLists&&) = default;
  NumberLists& operator=(NumberLists&&) = default;
  uint32_t number_of(const std::vector<int>& list) {
    const auto [entry, is_new] =
        numbers_.try_emplace(list, static_cast<uint32_t>(lists_.size()));
    if (is_new) lists_.push_back(&entry->first);
    return entry->second;
  }
  size_t size() const { return lists_.size(); }
  const std::vector<int>& list(uint32_t number) const {
    return *lists_[number];
  }

 private:
  struct Hash {
    size_t operator()(const std::vector<int>& list) const {
      uint64_t hash = list.size();
      for (const int number : list) {
        hash = (hash ^ static_cast<uint32_t>(number)) * 0xff51afd7ed558ccdU;
        hash ^= hash >> 32U;
      }
      return hash;
    }
  };
  std::unordered_map<std::vector<int>, uint32_t, Hash> numbers_;
  std::vector<const std::vector<int>*> lists_;
};

}  // namespace shardplan
