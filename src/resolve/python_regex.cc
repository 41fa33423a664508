// SPDX-License-Identifier: Apache-2.0
// The translator makes one pass over the pattern. It copies what RE2 reads in
// the same way and respells or refuses the rest. It builds no tree: the only
// context it needs is whether anything precedes the current position (for
// flags), and whether the last item may be repeated.
#include "resolve/python_regex.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

bool is_octal(char c) { return c >= '0' && c <= '7'; }

std::string code_text(char32_t code) {
  return fmt::format("\\x{{{:x}}}", static_cast<uint32_t>(code));
}

// The characters of Python's str.isspace, as ranges.
struct Range {
  char32_t first;
  char32_t last;
};
constexpr std::array<Range, 10> kSpaces = {{
    {0x09, 0x0d},
    {0x1c, 0x20},
    {0x85, 0x85},
    {0xa0, 0xa0},
    {0x1680, 0x1680},
    {0x2000, 0x200a},
    {0x2028, 0x2029},
    {0x202f, 0x202f},
    {0x205f, 0x205f},
    {0x3000, 0x3000},
}};

std::string range_text(char32_t first, char32_t last) {
  return code_text(first) + "-" + code_text(last);
}

std::string space_ranges(bool inside) {
  std::string text;
  char32_t next = 0;
  for (const Range& range : kSpaces) {
    text += inside ? range_text(range.first, range.last)
                   : range_text(next, range.first - 1);
    next = range.last + 1;
  }
  return inside ? text : text + range_text(next, 0x10ffff);
}

// Returns the contents of the brackets that stand for `\d` and the like: "0-9".
// `ascii`: Python's set under its flag `a`, which also serves for ASCII names.
// No value for `\W` over Unicode, which no list of ranges of reasonable length
// can spell.
std::optional<std::string> class_escape_ranges(char c, bool ascii) {
  switch (c) {
    case 'd':
      return ascii ? "0-9" : "\\p{Nd}";
    case 'D':
      return ascii ? "\\x{0}-/:-\\x{10ffff}" : "\\P{Nd}";
    case 's':
      return ascii ? "\\x{9}-\\x{d}\\x{20}" : space_ranges(true);
    case 'S':
      return ascii ? "\\x{0}-\\x{8}\\x{e}-\\x{1f}!-\\x{10ffff}"
                   : space_ranges(false);
    case 'w':
      return ascii ? "0-9A-Z_a-z" : "\\p{L}\\p{N}_";
    default:
      if (ascii) return "\\x{0}-/:-@\\[-\\^`{-\\x{10ffff}";
      return std::nullopt;
  }
}

// Returns a code point as RE2 reads it literally, inside brackets or outside.
std::string literal(char32_t code) {
  if (code < 0x80) {
    const char c = static_cast<char>(code);
    if (is_letter(c) || is_digit(c) || c == '_') return std::string(1, c);
  }
  return code_text(code);
}

constexpr int kMaxRepeat = 1000;  // RE2's limit on counted repetition

// A group that starts with `(?` and that RE2 cannot express.
struct Unsupported {
  std::string_view start;
  std::string_view message;
  std::string_view help;
};
constexpr std::array<Unsupported, 8> kUnsupported = {{
    {"(?=", "look-ahead is not supported",
     "spell out the names, or put a more specific rule first"},
    {"(?!", "negative look-ahead is not supported",
     "put a rule for the excluded names before this one"},
    {"(?<=", "look-behind is not supported",
     "include the preceding text in the pattern"},
    {"(?<!", "negative look-behind is not supported",
     "put a rule for the excluded names before this one"},
    {"(?>", "atomic groups are not supported", "use a plain group `(?:...)`"},
    {"(?(", "conditional groups are not supported",
     "write one rule per alternative"},
    {"(?P=", "back-references are not supported", "repeat the text itself"},
    {"(?P>", "Python does not support this group", ""},
}};

bool is_identifier(std::string_view name) {
  return !name.empty() && !is_digit(name.front()) &&
         std::ranges::all_of(name, [](char c) {
           return is_letter(c) || c == '_' || is_digit(c);
         });
}

// One member of a class: a character, or a set such as `\d`.
struct Member {
  std::optional<char32_t> code;
  std::string ranges = {};
  bool unspellable = false;
};

