// SPDX-License-Identifier: Apache-2.0
#include "cost/inference_time.h"

#include <algorithm>
#include <utility>

namespace shardplan {
namespace {

// An engine's own all-reduce of few bytes. TensorRT-LLM, vLLM and SGLang have
// kernels in which each rank reads what the others have (one shot), or reads
// its part of that and then the sums (two shots). Published latencies are 4 to
// 6 microseconds on eight H100 and B200; NCCL takes 10 to 28.
constexpr double kShotSeconds = 5e-6;
constexpr double kShotShare = 0.75;  // share of the link's rate

// Returns the seconds of such a kernel. Returns nothing if the ranks are not
// all within the fastest link, or if that is a bus on which devices do not read
// one another.
std::optional<double> sum_in_kernel(const HardwareProfile& card,
                                    const RankPlaces& places, double bytes) {
  if (places.per_tier.empty() || places.per_tier.front() != places.ranks ||
      !places.torus_axes.empty() || card.links.front().name == "pcie") {
    return std::nullopt;
  }
  const double rate = card.links.front().bytes_per_second.value * kShotShare;
  const auto ranks = static_cast<double>(places.ranks);
  const double one = kShotSeconds + bytes * (ranks - 1) / rate;
  const double two = 2 * kShotSeconds + 2 * bytes * (ranks - 1) / ranks / rate;
  return std::min(one, two);
}

class InferenceTimer {
 public:
  InferenceTimer(const InferenceTimeInput& input, LinkPlaces& places,
                 std::string& why)
      : input_(input), places_(places), why_(why) {}

  std::optional<StageTimes> run(const std::vector<InferenceSegment>& segments) {
    StageTime all;
    DirectionTime& pass = all.passes[0];
    double least_bytes = 0;
    double calls = 0;
    for (size_t s = 0; s < segments.size(); ++s) {
      const InferenceSegment& own = segments[s];
      const double count = input_.counts[s];
      if (count == 0) continue;
      add_computing(pass, own.pass, count);
      least_bytes += own.least_bytes * count;
      calls += own.calls * count;
      for (const SentPart& part : own.pass.sends) {
        if (!send(part, count, input_.labels[s], all)) return std::nullopt;
      }
    }
    if (input_.stages > 1 && input_.handed_bytes > 0) {
      const SentPart handed = {.kind = CollectiveKind::Permute,
                               .axes = input_.stage_axis,
                               .bytes = input_.handed_bytes};
      if (!send(handed, input_.stages - 1, "between stages", all)) {
        return std::nullopt;
      }
    }
    StageTimes times;
    for (size_t k = 0; k < kSavingModes; ++k) {
      StageTime stage = all;
      sum_up(k, least_bytes, calls, stage);
      times.of.at(k).push_back(std::move(stage));
    }
    return times;
  }

 private:
  bool send(const SentPart& part, double count, const std::string& where,
            StageTime& stage) {
    auto each = places_.price(part.kind, part.axes, part.bytes, why_);
    if (!each) return false;
    if (input_.sums_in_kernels && part.kind == CollectiveKind::AllReduce) {
      const auto fast =
          sum_in_kernel(input_.card, *places_.of(part.axes), part.bytes);
      if (fast && *fast < each->seconds.estimate) {
        each->seconds.lower = std::min(each->seconds.lower, *fast);
        each->seconds.estimate = *fast;
        each->basis = Basis::Assumed;
      }
    }
    stage.sends.push_back(
        {.kind = part.kind,
         .axes = part.axes,
         .named = input_.renames_axes
                      ? reported_axes(input_.program, part.axes, part.node)
                      : part.axes,
         .where = where,
         .count = part.count * count,
         .payload = part.bytes,
         .each = *each});
    return true;
  }

  void sum_up(size_t k, double least_bytes, double calls,
              StageTime& stage) const {
    DirectionTime& pass = stage.passes[0];
    double waiting = 0;
    for (const Sending& each : stage.sends) {
      waiting += pick(each.each.seconds, k) * each.count;
    }
    const double computing = computed(pass, k);
    if (k == 0) {
      pass.total = std::max(
          {computing, waiting, least_read_seconds(input_.card, least_bytes)});
      return;
    }
    pass.total = computing + waiting;
    if (input_.launches == Launches::Each ||
        (input_.launches == Launches::Unknown && k > kEstimate)) {
      pass.starting =
          calls * kModuleOverhead * pick(eager_launch(input_.card).seconds, k);
    }
    pass.launches =
        std::max(pass.starting - pass.total, 0.0) + input_.overhead.at(k);
    pass.total += pass.launches;
  }

  const InferenceTimeInput& input_;
  LinkPlaces& places_;
  std::string& why_;
};

}  // namespace

std::optional<StageTimes> inference_times(
    const InferenceTimeInput& input,
    const std::vector<InferenceSegment>& segments, LinkPlaces& places,
    std::string& why) {
  return InferenceTimer(input, places, why).run(segments);
}

StageTimes summed(const std::vector<RepeatedPass>& passes) {
  StageTimes sum;
  for (size_t k = 0; k < kSavingModes; ++k) {
    StageTime stage;
    for (const RepeatedPass& each : passes) {
      const double count = each.count.at(k);
      if (count == 0) continue;
      const StageTime& own = each.times.of.at(k).front();
      const DirectionTime& pass = own.passes[0];
      add_computing(stage.passes[0], pass, count);
      stage.passes[0].launches += pass.launches * count;
      stage.passes[0].total += pass.total * count;
      for (Sending sending : own.sends) {
        sending.count *= count;
        stage.sends.push_back(std::move(sending));
      }
    }
    sum.of.at(k).push_back(std::move(stage));
  }
  return sum;
}

}  // namespace shardplan
