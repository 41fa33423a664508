// SPDX-License-Identifier: Apache-2.0
// The flags that determine what a device must hold and what it has
// (session/memory_request.h).
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "cli/flag_values.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "core/mesh.h"
#include "io/hardware.h"
#include "io/topologies.h"

namespace shardplan::cli {
namespace {

constexpr std::string_view kBudgeting = "check analyze sweep plan diff";
// Settings that `plan` finds by search, so it does not accept them.
constexpr std::string_view kDecided = "check analyze sweep diff";
// More tokens or sequences than anybody caches; the limit keeps products within
// 63 bits.
constexpr int64_t kMaxSequence = int64_t{1} << 40;

// The most groups of parameters that one byte can number.
constexpr size_t kMaxGroups = UINT8_MAX;

// Reads `80GiB`, or `0=16GiB,1=32GiB` per stage.
void set_memory(const Setting& s, Options& o, Diagnostics& d) {
  if (!contains(s.value, '=')) {
    o.memory.limit = bytes_of(s, d);
    return;
  }
  std::vector<int64_t>& limits = o.memory.stage_limits;
  limits.clear();
  for (const std::string& part : split_list(s.value)) {
    std::string_view size = part;
    if (next_part(size, '=') != std::to_string(limits.size())) {
      d.error(Code::Usage, s.where,
              title_of(s) + " has " + in_backticks(part) + " where stage " +
                  std::to_string(limits.size()) + " was expected")
          .help(
              "for example `--memory 0=16GiB,1=32GiB`, with all stages in "
              "order");
      return;
    }
    const auto bytes = bytes_of(with_value(s, size), d);
    if (!bytes) return;
    limits.push_back(*bytes);
  }
}

std::vector<std::string> optimizer_choices() {
  return as_choices(optimizer_names());
}

template <std::optional<DType> StateOptions::*member>
void set_dtype(const Setting& s, Options& o, Diagnostics& d) {
  o.memory.state.*member = dtype_of(s, d);
}

void set_master(const Setting& s, Options& o, Diagnostics& d) {
  o.memory.state.no_master = s.value == "none";
  if (!o.memory.state.no_master) o.memory.state.master_dtype = dtype_of(s, d);
}

// Reads "adamw:embed|lm_head".
void add_optimizer_group(const Setting& s, Options& o, Diagnostics& d) {
  std::vector<OptimizerGroup>& groups = o.memory.state.groups;
  const size_t colon = s.value.find(':');
  const std::string name = s.value.substr(0, colon);
  const auto optimizer = find_optimizer(name);
  if (!optimizer || *optimizer == Optimizer::None) {
    std::vector<std::string> names = optimizer_choices();
    std::erase(names, optimizer_name(Optimizer::None));
    auto problem = d.error(Code::Usage, s.where,
                           title_of(s) + " must begin with " +
                               quoted_names(names, " or ") + ", not " +
                               in_backticks(name));
    if (optimizer) {
      problem.help("`--trainable` selects what to train and freezes the rest");
    } else if (const std::string meant = trainers_optimizer(name);
               !meant.empty()) {
      problem.help(meant);
    } else if (const auto near = nearest(name, names)) {
      problem.help("did you mean `" + *near + "`?");
    }
  } else if (colon == std::string::npos || colon + 1 == s.value.size()) {
    d.error(Code::Usage, s.where,
            in_backticks(s.value) + " in " + title_of(s) + " has no pattern")
        .help("for example `" + name + ":embed|lm_head`");
  } else if (groups.size() == kMaxGroups) {
    d.error(Code::Usage, s.where,
            title_of(s) + " is given more than " + std::to_string(kMaxGroups) +
                " times");
  } else {
    groups.push_back({s.value.substr(colon + 1), *optimizer});
  }
}

template <AxisNames MemoryRequest::*member>
void set_memory_axes(const Setting& s, Options& o, Diagnostics& d) {
  o.memory.*member = axes_of(s, d);
}

// Reads a fraction of the memory, "5%", or a size, "2GiB".
void set_reserve(const Setting& s, Options& o, Diagnostics& d) {
  if (!s.value.ends_with('%')) {
    o.memory.reserve = bytes_of(s, d).value_or(0);
    return;
  }
  const auto percent =
      number_of(with_value(s, s.value.substr(0, s.value.size() - 1)), d);
  o.memory.reserve_fraction = percent.value_or(0) / 100;
  if (o.memory.reserve_fraction >= 1) {
    d.error(Code::Usage, s.where, title_of(s) + " must be below 100%");
  }
}

void set_fragmentation(const Setting& s, Options& o, Diagnostics& d) {
  o.memory.fragmentation = number_of(s, d).value_or(0);
  if (o.memory.fragmentation > 1) {
    d.error(Code::Usage, s.where,
            title_of(s) + " must be a fraction from 0 to 1, e.g. 0.05");
  }
}

// Replaces an alias of a profile by the profile's name, and notes it.
std::string profile_of(const std::string& name, const std::string& directory,
                       Diagnostics& d) {
  if (is_hardware_path(name)) return join_path(directory, name);
  const std::string_view meant = profile_of_accelerator(name);
  if (meant.empty() || lower_case(name) == meant) return name;
  const std::string said =
      in_backticks(name) + " means the profile " + in_backticks(meant);
  // Flags are applied a second time after a configuration was read.
  const bool is_said = std::ranges::any_of(
      d.all(), [&](const Diagnostic& each) { return each.message == said; });
  if (!is_said) d.report(Code::Remark, {}, said);
  return std::string(meant);
}

// Reads names separated by commas. Only `sweep` accepts several.
void set_hardware(const Setting& s, Options& o, Diagnostics& d) {
  for (const std::string& name :
       o.command == "sweep" ? split_list(s.value) : std::vector{s.value}) {
    o.sweep.hardware.push_back(profile_of(name, s.directory, d));
  }
  o.memory.hardware = o.sweep.hardware[0];
}

// Stores one number, or a list for `sweep`, and its first.
void set_list(const Setting& s, Options& o, Diagnostics& d,
              std::vector<int64_t>& list, std::optional<int64_t>& first) {
  list = integers_of(s, o.command == "sweep", 1, kMaxSequence, d);
  if (!list.empty()) first = list[0];
}

}  // namespace

std::vector<Flag> memory_flags() {
  return {
      {"hardware", Takes::Text, "NAME|FILE", "Memory",
       "device profile; see `shardplan list hardware`", kBudgeting,
       set_hardware},
      {"calibrate", Takes::File, "FILE", "Memory",
       "your own measurements instead of the profile's: output of nccl-tests "
       "or scripts/measure-gpu; may repeat",
       kBudgeting,
       [](auto& s, auto& o, auto&) {
         o.memory.calibrate.push_back(path_of(s));
       },
       true},
      {"memory", Takes::Text, "SIZE", "Memory",
       "device capacity, overrides the profile: 80GiB, 95.7GB, or per "
       "stage 0=16GiB,1=32GiB",
       kBudgeting, set_memory},
      {"reserve", Takes::Text, "SIZE|P%", "Memory",
       "memory to leave free on each device (default 0)", kBudgeting,
       set_reserve},
      {"fragmentation", Takes::Text, "F", "Memory",
       "fraction lost to the allocator (default 0)", kBudgeting,
       set_fragmentation},
      {"stages", Takes::Text, "AXIS[:N,..]", "Memory",
       "pipeline axis, and layers per stage (default even)", kDecided,
       [](auto& s, auto& o, auto& d) { o.memory.stages = stages_of(s, d); }},
      {"optimizer", Takes::Choice, "NAME", "Memory",
       "adds gradients and optimizer state", kBudgeting,
       [](auto& s, auto& o, auto&) {
         o.memory.state.optimizer = *find_optimizer(s.value);
       },
       false, true, optimizer_choices, 0, trainers_optimizer},
      {"optimizer-of", Takes::Text, "NAME:PATTERN", "Memory",
       "a different optimizer for matching parameters; may repeat", kBudgeting,
       add_optimizer_group, true},
      {"precision", Takes::Choice, "NAME", "Memory",
       "dtypes of weights, gradients, state and compute together (default "
       "mixed for 16-bit weights, else f32)",
       kBudgeting,
       [](auto& s, auto& o, auto&) {
         o.memory.precision = find_step_precision(s.value);
       },
       false, true, [] { return as_choices(step_precision_names()); }},
      {"param-dtype", Takes::Text, "DTYPE", "Memory",
       "dtype of stored weights (default: their own)", kBudgeting,
       set_dtype<&StateOptions::param_dtype>},
      {"grad-dtype", Takes::Text, "DTYPE", "Memory",
       "dtype of gradients (default: that of the weights)", kBudgeting,
       set_dtype<&StateOptions::grad_dtype>},
      {"moment-dtype", Takes::Text, "DTYPE", "Memory",
       "dtype of optimizer state (default f32)", kBudgeting,
       set_dtype<&StateOptions::moment_dtype>},
      {"master-dtype", Takes::Text, "DTYPE|none", "Memory",
       "dtype of master weights (default f32 for narrower weights)", kBudgeting,
       set_master},
      {"compute-dtype", Takes::Text, "DTYPE", "Memory",
       "dtype of gathered weights (default: as stored)", kBudgeting,
       set_dtype<&StateOptions::compute_dtype>},
      {"live-layers", Takes::Text, "N", "Memory",
       "layers gathered at once (default 1)", kDecided,
       [](auto& s, auto& o, auto& d) {
         o.memory.live_layers = integer_of(s, 0, 4096, d).value_or(1);
       }},
      {"state-rules", Takes::File, "FILE|@NAME", "Memory",
       "rules for optimizer state (default: the parameter's)", kDecided,
       [](auto& s, auto& o, auto&) {
         o.planning.state_rules_ask = true;
         o.memory.state_rules.push_back(s.value.starts_with('@')
                                            ? s.value
                                            : join_path(s.directory, s.value));
       },
       true},
      {"trainable", Takes::Text, "PATTERN", "Memory",
       "train only parameters matching PATTERN; may repeat", kBudgeting,
       [](auto& s, auto& o, auto&) { o.memory.trainable.push_back(s.value); },
       true},
      {"zero", Takes::Text, "0|1|2|3", "Memory",
       "ZeRO stage: shards optimizer state, gradients, weights", kDecided,
       [](auto& s, auto& o, auto& d) {
         o.memory.state.zero =
             static_cast<int>(integer_of(s, 0, 3, d).value_or(0));
       }},
      {"zero-axes", Takes::Text, "A,B", "Memory",
       "mesh axes that ZeRO shards over", kDecided,
       [](auto& s, auto& o, auto& d) {
         o.memory.state.zero_axes = axes_of(s, d);
       }},
      {"zero-style", Takes::Choice, "NAME", "Memory",
       "how ZeRO shards and pads (default jax)", kDecided,
       [](auto& s, auto& o, auto&) {
         const ZeroStyle style = chosen<ZeroStyle>(s);
         o.memory.state.zero_style = style;
         o.planning.cuts_rows |=
             style == ZeroStyle::Fsdp2 || style == ZeroStyle::DeepSpeed;
       },
       false, true, [] { return as_choices(zero_style_names()); }},
      {"batch", Takes::Text, "N", "Memory",
       "global batch in sequences, per training step or in the KV cache",
       kBudgeting,
       [](auto& s, auto& o, auto& d) {
         set_list(s, o, d, o.sweep.batch, o.memory.batch);
       }},
      {"seq", Takes::Text, "N", "Memory", "tokens per sequence; 32k is 32,768",
       kBudgeting,
       [](auto& s, auto& o, auto& d) {
         set_list(s, o, d, o.sweep.seq, o.memory.seq);
       }},
      {"source-seq", Takes::Text, "N", "Memory",
       "encoder tokens cached for cross-attention", kBudgeting,
       [](auto& s, auto& o, auto& d) {
         o.memory.source_seq = integer_of(s, 1, kMaxSequence, d);
       }},
      {"kv-dtype", Takes::Text, "DTYPE", "Memory",
       "dtype of the KV cache (default bf16)", kDecided,
       [](auto& s, auto& o, auto& d) { o.memory.kv_dtype = dtype_of(s, d); }},
      {"kv-block", Takes::Text, "N", "Memory",
       "tokens per KV cache page (default 1)", kDecided,
       [](auto& s, auto& o, auto& d) {
         o.memory.kv_block = integer_of(s, 1, kMaxSequence, d).value_or(1);
       }},
      {"kv-axes", Takes::Text, "A,B", "Memory",
       "axes that shard KV heads (default: as the plan shards `k_proj`)",
       kDecided, set_memory_axes<&MemoryRequest::kv_axes>},
      {"batch-axes", Takes::Text, "A,B", "Memory",
       "axes that shard the batch (default dp, fsdp, data, replica)", kDecided,
       set_memory_axes<&MemoryRequest::batch_axes>},
      {"sequence-axes", Takes::Text, "A,B", "Memory",
       "axes that shard the sequence (default none)", kDecided,
       set_memory_axes<&MemoryRequest::sequence_axes>},
      {"ulysses-axes", Takes::Text, "A,B", "Memory",
       "axes that shard tokens, and heads inside attention (DeepSpeed "
       "Ulysses)",
       kDecided, set_memory_axes<&MemoryRequest::ulysses_axes>},
  };
}

}  // namespace shardplan::cli
