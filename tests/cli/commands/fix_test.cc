// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/fix.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/support/memory_host.h"

namespace shardplan::cli {
namespace {

TEST_CASE("an overlay hides what it covers and passes on the rest") {
  testing::MemoryHost below;
  below.files = {{"a", "old"}, {"b", "kept"}};
  below.input = "from below";
  OverlayHost host(below, {{"a", "newer"}});
  std::string why;
  CHECK(host.read_file("a", kWholeFile, why)->view() == "newer");
  CHECK(host.read_file("a", 3, why)->view() == "new");
  CHECK(host.read_file("b", kWholeFile, why)->view() == "kept");
  CHECK(host.file_info("a")->size == 5);
  CHECK(host.file_info("b")->size == 4);
  CHECK(host.read_file("c", kWholeFile, why) == nullptr);
  CHECK(host.read_stdin(why)->view() == "from below");
  CHECK(below.files["a"] == "old");
}

TEST_CASE("standard input is given again") {
  testing::MemoryHost below;
  OverlayHost host(below, {{std::string(kStandardInput), "rules: []"}});
  std::string why;
  CHECK(host.read_stdin(why)->view() == "rules: []");
  CHECK(host.read_stdin(why)->view() == "rules: []");
}

using testing::MemoryHost;

// A vocabulary that tp=2 does not divide, an axis misspelt, a rule that comes
// too late.
MemoryHost broken_host() {
  MemoryHost host;
  host.files["model.json"] = R"({
  "embed": {"shape": [33, 16], "dtype": "bf16"},
  "mlp/up": {"shape": [16, 64], "dtype": "bf16"},
  "mlp/down": {"shape": [64, 16], "dtype": "bf16"}
})";
  host.files["rules.yaml"] =
      "# mine\nrules:\n  - [embed, [tp, fsdp]]  # words\n"
      "  - [mlp, [fsdb, tp]]\n  - [mlp/down, [tp, fsdp]]\n";
  return host;
}

int check(MemoryHost& host, std::vector<std::string> more,
          const std::string& rules = "rules.yaml") {
  std::vector<std::string> words = {"check",       "model.json", "--mesh",
                                    "fsdp=2,tp=2", "--rules",    rules};
  words.insert(words.end(), more.begin(), more.end());
  return cli::run(words, host);
}

TEST_CASE("--fix mends the rules, and a second run has nothing to do") {
  MemoryHost host = broken_host();
  CHECK(check(host, {}) == 1);
  CHECK(check(host, {"--fix"}) == 0);
  CHECK(host.written == std::vector<std::string>{"rules.yaml"});
  const std::string fixed = host.files["rules.yaml"];
  CHECK(fixed ==
        "# mine\nrules:\n  - [embed, [null, [fsdp, tp]]]  # words\n"
        "  - [mlp/down, [tp, fsdp]]\n  - [mlp, [fsdp, tp]]\n");
  host.out.clear();
  CHECK(check(host, {"--fix"}) == 0);
  CHECK(host.files["rules.yaml"] == fixed);
  CHECK(host.written.size() == 1);
  CHECK(host.out.find("No fix edits a rules file.") != std::string::npos);
}

// `--fix` gave rules of another user to the one who ran it.
TEST_CASE("rules whose owner cannot be kept stay as they are") {
  MemoryHost host = broken_host();
  const std::string before = host.files["rules.yaml"];
  host.fail_owner = true;
  CHECK(check(host, {"--fix"}) == 2);
  CHECK(host.files["rules.yaml"] == before);
  CHECK(host.err.find("cannot write `rules.yaml`: its owner cannot be kept") !=
        std::string::npos);
}

// Rules from a pipe were read again for every change that was tried, when the
// pipe had nothing left, or nobody to write to it.
TEST_CASE("no rules are read twice while fixes are tried") {
  struct CountingHost : MemoryHost {
    explicit CountingHost(MemoryHost host) : MemoryHost(std::move(host)) {}
    std::shared_ptr<const Bytes> read_file(const std::string& path,
                                           int64_t limit,
                                           std::string& why) override {
      ++reads[path];
      return MemoryHost::read_file(path, limit, why);
    }
    std::map<std::string, int> reads;
  };
  MemoryHost ready = broken_host();
  ready.files["more.yaml"] = "rules:\n  - [norm, []]\n";
  ready.pipes = {"more.yaml"};
  CountingHost host(ready);
  CHECK(check(host, {"--rules", "more.yaml", "--fix"}) == 0);
  CHECK(host.written == std::vector<std::string>{"rules.yaml"});
  CHECK(host.reads["more.yaml"] == 1);
  CHECK(host.reads["rules.yaml"] == 2);  // before it is written, too
}

