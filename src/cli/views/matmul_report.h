// SPDX-License-Identifier: Apache-2.0
// `explain --matmul "P(dp, tp) @ P(tp, None)"`: the spec of a matrix product,
// and what the product needs besides the multiplication.
#pragma once

#include <optional>

#include "base/diagnostic.h"
#include "base/source.h"
#include "report/report.h"

namespace shardplan::cli {

// `text` is two specs as Python has them, `@` between; ranks are the numbers of
// entries. Empty, with the reason reported, when it is not that (SP002) or no
// product of such ranks exists (SP010). An axis twice in one operand is SP202,
// and is answered all the same. `parity` adds what EasyDeL's function answers.
std::optional<Report> matmul_report(const SourcePtr& text, bool parity,
                                    Diagnostics& diags);

}  // namespace shardplan::cli
