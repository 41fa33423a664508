// SPDX-License-Identifier: Apache-2.0
// Figures of a plan: where memory goes, how parameters are sharded, and the
// mesh. What they refer to must outlive the report.
#pragma once

#include <optional>
#include <string>

#include "cost/step_time.h"
#include "gate/changes.h"
#include "memory/budget.h"
#include "report/report.h"
#include "serve/serving.h"
#include "session/memory_answer.h"
#include "session/session.h"

namespace shardplan::cli {

// The line of a figure for what a device can hold; empty without a limit.
std::optional<FigureLimit> limit_of(const std::optional<DeviceLimit>& limit);

// "parameters": what a device holds of each module, coloured by the axes that
// shard it.
Figure parameters_figure(const Session& session);

// "memory": what the classes of devices hold; an engine's stages.
Figure memory_figure(const Budget& budget);
Figure memory_figure(const Serving& serving);
// "memory": a device's parameters, compared with their size without copies.
Figure stored_figure(const Session& session);

// Adds the figures of a plan. `answer` is null if memory was not asked for.
void add_plan_figures(const Session& session, const MemoryAnswer* answer,
                      Mode mode, Report& report);

// "mesh": the axes, and if `time` is not null, what is sent along them in a
// `what`, "step" or "token".
Figure mesh_figure(const Mesh& mesh, const StepTime* time = nullptr,
                   const std::string& what = "step");

// Two bars for something before and after: what stays, and what is added or
// removed.
void add_before_and_after(const std::string& name, double before, double after,
                          Bars& bars);
Bars before_and_after(AmountUnit unit);

}  // namespace shardplan::cli
