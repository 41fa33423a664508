// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/reports.h"

namespace shardplan {

TEST_CASE("text has the headline, the tables for people, notes, a next step") {
  CHECK("\n" + rendered(sample_report(), "text") == R"(
tiny: 2 parameters
mesh fsdp=4,tp=2: 8 devices

parameter                    spec                 per device  rule
layers/*/mlp/up_proj/kernel  P(None, (fsdp, tp))    31.3 MiB     1
norm                         P()                    4.00 KiB     –
                                                    ────────
                                                    31.3 MiB

Memory per device
  weights       512 B  ███████████████
  gradients  1.00 KiB  ██████████████████████████████

1 dimension is not divisible by its axes
`shardplan explain SP203` describes a code
)");
}

TEST_CASE("findings lead where they are the answer, else stderr has them") {
  Diagnostics diags;
  diags.report(Code::UnusedAxis, {}, "axis `sp` shards nothing");
  Report report;
  report.command = "check";
  report.headline = {"1 warning in 7 rules"};
  report.next_step = "`shardplan explain SP204` describes a code";
  report.diagnostics = &diags;
  CHECK(rendered(report, "text") ==
        "1 warning in 7 rules\n\n"
        "`shardplan explain SP204` describes a code\n");
  report.diagnostics_are_the_answer = true;
  CHECK(rendered(report, "text") ==
        "warning[SP204]: axis `sp` shards nothing\n\n"
        "1 warning in 7 rules\n\n"
        "`shardplan explain SP204` describes a code\n");
}

TEST_CASE("an empty report is empty text") {
  CHECK(rendered(Report{}, "text").empty());
}

TEST_CASE("a headline is bold and a next step in colour") {
  Report report;
  report.headline = {"first\x1b", "second"};
  report.next_step = "next";
  Style style;
  style.colour = true;
  CHECK(rendered(report, "text", style) ==
        "\x1b[1mfirst\\x1b\x1b[0m\nsecond\n\n\x1b[1;36mnext\x1b[0m\n");
}

}  // namespace shardplan
