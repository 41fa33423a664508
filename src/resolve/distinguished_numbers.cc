// SPDX-License-Identifier: Apache-2.0
// Reads a pattern, makes an automaton of it, and runs numbers through it.
// Patterns that match every name are found here as well (resolve/match.h).
#include "resolve/distinguished_numbers.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <initializer_list>
#include <optional>
#include <utility>
#include <variant>

#include <re2/re2.h>

#include "base/allocation.h"
#include "base/text.h"
#include "base/words.h"
#include "resolve/match.h"
#include "resolve/python_regex.h"

namespace shardplan {
namespace {

// The characters that a name may have, and marks for its two ends, which `^`
// and `$` read as characters.
using Characters = std::bitset<128>;
constexpr size_t kBegin = 0;
constexpr size_t kEnd = 1;
constexpr size_t kFirstPrintable = 0x20;
constexpr size_t kLastPrintable = 0x7E;
static_assert(kNameBegin == kBegin);

// Patterns beyond these limits are not worth a proof.
constexpr size_t kMostPositions = 256;
constexpr size_t kMostParts = 2000;
constexpr int kDeepest = 50;
constexpr size_t kMostSteps = 5000;

// A part of a pattern. Parts form a tree, since a counted part stands for
// several copies.
struct PatternPart {
  enum class Kind : uint8_t { One, Sequence, Either, Repeat };
  Kind kind = Kind::Sequence;
  Characters characters;           // One
  std::vector<PatternPart> parts;  // all kinds but One
  int least = 1;                   // Repeat
  int most = 1;                    // -1: any number
};

// Returns the printable characters from `low` to `high`.
Characters printable_range(size_t low, size_t high) {
  Characters characters;
  const size_t last = std::min(high, kLastPrintable);
  for (size_t c = std::max(low, kFirstPrintable); c <= last; ++c) {
    characters.set(c);
  }
  return characters;
}

PatternPart one(const Characters& characters) {
  return {PatternPart::Kind::One, characters, {}};
}

PatternPart mark(size_t end) { return one(Characters().set(end)); }

// Parses the output of translate_pattern() for plain names. `good` is false
// once the parser met anything else.
struct PatternParser {
  std::string_view text;
  size_t at = 0;
  size_t parts = 0;
  bool good = true;

  std::optional<PatternPart> read() {
    PatternPart part = read_either(0);
    if (!good || at != text.size()) return std::nullopt;
    return part;
  }

  bool is_at(std::string_view word) const {
    return text.substr(at).starts_with(word);
  }
  bool take(std::string_view word) {
    if (!is_at(word)) return false;
    at += word.size();
    return true;
  }
  bool is_at_repeat() const {
    return is_at("*") || is_at("+") || is_at("?") || is_at("{");
  }
  PatternPart fail() {
    good = false;
    return {};
  }

  PatternPart read_either(int depth) {
    if (depth > kDeepest) return fail();
    PatternPart either;
    either.kind = PatternPart::Kind::Either;
    do {
      either.parts.push_back(read_sequence(depth));
    } while (good && take("|"));
    return either;
  }

  PatternPart read_sequence(int depth) {
    PatternPart sequence;
    while (good && at < text.size() && !is_at("|") && !is_at(")")) {
      PatternPart part = read_one(depth);
      if (good) sequence.parts.push_back(read_repeat(std::move(part)));
    }
    return sequence;
  }

  PatternPart read_one(int depth) {
    if (parts++ > kMostParts) return fail();
    if (take("(?:") || (!is_at("(?") && take("("))) {
      PatternPart inside = read_either(depth + 1);
      return take(")") ? inside : fail();
    }
    if (is_at("(")) return fail();  // flags
    if (take("^") || take("\\A")) return mark(kBegin);
    if (take("$") || take("\\z")) return mark(kEnd);
    if (take("[")) return read_class();
    if (take(".")) return one(printable_range(0, kLastPrintable));
    if (is_at_repeat()) return fail();
    const std::optional<size_t> code = read_character();
    return code ? one(printable_range(*code, *code)) : fail();
  }

