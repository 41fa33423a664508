// SPDX-License-Identifier: Apache-2.0
#include "cost/step_time.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/checked.h"
#include "base/words.h"

namespace shardplan {
namespace {

// Composes a step of stages, and the rows of a report.
class StepComposer {
 public:
  StepComposer(const TimedRun& input, const StepOptions& options,
               const StageTimes& times, LinkPlaces& places)
      : input_(input), options_(options), times_(times), places_(places) {}

  StepTime compose() {
    StepTime result;
    size_t slowest = 0;
    for (size_t s = 0; s < times_.of[0].size(); ++s) {
      if (times_.of[kEstimate][s].microbatch() >
          times_.of[kEstimate][slowest].microbatch()) {
        slowest = s;
      }
    }
    std::array<double, kSavingModes> total{};
    std::array<double, kSavingModes> bubble{};
    const auto count = static_cast<double>(times_.of[0].size());
    for (size_t k = 0; k < kSavingModes; ++k) {
      double sum = 0;
      double most = 0;
      double updating = 0;
      for (size_t s = 0; s < times_.of[0].size(); ++s) {
        const StageTime& stage = times_.of[k][s];
        sum += stage.microbatch();
        most = std::max(most, stage.microbatch());
        updating = std::max(updating, unhidden_sum(stage, k, input_.hide) +
                                          (k == 0 ? 0 : stage.gathering) +
                                          updating_seconds(stage, k));
      }
      bubble[k] = (k == 0 ? sum * (count - 1) / count : sum - most) /
                  chunks_of(options_);
      if (k == 0) most = sum / count;  // stages of equal work
      total[k] = microbatches() * most + bubble[k] + updating;
    }
    std::tie(result.computed, result.unsent) = unsent(slowest);
    result.sends = times_.of[kEstimate][slowest].sends;
    total[1] = std::max(total[0], total[1]);
    result.total = {total[0], total[1], std::max(total[1], total[2])};
    list_parts(slowest, bubble, result);
    list_collectives(slowest, result);
    limit(result);
    result.tokens = static_cast<double>(input_.tokens);
    result.model_flops = 3 * times_.flops * microbatches();
    if (const auto peak = nominal_rate()) {
      result.mfu = result.model_flops /
                   (result.total.estimate * *peak *
                    static_cast<double>(input_.program.mesh.devices()));
    }
    return result;
  }

 private:
  double microbatches() const {
    return static_cast<double>(options_.microbatches);
  }

  // Returns StepTime::computed and unsent.
  std::pair<double, double> unsent(size_t slowest) const {
    const StageTime& stage = times_.of[kEstimate][slowest];
    const auto step = [&](const auto& seconds_of) {
      const auto own = [&](const StageTime& of) {
        return seconds_of(of.passes[0]) + seconds_of(of.passes[1]);
      };
      double sum = 0;
      for (const StageTime& each : times_.of[kEstimate]) sum += own(each);
      return microbatches() * own(stage) +
             (sum - own(stage)) / chunks_of(options_) +
             updating_seconds(stage, kEstimate);
    };
    const auto computing = [](const DirectionTime& pass) {
      return computed(pass, kEstimate);
    };
    return {step(computing), step([&](const DirectionTime& pass) {
              return std::max(computing(pass), pass.starting);
            })};
  }

  // Returns the seconds of the optimizer's step, once it has all gradients.
  static double updating_seconds(const StageTime& stage, size_t k) {
    return pick(stage.optimizer.seconds, k) + stage.optimizer_starting +
           pick(stage.state_copies.seconds, k);
  }

  // Returns the dense rate on paper, of which a utilisation is a share.
  std::optional<double> nominal_rate() const {
    const Precision precision =
        options_.segments.fp8 != nullptr ? Precision::F8 : input_.precision;
    for (const auto& each : input_.card.flops_per_second) {
      if (each.first == precision) return each.second.value;
    }
    return peak_rate(input_.card, precision);
  }

