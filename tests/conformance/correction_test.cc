// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "conformance/vector_case.h"

namespace shardplan::conformance {
namespace {

Json inputs(const char* shape, const char* spec) {
  return {{"shape", Json::parse(shape)},
          {"spec", Json::parse(spec)},
          {"mesh", {{"axis_names", {"dp", "tp"}}, {"shape", {2, 4}}}}};
}

TEST_CASE("correction gives the spec and the mesh's names") {
  const Json expected = {{"spec", {nullptr, "tp"}},
                         {"mesh_axis_names", {"dp", "tp"}}};
  CHECK(
      get_corrected_named_sharding(inputs("[3, 8]", R"(["dp", "tp"])")).value ==
      expected);
}

TEST_CASE("an empty spec constrains nothing, a lost one replicates") {
  CHECK(with_sharding_constraint(inputs("[8]", "[]")).value ==
        Json({{"applied", nullptr}}));
  CHECK(with_sharding_constraint(inputs("[3]", R"(["dp"])")).value ==
        Json({{"applied", Json::array()}}));
}

TEST_CASE("a repeated axis is refused as a duplicate, no mesh as none") {
  const Json duplicate = {{"type", "DuplicateSpecError"}, {"message", ""}};
  const Answer answer =
      get_corrected_named_sharding(inputs("[8, 8]", R"(["tp", "tp"])"));
  CHECK(is_same_correction_error(answer, duplicate));
  Json no_mesh = inputs("[8]", "[]");
  no_mesh["mesh"] = nullptr;
  const Answer refused = get_corrected_named_sharding(no_mesh);
  CHECK_FALSE(is_same_correction_error(refused, duplicate));
  CHECK(is_same_correction_error(refused, {{"type", "AssertionError"}}));
}

}  // namespace
}  // namespace shardplan::conformance
