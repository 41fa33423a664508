// SPDX-License-Identifier: Apache-2.0
#include "cost/residual.h"

#include <doctest/doctest.h>

namespace shardplan {
namespace {

StepTime step_of_three() {
  StepTime time;
  time.total = {1, 2, 5};
  const auto add = [&](const char* part, Seconds seconds, double exposed) {
    StepTimePart row;
    row.part = part;
    row.seconds = seconds;
    row.exposed = exposed;
    time.parts.push_back(row);
  };
  add("products", {0.9, 1.5, 2.0}, 1.5);
  add("all-gather over fsdp", {0.4, 0.8, 1.4}, 0.4);
  add("optimizer", {0.05, 0.1, 0.1}, 0.1);
  return time;
}

double shares(const Residual& residual) {
  double sum = 0;
  for (const ResidualPart& part : residual.parts) sum += part.share.value_or(0);
  return sum;
}

TEST_CASE("a slower run is shared out by how much slower parts may be") {
  const Residual slower = time_residual(step_of_three(), 2.5);
  CHECK(slower.difference() == doctest::Approx(0.5));
  CHECK_FALSE(slower.breaks_bound());
  CHECK(shares(slower) == doctest::Approx(0.5));
  // 0.5 to the upper end, against 1.0 where nothing hides.
  CHECK(*slower.parts[0].share == doctest::Approx(0.5 * 0.25 / 1.25));
  CHECK(*slower.parts[1].share == doctest::Approx(0.5 * 1.0 / 1.25));
  CHECK_FALSE(slower.parts[2].share);  // it cannot be slower
  CHECK(*slower.parts[0].alone == doctest::Approx(2.0 / 1.5));
  CHECK(slower.parts[0].alone_is_in_range);
  CHECK(*slower.parts[2].alone == doctest::Approx(6));
  CHECK_FALSE(slower.parts[2].alone_is_in_range);
}

TEST_CASE("a faster run by how much faster, and what may hide may hide") {
  const Residual faster = time_residual(step_of_three(), 1.5);
  CHECK(shares(faster) == doctest::Approx(-0.5));
  // 0.6 down to the least; all 0.4 that are not hidden; 0.05.
  const double squares = 0.36 + 0.16 + 0.0025;
  CHECK(*faster.parts[0].share == doctest::Approx(-0.5 * 0.36 / squares));
  CHECK(*faster.parts[1].share == doctest::Approx(-0.5 * 0.16 / squares));
  CHECK(faster.parts[0].alone_is_in_range);
  CHECK_FALSE(faster.parts[1].alone_is_in_range);
  CHECK_FALSE(faster.parts[2].alone);  // it does not take so long
  // No part is off by more than its range lets it.
  const Residual much = time_residual(step_of_three(), 3.4);
  CHECK(*much.parts[0].share == doctest::Approx(0.4));
  CHECK(*much.parts[1].share == doctest::Approx(1.0));
  const Residual more = time_residual(step_of_three(), 9);
  CHECK(shares(more) == doctest::Approx(1.5));
  CHECK_FALSE(time_residual(step_of_three(), 1.0).breaks_bound());
  CHECK(time_residual(step_of_three(), 0.99).breaks_bound());
}

TEST_CASE("memory has the same residual, of what columns have at their peaks") {
  MemoryBracket bracket;
  bracket.rows = {{"activations", "activations", {10, 20, 60}},
                  {"logits", "logits", {8, 6, 6}}};
  bracket.total = {18, 26, 66};
  const Residual residual = memory_residual(bracket, bracket.estimate() + 10);
  CHECK(residual.difference() == 10);
  CHECK(*residual.parts[0].share == 10);
  CHECK_FALSE(residual.parts[1].share);
  CHECK(residual.parts[1].lower == 6);  // none is above the estimate
  const Residual equal = memory_residual(bracket, bracket.estimate());
  CHECK(equal.difference() == 0);
  CHECK(memory_residual(bracket, bracket.lower() - 1).breaks_bound());
}

}  // namespace
}  // namespace shardplan