class Translator {
 public:
  Translator(std::string_view pattern, bool plain_names)
      : in_(pattern), plain_(plain_names), ascii_(plain_names) {}

  std::variant<TranslatedPattern, PatternProblem> run() {
    while (at_ < in_.size() && !problem_) step();
    if (!problem_ && ignores_case_) check_case_folding();
    if (problem_) return std::move(*problem_);
    return TranslatedPattern{std::move(out_), std::move(ascii_only_)};
  }

 private:
  bool looking_at(std::string_view text) const {
    return in_.substr(at_).starts_with(text);
  }

  void refuse(size_t begin, size_t end, std::string_view message,
              std::string_view help = "") {
    problem_ = PatternProblem{begin, std::min(end, in_.size()),
                              std::string(message), std::string(help)};
  }

  void emit(std::string_view text) {
    if (groups_.back().branch_ends && text != ")" && text != "|") {
      refuse(at_, in_.size(),
             "nothing may follow `$` here, unless all names "
             "are printable ASCII",
             "put `$` at the end of the pattern or alternative");
    }
    out_ += text;
    anything_before_ = true;
    repeatable_ = true;
    last_is_repetition_ = false;
  }

  void emit_anchor(std::string_view text) {
    emit(text);
    repeatable_ = false;
  }

  // Refuses the flag `i` beyond ASCII. Python treats dotted and dotless i as
  // one letter and RE2 does not; RE2 folds the non-ASCII characters in `\W`
  // onto letters.
  void check_case_folding() {
    bool plain = plain_;
    for (const std::string_view escape : {"\\u", "\\U", "\\W"}) {
      plain = plain && !contains(in_, escape);
    }
    for (const char c : in_) plain = plain && static_cast<signed char>(c) >= 0;
    if (plain) return;
    refuse(0, in_.size(),
           "the flag `i` is supported for ASCII names and patterns only, "
           "without `\\W`",
           "spell out both cases, e.g. `[Kk]ernel`");
  }

  void step() {
    const char c = in_[at_];
    if (c == '\\') return escape();
    if (c == '[') return character_class();
    if (looking_at("(?")) return extension();
    if (c == '{') return brace();
    if (c == '*' || c == '+' || c == '?') return repeat(in_.substr(at_, 1), 1);
    if (c == '$') return end_of_name();
    if (c == '|' || c == ')') return close_branch(c);
    ++at_;
    if (c == '^') return emit_anchor("^");
    if (c == '(') return open_group("(");
    emit(std::string_view(&c, 1));
  }

  // Python's `$` also matches before a newline at the very end. RE2's spelling
  // of that consumes the newline, so nothing may follow it.
  void end_of_name() {
    ++at_;
    if (plain_ || multi_line_) return emit_anchor("$");
    emit_anchor("(?:\\n?\\z)");
    groups_.back().branch_ends = true;
  }

  void open_group(std::string_view text) {
    emit_anchor(text);
    groups_.emplace_back();
  }

  // Closes a branch at `|` or `)`. RE2 reports unbalanced groups itself.
  void close_branch(char c) {
    Group& group = groups_.back();
    group.some_branch_ends |= group.branch_ends;
    group.branch_ends = false;
    if (c == ')' && groups_.size() > 1) {
      const bool ends = group.some_branch_ends;
      groups_.pop_back();
      emit(")");
      groups_.back().branch_ends |= ends;
    } else {
      emit_anchor(std::string_view(&c, 1));
    }
    ++at_;
  }

  void repeat(std::string_view spelled, size_t length) {
    if (!repeatable_) {
      return refuse(at_, at_ + length, "there is nothing to repeat",
                    "only a character, a class or a group can be repeated");
    }
    emit(spelled);
    last_is_repetition_ = true;
    at_ += length;
  }

  // Returns the text from `begin` up to `end`; empty if `end` does not follow.
  std::string_view text_until(char end, size_t begin) const {
    const size_t close = in_.find(end, begin);
    return close == std::string_view::npos ? std::string_view()
                                           : in_.substr(begin, close - begin);
  }

  static std::optional<int> bound(std::string_view digits) {
    const auto value = parse_integer(digits);
    if (!value || *value > kMaxRepeat) return std::nullopt;
    return static_cast<int>(*value);
  }

