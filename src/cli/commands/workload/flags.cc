// SPDX-License-Identifier: Apache-2.0
// The flags of a training step.
#include "cli/flags.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "cli/flag_values.h"
#include "cli/options.h"

namespace shardplan::cli {
namespace {

constexpr std::string_view kCounting = "check analyze sweep plan diff";
// Settings that `plan` finds by search, so it does not accept them.
constexpr std::string_view kDecided = "check analyze sweep diff";
constexpr int64_t kMaxTiles = 1'000'000;

std::vector<std::string> attention_names() { return {"flash", "scores"}; }
std::vector<std::string> kernel_names() { return {"any", "fused", "eager"}; }

bool tries_lists(const std::string& command) {
  return command == "sweep" || command == "plan";
}

// Splits policies at commas: `none,custom:context=device,query_proj=offload`. A
// policy may itself contain a list of names, so a part that is not a policy
// continues the policy before it that has names.
std::vector<std::string> listed_policies(const std::string& text) {
  std::vector<std::string> policies;
  for (std::string& part : split_list(text)) {
    const bool has_names = !policies.empty() && contains(policies.back(), ':');
    const std::string name = part.substr(0, part.find(':'));
    if (has_names && !contains(part, ':') &&
        find_remat_policy(name) == nullptr) {
      policies.back() += "," + part;
    } else {
      policies.push_back(std::move(part));
    }
  }
  return policies;
}

void set_remat(const Setting& s, Options& o, Diagnostics& d) {
  o.workload.given = true;
  if (!o.sweep.remat.empty()) {
    d.error(Code::Usage, s.where,
            "`--remat` and `--offload activations` both set what is saved for "
            "backward, or one is given more than once")
        .help(
            "for several values, use `--remat "
            "custom:NAME=offload,NAME=offload`");
    return;
  }
  for (const std::string& text : tries_lists(o.command)
                                     ? listed_policies(s.value)
                                     : std::vector{s.value}) {
    const auto remat = read_remat(text, d);
    if (!remat) return;
    o.sweep.remat.push_back(*remat);
  }
  o.workload.step.remat = o.sweep.remat.front();
}

// Reads `optimizer`, `optimizer:paged`, `weights`, `activations` or
// `activations:decoder_layer_input`.
void set_offload(const Setting& s, Options& o, Diagnostics& d) {
  constexpr std::string_view kActivations = "activations";
  Offload& offload = o.memory.state.offload;
  if (s.value == "optimizer") {
    offload.optimizer = true;
  } else if (s.value == "optimizer:paged") {
    offload.optimizer = offload.pages = true;
  } else if (s.value == "weights") {
    offload.weights = true;
  } else if (s.value == kActivations) {
    set_remat(with_value(s, "offload_activations"), o, d);
  } else if (s.value.starts_with(std::string(kActivations) + ":")) {
    const std::string name = s.value.substr(kActivations.size() + 1);
    set_remat(with_value(s, "custom:" + name + "=offload"), o, d);
  } else {
    must_be(s,
            "`optimizer`, `optimizer:paged`, `weights`, `activations` or "
            "`activations:NAME`",
            d);
  }
}

// Reads `1f1b`, `gpipe`, `interleaved:4` or `interleaved:4:8`.
void set_schedule(const Setting& s, Options& o, Diagnostics& d) {
  StepOptions& step = o.workload.step;
  constexpr std::string_view kInterleaved = "interleaved:";
  if (s.value == "1f1b") {
    step.schedule = PipelineSchedule::OneForwardOneBackward;
  } else if (s.value == "gpipe") {
    step.schedule = PipelineSchedule::AllForward;
  } else if (s.value.starts_with(kInterleaved)) {
    std::string_view group = s.value;
    group.remove_prefix(kInterleaved.size());
    const bool has_group = contains(group, ':');
    const std::string_view chunks = next_part(group, ':');
    step.schedule = PipelineSchedule::Interleaved;
    step.group = 0;
    if (has_group) {
      step.group =
          integer_of(with_value(s, group), 1, kMostMicrobatches, d).value_or(0);
    }
    step.chunks = integer_of(with_value(s, chunks), 1, 4096, d).value_or(1);
  } else {
    d.error(Code::Usage, s.where,
            "unknown schedule " + in_backticks(s.value) + " in " + title_of(s))
        .help(
            "use 1f1b, gpipe, interleaved:N (N layer chunks per stage) or "
            "interleaved:N:G (G consecutive micro-batches per chunk)");
  }
}

// Reads `step=1.83,peak=61GiB`.
void set_measured(const Setting& s, Options& o, Diagnostics& d) {
  for (const std::string& part : split_list(s.value)) {
    std::string_view rest = part;
    const std::string_view name = next_part(rest, '=');
    const Setting value = with_value(s, rest);
    if (name == "step" && !o.measured.seconds) {
      o.measured.seconds = number_of(value, d);
      if (!o.measured.seconds) return;
      if (*o.measured.seconds <= 0) {
        d.error(Code::Usage, s.where,
                title_of(s) + ": the step time must be positive")
            .help("seconds, for example `step=1.83`");
        return;
      }
    } else if (name == "peak" && !o.measured.peak) {
      o.measured.peak = bytes_of(value, d);
      if (!o.measured.peak) return;
    } else {
      d.error(Code::Usage, s.where,
              title_of(s) + " does not accept " + in_backticks(part))
          .help(
              "for example `--measured step=1.83,peak=61GiB`, or one of them");
      return;
    }
  }
}

void set_expert_factor(const Setting& s, Options& o, Diagnostics& d) {
  double& factor = o.workload.step.segments.expert_factor;
  factor = number_of(s, d).value_or(1);
  if (factor < 1) {
    d.error(Code::Usage, s.where,
            title_of(s) +
                " must be at least 1: the busiest expert has no fewer tokens "
                "than average");
  }
}

}  // namespace

std::vector<Flag> workload_flags() {
  return {
      {"remat", Takes::Text, "POLICY", "Memory",
       "activation checkpointing: none (default), dots, block, full, or a "
       "framework's own name",
       kCounting, set_remat},
      {"offload", Takes::Text, "WHAT", "Memory",
       "offload to the host: optimizer, optimizer:paged, weights, activations, "
       "or activations:NAME; may repeat",
       kCounting, set_offload, true},
      {"microbatches", Takes::Text, "N", "Memory",
       "micro-batches per step (default 1)", kCounting,
       [](auto& s, auto& o, auto& d) {
         o.sweep.microbatches =
             integers_of(s, tries_lists(o.command), 1, kMostMicrobatches, d);
         if (o.sweep.microbatches.empty()) return;
         o.workload.step.microbatches = o.sweep.microbatches.front();
       }},
      {"hide", Takes::Choice, "WHAT", "Memory",
       "communication that overlaps compute (default framework: weights "
       "and gradients)",
       kCounting,
       [](auto& s, auto& o, auto&) { o.workload.hide = chosen<Hide>(s); },
       false, true, [] { return as_choices(kHideNames); }},
      {"schedule", Takes::Text, "NAME", "Memory",
       "pipeline schedule over --stages: 1f1b (default), gpipe, "
       "interleaved:N",
       kDecided, set_schedule},
      {"attention", Takes::Choice, "KIND", "Memory",
       "attention kernel (default flash); scores stores the score matrix",
       kCounting,
       [](auto& s, auto& o, auto&) {
         o.workload.step.segments.attention = chosen<AttentionKind>(s);
       },
       false, true, attention_names},
      {"kernels", Takes::Choice, "KIND", "Memory",
       "kernels of the step (default any)", kCounting,
       [](auto& s, auto& o, auto&) {
         o.workload.kernels_given = true;
         o.workload.step.kernels = chosen<Kernels>(s);
       },
       false, true, kernel_names},
      {"framework", Takes::Choice, "NAME", "Memory",
       "framework that runs the step (default any)", kCounting,
       [](auto& s, auto& o, auto&) {
         o.workload.step.framework = find_framework(s.value);
         o.planning.cuts_rows |= o.workload.step.framework->runs_fsdp2;
       },
       false, true, [] { return all_names(frameworks()); }},
      {"optimizer-impl", Takes::Choice, "NAME", "Memory",
       "PyTorch optimizer implementation (default foreach with --framework "
       "torch)",
       kCounting,
       [](auto& s, auto& o, auto&) {
         o.workload.step.update = find_update(s.value);
       },
       false, true, [] { return as_choices(update_names()); }},
      {"fp8", Takes::Choice, "RECIPE", "Memory", "FP8 recipe for layer matmuls",
       kCounting,
       [](auto& s, auto& o, auto&) {
         o.workload.step.segments.fp8 = find_fp8_recipe(s.value);
       },
       false, true, [] { return all_names(fp8_recipes()); }},
      {"dropout", Takes::Nothing, "", "Memory",
       "store dropout masks (default with --framework torch: by config)",
       kCounting,
       [](auto&, auto& o, auto&) { o.workload.step.drops_out = true; }},
      {"no-dropout", Takes::Nothing, "", "Memory",
       "no dropout, regardless of the config", kCounting,
       [](auto&, auto& o, auto&) { o.workload.step.drops_out = false; }},
      {"loss-tiles", Takes::Text, "N", "Memory",
       "number of chunks for logits and loss (default 1)", kCounting,
       [](auto& s, auto& o, auto& d) {
         o.workload.step.segments.loss_tiles =
             integer_of(s, 1, kMaxTiles, d).value_or(1);
       }},
      {"measured", Takes::Text, "step=S,peak=SIZE", "Memory",
       "measured step time in seconds and peak allocation, to compare with the "
       "estimate",
       "analyze", set_measured, false, false},
      {"expert-factor", Takes::Text, "F", "Memory",
       "the busiest expert's tokens divided by the average (default 1)",
       kCounting, set_expert_factor},
  };
}

}  // namespace shardplan::cli
