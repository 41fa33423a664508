// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/reports.h"

namespace shardplan {

TEST_CASE("concise prints the findings and nothing else") {
  const SourceFile rules("rules.yaml", "- [w, [tp]]\n");
  Diagnostics diags;
  diags.report(Code::UnknownAxis, span_of(rules, "tp"), "unknown axis `tp`");
  Report report = sample_report();
  CHECK(rendered(report, "concise").empty());
  report.diagnostics = &diags;
  CHECK(rendered(report, "concise") ==
        "rules.yaml:1:8: error[SP201] unknown axis `tp`\n");
}

}  // namespace shardplan
