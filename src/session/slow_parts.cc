// SPDX-License-Identifier: Apache-2.0
// Finds slow axes and repeated gathers, and judges the step without them.
#include "session/slow_parts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "session/other_meshes.h"

namespace shardplan {
namespace {

// Smaller savings are not worth a person's time, and are within the error of
// the estimates.
constexpr double kWorthReporting = 0.05;

// A step with one change applied.
struct ChangedStep {
  StepTime time;
  MemoryBracket bracket;
  bool surely_fits = true;  // also true without a limit
};

std::optional<ChangedStep> judge_again(PlanJudge& judge,
                                       const Candidate& candidate) {
  if (!judge.refused(candidate).empty()) return std::nullopt;
  Diagnostics quiet;
  auto judged = judge.judge(candidate, quiet);
  if (!judged || !judged->step || !judged->step->time) return std::nullopt;
  const bool limited = judge.memory().options.limit.has_value();
  return ChangedStep{*std::move(judged->step->time),
                     std::move(judged->step->bracket),
                     !limited || judged->fit.will_fit()};
}

bool is_worth(const StepTime& time, const StepTime& other) {
  return other.total.estimate < time.total.estimate * (1 - kWorthReporting);
}

std::string comparison(const std::string& flags, const StepTime& other,
                       const StepTime& time) {
  return "`" + flags + "`: a step takes " + seconds_text(other.total.estimate) +
         " instead of " + seconds_text(time.total.estimate);
}

// --- SP310

// The traffic of the layers' collectives along one axis of the mesh.
struct AxisTraffic {
  double exposed = 0;
  double bytes = 0;
  std::string link;
  bool is_slow = false;  // beyond the first link of the profile
};

std::map<AxisName, AxisTraffic> traffic_of(const SuggestionsInput& in,
                                           const StepTime& time) {
  std::map<AxisName, AxisTraffic> traffic;
  const std::vector<LinkTier>& links = in.asked.memory.card->links;
  if (links.empty()) return traffic;  // a card without links
  const std::string& fastest = links.front().name;
  for (const StepCollective& row : time.collectives) {
    if (row.axes.size() != 1 || row.direction == Direction::Update) continue;
    if (!in.session.plan.mesh.has({}, row.axes.front())) continue;
    AxisTraffic& axis = traffic[row.axes.front()];
    axis.exposed += row.exposed;
    axis.bytes += row.bytes_per_device;
    if (row.link == fastest) continue;
    axis.is_slow = true;
    axis.link = row.link;
  }
  return traffic;
}

// Returns the mesh with one axis moved to the end, where devices have
// consecutive numbers.
std::optional<Mesh> with_last(const Mesh& mesh, const AxisName& axis) {
  std::vector<Axis> axes = mesh.axes();
  const auto at = std::ranges::find(axes, axis, &Axis::name);
  if (at == axes.end()) return std::nullopt;
  std::rotate(at, at + 1, axes.end());
  if (axes == mesh.axes()) return std::nullopt;
  return viewed_mesh(std::move(axes), mesh.views());
}

// Returns whether `axis` sends more than each axis after it, which would move
// outwards.
bool sends_most(const Mesh& mesh,
                const std::map<AxisName, AxisTraffic>& traffic,
                const AxisName& axis) {
  const std::vector<Axis>& axes = mesh.axes();
  const auto at = std::ranges::find(axes, axis, &Axis::name);
  return at != axes.end() &&
         std::all_of(at + 1, axes.end(), [&](const Axis& behind) {
           const auto other = traffic.find(behind.name);
           return other == traffic.end() ||
                  other->second.bytes < traffic.at(axis).bytes;
         });
}

void report_slow_axes(const SuggestionsInput& in, const StepTime& time,
                      Host& host, Diagnostics& diags) {
  const Mesh& mesh = in.session.plan.mesh;
  if (in.asked.memory.on_slices) return;
  std::optional<MeshTrials> trials;
  const auto traffic = traffic_of(in, time);
  for (const auto& [axis, sent] : traffic) {
    if (!sent.is_slow || sent.exposed < kWorthReporting * time.total.estimate ||
        !sends_most(mesh, traffic, axis)) {
      continue;
    }
    const auto other = with_last(mesh, axis);
    if (!other) continue;
    if (!trials) trials.emplace(in.planning, in.session, in.asked, host);
    std::optional<ChangedStep> changed;
    trials->on(*other,
               [&](PlanJudge& judge) { changed = judge_again(judge, {}); });
    if (!changed || !is_worth(time, changed->time)) continue;
    auto problem = diags.report(
        Code::SlowAxis, {},
        "axis `" + axis.text() + "` communicates in every layer over " +
            sent.link + ": " + seconds_text(sent.exposed) + " of a step of " +
            seconds_text(time.total.estimate));
    problem.fact("each device sends " + bytes_text(sent.bytes) +
                 " along it per step");
    problem.fact(
        "the last axis of a mesh uses the fastest link, the first the slowest");
    problem.help(
        comparison(mesh_flags(in.planning, mesh, *other), changed->time, time));
  }
}

// --- SP311

// Returns the exposed time of gathering weights and reducing their gradients.
double exposed_of_weights(const StepTime& time, const AxisNames& axes) {
  double exposed = 0;
  for (const StepCollective& row : time.collectives) {
    if (row.kind != CollectiveKind::AllGather &&
        row.kind != CollectiveKind::ReduceScatter) {
      continue;
    }
    const bool is_batch = std::ranges::all_of(
        row.axes, [&](const AxisName& axis) { return contains(axes, axis); });
    if (row.direction != Direction::Update && is_batch) exposed += row.exposed;
  }
  return exposed;
}

void report_gathered_again(const SuggestionsInput& in, const StepTime& time,
                           Diagnostics& diags) {
  const int64_t parts = in.asked.memory.step.microbatches;
  if (parts < 2 || in.asked.memory.options.stages) return;
  AxisNames axes = in.judge.steps().axes().batch;
  for (const AxisName& axis : in.asked.memory.options.state.zero_axes) {
    if (!contains(axes, axis)) axes.push_back(axis);
  }
  const double exposed = exposed_of_weights(time, axes);
  if (exposed < kWorthReporting * time.total.estimate) return;
  for (int64_t fewer = 1; fewer < parts; ++fewer) {
    if (parts % fewer != 0) continue;
    Candidate candidate;
    candidate.step = in.asked.memory.step;
    candidate.step->microbatches = fewer;
    const auto changed = judge_again(in.judge, candidate);
    if (!changed || !changed->surely_fits) continue;
    if (!is_worth(time, changed->time)) return;
    auto problem = diags.report(
        Code::GatheredAgain, {},
        "weights are gathered along " + text_of(axes) + " for each of " +
            std::to_string(parts) + " micro-batches: " + seconds_text(exposed) +
            " of a step of " + seconds_text(time.total.estimate) +
            " is exposed");
    problem.help(comparison("--microbatches " + std::to_string(fewer),
                            changed->time, time) +
                 ", and needs up to " + bytes_text(changed->bracket.upper()));
    return;
  }
}

}  // namespace

void report_slow_parts(const SuggestionsInput& in, const StepTime& time,
                       Host& host, Diagnostics& diags) {
  report_slow_axes(in, time, host, diags);
  report_gathered_again(in, time, diags);
}

}  // namespace shardplan
