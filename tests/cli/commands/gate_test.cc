// SPDX-License-Identifier: Apache-2.0
// `gate` over revisions of real repositories; over folders:
// tests/cases/gate.md.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "base/real_host.h"
#include "cli/commands.h"
#include "tests/support/git_folder.h"
#include "tests/support/markdown_case.h"
#include "tests/support/memory_host.h"
#include "tests/support/real_folder.h"
#include "tests/support/source_dir.h"

namespace shardplan::cli {
namespace {

using testing::HostAt;
using testing::shell;

// The whole program in a folder, its words kept.
class GateHost : public HostAt {
 public:
  GateHost(Host& below, const std::string& path) : HostAt(below, path) {}

  bool write(Stream stream, std::string_view text) override {
    (stream == Stream::Out ? out : err) += text;
    return true;
  }
  std::string write_problem(Stream) override { return ""; }
  bool is_terminal(Stream) override { return false; }
  std::optional<std::string> environment(const std::string& name) override {
    if (name == "LANG") return "C.UTF-8";
    return std::nullopt;
  }

  std::string out;
  std::string err;
};

constexpr const char* kModel = R"({
 "experts/wi": {"shape": [8, 64, 128], "dtype": "bf16",
                "axes": ["exp", "embed", "mlp"]},
 "attention/q": {"shape": [64, 64], "dtype": "bf16", "axes": ["embed", null]}})";
constexpr const char* kRules =
    "logical_axis_rules:\n  - [exp, expert]\n  - [embed, fsdp]\n"
    "  - [mlp, null]\n";
constexpr const char* kLost =
    "logical_axis_rules:\n  - [exp, null]\n  - [embed, fsdp]\n"
    "  - [mlp, null]\n";
constexpr const char* kConfig =
    "targets:\n  moe:\n    model: moe.json\n    rules: base.yml\n"
    "    mesh: \"expert=4,fsdp=2\"\n";

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  REQUIRE(file.good());
}

// Paths of real files are relative to where the process stands.
class StandsIn {
 public:
  explicit StandsIn(const std::string& folder)
      : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder);
  }
  StandsIn(const StandsIn&) = delete;
  StandsIn& operator=(const StandsIn&) = delete;
  ~StandsIn() { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_;
};

// A repository whose second commit, on a branch, takes an axis from a label.
struct Repository {
  testing::Folder folder;
  std::unique_ptr<Host> real = make_real_host();

  std::string path(const std::string& name) const { return folder / name; }
  std::string root() const { return folder.path(); }
  void commit(const std::string& words) const {
    shell(root(), "git add -A && git commit -q -m '" + words + "'");
  }

  Repository() {
    shell(root(), "git init -q -b main .");
    write_text(path("moe.json"), kModel);
    write_text(path("base.yml"), kRules);
    write_text(path("shardplan.yaml"), kConfig);
    commit("one");
    shell(root(), "git checkout -q -b change");
    write_text(path("base.yml"), kLost);
    commit("two");
  }

