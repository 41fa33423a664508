// SPDX-License-Identifier: Apache-2.0
// A small model with rules, and runs of the program over them.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "tests/support/memory_host.h"

namespace shardplan::testing {

// Two layers with 4 heads and 2 KV heads of size 8, a vocabulary that 2 does
// not divide, a norm and a scalar.
inline MemoryHost planning_host() {
  MemoryHost host;
  host.variables["LANG"] = "C.UTF-8";
  host.files["model.json"] = R"({
  "facts": {"heads": 4, "kv_heads": 2, "head_dim": 8},
  "parameters": {
    "embed/embedding": {"shape": [33, 16], "dtype": "bf16"},
    "layers/0/self_attn/q_proj/kernel": {"shape": [16, 32], "dtype": "bf16"},
    "layers/0/self_attn/k_proj/kernel": {"shape": [16, 16], "dtype": "bf16"},
    "layers/1/self_attn/q_proj/kernel": {"shape": [16, 32], "dtype": "bf16"},
    "layers/1/self_attn/k_proj/kernel": {"shape": [16, 16], "dtype": "bf16"},
    "norm/scale": {"shape": [16], "dtype": "f32"},
    "step": {"shape": [], "dtype": "i32"}
  }
})";
  host.files["rules.yaml"] = R"(rules:
  - ["embedding", [tp, fsdp]]
  - ["_proj/kernel", [fsdp, tp]]
  - ["scale", []]
)";
  return host;
}

// Runs `words` with the model and rules above; the exit code is checked by the
// caller, the output is in the host.
inline int run_on(MemoryHost& host, std::vector<std::string> words,
                  const std::string& mesh) {
  words.insert(words.begin() + 1, "model.json");
  words.insert(words.end(), {"--rules", "rules.yaml", "--mesh", mesh});
  return cli::run(words, host);
}

inline nlohmann::json report_of(std::vector<std::string> words,
                                const std::string& mesh,
                                MemoryHost host = planning_host()) {
  words.emplace_back("--json");
  run_on(host, std::move(words), mesh);
  return nlohmann::json::parse(host.out);
}

}  // namespace shardplan::testing
