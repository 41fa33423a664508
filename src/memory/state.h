// SPDX-License-Identifier: Apache-2.0
// Training state: what a parameter takes besides itself, exactly.
//
// For every parameter an optimizer keeps leaves: moments of the parameter's
// shape, factored statistics, counters; around it stand a gradient and, under
// mixed precision, master weights. Each leaf has a type and a spec of its own.
// A leaf's spec follows the parameter's, unless rules of its own say otherwise;
// ZeRO then shards it over further axes, with the padding that the framework
// really stores.
// Identity, per leaf: bytes over all devices = replicas x logical bytes +
// padding.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "core/mesh.h"
#include "core/plan.h"
#include "core/spec.h"
#include "core/types.h"

namespace shardplan {

enum class Optimizer : uint8_t {
  None,  // no training: parameters alone
  AdamW,
  Adafactor,
  Lion,
  Sgd,
  SgdMomentum,
  Muon,
};
std::string_view optimizer_name(Optimizer optimizer);  // "sgd-momentum"
std::optional<Optimizer> find_optimizer(std::string_view name);
std::span<const std::string_view> optimizer_names();

// Who shards state over the ZeRO axes, and hence how it is padded.
enum class ZeroStyle : uint8_t {
  Jax,        // the first dimension that the axes divide; else replicated
  DeepSpeed,  // flat buffers (stages 1, 2), flat parameters (stage 3)
  Fsdp2,      // torch.chunk of dimension 0, padded to the first chunk
  Megatron,   // distributed optimizer: flat buckets of the gradient buffer
};
std::string_view zero_style_name(ZeroStyle style);
std::optional<ZeroStyle> find_zero_style(std::string_view name);
std::span<const std::string_view> zero_style_names();

struct StateOptions {
  Optimizer optimizer = Optimizer::None;
  std::optional<DType> param_dtype;    // stored weights; default: as they are
  std::optional<DType> grad_dtype;     // default: that of the stored weight
  std::optional<DType> moment_dtype;   // default: f32
  std::optional<DType> compute_dtype;  // gathered weights; default: as stored
  // Master weights: none, or of this dtype. By default f32 beside weights that
  // are narrower than 32 bits, when there is an optimizer.
  bool no_master = false;
  std::optional<DType> master_dtype;
  // 1: optimizer state and master weights; 2: gradients too; 3: weights too.
  int zero = 0;
  AxisNames zero_axes;
  ZeroStyle zero_style = ZeroStyle::Jax;
};

}  // namespace shardplan
