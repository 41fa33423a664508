// SPDX-License-Identifier: Apache-2.0
#include "io/tp_styles.h"

#include <algorithm>
#include <array>

namespace shardplan {
namespace {

constexpr auto kWhole = TpCut::Whole;
constexpr auto kFirst = TpCut::First;
constexpr auto kOut = TpCut::SecondLast;
constexpr auto kLast = TpCut::Last;

constexpr std::array<TpStyle, 26> kStyles = {{
    {"colwise", kOut, kLast},
    {"rowwise", kLast, kWhole},
    {"grouped_gemm", kFirst, kFirst},
    {"colwise_rep", kOut, kLast},
    {"colwise_gather_output", kOut, kLast},
    {"rowwise_rep", kLast, kWhole},
    {"rowwise_split_input", kLast, kWhole},
    {"local_colwise", kOut, kLast},
    {"local_rowwise", kLast, kWhole},
    {"packed_colwise", kOut, kLast, true},
    {"packed_rowwise", kLast, kWhole, true},
    {"local_packed_rowwise", kLast, kWhole, true},
    {"embedding_rowwise", kFirst, kWhole},
    {"embedding_colwise", kLast, kWhole},
    {"replicate", kWhole, kWhole},
    {"local", kWhole, kWhole},
    {"gather", kWhole, kWhole},
    {"sequence_parallel", kWhole, kWhole},
    {"ep_router", kWhole, kWhole},
    {"ep_dispatch_experts", kWhole, kWhole},
    {"moe_tp_experts", kWhole, kWhole},
    {"moe_identity_expert", kWhole, kWhole},
    {"mla_kv_a_proj", kWhole, kWhole},
    {"all_reduce", kWhole, kWhole},
    {"local_params", kWhole, kWhole},
    {"replicated_with_grad_allreduce", kWhole, kWhole},
}};

}  // namespace

std::span<const TpStyle> tp_styles() { return kStyles; }

const TpStyle* find_tp_style(std::string_view name) {
  const auto* const found =
      std::find_if(kStyles.begin(), kStyles.end(),
                   [&](const TpStyle& style) { return style.name == name; });
  return found == kStyles.end() ? nullptr : found;
}

}  // namespace shardplan
