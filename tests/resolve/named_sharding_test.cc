// SPDX-License-Identifier: Apache-2.0
// The checks of jax.sharding.NamedSharding (jax 0.8.2), written down again: an
// axis twice anywhere, an axis that the mesh lacks, a spec longer than the
// rank, a dimension that its axes do not divide. What passes them is left as it
// is; what does not has a correction.
#include <algorithm>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "resolve/correct.h"
#include "tests/support/builders.h"
#include "tests/support/generators.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

// In the order in which jax makes them; "" when all pass.
std::string named_sharding_refuses(const PartitionSpec& spec,
                                   const Shape& shape, const Mesh& mesh) {
  std::set<AxisName> used;
  for (const AxisNames& axes : spec.dims) {
    for (const AxisName& axis : axes) {
      if (!used.insert(axis).second) return "duplicate";
    }
  }
  for (const AxisName& axis : used) {
    if (!mesh.find(axis)) return "not found";
  }
  if (spec.dims.size() > shape.size()) return "rank";
  for (size_t dim = 0; dim < spec.dims.size(); ++dim) {
    if (shape[dim] % shard_count(mesh, spec.dims[dim]) != 0)
      return "indivisible";
  }
  return "";
}

TEST_CASE("a spec is corrected exactly where NamedSharding refuses it") {
  CHECK(holds("corrected = refused", [] {
    const Mesh mesh = testing::draw_mesh();
    const Shape shape = testing::draw_shape(3);
    const PartitionSpec spec =
        draw_bool() ? testing::draw_any_spec()
                    : testing::draw_legal_spec(mesh, shape.size() + 1);
    const CorrectedSpec corrected =
        correct(spec, shape, mesh, {}, OnIndivisible::Error);
    const std::string refused = named_sharding_refuses(spec, shape, mesh);
    if (refused.empty()) testing::count_case("not refused");
    ENSURE(corrected.corrections.empty() == refused.empty());
    ENSURE(named_sharding_refuses(corrected.spec, shape, mesh).empty());
  }));
}

TEST_CASE("each check has its code") {
  const struct {
    const char* spec;
    Shape shape;
    const char* refuses;
    std::vector<Code> codes;
  } rows[] = {
      {"tp, tp", {4, 4}, "duplicate", {Code::RepeatedAxis}},
      {"(tp, tp)", {4}, "duplicate", {Code::RepeatedAxis}},
      {"one, one", {4, 4}, "duplicate", {Code::RepeatedAxis}},
      {"zz", {4}, "not found", {Code::UnknownAxis}},
      // Where two checks fail, an unknown axis or a dimension that is not
      // divided makes that dimension whole, and with it a repetition ends.
      {"tp, (tp, zz)", {4, 4}, "duplicate", {Code::UnknownAxis}},
      {"tp, tp", {3, 4}, "duplicate", {Code::IndivisibleDimension}},
      {"tp, tp", {4, 3}, "duplicate", {Code::IndivisibleDimension}},
      {"tp, tp", {4}, "duplicate", {Code::SpecLongerThanRank}},
      // Entries of None count for the rank.
      {"None", {}, "rank", {Code::SpecLongerThanRank}},
      {"tp", {}, "rank", {Code::SpecLongerThanRank}},
      {"tp, None", {4}, "rank", {Code::SpecLongerThanRank}},
      {"zz, None",
       {},
       "not found",
       {Code::SpecLongerThanRank, Code::SpecLongerThanRank}},
      {"tp", {3}, "indivisible", {Code::IndivisibleDimension}},
      {"tp", {0}, "", {}},
      {"one", {3}, "", {}},
      {"", {}, "", {}},
  };
  const Mesh mesh = testing::mesh("tp=2,one=1");
  for (const auto& row : rows) {
    CAPTURE(row.spec);
    const PartitionSpec spec = testing::spec(row.spec);
    CHECK(named_sharding_refuses(spec, row.shape, mesh) == row.refuses);
    std::vector<Code> codes;
    for (const Correction& correction :
         correct(spec, row.shape, mesh, {}, OnIndivisible::Error).corrections) {
      codes.push_back(correction.code);
    }
    CHECK(codes == row.codes);
  }
}

}  // namespace
}  // namespace shardplan
