// SPDX-License-Identifier: Apache-2.0
#include "session/memory_request.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "session/trainable.h"
#include "tests/support/builders.h"
#include "tests/support/memory_host.h"
#include "tests/support/placed.h"
#include "tests/support/planning.h"

namespace shardplan {
namespace {

using shardplan::testing::MemoryHost;

constexpr int64_t kGiB = int64_t{1} << 30U;

struct DeviceAsked {
  std::optional<DeviceLimit> limit;
  Diagnostics diags;
};

// `own.yaml` states 10 GiB, of which `usable` (a whole line) can be allocated.
DeviceAsked ask(const MemoryRequest& memory, const std::string& usable = "") {
  MemoryHost host;
  host.files["own.yaml"] =
      "name: own\ntitle: Own\nvendor: Us\n"
      "sources: {us: {title: Ourselves, read: 2026-01-31}}\n"
      "devices_per_chip: {value: 1, source: us}\n"
      "hbm_bytes: {value: 10GiB, source: us}\n" +
      usable;
  DeviceAsked asked;
  asked.limit = device_limit(memory, host, asked.diags);
  return asked;
}

TEST_CASE("without flags there is no limit, and nothing is wrong") {
  const DeviceAsked asked = ask({});
  CHECK_FALSE(asked.limit);
  CHECK(asked.diags.all().empty());
}

TEST_CASE("--memory alone is all that a device has, and all of it is usable") {
  MemoryRequest memory;
  memory.limit = 5 * kGiB;
  const DeviceAsked asked = ask(memory);
  REQUIRE(asked.limit);
  CHECK(asked.limit->name == "--memory");
  CHECK(asked.limit->nominal == 5 * kGiB);
  CHECK(asked.limit->usable == 5 * kGiB);
  CHECK_FALSE(asked.limit->usable_is_estimated);
}

TEST_CASE("a profile gives what was seen to be usable") {
  MemoryRequest memory;
  memory.hardware = "own.yaml";
  const DeviceAsked asked =
      ask(memory, "hbm_usable_bytes: {value: 9GiB, source: us}\n");
  REQUIRE(asked.limit);
  CHECK(asked.limit->name == "own");
  CHECK(asked.limit->nominal == 10 * kGiB);
  CHECK(asked.limit->usable == 9 * kGiB);
  CHECK_FALSE(asked.limit->usable_is_estimated);
}

TEST_CASE("where nobody saw what is usable, all is taken and it is said") {
  MemoryRequest memory;
  memory.hardware = "own.yaml";
  const DeviceAsked asked = ask(memory);
  REQUIRE(asked.limit);
  CHECK(asked.limit->usable == 10 * kGiB);
  CHECK(asked.limit->usable_is_estimated);
  const DeviceAsked worked_out =
      ask(memory,
          "hbm_usable_bytes: {value: 8GiB, source: us, "
          "estimated: true, note: half of a pair}\n");
  REQUIRE(worked_out.limit);
  CHECK(worked_out.limit->usable == 8 * kGiB);
  CHECK(worked_out.limit->usable_is_estimated);
}

TEST_CASE("--memory overrides a profile, which must exist all the same") {
  MemoryRequest memory;
  memory.hardware = "own.yaml";
  memory.limit = 3 * kGiB;
  REQUIRE(ask(memory).limit);
  CHECK(ask(memory).limit->usable == 3 * kGiB);
  memory.hardware = "onw.yaml";
  const DeviceAsked asked = ask(memory);
  CHECK_FALSE(asked.limit);
  CHECK(asked.diags.cannot_run());
}

TEST_CASE("a profile without memory asks for --memory") {
  MemoryRequest memory;
  memory.hardware = "cpu";
  const DeviceAsked asked = ask(memory);
  CHECK_FALSE(asked.limit);
  REQUIRE(asked.diags.all().size() == 1);
  CHECK(asked.diags.all()[0].code == Code::Usage);
  CHECK(asked.diags.all()[0].message ==
        "hardware profile `cpu` does not say how much memory a device has");
  memory.limit = kGiB;
  CHECK(ask(memory).limit);
}

TEST_CASE("a reserve is a size, or a fraction of what is usable, rounded up") {
  const DeviceLimit limit = {"x", 2000, 1001, false};
  MemoryRequest memory;
  Diagnostics diags;
  CHECK(reserve_bytes(memory, limit, diags) == 0);
  memory.reserve = 7;
  CHECK(reserve_bytes(memory, std::nullopt, diags) == 7);
  memory.reserve = 0;
  memory.reserve_fraction = 0.25;
  CHECK(reserve_bytes(memory, limit, diags) == 251);  // 250.25
  CHECK(diags.all().empty());
  CHECK_FALSE(reserve_bytes(memory, std::nullopt, diags));
  CHECK(diags.cannot_run());
}

std::string problem(const MemoryRequest& memory, Mode mode = Mode::Train) {
  Diagnostics diags;
  const bool good = check_memory_request(memory, mode, diags);
  CHECK(good == !diags.has_errors());
  return testing::first_message(diags);
}

TEST_CASE("flags of the cache belong to serving, those of state to training") {
  MemoryRequest memory;
  CHECK(problem(memory).empty());
  memory.batch = 4;
  CHECK(problem(memory) ==
        "`--batch` applies to a training step, which needs `--batch` and "
        "`--seq`");
  memory.seq = 16;
  CHECK(problem(memory).empty());
  memory.kv_axes = {"tp"};
  CHECK(problem(memory) ==
        "`--kv-axes` applies to the KV cache, which training does not use");
  memory.kv_axes = {};
  memory.seq.reset();
  CHECK(problem(memory, Mode::Decode) ==
        "`--batch` needs `--seq`, the tokens of each sequence");
  memory.seq = 16;
  CHECK(problem(memory, Mode::Decode).empty());
  memory.state.optimizer = Optimizer::AdamW;
  CHECK(problem(memory, Mode::Decode) ==
        "`--optimizer` is given, but `--mode decode` does not train");

  MemoryRequest idle;
  idle.state.grad_dtype = DType::F32;
  CHECK(problem(idle) == "`--grad-dtype` needs an optimizer");
  idle.state.optimizer = Optimizer::Sgd;
  CHECK(problem(idle).empty());
}

Manifest adapted_model() {
  return testing::manifest(
      {{"base_model.model.model.layers.0.self_attn.q_proj.base_layer.weight",
        "i8[8, 8]"},
       {"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
        "bf16[2, 8]"},
       {"base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight",
        "bf16[8, 2]"},
       {"base_model.model.lm_head.weight", "bf16[16, 8]"}});
}

TEST_CASE("what is trained is found in names") {
  const Manifest manifest = adapted_model();
  Diagnostics diags;
  const auto found = [&](const std::vector<std::string>& patterns) {
    return find_trained(patterns, manifest, diags);
  };
  CHECK(found({"lora_"}) == TrainedParameters{false, true, true, false});
  CHECK(found({"lora_A", "head"}) ==
        TrainedParameters{false, true, false, true});
  CHECK(found({"lora_A|lm_head"}) == found({"lora_A", "head"}));
  CHECK(found({"."}) == TrainedParameters(4, true));
  CHECK(diags.all().empty());
}

TEST_CASE("a pattern of what is trained that finds nothing is an error") {
  const Manifest manifest = adapted_model();
  const auto report = [&](const std::vector<std::string>& patterns) {
    Diagnostics diags;
    CHECK_FALSE(find_trained(patterns, manifest, diags));
    CHECK(diags.cannot_run());
    std::string text;
    for (const Diagnostic& each : diags.all()) {
      text += each.message + "\n";
      for (const std::string& line : each.facts) text += line + "\n";
      for (const std::string& line : each.help) text += line + "\n";
      for (const Label& label : each.labels) text += label.text + "\n";
    }
    return text;
  };
  const std::string one = report({"lora_", "lm_haed"});
  CHECK(one.find("`--trainable` `lm_haed` matches no parameter") != one.npos);
  CHECK(one.find("`lm_head`") != one.npos);
  CHECK(report({"self_atn\\."}).find("self_attn") != one.npos);
  CHECK(report({"zzzzzz"}).find("the model has ") != one.npos);
  CHECK(report({"lora_("}).find("cannot be compiled") != one.npos);
  CHECK(report({"base_layer"}).find("parameters that cannot be trained") !=
        one.npos);
}

TEST_CASE("whatever adds to parameters asks for a budget") {
  CHECK_FALSE(asks_for_budget({}, Mode::Train));
  CHECK(asks_for_budget({}, Mode::Decode));
  MemoryRequest memory;
  memory.limit = 1024;
  CHECK(asks_for_budget(memory, Mode::Train));
  MemoryRequest trained;
  trained.state.optimizer = Optimizer::Lion;
  CHECK(asks_for_budget(trained, Mode::Train));
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
  CHECK(
      host.err.find(
          "axis `fsdp` is given to `--stages`, but also shards the KV cache") !=
      std::string::npos);
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

}  // namespace shardplan
