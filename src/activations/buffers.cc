// SPDX-License-Identifier: Apache-2.0
#include "activations/buffers.h"

#include <algorithm>

namespace shardplan {
namespace {

// Elements, of DeepSpeed's defaults.
constexpr Int128 kReduceBucket = 500'000'000;
constexpr Int128 kMostLive = 1'000'000'000;
constexpr Int128 kPrefetchBucket = 50'000'000;

constexpr int64_t kUpdateBytes = 4;   // of a number of an update
constexpr int64_t kScalarBytes = 64;  // steps, rates and norms

bool is_deepspeed(const ReductionInput& input) {
  return input.style == ZeroStyle::DeepSpeed && input.zero > 0;
}

}  // namespace

Int128 gathered_ahead(const ReductionInput& input, Keeping answer) {
  const Int128 layer = input.layer.gathered;
  if (layer == 0 || answer == Keeping::Least) return 0;
  const bool live = is_deepspeed(input) && input.zero == 3;
  if (answer == Keeping::Fused) {
    return live ? std::min(layer, kPrefetchBucket * input.compute_bytes)
                : layer;
  }
  // The next one, the flat buffer that this one was copied out of, and the
  // root.
  const Int128 ahead = 2 * layer + input.outside;
  if (!live) return ahead;
  const Int128 most = std::min(
      input.all_gathered, (kMostLive + kPrefetchBucket) * input.compute_bytes);
  return std::max(ahead, most - input.planned);
}

Int128 gradient_buckets(const ReductionInput& input, Keeping answer) {
  if (answer == Keeping::Least) return 0;
  const bool most = answer == Keeping::Eager;
  if (is_deepspeed(input)) {
    return input.gradient_bytes *
           (most ? 2 * kReduceBucket : std::min(kReduceBucket, input.trained));
  }
  const Int128 sharded = input.layer.gradients + input.layer.reduced;
  if (!most) {
    return input.style == ZeroStyle::Fsdp2 && input.zero > 0 ? sharded
                                                             : Int128{0};
  }
  if (input.style == ZeroStyle::Megatron && input.zero > 0) return sharded;
  return sharded + input.replicated;
}

Int128 pipeline_buffers(const PipelineInput& input, Keeping answer) {
  // A stage of several chunks of layers receives for each of them, but for the
  // model's first, and sends from each but for its last.
  const Int128 receives = input.chunks - (input.first ? 1 : 0);
  const Int128 sends = input.chunks - (input.last ? 1 : 0);
  const Int128 received =
      input.keeps_input ? input.stream * input.flying * receives / input.chunks
                        : Int128{0};
  switch (answer) {
    case Keeping::Least:
    case Keeping::Fused: {
      // Those of the micro-batch that runs are not counted yet.
      const int64_t others = std::max<int64_t>(input.flying - input.chunks, 0);
      const Int128 sent = input.counts_output
                              ? input.stream * others * sends / input.chunks
                              : Int128{0};
      const Int128 kept = received - sent;
      // One is on its way in each direction.
      const Int128 ways = (receives > 0 ? 1 : 0) + (sends > 0 ? 1 : 0);
      return answer == Keeping::Least ? kept : kept + input.stream * ways;
    }
    case Keeping::Eager:
      break;
  }
  const Int128 all = input.stream * input.microbatches;
  return std::max(all * receives, received) + all * sends + input.stream;
}

bool is_elementwise(Optimizer optimizer) {
  return optimizer != Optimizer::Adafactor && optimizer != Optimizer::Muon;
}

Int128 optimizer_temporaries(const OptimizerInput& input, Keeping answer) {
  if (answer == Keeping::Least || input.optimizer == Optimizer::None) return 0;
  const bool most = answer == Keeping::Eager;
  // Updates are computed in float32, or in a moment's type, which is no wider.
  // PyTorch counts the steps of every parameter.
  const Int128 tree =
      kUpdateBytes *
          (std::max(input.numbers, 3 * input.largest) + input.parameters) +
      kScalarBytes;
  switch (input.optimizer) {
    case Optimizer::None:
    case Optimizer::AdamW:
    case Optimizer::Lion:
    case Optimizer::Sgd:
    case Optimizer::SgdMomentum:
      return most ? tree : Int128{0};
    case Optimizer::Adafactor:
      return most ? tree + input.state : kUpdateBytes * input.largest;
    case Optimizer::Muon:
      break;
  }
  const Int128 matrix = input.rows * input.columns;
  const Int128 side = std::min(input.rows, input.columns);
  const Int128 numbers = 2 * matrix + 2 * side * side;
  const int64_t unit = most ? kUpdateBytes : kUpdateBytes / 2;
  const Int128 own = kUpdateBytes * matrix + unit * numbers;
  return most ? std::max(own, tree) : own;
}

}  // namespace shardplan
