// SPDX-License-Identifier: Apache-2.0
// Names that try to write to the terminal, from every kind of file and from the
// command line, in every format: only renderers stand between them and it.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/commands.h"
#include "report/report.h"
#include "tests/support/memory_host.h"
#include "tests/support/words.h"

namespace shardplan::cli {
namespace {

using testing::command_line;
using testing::has_text;
using testing::Words;

using shardplan::testing::MemoryHost;

// Begins a line, moves the cursor, reverses what follows.
constexpr std::string_view kHostile = "\n::evil\x1b[2J\x07\xE2\x80\xAE";
constexpr std::string_view kShown = "\\n::evil\\x1b[2J\\x07\\u{202e}";
// As JSON and YAML spell it.
constexpr std::string_view kEscaped = "\\n::evil\\u001b[2J\\u0007\\u202e";
// No JSON or YAML may hold the first byte.
constexpr std::string_view kInvalid = "\xFF\x1b[2J";
constexpr std::string_view kInvalidShown = "\\xff\\x1b[2J";

// `@` stands for the hostile part.
std::string filled(std::string_view text, std::string_view part) {
  std::string out;
  for (const char c : text) {
    if (c == '@') {
      out += part;
    } else {
      out += c;
    }
  }
  return out;
}

struct HostileCase {
  std::string where;
  std::map<std::string, std::string> files;
  std::vector<Words> commands;
  std::string quoted;  // by the last one, in text
};

constexpr const char* kPlain = R"({"w": {"shape": [4, 6], "dtype": "f32"}})";
constexpr const char* kSharded = "rules:\n  - [\"w\", [tp]]\n";

const std::vector<HostileCase>& hostile_cases() {
  static const std::vector<HostileCase> cases = {
      {"a parameter",
       {{"m", R"({"w@": {"shape": [4, 6], "dtype": "f33@"}})"},
        {"r", kSharded}},
       {{"check", "m", "-r", "r", "-m", "tp=5"}},
       "`f33@` is not a dtype"},
      {"a parameter given twice",
       {{"m", R"({"w@": {"shape": [4], "dtype": "f32"},
                  "w@": {"shape": [4], "dtype": "f32"}})"}},
       {{"inspect", "m"}},
       "`w@` is given twice"},
      {"parameters in findings",
       {{"m", R"({"w@": {"shape": [4, 6], "dtype": "f32"},
                  "v@": {"shape": [5, 6], "dtype": "f32"}})"},
        {"r", kSharded}},
       {{"check", "m", "-r", "r", "-m", "tp=3"},
        {"resolve", "m", "-r", "r", "-m", "tp=3", "--expand"},
        {"resolve", "m", "-r", "r", "-m", "tp=3", "--why", "w@"},
        {"inspect", "m", "-r", "r", "-m", "tp=2", "--shard", "w@"},
        {"diff", "--semantics", "eformer,flax", "m", "-r", "r", "-m", "tp=3"},
        {"sweep", "m", "-r", "r", "--over", "tp", "--devices", "2"},
        {"resolve", "m", "-r", "r", "-m", "tp=2", "--why", "x@"}},
       "no parameter `x@`"},
      {"a rule's pattern",
       {{"m", kPlain}, {"r", "rules:\n  - [\"w(@\", [tp]]\n"}},
       {{"check", "m", "-r", "r", "-m", "tp=2"}},
       "pattern `w(@` cannot be compiled"},
      {"an axis of a rule",
       {{"m", kPlain}, {"r", "rules:\n  - [\"w\", [\"tp@\"]]\n"}},
       {{"check", "m", "-r", "r", "-m", "tp=2"}},
       "`tp@` is not an axis name"},
      {"an axis of the mesh",
       {{"m", kPlain}, {"r", kSharded}},
       {{"check", "m", "-r", "r", "-m", "tp=2@"}},
       "`2@` is not the size of an axis"},
      {"a key",
       {{"m", kPlain}, {"r", "rules: []\n\"rulez@\": 1\n"}},
       {{"check", "m", "-r", "r", "-m", "tp=2"}},
       "unknown key `rulez@`"},
      {"a logical axis",
       {{"m", R"({"w": {"shape": [4, 6], "dtype": "f32", "axes":
                 ["e@", "e@"]}})"},
        {"r", "logical_axis_rules:\n  - [\"mlp\", tp]\n"}},
       {{"resolve", "m", "-r", "r", "-m", "tp=2"},
        {"resolve", "m", "-r", "r", "-m", "tp=2", "--why", "w"},
        {"check", "m", "-r", "r", "-m", "tp=2"}},
       "`e@`"},
      {"a graph",
       {{"g", R"({"graph": "g@", "inputs": {"x": {"shape": [4, 4]}},
                  "parameters": {"w": {"name": "w@", "shape": [4, 4]}},
                  "ops": [{"op": "op@", "in": ["x", "w"], "out": "y"}],
                  "outputs": ["y"]})"},
        {"r", kSharded}},
       {{"simulate", "g", "-r", "r", "-m", "tp=2"}},
       "unknown operation `op@`"},
      {"a value of a graph",
       {{"g", R"({"graph": "g@", "inputs": {"x": {"shape": [4, 4]}},
                  "parameters": {"w": {"name": "w@", "shape": [4, 4]}},
                  "ops": [{"op": "linear", "in": ["x", "w@"], "out": "y"}],
                  "outputs": ["y"]})"},
        {"r", kSharded}},
       {{"simulate", "g", "-r", "r", "-m", "tp=2"}},
       "`w@` is not a valid value name"},
      {"a graph that runs",
       {{"g", R"({"graph": "g@", "inputs": {"x": {"shape": [4, 4]}},
                  "parameters": {"w": {"name": "w@", "shape": [4, 4]}},
                  "ops": [{"op": "linear", "in": ["x", "w"], "out": "y"}],
                  "outputs": ["y"]})"},
        {"r", "rules:\n  - [\"w\", [tp]]\n  - [\"v@\", [tp]]\n"}},
       {{"simulate", "g", "-r", "r", "-m", "tp=2", "--expand"},
        {"check", "g", "-r", "r", "-m", "tp=2"}},
       "`v@`"},
      {"a config",
       {{"config.json", R"({"model_type": "llama@", "architectures": ["A@"],
                            "torch_dtype": "f@"})"}},
       {{"inspect", "config.json"}},
       "`llama@`"},
      {"a file",
       {{"m@.json", kPlain}, {"r@.yaml", kSharded}},
       {{"resolve", "m@.json", "-r", "r@.yaml", "-m", "tp=3"},
        {"check", "m@.json", "-r", "r@.yaml", "-m", "tp=3"},
        {"inspect", "n@.json"}},
       "`n@.json`"},
      {"a saved plan of a model of that name",
       {{"m@.json", R"({"w@": {"shape": [4, 6], "dtype": "f32"}})"},
        {"n.json", R"({"v": {"shape": [4], "dtype": "f32"}})"},
        {"r", kSharded}},
       {{"resolve", "m@.json", "-r", "r", "-m", "tp=2", "-o", "x.plan.json"},
        {"check", "n.json", "--plan", "x.plan.json"}},
       "is for another model"},
      {"a command", {}, {{"chec@"}}, "unknown command `chec@`"},
      {"an option", {}, {{"check", "--frob@"}}, "unknown option `--frob@`"},
      {"a topic", {}, {{"list", "codes@"}}, "unknown topic `codes@`"},
      {"a matrix product",
       {},
       {{"explain", "--matmul", "P(a@)"}},
       "error[SP002]"},
      {"a value",
       {{"m", kPlain}, {"r", kSharded}},
       {{"check", "m", "-r", "r", "-m", "tp=2", "--tolerance", "1@"}},
       "not `1@`"},
      {"a setting",
       {{"m", kPlain}, {"r", kSharded}, {"c.yaml", "\"rulez@\": 1\n"}},
       {{"check", "m", "-r", "r", "-m", "tp=2", "--config", "c.yaml"}},
       "`rulez@`"},
  };
  return cases;
}

