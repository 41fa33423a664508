// SPDX-License-Identifier: Apache-2.0
#include "serve/overhead.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/checked.h"
#include "memory/outside.h"

namespace shardplan {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kWide = 2;   // bytes per activation element
constexpr int64_t kFloat = 4;  // bytes per logit when sampling

// Returns "model.layers.*.mlp" for "model.layers.*.mlp.gate_proj.weight".
std::string module_above(const std::string& folded) {
  const size_t leaf = folded.find_last_of("./");
  if (leaf == std::string::npos || leaf == 0) return "";
  const size_t own = folded.find_last_of("./", leaf - 1);
  return own == std::string::npos ? "" : folded.substr(0, own);
}

int64_t capped(Int128 bytes) {
  return static_cast<int64_t>(std::min<Int128>(bytes, INT64_MAX / 16));
}

// Returns the peak bytes of a step.
Int128 step_bytes(const StepWidths& w, int64_t tokens, int64_t sequences,
                  int64_t chosen, int64_t logit_copies) {
  const Int128 t = tokens;
  const Int128 stream = 2 * t * w.hidden * kWide;
  const Int128 attention = t * (w.attention + w.hidden) * kWide;
  // The outputs of gate and up, their product, and the output of down.
  const Int128 mlp = t * (w.mlp + w.mlp / 2 + w.hidden) * kWide;
  Int128 experts = 0;
  if (w.experts > 0) {
    const Int128 routed = t * std::min(chosen, w.experts);
    experts = routed * (w.expert_mlp + w.expert_mlp / 2 + w.hidden) * kWide;
  }
  const Int128 logits =
      Int128{sequences} * w.vocab * (kWide + kFloat * Int128{logit_copies});
  return stream + std::max({attention, mlp, experts, logits});
}

// Returns the residual stream plus the largest of what a layer's attention, its
// MLP or its experts, and the logits of every sequence need. The facts do not
// include the number of experts per token, so the ends assume 1, 8 and 16.
Bracket step_activations(const StepWidths& widths, int64_t tokens,
                         int64_t sequences) {
  // Logits are gathered, then cast; sampling sorts a copy of them.
  const auto peak = [&](int64_t chosen, int64_t logit_copies) {
    return step_bytes(widths, tokens, std::min(sequences, tokens), chosen,
                      logit_copies);
  };
  return {capped(peak(1, 0)), capped(peak(8, 2)),
          capped(2 * peak(16, 4) + 512 * kMiB)};
}

}  // namespace

Bracket operator+(const Bracket& a, const Bracket& b) {
  return {capped(Int128{a.lower} + b.lower),
          capped(Int128{a.estimate} + b.estimate),
          capped(Int128{a.upper} + b.upper)};
}

StepWidths step_widths(const ServedWeights& model, const Mesh& layout) {
  StepWidths widths;
  // Per module, the outputs of its matrices.
  std::map<std::string, int64_t> attention;
  std::map<std::string, int64_t> mlp;
  std::map<std::string, int64_t> experts;
  for (size_t i = 0; i < model.folding->classes.size(); ++i) {
    const ParameterClass& c = model.folding->classes[i];
    const std::string& name = model.folding->folded_names[c.folded];
    const TensorType& type = model.manifest->type(c.first);
    const ParameterKind& kind = *model.kinds[i];
    const bool expert = is_expert_name(name);
    const size_t rank = kind.size();
    if (rank < 2) continue;
    for (size_t d = 0; d < rank; ++d) {
      for (const ServedDim& dim : served_dims(kind[d], type.shape[d], expert)) {
        // Weights are [out, in]; stacked ones have either order.
        const bool gives = rank > 2 || d == 0;
        const int64_t held = held_elements(dim, degree_of(dim.role, layout), 1);
        if (dim.role == DimRole::Vocabulary) {
          widths.vocab = std::max(widths.vocab, dim.size);
          widths.hidden = std::max(widths.hidden, type.shape[rank - 1 - d]);
        } else if (dim.role == DimRole::Experts) {
          widths.experts = std::max(widths.experts, dim.size);
        } else if (!gives) {
          continue;
        } else if (dim.role == DimRole::Heads || dim.role == DimRole::KvHeads ||
                   dim.role == DimRole::StateGroups) {
          attention[module_above(name)] += held;
        } else if (dim.role == DimRole::Dense) {
          mlp[module_above(name)] += held;
        } else if (dim.role == DimRole::Width) {
          experts[module_above(name)] += held;
        }
      }
    }
    if (is_single_expert(name)) {
      widths.experts =
          std::max(widths.experts, model.manifest->facts.experts.value_or(1));
    }
  }
  const auto largest = [](const std::map<std::string, int64_t>& of) {
    int64_t most = 0;
    for (const auto& [_, outputs] : of) most = std::max(most, outputs);
    return most;
  };
  widths.attention = largest(attention);
  widths.mlp = largest(mlp);
  widths.expert_mlp = largest(experts);
  return widths;
}

std::string_view memory_part_name(MemoryPart part) {
  constexpr std::array<std::string_view, 3> kNames = {"share", "rest",
                                                      "before"};
  return nth(kNames, part);
}

std::vector<Overhead> overheads(const Engine& engine, const StepWidths& widths,
                                const EngineDefaults& settings, int64_t ranks) {
  const MemoryPart step = engine.share == MemoryShare::OfTotal
                              ? MemoryPart::InShare
                              : MemoryPart::Rest;
  std::vector<Overhead> rows = {
      {"activations", "activations of the largest step",
       step_activations(widths, settings.batched_tokens, settings.sequences),
       step, "from the model's widths"},
      {"graphs", "captured graphs", Bracket{96 * kMiB, 512 * kMiB, 3584 * kMiB},
       step,
       "logs of vLLM and SGLang: 0.11 to 1.44 GiB; aiconfigurator reserves 3.5 "
       "GiB"},
      {"runtime", "runtime, outside the allocator",
       Bracket{64 * kMiB, 256 * kMiB, 1024 * kMiB}, step,
       "logs of vLLM: 0.16 to 0.25 GiB"}};
  const auto add_before = [&](std::string name, std::string title,
                              OutsideRange range) {
    rows.push_back({std::move(name), std::move(title),
                    Bracket{range.lower, range.estimate, range.upper},
                    MemoryPart::Before, std::move(range.source)});
  };
  add_before("context", "context and libraries", context_range());
  if (ranks > 1) {
    add_before("connections", "connections to other devices",
               connections_range(ranks));
  }
  return rows;
}

}  // namespace shardplan