TEST_CASE("--diff on a terminal shows control characters as escapes") {
  MemoryHost host = broken_host();
  // What follows it would be shown from right to left.
  const std::string reversed = "\xE2\x80\xAE\trules\n";
  host.files["rules.yaml"] = "# " + reversed + host.files["rules.yaml"];
  CHECK(check(host, {"--fix", "--diff"}) == 0);
  CHECK(host.out.find(reversed) != std::string::npos);
  host.out.clear();
  host.terminals = {Stream::Out};
  CHECK(check(host, {"--fix", "--diff"}) == 0);
  CHECK(host.out.find(reversed) == std::string::npos);
  CHECK(host.out.find("# \\u{202e}\trules\n") != std::string::npos);
}

TEST_CASE("--diff shows the edits and writes nothing") {
  MemoryHost host = broken_host();
  const std::string before = host.files["rules.yaml"];
  CHECK(check(host, {"--fix", "--diff"}) == 0);
  CHECK(host.written.empty());
  CHECK(host.files["rules.yaml"] == before);
  CHECK(host.out.find("--- rules.yaml\n+++ rules.yaml\n@@ ") == 0);
  CHECK(host.out.find("+  - [mlp, [fsdp, tp]]\n") != std::string::npos);
}

// A pass was made for each, a hundred at most: their edits stand in one place.
// With as many rules as findings 1,000 of them took half a minute.
TEST_CASE("--fix mends any number of findings in a few passes") {
  constexpr int kCount = 150;
  MemoryHost host;
  nlohmann::json model = {{"known", {{"shape", {64, 64}}, {"dtype", "bf16"}}}};
  std::string late = "rules:\n  - [known, [fsdp, tp]]\n  - [w$, [fsdp, tp]]\n";
  const std::string few = "rules:\n  - [known, [fsdp, tp]]\n";
  std::string odd = few;
  for (int i = 0; i < kCount; ++i) {
    std::string word = std::to_string(i);
    for (char& c : word) c = static_cast<char>(c - '0' + 'a');
    model[word + "z/w"] = {{"shape", {2 * i + 1, 64}}, {"dtype", "bf16"}};
    late += "  - [^" + word + "z/w, [null, [fsdp, tp]]]\n";
    odd += "  - [^" + word + "z/w, [fsdp, tp]]\n";
  }
  host.files["model.json"] = model.dump();
  const auto lines_with = [](const std::string& text, const std::string& part) {
    int count = 0;
    for (size_t at = text.find(part); at != std::string::npos;
         at = text.find(part, at + 1)) {
      ++count;
    }
    return count;
  };

  host.files["rules.yaml"] = few;
  CHECK(check(host, {"--fix"}) == 0);
  CHECK(lines_with(host.files["rules.yaml"], "z/w") == kCount);

  host.files["rules.yaml"] = odd;
  CHECK(check(host, {"--fix"}) == 0);
  CHECK(lines_with(host.files["rules.yaml"], "[null, [tp, fsdp]]") == kCount);

  host.files["rules.yaml"] = late;
  CHECK(check(host, {"--fix"}) == 0);
  CHECK(lines_with(host.files["rules.yaml"], "z/w, [null") == kCount);
  const std::string& moved = host.files["rules.yaml"];
  CHECK(moved.find("w$, [") > moved.rfind("z/w"));
}

TEST_CASE("JSON lists what was fixed, and what could be") {
  MemoryHost host = broken_host();
  check(host, {"--json"});
  const auto before = nlohmann::json::parse(host.out);
  CHECK_FALSE(before["tables"].contains("fixes"));
  bool edits = false;
  for (const auto& diagnostic : before["diagnostics"]) {
    for (const auto& fix : diagnostic["fixes"]) {
      CHECK(fix["bytes_per_device"].is_number_integer());
      if (fix["kind"] != "rule-edit") continue;
      for (const auto& edit : fix["edits"]) {
        edits = true;
        CHECK(edit["file"] == "rules.yaml");
        CHECK(edit["begin"].get<int>() <= edit["end"].get<int>());
      }
    }
  }
  CHECK(edits);
  host.out.clear();
  CHECK(check(host, {"--fix", "--json"}) == 0);
  const auto after = nlohmann::json::parse(host.out);
  const auto& fixes = after["tables"]["fixes"];
  REQUIRE(fixes.size() == 3);
  for (const auto& fix : fixes) {
    CHECK(fix["file"] == "rules.yaml");
    CHECK(fix["applied"] == true);
  }
  CHECK(after["summary"]["errors"] == 0);
}

TEST_CASE("shipped sets and standard input are left alone, and that is said") {
  MemoryHost host = broken_host();
  host.input = host.files["rules.yaml"];
  CHECK(check(host, {"--fix"}, "-") == 1);
  CHECK(host.written.empty());
  CHECK(host.out.find("Rules from standard input cannot be edited.") !=
        std::string::npos);
  host.out.clear();
  CHECK(check(host, {"--fix"}, "@llama") == 1);
  CHECK(host.written.empty());
  CHECK(host.out.find("`@llama` is a shipped set and cannot be edited.") !=
        std::string::npos);
}

