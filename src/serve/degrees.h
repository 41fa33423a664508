// SPDX-License-Identifier: Apache-2.0
// DegreeVerdict: whether an engine runs a model at a degree of parallelism, and
// why not.
//
// Engines shard heads, widths and the vocabulary evenly, or refuse to start.
// There may be fewer KV heads than ranks if the number of ranks is a multiple
// of theirs. Shards of block-quantised weights must not split a block.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "serve/engine.h"
#include "serve/weights.h"

namespace shardplan {

enum class DegreeOf : uint8_t { Tensor, Experts, Data };
std::string_view degree_name(DegreeOf of);  // "tp", "ep", "dp"

struct DegreeVerdict {
  DegreeOf of = DegreeOf::Tensor;
  int64_t degree = 1;
  bool legal = true;
  bool asked = false;  // whether the mesh has this degree
  // Why the degree is illegal, or else what it costs; each reason once.
  std::vector<std::string> reasons;
};

// Returns the other settings that a verdict depends on, "dp=2, pp=4 and
// `--expert-parallel`"; "" if a degree is judged alone. `experts`: the model
// has experts.
std::string others_text(const EngineMesh& mesh, DegreeOf of, bool experts);

// Returns why the engine does not shard the model so; empty if it does.
std::vector<std::string> cut_problems(const ServedWeights& model,
                                      const Engine& engine,
                                      const EngineMesh& mesh);
// Returns what a legal layout costs: replicated KV heads or latents, uneven
// experts.
std::vector<std::string> cut_remarks(const ServedWeights& model,
                                     const Engine& engine,
                                     const EngineMesh& mesh);

// Returns verdicts on degrees. For tensor parallelism: every legal degree, the
// others up to 8, and powers of two up to 64. For expert and data parallelism
// of models that have them: divisors and powers of two. All other settings are
// as in `mesh`.
std::vector<DegreeVerdict> degree_verdicts(const ServedWeights& model,
                                           const Engine& engine,
                                           const EngineMesh& mesh);

// Makes degrees of tensor parallelism illegal if `problems_at` reports problems
// with them.
using ProblemsAt =
    std::function<std::vector<std::string>(const EngineMesh& mesh)>;
void refuse_degrees(std::vector<DegreeVerdict>& verdicts, EngineMesh mesh,
                    const ProblemsAt& problems_at);

}  // namespace shardplan
