// SPDX-License-Identifier: Apache-2.0
#include "activations/xla_loop.h"

#include <algorithm>

#include "memory/zero.h"

namespace shardplan {
namespace {

Int128 head_gradient(const LoopGradients& of, Keeping answer) {
  if (answer == Keeping::Least) return 0;
  const int64_t unit =
      answer == Keeping::Eager ? of.stored : std::min(of.stored, of.computed);
  return std::min(of.all - of.layers, of.head * unit);
}

}  // namespace

Int128 gradients_in_loop(const LoopGradients& of, Keeping answer) {
  return of.layers + head_gradient(of, answer);
}

Int128 gradients_at_loss(const LoopGradients& of, Keeping answer) {
  const auto copies = static_cast<int64_t>(answer);
  return of.layers * (of.sends ? copies : copies / 2) +
         head_gradient(of, answer);
}

Int128 gradients_at_end(const LoopGradients& of, Keeping answer) {
  const Int128 head = std::min(of.all - of.layers, of.head * of.stored);
  return of.all - head + head_gradient(of, answer);
}

Int128 scores_copied(const FrameworkDef& framework, const Facts& facts,
                     Int128 scores, int64_t stacked, Int128 gradients,
                     Keeping answer) {
  const auto k = static_cast<size_t>(answer);
  const bool moves = framework.moves_scores.at(k) && facts.kv_heads &&
                     facts.heads > facts.kv_heads;
  return std::max(moves ? scores * stacked - gradients : Int128{0},
                  scores * framework.scores_beside.at(k));
}

bool pads_heads(const Mesh& mesh, const Facts& facts,
                const StateOptions& state) {
  Int128 degree = 1;
  for (const Axis& axis : mesh.axes()) {
    degree *= is_gathered_for_use(axis.name, state) ? 1 : axis.size;
  }
  const int64_t heads = facts.kv_heads.value_or(facts.heads.value_or(0));
  return degree > 1 && (heads == 0 || heads % degree != 0);
}

}  // namespace shardplan