  void list_parts(size_t s, const std::array<double, kSavingModes>& bubble,
                  StepTime& result) const {
    const double m = microbatches();
    // Adds a row with the basis and source of `priced`. All of its estimate is
    // exposed, unless `exposed` says otherwise.
    const auto add_row = [&](std::string name, const PricedTime& priced,
                             const auto& seconds_of,
                             std::optional<double> exposed = {}) {
      std::array<double, kSavingModes> seconds{};
      for (size_t k = 0; k < kSavingModes; ++k) {
        seconds[k] = seconds_of(times_.of[k][s], k);
      }
      StepTimePart row = {std::move(name)};
      const double estimate = std::max(seconds[0], seconds[1]);
      row.seconds = {seconds[0], estimate, std::max(estimate, seconds[2])};
      row.exposed = exposed.value_or(estimate);
      row.basis = priced.basis;
      if (priced.source) row.source = input_.card.sources[*priced.source].title;
      if (row.seconds.upper > 0) result.parts.push_back(std::move(row));
    };
    const StageTime& own = times_.of[kEstimate][s];
    const auto add_kernels = [&](const char* name,
                                 PricedTime DirectionTime::*part) {
      PricedTime both = own.passes[0].*part;
      add(both, own.passes[1].*part);
      add_row(name, both, [&](const StageTime& stage, size_t k) {
        return m * (pick((stage.passes[0].*part).seconds, k) +
                    pick((stage.passes[1].*part).seconds, k));
      });
    };
    add_kernels("products", &DirectionTime::products);
    add_kernels("attention", &DirectionTime::attention);
    add_kernels("memory", &DirectionTime::memory);
    std::vector<std::pair<CollectiveKind, AxisNames>> kinds;
    for (const Sending& each : own.sends) {
      const std::pair kind(each.kind, each.named);
      if (!contains(kinds, kind)) kinds.push_back(kind);
    }
    for (const auto& kind : kinds) {
      const auto is_of = [&](const Sending& each) {
        return each.kind == kind.first && each.named == kind.second;
      };
      PricedTime all;
      double exposed = 0;
      for (const Sending& each : own.sends) {
        if (!is_of(each)) continue;
        add(all, each.each);
        exposed += exposed_seconds(each, s);
      }
      add_row(
          std::string(collective_name(kind.first)) + " over " +
              text_of(kind.second),
          all,
          [&](const StageTime& stage, size_t k) {
            double sum = 0;
            for (const Sending& each : stage.sends) {
              if (is_of(each)) sum += pick(each.each.seconds, k) * times(each);
            }
            return sum;
          },
          exposed);
    }
    const PricedTime& copies = own.passes[1].copies.seconds.estimate > 0
                                   ? own.passes[1].copies
                                   : own.state_copies;
    add_row(
        "host copies", copies,
        [&](const StageTime& stage, size_t k) {
          return m * (pick(stage.passes[0].copies.seconds, k) +
                      pick(stage.passes[1].copies.seconds, k)) +
                 pick(stage.state_copies.seconds, k);
        },
        m * (own.passes[0].exposed_copies + own.passes[1].exposed_copies) +
            pick(own.state_copies.seconds, kEstimate));
    PricedTime assumed;
    assumed.basis = Basis::Assumed;
    add_row("launches", assumed, [&](const StageTime& stage, size_t) {
      return m * (stage.passes[0].launches + stage.passes[1].launches) +
             stage.optimizer_starting;
    });
    add_row("optimizer", own.optimizer, [](const StageTime& stage, size_t k) {
      return pick(stage.optimizer.seconds, k);
    });
    add_row("bubble", assumed,
            [&](const StageTime&, size_t k) { return bubble.at(k); });
  }

  // Returns how often a collective runs in a step.
  double times(const Sending& sending) const {
    return sending.count *
           (sending.direction == Direction::Update ? 1 : microbatches());
  }
  // Returns the seconds that do not hide, by the estimate.
  double exposed_seconds(const Sending& sending, size_t s) const {
    const StageTime& stage = times_.of[kEstimate][s];
    const double seconds = sending.each.seconds.estimate * times(sending);
    if (!sending.ahead) return seconds;
    if (sending.direction == Direction::Update) {
      return stage.summing > 0
                 ? seconds * unhidden_sum(stage, kEstimate, input_.hide) /
                       stage.summing
                 : 0;
    }
    const DirectionTime& time = nth(stage.passes, sending.direction);
    return time.ahead > 0 ? seconds * time.exposed_ahead / time.ahead : 0;
  }

