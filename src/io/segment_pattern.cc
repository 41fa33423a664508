// SPDX-License-Identifier: Apache-2.0
#include "io/segment_pattern.h"

#include <utility>
#include <vector>

namespace shardplan {
namespace {

// Rewrites one part's pattern so that nothing in it is found in a `/`.
class SegmentWriter {
 public:
  explicit SegmentWriter(std::string_view pattern) : in_(pattern) {}

  // Empty when `why` is filled.
  std::optional<std::string> run(std::string& why) {
    std::vector<std::string> branches;
    int depth = 0;
    bool anchored = false;
    const auto end_branch = [&](bool is_last) {
      // Only the last branch has the `$` that is put behind the whole.
      if (!is_last && !anchored) out_ += "[^/]*";
      branches.push_back(std::exchange(out_, ""));
      anchored = false;
    };
    for (at_ = 0; at_ < in_.size(); ++at_) {
      const char c = in_[at_];
      if (c == '\\') {
        if (!escape(false)) break;
      } else if (c == '[') {
        if (!char_class()) break;
      } else if (c == '.') {
        out_ += "[^/]";
      } else if (c == '/') {
        why_ = "a part of a path has no `/`";
      } else if (c == '^' || c == '$') {
        anchor(c, depth, anchored);
      } else if (c == '|' && depth == 0) {
        end_branch(false);
      } else {
        depth += c == '(' ? 1 : c == ')' ? -1 : 0;
        out_ += c;
      }
      if (!why_.empty()) break;
    }
    end_branch(true);
    why = why_;
    if (!why_.empty()) return std::nullopt;
    if (branches.size() == 1) return branches.front();
    std::string all = "(?:";
    for (const std::string& branch : branches) {
      if (&branch != &branches.front()) all += '|';
      all += branch;
    }
    return all + ")";
  }

 private:
  // `^` begins a branch, `$` ends one; elsewhere they stay for the part alone.
  void anchor(char c, int depth, bool& anchored) {
    const bool begins = out_.empty();
    const bool ends = at_ + 1 == in_.size() || in_[at_ + 1] == '|';
    if (depth == 0 && c == '^' && begins) return;
    if (depth == 0 && c == '$' && ends) {
      anchored = true;
      return;
    }
    why_ = "`" + std::string(1, c) +
           "` within a part cannot be said about the whole name";
  }

  bool escape(bool in_class) {
    if (at_ + 1 >= in_.size()) {
      why_ = "it ends with a backslash";
      return false;
    }
    const char c = in_[++at_];
    if (c == 'A' || c == 'Z') {
      why_ = "`\\" + std::string(1, c) +
             "` within a part cannot be said about the whole name";
      return false;
    }
    if (c == 'W' || c == 'D' || c == 'S') {
      if (in_class) {
        why_ = "`\\" + std::string(1, c) + "` within a class contains `/`";
        return false;
      }
      const char lower = static_cast<char>(c - 'A' + 'a');
      out_ += "[^/\\" + std::string(1, lower) + "]";
      return true;
    }
    out_ += '\\';
    out_ += c;
    return true;
  }

  bool char_class() {
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
        return true;
      }
      if (!is_negated && holds_slash()) {
        why_ = "a class contains `/`";
        return false;
      }
      if (in_[at_] == '\\') {
        if (!escape(true)) return false;
      } else {
        if (in_[at_] == ']' || in_[at_] == '[') out_ += '\\';
        out_ += in_[at_];
      }
    }
    why_ = "a class does not end";
    return false;
  }

  // A `/`, or a range around it.
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

bool is_keystr_pattern(std::string_view pattern) {
  return pattern.find(kOpen) != std::string_view::npos;
}

std::optional<std::string> pattern_of_keystr(std::string_view pattern) {
  std::string path(pattern);
  // `.*` around the whole is found in anything.
  if (path.starts_with(".*\\['")) path.erase(0, 2);
  if (path.ends_with("'\\].*")) path.erase(path.size() - 2);
  replace_all(path, "'\\]\\['", "/");
  replace_all(path, "'\\].*\\['", "/(?:.*/)?");
  // `'\]$` is the end of a name, `^\['` its beginning.
  replace_all(path, "'\\]$", "$");
  replace_all(path, "^\\['", "^");
  if (path.starts_with(kOpen)) {
    path.replace(0, kOpen.size(), "(?:^|/)");
  }
  if (path.ends_with(kClose)) {
    path.replace(path.size() - kClose.size(), kClose.size(), "(?:/|$)");
  }
  // A bracket or a quote that is left would look for itself.
  if (path.find("\\[") != std::string::npos ||
      path.find("\\]") != std::string::npos ||
      path.find('\'') != std::string::npos) {
    return std::nullopt;
  }
  return path;
}

}  // namespace shardplan
