// SPDX-License-Identifier: Apache-2.0
#include "cli/views/figures/plan_figures.h"

#include <algorithm>
#include <map>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "cli/views/figures/step_figures.h"

namespace shardplan::cli {
namespace {

constexpr size_t kMostClasses = 8;  // of devices

// Returns "fsdp, tp": the axes that shard a parameter, in the order of the
// mesh;
// "" if none does.
std::string sharding_of(const Placement& p, const Mesh& mesh) {
  const AxisNames named = axes_in(p.spec);
  std::vector<std::string> axes;
  for (const Axis& axis : mesh.axes()) {
    if (axis.size > 1 && contains(named, axis.name)) {
      axes.push_back(axis.name.text());
    }
  }
  // Axes of a view follow those of the mesh.
  for (const AxisName& axis : named) {
    if (!mesh.find(axis)) axes.push_back(axis.text());
  }
  if (p.dealt) axes.push_back("dealt over " + p.dealt->axis);
  return joined(axes, ", ");
}

Treemap parameters_of(const Session& session) {
  Treemap map;
  // The second colour, which warns, is for what is not sharded.
  constexpr size_t kWhole = 1;
  const bool is_one = session.plan.mesh.devices() == 1;
  map.groups = {"", is_one ? "on the only device" : "replicated"};
  std::map<std::string, size_t> numbers;
  for (const ParameterClass& c : session.folding.classes) {
    const Placement& p = session.plan.placements[c.kind];
    const std::string sharding = sharding_of(p, session.plan.mesh);
    size_t group = kWhole;
    if (!sharding.empty()) {
      // The first kind of sharding has the first colour.
      const size_t next = numbers.empty() ? 0 : map.groups.size();
      const auto [found, is_new] = numbers.emplace(sharding, next);
      group = found->second;
      if (is_new && next == 0) map.groups[0] = sharding;
      if (is_new && next > 0) map.groups.push_back(sharding);
    }
    map.leaves.push_back({session.folding.folded_names[c.folded], c.count,
                          p.bytes_per_device * most_held(p.dealt, c.count),
                          group, spec_text(p.spec)});
  }
  return map;
}

MeshDiagram diagram_of(const Mesh& mesh, const StepTime* time) {
  MeshDiagram diagram;
  for (const Axis& axis : mesh.axes()) {
    diagram.axes.push_back({axis.name, axis.size});
  }
  if (time == nullptr) return diagram;
  diagram.is_priced = true;
  std::map<std::string, size_t> numbers;
  for (const StepCollective& row : time->collectives) {
    const std::string over = joined(texts_of(row.axes), ",");
    const auto [found, is_new] = numbers.emplace(over, diagram.uses.size());
    if (is_new) {
      MeshDiagram::Use& use = diagram.uses.emplace_back();
      use.over = over;
      use.link = row.link;
      for (const AxisName& axis : row.axes) {
        const auto& axes = mesh.axes();
        const auto at = std::ranges::find(axes, axis, &Axis::name);
        if (at != axes.end()) use.axes.push_back(to_size(at - axes.begin()));
      }
      // Axes of a view are shown by name alone.
      if (use.axes.size() != row.axes.size()) use.axes.clear();
    }
    MeshDiagram::Use& use = diagram.uses[found->second];
    use.bytes += row.bytes_per_device;
    use.seconds += row.seconds;
    use.exposed += row.exposed;
  }
  return diagram;
}

Bars bars_of(const Budget& budget) {
  Bars bars;
  for (size_t i = 0; i < kCategories; ++i) {
    bars.parts.emplace_back(category_title(static_cast<Category>(i)));
  }
  const size_t count = std::min(budget.classes.size(), kMostClasses);
  for (size_t c = 0; c < count; ++c) {
    const BudgetClass& of = budget.classes[c];
    std::string label = budget.classes.size() == 1
                            ? "every device"
                            : plural(of.devices, "device");
    if (!of.label.empty()) label = of.label + ": " + label;
    bars.bars.push_back({std::move(label), {of.bytes.begin(), of.bytes.end()}});
  }
  bars.limit = limit_of(budget.limit);
  return bars;
}

Bars bars_of(const Serving& serving) {
  constexpr std::array kParts = {MemoryPart::InShare, MemoryPart::Rest,
                                 MemoryPart::Before};
  Bars bars;
  bars.parts = {"weights", "available for the cache", "other use in the share",
                "outside the share", "before the engine starts"};
  for (const ServedStage& stage : serving.stages) {
    Bars::Bar& bar = bars.bars.emplace_back();
    bar.label = stage.label.empty() ? "every device" : stage.label;
    bar.values = {
        static_cast<double>(stage.weights.total),
        static_cast<double>(std::max<int64_t>(stage.available.estimate, 0))};
    for (const MemoryPart part : kParts) {
      double bytes = 0;
      for (const Overhead& row : serving.overheads) {
        if (row.part != part) continue;
        bytes += static_cast<double>(row.bytes.estimate);
      }
      bar.values.push_back(bytes);
    }
  }
  bars.limit = limit_of(serving.device);
  return bars;
}

}  // namespace

std::optional<FigureLimit> limit_of(const std::optional<DeviceLimit>& limit) {
  if (!limit) return std::nullopt;
  const bool is_named = limit->name != "--memory";
  return FigureLimit{is_named ? "limit of " + limit->name : "limit",
                     static_cast<double>(limit->usable)};
}

Figure parameters_figure(const Session& session) {
  return {"parameters", "Parameters per device, by module and sharding",
          [&session] { return parameters_of(session); }};
}

Figure memory_figure(const Budget& budget) {
  return {"memory", "Memory per device", [&budget] { return bars_of(budget); }};
}

Figure memory_figure(const Serving& serving) {
  return {"memory",
          "Memory per device of " + std::string(serving.engine->title),
          [&serving] { return bars_of(serving); }};
}

Figure stored_figure(const Session& session) {
  return {
      "memory", "Parameters per device", [&session] {
        const int64_t even = ceil_div(session.model.manifest.total_bytes(),
                                      session.plan.mesh.devices());
        Bars bars;
        bars.parts = {"parameters"};
        const auto add = [&](std::string label, int64_t bytes) {
          bars.bars.push_back({std::move(label), {static_cast<double>(bytes)}});
        };
        add("as planned", session.memory.max);
        if (session.memory.min != session.memory.max) {
          add("on the least-loaded device", session.memory.min);
        }
        add("without replication", even);
        return bars;
      }};
}

Figure mesh_figure(const Mesh& mesh, const StepTime* time,
                   const std::string& what) {
  return {
      "mesh",
      time == nullptr ? "Mesh" : "Mesh, and what a device sends per " + what,
      [&mesh, time] { return diagram_of(mesh, time); }};
}

void add_plan_figures(const Session& session, const MemoryAnswer* answer,
                      Mode mode, Report& report) {
  const StepTime* time = nullptr;
  std::string what = "step";
  if (answer == nullptr) {
    report.figures.push_back(stored_figure(session));
  } else if (answer->serving) {
    report.figures.push_back(memory_figure(*answer->serving));
  } else if (answer->step) {
    add_memory_figures(answer->step->bracket, answer->budget, report);
    if (answer->step->time) time = &*answer->step->time;
  } else {
    report.figures.push_back(memory_figure(answer->budget));
  }
  if (answer != nullptr && answer->inference) {
    const bool decodes = mode == Mode::Decode;
    const auto& of = decodes ? answer->inference->next_token
                             : answer->inference->first_token;
    if (of) time = &*of;
    what = decodes ? "token" : "first token";
  }
  // An engine ignores the rules.
  const bool has_rules = answer == nullptr || !answer->serving;
  if (has_rules) report.figures.push_back(parameters_figure(session));
  if (time != nullptr) report.figures.push_back(time_figure(*time, what));
  if (has_rules) {
    report.figures.push_back(mesh_figure(session.plan.mesh, time, what));
  }
}

Bars before_and_after(AmountUnit unit) {
  Bars bars;
  bars.unit = unit;
  bars.parts = {"unchanged", "added", "removed"};
  bars.colours = {11, 1, 2};
  return bars;
}

void add_before_and_after(const std::string& name, double before, double after,
                          Bars& bars) {
  const double same = std::min(before, after);
  const std::string of = name.empty() ? "" : name + ", ";
  bars.bars.push_back({of + "before", {same, 0, before - same}});
  bars.bars.push_back({of + "after", {same, after - same, 0}});
}

}  // namespace shardplan::cli