  GateHost run(const std::vector<std::string>& words, int exit) {
    GateHost host(*real, root());
    CHECK_MESSAGE(cli::run(words, host) == exit, host.out << host.err);
    return host;
  }
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("gate: a revision beside another names label, axis and line") {
  Repository repository;
  const GateHost host =
      repository.run({"gate", "main..change", "--fail-on", "lost-axes"}, 1);
  CHECK(has(host.out, "experts/wi"));
  CHECK(has(host.out, "loses `expert`"));
  CHECK(has(host.out, "base.yml:2"));
  CHECK(has(host.err, "error[SP601]"));
}

TEST_CASE(
    "gate: the work tree is not looked at, and the base is the merge base") {
  Repository repository;
  // Broken, but not committed.
  write_text(repository.path("base.yml"), "rules: [");
  shell(repository.root(), "git stash -q && git checkout -q main");
  write_text(repository.path("moe.json"), "{}");
  repository.commit("three");
  shell(repository.root(), "git checkout -q change");
  write_text(repository.path("base.yml"), "rules: [");
  const GateHost host =
      repository.run({"gate", "main", "--fail-on", "any-change", "--json"}, 1);
  CHECK(has(host.out, "\"changed\": 1"));
  CHECK_FALSE(has(host.out, "no longer in the model"));
}

TEST_CASE("gate: a revision beside itself is the same") {
  Repository repository;
  const GateHost host =
      repository.run({"gate", "main..main", "--fail-on", "any-change"}, 0);
  CHECK(has(host.out, "Passes: the only target is unchanged."));
}

TEST_CASE("gate: it works below the root, too") {
  Repository repository;
  shell(repository.root(), "mkdir -p a/b");
  GateHost host(*repository.real, repository.path("a/b"));
  CHECK(cli::run({"gate", "main..change"}, host) == 1);
  CHECK(has(host.out, "../../base.yml:2"));
}

TEST_CASE("gate: what is not a revision is one diagnostic that helps") {
  Repository repository;
  CHECK(has(repository.run({"gate", "mian"}, 2).err, "`main`"));
  repository.run({"gate", "--", "--upload-pack=touch pwned"}, 2);
  CHECK(has(repository.run({"gate", "main...change"}, 2).err, "three dots"));
}

TEST_CASE("gate: a change cannot wave itself through") {
  Repository repository;
  write_text(repository.path("shardplan.yaml"),
             std::string("allow: [SP208, SP601]\nfail_on: any-change\n"
                         "exit_zero: true\n") +
                 kConfig);
  repository.commit("three");
  const GateHost host = repository.run({"gate", "main..change"}, 1);
  CHECK(has(host.err, "error[SP208]"));
  // That it tried is shown.
  CHECK(has(host.out, "allow"));
}

TEST_CASE("gate: a folder that the repository lacks is not taken for absent") {
  Repository repository;
  shell(repository.root(),
        "git checkout -q main && mkdir cfg && cp moe.json cfg && "
        "sed -i s,moe.json,cfg/moe.json, shardplan.yaml");
  repository.commit("three");
  shell(repository.root(),
        "rm -f .git/objects/$(git rev-parse main:cfg | sed 's,^..,&/,')");
  const GateHost host = repository.run({"gate", "main..main"}, 2);
  CHECK(has(host.err, "cannot be read completely"));
}

TEST_CASE("gate: the base may deny that a target is dropped") {
  Repository repository;
  shell(repository.root(), "git checkout -q main");
  write_text(repository.path("shardplan.yaml"),
             std::string("deny: SP604\n") + kConfig);
  repository.commit("three");
  shell(repository.root(),
        "git checkout -q -b drop && git rm -q "
        "shardplan.yaml");
  repository.commit("four");
  const GateHost host = repository.run({"gate", "main..drop"}, 1);
  CHECK(has(host.err, "error[SP604]"));
}

TEST_CASE("gate: what a change names is hostile text, in every format") {
  for (const char* format :
       {"text", "markdown", "github", "concise", "csv", "json", "sarif"}) {
    CAPTURE(std::string(format));
    testing::MemoryHost host;
    for (const std::string side : {"old/", "new/"}) {
      const std::string axis = side == "old/" ? "expert" : "null";
      host.files[side + "m.json"] =
          R"({"a\u001b[31m|`\n::error::x": {"shape": [8, 8],
              "dtype": "f32", "axes": ["ex\u202ep", null]}})";
      host.files[side + "r.yml"] =
          "logical_axis_rules:\n  - [\"ex\\u202ep\", " + axis + "]\n";
      host.files[side + "shardplan.yaml"] =
          "targets:\n  \"t\\e[31m|\\n::error::y\":\n    model: m.json\n"
          "    rules: r.yml\n    mesh: \"expert=4\"\n";
    }
    CHECK(cli::run({"gate", "old", "new", "--fail-on", "lost-axes", "--format",
                    format},
                   host) == 1);
    const std::string all = host.out + host.err;
    CHECK_FALSE(all.empty());
    CHECK_FALSE(has(all, "\x1b"));
    CHECK_FALSE(has(all, "\u202e"));
    CHECK_FALSE(has(all, "\n::error::"));
  }
}

TEST_CASE("gate: a comment has room on GitHub, however much changes") {
  testing::MemoryHost host;
  for (const std::string side : {"old/", "new/"}) {
    std::string model = "{";
    std::string rules = "rules:\n";
    for (int i = 0; i < 20; ++i) {
      const std::string name = "p" +
                               std::string(1, static_cast<char>('a' + i % 26)) +
                               std::string(static_cast<size_t>(i), 'x');
      model += (i == 0 ? "\"" : ",\"") + name + "\": {\"shape\": [" +
               std::to_string(64 + 8 * i) + ", 8], \"dtype\": \"f32\"}";
      rules += "  - [\"^" + name + "$\", " +
               (side == "old/" ? "[tp]" : "[null, tp]") + "]\n";
    }
    host.files[side + "m.json"] = model + "}";
    host.files[side + "r.yaml"] = rules;
    std::string config = "targets:\n";
    for (int i = 0; i < 64; ++i) {
      config += "  t" + std::to_string(i) +
                ": {model: m.json, rules: r.yaml, mesh: \"tp=" +
                std::to_string(2 + i) + "\"}\n";
    }
    host.files[side + "shardplan.yaml"] = config;
  }
  CHECK(cli::run({"gate", "old", "new", "--fail-on", "any-change", "--format",
                  "markdown"},
                 host) == 1);
  CHECK(host.out.size() > 30'000);
  CHECK(host.out.size() < 65'536);
  CHECK(has(host.out, "do not fit here"));
  // What it comes to is there, whatever was left out.
  CHECK(has(host.out, "64 of 64 targets change"));
}

// The commands of docs/ci.md's workflows, as a pull request would run them.
TEST_CASE("gate: the workflows of docs/ci.md run") {
  std::ifstream page(source_dir() / "docs/ci.md");
  const std::string text(std::istreambuf_iterator<char>(page), {});
  REQUIRE_FALSE(text.empty());
  Repository repository;
  shell(repository.root(),
        "git update-ref refs/remotes/origin/main refs/heads/main");
  int commands = 0;
  for (size_t at = text.find("shardplan "); at != std::string::npos;
       at = text.find("shardplan ", at + 1)) {
    const size_t begin = text.rfind('\n', at) + 1;
    std::string line = text.substr(at, text.find('\n', at) - at);
    const std::string before = text.substr(begin, at - begin);
    const bool is_step = before == "      - run: " || before == "          ";
    if (!is_step) continue;
    CAPTURE(line);
    ++commands;
    const std::string base = "$GITHUB_BASE_REF";
    if (const size_t place = line.find(base); place != std::string::npos) {
      line.replace(place, base.size(), "main");
    }
    std::vector<std::string> words = testing::shell_words(line);
    words.erase(words.begin());
    for (std::string& word : words) {
      if (word == "gate.md" || word == "shardplan.sarif") {
        word = repository.path(word);
      }
    }
    const StandsIn there(repository.root());
    GateHost host(*repository.real, repository.root());
    const int exit = cli::run(words, host);
    // Both find the lost axis, and nothing is wrong with the words.
    CHECK_MESSAGE(exit == 1, host.out << host.err);
  }
  CHECK(commands == 3);
  std::ifstream comment(repository.path("gate.md"));
  const std::string written(std::istreambuf_iterator<char>(comment), {});
  CHECK(has(written, "loses `expert`"));
  std::ifstream alerts(repository.path("shardplan.sarif"));
  const std::string log(std::istreambuf_iterator<char>(alerts), {});
  CHECK(has(log, "\"ruleId\": \"SP208\""));
}

// Two folders with a Llama and what has no forward pass, under rules.
struct TwoFolders {
  testing::Folder folder;
  std::unique_ptr<Host> real = make_real_host();

  std::string path(const std::string& name) const { return folder / name; }

  TwoFolders(const std::string& old_rules, const std::string& new_rules,
             const std::string& config) {
    for (const std::string side : {"old", "new"}) {
      std::filesystem::create_directory(path(side));
      write_text(path(side + "/llama.json"), R"({"model_type": "llama",
        "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 6,
        "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 256,
        "torch_dtype": "bfloat16"})");
      write_text(path(side + "/other.json"),
                 R"({"a/up_proj": {"shape": [64, 64], "dtype": "bf16"}})");
      write_text(path(side + "/rules.yaml"),
                 side == "old" ? old_rules : new_rules);
      write_text(path(side + "/shardplan.yaml"), config);
    }
  }

  GateHost run(std::vector<std::string> words, int exit) {
    const StandsIn there(folder.path());
    words.insert(words.begin(), {"gate", "old/", "new/"});
    GateHost host(*real, folder.path());
    CHECK_MESSAGE(cli::run(words, host) == exit, host.out << host.err);
    return host;
  }
};

// The up projections get another spec.
std::string collective_rules(const std::string& up) {
  return "axes: [dp, fsdp, tp, sp]\nrules:\n  - ['up_proj', " + up +
         "]\n"
         "  - ['(q|k|v|gate)_proj', [tp, fsdp]]\n"
         "  - ['(o|down)_proj', [fsdp, tp]]\n  - ['.*', []]\n";
}

TEST_CASE("gate: a collective that is new is told, with the line") {
  TwoFolders folders(collective_rules("[tp, null]"),
                     collective_rules("[tp, fsdp]"),
                     "targets:\n  llama:\n    model: llama.json\n"
                     "    rules: rules.yaml\n    mesh: \"fsdp=2,tp=2\"\n"
                     "    mode: prefill\n    batch: 4\n    seq: 32\n");
  const GateHost text = folders.run({}, 0);
  CHECK(has(text.out, "all-gather over fsdp"));
  CHECK(
      has(text.out, "gathers before use: `model.layers.*.mlp.up_proj.weight`"));
  CHECK(has(text.out, "Collectives were compared for 1 of 1 target"));
  CHECK(has(text.out, "4x32 tokens in bf16"));
  const GateHost report = folders.run({"--json"}, 0);
  CHECK(has(report.out,
            "\"kind\": \"collective\", \"what\": \"all-gather over fsdp of "
            "model.layers.*.mlp.up_proj.weight\", \"before\": 0, \"after\": 6, "
            "\"file\": \"new/rules.yaml\", \"line\": 3, \"side\": \"head\", "
            "\"fails\": false"));
  CHECK(has(report.out, "\"collectives\": \"compared\""));
  const GateHost markdown = folders.run({"--format", "markdown"}, 0);
  CHECK(has(markdown.out, "`all-gather over fsdp`"));
  CHECK(has(folders.run({"--fail-on", "any-change"}, 1).err, "all-gather"));
}

TEST_CASE("gate: where no forward pass is known it is said") {
  TwoFolders folders(collective_rules("[tp, null]"),
                     collective_rules("[tp, fsdp]"),
                     "targets:\n  llama:\n    model: llama.json\n"
                     "    rules: rules.yaml\n    mesh: \"fsdp=2,tp=2\"\n"
                     "  other:\n    model: other.json\n"
                     "    rules: rules.yaml\n    mesh: \"fsdp=2,tp=2\"\n");
  const GateHost text = folders.run({}, 0);
  CHECK(has(text.out, "Collectives were compared for 1 of 2 targets"));
  CHECK(has(text.out,
            "Not compared for `other`: these parameter names match no known "
            "architecture"));
  CHECK(has(folders.run({"--json"}, 0).out, "\"collectives\": \"unknown\""));
}

TEST_CASE("gate: a side that cannot be partitioned is said, and fails not") {
  TwoFolders folders(collective_rules("[fsdp, null]"),
                     collective_rules("[tp, null]"),
                     "targets:\n  llama:\n    model: llama.json\n"
                     "    rules: rules.yaml\n    mesh: \"fsdp=2,tp=3\"\n"
                     "    on-indivisible: pad\n    tolerance: 1\n");
  const GateHost text = folders.run({"--fail-on", "new-errors"}, 0);
  CHECK(has(text.out, "Collectives were not compared: "));
  CHECK(has(text.out, "cannot run shards of different sizes"));
}

TEST_CASE("gate: collectives are asked for where something lies elsewhere") {
  const char* const config =
      "targets:\n  llama:\n    model: llama.json\n"
      "    rules: rules.yaml\n    mesh: \"fsdp=2,tp=2\"\n";
  const std::string rules = collective_rules("[tp, null]");
  TwoFolders comment(rules, "# a word\n" + rules, config);
  const std::string same = comment.run({"--json"}, 0).out;
  CHECK(has(same, "\"collectives\": \"same\""));
  CHECK_FALSE(has(same, "\"kind\": \"collective\""));
  CHECK_FALSE(has(comment.run({}, 0).out, "Collectives"));
  // No parameter lies elsewhere, but values do.
  TwoFolders values(
      rules, rules + "activations:\n  - ['mlp.hidden', [dp, null]]\n", config);
  const std::string found = values.run({"--json"}, 0).out;
  CHECK(has(found, "\"collectives\": \"compared\""));
  CHECK(has(found, "\"kind\": \"collective\""));
}

TEST_CASE("gate: values that are not sharded as asked are said") {
  const auto rules = [](const std::string& up) {
    return "axes: [fsdp, tp]" +
           collective_rules(up).substr(collective_rules(up).find('\n')) +
           "activations:\n  - ['mlp.hidden', [dp, null]]\n";
  };
  TwoFolders folders(rules("[tp, null]"), rules("[tp, fsdp]"),
                     "targets:\n  llama:\n    model: llama.json\n"
                     "    rules: rules.yaml\n    mesh: \"fsdp=2,tp=2\"\n");
  CHECK(has(folders.run({}, 0).out,
            "In the forward pass of `llama`, `layers.0.mlp.hidden` is not "
            "sharded as requested: axis `dp` is unknown."));
}

TEST_CASE("gate: collectives are the same for any number of threads") {
  TwoFolders folders(
      collective_rules("[tp, null]"), collective_rules("[fsdp, tp]"),
      "targets:\n  llama:\n    model: llama.json\n"
      "    rules: rules.yaml\n    mesh: [tp=2, tp=4, \"fsdp=2,tp=2\", fsdp=4, "
      "\"dp=2,fsdp=2\", \"dp=2,tp=4\", fsdp=8, \"sp=2,tp=2\"]\n");
  const std::string one = folders.run({"--json", "--jobs", "1"}, 0).out;
  CHECK(has(one, "\"kind\": \"collective\""));
  for (const char* jobs : {"2", "5"}) {
    CHECK(folders.run({"--json", "--jobs", jobs}, 0).out == one);
  }
}

}  // namespace
}  // namespace shardplan::cli
