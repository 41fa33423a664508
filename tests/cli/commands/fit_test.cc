// SPDX-License-Identifier: Apache-2.0
// Whether something fits has one answer, whichever command is asked.
#include "memory/fit.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "base/allocation.h"
#include "cli/commands.h"
#include "tests/support/hf_config.h"
#include "tests/support/memory_host.h"
#include "tests/support/tiny_llama.h"
#include "tests/support/words.h"

namespace shardplan::cli {
namespace {

using testing::Json;
using testing::MemoryHost;
using testing::Words;

const Json kLlama = testing::tiny_llama();
const Json kMixtral = testing::changed(
    testing::tiny_llama(), {{"architectures", {"MixtralForCausalLM"}},
                            {"model_type", "mixtral"},
                            {"num_local_experts", 4},
                            {"num_experts_per_tok", 2}});
const Json kMamba = {{"architectures", {"MambaForCausalLM"}},
                     {"model_type", "mamba"},
                     {"vocab_size", 512},
                     {"hidden_size", 64},
                     {"state_size", 16},
                     {"num_hidden_layers", 4},
                     {"torch_dtype", "bfloat16"}};

Json answer_of(const char* command, const Json& config, const Words& flags,
               int64_t limit) {
  MemoryHost host;
  host.files["config.json"] = config.dump();
  Words words = {command, "config.json", "-r", "@all_models", "--json"};
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(), {"--memory", std::to_string(limit) + "B"});
  const int exit = run(words, host);
  CAPTURE(host.out + host.err);
  REQUIRE(exit < 2);
  return Json::parse(host.out);
}

bool has_code(const Json& report, const char* code) {
  for (const Json& each : report.at("diagnostics")) {
    if (each.at("code") == code && each.at("severity") != "note") return true;
  }
  return false;
}

struct Question {
  Json config;
  Words flags;
  bool engine = false;
};

const std::vector<Question>& questions() {
  static const std::vector<Question> kAll = {
      {kLlama, {"-m", "fsdp=2"}},
      {kLlama, {"-m", "fsdp=2,tp=2", "--optimizer", "adamw"}},
      {kLlama,
       {"-m", "fsdp=2", "--optimizer", "adamw", "--reserve", "1MiB",
        "--fragmentation", "0.05"}},
      {kLlama,
       {"-m", "fsdp=2", "--optimizer", "adamw", "--batch", "4", "--seq", "64"}},
      {kLlama,
       {"-m", "fsdp=2", "--optimizer", "adamw", "--batch", "4", "--seq", "64",
        "--reserve", "1MiB"}},
      {kMixtral,
       {"-m", "fsdp=2,ep=2", "--optimizer", "lion", "--batch", "8", "--seq",
        "32", "--remat", "full", "--microbatches", "2"}},
      {kLlama,
       {"-m", "pp=2,fsdp=2", "--stages", "pp", "--optimizer", "adamw",
        "--batch", "8", "--seq", "64", "--microbatches", "4"}},
      {kLlama, {"-m", "tp=2", "--mode", "decode", "--seq", "1k"}},
      {kMamba, {"-m", "tp=2", "--mode", "decode", "--seq", "1k"}},
      {kLlama,
       {"-m", "tp=2", "--mode", "decode", "--seq", "1k", "--engine", "vllm"},
       true},
      {kLlama,
       {"-m", "tp=2,dp=4", "--mode", "decode", "--seq", "1k", "--batch", "6",
        "--engine", "vllm"},
       true},
      {kMixtral,
       {"-m", "tp=2,dp=2", "--mode", "decode", "--seq", "4k", "--engine",
        "sglang", "--expert-parallel"},
       true},
      {kLlama,
       {"-m", "tp=16", "--mode", "decode", "--seq", "1k", "--engine", "vllm"},
       true},
  };
  return kAll;
}

// What commands say of one question with one limit, checked against one
// another; the headroom, where one is known.
Json judged(const Question& of, int64_t limit) {
  const Json analyzed = answer_of("analyze", of.config, of.flags, limit);
  const Json checked = answer_of("check", of.config, of.flags, limit);
  const Json swept = answer_of("sweep", of.config, of.flags, limit);
  const Json& summary = analyzed.at("summary");
  const Json& point = swept.at("tables").at("points").at(0);
  const Json& fits = summary.at("fits");
  const Json& headroom = summary.at("headroom");
  CAPTURE(Json(of.flags).dump());
  CAPTURE(limit);
  CAPTURE(summary.dump());
  for (const char* key : {"fits", "headroom", "memory_limit"}) {
    CAPTURE(key);
    CHECK(checked.at("summary").at(key) == summary.at(key));
    CHECK(point.at(key) == summary.at(key));
  }
  CHECK(checked.at("summary").at("memory_needed") ==
        summary.at("memory_needed"));
  CHECK(point.at("fit") == (fits.is_null() ? "perhaps"
                            : fits == true ? "yes"
                                           : "no"));
  if (!headroom.is_null()) {
    CHECK((fits == true) == (headroom.get<int64_t>() >= 0));
    CHECK(summary.at("memory_limit").get<int64_t>() -
              summary.at("memory_needed").get<int64_t>() ==
          headroom.get<int64_t>());
  }
  for (const Json* report : {&analyzed, &checked}) {
    if (of.engine) {
      CHECK((fits == true) ==
            !(has_code(*report, "SP307") || has_code(*report, "SP308")));
    } else {
      CHECK((fits == false) == has_code(*report, "SP301"));
      CHECK(fits.is_null() == has_code(*report, "SP306"));
    }
  }
  return headroom;
}

TEST_CASE("fit: analyze, check and sweep give one verdict for one question") {
  constexpr int64_t kAmple = int64_t{64} << 30;
  for (const Question& of : questions()) {
    const Json headroom = judged(of, kAmple);
    if (headroom.is_null()) continue;
    // A share of the memory grows with it, so its edge is found by halving.
    if (of.engine) {
      for (int64_t limit = kAmple; limit > int64_t{64} << 20;
           limit /= kCountsAllocations ? 4 : 64) {
        judged(of, limit);
      }
      continue;
    }
    const int64_t upper = kAmple - headroom.get<int64_t>();
    for (const int64_t limit :
         {upper, upper - 1, upper * 9 / 10, upper * 6 / 10, upper / 4}) {
      if (!kCountsAllocations && limit < upper - 1) break;
      judged(of, limit);
    }
  }
}

TEST_CASE("time: analyze, check and sweep give one time for one question") {
  constexpr int64_t kAmple = int64_t{64} << 30;
  int timed = 0;
  for (const Question& of : questions()) {
    Words flags = of.flags;
    flags.insert(flags.end(), {"--hardware", "h100-sxm"});
    CAPTURE(Json(flags).dump());
    const Json analyzed =
        answer_of("analyze", of.config, flags, kAmple).at("summary");
    const Json checked =
        answer_of("check", of.config, flags, kAmple).at("summary");
    const Json swept = answer_of("sweep", of.config, flags, kAmple);
    const Json& point = swept.at("tables").at("points").at(0);
    for (const char* key : {"step_time", "time_per_output_token",
                            "time_to_first_token", "tokens_per_second"}) {
      CAPTURE(key);
      CHECK(checked.value(key, Json()) == analyzed.value(key, Json()));
      CHECK(point.value(key, Json()) == analyzed.value(key, Json()));
    }
    timed += analyzed.contains("tokens_per_second") ? 1 : 0;
    if (!analyzed.contains("full_batch")) continue;
    // The same as where so many are asked for.
    const auto batch = std::ranges::find(flags, "--batch");
    if (batch != flags.end()) flags.erase(batch, batch + 2);
    flags.insert(flags.end(), {"--batch", analyzed.at("full_batch").dump()});
    const Json full =
        answer_of("analyze", of.config, flags, kAmple).at("summary");
    CHECK(full.at("time_per_output_token") ==
          analyzed.at("full_batch_time_per_output_token"));
    CHECK(full.at("tokens_per_second") ==
          analyzed.at("full_batch_tokens_per_second"));
    CHECK_FALSE(full.contains("full_batch"));
  }
  CHECK(timed >= 9);
}

TEST_CASE("fit: a range fits by its upper end, and does not by its lower one") {
  const auto of = [](int64_t lower, int64_t upper) {
    return fit_between(DeviceLimit{"x", 100, 100, false}, lower, upper);
  };
  CHECK(of(10, 100).fits == true);
  CHECK(of(10, 101).fits == std::nullopt);
  CHECK(of(100, 101).may_fit());
  CHECK(of(101, 101).fits == false);
  CHECK(of(10, 130).headroom == -30);
  CHECK(fit_between(std::nullopt, 1, 2).will_fit());
  CHECK_FALSE(fit_between(std::nullopt, 1, 2).fits);
}

}  // namespace
}  // namespace shardplan::cli
