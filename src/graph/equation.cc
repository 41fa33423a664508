// SPDX-License-Identifier: Apache-2.0
#include "graph/equation.h"

#include "base/text.h"

namespace shardplan {
namespace {

constexpr std::string_view kLetters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

bool contains(std::string_view letters, char letter) {
  return letters.find(letter) != letters.npos;
}

// The first letter that stands twice.
std::optional<char> repeated(std::string_view letters) {
  for (size_t i = 0; i < letters.size(); ++i) {
    if (contains(letters.substr(i + 1), letters[i])) return letters[i];
  }
  return std::nullopt;
}

class Reader {
 public:
  Reader(std::string_view text, Span where, Diagnostics& diags)
      : text_(text), where_(where), diags_(diags) {}

  std::optional<Equation> read() {
    std::string letters;
    for (const char c : text_) {
      if (c != ' ') letters += c;
    }
    const size_t arrow = letters.find("->");
    if (arrow == letters.npos) {
      return refuse("has no `->`", "write the result's letters after `->`");
    }
    const std::string operands = letters.substr(0, arrow);
    const size_t comma = operands.find(',');
    if (comma == operands.npos) {
      return refuse("has one operand",
                    "write two operands, as in `bse,em->bsm`");
    }
    Equation equation{{operands.substr(0, comma), operands.substr(comma + 1)},
                      letters.substr(arrow + 2)};
    if (!is_sound(equation)) return std::nullopt;
    return equation;
  }

 private:
  std::nullopt_t refuse(const std::string& what, const std::string& help) {
    return diags_
        .error(Code::InvalidGraph, where_,
               "equation `" + printable(text_) + "` " + what)
        .help(help);
  }

  bool is_sound(const Equation& equation) {
    for (const std::string& part :
         {equation.operands[0], equation.operands[1], equation.result}) {
      const size_t odd = part.find_first_not_of(kLetters);
      if (odd != part.npos) {
        // Whole characters, should they be longer than a byte.
        size_t end = odd;
        decode_utf8(part, end);
        refuse("has `" + printable(part.substr(odd, end - odd)) +
                   "` where a letter belongs",
               "name every dimension by one letter, a to z or A to Z");
        return false;
      }
      if (const auto letter = repeated(part)) {
        refuse(std::string("has `") + *letter + "` twice in `" + part + "`",
               "give every dimension of a tensor a letter of its own");
        return false;
      }
    }
    for (const char letter : equation.result) {
      if (contains(equation.operands[0] + equation.operands[1], letter)) {
        continue;
      }
      refuse(std::string("has `") + letter + "` in the result alone",
             "use letters of the operands in the result");
      return false;
    }
    return true;
  }

  std::string_view text_;
  Span where_;
  Diagnostics& diags_;
};

}  // namespace

std::optional<Equation> parse_equation(std::string_view text, Span where,
                                       Diagnostics& diags) {
  return Reader(text, where, diags).read();
}

std::string equation_text(const Equation& equation) {
  return equation.operands[0] + "," + equation.operands[1] + "->" +
         equation.result;
}

std::string letters_of(const Equation& equation) {
  std::string letters = equation.result;
  for (const std::string& operand : equation.operands) {
    for (const char letter : operand) {
      if (!contains(letters, letter)) letters += letter;
    }
  }
  return letters;
}

}  // namespace shardplan
