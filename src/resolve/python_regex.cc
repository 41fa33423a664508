// SPDX-License-Identifier: Apache-2.0
// A single pass over the pattern that copies what RE2 reads alike and respells
// or refuses the rest. It does not build a tree: the only context it needs is
// whether anything stands before it (for flags), and whether the last item may
// be repeated.
#include "resolve/python_regex.h"

#include <array>
#include <charconv>
#include <set>
#include <utility>

#include "base/text.h"
#include "resolve/python_class.h"

namespace shardplan {
namespace {

constexpr int kMaxRepeat = 1000;  // RE2's limit on counted repetition

// A group that starts with `(?` and that RE2 cannot express.
struct Unsupported {
  std::string_view start;
  std::string_view message;
  std::string_view help;
};
constexpr std::array<Unsupported, 8> kUnsupported = {{
    {"(?=", "look-ahead is not supported",
     "spell out the names that are meant, or put a more specific rule first"},
    {"(?!", "negative look-ahead is not supported",
     "put a rule for the excluded names before this one"},
    {"(?<=", "look-behind is not supported",
     "include the text that must stand before it in the pattern"},
    {"(?<!", "negative look-behind is not supported",
     "put a rule for the excluded names before this one"},
    {"(?>", "atomic groups are not supported", "use a plain group `(?:...)`"},
    {"(?(", "conditional groups are not supported",
     "write one rule per alternative"},
    {"(?P=", "back-references are not supported",
     "repeat the text that is meant"},
    {"(?P>", "this group is not known to Python", ""},
}};

class Translator {
 public:
  Translator(std::string_view pattern, bool plain_names)
      : in_(pattern), plain_(plain_names) {}

  std::variant<TranslatedPattern, PatternProblem> run() {
    while (at_ < in_.size() && !problem_) step();
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
    out_ += text;
    anything_before_ = true;
    last_is_anchor_ = false;
  }

  void emit_anchor(std::string_view text) {
    emit(text);
    last_is_anchor_ = true;
  }

  void step() {
    const char c = in_[at_];
    if (c == '\\') return escape();
    if (c == '[') return character_class();
    if (looking_at("(?")) return extension();
    if (c == '{') return brace();
    if (c == '*' || c == '+' || c == '?') return repeat(in_.substr(at_, 1), 1);
    ++at_;
    if (c == '^') return emit_anchor("^");
    if (c == '$') {
      // Python's `$` also matches before a newline at the very end.
      const bool spelled_out = !plain_ && !multi_line_;
      return emit_anchor(spelled_out ? "(?:\\n?\\z)" : "$");
    }
    emit(std::string_view(&c, 1));
  }

  void repeat(std::string_view spelled, size_t length) {
    if (last_is_anchor_) {
      return refuse(at_, at_ + length, "there is nothing to repeat",
                    "an anchor cannot be repeated");
    }
    emit(spelled);
    at_ += length;
  }

  // `{m}`, `{m,}`, `{,n}`, `{m,n}` repeat; any other brace is a character.
  void brace() {
    const size_t close = in_.find('}', at_);
    const std::string_view body = close == std::string_view::npos
                                      ? std::string_view()
                                      : in_.substr(at_ + 1, close - at_ - 1);
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
    const size_t length = close + 1 - at_;
    for (const std::string_view bound : {low, high}) {
      int value = 0;
      const auto [end, error] =
          std::from_chars(bound.data(), bound.data() + bound.size(), value);
      if (!bound.empty() && (error != std::errc() || value > kMaxRepeat)) {
        return refuse(at_, at_ + length,
                      "repetition beyond 1000 is not supported",
                      "use `*` or `+`, or a smaller count");
      }
    }
    std::string spelled = "{" + (low.empty() ? "0" : std::string(low));
    if (comma != std::string_view::npos) spelled += "," + std::string(high);
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
      at_ += 3;
      return emit("(?:");
    }
    flags();
  }

  void comment() {
    const size_t close = in_.find(')', at_);
    if (close == std::string_view::npos) {
      return refuse(at_, in_.size(), "the comment is not closed");
    }
    at_ = close + 1;
  }

