// SPDX-License-Identifier: Apache-2.0
// A transformer MLP on 8 simulated devices against dense products of the same
// floating-point operations: what simulating costs beside the arithmetic.
#include <algorithm>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "graph/build.h"
#include "graph/gemm.h"
#include "io/graph/graph_file.h"
#include "sim/execute.h"
#include "sim/values.h"
#include "spmd/partition.h"
#include "tests/bench/bench.h"
#include "tests/support/whole_values.h"

namespace shardplan::bench {
namespace {

constexpr int64_t kTokens = 512;
constexpr int64_t kEmbed = 2048;
constexpr int64_t kMlp = 5632;  // of TinyLlama
constexpr int kRounds = 5;

struct Layer {
  Graph graph;
  std::vector<Tensor> values;
};

Layer make_layer() {
  const auto source = std::make_shared<SourceFile>("mlp.yaml", R"(graph: mlp
dims: {tokens: 512, embed: 2048, mlp: 5632}
inputs:
  x: {shape: [tokens, embed], spec: [fsdp, null]}
parameters:
  up: {shape: [embed, mlp]}
  down: {shape: [mlp, embed]}
ops:
  - {op: einsum, in: [x, up], out: h, equation: "te,em->tm"}
  - {op: relu, in: h, out: a}
  - {op: einsum, in: [a, down], out: y, equation: "tm,me->te"}
outputs: [y]
)");
  Diagnostics diags;
  Layer layer;
  layer.graph = *build_graph(*read_graph(source, {}, diags), {}, diags);
  layer.values = *make_values(layer.graph, ValueSource::Random, 0, diags);
  return layer;
}

Program make_program(const Graph& graph, const Mesh& mesh,
                     const PartitionSpec& up, const PartitionSpec& down) {
  WantedLayouts wanted(graph.values.size());
  for (size_t v = 0; v < wanted.size(); ++v) {
    const Value& value = graph.values[v];
    if (value.kind == Value::Kind::Result) continue;
    const PartitionSpec& spec = value.name == "up"     ? up
                                : value.name == "down" ? down
                                                       : *value.spec;
    wanted[v] = layout_of(mesh, spec, 2);
  }
  return partition(graph, mesh, wanted, {});
}

}  // namespace

void bench_simulate() {
  const int threads =
      static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const Layer layer = make_layer();
  const Mesh tp({{"tp", 8}});
  const Mesh both({{"fsdp", 2}, {"tp", 4}});
  const Program megatron =
      make_program(layer.graph, tp, {{{}, {"tp"}}}, {{{"tp"}, {}}});
  const Program mixed = make_program(layer.graph, both, {{{"fsdp"}, {"tp"}}},
                                     {{{"tp"}, {"fsdp"}}});
  const Tensor up = layer.values[1];
  Tensor c = make_tensor(Element::F32, {2 * kTokens, kMlp});
  Tensor a = make_tensor(Element::F32, {2 * kTokens, kEmbed});
  copy_into(slice(a, 0, 0, kTokens), layer.values[0]);
  copy_into(slice(a, 0, kTokens, 2 * kTokens), layer.values[0]);
  const auto run = [&](const Program& program) {
    const Execution execution =
        execute(program, layer.values, {Arithmetic::F32, threads, false});
    if (execution.flops.empty()) std::printf("?");
  };
  const std::vector<double> seconds =
      compare({{"one dense product",
                [&] {
                  gemm(2 * kTokens, kMlp, kEmbed,
                       Matrix<const float>{a.data<float>(), kEmbed, 1},
                       Matrix<const float>{up.data<float>(), kMlp, 1},
                       Matrix<float>{c.data<float>(), kMlp, 1}, threads);
                }},
               {"tp=8", [&] { run(megatron); }},
               {"fsdp=2,tp=4", [&] { run(mixed); }}},
              kRounds);
  const double flop = 4.0 * kTokens * kEmbed * kMlp;
  std::printf(
      "an MLP of %lld tokens, %lld x %lld, float32, %d threads: simulated on 8 "
      "devices against one dense product of the same FLOP\n",
      static_cast<long long>(kTokens), static_cast<long long>(kEmbed),
      static_cast<long long>(kMlp), threads);
  const char* const names[] = {"one dense product", "simulated, tp=8",
                               "simulated, fsdp=2,tp=4"};
  for (size_t i = 0; i < seconds.size(); ++i) {
    std::printf("  %-28s %7.1f GFLOP/s   %.2fx the time\n", names[i],
                flop / seconds[i] * 1e-9, seconds[i] / seconds[0]);
  }
}

}  // namespace shardplan::bench
