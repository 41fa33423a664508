// SPDX-License-Identifier: Apache-2.0
// Exits that say nothing: whatever the input, an exit of 2 names a reason, and
// an exit of 1 a finding. Inputs are small changes of sound ones, which get
// further than noise does.
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/commands.h"
#include "tests/support/simulating.h"
#include "tests/support/words.h"

namespace shardplan::cli {
namespace {

using testing::command_line;
using testing::Words;

using testing::MemoryHost;

// The same numbers in every run (SplitMix64).
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed) {}
  size_t below(size_t limit) {
    state_ += 0x9E3779B97F4A7C15U;
    uint64_t x = state_;
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
    return static_cast<size_t>((x ^ (x >> 31U)) % limit);
  }

 private:
  uint64_t state_;
};

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_';
}

// Words and single other characters.
Words tokens_of(const std::string& text) {
  Words tokens;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    while (is_word(text[i]) && end < text.size() && is_word(text[end])) ++end;
    tokens.push_back(text.substr(i, end - i));
    i = end;
  }
  return tokens;
}

// One word in place of another, removed or twice; few other characters.
std::string changed(const std::string& text, Numbers& numbers) {
  static const std::array<const char*, 22> kOthers = {
      "tp",   "ep",    "fsdp", "nope", "null", "0",       "1",     "3",
      "-1",   "7",     "x",    "up",   "[]",   "psum",    "BATCH", "HEAD",
      "true", "16384", "sum",  "take", "spec", "in_specs"};
  Words tokens = tokens_of(text);
  const size_t changes = 1 + numbers.below(2);
  for (size_t i = 0; i < changes && !tokens.empty(); ++i) {
    size_t at = numbers.below(tokens.size());
    while (!is_word(tokens[at][0]) && numbers.below(8) != 0) {
      at = (at + 1) % tokens.size();
    }
    switch (numbers.below(4)) {
      case 0:
        tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 1:
        tokens[at] = tokens[numbers.below(tokens.size())];
        break;
      default:
        tokens[at] = kOthers.at(numbers.below(kOthers.size()));
    }
  }
  std::string result;
  for (const std::string& token : tokens) result += token;
  return result;
}

MemoryHost sound() {
  MemoryHost host = testing::block_host();
  host.files["map.yaml"] = R"(graph: map
inputs:
  x: {shape: [4, 8], spec: []}
parameters:
  qkv: {shape: [8, 24], spec: [null, tp]}
ops:
  - {op: linear, in: [x, qkv], out: fused}
  - {op: split, in: fused, out: [q, k, v],
     shard_map: {in_specs: [[null, tp]], out_specs: [null, tp]}}
  - {op: constraint, in: q, out: c, spec: [tp]}
  - {op: sum, in: c, out: s, dims: [1]}
)";
  host.files["full.yaml"] = R"(axes: [fsdp, tp, dp]
mesh: {fsdp: 2, tp: 2}
rules:
  - ["up", [embed, HEAD]]
  - {pattern: "down|norm", spec: [[tp, fsdp]]}
logical_axis_rules:
  - [embed, fsdp]
partition_axis: {head_axis: tp}
activations:
  - ["h|a", [BATCH, null]]
)";
  host.files["shardplan.yaml"] = "tolerance: 0.5\nunmatched: replicate\n";
  host.files["plan.json"] = R"({"schema": "shardplan.plan/1",
 "mesh": [["tp", 2]], "on_indivisible": "drop", "rules": [],
 "placements": [{"dtype": "f32", "shape": [16, 32], "rule": null,
   "requested": ["tp"], "spec": ["tp", null], "corrections": []},
  {"dtype": "f32", "shape": [32, 16], "rule": null, "requested": [],
   "spec": [], "corrections": []}],
 "parameters": [["mlp/up", 0], ["mlp/down", 1]]})";
  return host;
}

struct Line {
  Words words;
  Words files;  // of which one is changed
};