// Every line printable, but for the heading of a page, and none begun by a
// name.
void check_lines(const std::string& text) {
  constexpr std::string_view kHeading = "### shardplan ";
  size_t begin = text.starts_with(kHeading) ? kHeading.size() : 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    CHECK(printable(line) == line);
    CHECK_FALSE(line.starts_with("::evil"));
    begin = end + 1;
  }
}

// What JSON has of findings but for those edits.
void check_findings(const std::string& report) {
  if (!report.starts_with("{")) return;
  const auto json = nlohmann::json::parse(report);
  for (const auto& found : json.at("diagnostics")) {
    std::vector<std::string> texts = {found.at("message")};
    for (const char* key : {"facts", "help"}) {
      for (const auto& text : found.at(key)) texts.push_back(text);
    }
    for (const char* key : {"labels", "fixes"}) {
      for (const auto& each : found.at(key)) texts.push_back(each.at("text"));
    }
    for (const std::string& text : texts) CHECK(printable(text) == text);
  }
}

MemoryHost host_of(const HostileCase& hostile, std::string_view in_files,
                   std::string_view elsewhere) {
  MemoryHost host;
  for (const auto& [name, text] : hostile.files) {
    host.files[filled(name, elsewhere)] = filled(text, in_files);
  }
  return host;
}

Words words_of(const Words& words, std::string_view part) {
  Words result;
  for (const std::string& word : words) result.push_back(filled(word, part));
  return result;
}

void run_in(const HostileCase& hostile, const std::string& format,
            std::string_view in_files, std::string_view elsewhere,
            std::string_view shown) {
  MemoryHost host = host_of(hostile, in_files, elsewhere);
  for (const Words& command : hostile.commands) {
    Words words = words_of(command, elsewhere);
    const bool is_plan = has_text(command_line(words), ".plan.json");
    if (!is_plan || words.front() == "check") {
      words.insert(words.begin() + 1, {"--format", format});
    }
    CAPTURE(printable(command_line(words)));
    host.out.clear();
    host.err.clear();
    CHECK(run(words, host) <= 2);
    check_lines(host.out);
    check_lines(host.err);
    if (format == "json") check_findings(host.out);
  }
  if (format == "text") {
    const std::string text = host.out + host.err;
    CAPTURE(text);
    CHECK(has_text(text, filled(hostile.quoted, shown)));
  }
}

TEST_CASE("hostile names are shown escaped in every format") {
  for (const HostileCase& hostile : hostile_cases()) {
    CAPTURE(hostile.where);
    for (const Renderer& renderer : renderers()) {
      const std::string format(renderer.name);
      CAPTURE(format);
      run_in(hostile, format, kEscaped, kHostile, kShown);
    }
  }
}

TEST_CASE("bytes that are no UTF-8 are shown escaped in every format") {
  int tried = 0;
  for (const HostileCase& hostile : hostile_cases()) {
    const bool in_text = std::any_of(
        hostile.files.begin(), hostile.files.end(),
        [](const auto& file) { return has_text(file.second, "@"); });
    if (in_text) continue;
    ++tried;
    CAPTURE(hostile.where);
    for (const Renderer& renderer : renderers()) {
      const std::string format(renderer.name);
      CAPTURE(format);
      run_in(hostile, format, "", kInvalid, kInvalidShown);
    }
  }
  CHECK(tried == 7);
}

}  // namespace
}  // namespace shardplan::cli
