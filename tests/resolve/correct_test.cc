// SPDX-License-Identifier: Apache-2.0
#include "resolve/correct.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "model/units.h"
#include "tests/support/builders.h"
#include "tests/support/generators.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

using testing::mesh;
using testing::spec;

// "P(tp, None); 0 SP203 fsdp: why"
std::string corrected(const std::string& asked, const Shape& shape,
                      const Mesh& on, OnIndivisible policy,
                      const AxisNames& declared = {}) {
  const CorrectedSpec result =
      correct(spec(asked), shape, on, declared, policy);
  std::string text = spec_text(result.spec);
  for (const Correction& c : result.corrections) {
    text += "; " + std::to_string(c.dim) + " " + code_id(c.code) + " " +
            axes_text(c.dropped) + ": " + c.reason;
  }
  return text;
}

TEST_CASE("correct treats each dimension as the contract says") {
  struct Row {
    const char* asked;
    Shape shape;
    OnIndivisible policy;
    const char* result;
  };
  constexpr auto kDrop = OnIndivisible::Drop;
  constexpr auto kPrefix = OnIndivisible::Prefix;
  constexpr auto kPad = OnIndivisible::Pad;
  const Mesh m = mesh("fsdp=4,tp=2,one=1");
  for (const Row& row : std::initializer_list<Row>{
           {"fsdp", {8, 6}, kDrop, "P(fsdp, None)"},
           {"None, None", {8, 6}, kDrop, "P()"},
           {"one", {7}, kDrop, "P(one)"},
           {"(fsdp, tp)", {0}, kDrop, "P((fsdp, tp))"},
           {"(fsdp, tp)",
            {12},
            kDrop,
            "P(); 0 SP203 (fsdp, tp): 12 is not divisible by fsdp=4,tp=2"},
           {"(fsdp, tp)",
            {12},
            OnIndivisible::Error,
            "P(); 0 SP203 (fsdp, tp): 12 is not divisible by fsdp=4,tp=2"},
           {"(fsdp, tp)",
            {12},
            kPrefix,
            "P(fsdp); 0 SP203 tp: 12 is not divisible by fsdp=4,tp=2"},
           {"(fsdp, tp)",
            {2},
            kPrefix,
            "P(); 0 SP203 (fsdp, tp): 2 is not divisible by fsdp=4,tp=2"},
           {"(fsdp, tp)", {12}, kPad, "P((fsdp, tp))"},
           {"(fsdp, tp)", {12}, OnIndivisible::Chunk, "P((fsdp, tp))"},
           {"tp, fsdp",
            {12, 6},
            OnIndivisible::Rows,
            "P((tp, fsdp), None); 1 SP303 fsdp: 6 is not divisible by fsdp=4: "
            "FSDP2 shards dimension 0"},
           {"tp, fsdp", {12, 8}, OnIndivisible::Rows, "P(tp, fsdp)"},
           {"(fsdp, tp)", {10}, OnIndivisible::Rows, "P((tp, fsdp))"},
           {"(fsdp, tp)",
            {9},
            OnIndivisible::Rows,
            "P(fsdp); 0 SP203 tp: 9 is not divisible by tp=2"},
           {"(tp, zz)",
            {8},
            kPad,
            "P(); 0 SP201 (tp, zz): axis `zz` is unknown"},
           {"tp, (fsdp, tp)",
            {8, 8},
            kDrop,
            "P(tp, None); 1 SP202 (fsdp, tp): axis `tp` shards an earlier "
            "dimension"},
           {"one, one",
            {8, 8},
            kDrop,
            "P(one, None); 1 SP202 one: axis `one` shards an earlier "
            "dimension"},
           {"(tp, tp)",
            {8},
            kDrop,
            "P(tp); 0 SP202 tp: axis `tp` is named twice"},
           // A repetition that is cut off, or indivisible, is none.
           {"tp, tp",
            {8},
            kDrop,
            "P(tp); 1 SP104 tp: the parameter has 1 dimension"},
           {"tp, tp",
            {7, 8},
            kDrop,
            "P(None, tp); 0 SP203 tp: 7 is not divisible by tp=2"},
           {"tp", {}, kDrop, "P(); 0 SP104 tp: the parameter has 0 dimensions"},
       }) {
    CAPTURE(row.asked);
    CHECK(corrected(row.asked, row.shape, m, row.policy) == row.result);
  }
  CHECK(corrected("(sp, tp), sp", {8, 8}, m, kDrop, {"sp"}) == "P(tp, None)");
}

