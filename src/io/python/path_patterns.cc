// SPDX-License-Identifier: Apache-2.0
#include "io/python/path_patterns.h"

#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

// Rewrites the pattern of one path part so that nothing in it matches a `/`.
class SegmentWriter {
 public:
  explicit SegmentWriter(std::string_view pattern) : in_(pattern) {}

  // Returns nullopt if it fills in `why`.
  std::optional<std::string> run(std::string& why) {
    std::vector<std::string> branches;
    int depth = 0;
    bool anchored = false;
    const auto end_branch = [&](bool is_last) {
      // The appended `$` anchors only the last branch.
      if (!is_last && !anchored) out_ += "[^/]*";
      branches.push_back(std::exchange(out_, ""));
      anchored = false;
    };
    for (; at_ < in_.size() && why_.empty(); ++at_) {
      const char c = in_[at_];
      if (c == '\\') {
        escape(false);
      } else if (c == '[') {
        char_class();
      } else if (c == '.') {
        out_ += "[^/]";
      } else if (c == '/') {
        why_ = "a path segment cannot contain `/`";
      } else if (c == '^' || c == '$') {
        anchor(c, depth, anchored);
      } else if (c == '|' && depth == 0) {
        end_branch(false);
      } else {
        depth += c == '(' ? 1 : c == ')' ? -1 : 0;
        out_ += c;
      }
    }
    end_branch(true);
    why = why_;
    if (!why_.empty()) return std::nullopt;
    return branches.size() == 1 ? branches.front()
                                : "(?:" + joined(branches, "|") + ")";
  }

 private:
  // Drops `^` at the start of a branch and `$` at its end. Elsewhere they
  // cannot be expressed, because they apply to the part alone.
  void anchor(char c, int depth, bool& anchored) {
    const bool begins = out_.empty();
    const bool ends = at_ + 1 == in_.size() || in_[at_ + 1] == '|';
    if (depth == 0 && c == '^' && begins) return;
    if (depth == 0 && c == '$' && ends) {
      anchored = true;
      return;
    }
    why_ = "`" + std::string(1, c) +
           "` inside a path segment cannot be expressed for the whole name";
  }

  void escape(bool in_class) {
    if (at_ + 1 >= in_.size()) {
      why_ = "the pattern ends with a backslash";
      return;
    }
    const std::string escaped(in_.substr(at_++, 2));
    const bool is_complement = has_word("\\W \\D \\S", escaped);
    if (has_word("\\A \\Z", escaped)) {
      why_ = in_backticks(escaped) +
             " inside a path segment cannot be expressed for the whole name";
    } else if (is_complement && in_class) {
      why_ = in_backticks(escaped) + " in a character class matches `/`";
    } else {
      out_ += is_complement ? "[^/" + lower_case(escaped) + "]" : escaped;
    }
  }

  void char_class() {
    out_ += '[';
    ++at_;
    const bool is_negated = at_ < in_.size() && in_[at_] == '^';
    if (is_negated) {
      out_ += "^/";
      ++at_;
    }
    bool first = true;
    for (; at_ < in_.size(); ++at_, first = false) {
      if (in_[at_] == ']' && !first) {
        out_ += ']';
        return;
      }
      if (!is_negated && holds_slash()) why_ = "a character class matches `/`";
      if (in_[at_] == '\\') {
        escape(true);
      } else {
        if (in_[at_] == ']' || in_[at_] == '[') out_ += '\\';
        out_ += in_[at_];
      }
      if (!why_.empty()) return;
    }
    why_ = "a character class is not closed";
  }

  // Returns whether the class contains `/`, itself or within a range.
  bool holds_slash() const {
    if (in_[at_] == '/') return true;
    return in_[at_] == '-' && at_ > 0 && at_ + 1 < in_.size() &&
           in_[at_ - 1] != '[' && in_[at_ - 1] < '/' && in_[at_ + 1] > '/' &&
           in_[at_ + 1] != ']';
  }

  std::string_view in_;
  size_t at_ = 0;
  std::string out_;
  std::string why_;
};

void replace_all(std::string& text, std::string_view from,
                 std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

constexpr std::string_view kOpen = "\\['";
constexpr std::string_view kClose = "'\\]";

}  // namespace

std::optional<std::string> pattern_of_segments(
    std::span<const std::string> segments, SegmentProblem& problem) {
  std::string pattern = "(?:^|/)";
  for (size_t i = 0; i < segments.size(); ++i) {
    problem.segment = i;
    const auto part = SegmentWriter(segments[i]).run(problem.why);
    if (!part) return std::nullopt;
    if (i > 0) pattern += '/';
    pattern += *part;
  }
  return pattern + "(?:/|$)";
}

bool is_python_pattern(std::string_view text) {
  return text.find_first_of("\\./*+?()[]{}|^$") != std::string_view::npos;
}

bool is_keystr_pattern(std::string_view pattern) {
  return contains(pattern, kOpen);
}

std::optional<std::string> pattern_of_keystr(std::string_view pattern) {
  std::string path(pattern);
  // A leading or trailing `.*` does not change what a search finds.
  if (path.starts_with(".*\\['")) path.erase(0, 2);
  if (path.ends_with("'\\].*")) path.erase(path.size() - 2);
  replace_all(path, "'\\]\\['", "/");
  replace_all(path, "'\\].*\\['", "/(?:.*/)?");
  // `'\]$` marks the end of a name, `^\['` its beginning.
  replace_all(path, "'\\]$", "$");
  replace_all(path, "^\\['", "^");
  if (path.starts_with(kOpen)) {
    path.replace(0, kOpen.size(), "(?:^|/)");
  }
  if (path.ends_with(kClose)) {
    path.replace(path.size() - kClose.size(), kClose.size(), "(?:/|$)");
  }
  // A remaining bracket or quote would match itself, which no path has.
  if (contains(path, "\\[") || contains(path, "\\]") || contains(path, '\'')) {
    return std::nullopt;
  }
  return path;
}

}  // namespace shardplan
