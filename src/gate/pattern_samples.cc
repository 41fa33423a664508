// SPDX-License-Identifier: Apache-2.0
// Makes texts in which a regular expression is likely to match.
#include "gate/pattern_samples.h"

#include <algorithm>
#include <bitset>
#include <charconv>
#include <optional>
#include <utility>
#include <variant>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "resolve/python_regex.h"

namespace shardplan {
namespace {

// Marks in a text under construction; no name contains these characters.
constexpr char kBegin = '\x01';
constexpr char kEnd = '\x02';
constexpr char kHole = '\x03';

// The limit on texts at each step. It is small because later parts multiply
// them.
constexpr size_t kMostTexts = 64;
// The limit on copies of a repeated part.
constexpr int64_t kMostCopies = 64;
constexpr int kMostDepth = 64;

using Texts = std::vector<std::string>;
using Characters = std::bitset<128>;

// Reads a pattern in the RE2 syntax that resolve/python_regex produces.
class SampleMaker {
 public:
  explicit SampleMaker(std::string_view pattern) : pattern_(pattern) {}

  std::optional<Texts> make() {
    auto texts = alternatives(0);
    if (!texts || at_ != pattern_.size()) return std::nullopt;
    return texts;
  }

 private:
  bool at_end() const { return at_ >= pattern_.size(); }
  bool take(std::string_view text) {
    if (!pattern_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }

  std::optional<Texts> alternatives(int depth) {
    if (depth > kMostDepth) return std::nullopt;
    std::vector<Texts> each;
    do {
      auto texts = sequence(depth);
      if (!texts) return std::nullopt;
      each.push_back(*std::move(texts));
    } while (take("|"));
    // Interleaves the alternatives, so that a limit leaves some of each.
    Texts all;
    for (size_t i = 0; all.size() < kMostTexts; ++i) {
      bool any = false;
      for (const Texts& texts : each) {
        if (i >= texts.size() || all.size() >= kMostTexts) continue;
        all.push_back(texts[i]);
        any = true;
      }
      if (!any) break;
    }
    return all;
  }

  std::optional<Texts> sequence(int depth) {
    Texts texts = {""};
    while (!at_end() && pattern_[at_] != '|' && pattern_[at_] != ')') {
      is_any_ = false;
      auto next = atom(depth);
      if (!next) return std::nullopt;
      next = repeated(*std::move(next), is_any_);
      if (!next) return std::nullopt;
      texts = products(texts, *next);
    }
    return texts;
  }

  static Texts products(const Texts& heads, const Texts& tails) {
    Texts all;
    // Combines diagonally: the first of both, then the next of either.
    for (size_t sum = 0; sum + 1 < heads.size() + tails.size(); ++sum) {
      for (size_t i = 0; i <= sum && i < heads.size(); ++i) {
        if (sum - i >= tails.size()) continue;
        if (all.size() >= kMostTexts) return all;
        all.push_back(heads[i] + tails[sum - i]);
      }
    }
    return all;
  }

  std::optional<Texts> atom(int depth) {
    if (take("^") || take("\\A")) return Texts{std::string(1, kBegin)};
    if (take("$") || take("\\z")) return Texts{std::string(1, kEnd)};
    if (take("\\b") || take("\\B")) return Texts{""};
    if (take(".")) {
      is_any_ = true;
      return Texts{"x"};
    }
    if (take("(")) return group(depth);
    if (take("[")) return character_class();
    if (take("\\")) return escaped();
    const char c = pattern_[at_++];
    if (c == '*' || c == '+' || c == '?') return std::nullopt;
    return Texts{std::string(1, c)};
  }

  std::optional<Texts> group(int depth) {
    if (take("?P<")) {
      const size_t close = pattern_.find('>', at_);
      if (close == std::string_view::npos) return std::nullopt;
      at_ = close + 1;
    } else if (take("?")) {
      const size_t end = pattern_.find_first_of(":)", at_);
      if (end == std::string_view::npos) return std::nullopt;
      at_ = end + 1;
      if (pattern_[end] == ')') return Texts{""};  // flags without a group
    }
    auto texts = alternatives(depth + 1);
    is_any_ = false;
    if (!texts || !take(")")) return std::nullopt;
    return texts;
  }

  // Returns the characters of `\d` and similar classes, or one character.
  std::optional<Characters> escape() {
    if (at_end()) return std::nullopt;
    Characters set;
    const char c = pattern_[at_];
    if (is_class_escape(c)) {
      ++at_;
      for (char each = '!'; each <= '~'; ++each) {
        const bool digit = is_digit(each);
        const bool word = digit || is_letter(each) || each == '_';
        const bool is_in = c == 'd'   ? digit
                           : c == 'D' ? !digit
                           : c == 'w' ? word
                           : c == 'W' ? !word
                                      : c == 'S';
        if (is_in) set.set(static_cast<size_t>(each));
      }
      return set;
    }
    if (take("x{")) {
      const size_t close = pattern_.find('}', at_);
      if (close == std::string_view::npos) return std::nullopt;
      unsigned code = 0;
      const char* end = pattern_.data() + close;
      if (std::from_chars(pattern_.data() + at_, end, code, 16).ptr != end) {
        return std::nullopt;
      }
      at_ = close + 1;
      if (code < set.size()) set.set(code);
      return set;
    }
    if (is_digit(c) || is_letter(c)) return std::nullopt;
    ++at_;
    if (static_cast<unsigned char>(c) < set.size())
      set.set(static_cast<size_t>(c));
    return set;
  }

  std::optional<Texts> escaped() {
    const auto set = escape();
    return set ? members(*set) : std::nullopt;
  }

  std::optional<Texts> character_class() {
    const bool negated = take("^");
    Characters set;
    while (!take("]")) {
      if (at_end()) return std::nullopt;
      if (pattern_.substr(at_).starts_with("[:")) return std::nullopt;
      const auto low = class_item();
      if (!low) return std::nullopt;
      const bool is_range = pattern_.substr(at_).starts_with("-") &&
                            !pattern_.substr(at_).starts_with("-]");
      if (!is_range) {
        set |= *low;
        continue;
      }
      ++at_;
      const auto high = class_item();
      if (!high) return std::nullopt;
      if (low->none()) continue;  // beyond ASCII
      size_t from = 0;
      while (!low->test(from)) ++from;
      size_t to = set.size() - 1;
      while (high->any() && !high->test(to)) --to;
      for (size_t i = from; i <= to; ++i) set.set(i);
    }
    if (negated) set.flip();
    if (negated) is_any_ = true;
    return members(set);
  }

  std::optional<Characters> class_item() {
    if (at_end()) return std::nullopt;
    if (take("\\")) return escape();
    Characters set;
    const auto c = static_cast<unsigned char>(pattern_[at_++]);
    if (c < set.size()) set.set(c);
    return set;
  }

  // Returns each member of a small set, or the plainest member of a large one.
  static std::optional<Texts> members(const Characters& set) {
    constexpr size_t kSmall = 4;
    constexpr std::string_view kPlainest =
        "xabcdefghijklmnopqrstuvwyz0123456789_XABCDEFGHIJKLMNOPQRSTUVWYZ./-";
    Texts texts;
    for (const char c : kPlainest) {
      if (set.test(static_cast<size_t>(c))) texts.emplace_back(1, c);
      if (texts.size() > kSmall) break;
    }
    for (char c = '!'; c <= '~' && texts.empty(); ++c) {
      if (set.test(static_cast<size_t>(c))) texts.emplace_back(1, c);
    }
    if (texts.empty()) return std::nullopt;
    if (texts.size() > kSmall) texts.resize(1);
    return texts;
  }

  std::optional<int64_t> number() {
    int64_t value = 0;
    const char* begin = pattern_.data() + at_;
    const auto read =
        std::from_chars(begin, pattern_.data() + pattern_.size(), value);
    if (read.ptr == begin || read.ec != std::errc()) return std::nullopt;
    at_ += to_size(read.ptr - begin);
    return value;
  }

  // The bounds of *, +, ?, {n}, {n,} and {n,m}; without a quantifier, {1, 1}.
  struct Bounds {
    int64_t least = 1;
    bool is_open = false;  // has no upper bound
    bool is_given = false;
  };
  Bounds bounds() {
    if (take("*")) return Bounds{0, true, true};
    if (take("+")) return Bounds{1, true, true};
    if (take("?")) return Bounds{0, false, true};
    const size_t before = at_;
    if (!take("{")) return Bounds{};
    const auto least = number();
    const auto most = least && take(",") ? number() : least;
    if (!least || !take("}")) {  // a literal brace
      at_ = before;
      return Bounds{};
    }
    return Bounds{*least, !most.has_value(), true};
  }

  std::optional<Texts> repeated(Texts texts, bool is_any) {
    while (true) {
      const Bounds times = bounds();
      if (!times.is_given) return texts;
      take("?");  // lazy: matches the same names
      if (times.least > kMostCopies) return std::nullopt;
      const auto repeat = [&](std::string& text) {
        std::string copies;
        for (int64_t i = 0; i < times.least; ++i) copies += text;
        text = std::move(copies);
      };
      if (is_any && times.is_open) {
        repeat(texts.front());
        return repeated({texts.front() + kHole}, false);
      }
      if (times.least > 0) {
        std::ranges::for_each(texts, repeat);
      } else {
        // Omit it first, which gives the shorter name.
        texts.insert(texts.begin(), "");
      }
      if (texts.size() > kMostTexts) texts.resize(kMostTexts);
    }
  }

  std::string_view pattern_;
  size_t at_ = 0;
  bool is_any_ = false;  // the last atom matches almost any character
};

// Reads the marks; empty if the pattern requires a beginning or an end in the
// middle.
std::optional<PatternSample> sample_of(std::string_view marked) {
  PatternSample sample;
  while (marked.starts_with(kBegin)) {
    sample.at_begin = true;
    marked.remove_prefix(1);
  }
  while (marked.ends_with(kEnd)) {
    sample.at_end = true;
    marked.remove_suffix(1);
  }
  for (const char c : marked) {
    if (c == kBegin || c == kEnd) return std::nullopt;
    if (c == kHole) {
      sample.holes.push_back(sample.text.size());
    } else {
      sample.text += c;
    }
  }
  return sample;
}

// Returns `head` followed by `tail`, sharing the longest text that both ends
// have in common.
std::string overlapped(std::string_view head, std::string_view tail) {
  size_t shared = std::min(head.size(), tail.size());
  while (shared > 0 && !head.ends_with(tail.substr(0, shared))) --shared;
  return std::string(head) + std::string(tail.substr(shared));
}

void add_in_order(const PatternSample& head, const PatternSample& tail,
                  std::vector<std::string>& texts) {
  if (!head.at_end && !tail.at_begin) {
    std::string shared = overlapped(head.text, tail.text);
    if (shared.size() < head.text.size() + tail.text.size()) {
      texts.push_back(std::move(shared));
    }
    texts.push_back(head.text + "/" + tail.text);
    texts.push_back(head.text + "." + tail.text);
    texts.push_back(head.text + tail.text);
  }
  for (const size_t hole : head.holes) {
    const std::string_view before = std::string_view(head.text).substr(0, hole);
    const std::string_view after = std::string_view(head.text).substr(hole);
    const std::string filled = overlapped(before, tail.text);
    texts.push_back(overlapped(filled, after));
    texts.push_back(filled + "/" + std::string(after));
    texts.push_back(filled + std::string(after));
  }
}

}  // namespace

std::vector<PatternSample> pattern_samples(std::string_view pattern,
                                           size_t limit) {
  const auto translated = translate_pattern(pattern, true);
  const auto* compiled = std::get_if<TranslatedPattern>(&translated);
  if (compiled == nullptr) return {};
  const auto texts = SampleMaker(compiled->re2).make();
  std::vector<PatternSample> samples;
  if (!texts) return samples;
  for (const std::string& text : *texts) {
    if (samples.size() >= limit) break;
    auto sample = sample_of(text);
    const auto is_known = [&](const PatternSample& other) {
      return other.text == sample->text && other.at_begin == sample->at_begin &&
             other.at_end == sample->at_end;
    };
    if (!sample || std::ranges::any_of(samples, is_known)) continue;
    samples.push_back(*std::move(sample));
  }
  return samples;
}

std::vector<std::string> joined_samples(const PatternSample& a,
                                        const PatternSample& b) {
  std::vector<std::string> all;
  add_in_order(a, b, all);
  add_in_order(b, a, all);
  std::vector<std::string> distinct;
  for (std::string& text : all) {
    if (!text.empty() && !contains(distinct, text)) {
      distinct.push_back(std::move(text));
    }
  }
  return distinct;
}

}  // namespace shardplan