  // Reads `{m}`, `{m,}`, `{,n}` or `{m,n}` as a repetition; any other brace is
  // a character.
  void brace() {
    const std::string_view body = text_until('}', at_ + 1);
    const size_t comma = body.find(',');
    const std::string_view low = body.substr(0, comma);
    const std::string_view high =
        comma == std::string_view::npos ? low : body.substr(comma + 1);
    constexpr std::string_view kDigits = "0123456789";
    if (body.empty() ||
        low.find_first_not_of(kDigits) != std::string_view::npos ||
        high.find_first_not_of(kDigits) != std::string_view::npos) {
      ++at_;
      return emit("\\{");
    }
    const size_t length = body.size() + 2;
    const std::optional<int> least = low.empty() ? 0 : bound(low);
    const std::optional<int> most = high.empty() ? 0 : bound(high);
    if (!least || !most) {
      return refuse(at_, at_ + length,
                    "repetition beyond 1000 is not supported",
                    "use `*` or `+`, or a smaller count");
    }
    // RE2 reads `{01}` as four characters.
    std::string spelled = "{" + std::to_string(*least);
    if (comma != std::string_view::npos) spelled += ",";
    if (comma != std::string_view::npos && !high.empty()) {
      spelled += std::to_string(*most);
    }
    repeat(spelled + "}", length);
  }

  void extension() {
    for (const Unsupported& group : kUnsupported) {
      if (looking_at(group.start)) {
        return refuse(at_, at_ + group.start.size(), group.message, group.help);
      }
    }
    if (looking_at("(?#")) return comment();
    if (looking_at("(?P<")) return named_group();
    if (looking_at("(?:")) {
      open_group("(?:");
      at_ += 3;
      return;
    }
    flags();
  }

  void comment() {
    size_t close = at_;  // `\)` does not close it
    while (close < in_.size() && in_[close] != ')') {
      close += in_[close] == '\\' ? 2U : 1U;
    }
    if (close >= in_.size()) {
      return refuse(at_, in_.size(), "the comment is not closed");
    }
    // Python ends a repetition at a comment: `a*(?#)?` is not a lazy `a*`.
    if (last_is_repetition_) repeatable_ = false;
    at_ = close + 1;
  }

  // Drops the name, since nothing refers to it. The group becomes `(?:` and not
  // a plain `(`, whose meaning a `?` after it would change.
  void named_group() {
    const std::string_view name = text_until('>', at_ + 4);
    const size_t close = at_ + 4 + name.size();
    if (!is_identifier(name)) {
      return refuse(
          at_, at_ + 4, "the group has no valid name",
          "use ASCII letters, digits and `_`, not starting with a digit");
    }
    if (!names_.emplace(name).second) {
      return refuse(at_ + 4, close,
                    "group " + in_backticks(name) + " is defined twice");
    }
    at_ = close + 1;
    open_group("(?:");
  }

  // Reads `(?im)` for the whole pattern or `(?i-s:...)` for a part of it.
  void flags() {
    const size_t begin = at_ + 2;
    const size_t end =
        std::min(in_.find_first_not_of("aiLmsux-", begin), in_.size());
    const std::string_view letters = in_.substr(begin, end - begin);
    const bool whole = end < in_.size() && in_[end] == ')';
    const bool part = end < in_.size() && in_[end] == ':';
    if (letters.empty() || !(whole || part) ||
        (whole && contains(letters, '-')) || is_contradictory(letters)) {
      return refuse(at_, end + 1, "unknown kind of group");
    }
    if (contains(letters, 'x')) {
      return refuse(at_, end + 1, "the flag `x` (verbose) is not supported",
                    "write the pattern without spaces and comments");
    }
    // With `m` for a part only, the spelling of `$` would depend on its
    // position.
    if (contains(letters, 'L') ||
        (part && letters.find_first_of("au") != std::string_view::npos) ||
        (part && !plain_ && contains(letters, 'm'))) {
      return refuse(at_, end + 1, "this flag is not supported");
    }
    if (whole && anything_before_) {
      return refuse(at_, end + 1, "flags must be at the start of the pattern",
                    "move " + in_backticks(in_.substr(at_, end + 1 - at_)) +
                        " to the front");
    }
    apply_flags(letters, whole);
    if (ascii_flag_ && unicode_flag_) {
      return refuse(at_, end + 1,
                    "the flags `a` and `u` are mutually exclusive");
    }
    at_ = end + 1;
  }

