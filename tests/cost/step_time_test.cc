// SPDX-License-Identifier: Apache-2.0
// The time of a training step: its collectives against a run and by hand, its
// parts, and what must hold for any mesh, card and schedule.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/commands.h"
#include "tests/support/hf_config.h"
#include "tests/support/memory_host.h"
#include "tests/support/tiny_llama.h"
#include "tests/support/words.h"

namespace shardplan::cli {
namespace {

using testing::has_text;
using testing::Json;
using testing::MemoryHost;
using testing::Words;

// A card whose rates are round numbers; `links` has one tier for 8 devices.
std::string round_card(const std::string& more = "") {
  return R"(name: round
title: "A card with round numbers"
vendor: nobody
sources: {made: {title: "made up", read: 2026-11-28}}
devices_per_chip: {value: 1, source: made}
hbm_bytes: {value: 80GiB, source: made}
hbm_bytes_per_second: {value: 1.0e+12, source: made}
flops_per_second: {bf16: {value: 1.0e+14, source: made}}
links:
  - name: fast
    topology: switch
    bytes_per_second: {value: 1.0e+11, source: made}
    devices: {value: 8, source: made}
)" + more;
}
std::string slow_link() {
  return R"(  - name: slow
    topology: switch
    bytes_per_second: {value: 1.0e+10, source: made}
)";
}

struct TimedRun {
  int exit = 0;
  Json report;
  std::string text;

  const Json& summary(const char* key) const {
    return report.at("summary").at(key);
  }
  double total(const char* end = "estimate") const {
    return summary("step_time").at(end).get<double>();
  }
  // One end of a part; 0 where there is no such part.
  double part(const std::string& name, const char* end = "estimate") const {
    for (const Json& row : report.at("tables").at("step_time")) {
      if (row.at("part") == name) return row.at(end).get<double>();
    }
    return 0;
  }
  bool has_part(const std::string& name) const {
    const Json& rows = report.at("tables").at("step_time");
    return std::any_of(rows.begin(), rows.end(),
                       [&](const Json& row) { return row.at("part") == name; });
  }
  // Calls and bytes that a device sends, of one kind and axis.
  std::pair<int64_t, int64_t> sent(const std::string& kind,
                                   const std::string& axis,
                                   const std::string& direction) const {
    std::pair<int64_t, int64_t> sum;
    if (!report.at("tables").contains("step_collectives")) return sum;
    for (const Json& row : report.at("tables").at("step_collectives")) {
      if (row.at("kind") != kind || row.at("axis") != axis ||
          row.at("direction") != direction) {
        continue;
      }
      sum.first += row.at("count").get<int64_t>();
      sum.second += row.at("bytes_per_device").get<int64_t>();
    }
    return sum;
  }
};

// `analyze` of a small Llama, or of another config, on the round card.
TimedRun timed(Words more, const Json& config = testing::tiny_llama(),
               const std::string& card = round_card(slow_link())) {
  MemoryHost host;
  host.files["config.json"] = config.dump();
  host.files["card.yaml"] = card;
  Words words = {"analyze",     "config.json", "-r",     "@all_models",
                 "--optimizer", "adamw",       "--json", "--exit-zero"};
  const auto gives = [&](const char* flag) {
    return std::find(more.begin(), more.end(), flag) != more.end();
  };
  if (!gives("--hardware")) {
    words.insert(words.end(), {"--hardware", "./card.yaml"});
  }
  if (!gives("--batch")) words.insert(words.end(), {"--batch", "16"});
  if (!gives("--seq")) words.insert(words.end(), {"--seq", "64"});
  words.insert(words.end(), more.begin(), more.end());
  TimedRun result;
  result.exit = run(words, host);
  result.text = host.out + host.err;
  result.report = Json::parse(host.out);
  return result;
}

Json llama_of(int layers) {
  Json config = testing::tiny_llama();
  config["num_hidden_layers"] = layers;
  return config;
}

