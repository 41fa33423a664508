// SPDX-License-Identifier: Apache-2.0
// Compares two texts by lines, and writes the difference as `diff -u` does.
#include <algorithm>
#include <span>

#include "advise/rule_edit.h"
#include "base/checked.h"

namespace shardplan {
namespace {

constexpr size_t kContext = 3;

using Lines = std::vector<std::string_view>;  // with their line ends

Lines lines_of(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return lines;
}

struct EditStep {
  char sign = ' ';  // ' ', '-', '+'
  std::string_view line;
};

// Adds the difference of the middle parts, by their longest common subsequence,
// or as a whole if that table would be large.
void add_middle(std::span<const std::string_view> a,
                std::span<const std::string_view> b,
                std::vector<EditStep>& steps) {
  constexpr size_t kMaxCells = 4000000;
  const size_t width = b.size() + 1;
  const bool small = a.size() + 1 <= kMaxCells / width;
  std::vector<uint32_t> common(small ? (a.size() + 1) * width : 0);
  for (size_t i = a.size(); small && i-- > 0;) {
    for (size_t k = b.size(); k-- > 0;) {
      common[i * width + k] = a[i] == b[k]
                                  ? common[(i + 1) * width + k + 1] + 1
                                  : std::max(common[(i + 1) * width + k],
                                             common[i * width + k + 1]);
    }
  }
  size_t i = 0;
  size_t k = 0;
  while (i < a.size() || k < b.size()) {
    if (small && i < a.size() && k < b.size() && a[i] == b[k]) {
      steps.push_back({' ', a[i++]});
      ++k;
    } else if (k == b.size() ||
               (i < a.size() && (!small || common[(i + 1) * width + k] >=
                                               common[i * width + k + 1]))) {
      steps.push_back({'-', a[i++]});
    } else {
      steps.push_back({'+', b[k++]});
    }
  }
}

std::vector<EditStep> steps_of(const Lines& before, const Lines& after) {
  size_t head = 0;
  const size_t most = std::min(before.size(), after.size());
  while (head < most && before[head] == after[head]) ++head;
  size_t tail = 0;
  while (tail < most - head &&
         before[before.size() - 1 - tail] == after[after.size() - 1 - tail]) {
    ++tail;
  }
  std::vector<EditStep> steps;
  for (size_t i = 0; i < head; ++i) steps.push_back({' ', before[i]});
  const auto middle = [&](const Lines& all) {
    return std::span(all).subspan(head, all.size() - head - tail);
  };
  add_middle(middle(before), middle(after), steps);
  for (size_t i = before.size() - tail; i < before.size(); ++i) {
    steps.push_back({' ', before[i]});
  }
  return steps;
}

// Returns "3,7" or "3": the beginning and length of a hunk in diff's notation.
std::string range_text(size_t begin, size_t count) {
  if (count == 0) return std::to_string(begin) + ",0";
  std::string text = std::to_string(begin + 1);
  if (count != 1) text += "," + std::to_string(count);
  return text;
}

void add_hunk(const std::vector<EditStep>& steps, size_t first, size_t end,
              std::string& out) {
  const auto lines = [&](size_t from, size_t to, char sign) {
    return to_size(std::ranges::count_if(
        std::span(steps).subspan(from, to - from),
        [&](const EditStep& s) { return s.sign == ' ' || s.sign == sign; }));
  };
  out += "@@ -" + range_text(lines(0, first, '-'), lines(first, end, '-')) +
         " +" + range_text(lines(0, first, '+'), lines(first, end, '+')) +
         " @@\n";
  for (const auto& [sign, line] :
       std::span(steps).subspan(first, end - first)) {
    out += sign;
    out += line;
    if (!line.ends_with('\n')) out += "\n\\ No newline at end of file\n";
  }
}

}  // namespace

std::string unified_diff(std::string_view path, std::string_view before,
                         std::string_view after) {
  const std::vector<EditStep> steps =
      steps_of(lines_of(before), lines_of(after));
  std::string out;
  for (size_t i = 0; i < steps.size();) {
    if (steps[i].sign == ' ') {
      ++i;
      continue;
    }
    // A hunk continues while fewer equal lines follow than twice the context.
    size_t last = i;
    for (size_t k = i; k < steps.size() && k <= last + 2 * kContext; ++k) {
      if (steps[k].sign != ' ') last = k;
    }
    const size_t first = i - std::min(i, kContext);
    const size_t end = std::min(steps.size(), last + 1 + kContext);
    if (out.empty()) {
      out = "--- " + std::string(path) + "\n+++ " + std::string(path) + "\n";
    }
    add_hunk(steps, first, end, out);
    i = end;
  }
  return out;
}

}  // namespace shardplan