  // Reads a plain character, `\x{2f}` or `\[`.
  std::optional<size_t> read_character() {
    if (take("\\x{")) {
      size_t code = 0;
      size_t digits = 0;
      for (; at < text.size() && text[at] != '}'; ++at, ++digits) {
        const std::string_view hex = "0123456789abcdef";
        const size_t digit = hex.find(text[at]);
        if (digit == hex.npos || digits == 6) return std::nullopt;
        code = code * 16 + digit;
      }
      if (digits == 0 || !take("}")) return std::nullopt;
      return code;
    }
    const bool escaped = take("\\");
    if (at >= text.size()) return std::nullopt;
    const char c = text[at];
    const bool is_word = is_letter(c) || is_digit(c);
    if (static_cast<signed char>(c) < 0 || (escaped && is_word)) {
      return std::nullopt;  // `\b`, `\p{..}`, not ASCII
    }
    ++at;
    return static_cast<size_t>(c);
  }

  PatternPart read_class() {
    Characters characters;
    const bool negated = take("^");
    bool any = false;
    while (good && at < text.size() && (!is_at("]") || !any)) {
      if (is_at("[:")) return fail();
      any = true;
      const std::optional<size_t> low = read_character();
      std::optional<size_t> high = low;
      if (is_at("-") && !is_at("-]")) {
        ++at;
        high = read_character();
      }
      if (!low || !high) return fail();
      characters |= printable_range(*low, *high);
    }
    if (!take("]")) return fail();
    if (negated) characters ^= printable_range(0, kLastPrintable);
    return one(characters);
  }

  PatternPart read_repeat(PatternPart part) {
    PatternPart repeat;
    repeat.kind = PatternPart::Kind::Repeat;
    if (take("*")) {
      repeat.least = 0;
      repeat.most = -1;
    } else if (take("+")) {
      repeat.most = -1;
    } else if (take("?")) {
      repeat.least = 0;
    } else if (take("{")) {
      repeat.least = read_count();
      repeat.most = repeat.least;
      if (take(",")) repeat.most = is_at("}") ? -1 : read_count();
      if (!take("}")) return fail();
    } else {
      return part;
    }
    take("?");  // lazy or greedy, the same names match
    if (is_at_repeat()) return fail();
    repeat.parts.push_back(std::move(part));
    return repeat;
  }

  int read_count() {
    int count = 0;
    bool any = false;
    for (; at < text.size() && is_digit(text[at]); ++at) {
      any = true;
      if (count <= 1000) count = count * 10 + (text[at] - '0');
    }
    if (!any || count > 1000) good = false;
    return count;
  }
};

using Positions = std::bitset<kMostPositions>;

template <typename Visit>
void each_position(const Positions& positions, Visit visit) {
  for (size_t i = positions._Find_first(); i < kMostPositions;
       i = positions._Find_next(i)) {
    visit(i);
  }
}

// An automaton with one position per character of the pattern. A position is
// reached when its character has been read.
struct Automaton {
  std::vector<Characters> characters;
  std::vector<Positions> follow;
  Positions first;
  Positions last;
  bool matches_nothing = false;  // the empty text matches
};

class AutomatonBuilder {
 public:
  // Returns no value if the automaton is too large.
  std::optional<Automaton> build(const PatternPart& part) {
    const Ends ends = add(part);
    if (too_large_) return std::nullopt;
    automaton_.first = ends.first;
    automaton_.last = ends.last;
    automaton_.matches_nothing = ends.empty;
    return std::move(automaton_);
  }

 private:
  struct Ends {
    Positions first;
    Positions last;
    bool empty = true;
  };

  Ends add(const PatternPart& part) {
    if (too_large_ || ++work_ > 4 * kMostParts) {
      too_large_ = true;
      return {};
    }
    switch (part.kind) {
      case PatternPart::Kind::One:
        return add_one(part.characters);
      case PatternPart::Kind::Sequence: {
        Ends all;
        for (const PatternPart& next : part.parts) all = joined(all, add(next));
        return all;
      }
      case PatternPart::Kind::Either: {
        Ends any{{}, {}, false};
        for (const PatternPart& other : part.parts) {
          const Ends ends = add(other);
          any.first |= ends.first;
          any.last |= ends.last;
          any.empty |= ends.empty;
        }
        return any;
      }
      case PatternPart::Kind::Repeat:
        break;
    }
    return add_repeat(part);
  }

