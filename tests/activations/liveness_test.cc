// SPDX-License-Identifier: Apache-2.0
// The bytes that the simulator counts as it runs a forward pass beside those
// that the analysis of its program says.
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "activations/options.h"
#include "activations/saved_values.h"
#include "base/allocation.h"
#include "model/architectures.h"
#include "resolve/resolve.h"
#include "sim/activations.h"
#include "sim/execute.h"
#include "sim/simulate.h"
#include "sim/transfers.h"
#include "spmd/partition.h"
#include "tests/support/builders.h"
#include "tests/support/hf_config.h"
#include "tests/support/loaded_rules.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/whole_model.h"
#include "tests/support/whole_values.h"

namespace shardplan {
namespace {

using testing::Json;
using testing::WholeModel;

// Places of experts are all there, as the simulator has them.
SegmentOptions as_simulated(int64_t element_bytes) {
  SegmentOptions options;
  options.element_bytes = element_bytes;
  options.expert_factor = 1e6;
  return options;
}

// Of a forward pass alone, operation by operation: bytes on a device that what
// is made of inputs takes, when an instruction has run; 0 of a Load. Inputs,
// parameters and what is made of parameters alone are not counted; outputs
// stay. Numbers take `element_bytes`, integers 4; experts have places for as
// many tokens as `expert_factor` says.
PerInstruction<Int128> forward_liveness(const Program& program,
                                        const SegmentOptions& options) {
  const ProgramView view = view_of(program, options);
  // What no norm and no softmax holds in float32 on its way.
  const auto k = static_cast<size_t>(SavingMode::Fused);
  PerRegister<bool> outputs(view.registers.size());
  for (const RegisterId output : program.outputs) {
    outputs[view.reg(output).root] = true;
  }
  std::vector<InstructionId> all;
  for (const InstructionId i : view.instructions()) {
    if (view.at(i).kind != Instruction::Kind::Load) all.push_back(i);
  }
  PerInstruction<Int128> alive(program.instructions.size());
  walk_forward(
      view, all,
      [&](RegisterId reg) {
        const HeldRegister& of = view.reg(reg);
        return of.weight || of.loaded ? Int128{0} : of.bytes[k];
      },
      [&](RegisterId reg) { return outputs[reg]; },
      [](InstructionId) { return Int128{0}; },
      [&](InstructionId i, Int128 held) { alive[i] = held; });
  return alive;
}

// The bytes of the values that are live in a sharded run, as it runs: of what
// operations compute from inputs, from when a real device has it until nothing
// reads it any more, each storage once (graph/op.h). The memory of the
// simulator itself does not matter: buffers that it reuses, takes over or
// recomputes change nothing here.
struct LiveBytes {
  explicit LiveBytes(const Program& of, PerRegister<Storage> as)
      : program(of),
        types(std::move(as)),
        root(of.registers.size()),
        holders(of.registers.size()),
        sizes(of.registers.size()),
        bytes(static_cast<size_t>(of.mesh.devices())) {}

  // Adds the result of an instruction that has run, as every device has it.
  void made(const Instruction& at, const DeviceTensors& result) {
    const RegisterId r = at.result;
    const Graph& graph = *program.graph;
    if (graph.values[program.registers[r].value].is_weight) return;
    const bool is_view =
        at.kind == Instruction::Kind::Compute &&
        graph.nodes[at.node].op->recompute_cost == RecomputeCost::View;
    // A view of what is not counted is not counted.
    root[r] = is_view ? root[at.operands[0]] : r;
    if (!root[r]) return;
    ++holders[root[r]];
    if (is_view) return;
    for (size_t device = 0; device < bytes.size(); ++device) {
      sizes[r].push_back(result[device].elements() * storage_bytes(types[r]));
      bytes[device] += sizes[r].back();
    }
  }
  // Drops a register that nothing reads any more.
  void over(RegisterId number) {
    const RegisterId of = std::exchange(root[number], {});
    if (!of || --holders[of] > 0) return;
    for (size_t device = 0; device < bytes.size(); ++device) {
      bytes[device] -= sizes[of][device];
    }
    sizes[of].clear();
  }

