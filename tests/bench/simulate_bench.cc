// SPDX-License-Identifier: Apache-2.0
// A transformer MLP on 8 simulated devices against dense products of the same
// floating-point operations: what simulating costs beside the arithmetic.
//
// By the clock and by the processor's time: on a busy machine only the second
// says something. tests/bench/aims.py runs the same MLP in JAX, in turn with
// this.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <time.h>

#include "graph/buffers.h"
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
  PerValue<Tensor> values;
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
  for (const ValueId v : wanted.ids()) {
    const Value& value = graph.values[v];
    if (value.kind == Value::Kind::Result) continue;
    const PartitionSpec& spec = value.name == "up"     ? up
                                : value.name == "down" ? down
                                                       : *value.spec;
    wanted[v] = layout_of(mesh, spec, 2);
  }
  return partition(graph, mesh, wanted, {});
}

// Seconds of all threads of this process.
double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

void bench_simulate() {
  const int threads =
      static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const BufferCache buffers;  // as in a simulation of many layers
  const Layer layer = make_layer();
  const Mesh tp({{"tp", 8}});
  const Mesh both({{"fsdp", 2}, {"tp", 4}});
  const Program megatron =
      make_program(layer.graph, tp, {{{}, {"tp"}}}, {{{"tp"}, {}}});
  const Program mixed = make_program(layer.graph, both, {{{"fsdp"}, {"tp"}}},
                                     {{{"tp"}, {"fsdp"}}});
  const Tensor up = layer.values[ValueId(1)];
  Tensor c = make_tensor(Element::F32, {2 * kTokens, kMlp});
  Tensor a = make_tensor(Element::F32, {2 * kTokens, kEmbed});
  copy_into(slice(a, 0, 0, kTokens), layer.values[ValueId(0)]);
  copy_into(slice(a, 0, kTokens, 2 * kTokens), layer.values[ValueId(0)]);
  const MatrixProduct<float> dense{{a.data<float>(), kEmbed, 1},
                                   {up.data<float>(), kMlp, 1},
                                   {c.data<float>(), kMlp, 1}};
  const auto run = [&](const Program& program) {
    const Execution execution =
        execute(program, layer.values, {Arithmetic::F32, threads, false});
    if (execution.flops.empty()) std::printf("?");
  };
  std::vector<std::vector<double>> processor(4);
  const auto timed = [&](size_t which, const std::function<void()>& work) {
    return [&processor, which, work] {
      const double start = processor_seconds();
      work();
      processor[which].push_back(processor_seconds() - start);
    };
  };
  const std::vector<Contestant> contestants = {
      {"one dense product, BLIS, 1 thread",
       timed(0,
             [&] {
               gemm_by_blis(2 * kTokens, kMlp, kEmbed, dense, Arithmetic::F32,
                            usable_kernels().back());
             })},
      {"one dense product", timed(1,
                                  [&] {
                                    gemm(2 * kTokens, kMlp, kEmbed,
                                         std::span(&dense, 1), Arithmetic::F32,
                                         threads);
                                  })},
      {"simulated, tp=8", timed(2, [&] { run(megatron); })},
      {"simulated, fsdp=2,tp=4", timed(3, [&] { run(mixed); })}};
  const std::vector<double> seconds = compare(contestants, kRounds);
  const double flop = 4.0 * kTokens * kEmbed * kMlp;
  std::printf(
      "an MLP of %lld tokens, %lld x %lld, float32, %d threads: simulated on 8 "
      "devices against one dense product of the same FLOP\n",
      static_cast<long long>(kTokens), static_cast<long long>(kEmbed),
      static_cast<long long>(kMlp), threads);
  const double dense_processor = median(processor[0]);
  for (size_t i = 0; i < seconds.size(); ++i) {
    const double cpu = median(processor[i]);
    std::printf(
        "  %-34s %7.1f GFLOP/s   %7.1f per second of CPU   %.2fx the CPU\n",
        contestants[i].name.c_str(), flop / seconds[i] * 1e-9,
        flop / cpu * 1e-9, cpu / dense_processor);
  }
}

}  // namespace shardplan::bench