TEST_CASE("step time: what forward sends is what a run of the model sends") {
  for (const char* mesh : {"fsdp=2,tp=2", "dp=2,tp=4", "fsdp=4,tp=1"}) {
    const TimedRun step =
        timed({"-m", mesh, "--batch", "8", "--seq", "16"}, llama_of(2));
    MemoryHost host;
    host.files["config.json"] = llama_of(2).dump();
    const Words words = {"simulate", "config.json", "-r",     "@all_models",
                         "-m",       mesh,          "--full", "--tokens",
                         "8x16",     "--dtype",     "bf16",   "--json"};
    REQUIRE(run(words, host) <= 1);  // findings of the plan are none of ours
    const Json ran = Json::parse(host.out);
    const auto moved = ran.at("summary").at("bytes_moved").get<int64_t>();
    int64_t priced = 0;
    for (const Json& row : step.report.at("tables").at("step_collectives")) {
      if (row.at("direction") == "forward") {
        priced += row.at("bytes_per_device").get<int64_t>();
      }
    }
    const int64_t devices = step.summary("devices").get<int64_t>();
    CHECK_MESSAGE(priced * devices == moved, mesh);
  }
}

TEST_CASE("step time: collectives of backward, by hand") {
  constexpr int64_t kLayers = 4;
  SUBCASE("data parallelism sums each gradient once") {
    const TimedRun step = timed({"-m", "dp=4"});
    const auto sums = step.sent("all-reduce", "dp", "update");
    // Gradients are bf16; a ring sends 2 (n - 1) / n of them.
    const auto bytes = step.summary("total_bytes").get<int64_t>();
    CHECK(sums.second == bytes * 3 / 2);
    CHECK(step.sent("all-reduce", "dp", "backward").first == 0);
  }
  SUBCASE("FSDP gathers twice and scatters once") {
    const TimedRun step = timed({"-m", "fsdp=4", "--microbatches", "2"});
    const int64_t matrices = 7 * kLayers + 2;
    CHECK(step.sent("all-gather", "fsdp", "forward").first == 2 * matrices);
    // Layers alone: the head stays gathered, the embedding is not needed.
    CHECK(step.sent("all-gather", "fsdp", "backward").first == 2 * 7 * kLayers);
    const TimedRun repeated =
        timed({"-m", "fsdp=4", "--microbatches", "2", "--remat", "full"});
    CHECK(repeated.sent("all-gather", "fsdp", "backward") ==
          step.sent("all-gather", "fsdp", "backward"));
    CHECK(step.sent("reduce-scatter", "fsdp", "backward").first ==
          2 * matrices);
    // Norms are whole on each device, and their gradients are summed.
    CHECK(step.sent("all-reduce", "fsdp", "update").second ==
          2 * 64 * (2 * kLayers + 1) * 3 / 2);
  }
  SUBCASE("tensor parallelism sums twice a layer, either way") {
    const TimedRun step = timed({"-m", "tp=2"});
    CHECK(step.sent("all-reduce", "tp", "forward").first == 2 * kLayers + 1);
    CHECK(step.sent("all-reduce", "tp", "backward").first == 2 * kLayers + 1);
    const TimedRun again = timed({"-m", "tp=2", "--remat", "full"});
    CHECK(again.sent("all-reduce", "tp", "backward").first == 3 * kLayers + 1);
  }
  SUBCASE("sequence parallelism gathers and scatters instead") {
    const TimedRun step = timed({"-m", "tp=2", "--sequence-axes", "tp"});
    CHECK(step.sent("all-reduce", "tp", "forward").first == 0);
    CHECK(step.sent("reduce-scatter", "tp", "forward").first >= 2 * kLayers);
    CHECK(step.sent("all-gather", "tp", "backward").first >= 2 * kLayers);
  }
  SUBCASE("tokens go to experts over the axis of the batch, and back") {
    const Json config = testing::changed(
        testing::sample_config("qwen3-30b-a3b"), {{"num_hidden_layers", 2}});
    const TimedRun step = timed({"-m", "fsdp=8", "--view", "experts:ep=8",
                                 "--seq", "4096", "--remat", "full"},
                                config);
    CHECK(step.sent("all-to-all", "ep", "forward").first == 2 * 2);
    CHECK(step.sent("all-to-all", "ep", "backward").first == 2 * 4);
    CHECK(step.sent("all-gather", "ep", "forward").first == 0);
    CHECK(step.sent("all-gather", "ep", "backward").first == 0);
    // Each of 8,192 tokens of a device to 8 experts, 2,048 wide, in bf16.
    CHECK(step.sent("all-to-all", "ep", "forward").second ==
          int64_t{4} * 8192 * 8 * 2048 * 2 * 7 / 8);
  }
  SUBCASE("answers go home over the axis of the batch, and are summed") {
    const Json config = testing::changed(
        testing::sample_config("qwen3-30b-a3b"), {{"num_hidden_layers", 2}});
    const TimedRun step =
        timed({"-m", "fsdp=2,tp=4", "--view", "experts:ep=8"}, config);
    CHECK(step.sent("all-to-all", "fsdp", "forward").first == 2 * 2);
    CHECK(step.sent("all-reduce", "tp", "forward").first >= 2 * 2);
    CHECK(step.sent("all-gather", "tp", "forward").first == 0);
    CHECK(step.sent("all-gather", "ep", "forward").first == 0);
  }
  SUBCASE("ZeRO-3 gathers and scatters with each micro-batch") {
    const TimedRun step = timed({"-m", "dp=4", "--zero", "3", "--zero-axes",
                                 "dp", "--microbatches", "2"});
    CHECK(step.sent("all-gather", "dp", "forward").first == 2);
    CHECK(step.sent("reduce-scatter", "dp", "backward").first == 2);
    CHECK(step.sent("all-reduce", "dp", "update").first == 0);
  }
  SUBCASE("ZeRO-1 scatters gradients and gathers weights, once") {
    const TimedRun step =
        timed({"-m", "dp=4", "--zero", "1", "--zero-axes", "dp"});
    CHECK(step.sent("reduce-scatter", "dp", "update").first > 0);
    CHECK(step.sent("all-gather", "dp", "update").first > 0);
    CHECK(step.sent("all-reduce", "dp", "update").first == 0);
  }
}

