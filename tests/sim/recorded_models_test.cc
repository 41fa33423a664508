// SPDX-License-Identifier: Apache-2.0
// Tiny checkpoints of every architecture against what transformers computes
// from them (tests/data/record_checkpoints.py).
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "base/real_host.h"
#include "graph/build.h"
#include "graph/elementwise.h"
#include "graph/graph.h"
#include "graph/tensor.h"
#include "io/load.h"
#include "model/forward/recognise.h"
#include "resolve/resolve.h"
#include "sim/activations.h"
#include "sim/execute.h"
#include "sim/simulate.h"
#include "sim/values.h"
#include "sim/verdict.h"
#include "spmd/partition.h"
#include "tests/support/built_graph.h"
#include "tests/support/loaded_rules.h"
#include "tests/support/messages.h"
#include "tests/support/recorded_programs.h"
#include "tests/support/small_graph.h"
#include "tests/support/source_dir.h"
#include "tests/support/whole_model.h"
#include "tests/support/whole_values.h"

namespace shardplan {
namespace {

namespace fs = std::filesystem;

using testing::messages;
using testing::simulated;
using testing::whole_model_of;
using testing::WholeModel;

fs::path checkpoints() { return source_dir() / "tests/data/checkpoints"; }

// Folders, whose names start with that of the recording: "llama-flax" holds the
// numbers of "llama".
std::vector<std::string> checkpoint_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(checkpoints())) {
    if (entry.is_directory()) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

struct Numbers {
  Manifest manifest;
  StoredTensors tensors;

  const StoredTensor& at(std::string_view name) const {
    for (size_t i = 0; i < manifest.size(); ++i) {
      if (manifest.name(i) == name) return tensors[i];
    }
    FAIL("no tensor " << name);
    return tensors.front();
  }
};

Numbers open(const fs::path& path, Host& host) {
  Diagnostics diags;
  auto manifest = load_manifest(path, host, diags);
  CAPTURE(messages(diags));
  REQUIRE(manifest);
  CHECK(find_weights(path, *manifest, host));
  auto tensors = open_weights(path, *manifest, host, diags);
  REQUIRE(tensors);
  return {*std::move(manifest), *std::move(tensors)};
}

fs::path expected_path(const std::string& name) {
  fs::path own = checkpoints() / (name + ".expected.safetensors");
  if (fs::exists(own)) return own;
  const std::string origin = name.substr(0, name.find('-'));
  return checkpoints() / (origin + ".expected.safetensors");
}

// Token ids of 64 bits.
Tensor tokens_of(const StoredTensor& stored) {
  REQUIRE(stored.dtype == DType::I64);
  Tensor tokens = make_tensor(Element::F32, stored.shape);
  for (int64_t i = 0; i < tokens.elements(); ++i) {
    int64_t id = 0;
    std::memcpy(&id, stored.data + static_cast<size_t>(i) * sizeof id,
                sizeof id);
    tokens.data<float>()[i] = static_cast<float>(id);
  }
  return tokens;
}

// A checkpoint as a graph with its numbers, and what must come out.
struct Checkpoint {
  Numbers weights;
  Numbers expected;
  Tensor tokens;
  std::unique_ptr<WholeModel> model;

  const Graph& graph() const { return *model->graph; }
  Tensor read(ValueId number, Element element) const {
    const Value& value = graph().values[number];
    if (value.integers_below > 0) return converted(tokens, element);
    return load(weights.at(value.parameter), element);
  }
};

Checkpoint read_checkpoint(const std::string& name) {
  const auto host = make_real_host();
  Checkpoint result;
  result.weights = open(checkpoints() / name, *host);
  result.expected = open(expected_path(name), *host);
  result.tokens = tokens_of(result.expected.at("input_ids"));
  Diagnostics diags;
  ForwardPass pass;
  pass.batch = result.tokens.shape[0];
  pass.length = result.tokens.shape[1];
  auto model = recognise_model(result.weights.manifest, diags);
  CAPTURE(messages(diags));
  REQUIRE(model);
  result.model =
      whole_model_of(result.weights.manifest, *std::move(model), pass);
  CAPTURE(result.model->messages);
  REQUIRE(result.model->graph);
  return result;
}

void check_agreement(const Checkpoint& checkpoint, const RunOutputs& outputs) {
  Diagnostics diags;
  const auto errors = compare_expected(checkpoint.graph(), outputs,
                                       checkpoint.expected.manifest,
                                       checkpoint.expected.tensors, diags);
  CAPTURE(messages(diags));
  REQUIRE(errors);
  CHECK(errors->size() == checkpoint.graph().outputs.size());
  for (const ExpectedError& error : *errors) {
    CAPTURE(error.unsharded);
    CAPTURE(error.sharded);
    CHECK(error.agrees());
  }
}

TEST_CASE("every tiny checkpoint gives the logits of its framework") {
  const std::vector<std::string> names = checkpoint_names();
  CHECK(names.size() >= 14);
  for (const std::string& name : names) {
    CAPTURE(name);
    const Checkpoint checkpoint = read_checkpoint(name);
    const Graph& graph = checkpoint.graph();
    PerValue<Tensor> given(graph.values.size());
    std::set<std::string> read;
    for (const ValueId v : given.ids()) {
      const Value& value = graph.values[v];
      if (value.kind == Value::Kind::Result) continue;
      given[v] = checkpoint.read(v, Element::F32);
      if (!value.parameter.empty()) read.insert(value.parameter);
    }
    // No weight is left unread, but a bias that an own matrix of the head
    // replaces with its own.
    const size_t unread = name == "bert-untied5" ? 1 : 0;
    CHECK(read.size() + unread == checkpoint.weights.manifest.size());
    const PerValue<Tensor> values = evaluate(graph, given, Arithmetic::F32);
    std::vector<Tensor> outputs;
    for (const ValueId output : graph.outputs) {
      outputs.push_back(values[output]);
    }
    check_agreement(checkpoint, {outputs, outputs, outputs, outputs});
  }
}

// Some have the names of another.
std::string rules_for(const std::string& architecture) {
  if (architecture == "gemma") return "@llama";
  if (architecture == "gemma3_text") return "@gemma3";
  return "@" + architecture;
}

TEST_CASE("so does every one of them sharded with its family's rules") {
  for (const std::string& name : checkpoint_names()) {
    CAPTURE(name);
    const Checkpoint checkpoint = read_checkpoint(name);
    const std::string rules =
        rules_for(checkpoint.model->model->architecture->name);
    const auto run_recorded =
        simulated(*checkpoint.model, rules, "fsdp=2,tp=2",
                  ValueSource::Checkpoint, [&](ValueId value, Element element) {
                    return checkpoint.read(value, element);
                  });
    CAPTURE(run_recorded.messages);
    REQUIRE(run_recorded.simulation);
    CHECK_FALSE(run_recorded.simulation->mismatch);
    CHECK_FALSE(run_recorded.moves.empty());
    const Simulation& run = *run_recorded.simulation;
    check_agreement(checkpoint, {run.exact_unsharded, run.exact_sharded,
                                 run.unsharded, run.sharded});
  }
}

TEST_CASE("a wrong weight is noticed") {
  Checkpoint checkpoint = read_checkpoint("llama");
  const auto run_recorded = simulated(
      *checkpoint.model, "@llama", "tp=2", ValueSource::Checkpoint,
      [&](ValueId number, Element element) {
        const Value& value = checkpoint.graph().values[number];
        Tensor tensor = checkpoint.read(number, element);
        if (value.parameter == "model.layers.0.self_attn.k_proj.weight") {
          tensor = copy(tensor);
          tensor.data<float>()[0] += 0.1F;
        }
        return tensor;
      });
  REQUIRE(run_recorded.simulation);
  Diagnostics diags;
  const Simulation& run = *run_recorded.simulation;
  const auto errors = compare_expected(
      checkpoint.graph(),
      {run.exact_unsharded, run.exact_sharded, run.unsharded, run.sharded},
      checkpoint.expected.manifest, checkpoint.expected.tensors, diags);
  REQUIRE(errors);
  CHECK_FALSE(errors->front().agrees());
}

// Our partitioner and executor against JAX and XLA on the same small programs
// (tests/support/recorded_programs.h): equal results, and a table of what each
// sends, which scripts/validate compares in docs/validation.md.

using testing::recorded_numbers;
using testing::recorded_programs;
using testing::RecordedProgram;

// A recorded program, ready to run. Does not move: `program` points into it.
struct Case {
  Graph graph;
  Program program{Mesh({{"dp", 1}}), &graph, {}, {}, {}, {}};
  PerValue<Tensor> values;  // of inputs and parameters, in doubles
};

std::unique_ptr<Case> prepare(const RecordedProgram& recorded) {
  Diagnostics diags;
  const testing::DescribedProgram described = testing::described(recorded);
  auto graph = build_graph(described.graph, described.parameters, diags);
  REQUIRE_MESSAGE(graph, testing::messages(diags));
  auto made = std::make_unique<Case>();
  made->graph = std::move(*graph);
  const PerValue<Value>& values = made->graph.values;
  WantedLayouts wanted(values.size());
  made->values.resize(values.size());
  for (const ValueId v : values.ids()) {
    const size_t rank = values[v].shape.size();
    if (values[v].kind == Value::Kind::Parameter) {
      wanted[v] =
          layout_of(recorded.mesh, recorded.specs.at(values[v].name), rank);
    } else if (values[v].spec) {
      wanted[v] = layout_of(recorded.mesh, *values[v].spec, rank);
    }
    if (values[v].kind == Value::Kind::Result) continue;
    made->values[v] =
        make_tensor(Element::F64, values[v].shape,
                    recorded_numbers(values[v].name, values[v].shape,
                                     values[v].integers_below));
  }
  made->program = partition(made->graph, recorded.mesh, wanted, {});
  return made;
}

// The outputs of a sharded run, put together.
std::vector<Tensor> run_recorded(const Case& what, Arithmetic arithmetic,
                                 std::span<const Tensor> values) {
  ExecuteOptions options;
  options.arithmetic = arithmetic;
  const Execution execution = execute(what.program, values, options);
  std::vector<Tensor> outputs;
  for (const RegisterId r : what.program.outputs) {
    const Register& at = what.program.registers[r];
    outputs.push_back(assemble(what.program.mesh, at.layout,
                               what.graph.values[at.value].shape,
                               execution.registers[r]));
  }
  return outputs;
}

TEST_CASE("sharded runs give the results that JAX recorded") {
  for (const RecordedProgram& recorded : recorded_programs()) {
    CAPTURE(recorded.name);
    const auto what = prepare(recorded);
    PerValue<Tensor> values;
    for (const Tensor& value : what->values) {
      values.push_back(value.storage ? converted(value, Element::F32) : value);
    }
    const std::vector<Tensor> outputs =
        run_recorded(*what, Arithmetic::F32, values);
    REQUIRE(outputs.size() == recorded.results.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      REQUIRE(outputs[i].shape == recorded.results[i].shape);
      const Tensor expected = make_tensor(
          Element::F64, recorded.results[i].shape, recorded.results[i].values);
      CHECK(structural_error(expected, converted(outputs[i], Element::F64)) <
            1e-5);
    }
  }
}

TEST_CASE("sharded runs of the recorded programs equal unsharded ones") {
  for (const RecordedProgram& recorded : recorded_programs()) {
    CAPTURE(recorded.name);
    const auto what = prepare(recorded);
    PerValue<Tensor> residues = what->values;
    for (const ValueId v : residues.ids()) {
      const Value& value = what->graph.values[v];
      if (!residues[v].storage || value.integers_below != 0) continue;
      std::vector<double> numbers = values_of(residues[v]);
      for (double& x : numbers) x = field::constant(x);
      residues[v] = make_tensor(Element::F64, value.shape, numbers);
    }
    for (const Arithmetic arithmetic : {Arithmetic::F64, Arithmetic::Field}) {
      const auto& values =
          arithmetic == Arithmetic::F64 ? what->values : residues;
      const std::vector<Tensor> outputs =
          run_recorded(*what, arithmetic, values);
      const PerValue<Tensor> all = evaluate(what->graph, values, arithmetic);
      for (size_t i = 0; i < outputs.size(); ++i) {
        const Tensor& expected = all[what->graph.outputs[i]];
        if (arithmetic == Arithmetic::F64) {
          CHECK(structural_error(expected, outputs[i]) < kMismatch);
        } else {
          CHECK(bitwise_equal(expected, outputs[i]));
        }
      }
    }
  }
}

std::string in_quotes(const std::string& text) { return '"' + text + '"'; }

// One line: `"matmul: rows": [["all-reduce", "tp", 1792]]`, where bytes are
// those that the busiest device was seen to send.
std::string line_of(const RecordedProgram& recorded) {
  const auto what = prepare(recorded);
  const Execution execution =
      execute(what->program, what->values, {.arithmetic = Arithmetic::F64});
  std::string rows;
  for (const InstructionId i : execution.sent.ids()) {
    const Instruction& at = what->program.instructions[i];
    const int64_t bytes =
        *std::max_element(execution.sent[i].begin(), execution.sent[i].end());
    if (bytes == 0) continue;
    std::string axes;
    for (const AxisName& axis : at.axes)
      axes += (axes.empty() ? "" : "+") + axis;
    rows += (rows.empty() ? "[" : ", [") +
            in_quotes(std::string(collective_name(at.collective))) + ", " +
            in_quotes(axes) + ", " + std::to_string(bytes) + "]";
  }
  return in_quotes(recorded.name) + ": [" + rows + "]";
}

TEST_CASE("our collectives of the recorded programs stay fixed") {
  std::string text;
  for (const RecordedProgram& recorded : recorded_programs()) {
    text += (text.empty() ? "{\n" : ",\n") + line_of(recorded);
  }
  text += "\n}\n";
  const auto path = source_dir() / "tests/data/validation/xla_ours.json";
  if (std::getenv("SHARDPLAN_UPDATE") != nullptr) {  // NOLINT
    std::ofstream(path) << text;
  }
  std::stringstream known;
  known << std::ifstream(path).rdbuf();
  CHECK(known.str() == text);
}

// Mixtures of experts: how tokens and experts come together on the devices, and
// that they compute what the unsharded graph does.

// A graph and what a program makes of it. Does not move: `program` points into
// it.
struct PlacedModel {
  std::unique_ptr<testing::BuiltGraph> built;
  Program program{Mesh({{"dp", 1}}), nullptr, {}, {}, {}, {}};
};

// @moe on a mesh, by a rule file or a shipped set (`@mixtral`).
std::unique_ptr<PlacedModel> placed_model(const std::string& mesh_text,
                                          const std::string& rules) {
  const DimSizes dims = {{"length", 4}, {"embed", 16}, {"mlp", 16}};
  auto result = std::make_unique<PlacedModel>();
  result->built = testing::shipped_graph("moe", dims);
  REQUIRE_MESSAGE(result->built->graph, result->built->messages);
  const Graph& graph = *result->built->graph;
  Manifest manifest;
  for (const Value& value : graph.values) {
    if (value.kind != Value::Kind::Parameter) continue;
    REQUIRE(manifest.add(value.parameter, {DType::F32, value.shape}, {}));
  }
  testing::MemoryHost host;
  host.files["rules.yaml"] = rules;
  const auto loaded = testing::loaded_rules(
      host, rules.front() == '@' ? rules.c_str() : "rules.yaml");
  REQUIRE_MESSAGE(loaded->rules, testing::messages(loaded->diags));
  const Mesh mesh = testing::SmallGraph(mesh_text).mesh;
  Diagnostics diags;
  const auto plan = resolve(manifest, *loaded->rules, mesh, {}, diags);
  REQUIRE(plan.has_value());
  const auto values =
      place_values(graph, manifest, *plan, *loaded->rules, {}, diags);
  REQUIRE(values.has_value());
  CHECK(testing::messages(diags).empty());
  result->program = partition(graph, mesh, values->wanted, {});
  return result;
}

// As @mixtral, but with the batch on the axis of experts as well.
constexpr const char* kBatchOnExperts = R"(axes: [dp, fsdp, ep, tp, sp]
partition_axis: {batch_axis: [fsdp, dp, ep]}
rules:
  - ["experts/(w1|w3)/kernel", [ep, fsdp, tp]]
  - ["experts/w2/kernel", [ep, tp, fsdp]]
  - [".", []]
)";

void check_equal(const Program& program) {
  for (const ValueSource source : {ValueSource::Field, ValueSource::Random}) {
    Diagnostics diags;
    const auto values = make_values(*program.graph, source, 3, diags);
    REQUIRE(values.has_value());
    SimulateOptions options;
    options.values = source;
    const Simulation s = simulate(program, *values, options);
    CHECK_FALSE(s.mismatch.has_value());
    CHECK(s.bytes_moved == s.bytes_priced);
  }
}

TEST_CASE(
    "experts: with the batch elsewhere, devices add their experts' sums") {
  const auto p = placed_model("ep=4", "@mixtral");
  CHECK(testing::moves(p->program) ==
        "all-reduce over ep of combined (partial sum)");
  check_equal(p->program);
}

TEST_CASE("experts: with the batch on their axis, tokens go there and back") {
  const auto p = placed_model("ep=4", kBatchOnExperts);
  CHECK(testing::moves(p->program) ==
        "all-to-all over ep of dispatched (experts); "
        "all-to-all over ep of downed (experts)");
  check_equal(p->program);
}

TEST_CASE("experts: other axes do what they do in a dense layer") {
  const auto apart = placed_model("fsdp=2,ep=2,tp=2", "@mixtral");
  CHECK(testing::moves(apart->program) ==
        "all-gather over fsdp of gate (weight use); "
        "all-gather over fsdp of up (weight use); "
        "all-gather over fsdp of down (weight use); "
        "all-reduce over (ep, tp) of combined (partial sum)");
  check_equal(apart->program);
  const auto together = placed_model("fsdp=2,ep=2,tp=2", kBatchOnExperts);
  CHECK(testing::moves(together->program) ==
        "all-to-all over ep of dispatched (experts); "
        "all-gather over fsdp of gate (weight use); "
        "all-gather over fsdp of up (weight use); "
        "all-gather over fsdp of down (weight use); "
        "all-to-all over ep of downed (experts); "
        "all-reduce over tp of combined (partial sum)");
  check_equal(together->program);
}

TEST_CASE("experts: every mesh gives what one device gives") {
  for (const char* mesh :
       {"dp=2", "fsdp=4", "tp=4", "sp=2", "ep=8", "dp=2,ep=4", "fsdp=2,sp=2",
        "fsdp=2,tp=2", "ep=2,tp=4", "sp=2,ep=2,tp=2"}) {
    for (const char* rules : {"@mixtral", kBatchOnExperts}) {
      CAPTURE(mesh);
      CAPTURE(rules);
      check_equal(placed_model(mesh, rules)->program);
    }
  }
}

}  // namespace

}  // namespace shardplan
