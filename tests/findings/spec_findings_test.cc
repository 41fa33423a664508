// SPDX-License-Identifier: Apache-2.0
// SP201, SP202, SP203, SP207, SP303: src/findings/spec_findings.cc.
#include <string>

#include <doctest/doctest.h>

#include "tests/support/linted.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

using testing::lint_of;
using testing::message;

TEST_CASE("an indivisible dimension says what it costs and what would do") {
  const auto result = lint_of(
      testing::manifest({{"l/0/w", "u8[4096, 9]"}, {"l/1/w", "u8[4096, 9]"}}),
      testing::rules({{"w", "None, tp"}}), "tp=4");
  const auto found = result.find(Code::IndivisibleDimension);
  REQUIRE(found.size() == 1);
  CHECK(message(found[0]) ==
        "SP203 warning rules:1:12 dimension 1 of `l/0/w` and 1 more is not "
        "divisible by axis `tp`");
  CHECK(found[0].findings == 2);
  CHECK(found[0].facts.at(0) ==
        "dimension 1 is 9; axis `tp` is 4; 9 mod 4 = 1");
  CHECK(found[0].facts.at(2) == "`tp` may be 1, 3 or 9");
  ResolveOptions strict;
  strict.on_indivisible = OnIndivisible::Error;
  CHECK(lint_of(testing::manifest({{"w", "u8[9]"}}),
                testing::rules({{"w", "tp"}}), "tp=4", strict)
            .find(Code::IndivisibleDimension)
            .at(0)
            .severity == Severity::Error);
}

TEST_CASE("unknown and repeated axes are errors at the entry") {
  const auto result =
      lint_of(testing::manifest({{"w", "u8[8, 8]"}}),
              testing::rules({{"w", "tq, tp"}, {"z", "zz"}}), "tp=4");
  const auto unknown = result.find(Code::UnknownAxis);
  REQUIRE(unknown.size() == 2);
  CHECK(message(unknown[0]) == "SP201 rules:1:6 unknown axis `tq`");
  CHECK(message(unknown[1]) == "SP201 rules:2:6 unknown axis `zz`");
  const auto repeated = lint_of(testing::manifest({{"w", "u8[8, 8]"}}),
                                testing::rules({{"w", "tp, tp"}}), "tp=4")
                            .find(Code::RepeatedAxis);
  REQUIRE(repeated.size() == 1);
  CHECK(repeated[0].severity == Severity::Error);
}

TEST_CASE("uneven shards are reported under pad and chunk, with their sizes") {
  ResolveOptions options;
  options.on_indivisible = OnIndivisible::Chunk;
  const auto found = lint_of(testing::manifest({{"w", "u8[5]"}}),
                             testing::rules({{"w", "tp"}}), "tp=4", options)
                         .find(Code::UnevenShards);
  REQUIRE(found.size() == 1);
  CHECK(found[0].facts.at(0) ==
        "dimension 0 is 5; axis `tp` is 4; shards by rows: 2 of 2, 1 of 1, 1 "
        "of 0");
}

TEST_CASE("--allow and --deny change what a finding is") {
  Diagnostics diags;
  diags.set_severity(Code::IndivisibleDimension, Severity::Off);
  diags.set_severity(Code::UnusedAxis, Severity::Error);
  const auto result =
      lint_of(testing::manifest({{"w", "u8[9]"}}),
              testing::rules({{"w", "tp"}}), "tp=4", {}, {}, std::move(diags));
  CHECK(result.find(Code::IndivisibleDimension).empty());
  CHECK(result.diags.allowed() == 1);
  CHECK(result.find(Code::UnusedAxis).at(0).severity == Severity::Error);
}

TEST_CASE("sizes near 2^63 are reported without overflow") {
  const auto found =
      lint_of(testing::manifest({{"w", "u8[9223372036854775807]"}}),
              testing::rules({{"w", "tp"}}), "tp=1024")
          .find(Code::IndivisibleDimension);
  REQUIRE(found.size() == 1);
  CHECK(found[0].help.at(0) == "use a smaller mesh");
}

TEST_CASE("of null entries beyond the rank, one says it for all") {
  const auto dims = [](const char* spec) {
    std::string all;
    for (const Diagnostic& d :
         testing::lint_of(testing::manifest({{"w", "f32[8]"}}),
                          testing::rules({{"w", spec}}), "tp=2")
             .find(Code::SpecLongerThanRank)) {
      all += std::to_string(d.subject.dim) + " ";
    }
    return all;
  };
  CHECK(dims("tp, None, None, None") == "1 ");
  CHECK(dims("tp, None, None, fsdp") == "3 ");
  CHECK(dims("tp, fsdp, None, dp") == "1 3 ");
}

}  // namespace

}  // namespace shardplan
