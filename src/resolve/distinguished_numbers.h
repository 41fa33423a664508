// SPDX-License-Identifier: Apache-2.0
// Distinguished numbers: the numbers in names that a set of patterns can tell
// apart, proved from the patterns themselves.
//
// Most rules use `\d+` for the number of a layer, so they match all names of a
// class (core/name_classes.h) or none of them. Others name single layers, such
// as `layers\.7\.`: these distinguish 7 from all other numbers, but not the
// other numbers from each other. So names of one class that agree in every
// distinguished number get the same result, and only one of them is searched.
//
// The proof turns a pattern into an automaton without epsilon moves
// (Glushkov's) and runs numbers through it from every state in which one may
// begin. Any digits must lead to the same continuations as one digit, except
// for finitely many numbers, which are listed. If a pattern cannot be proved in
// this way (because of its syntax, counted digits of a number, or a literal
// digit at its end), every name is searched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardplan {

// A number of up to kMaxDistinguishedDigits digits as one integer that
// preserves leading zeros: "07" is 107. No pattern that is proved here
// distinguishes longer ones.
inline constexpr size_t kMaxDistinguishedDigits = 5;
uint32_t number_code(std::string_view digits);  // 0: too long

struct DistinguishedNumbers {
  // The codes of the distinguished numbers, keyed by the text before the number
  // in the pattern, which may be empty. kNameBegin stands for the beginning of
  // a name.
  std::map<std::string, std::vector<uint32_t>> after_text;
};
inline constexpr char kNameBegin = '\0';

// Adds the numbers that a pattern distinguishes. `re2` is a pattern in RE2's
// syntax for names of printable ASCII (python_regex.h). Returns false if
// nothing is proved.
bool add_distinguished_numbers(std::string_view re2,
                               DistinguishedNumbers& distinguished);

}  // namespace shardplan