  void list_collectives(size_t s, StepTime& result) {
    for (const Sending& each : times_.of[kEstimate][s].sends) {
      const int ranks = ranks_along(input_.program.mesh, each.axes).count;
      const double sent = each.payload *
                          static_cast<double>(least_copies(each.kind, ranks)) /
                          ranks;
      auto row = std::ranges::find_if(
          result.collectives, [&](const StepCollective& other) {
            return other.kind == each.kind && other.axes == each.named &&
                   other.where == each.where &&
                   other.direction == each.direction;
          });
      if (row == result.collectives.end()) {
        StepCollective made = {.kind = each.kind,
                               .axes = each.named,
                               .where = each.where,
                               .direction = each.direction};
        if (const auto& places = places_.of(each.axes)) {
          made.link = link_names(*places);
          const std::string text =
              text_of(each.named) + ": " + places_text(input_.card, *places);
          if (!contains(result.links, text)) result.links.push_back(text);
        }
        row = result.collectives.insert(row, std::move(made));
      }
      row->count += times(each);
      row->bytes_per_device += sent * times(each);
      row->seconds += each.each.seconds.estimate * times(each);
      row->exposed += exposed_seconds(each, s);
    }
  }

  // Returns text such as "nvlink" or "nvlink+infiniband".
  std::string link_names(const RankPlaces& places) const {
    std::string names;
    for (size_t i = 0; i < places.per_tier.size(); ++i) {
      if (places.per_tier[i] == 1) continue;
      names += (names.empty() ? "" : "+") + input_.card.links[i].name;
    }
    return names;
  }

  // Names the part that takes longest, and the next.
  static void limit(StepTime& result) {
    std::vector<const StepTimePart*> longest;
    for (const StepTimePart& row : result.parts) {
      if (row.exposed > 0) longest.push_back(&row);
    }
    std::ranges::stable_sort(longest, std::ranges::greater(),
                             &StepTimePart::exposed);
    for (size_t i = 0; i < longest.size() && i < 2; ++i) {
      const auto percent = static_cast<int>(
          std::lround(100 * longest[i]->exposed / result.total.estimate));
      result.limited_by += (i == 0 ? "" : ", then ") + longest[i]->part + " (" +
                           std::to_string(percent) + " %)";
    }
  }

  const TimedRun& input_;
  const StepOptions& options_;
  const StageTimes& times_;
  LinkPlaces& places_;
};

}  // namespace

StepTime composed_time(const TimedRun& run, const StepOptions& options,
                       const StageTimes& times, LinkPlaces& places) {
  return StepComposer(run, options, times, places).compose();
}

std::optional<LeastPass> least_pass(const StepTimeInput& input,
                                    const StepOptions& options,
                                    std::string& why) {
  LinkPlaces places = LinkPlaces::ideal(input.card, input.program);
  const auto times = stage_times(input, options, places, why);
  if (!times) return std::nullopt;
  const StageTime& all = times->of[kEstimate].front();
  LeastPass least = {computed(all.passes[0], kEstimate) +
                     computed(all.passes[1], kEstimate)};
  for (const Sending& each : all.sends) {
    if (each.ahead || each.direction == Direction::Update) continue;
    const AxisNames& counted = input.shared->waits;
    const auto is_counted = [&](const AxisName& axis) {
      return counted.empty() || contains(counted, axis);
    };
    if (!std::ranges::all_of(each.named, is_counted)) continue;
    least.waited += each.each.seconds.estimate * each.count;
  }
  return least;
}

std::optional<StepTime> step_time(const StepTimeInput& input,
                                  const StepOptions& options,
                                  std::string& why) {
  LinkPlaces places(input.card, input.program, input.slices);
  const auto times = stage_times(input, options, places, why);
  if (!times) return std::nullopt;
  return composed_time(input, options, *times, places);
}

}  // namespace shardplan