const std::vector<Line>& lines() {
  static const std::vector<Line> kLines = {
      {{"simulate", "map.yaml", "-m", "tp=2"}, {"map.yaml"}},
      {{"simulate", "map.yaml", "-m", "tp=2,ep=2", "--values", "field"},
       {"map.yaml"}},
      {{"simulate", "model.json", "--graph", "block.yaml", "-r", "full.yaml"},
       {"block.yaml", "full.yaml", "model.json"}},
      {{"check", "model.json", "-r", "full.yaml"}, {"full.yaml", "model.json"}},
      {{"check", "model.json", "-r", "rules.yaml", "-m", "fsdp=2,tp=2"},
       {"shardplan.yaml", "rules.yaml"}},
      {{"check", "model.json", "--plan", "plan.json", "--format", "concise"},
       {"plan.json", "model.json"}},
      {{"resolve", "model.json", "--plan", "plan.json", "-m", "tp=2"},
       {"plan.json"}},
      {{"analyze", "model.json", "-r", "full.yaml", "--mode", "decode",
        "--batch", "2", "--seq", "4"},
       {"full.yaml", "model.json"}},
      {{"sweep", "model.json", "-r", "full.yaml", "--devices", "2,4", "--over",
        "fsdp,tp"},
       {"full.yaml", "model.json"}},
      {{"export", "model.json", "-r", "full.yaml", "--to", "python"},
       {"full.yaml"}},
      {{"export", "model.json", "-r", "full.yaml", "--to", "maxtext"},
       {"full.yaml"}},
      {{"diff", "plan.json", "plan.json"}, {"plan.json"}},
      {{"diff", "model.json", "-r", "full.yaml", "--semantics",
        "maxtext,dtensor"},
       {"full.yaml"}},
      {{"inspect", "model.json", "-r", "full.yaml", "--shard", "mlp/up"},
       {"full.yaml", "model.json"}},
      {{"inspect", "map.yaml"}, {"map.yaml"}}};
  return kLines;
}

// What is wrong with how a run ended; empty when nothing is.
std::string silence(int exit, const MemoryHost& host, const Words& words) {
  const std::string said = host.out + host.err;
  const bool names_error = said.find("error[SP") != std::string::npos;
  if (exit < 0 || exit > 2) return "an exit of " + std::to_string(exit);
  if (exit == 2 && !names_error) return "an exit of 2 without a reason";
  // No mesh fits: that is what its exit says, and the report.
  const bool is_sweep = words.front() == "sweep";
  if (exit == 1 && !names_error && !is_sweep) {
    return "an exit of 1 without a finding";
  }
  return "";
}

TEST_CASE("exits: whatever is wrong with the input, it is said") {
  const MemoryHost before = sound();
  std::map<int, int> exits;
  for (size_t l = 0; l < lines().size(); ++l) {
    const Line& line = lines()[l];
    CAPTURE(command_line(line.words));
    {
      MemoryHost host = before;
      const int exit = run(line.words, host);
      CHECK_MESSAGE(silence(exit, host, line.words).empty(), host.err);
    }
    for (uint64_t seed = 0; seed < 60; ++seed) {
      Numbers numbers(1000 * l + seed);
      MemoryHost host = before;
      const std::string& path = line.files[numbers.below(line.files.size())];
      host.files[path] = changed(before.files.at(path), numbers);
      const int exit = run(line.words, host);
      ++exits[exit];
      const std::string wrong = silence(exit, host, line.words);
      CHECK_MESSAGE(wrong.empty(), wrong << "\n"
                                         << path << ":\n"
                                         << host.files[path] << "\n"
                                         << host.err);
    }
  }
  // The changes reach all of them.
  for (const int exit : {0, 1, 2}) CHECK(exits[exit] > 10);
}

TEST_CASE("exits: meshes and sizes that cannot be are said, too") {
  const MemoryHost before = sound();
  for (const char* mesh :
       {"", "tp", "tp=0", "tp=2,tp=2", "x=3", "ep=2", "tp=-1", "tp=5",
        "fsdp=1024,tp=2048", "dp=2,nope=2", "tp=9223372036854775807"}) {
    for (const Line& line : lines()) {
      CAPTURE(mesh);
      CAPTURE(command_line(line.words));
      Words words = line.words;
      const auto old = std::find(words.begin(), words.end(), "-m");
      if (old != words.end()) words.erase(old, old + 2);
      words.insert(words.end(), {"-m", mesh});
      MemoryHost host = before;
      const int exit = run(words, host);
      CHECK_MESSAGE(silence(exit, host, words).empty(), host.err);
    }
  }
}

// What run() would see of a command that returns without a word; the sound
// twin of it is every other test.
TEST_CASE("exits: the check bites where a reason is not shown") {
  MemoryHost host;
  CHECK_FALSE(silence(2, host, {"simulate"}).empty());
  CHECK_FALSE(silence(1, host, {"check"}).empty());
  CHECK_FALSE(silence(3, host, {"check"}).empty());
  host.err = "error[SP015]: something\n";
  CHECK(silence(2, host, {"simulate"}).empty());
}

}  // namespace
}  // namespace shardplan::cli
