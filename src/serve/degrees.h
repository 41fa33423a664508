// SPDX-License-Identifier: Apache-2.0
// Which degrees of parallelism an engine runs a model at, and why not others.
//
// Engines cut heads, widths and the vocabulary evenly or refuse to start; KV
// heads may be fewer than ranks where these are a multiple of them. Shards of
// block-quantised weights must not cut a block.
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
  bool asked = false;  // it is that of the mesh
  // Why not, or what it costs; of each reason one text.
  std::vector<std::string> reasons;
};

// "dp=2, pp=4 and `--expert-parallel`": what else a verdict holds with; ""
// where a degree is judged alone. `experts`: the model has some.
std::string others_text(const EngineMesh& mesh, DegreeOf of, bool experts);

// Why the model is not cut so; empty where it can be.
std::vector<std::string> cut_problems(const ServedWeights& model,
                                      const Engine& engine,
                                      const EngineMesh& mesh);
// What a layout that is legal costs: copies of KV heads, of latents, uneven
// experts.
std::vector<std::string> cut_remarks(const ServedWeights& model,
                                     const Engine& engine,
                                     const EngineMesh& mesh);

// Of tensor parallelism every legal degree, the others up to 8, and powers of
// two up to 64; of experts and data parallelism, for models that have them,
// divisors and powers of two. All else is as in the mesh.
std::vector<DegreeVerdict> degree_verdicts(const ServedWeights& model,
                                           const Engine& engine,
                                           const EngineMesh& mesh);

// Makes degrees of tensor parallelism illegal at which there are further
// problems.
using ProblemsAt =
    std::function<std::vector<std::string>(const EngineMesh& mesh)>;
void refuse_degrees(std::vector<DegreeVerdict>& verdicts, EngineMesh mesh,
                    const ProblemsAt& problems_at);

}  // namespace shardplan
