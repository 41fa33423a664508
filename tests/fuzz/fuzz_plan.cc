// SPDX-License-Identifier: Apache-2.0
// Saved plans: what is read, written and read again is the same plan.
#include "io/plan/plan_file.h"
#include "tests/fuzz/fuzz.h"

namespace {

std::string written(const shardplan::SavedPlan& saved) {
  std::string text;
  shardplan::write_plan(saved.manifest, saved.plan, [&](std::string_view part) {
    text += part;
    return true;
  });
  return text;
}

}  // namespace

FUZZ_TARGET(plan) {
  using namespace shardplan;
  Diagnostics diags;
  const auto saved =
      read_plan(std::make_shared<SourceFile>(
                    "plan", std::string(fuzz::text_of(data, size))),
                diags);
  fuzz::require(saved.has_value() || diags.has_errors(),
                "a refusal has a reason");
  if (!saved) return 0;
  const std::string text = written(*saved);
  const auto again =
      read_plan(std::make_shared<SourceFile>("again", text), diags);
  fuzz::require(again.has_value(), "a plan that was written can be read");
  fuzz::require(written(*again) == text, "and is the same plan");
  return 0;
}
