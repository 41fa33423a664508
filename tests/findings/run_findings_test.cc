// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "findings/findings.h"
#include "findings/program_findings.h"
#include "sim/verdict.h"
#include "tests/support/messages.h"
#include "tests/support/safetensors.h"
#include "tests/support/simulating.h"

namespace shardplan::cli {
namespace {

using testing::MemoryHost;
using testing::messages;
using testing::simulating;

Program program_of(const SimulateInput& input) {
  return partition(input.graph, input.session.plan.mesh, input.placed.wanted,
                   input.how);
}

// Reports what is found in a run.
void report_run(const SimulateInput& input, const Program& program,
                const Simulation& outcome, Diagnostics& diags) {
  lint(run_input(input, program_input(input, program), outcome), diags);
}

ValueId value_named(const Graph& graph, const std::string& name) {
  for (const ValueId v : graph.values.ids()) {
    if (graph.values[v].name == name) return v;
  }
  return {};
}

TEST_CASE("a mismatch names the operation, the device and the rules") {
  const auto s = simulating();
  REQUIRE(s->input);
  const Program program = program_of(*s->input);
  Simulation outcome;
  outcome.mismatch =
      Divergence{value_named(s->input->graph, "y"), 3, 0.25, false};
  outcome.structural_error = 0.25;
  Diagnostics diags;
  report_run(*s->input, program, outcome, diags);
  REQUIRE(diags.all().size() == 1);
  const Diagnostic& error = diags.all()[0];
  CHECK(
      messages(diags) ==
      "SP504 block.yaml:11:10 the sharded run computes a different result: `y` "
      "differs first on device 3 (fsdp 1, tp 1)");
  REQUIRE(error.labels.size() == 2);
  CHECK(testing::place_text(error.labels[1].where) == "rules.yaml:3:6");
  CHECK(error.labels[1].text == "places `mlp/down`");
  REQUIRE(error.facts.size() == 3);
  CHECK(error.facts[0] == "computed by `y` (linear)");
  CHECK(error.facts[1] == "structural error 0.25; a mismatch is above 9.3e-10");
  CHECK(error.facts[2] ==
        "`mlp/down` is sharded as P(tp, fsdp) by rules.yaml:3");
}

TEST_CASE("a value without parameters names those before it") {
  const auto s = simulating();
  REQUIRE(s->input);
  Simulation outcome;
  outcome.mismatch =
      Divergence{value_named(s->input->graph, "a"), 0, kInfinity, true};
  outcome.structural_error = kInfinity;
  Diagnostics diags;
  report_run(*s->input, program_of(*s->input), outcome, diags);
  CHECK(diags.all()[0].facts[0] ==
        "computed by `a` (silu), in isolation on fresh inputs");
  CHECK(diags.all()[0].facts[2] ==
        "`mlp/up` is sharded as P(fsdp, tp) by rules.yaml:2");
}

TEST_CASE("lost precision is a warning above 4, and a mismatch says more") {
  const auto s = simulating();
  REQUIRE(s->input);
  const Program program = program_of(*s->input);
  for (const double amplification : {1.0, 4.0, 4.5, kInfinity}) {
    CAPTURE(amplification);
    Simulation outcome;
    outcome.error_amplification = amplification;
    Diagnostics diags;
    report_run(*s->input, program, outcome, diags);
    CHECK(diags.all().size() == (amplification > 4 ? 1 : 0));
    if (diags.all().empty()) continue;
    CHECK(diags.all()[0].code == Code::ErrorAmplification);
    CHECK(diags.all()[0].message.find("inf") == std::string::npos);
  }
}

TEST_CASE("gathering only to cut differently is a warning, asked for or not") {
  const auto s =
      simulating({{"block.yaml", R"(graph: block
inputs:
  x: {shape: [4, 16], spec: [fsdp, null]}
parameters:
  up: {name: mlp/up}
ops:
  - {op: constraint, in: x, out: c, spec: [tp, null]}
  - {op: linear, in: [c, up], out: y}
)"},
                  {"rules.yaml", "rules:\n  - [\"\", [tp, null]]\n"}},
                 "fsdp=4,tp=2");
  REQUIRE_MESSAGE(s->input, messages(s->diags));
  Diagnostics diags;
  const Program program = program_of(*s->input);
  lint(program_input(*s->input, program), diags);
  CHECK(messages(diags) ==
        "SP502 warning block.yaml:7:10 `c` is gathered over fsdp only to be "
        "resharded for `c` (constraint)");
}

TEST_CASE("the same reshard in every layer is one finding") {
  const auto s =
      simulating({{"model.json", R"({
  "layers/0/w": {"shape": [16, 16], "dtype": "f32"},
  "layers/1/w": {"shape": [16, 16], "dtype": "f32"},
  "layers/2/w": {"shape": [16, 16], "dtype": "f32"},
  "layers/3/w": {"shape": [16, 16], "dtype": "f32"}
})"},
                  {"block.yaml", R"(graph: block
inputs:
  x: {shape: [8, 16], spec: [null, tp]}
parameters:
  w0: {name: layers/0/w}
  w1: {name: layers/1/w}
  w2: {name: layers/2/w}
ops:
  - {op: linear, in: [x, w0], out: layers.0.h}
  - {op: linear, in: [layers.0.h, w1], out: layers.1.h}
  - {op: linear, in: [layers.1.h, w2], out: layers.2.h}
)"},
                  {"rules.yaml", "rules:\n  - [\"\", [null, tp]]\n"}},
                 "tp=2");
  REQUIRE_MESSAGE(s->input, messages(s->diags));
  Diagnostics diags;
  const Program program = program_of(*s->input);
  lint(program_input(*s->input, program), diags);
  CHECK(
      messages(diags) ==
      "SP501 note block.yaml:9:10 `x` is resharded for `layers.0.h` (linear): "
      "all-gather over tp\n"
      "SP501 note block.yaml:10:10 `layers.0.h` is resharded for `layers.1.h` "
      "(linear): all-gather over tp\n"
      "SP507 warning the forward pass never reads 1 parameter of the model");
  const Diagnostic& folded = diags.all()[1];
  CHECK(folded.findings == 2);
  REQUIRE(folded.facts.size() >= 3);
  CHECK(folded.facts[1] == "all devices together send 1.00 KiB");
  CHECK(folded.facts[2] == "2 times: at every `layers.*.h`");
}

TEST_CASE("choices that rounding turns over are counted") {
  const auto s = simulating();
  REQUIRE(s->input);
  const Program program = program_of(*s->input);
  Diagnostics diags;
  report_run(*s->input, program, Simulation(), diags);
  CHECK(diags.all().empty());
  Simulation outcome;
  outcome.decision_flips = 3;
  report_run(*s->input, program, outcome, diags);
  CHECK(messages(diags) ==
        "SP510 note on its own, the sharded run would make 3 choices "
        "differently");
}

TEST_CASE("tokens without a place are counted") {
  const auto s = simulating();
  REQUIRE(s->input);
  const Program program = program_of(*s->input);
  Diagnostics diags;
  Simulation outcome;
  outcome.routed = 64;
  report_run(*s->input, program, outcome, diags);
  CHECK(diags.all().empty());
  outcome.dropped = 16;
  report_run(*s->input, program, outcome, diags);
  CHECK(
      messages(diags) ==
      "SP509 warning experts lack capacity for 16 of 64 tokens routed to them "
      "(25.0 %)");
}

// A checkpoint of NaN was "ok: sharded and unsharded agree to 12 digits", and a
// bias of zeros hid that it was added on every device.
struct Checkpoint {
  std::vector<float> w = numbers(16, 0.5F);
  std::vector<float> bias = numbers(4, 0.25F);

