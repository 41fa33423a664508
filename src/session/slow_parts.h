// SPDX-License-Identifier: Apache-2.0
// Slow parts: what makes a training step slow that another order of axes or
// fewer micro-batches would avoid, in milliseconds.
//
// A change is reported where it was judged as a whole step and is faster by
// more than kWorthReporting of it.
#pragma once

#include "base/diagnostic.h"
#include "base/host.h"
#include "cost/step_time.h"
#include "session/ways_out.h"

namespace shardplan {

// SP310: an axis that sends in every layer and crosses a slow link, where
// another order of axes is faster. SP311: weights that are gathered with every
// micro-batch, where fewer micro-batches fit. `time` is that of the request.
void report_slow_parts(const WaysOutInput& in, const StepTime& time, Host& host,
                       Diagnostics& diags);

}  // namespace shardplan
