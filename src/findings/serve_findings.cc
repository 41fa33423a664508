// SPDX-License-Identifier: Apache-2.0
// Findings about an engine: degrees at which it does not start, and a cache
// that does not hold the sequences.
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "findings/checks.h"
#include "serve/serving.h"

namespace shardplan {
namespace {

constexpr size_t kShownDegrees = 16;

std::string mesh_text(const EngineMesh& mesh) {
  std::string text = "tp=" + count_text(mesh.tp);
  if (mesh.dp > 1) text += ", dp=" + count_text(mesh.dp);
  if (mesh.pp > 1) text += ", pp=" + count_text(mesh.pp);
  if (mesh.expert_parallel) text += " with `--expert-parallel`";
  return text;
}

std::string legal_degrees(const Serving& serving) {
  std::vector<int64_t> legal;
  for (const DegreeVerdict& verdict : serving.verdicts) {
    if (verdict.of == DegreeOf::Tensor && verdict.legal) {
      legal.push_back(verdict.degree);
    }
  }
  return legal.empty() ? "" : list_text(legal, kShownDegrees);
}

// Returns "31.60 sequences (from 27.82 to 32.31)".
std::string sequences_text(const std::array<double, 3>& of) {
  return fmt::format("{:.2f} {} (from {:.2f} to {:.2f})", of[1],
                     of[1] == 1 ? "sequence" : "sequences", of[0], of[2]);
}

// Adds the changes that were tried; if there are none, adds `otherwise`.
void help_changes(const ServeInput& input, Diagnostics::Builder& report,
                  std::string otherwise = "") {
  if (input.tried == nullptr || input.tried->empty()) {
    if (!otherwise.empty()) report.help(std::move(otherwise));
    return;
  }
  for (const TriedServing& tried : *input.tried) {
    report.help("with `" + tried.flags + "` it holds " +
                sequences_text(tried.sequences) +
                (tried.fit.will_fit()  ? ""
                 : tried.fit.may_fit() ? ", which may be enough"
                                       : ", not enough"));
  }
}

void report_missing_at_start(const ServeInput& input, Diagnostics& diags) {
  const Serving& serving = input.serving;
  const int64_t usable = serving.device.usable;
  auto report =
      diags
          .report(Code::EngineRefuses, {},
                  std::string(serving.engine->title) +
                      " asks for more memory than is free at start-up")
          .fact(percent_text(serving.settings.share) + " of " +
                bytes_text(usable) + " is " +
                bytes_text(serving.share_bytes.lower) +
                "; its context and connections already use " +
                bytes_text(serving.missing_at_start) + " of that");
  help_changes(input, report,
               "lower `--" + std::string(serving.engine->share_flag) + "`");
}

// Reports an engine that starts but runs out of memory when it captures graphs
// or runs.
void report_missing_for_steps(const ServeInput& input, Diagnostics& diags) {
  const Serving& serving = input.serving;
  auto report =
      diags
          .report(Code::EngineRefuses, Severity::Warning, {},
                  "out of memory outside " +
                      std::string(serving.engine->title) + "'s share")
          .fact("a step of " + count_text(serving.settings.batched_tokens) +
                " tokens and captured graphs need at least " +
                bytes_text(serving.missing_for_steps) +
                " more than the share leaves free");
  help_changes(input, report,
               "lower `--" + std::string(serving.engine->share_flag) +
                   "` or `--max-batched-tokens`");
}

std::string cache_message(const Serving& serving, bool never) {
  const std::string engine(serving.engine->title);
  if (!serving.uncounted.empty() && !never) {
    return "unknown whether the cache fits in " + engine +
           "'s share: " + serving.uncounted + " is not counted";
  }
  if (!serving.limits_sequences()) {
    return std::string("the weights ") + (never ? "do" : "may") +
           " not fit in " + engine + "'s share";
  }
  const std::string tokens = count_text(serving.seq) + " tokens";
  const std::string left =
      serving.mesh.dp > 1 ? " fit in the KV cache of a " + engine + " group"
                          : " fit in " + engine + "'s KV cache";
  if (serving.batch == 1) {
    return "a sequence of " + tokens + (never ? " does not" : " may not") +
           left;
  }
  return plural(serving.batch, "sequence") + " of " + tokens +
         (never ? " do not" : " may not") + left;
}

// Returns "each sequence is cached by one of 4 data-parallel groups; each group
// holds 0.30 sequences (from 0.20 to 0.40)".
std::string groups_text(const Serving& serving) {
  const int64_t most = ceil_div(serving.batch, serving.mesh.dp);
  std::string text = "each sequence is cached by one of " +
                     count_text(serving.mesh.dp) + " data-parallel groups";
  if (most > 1) {
    text += "; the fullest gets " + count_text(most) + " of " +
            count_text(serving.batch) + " sequences";
  }
  return text + "; each group holds " +
         sequences_text({serving.group_sequences(0), serving.group_sequences(1),
                         serving.group_sequences(2)});
}

// Returns the flags that would leave more room.
std::string help_for_cache(const Serving& serving) {
  const bool holds_weights =
      serving.stage().weights.total <= serving.share_bytes.upper;
  return (holds_weights ? "shorten `--seq`, use `--kv-dtype f8_e4m3`"
                        : "shard the weights over more devices") +
         std::string(", or raise `--") +
         std::string(serving.engine->share_flag) + "`";
}

}  // namespace

void check_engine_start(const ServeInput& input, Diagnostics& diags) {
  const Serving& serving = input.serving;
  if (!serving.problems.empty()) {
    auto report = diags.report(
        Code::EngineRefuses, {},
        std::string(serving.engine->title) + " does not start at " +
            mesh_text(serving.mesh) + ": " + serving.problems.front());
    for (size_t i = 1; i < serving.problems.size(); ++i) {
      report.fact(serving.problems[i]);
    }
    const std::string legal = legal_degrees(serving);
    if (!legal.empty()) {
      const std::string others =
          others_text(serving.mesh, DegreeOf::Tensor, serving.has_experts());
      report.help("it starts at tp=" + legal +
                  (others.empty()                  ? ""
                   : others.starts_with("without") ? " " + others
                                                   : " with " + others));
    }
    help_changes(input, report);
  }
  if (serving.missing_at_start > 0) report_missing_at_start(input, diags);
  if (serving.missing_for_steps > 0) report_missing_for_steps(input, diags);
}

void check_cache_size(const ServeInput& input, Diagnostics& diags) {
  const Serving& serving = input.serving;
  const ServedStage& stage = serving.stage();
  if (serving.holds(0)) return;
  const bool never = !serving.holds(2);
  auto report = diags.report(
      Code::CacheTooSmall,
      never ? code_info(Code::CacheTooSmall).severity : Severity::Warning, {},
      cache_message(serving, never));
  report.fact("of " + bytes_text(serving.share_bytes.estimate) +
              " per device, weights take " + bytes_text(stage.weights.total) +
              "; the cache gets " +
              bytes_text(std::max<int64_t>(stage.available.lower, 0)) + " to " +
              bytes_text(std::max<int64_t>(stage.available.upper, 0)));
  if (serving.mesh.dp > 1 && serving.limits_sequences()) {
    report.fact(groups_text(serving));
  }
  const auto& pool = stage.pools[2];
  if (pool && serving.engine->pool == PoolKind::Blocks) {
    report.fact(
        "a sequence takes " +
        bytes_text(static_cast<int64_t>(std::min<Int128>(
            Int128{pool->sequence_blocks} * pool->block_bytes, INT64_MAX))));
  }
  if (serving.batch > 1 && serving.mesh.dp == 1 && serving.limits_sequences()) {
    report.fact("it holds " +
                sequences_text({serving.sequences(0), serving.sequences(1),
                                serving.sequences(2)}));
  }
  const bool known = serving.uncounted.empty() || never;
  help_changes(input, report, known ? help_for_cache(serving) : "");
}

}  // namespace shardplan