  static std::vector<float> numbers(size_t count, float step) {
    std::vector<float> made;
    for (size_t i = 0; i < count; ++i) {
      made.push_back(step * static_cast<float>(i % 7) - 1);
    }
    return made;
  }
  // The summary, and messages of the code.
  nlohmann::json run(std::vector<std::string> more = {},
                     const std::string& mesh = "tp=2") const {
    MemoryHost host;
    std::string file =
        testing::safetensors({{"w", "F32", {4, 4}}, {"bias", "F32", {4}}});
    std::memcpy(file.data() + file.size() - 20 * sizeof(float), w.data(),
                16 * sizeof(float));
    std::memcpy(file.data() + file.size() - 4 * sizeof(float), bias.data(),
                4 * sizeof(float));
    host.files["model.safetensors"] = file;
    host.files["block.yaml"] = R"(graph: block
inputs:
  x: {shape: [8, 4], spec: []}
parameters:
  w: {spec: [tp, null]}
  bias: {spec: []}
ops:
  - {op: linear, in: [x, w], out: h,
     shard_map: {in_specs: [[null, tp], [tp]], out_specs: [], psum: [tp]}}
  - {op: add, in: [h, bias], out: y}
probes: [y]
)";
    host.files["rules.yaml"] =
        "rules:\n  - [\"w\", [tp]]\n  - [\"bias\", []]\n";
    std::vector<std::string> words = {
        "simulate", "model.safetensors", "--graph", "block.yaml",
        "--rules",  "rules.yaml",        "--mesh",  mesh,
        "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const int code = cli::run(words, host);
    nlohmann::json report = nlohmann::json::parse(host.out);
    CHECK(code == (report["summary"]["errors"] == 0 ? 0 : 1));
    return report;
  }
};

std::string said(const nlohmann::json& report) {
  std::string text;
  for (const auto& finding : report["diagnostics"]) {
    text += finding["code"].get<std::string>() + " " +
            finding["message"].get<std::string>() + "\n";
  }
  return text;
}

TEST_CASE("a checkpoint of numbers is ok, one of NaN is not") {
  Checkpoint c;
  const auto fine = c.run();
  CHECK(fine["summary"]["verdict"] == "ok");
  CHECK(said(fine) == "");
  CHECK_FALSE(fine["summary"].contains("first_non_finite"));
  c.w[5] = std::numeric_limits<float>::quiet_NaN();
  const auto odd = c.run();
  CHECK(odd["summary"]["verdict"] == "inconclusive");
  CHECK(odd["summary"]["first_non_finite"] == "w");
  CHECK(odd["summary"]["error_amplification"].is_null());
  CHECK(odd["summary"]["bound_ratio"].is_null());
  CHECK(said(odd) == "SP512 `w` has values that are not finite\n");
  CHECK(odd["diagnostics"][0]["facts"][0] == "1 of its 16 values, NaN");
  CHECK(odd["diagnostics"][0]["facts"][1] == "they come from the checkpoint");
  // Other numbers judge the plan.
  CHECK(c.run({"--values", "random"})["summary"]["verdict"] == "ok");
  CHECK(c.run({"--values", "field"})["summary"]["verdict"] == "ok");
}

TEST_CASE("a checkpoint with zeros cannot tell") {
  Checkpoint c;
  c.bias.assign(4, 0.0F);
  const auto zero = c.run();
  CHECK(zero["summary"]["verdict"] == "inconclusive");
  CHECK(said(zero) ==
        "SP513 this run's values could not have exposed a fault: `bias` is all "
        "zero\n");
  c.bias.assign(4, 1e-30F);
  CHECK(
      said(c.run()) ==
      "SP513 this run's values could not have exposed a fault: `y` is the same "
      "without `bias`, to 2^-30\n");
  c = {};
  c.w.assign(16, 0.0F);
  c.w[15] = 1;
  CHECK(said(c.run()) ==
        "SP513 this run's values could not have exposed a fault: at most one "
        "device along tp contributes to `h`\n");
  CHECK(c.run({"--values", "random"})["summary"]["verdict"] == "ok");
}

TEST_CASE("a variant may not tell where the run asked for does") {
  Checkpoint c;
  for (size_t i = 8; i < 16; ++i) c.w[i] = c.w[i - 8];
  const auto varied = c.run({"--vary", "tp"}, "tp=4");
  // Of four devices neighbours have different rows, of two both have the same.
  CHECK(said(varied) ==
        "SP513 on tp=2, algorithm ring this run's values could not have "
        "exposed a fault\n");
  CHECK(c.run({"--vary", "tp", "--values", "random"},
              "tp=4")["summary"]["errors"] == 0);
}

TEST_CASE("a choice of the plan is not a choice of rounding") {
  const auto s = simulating();
  REQUIRE(s->input);
  Diagnostics diags;
  Simulation outcome;
  outcome.decision_flips = 3;
  outcome.mismatch = Divergence{ValueId(0), 0, 1, false, OtherChoice{1, 2}};
  report_run(*s->input, program_of(*s->input), outcome, diags);
  REQUIRE(diags.all().size() == 1);
  CHECK(diags.all()[0].code == Code::SimulationMismatch);
}

TEST_CASE("what a plan asks for is not a finding") {
  const auto s = simulating();
  REQUIRE(s->input);
  Diagnostics diags;
  const Program program = program_of(*s->input);
  lint(program_input(*s->input, program), diags);
  CHECK(diags.all().empty());
}

TEST_CASE("collectives serve a value of the graph file") {
  const auto s = simulating();
  REQUIRE(s->input);
  const Program program = program_of(*s->input);
  std::string served;
  for (const Instruction& at : program.instructions) {
    if (at.kind != Instruction::Kind::Collective) continue;
    served += served_value(program, at) + " ";
  }
  CHECK(served == "h y y ");
}

}  // namespace

}  // namespace shardplan::cli
