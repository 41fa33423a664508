// SPDX-License-Identifier: Apache-2.0
// Time against the size of inputs: whole runs on four times as much.
//
// Each row was quadratic once: a name was sought in a list for each entry of
// another, or a line was counted from its start for each place in it. Four
// times as much then takes sixteen times the time; what grows with the input
// takes four.
#include <algorithm>
#include <ctime>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/source.h"
#include "cli/commands.h"
#include "tests/support/memory_host.h"

namespace shardplan {
namespace {

using Words = std::vector<std::string>;

struct Case {
  std::string model;
  std::string rules;
};

std::string entries(int count, const std::function<std::string(int)>& entry,
                    const std::string& between) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += (i > 0 ? between : "") + entry(i);
  }
  return text;
}

std::string tensor(int i, const std::string& more) {
  return "\"x" + std::to_string(i) +
         R"(y/w": {"shape": [8, 8], "dtype": "f32")" + more + "}";
}

std::string rule(int i, const std::string& axis) {
  return "[\"x" + std::to_string(i) + "y/w\", [" + axis + "]]";
}

Case of_logical_axes(int count) {
  const auto name = [](int i) { return "n" + std::to_string(i); };
  return {
      "{" +
          entries(
              count,
              [&](int i) {
                return tensor(i, R"(, "axes": [")" + name(i) + "\", null]");
              },
              ",\n") +
          "}",
      "logical_axis_rules:\n" +
          entries(
              count, [&](int i) { return "  - [" + name(i) + ", tp]"; }, "\n") +
          "\n"};
}

Case in_one_line(int count) {
  return {"{" +
              entries(
                  count, [](int i) { return tensor(i, ""); }, ", ") +
              "}",
          "{\"rules\": [" +
              entries(
                  count, [](int i) { return rule(i, "\"tp\""); }, ", ") +
              "]}"};
}

Case of_declared_axes(int count) {
  const auto name = [](int i) { return "z" + std::to_string(i); };
  return {
      "{" +
          entries(
              count, [](int i) { return tensor(i, ""); }, ",\n") +
          "}",
      "axes: [" + entries(count, name, ", ") + "]\nrules:\n" +
          entries(
              count, [&](int i) { return "  - " + rule(i, name(i)); }, "\n") +
          "\n"};
}

Case of_unused_rules(int count) {
  return {"{" + tensor(0, "") + "}",
          "rules:\n" +
              entries(
                  count, [](int i) { return "  - " + rule(i, "tp"); }, "\n") +
              "\n"};
}

double seconds_of(const Case& input) {
  testing::MemoryHost host;
  host.files["m.json"] = input.model;
  host.files["r.yaml"] = input.rules;
  const std::clock_t start = std::clock();
  const int exit = cli::run({"check", "m.json", "--rules", "r.yaml", "--mesh",
                             "tp=2", "--exit-zero", "--jobs", "1"},
                            host);
  const std::clock_t end = std::clock();
  CAPTURE(host.err);
  CHECK(exit == 0);
  return static_cast<double>(end - start) / CLOCKS_PER_SEC;
}

TEST_CASE("time grows with the input, not with its square") {
  const struct {
    const char* what;
    Case (*make)(int);
    int count;
  } rows[] = {
      {"logical axes, each with a rule", of_logical_axes, 1500},
      {"a model and rules in one line each", in_one_line, 1500},
      {"declared axes, each with a rule", of_declared_axes, 750},
      {"rules that are found in nothing", of_unused_rules, 500},
  };
  for (const auto& row : rows) {
    CAPTURE(row.what);
    const Case small = row.make(row.count);
    const Case large = row.make(4 * row.count);
    // The best of some, since others use the machine too.
    double least = std::numeric_limits<double>::max();
    for (int i = 0; i < 4 && least > 8; ++i) {
      least = std::min(least, seconds_of(large) / seconds_of(small));
    }
    CHECK(least < 10);
  }
}

// Each finding of a file of one line shows that line, which was sought to its
// end each time.
double seconds_of_lines(int64_t bytes) {
  const SourceFile source("m.json",
                          std::string(static_cast<size_t>(bytes), 'x'));
  CHECK(source.line(1).size() == static_cast<size_t>(bytes));
  const std::clock_t start = std::clock();
  size_t sum = 0;
  for (int i = 0; i < 20000; ++i) sum += source.line(1).size();
  const std::clock_t end = std::clock();
  CHECK(sum == 20000 * static_cast<size_t>(bytes));
  return static_cast<double>(end - start + 1) / CLOCKS_PER_SEC;
}

TEST_CASE("the time to find a line does not grow with its length") {
  double least = std::numeric_limits<double>::max();
  for (int i = 0; i < 4 && least > 4; ++i) {
    const double small = seconds_of_lines(int64_t{1} << 15U);
    least = std::min(least, seconds_of_lines(int64_t{1} << 20U) / small);
  }
  CHECK(least < 8);
}

}  // namespace
}  // namespace shardplan
