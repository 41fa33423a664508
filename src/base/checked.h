// SPDX-License-Identifier: Apache-2.0
// Checks for programming mistakes, in every build, that report the source line.
//
// A failed check is a bug in shardplan, never a user's mistake. It throws
// InternalError, which only cli::run catches: it prints how to report the bug
// and exits with 3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace shardplan {

class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] inline void check_failed(const char* condition, const char* file,
                                      int line) {
  throw InternalError(std::string(file) + ":" + std::to_string(line) +
                      ": check failed: " + condition);
}

}  // namespace shardplan

#define SHARDPLAN_CHECK(condition) \
  ((condition) ? (void)0           \
               : ::shardplan::check_failed(#condition, __FILE__, __LINE__))
namespace shardplan {

// Signed numbers and enumerators as sizes and indices: numbers here are int or
// int64_t, since arithmetic may take them below zero, and containers want
// size_t.

// REQUIRES: number >= 0.
template <class Number>
constexpr size_t to_size(Number number) {
  if constexpr (std::is_enum_v<Number>) {
    return to_size(static_cast<std::underlying_type_t<Number>>(number));
  } else {
    SHARDPLAN_CHECK(std::in_range<size_t>(number));
    return static_cast<size_t>(number);
  }
}

// The element of `items` at `index`. REQUIRES: 0 <= index < size.
template <class Items, class Index>
constexpr decltype(auto) nth(Items&& items, Index index) {
  SHARDPLAN_CHECK(to_size(index) < std::size(items));
  return items[to_size(index)];
}

// Integer arithmetic that reports overflow instead of wrapping.
//
// Sizes come from users' files, so a product of dimensions or a sum of bytes
// may exceed 63 bits. Every such product or sum uses these functions; an empty
// result means overflow.

// Wide enough for bytes over 2^40 devices.
__extension__ using Int128 = __int128;

inline std::optional<int64_t> checked_add(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

inline std::optional<int64_t> checked_mul(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// REQUIRES: a >= 0, b > 0.
inline int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

}  // namespace shardplan
