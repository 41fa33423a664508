// SPDX-License-Identifier: Apache-2.0
#include "cli/budget.h"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/placed.h"
#include "tests/support/planning.h"

namespace shardplan::cli {
namespace {

std::string problem(const Options& options) {
  Diagnostics diags;
  const bool good = check_memory_flags(options, diags);
  CHECK(good == !diags.has_errors());
  return testing::first_message(diags);
}

TEST_CASE("flags of the cache belong to serving, those of state to training") {
  Options options;
  CHECK(problem(options).empty());
  options.memory.batch = 4;
  CHECK(problem(options) ==
        "`--batch` is about the KV cache, which training does not have");
  options.mode = Mode::Decode;
  CHECK(problem(options) ==
        "`--batch` needs `--seq`, the tokens of each sequence");
  options.memory.seq = 16;
  CHECK(problem(options).empty());
  options.memory.state.optimizer = Optimizer::AdamW;
  CHECK(problem(options) ==
        "`--optimizer` is given, but `--mode decode` does not train");

  Options idle;
  idle.memory.state.grad_dtype = DType::F32;
  CHECK(problem(idle) ==
        "`--grad-dtype` is about training state, and no "
        "optimizer is given");
  idle.memory.state.optimizer = Optimizer::Sgd;
  CHECK(problem(idle).empty());
}

TEST_CASE("whatever adds to parameters asks for a budget") {
  CHECK_FALSE(asks_for_budget({}));
  Options options;
  options.memory.limit = 1024;
  CHECK(asks_for_budget(options));
  Options trained;
  trained.memory.state.optimizer = Optimizer::Lion;
  CHECK(asks_for_budget(trained));
}

TEST_CASE("a plan over the limit is a finding, a fitting one is none") {
  const auto run = [](std::vector<std::string> words) {
    testing::MemoryHost host = testing::planning_host();
    words.insert(words.end(), {"--unmatched", "replicate"});
    const int exit = testing::run_on(host, std::move(words), "fsdp=1,tp=1");
    return std::pair(exit, host.out.find("SP301") != std::string::npos);
  };
  CHECK(run({"check", "--memory", "1GiB"}) == std::pair(0, false));
  CHECK(run({"check", "--memory", "1KiB"}) == std::pair(1, true));
  CHECK(run({"analyze", "--memory", "1KiB"}).first == 1);
  CHECK(run({"check", "--zero", "1"}).first == 2);
}

TEST_CASE("an axis of stages cannot cut the KV cache besides") {
  testing::MemoryHost host = testing::planning_host();
  CHECK(testing::run_on(
            host,
            {"analyze", "--mode", "decode", "--seq", "8", "--stages", "fsdp"},
            "fsdp=2") == 2);
  CHECK(host.err.find("axis `fsdp` is given to `--stages`, and cuts the KV "
                      "cache besides") != std::string::npos);
}

TEST_CASE("decode counts a cache from the facts of the model") {
  testing::MemoryHost host = testing::planning_host();
  CHECK(testing::run_on(host,
                        {"analyze", "--mode", "decode", "--seq", "8", "--json"},
                        "fsdp=1") == 2);
  // The model tells no number of layers.
  CHECK(host.out.find("layers") != std::string::npos);
}

}  // namespace
}  // namespace shardplan::cli