  const Program& program;
  PerRegister<Storage> types;
  PerRegister<RegisterId> root;             // owner of its storage, if counted
  PerRegister<int> holders;                 // registers that share the storage
  PerRegister<std::vector<int64_t>> sizes;  // bytes of roots, per device
  std::vector<int64_t> bytes;               // per device
};

// Bytes live on each device once an instruction has run and before what it read
// last is released; none for a Load.
PerInstruction<std::vector<int64_t>> counted_bytes(
    const Program& program, std::span<const Tensor> values,
    const ExecuteOptions& how) {
  const Lifetimes lives = lifetimes_of(program);
  const StorageTypes types{how.arithmetic, how.storage, how.reduce};
  const auto read = [&](ValueId value) {
    return as_stored(program.graph->values[value], values[value.index()], types,
                     how.threads);
  };
  ShardedRun run(program, lives, read, how);
  LiveBytes live(program, register_types(program, types));
  PerInstruction<std::vector<int64_t>> counted(program.instructions.size());
  for (int phase = 0; phase < lives.phases; ++phase) {
    run.advance(phase, [&](const Instruction& at, const DeviceTensors& made) {
      if (at.kind == Instruction::Kind::Load) return;
      const InstructionId i = program.instructions.id_of(at);
      live.made(at, made);
      counted[i] = live.bytes;
      for (const RegisterId number : at.operands) {
        if (lives.last_read[number] <= i) live.over(number);
      }
    });
  }
  return counted;
}

// What the two say otherwise, from the first instruction on that they do;
// "" and how many instructions were compared.
std::string difference(const Program& program, const ExecuteOptions& how,
                       const SegmentOptions& options, int& compared) {
  Diagnostics diags;
  const auto values =
      make_values(*program.graph, ValueSource::Random, 3, diags);
  REQUIRE_MESSAGE(values, testing::messages(diags));
  const auto counted = counted_bytes(program, *values, how);
  const auto alive = forward_liveness(program, options);
  for (const InstructionId i : alive.ids()) {
    if (program.instructions[i].kind == Instruction::Kind::Load) continue;
    for (size_t device = 0; device < counted[i].size(); ++device) {
      if (alive[i] == counted[i][device]) continue;
      const ValueId v = program.registers[program.instructions[i].result].value;
      return program.graph->values[v].name + " on device " +
             std::to_string(device) + ": " +
             std::to_string(counted[i][device]) + " counted, " +
             std::to_string(static_cast<int64_t>(alive[i])) + " analysed";
    }
    ++compared;
  }
  return {};
}

struct Partitioned {
  testing::MemoryHost host;
  std::unique_ptr<testing::LoadedRules> rules;
  std::optional<Program> program;
  std::string messages;
};

std::unique_ptr<Partitioned> partitioned(const WholeModel& model,
                                         const char* axes) {
  auto result = std::make_unique<Partitioned>();
  Diagnostics diags;
  result->rules = testing::loaded_rules(result->host, "@all_models");
  REQUIRE(result->rules->rules);
  const RuleSet& rules = *result->rules->rules;
  const Mesh mesh = testing::mesh(axes);
  const auto plan = resolve(model.manifest, rules, mesh, {}, diags);
  REQUIRE(plan);
  const auto values =
      place_values(*model.graph, model.manifest, *plan, rules, {}, diags);
  result->messages = testing::messages(diags);
  if (values) {
    result->program = partition(*model.graph, mesh, values->wanted, {});
  }
  return result;
}

constexpr const char* kMeshes[] = {"fsdp=2,tp=2", "dp=2,sp=2",   "tp=4",
                                   "ep=2,tp=2",   "fsdp=2,sp=2", "fsdp=1"};

TEST_CASE("the simulator's live bytes are those of the analysis") {
  std::ifstream lines(testing::data_path("logits.jsonl"));
  std::set<std::string> architectures;
  int compared = 0;
  int cases = 0;
  for (std::string line; std::getline(lines, line);) {
    const Json recorded = Json::parse(line);
    const auto name = recorded.at("name").get<std::string>();
    CAPTURE(name);
    const auto made = testing::synthesize(recorded.at("config"));
    Manifest manifest = made->good();
    label_parameters(manifest);
    const Json& inputs = recorded.at("inputs");
    ForwardPass pass;
    pass.batch = 4;
    pass.length = 8;
    if (inputs.contains("decoder_input_ids")) pass.target_length = 8;
    const auto model =
        testing::whole_model(std::move(manifest), recorded.at("config"), pass);
    REQUIRE_MESSAGE(model->graph, model->messages);
    const bool is_new =
        architectures.insert(model->model->architecture->name).second;
    // Sanitizers, whose own allocation is not counted, look at few.
    if (!kCountsAllocations && (!is_new || architectures.size() % 4 != 0)) {
      continue;
    }
    // One mesh for each config, but for some.
    const size_t own = static_cast<size_t>(cases++) % std::size(kMeshes);
    const bool every = is_new && kCountsAllocations && own == 0;
    for (size_t m = 0; m < std::size(kMeshes); ++m) {
      if (!every && m != own) continue;
      CAPTURE(kMeshes[m]);
      const auto on = partitioned(*model, kMeshes[m]);
      REQUIRE_MESSAGE(on->program, on->messages);
      CHECK(difference(*on->program, {}, as_simulated(4), compared) == "");
    }
  }
  CHECK(architectures.size() > 50);
  CHECK(compared > (kCountsAllocations ? 20'000 : 1000));
}

TEST_CASE("live bytes are those of the types that a run keeps") {
  for (const char* each : {"llama", "mixtral", "gpt2"}) {
    CAPTURE(each);
    auto tiny = testing::tiny_model(each);
    const auto model =
        testing::whole_model(std::move(tiny.manifest), tiny.config);
    REQUIRE_MESSAGE(model->graph, model->messages);
    const auto on = partitioned(*model, "fsdp=2,tp=2");
    REQUIRE_MESSAGE(on->program, on->messages);
    ExecuteOptions how;
    how.storage = Storage::BF16;
    how.reduce = Storage::BF16;
    int compared = 0;
    CHECK(difference(*on->program, how, as_simulated(2), compared) == "");
    CHECK(compared > 50);
    // What the analysis takes otherwise is seen.
    CHECK(difference(*on->program, how, as_simulated(4), compared) != "");
    if (std::string_view(each) == "mixtral") {
      SegmentOptions options = as_simulated(2);
      options.expert_factor = 1;
      CHECK(difference(*on->program, how, options, compared) != "");
    }
  }
}

}  // namespace
}  // namespace shardplan