  // The name is dropped: nothing refers to it.
  void named_group() {
    const size_t close = in_.find('>', at_);
    const std::string_view name = close == std::string_view::npos
                                      ? std::string_view()
                                      : in_.substr(at_ + 4, close - at_ - 4);
    if (name.empty() || (name.front() >= '0' && name.front() <= '9')) {
      return refuse(at_, at_ + 4, "the group has no proper name");
    }
    if (!names_.emplace(name).second) {
      return refuse(at_ + 4, close,
                    "group `" + printable(name) + "` is defined twice");
    }
    at_ = close + 1;
    emit("(");
  }

  // `(?im)` for all of the pattern, `(?i-s:...)` for a part.
  void flags() {
    const size_t begin = at_ + 2;
    size_t end = begin;
    while (end < in_.size() && std::string_view("aiLmsux-").find(in_[end]) !=
                                   std::string_view::npos) {
      ++end;
    }
    const std::string_view letters = in_.substr(begin, end - begin);
    const bool whole = end < in_.size() && in_[end] == ')';
    const bool part = end < in_.size() && in_[end] == ':';
    if (letters.empty() || !(whole || part) ||
        (whole && letters.find('-') != std::string_view::npos)) {
      return refuse(at_, end + 1, "this kind of group is not known");
    }
    if (letters.find('x') != std::string_view::npos) {
      return refuse(at_, end + 1, "the flag `x` (verbose) is not supported",
                    "write the pattern without blanks and comments");
    }
    if (letters.find('L') != std::string_view::npos ||
        (part && letters.find_first_of("au") != std::string_view::npos)) {
      return refuse(at_, end + 1, "this flag is not supported");
    }
    if (whole && anything_before_) {
      return refuse(at_, end + 1, "flags must stand at the very beginning",
                    "move `" + std::string(in_.substr(at_, end + 1 - at_)) +
                        "` to the front");
    }
    std::string kept;
    for (const char letter : letters) {
      if (letter == 'a') plain_ = true;
      if (letter == 'm' && whole) multi_line_ = true;
      if (letter != 'a' && letter != 'u') kept += letter;
    }
    if (part || !kept.empty()) {
      out_ += "(?" + kept + (whole ? ")" : ":");
    }
    // Flags for all of the pattern are not an item of it.
    if (part) anything_before_ = true;
    last_is_anchor_ = false;
    at_ = end + 1;
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
      if (!plain_) ascii_only_ = in_.substr(begin, 2);
      at_ += 2;
      return emit_anchor(c == 'b' ? "\\b" : "\\B");
    }
    if (is_class_escape(c)) {
      at_ += 2;
      return emit("[" + class_escape_ranges(c, plain_).value_or("") +
                  (c == 'W' && !plain_ ? "^\\p{L}\\p{N}_]" : "]"));
    }
    std::variant<char32_t, PatternProblem> code =
        character_escape(in_, at_, false);
    if (auto* problem = std::get_if<PatternProblem>(&code)) {
      problem_ = std::move(*problem);
      return;
    }
    emit(literal(std::get<char32_t>(code)));
  }

  void character_class() {
    std::variant<TranslatedClass, PatternProblem> set =
        translate_class(in_, at_, plain_);
    if (auto* problem = std::get_if<PatternProblem>(&set)) {
      problem_ = std::move(*problem);
      return;
    }
    auto& translated = std::get<TranslatedClass>(set);
    if (!translated.ascii_only.empty()) ascii_only_ = translated.ascii_only;
    emit(translated.re2);
  }

  std::string_view in_;
  bool plain_;
  size_t at_ = 0;
  std::string out_;
  std::string ascii_only_;
  std::set<std::string, std::less<>> names_;
  bool multi_line_ = false;
  bool anything_before_ = false;
  bool last_is_anchor_ = false;
  std::optional<PatternProblem> problem_;
};

}  // namespace

std::variant<TranslatedPattern, PatternProblem> translate_pattern(
    std::string_view pattern, bool plain_names) {
  return Translator(pattern, plain_names).run();
}

}  // namespace shardplan