TEST_CASE("step time: model FLOPs and utilisation, by hand") {
  const TimedRun step = timed({"-m", "dp=1"});
  // A layer's matrices, the head, and causal attention of 8 heads of 8.
  const double matrices =
      4.0 * (64 * 64 + 2 * 16 * 64 + 64 * 64 + 3 * 64 * 160);
  const double tokens = 16 * 64;
  const double flops =
      6 * tokens * (matrices + 512 * 64) + 3 * 4.0 * (4 * tokens * 64 * 64) / 2;
  CHECK(step.summary("mfu").get<double>() ==
        doctest::Approx(flops / (step.total() * 1e14)));
  CHECK(step.summary("tokens_per_second").get<double>() ==
        doctest::Approx(tokens / step.total()));
}

TEST_CASE("step time: layers times the time of a layer") {
  const double four = timed({"-m", "dp=1"}).part("products");
  const double eight = timed({"-m", "dp=1"}, llama_of(8)).part("products");
  const double twelve = timed({"-m", "dp=1"}, llama_of(12)).part("products");
  CHECK(twelve - eight == doctest::Approx(eight - four));
  CHECK(eight > four);
}

TEST_CASE("step time: the ends are in order, for the step and its parts") {
  for (const Words& words : std::vector<Words>{
           {"-m", "dp=2,tp=2"},
           {"-m", "fsdp=8,tp=2", "--remat", "block"},
           {"-m", "pp=4,fsdp=2", "--stages", "pp", "--microbatches", "8"},
           {"-m", "dp=4", "--zero", "1", "--zero-axes", "dp", "--framework",
            "megatron"},
           {"-m", "fsdp=4", "--framework", "torch"},
           {"-m", "fsdp=4", "--framework", "jax", "--hide", "none"}}) {
    const TimedRun step = timed(words);
    CHECK(step.total("lower") > 0);
    CHECK(step.total("lower") <= step.total());
    CHECK(step.total() <= step.total("upper"));
    double exposed = 0;
    for (const Json& row : step.report.at("tables").at("step_time")) {
      const auto lower = row.at("lower").get<double>();
      const auto estimate = row.at("estimate").get<double>();
      CHECK(lower <= estimate);
      CHECK(estimate <= row.at("upper").get<double>());
      CHECK(row.at("exposed").get<double>() <= estimate * (1 + 1e-9));
      exposed += row.at("exposed").get<double>();
    }
    // What is not hidden adds up to the step.
    CHECK(exposed == doctest::Approx(step.total()).epsilon(1e-6));
  }
}

