// SPDX-License-Identifier: Apache-2.0
#include "memory/state.h"

#include <algorithm>
#include <array>

namespace shardplan {
namespace {

// In the order of the enumerations.
constexpr std::array<std::string_view, 7> kOptimizers = {
    "none", "adamw", "adafactor", "lion", "sgd", "sgd-momentum", "muon"};
constexpr std::array<std::string_view, 4> kZeroStyles = {"jax", "deepspeed",
                                                         "fsdp2", "megatron"};

template <typename T, size_t N>
std::optional<T> find(const std::array<std::string_view, N>& names,
                      std::string_view name) {
  const auto* const found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<T>(found - names.begin());
}

}  // namespace

std::string_view optimizer_name(Optimizer optimizer) {
  return kOptimizers.at(static_cast<size_t>(optimizer));
}
std::optional<Optimizer> find_optimizer(std::string_view name) {
  return find<Optimizer>(kOptimizers, name);
}
std::span<const std::string_view> optimizer_names() { return kOptimizers; }

std::string_view zero_style_name(ZeroStyle style) {
  return kZeroStyles.at(static_cast<size_t>(style));
}
std::optional<ZeroStyle> find_zero_style(std::string_view name) {
  return find<ZeroStyle>(kZeroStyles, name);
}
std::span<const std::string_view> zero_style_names() { return kZeroStyles; }

}  // namespace shardplan