  // Returns whether no flag follows `-`, or a flag is on both sides of it.
  static bool is_contradictory(std::string_view letters) {
    const size_t minus = letters.find('-');
    if (minus == std::string_view::npos) return false;
    const std::string_view off = letters.substr(minus + 1);
    return off.empty() || off.find_first_of(letters.substr(0, minus + 1)) !=
                              std::string_view::npos;
  }

  void apply_flags(std::string_view letters, bool whole) {
    std::string kept;
    for (const char letter : letters) {
      if (letter == 'a') ascii_ = ascii_flag_ = true;
      if (letter == 'u') unicode_flag_ = true;
      if (letter == 'i') ignores_case_ = true;
      if (letter == 'm' && whole) multi_line_ = true;
      if (letter != 'a' && letter != 'u') kept += letter;
    }
    if (!whole) return open_group("(?" + kept + ":");
    if (!kept.empty()) out_ += "(?" + kept + ")";
    // Flags for the whole pattern are not an item that can be repeated.
    repeatable_ = false;
  }

  void escape() {
    const size_t begin = at_;
    if (at_ + 1 >= in_.size()) {
      return refuse(begin, in_.size(), "the pattern ends in a backslash",
                    "write `\\\\` for a backslash");
    }
    const char c = in_[at_ + 1];
    if (c == 'A' || c == 'Z') {
      at_ += 2;
      return emit_anchor(c == 'A' ? "\\A" : "\\z");
    }
    if (c == 'b' || c == 'B') {
      // RE2 also matches `\B` between the bytes of one character.
      if (!ascii_ || (c == 'B' && !plain_)) ascii_only_ = in_.substr(begin, 2);
      at_ += 2;
      return emit_anchor(c == 'b' ? "\\b" : "\\B");
    }
    if (is_class_escape(c)) {
      at_ += 2;
      return emit("[" + class_escape_ranges(c, ascii_).value_or("") +
                  (c == 'W' && !ascii_ ? "^\\p{L}\\p{N}_]" : "]"));
    }
    if (const auto code = character_escape(false)) emit(literal(*code));
  }

  // The following read at at_ and move it to the end of what they read. They
  // return no value if they refuse it.

  // Reads an escape: `\n`, `\x41`, `\u00e9`, `\07`, `\.`. Refuses the escapes
  // that Python refuses, and references to groups.
  std::optional<char32_t> character_escape(bool in_class) {
    const char c = in_[at_ + 1];
    if (c == 'x') return hex_escape(2);
    if (c == 'u') return hex_escape(4);
    if (c == 'U') return hex_escape(8);
    if (is_digit(c)) return digit_escape(in_class);
    constexpr std::string_view kNames = "afnrtv";
    constexpr std::string_view kCodes = "\a\f\n\r\t\v";
    if (const size_t i = kNames.find(c); i != std::string_view::npos) {
      at_ += 2;
      return static_cast<char32_t>(kCodes[i]);
    }
    if (is_letter(c)) {
      refuse(at_, at_ + 2, "Python does not support this escape",
             c == 'z' ? "write `\\Z` or `$` for the end of the name" : "");
      return std::nullopt;
    }
    ++at_;
    return decode_utf8(in_, at_);
  }