  Ends add_one(const Characters& characters) {
    Ends ends{{}, {}, false};
    if (automaton_.characters.size() == kMostPositions) {
      too_large_ = true;
      return ends;
    }
    ends.first.set(automaton_.characters.size());
    ends.last = ends.first;
    automaton_.characters.push_back(characters);
    automaton_.follow.emplace_back();
    return ends;
  }

  void link(const Positions& from, const Positions& to) {
    each_position(from, [&](size_t i) { automaton_.follow[i] |= to; });
  }

  Ends joined(const Ends& a, const Ends& b) {
    link(a.last, b.first);
    Ends both{a.first, b.last, a.empty && b.empty};
    if (a.empty) both.first |= b.first;
    if (b.empty) both.last |= a.last;
    return both;
  }

  Ends add_repeat(const PatternPart& part) {
    const int copies = std::max({part.least, part.most, 1});
    Ends all;
    for (int i = 0; i < copies && !too_large_; ++i) {
      Ends next = add(part.parts.front());
      if (part.most < 0 && i + 1 == copies) link(next.last, next.first);
      if (i >= part.least) next.empty = true;
      all = joined(all, next);
    }
    if (part.most == 0) return {};
    return all;
  }

  Automaton automaton_;
  size_t work_ = 0;
  bool too_large_ = false;
};

// Returns false if a mark of an end may follow another of the same end, since
// both would have to read the same one.
bool marks_stand_alone(const Automaton& automaton) {
  bool alone = true;
  for (size_t i = 0; i < automaton.characters.size(); ++i) {
    const bool begin = automaton.characters[i].test(kBegin);
    const bool end = automaton.characters[i].test(kEnd);
    if (!begin && !end) continue;
    each_position(automaton.follow[i], [&](size_t next) {
      const Characters& after = automaton.characters[next];
      alone = alone && !after.test(kBegin) && !(end && after.test(kEnd));
    });
  }
  return alone;
}

// The result of reading a number: whether the pattern matched within it, or
// else the positions after the separator behind it, or the end of the name.
struct Outcome {
  bool found = false;
  std::array<Positions, 3> after = {};

  bool operator==(const Outcome& other) const {
    return found == other.found && (found || after == other.after);
  }
};
constexpr std::array<size_t, 3> kAfterNumber = {'.', '/', kEnd};
constexpr std::array<size_t, 3> kBeforeNumber = {'.', '/', kBegin};

class NumberProof {
 public:
  NumberProof(const Automaton& automaton, DistinguishedNumbers& distinguished)
      : automaton_(automaton), distinguished_(distinguished) {
    for (size_t i = 0; i < automaton.characters.size(); ++i) {
      const Characters& characters = automaton.characters[i];
      size_t digits = 0;
      for (size_t d = 0; d < 10; ++d) {
        if (!characters.test('0' + d)) continue;
        ++digits;
        reading_digit_[d].set(i);
      }
      if (digits == 10) any_digit_.set(i);
      if (digits > 0 && digits < 10) some_digit_.set(i);
      for (size_t k = 0; k < kAfterNumber.size(); ++k) {
        if (characters.test(kAfterNumber[k])) after_number_[k].set(i);
      }
    }
  }

  bool run() {
    // The automaton would start again at every digit.
    if ((automaton_.first & some_digit_).any()) return false;
    if (!prove(kMostPositions)) return false;
    for (size_t i = 0; i < automaton_.characters.size(); ++i) {
      const Characters& characters = automaton_.characters[i];
      const bool may_begin = std::ranges::any_of(
          kBeforeNumber, [&](size_t c) { return characters.test(c); });
      if (may_begin && !prove(i)) return false;
    }
    return true;
  }

