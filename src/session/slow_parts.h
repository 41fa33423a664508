// SPDX-License-Identifier: Apache-2.0
// report_slow_parts(): findings about what makes a training step slow and could
// be avoided by another order of axes or fewer micro-batches, in milliseconds.
//
// A change is reported only if the whole step was judged with it, and is faster
// by more than the fraction kWorthReporting.
#pragma once

#include "base/diagnostic.h"
#include "base/host.h"
#include "cost/step_time.h"
#include "session/suggestions.h"

namespace shardplan {

// Reports SP310: an axis that communicates in every layer over a slow link, if
// another order of axes is faster. Reports SP311: weights that are gathered for
// every micro-batch, if fewer micro-batches fit. `time` is the request's.
void report_slow_parts(const SuggestionsInput& in, const StepTime& time,
                       Host& host, Diagnostics& diags);

}  // namespace shardplan