  // Reads exactly `count` hexadecimal digits after `\x`, `\u` or `\U`.
  std::optional<char32_t> hex_escape(size_t count) {
    uint32_t code = 0;
    for (size_t i = at_ + 2; i < at_ + 2 + count; ++i) {
      const char c = i < in_.size() ? in_[i] : ' ';
      uint32_t digit = 16;
      if (is_digit(c)) digit = static_cast<uint32_t>(c - '0');
      if (c >= 'a' && c <= 'f') digit = static_cast<uint32_t>(c - 'a') + 10;
      if (c >= 'A' && c <= 'F') digit = static_cast<uint32_t>(c - 'A') + 10;
      if (digit == 16) {
        refuse(at_, i,
               "the escape needs " + std::to_string(count) +
                   " hexadecimal digits");
        return std::nullopt;
      }
      code = code * 16 + digit;
    }
    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
      refuse(at_, at_ + 2 + count, "no such character exists");
      return std::nullopt;
    }
    at_ += 2 + count;
    return static_cast<char32_t>(code);
  }

  // Reads `\0`, `\07` or `\123`; other numbers refer to groups.
  std::optional<char32_t> digit_escape(bool in_class) {
    size_t end = at_ + 1;
    while (end < in_.size() && end < at_ + 4 && is_octal(in_[end])) ++end;
    const size_t octals = end - at_ - 1;
    if (in_[at_ + 1] != '0' && octals != 3 && !(in_class && octals > 0)) {
      refuse(at_, at_ + 2,
             in_class ? "Python does not support this escape"
                      : "back-references are not supported",
             in_class ? "" : "repeat the text itself");
      return std::nullopt;
    }
    uint32_t code = 0;
    for (size_t i = at_ + 1; i < end; ++i) {
      code = code * 8 + static_cast<uint32_t>(in_[i] - '0');
    }
    if (code > 0377) {
      refuse(at_, end, "the octal escape exceeds 0o377");
      return std::nullopt;
    }
    at_ = end;
    return static_cast<char32_t>(code);
  }

  std::optional<Member> read_member() {
    if (in_[at_] != '\\') return Member{decode_utf8(in_, at_)};
    if (at_ + 1 >= in_.size()) {
      refuse(at_, in_.size(), "the pattern ends in a backslash");
      return std::nullopt;
    }
    const char c = in_[at_ + 1];
    if (c != 'b' && !is_class_escape(c)) {
      const auto code = character_escape(true);
      return code ? std::optional(Member{*code}) : std::nullopt;
    }
    at_ += 2;
    if (c == 'b') return Member{U'\b'};
    const std::optional<std::string> ranges = class_escape_ranges(c, ascii_);
    return Member{std::nullopt,
                  ranges ? *ranges : *class_escape_ranges(c, true), !ranges};
  }

  void character_class() {
    const size_t begin = at_++;
    std::string set = "[";
    if (looking_at("^")) {
      set += '^';
      ++at_;
    }
    const size_t first = at_;
    while (at_ < in_.size() && (in_[at_] != ']' || at_ == first)) {
      const size_t member_at = at_;
      const std::optional<Member> low = read_member();
      if (!low) return;
      if (!looking_at("-") || at_ + 1 >= in_.size() || in_[at_ + 1] == ']') {
        if (low->unspellable) ascii_only_ = in_.substr(member_at, 2);
        set += low->code ? literal(*low->code) : low->ranges;
        continue;
      }
      ++at_;
      const std::optional<Member> high = read_member();
      if (!high) return;
      if (!low->code || !high->code || *low->code > *high->code) {
        return refuse(member_at, at_, "this is not a valid character range");
      }
      set += range_text(*low->code, *high->code);
    }
    if (at_ >= in_.size()) {
      return refuse(begin, in_.size(), "the character class is not closed",
                    "write `\\[` for a bracket");
    }
    ++at_;
    emit(set + "]");
  }

  // Whether a spelled-out `$` ends a branch of an open group.
  struct Group {
    bool branch_ends = false;
    bool some_branch_ends = false;
  };

  std::string_view in_;
  bool plain_;  // names contain no newline
  bool ascii_;  // classes such as `\w` cover ASCII only
  size_t at_ = 0;
  std::string out_;
  std::string ascii_only_;
  std::set<std::string, std::less<>> names_;
  std::vector<Group> groups_ = {Group()};
  bool multi_line_ = false;
  bool anything_before_ = false;
  bool repeatable_ = false;
  bool last_is_repetition_ = false;
  bool ascii_flag_ = false;
  bool unicode_flag_ = false;
  bool ignores_case_ = false;
  std::optional<PatternProblem> problem_;
};

}  // namespace

bool is_class_escape(char c) {
  return std::string_view("dDsSwW").find(c) != std::string_view::npos;
}

std::variant<TranslatedPattern, PatternProblem> translate_pattern(
    std::string_view pattern, bool plain_names) {
  // RE2 would take seconds to compile a longer pattern.
  constexpr size_t kLongest = size_t{128} << 10U;
  if (pattern.size() <= kLongest) return Translator(pattern, plain_names).run();
  return PatternProblem{0, pattern.size(),
                        "it has " + count_text(std::ssize(pattern)) +
                            " bytes; the limit is " + count_text(kLongest),
                        "split it into rules with fewer alternatives"};
}

}  // namespace shardplan