 private:
  // Returns the positions that one more character may lead to. The pattern may
  // begin anywhere.
  Positions next(const Positions& from) const {
    Positions to = automaton_.first;
    each_position(from, [&](size_t i) { to |= automaton_.follow[i]; });
    return to;
  }

  Outcome outcome(const Positions& at, bool found) const {
    Outcome result;
    result.found = found;
    const Positions to = next(at);
    for (size_t k = 0; k < after_number_.size(); ++k) {
      result.after[k] = to & after_number_[k];
    }
    return result;
  }

  bool is_found(const Positions& at) const {
    return (at & automaton_.last).any();
  }

  // Proves, for numbers that begin after position `from`, or anywhere, that any
  // digits have the outcome of one digit where the automaton accepts any digit.
  bool prove(size_t from) {
    Positions at;
    if (from < kMostPositions) at.set(from);
    generic_.clear();
    generic_found_.clear();
    bool found = false;
    std::optional<Outcome> all;
    Positions before = at;
    for (size_t length = 1;; ++length) {
      const Positions now = next(before) & any_digit_;
      found = found || is_found(now);
      const Outcome result = outcome(now, found);
      if (!all) all = result;
      if (!(result == *all)) return false;
      // A literal digit after any digits distinguishes the numbers that end in
      // it, and there are infinitely many.
      if ((next(now) & some_digit_).any()) return false;
      generic_.push_back(now);
      generic_found_.push_back(found);
      if (now == before && length > kMaxDistinguishedDigits) break;
      if (++steps_ > kMostSteps) return false;
      before = now;
    }
    outcome_ = *all;
    Positions literal;
    if (from < kMostPositions) literal = automaton_.follow[from];
    literal &= any_digit_ | some_digit_;
    if ((literal & some_digit_).none()) return true;
    context_ = context_of(from);
    digits_.clear();
    visits_ = 0;
    return list(literal & ~any_digit_, false);
  }

  // Lists the numbers that begin with digits_ and have another outcome, through
  // `candidates`, the positions that the next digit may lead to.
  bool list(const Positions& candidates, bool found) {
    constexpr size_t kMostVisits = 5000;
    for (size_t d = 0; d < 10; ++d) {
      const Positions now = candidates & reading_digit_[d];
      if (now.none()) continue;
      if (digits_.size() == kMaxDistinguishedDigits ||
          ++visits_ > kMostVisits) {
        return false;
      }
      digits_ += static_cast<char>('0' + d);
      const size_t length = digits_.size();
      const bool found_now =
          found || is_found(now) || generic_found_[length - 1];
      const Outcome result = outcome(now | generic_[length - 1], found_now);
      if (!(result == outcome_)) {
        // The pattern matched within the number, so all longer numbers match as
        // well.
        if (found_now) return false;
        distinguished_.after_text[context_].push_back(number_code(digits_));
      }
      Positions further;
      each_position(now, [&](size_t i) { further |= automaton_.follow[i]; });
      if (!list(further, found_now)) return false;
      digits_.pop_back();
    }
    return true;
  }

  // Returns the text that has been read whenever this position is reached, as
  // far back as it is unique.
  std::string context_of(size_t position) const {
    constexpr size_t kLongest = 64;
    std::string text;
    for (size_t at = position; text.size() < kLongest;) {
      const Characters& characters = automaton_.characters[at];
      if (characters.count() != 1) break;
      text += static_cast<char>(characters._Find_first());
      if (automaton_.first.test(at)) break;
      size_t before = kMostPositions;
      size_t count = 0;
      for (size_t i = 0; i < automaton_.follow.size(); ++i) {
        if (!automaton_.follow[i].test(at)) continue;
        before = i;
        ++count;
      }
      if (count != 1) break;
      at = before;
    }
    std::ranges::reverse(text);
    return text;
  }

  const Automaton& automaton_;
  DistinguishedNumbers& distinguished_;
  std::array<Positions, 10> reading_digit_;
  Positions any_digit_;   // reads each of the ten digits
  Positions some_digit_;  // reads only some of the digits
  std::array<Positions, 3> after_number_;