TEST_CASE("a file of the user's own is fixed beside others that are not") {
  MemoryHost host = broken_host();
  host.input = "rules:\n  - [embed, [null, [fsdp, tp]]]\n";
  CHECK(check(host, {"--fix", "--rules", "-"}) == 0);
  CHECK(host.files["rules.yaml"].find("[mlp, [fsdp, tp]]") !=
        std::string::npos);
}

TEST_CASE("an axis for copies of the model is not put into rules unasked") {
  MemoryHost host;
  host.files["model.json"] = R"({"w": {"shape": [8, 8], "dtype": "f32"}})";
  host.files["rules.yaml"] = "rules:\n  - [w, [tp]]\n";
  CHECK(cli::run({"check", "model.json", "--rules", "rules.yaml", "--mesh",
                  "dp=2,tp=2", "--fix"},
                 host) == 1);
  CHECK(host.written.empty());
  CHECK(host.out.find("SP208") != std::string::npos);
  // Nor when it is declared.
  CHECK(cli::run({"check", "model.json", "--rules", "rules.yaml", "--mesh",
                  "dp=2,tp=2", "--axes", "dp", "--fix"},
                 host) == 0);
  CHECK(host.written.empty());
  CHECK(host.out.find("SP204") != std::string::npos);
  CHECK(cli::run({"check", "model.json", "--rules", "rules.yaml", "--mesh",
                  "fsdp=2,tp=2", "--fix"},
                 host) == 0);
  CHECK(host.files["rules.yaml"] == "rules:\n  - [w, [[tp, fsdp], null]]\n");
}

TEST_CASE("files are written whole or not at all") {
  MemoryHost host = broken_host();
  const std::string before = host.files["rules.yaml"];
  host.fail_commit = true;
  CHECK(check(host, {"--fix"}) == 2);
  CHECK(host.files["rules.yaml"] == before);
  CHECK(host.err.find("cannot write all of `rules.yaml`") != std::string::npos);
  host.fail_commit = false;
  host.fail_create = true;
  CHECK(check(host, {"--fix"}) == 2);
  CHECK(host.files["rules.yaml"] == before);
}

TEST_CASE("a file that changed meanwhile is not overwritten") {
  MemoryHost host = broken_host();
  Diagnostics diags;
  FixRun run{Session{{},
                     {},
                     {},
                     Plan{Mesh({{"tp", 1}}), {}, {}, {}, {}, {}, {}},
                     {},
                     {},
                     {},
                     {}},
             {},
             {},
             {{"rules.yaml", {"something else", "new"}}}};
  CHECK_FALSE(write_fixes(run, host, diags));
  CHECK(diags.all().front().message ==
        "`rules.yaml` has changed since it was read");
  CHECK(host.written.empty());
}

// The file was written once, and the second time had changed: exit 2, with
// others written.
TEST_CASE("one file by two names is refused before anything is written") {
  MemoryHost host = broken_host();
  host.links["link.yaml"] = "rules.yaml";
  for (const char* other : {"link.yaml", "./rules.yaml", "rules.yaml"}) {
    CAPTURE(other);
    host.err.clear();
    CHECK(check(host, {"--rules", other, "--fix"}) == 2);
    CHECK(host.written.empty());
    CHECK(host.err.find("error[SP010]: `") != std::string::npos);
    CHECK(host.err.find("help: give it once") != std::string::npos);
  }
}

TEST_CASE("a change in the last moment is not overwritten, nor others before") {
  MemoryHost host = broken_host();
  const std::string before = host.files["rules.yaml"];
  host.meanwhile = [&] { host.files["rules.yaml"] = before + "# mine\n"; };
  CHECK(check(host, {"--fix"}) == 2);
  CHECK(host.files["rules.yaml"] == before + "# mine\n");
  CHECK(host.err.find("cannot write all of `rules.yaml`: it has changed since "
                      "it was read") != std::string::npos);
}

TEST_CASE("--fix and its companions refuse what makes no sense") {
  MemoryHost host = broken_host();
  const auto refused = [&](std::vector<std::string> words) {
    host.out.clear();
    host.err.clear();
    words.insert(words.begin(), {"check", "model.json"});
    // With --json it is a report.
    return cli::run(words, host) == 2 && !(host.out + host.err).empty();
  };
  CHECK(refused({"--plan", "x.plan.json", "--fix"}));
  CHECK(refused({"--rules", "rules.yaml", "--mesh", "tp=2", "--diff"}));
  CHECK(refused({"--rules", "rules.yaml", "--mesh", "tp=2", "--fix", "--diff",
                 "--json"}));
  CHECK(host.written.empty());
}

}  // namespace

}  // namespace shardplan::cli
