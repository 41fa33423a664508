// SPDX-License-Identifier: Apache-2.0
// Every command with too little memory: where an allocation fails the program
// ended by std::terminate, and what it had written stayed half written.
#include <algorithm>
#include <new>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/allocation.h"
#include "cli/commands.h"
#include "cli/host_memory.h"
#include "tests/support/memory_host.h"
#include "tests/support/simulating.h"
#include "tests/support/words.h"

namespace shardplan::cli {
namespace {

using testing::command_line;
using testing::has_text;
using testing::Words;

using testing::MemoryHost;

// A model, its rules, a graph, and a plan of them.
MemoryHost planned_host() {
  MemoryHost host = testing::block_host();
  host.files["odd.yaml"] =
      "rules:\n  - [\"up\", [null, [fsdp, tp]]]\n  - [\"down\", [tp, nope]]\n"
      "  - [\"never\", []]\n";
  host.files["shardplan.yaml"] = "unmatched: replicate\n";
  Words words = {"resolve", "model.json",  "-r", "rules.yaml",
                 "-m",      "fsdp=2,tp=2", "-o", "x.plan.json"};
  REQUIRE(run(words, host) == 0);
  host.written.clear();
  return host;
}

const std::vector<Words>& command_lines() {
  static const std::vector<Words> kLines = {
      {"check", "model.json", "-r", "rules.yaml", "-m", "fsdp=2,tp=2"},
      {"check", "model.json", "-r", "odd.yaml", "-m", "fsdp=2,tp=3"},
      {"check", "model.json", "-r", "odd.yaml", "-m", "fsdp=2,tp=3", "--json"},
      {"check", "model.json", "-r", "odd.yaml", "-m", "fsdp=2,tp=3", "--fix"},
      {"resolve", "model.json", "-r", "rules.yaml", "-m", "fsdp=2,tp=2", "-o",
       "y.plan.json"},
      {"resolve", "model.json", "-r", "rules.yaml", "-m", "fsdp=2,tp=2",
       "--json", "-o", "report.json"},
      {"resolve", "model.json", "--plan", "x.plan.json", "--why", "mlp/up"},
      {"analyze", "model.json", "-r", "rules.yaml", "-m", "fsdp=2,tp=2",
       "--optimizer", "adamw", "--format", "markdown"},
      {"sweep", "model.json", "-r", "rules.yaml", "--devices", "4", "--over",
       "fsdp,tp", "--format", "csv"},
      {"export", "model.json", "-r", "rules.yaml", "-m", "fsdp=2,tp=2", "--to",
       "python"},
      {"inspect", "model.json", "-r", "rules.yaml", "-m", "fsdp=2,tp=2",
       "--shard", "mlp/up"},
      {"diff", "x.plan.json", "x.plan.json"},
      {"diff", "model.json", "-r", "rules.yaml", "-m", "fsdp=2,tp=2",
       "--semantics", "eformer,flax"},
      {"simulate", "model.json", "--graph", "block.yaml", "-r", "rules.yaml",
       "-m", "fsdp=2,tp=2", "--jobs", "1"},
      {"simulate", "model.json", "--graph", "block.yaml", "-r", "rules.yaml",
       "-m", "fsdp=2,tp=2", "--values", "field", "--jobs", "3", "--json"},
      {"explain", "--algorithm", "ring", "--ranks", "4"},
      {"explain", "SP203"},
      {"list", "codes"},
      {"completion", "bash"}};
  return kLines;
}

// A run and what it was with all the memory that it wants.
struct Compared {
  int exit = 0;
  MemoryHost host;
};

Compared outcome(const Words& words, const MemoryHost& before) {
  Compared result{0, before};
  result.exit = run(words, result.host);
  return result;
}

// Either the whole answer or none, with the reason.
void check_honest(const Compared& got, const Compared& want) {
  if (got.exit != 2) {
    CHECK(got.exit == want.exit);
    CHECK(got.host.out == want.host.out);
    CHECK(got.host.err == want.host.err);
    CHECK(got.host.files == want.host.files);
    return;
  }
  CHECK(has_text(got.host.out + got.host.err, "SP017"));
  for (const auto& file : got.host.files) {
    const std::string& path = file.first;
    CAPTURE(path);
    const auto whole = want.host.files.find(path);
    REQUIRE(whole != want.host.files.end());
    CHECK((file.second == whole->second || path == "odd.yaml"));
  }
}

TEST_CASE("memory: with --max-memory too small for it a command says SP017") {
  if (!kCountsAllocations) return;
  const MemoryHost before = planned_host();
  for (const Words& words : command_lines()) {
    CAPTURE(command_line(words));
    const Compared want = outcome(words, before);
    for (const char* limit : {"1", "20KB", "100KB", "300KB", "1MB", "100MB"}) {
      CAPTURE(limit);
      Words limited = words;
      limited.insert(limited.end(), {"--max-memory", limit});
      const Compared got = outcome(limited, before);
      if (std::string_view(limit) == "1") CHECK(got.exit == 2);
      if (std::string_view(limit) == "100MB") CHECK(got.exit == want.exit);
      check_honest(got, want);
    }
  }
}

// Whichever allocation fails, alone. All of them would take minutes.
TEST_CASE("memory: any allocation may fail, and nothing else does") {
  if (!kCountsAllocations) return;
  const MemoryHost before = planned_host();
  int64_t first = 0;
  for (const Words& words : command_lines()) {
    CAPTURE(command_line(words));
    const Compared want = outcome(words, before);
    bool failed = true;
    int64_t refused = 0;
    for (int64_t n = first++; failed; n += 1 + n / 8) {
      CAPTURE(n);
      Compared got{0, before};
      fail_allocation(n);
      got.exit = run(words, got.host);
      failed = fail_allocation(-1);
      refused += failed ? 1 : 0;
      check_honest(got, want);
      if (!failed) CHECK(got.exit == want.exit);
    }
    CHECK(refused > 10);
  }
}

TEST_CASE("memory: the machine's size is the limit, unless a flag says more") {
  if (!kCountsAllocations) return;
  MemoryHost host = planned_host();
  std::string& model = host.files["model.json"];
  model = "{\"first\": {\"shape\": [1], \"dtype\": \"f32\"}";
  for (int i = 0; i < 20'000; ++i) {
    model += ", \"w" + std::to_string(i) +
             "\": {\"shape\": [1], \"dtype\": \"f32\"}";
  }
  model += "}";
  host.files["/proc/meminfo"] = "MemTotal: 1024 kB\n";
  const Words words = {"inspect", "model.json"};
  CHECK(run(words, host) == 2);
  CHECK(has_text(host.err, "more than the 768.0 KiB"));
  CHECK(has_text(host.err, "during: reading `model.json`"));
  Words allowed = words;
  allowed.insert(allowed.end(), {"--max-memory", "1GB"});
  CHECK(run(allowed, host) == 0);
  host.files["shardplan.yaml"] = "max-memory: 1GB\n";
  CHECK(run(words, host) == 0);
  host.files["shardplan.yaml"] = "max-memory: 1\n";
  CHECK(run(allowed, host) == 0);
}

// yaml-cpp and our tree took 2 GB for 12 MB of these.
TEST_CASE("memory: a document of many nodes takes few bytes for each") {
  if (!kCountsAllocations) return;
  MemoryHost host;
  std::string& text = host.files["m.yaml"];
  constexpr int64_t kNodes = 200'000;
  text = "w: {shape: [";
  for (int64_t i = 0; i < kNodes; ++i) text += "1,";
  text += "1]}\n";
  const Words words = {"inspect", "m.yaml", "--max-memory"};
  const auto exit_with = [&](const std::string& limit) {
    Words limited = words;
    limited.push_back(limit);
    return run(limited, host);
  };
  exit_with("1GB");
  const std::string err = host.err;
  host.err.clear();
  exit_with(std::to_string(kNodes * 160));
  CHECK(host.err == err);
  CHECK(exit_with(std::to_string(kNodes * 8)) == 2);
  CHECK(has_text(host.err, "SP017"));
  CHECK(has_text(host.err, "reading `m.yaml`"));
}

constexpr int64_t kGibibyte = int64_t{1} << 30U;

MemoryHost machine() {
  MemoryHost host;
  host.files["/proc/meminfo"] =
      "MemTotal:        8388608 kB\nMemFree:          123456 kB\n";
  return host;
}

TEST_CASE("max memory: three quarters of the machine's") {
  MemoryHost host = machine();
  CHECK(default_max_memory(host) == 6 * kGibibyte);
}

TEST_CASE("max memory: none where nothing tells") {
  MemoryHost host;
  CHECK_FALSE(default_max_memory(host));
  for (const char* text : {"", "MemTotal:", "MemTotal: x kB", "MemFree: 1 kB",
                           "MemTotal: -1 kB", "MemTotal: 0 kB"}) {
    CAPTURE(text);
    host.files["/proc/meminfo"] = text;
    CHECK_FALSE(default_max_memory(host));
  }
}

TEST_CASE("max memory: a control group's limit, and those around it") {
  MemoryHost host = machine();
  host.files["/sys/fs/cgroup/memory.max"] = "4294967296\n";
  CHECK(default_max_memory(host) == 3 * kGibibyte);
  host.files["/proc/self/cgroup"] = "0::/user.slice/job\n";
  host.files["/sys/fs/cgroup/user.slice/job/memory.max"] = "max\n";
  host.files["/sys/fs/cgroup/user.slice/memory.max"] = "2147483648\n";
  CHECK(default_max_memory(host) == kGibibyte / 2 * 3);
  host.files["/sys/fs/cgroup/user.slice/job/memory.max"] = "1073741824\n";
  CHECK(default_max_memory(host) == kGibibyte / 4 * 3);
}

TEST_CASE("max memory: the limit of version 1, which may be none") {
  MemoryHost host = machine();
  auto& limit = host.files["/sys/fs/cgroup/memory/memory.limit_in_bytes"];
  limit = "9223372036854771712\n";
  CHECK(default_max_memory(host) == 6 * kGibibyte);
  limit = "1073741824\n";
  CHECK(default_max_memory(host) == kGibibyte / 4 * 3);
}

TEST_CASE("max memory: what is said names limit, work and size") {
  AllocationLimit limit;
  limit.set(int64_t{1} << 20U);
  set_current_work("reading", "a.json");
  CHECK_THROWS_AS(claim_memory(int64_t{1} << 30U), std::bad_alloc);
  Diagnostics diags;
  report_no_memory({}, diags);
  set_current_work("");
  REQUIRE(diags.all().size() == 1);
  const Diagnostic& only = diags.all().front();
  CHECK(only.code == Code::MemoryBudget);
  CHECK(
      only.message ==
      "this run needs more than the 1.00 MiB of memory that shardplan may use");
  REQUIRE(only.facts.size() == 2);
  CHECK(only.facts[0] == "during: reading `a.json`");
  CHECK(only.facts[1].ends_with(" and requested 1.00 GiB more"));
  CHECK(only.help.front().find("--max-memory") != std::string::npos);
}

}  // namespace

}  // namespace shardplan::cli
