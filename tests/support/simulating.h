// SPDX-License-Identifier: Apache-2.0
// A small block of a model, and what `simulate` reads for it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands/simulate/input.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "tests/support/memory_host.h"

namespace shardplan::testing {

inline MemoryHost block_host() {
  MemoryHost host;
  host.variables["LANG"] = "C.UTF-8";
  host.files["model.json"] = R"({
  "mlp/up": {"shape": [16, 32], "dtype": "f32"},
  "mlp/down": {"shape": [32, 16], "dtype": "f32"}
})";
  host.files["block.yaml"] = R"(graph: block
dims: {batch: 8}
inputs:
  x: {shape: [batch, 16], spec: [fsdp, null]}
parameters:
  up: {name: mlp/up}
  down: {name: mlp/down}
ops:
  - {op: linear, in: [x, up], out: h}
  - {op: silu, in: h, out: a}
  - {op: linear, in: [a, down], out: y}
outputs: [y]
)";
  host.files["rules.yaml"] = R"(rules:
  - ["up", [fsdp, tp]]
  - ["down", [tp, fsdp]]
)";
  return host;
}

// On the heap: input and diagnostics point into what is kept beside them.
struct Simulating {
  MemoryHost host = block_host();
  cli::Options options;
  Diagnostics diags;
  std::optional<cli::SimulateInput> input;
};

// `simulate model.json --graph block.yaml --rules rules.yaml --mesh ..` with
// some files replaced.
inline std::unique_ptr<Simulating> simulating(
    const std::vector<std::pair<std::string, std::string>>& files = {},
    const std::string& mesh = "fsdp=2,tp=2") {
  auto result = std::make_unique<Simulating>();
  for (const auto& [name, text] : files) result->host.files[name] = text;
  cli::Options& options = result->options;
  options.command = "simulate";
  options.planning.model = "model.json";
  options.simulate.graph = "block.yaml";
  options.planning.rules = {"rules.yaml"};
  options.run.isolated = true;
  options.planning.mesh = std::make_shared<SourceFile>("--mesh", mesh);
  cli::Progress progress(result->host, false);
  cli::Context context{options, result->host, result->diags, progress};
  result->input = cli::read_simulation(context);
  return result;
}

}  // namespace shardplan::testing
