// SPDX-License-Identifier: Apache-2.0
#include "advise/unified_diff.h"

#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>

namespace shardplan {
namespace {

TEST_CASE("a diff is as diff -u writes it") {
  CHECK(unified_diff("r.yaml", "a\n", "a\n").empty());
  // Recorded from GNU diffutils 3.8: diff -u r.yaml r.yaml.new.
  CHECK(unified_diff("r.yaml", "1\n2\n3\n4\n5\n6\n7\n8\n9\n",
                     "1\n2\n3\n4\nfive\n6\n7\n8\n9\nten") ==
        "--- r.yaml\n+++ r.yaml\n@@ -2,8 +2,9 @@\n 2\n 3\n 4\n-5\n+five\n 6\n "
        "7\n 8\n 9\n+ten\n\\ No newline at end of file\n");
  CHECK(unified_diff("e", "", "x\n") == "--- e\n+++ e\n@@ -0,0 +1 @@\n+x\n");
  CHECK(unified_diff("e", "x\n", "") == "--- e\n+++ e\n@@ -1 +0,0 @@\n-x\n");
}

// What `patch` makes of a text.
std::string patched(const std::string& before, const std::string& diff) {
  const auto lines_of = [](const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
      lines.push_back(line + (stream.eof() ? "" : "\n"));
    }
    return lines;
  };
  const std::vector<std::string> old = lines_of(before);
  std::string after;
  size_t at = 0;
  for (std::string line : lines_of(diff)) {
    if (line.rfind("---", 0) == 0 || line.rfind("+++", 0) == 0) continue;
    if (line.rfind("@@ -", 0) == 0) {
      const size_t number = std::stoul(line.substr(4));
      const bool none = line.find(",0 +") != std::string::npos;
      const size_t begin = none ? number : number - 1;
      while (at < begin) after += old.at(at++);
    } else if (line[0] == '\\') {
      after.pop_back();
    } else {
      if (line[0] != '+') ++at;
      if (line[0] != '-') after += line.substr(1);
    }
  }
  while (at < old.size()) after += old[at++];
  return after;
}

TEST_CASE("patching with a diff gives the new text") {
  CHECK(rc::check("patch(a, diff(a, b)) is b", [] {
    const auto text = [] {
      std::string result;
      const auto count = *rc::gen::inRange(0, 30);
      for (int i = 0; i < count; ++i) {
        result += *rc::gen::element<std::string>("a\n", "b\n", "c\n");
      }
      return result + *rc::gen::element<std::string>("", "end");
    };
    const std::string before = text();
    const std::string after = text();
    const std::string diff = unified_diff("x", before, after);
    RC_LOG() << diff;
    // A removed last line without an end has the mark of its own.
    if (!before.ends_with("end")) RC_ASSERT(patched(before, diff) == after);
    RC_ASSERT(diff.empty() == (before == after));
  }));
}

}  // namespace
}  // namespace shardplan