TEST_CASE("step time: hiding less is never faster") {
  for (const Words& words : std::vector<Words>{
           {"-m", "fsdp=8"}, {"-m", "fsdp=16,tp=2"}, {"-m", "dp=4,tp=2"}}) {
    const auto with = [&](const char* hide) {
      Words all = words;
      all.insert(all.end(), {"--hide", hide});
      return timed(all).total();
    };
    constexpr double kRounding = 1 + 1e-9;
    CHECK(with("full") <= with("framework") * kRounding);
    CHECK(with("framework") <= with("none") * kRounding);
  }
}

TEST_CASE("step time: a slower link never speeds a step up") {
  std::string slow = round_card();
  const size_t at = slow.find("1.0e+11");
  slow.replace(at, 7, "0.5e+11");
  for (const Words& words : std::vector<Words>{
           {"-m", "fsdp=8"}, {"-m", "tp=8"}, {"-m", "dp=2,tp=4"}}) {
    const TimedRun fast = timed(words, testing::tiny_llama(), round_card());
    const TimedRun half = timed(words, testing::tiny_llama(), slow);
    for (const char* end : {"lower", "estimate", "upper"}) {
      CHECK(fast.total(end) <= half.total(end));
    }
  }
}

TEST_CASE("step time: more devices on a fast link never raise the lower end") {
  double before = 0;
  for (const char* mesh : {"dp=1", "dp=2", "dp=4", "dp=8"}) {
    const double lower = timed({"-m", mesh}, llama_of(4)).total("lower");
    if (before > 0) CHECK(lower <= before * (1 + 1e-9));
    before = lower;
  }
}

TEST_CASE("step time: a pipeline's bubble") {
  const auto with = [&](const char* microbatches, const char* schedule) {
    return timed({"-m", "pp=4", "--stages", "pp", "--microbatches",
                  microbatches, "--schedule", schedule});
  };
  const TimedRun one = with("1", "1f1b");
  const TimedRun sixteen = with("16", "1f1b");
  CHECK(one.part("bubble") / one.total() >
        3 * sixteen.part("bubble") / sixteen.total());
  CHECK(sixteen.sent("permute", "pp", "forward").first == 16);
  CHECK(!timed({"-m", "fsdp=4"}).has_part("bubble"));
}

TEST_CASE("step time: what is offloaded is copied") {
  const TimedRun step = timed({"-m", "dp=1", "--remat", "qkv_proj_offloaded"});
  REQUIRE(step.report.at("summary").contains("host_bracket"));
  CHECK(step.part("host copies") > 0);
  CHECK(!timed({"-m", "dp=1"}).has_part("host copies"));
}

TEST_CASE("step time: state in host memory is updated there, or fetched") {
  const auto with = [&](const char* framework, Words offloads) {
    Words words = {"-m", "fsdp=4", "--framework", framework};
    for (const std::string& what : offloads) {
      words.insert(words.end(), {"--offload", what});
    }
    return timed(words);
  };
  const auto bracket = [](const TimedRun& run, const char* of,
                          const char* end) {
    return run.report.at("summary").at(of).at(end).get<double>();
  };
  const TimedRun plain = with("torch", {});
  for (const Words& what :
       {Words{"optimizer"}, Words{"weights"}, Words{"optimizer", "weights"}}) {
    const TimedRun torch = with("torch", what);
    CHECK(torch.total() > plain.total());
    CHECK(torch.part("optimizer") > plain.part("optimizer"));
    CHECK(torch.part("host copies") > 0);
    for (const char* end : {"lower", "estimate", "upper"}) {
      CHECK(bracket(torch, "memory_bracket", end) <
            bracket(plain, "memory_bracket", end));
    }
  }
  // JAX fetches all of the state and sends it back, at 20 GB/s.
  const TimedRun jax = with("jax", {"optimizer"});
  CHECK(jax.part("host copies") ==
        doctest::Approx(2 * bracket(jax, "host_bracket", "estimate") / 2e10));
  CHECK(jax.part("optimizer") ==
        doctest::Approx(with("jax", {}).part("optimizer")));
  CHECK(bracket(jax, "memory_bracket", "lower") <
        bracket(with("jax", {}), "memory_bracket", "lower"));
  CHECK(has_text(
      timed({"-m", "fsdp=4", "--offload", "activations", "--remat", "block"})
          .text,
      "both set what is saved for backward"));
}

