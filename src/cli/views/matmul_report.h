// SPDX-License-Identifier: Apache-2.0
// `explain --matmul "P(dp, tp) @ P(tp, None)"`: the spec of a matrix product,
// and the collectives that the product needs besides the multiplication.
#pragma once

#include <optional>

#include "base/diagnostic.h"
#include "base/source.h"
#include "report/report.h"

namespace shardplan::cli {

// `text` is two specs in Python syntax with `@` between them; the number of
// entries of a spec is the operand's rank. Returns empty, with the reason
// reported, if the text is not of that form (SP002) or no product of such ranks
// exists (SP010). An axis that one operand names twice is reported as SP202,
// and the report is returned anyway. `parity` adds what EasyDeL's function
// returns.
std::optional<Report> matmul_report(const SourcePtr& text, bool parity,
                                    Diagnostics& diags);

}  // namespace shardplan::cli
