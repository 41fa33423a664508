// SPDX-License-Identifier: Apache-2.0
// Which numbers of names a set of patterns can tell apart, proved from what the
// patterns are.
//
// Most rules say `\d+` where a name has the number of a layer, so they are
// found in all names of a class (core/name_classes.h) or in none of it. Others
// name single layers, `layers\.7\.`: these tell 7 from other numbers, and all
// others from none. So names of one class in which every number is the same, or
// one that nobody tells, have one answer, and it is looked for once.
//
// The proof: a pattern becomes an automaton without epsilon moves (Glushkov's),
// and numbers are put through it, from every state in which one may begin. Any
// digits must lead to the same continuations as one digit, but for finitely
// many numbers, which are listed. What is not proved so - another syntax, a
// number whose digits are counted, a literal digit that ends a pattern - has no
// answer here, and every name is searched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardplan {

// A number of up to so many digits as one integer, zeros in front included:
// "07" is 107. Longer ones are told by no pattern here.
inline constexpr size_t kMostToldDigits = 5;
uint32_t number_code(std::string_view digits);  // 0: too long

struct ToldNumbers {
  // By what stands before the number in the pattern, which may be nothing: the
  // codes of the numbers. A name begins with kNameBegin.
  std::map<std::string, std::vector<uint32_t>> behind;
};
inline constexpr char kNameBegin = '\0';

// Adds what a pattern tells. `re2` is in RE2's spelling, for names of printable
// ASCII (python_regex.h). False where nothing is proved.
bool add_told_numbers(std::string_view re2, ToldNumbers& told);

}  // namespace shardplan