TEST_CASE("step time: none, and why, where the profile does not suffice") {
  const TimedRun far =
      timed({"-m", "dp=16"}, testing::tiny_llama(), round_card());
  CHECK(far.summary("step_time").is_null());
  CHECK(has_text(far.text, "no link that spans dp"));
  std::string blind = round_card();
  const size_t at = blind.find("flops_per_second");
  blind.erase(at, blind.find('\n', at) - at + 1);
  const TimedRun unknown = timed({"-m", "dp=2"}, testing::tiny_llama(), blind);
  CHECK(unknown.summary("step_time").is_null());
  CHECK(has_text(unknown.text, "has no matmul rate in bf16"));
  const TimedRun narrow = timed({"-m", "dp=2", "--fp8", "delayed"});
  CHECK(narrow.summary("step_time").is_null());
  CHECK(has_text(narrow.text, "has no matmul rate in f8"));
}

TEST_CASE("step time: an axis that crosses slices takes the network") {
  const TimedRun one = timed({"-m", "fsdp=8", "--hardware", "tpu-v5e"});
  const TimedRun two =
      timed({"-m", "fsdp=8", "--slices", "2", "--hardware", "tpu-v5e"});
  CHECK(two.total() > one.total());
  CHECK(two.total("lower") > one.total("lower"));
  const auto links = [](const TimedRun& step) {
    std::string all;
    for (const Json& row : step.report.at("tables").at("step_collectives")) {
      all += row.at("link").get<std::string>() + " ";
    }
    return all;
  };
  CHECK_FALSE(has_text(links(one), "dcn"));
  CHECK(has_text(links(two), "dcn"));
}

TEST_CASE("step time: an axis inside slices stays on their links") {
  const Words flags = {"--slices", "2", "--hardware", "tpu-v5e"};
  Words inside = {"-m", "dp=2,tp=4"};
  inside.insert(inside.end(), flags.begin(), flags.end());
  const TimedRun step = timed(inside);
  for (const Json& row : step.report.at("tables").at("step_collectives")) {
    CHECK(has_text(row.at("link").get<std::string>(), "dcn") ==
          (row.at("axis") == "dp"));
  }
}

TEST_CASE("step time: without a profile or a workload there is none") {
  const TimedRun step = timed({"-m", "dp=2"});
  CHECK(step.report.at("tables").contains("step_time"));
  MemoryHost host;
  host.files["config.json"] = testing::tiny_llama().dump();
  const Words words = {"analyze", "config.json", "-r",   "@all_models", "-m",
                       "dp=2",    "--batch",     "4",    "--seq",       "32",
                       "--json",  "--optimizer", "adamw"};
  CHECK(run(words, host) == 0);
  CHECK(!Json::parse(host.out).at("summary").contains("step_time"));
}

TEST_CASE("step time: a sweep compares points by it where asked") {
  MemoryHost host;
  host.files["config.json"] = testing::tiny_llama().dump();
  host.files["card.yaml"] = round_card(slow_link());
  const Words words = {"sweep",      "config.json", "-r",        "@all_models",
                       "--over",     "fsdp,tp",     "--devices", "16",
                       "--hardware", "./card.yaml", "--batch",   "16",
                       "--seq",      "64",          "--json",    "--optimizer",
                       "adamw",      "--objective", "step-time"};
  CHECK(run(words, host) == 0);
  const Json report = Json::parse(host.out);
  double least = 0;
  for (const Json& row : report.at("tables").at("points")) {
    if (row.at("fit") != "yes" || row.at("errors") != 0) continue;
    const auto time = row.at("step_time").at("estimate").get<double>();
    least = least == 0 ? time : std::min(least, time);
  }
  const Json& frontier = report.at("tables").at("frontier");
  REQUIRE(!frontier.empty());
  CHECK(frontier[0].at("step_time").at("estimate").get<double>() == least);
  Words without = words;
  without.erase(without.begin() + 8, without.begin() + 10);
  MemoryHost other;
  other.files = host.files;
  CHECK(run(without, other) == 2);
  CHECK(has_text(other.out + other.err, "--objective step-time"));
}

}  // namespace
}  // namespace shardplan::cli
