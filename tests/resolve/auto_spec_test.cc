// SPDX-License-Identifier: Apache-2.0
#include "resolve/auto_spec.h"

#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "resolve/correct.h"
#include "tests/support/builders.h"
#include "tests/support/generators.h"

namespace shardplan {
namespace {

std::string chosen(const Shape& shape, const char* mesh,
                   const AutoSpecOptions& options = {}) {
  return spec_text(auto_spec(shape, testing::mesh(mesh), options));
}

TEST_CASE("large dimensions get large axes that divide them") {
  const char* mesh = "dp=1,fsdp=4,ep=1,tp=2,sp=1";
  CHECK(chosen({8, 8}, mesh) == "P(fsdp, tp)");
  CHECK(chosen({6, 8}, mesh) == "P(tp, fsdp)");
  CHECK(chosen({1024, 4096}, mesh) == "P(tp, fsdp)");
  CHECK(chosen({7, 9}, mesh) == "P(ep, dp)");  // axes of size 1 divide all
  CHECK(chosen({2, 6, 2}, "dp=8") == "P(None, None, None)");
}

TEST_CASE("the smallest dimension may come first") {
  AutoSpecOptions options;
  options.smallest_first = true;
  CHECK(chosen({1024, 4096}, "fsdp=4,tp=2", options) == "P(fsdp, tp)");
}

TEST_CASE("small arrays are replicated") {
  CHECK(chosen({}, "tp=2") == "P()");
  CHECK(chosen({2, 3}, "tp=8") == "P()");
  CHECK(chosen({0, 8}, "tp=8") == "P()");
  AutoSpecOptions options;
  options.min_size = 100;
  CHECK(chosen({8, 8}, "tp=2", options) == "P()");
  options.min_size = 64;
  CHECK(chosen({8, 8}, "tp=2", options) == "P(tp, None)");
  // More elements than can be counted are not few.
  CHECK(chosen({int64_t{1} << 40, int64_t{1} << 40}, "tp=2") == "P(tp, None)");
}

TEST_CASE("choices are taken in their order, together or one by one") {
  const std::vector<AxisNames> together = {{"fsdp", "tp"}, {"dp"}};
  AutoSpecOptions options;
  options.choices = together;
  CHECK(chosen({16, 8}, "dp=1,fsdp=4,tp=2", options) == "P((fsdp, tp), dp)");
  CHECK(chosen({12, 8}, "dp=1,fsdp=4,tp=2", options) == "P(dp, (fsdp, tp))");
  const std::vector<AxisNames> overlapping = {{"tp"}, {"tp"}, {"fsdp", "tp"}};
  options.choices = overlapping;
  CHECK(chosen({16, 8}, "dp=1,fsdp=4,tp=2", options) == "P(tp, None)");
}

TEST_CASE("what is chosen needs no correction") {
  CHECK(rc::check([] {
    const Mesh mesh = *testing::gen::mesh();
    const Shape shape = *testing::gen::shape();
    AutoSpecOptions options;
    options.smallest_first = *rc::gen::arbitrary<bool>();
    options.min_size = *rc::gen::element<int64_t>(0, 1, 10);
    const PartitionSpec spec = auto_spec(shape, mesh, options);
    RC_ASSERT(spec.dims.empty() || spec.dims.size() == shape.size());
    const CorrectedSpec corrected =
        correct(spec, shape, mesh, {}, OnIndivisible::Error);
    RC_ASSERT(corrected.corrections.empty());
  }));
}

}  // namespace
}  // namespace shardplan
