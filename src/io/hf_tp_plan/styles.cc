// SPDX-License-Identifier: Apache-2.0
#include "io/hf_tp_plan/styles.h"

#include <algorithm>
#include <array>

#include "base/words.h"
#include "io/hf_tp_plan/python_file.h"

namespace shardplan {
namespace {

constexpr auto kWhole = TpCut::Whole;
constexpr auto kFirst = TpCut::First;
constexpr auto kOut = TpCut::SecondLast;
constexpr auto kLast = TpCut::Last;
using Task = ModuleHook::Task;
constexpr ModuleHook kUnknown = {};
constexpr ModuleHook kNone = {.task = Task::None};
constexpr ModuleHook kPart = {HookLayout::Whole, HookLayout::Whole,
                              HookLayout::Last, Task::None};
constexpr ModuleHook kSum = {HookLayout::Last, HookLayout::Last,
                             HookLayout::Whole, Task::None};
constexpr ModuleHook kGather = {HookLayout::Whole, HookLayout::Whole,
                                HookLayout::Whole, Task::None};
constexpr ModuleHook kSplit = {HookLayout::Whole, HookLayout::Last,
                               HookLayout::Whole, Task::None};

constexpr ModuleHook kTokens = {HookLayout::Tokens, HookLayout::Tokens,
                                HookLayout::Tokens, Task::None};
constexpr ModuleHook kSumGradients = {.task = Task::SumGradients};
constexpr ModuleHook kSumOutput = {.task = Task::SumOutputGradients};
constexpr ModuleHook kReadShards = {.task = Task::ReadShards};
constexpr ModuleHook kSumExperts = {.task = Task::SumExperts};
constexpr ModuleHook kOwnExperts = {.task = Task::OwnExperts};

constexpr std::array<TpStyle, 26> kStyles = {{
    {"colwise", "4.51-", kOut, kLast, kPart},
    {"rowwise", "4.51-", kLast, kWhole, kSum},
    {"grouped_gemm", "4.54-", kFirst, kFirst, kNone},
    {"colwise_rep", "4.51-5.0 5.16-", kOut, kLast, kGather},
    {"colwise_gather_output", "5.1-", kOut, kLast, kGather},
    {"rowwise_rep", "4.51-5.0 5.16-", kLast, kWhole, kSplit},
    {"rowwise_split_input", "5.1-", kLast, kWhole, kSplit},
    {"local_colwise", "4.51-5.0", kOut, kLast, kUnknown},
    {"local_rowwise", "4.51-5.0", kLast, kWhole, kUnknown},
    {"packed_colwise", "5.1-", kOut, kLast, kPart, true},
    {"packed_rowwise", "5.1-", kLast, kWhole, kUnknown, true},
    {"local_packed_rowwise", "4.51-5.0", kLast, kWhole, kUnknown, true},
    {"embedding_rowwise", "5.1-", kFirst, kWhole, kGather},
    {"embedding_colwise", "5.4-5.15 5.21-", kLast, kWhole, kGather},
    {"replicate", "4.52-5.0 5.21-", kWhole, kWhole, kNone},
    {"local", "4.51-5.0", kWhole, kWhole, kUnknown},
    {"gather", "4.51-5.0", kWhole, kWhole, kUnknown},
    {"sequence_parallel", "4.51-", kWhole, kWhole, kTokens},
    {"ep_router", "4.54-5.22", kWhole, kWhole, kUnknown},
    {"ep_dispatch_experts", "5.19-", kWhole, kWhole, kOwnExperts},
    {"moe_tp_experts", "5.1-", kWhole, kWhole, kSumExperts},
    {"moe_identity_expert", "5.3-", kWhole, kWhole, kUnknown},
    {"mla_kv_a_proj", "5.3-", kWhole, kWhole, kSumOutput},
    {"all_reduce", "5.11-", kWhole, kWhole, kUnknown},
    {"local_params", "5.23-", kWhole, kWhole, kReadShards},
    {"replicated_with_grad_allreduce", "5.3-", kWhole, kWhole, kSumGradients},
}};

}  // namespace

std::span<const TpStyle> tp_styles() { return kStyles; }

const TpStyle* find_tp_style(std::string_view name) {
  return find_named(kStyles, name);
}

bool is_in(const TpStyle& style, TransformersVersion version) {
  std::string_view rest = style.versions;
  while (!rest.empty()) {
    const std::string_view range = next_part(rest, ' ');
    const size_t dash = range.find('-');
    const auto first = parse_version(range.substr(0, dash));
    const auto last = parse_version(range.substr(dash + 1));
    if (version >= *first && (!last || version <= *last)) return true;
  }
  return false;
}

TransformersVersion in_all_since(const TpStyle& style) {
  // A single range has no blank, and npos + 1 is 0.
  const std::string_view last =
      style.versions.substr(style.versions.rfind(' ') + 1);
  return *parse_version(last.substr(0, last.find('-')));
}

}  // namespace shardplan