TEST_CASE("a product of repeated axes beyond 63 bits divides nothing") {
  CHECK(corrected("(a, a)", {INT64_MAX}, mesh("a=1099511627776"),
                  OnIndivisible::Drop)
            .starts_with("P(); 0 SP203"));
}

TEST_CASE("correct only removes, is idempotent, and its result is legal") {
  CHECK(holds([] {
    const Mesh mesh = testing::draw_mesh();
    const Shape shape = testing::draw_shape();
    const PartitionSpec asked = testing::draw_any_spec();
    const auto policy = draw_of({OnIndivisible::Drop, OnIndivisible::Prefix,
                                 OnIndivisible::Pad, OnIndivisible::Chunk,
                                 OnIndivisible::Rows, OnIndivisible::Error});
    const CorrectedSpec once = correct(asked, shape, mesh, {}, policy);
    const CorrectedSpec twice = correct(once.spec, shape, mesh, {}, policy);
    ENSURE(twice.spec == once.spec);
    ENSURE(twice.corrections.empty());
    ENSURE(once.spec.dims.empty() || once.spec.dims.size() == shape.size());
    std::set<AxisName> used;
    size_t kept = 0;
    for (size_t dim = 0; dim < once.spec.dims.size(); ++dim) {
      for (const AxisName& axis : once.spec.dims[dim]) {
        ENSURE(mesh.find(axis).has_value());
        ENSURE(used.insert(axis).second);
        const AxisNames& from = asked.dims.at(dim);
        const bool moved =
            policy == OnIndivisible::Rows && dim == 0 && is_gathered_axis(axis);
        ENSURE((moved || contains(from, axis)));
        ++kept;
      }
      if (cut_of(policy) == Cut::Even && policy != OnIndivisible::Pad) {
        ENSURE(shape[dim] % shard_count(mesh, once.spec.dims[dim]) == 0);
      }
    }
    // What is gone is in the rows: nothing is dropped in silence.
    size_t wanted = 0;
    size_t dropped = 0;
    for (const AxisNames& axes : asked.dims) wanted += axes.size();
    for (const Correction& c : once.corrections) {
      if (c.code == Code::UnevenShards) continue;  // it is elsewhere
      if (c.code != Code::SpecLongerThanRank || !c.dropped.empty()) {
        dropped += c.dropped.size();
      }
    }
    ENSURE(wanted == kept + dropped);
  }));
}

TEST_CASE("a legal spec stays as it was, but for its form") {
  CHECK(holds([] {
    const Mesh mesh = testing::draw_mesh();
    const Shape shape = testing::draw_shape();
    PartitionSpec spec = testing::draw_legal_spec(mesh, shape.size());
    const CorrectedSpec result =
        correct(spec, shape, mesh, {}, OnIndivisible::Pad);
    ENSURE(result.corrections.empty());
    spec.dims.resize(names_no_axis(spec) ? 0 : shape.size());
    ENSURE(result.spec == spec);
  }));
}

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
  CHECK(holds([] {
    const Mesh mesh = testing::draw_mesh();
    const Shape shape = testing::draw_shape();
    AutoSpecOptions options;
    options.smallest_first = draw_bool();
    options.min_size = draw_of<int64_t>({0, 1, 10});
    const PartitionSpec spec = auto_spec(shape, mesh, options);
    ENSURE(spec.dims.empty() || spec.dims.size() == shape.size());
    const CorrectedSpec corrected =
        correct(spec, shape, mesh, {}, OnIndivisible::Error);
    ENSURE(corrected.corrections.empty());
  }));
}

}  // namespace

}  // namespace shardplan