  // For the position being proved: the positions that any digits lead to, by
  // the number of digits, and their outcome.
  std::vector<Positions> generic_;
  std::vector<bool> generic_found_;
  Outcome outcome_;
  std::string context_;
  std::string digits_;
  size_t visits_ = 0;
  size_t steps_ = 0;  // over all positions
};

// The catch-alls of resolve/match.h.

// Names consist of printable ASCII without the blank.
constexpr char kFirstCharacter = '!';
constexpr char kLastCharacter = '~';

bool finds_every_pair(const RE2& pattern) {
  for (char a = kFirstCharacter; a <= kLastCharacter; ++a) {
    for (char b = kFirstCharacter; b <= kLastCharacter; ++b) {
      const char name[] = {a, b};
      if (!RE2::PartialMatch(std::string_view(name, 2), pattern)) return false;
    }
  }
  return true;
}

// This is longer than any repetition that RE2 counts.
constexpr int kLongName = 1001;
constexpr size_t kShortNames = 80;

// Returns whether a pattern matches names of many lengths, made of all
// characters in turn or of one character.
bool finds_every_length(const RE2& pattern) {
  constexpr int kCharacters = kLastCharacter - kFirstCharacter + 1;
  std::string turn;
  for (int i = 0; i < kLongName; ++i) {
    turn += static_cast<char>(kFirstCharacter + i % kCharacters);
  }
  const auto finds = [&](size_t length) {
    return RE2::PartialMatch(std::string(length, 'a'), pattern) &&
           RE2::PartialMatch(turn.substr(turn.size() - length), pattern);
  };
  for (size_t length = 3; length < kShortNames; ++length) {
    if (!finds(length)) return false;
  }
  return finds(turn.size());
}

bool has_any(std::string_view text, std::initializer_list<const char*> parts) {
  return std::ranges::any_of(
      parts, [&](const char* part) { return contains(text, part); });
}

}  // namespace

uint32_t number_code(std::string_view digits) {
  if (digits.size() > kMaxDistinguishedDigits) return 0;
  uint32_t code = 1;
  for (const char digit : digits) {
    code = code * 10 + static_cast<uint32_t>(digit - '0');
  }
  return code;
}

bool add_distinguished_numbers(std::string_view re2,
                               DistinguishedNumbers& distinguished) {
  const std::optional<PatternPart> part = PatternParser{re2}.read();
  if (!part) return false;
  const std::optional<Automaton> automaton = AutomatonBuilder().build(*part);
  if (!automaton || !marks_stand_alone(*automaton)) return false;
  if (automaton->matches_nothing) return true;  // found in every name
  return NumberProof(*automaton, distinguished).run();
}

// A pattern that matches every name of one character matches all names, unless
// it tests both ends: if it matches at the beginning of `c` and does not test
// the end, it matches at the beginning of every name that begins with c. The
// same applies to the end.
bool is_catch_all(std::string_view pattern) {
  const auto translated = translate_pattern(pattern, true);
  if (!std::holds_alternative<TranslatedPattern>(translated)) return false;
  const std::string& text = std::get<TranslatedPattern>(translated).re2;
  const UnrefusedAllocations re2;
  RE2::Options quiet(RE2::Quiet);
  quiet.set_never_capture(true);
  const RE2 compiled(text, quiet);
  if (!compiled.ok()) return false;
  for (char c = kLastCharacter; c >= kFirstCharacter; --c) {
    if (!RE2::PartialMatch(std::string_view(&c, 1), compiled)) return false;
  }
  // A `^` within a class counts as well; the pattern is then tried needlessly.
  const bool at_begin = has_any(text, {"^", "\\A"});
  const bool at_end = has_any(text, {"$", "\\z"});
  const bool at_words = has_any(text, {"\\b", "\\B"});
  if (!at_words && !(at_begin && at_end)) return true;
  return finds_every_pair(compiled) && finds_every_length(compiled);
}

}  // namespace shardplan
