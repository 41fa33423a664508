// SPDX-License-Identifier: Apache-2.0
#include "advise/advise.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "tests/support/advised.h"
#include "tests/support/generators.h"

namespace shardplan {
namespace {

using testing::Advised;
using testing::advised;

// A model in which names are like those of real ones and sizes are small.
rc::Gen<Manifest> model() {
  return rc::gen::exec([] {
    Manifest manifest;
    const auto layers = *rc::gen::inRange(1, 3);
    for (const std::string leaf :
         {"self_attn/q_proj/kernel", "self_attn/k_proj/kernel", "mlp/up/kernel",
          "mlp/up/bias", "norm/scale"}) {
      TensorType type = *testing::gen::tensor_type(3);
      for (int layer = 0; layer < layers; ++layer) {
        RC_ASSERT(manifest.add("layers/" + std::to_string(layer) + "/" + leaf,
                               type, {}));
      }
    }
    RC_ASSERT(manifest.add("embed", *testing::gen::tensor_type(2), {}));
    return manifest;
  });
}

// Rules as people write them, each in some layout.
rc::Gen<std::string> rules_text() {
  return rc::gen::exec([] {
    std::string text = "# rules\nrules:\n";
    const auto count = *rc::gen::inRange(1, 6);
    for (int i = 0; i < count; ++i) {
      const auto pattern = *rc::gen::element<std::string>(
          "kernel", "mlp", "mlp/up", "_proj", "embed", "norm", "bias",
          "layers/1/", ".*", "nothing");
      const std::string spec = spec_source(*testing::gen::any_spec(), false);
      text += *rc::gen::element<std::string>(
          "  - [\"" + pattern + "\", " + spec + "]  # remark\n",
          "  # above\n  - {pattern: '" + pattern + "', spec: " + spec + "}\n",
          "  - pattern: " + (pattern == ".*" ? "'.*'" : pattern) +
              "\n    spec: " + spec + "\n");
    }
    return text + "# end\n";
  });
}

TEST_CASE("every fix keeps what it promises, whatever is wrong") {
  int fixes = 0;
  CHECK(rc::check(
      "a fix that is made removes its finding, brings no error, "
      "and changes bytes as it said",
      [&] {
        ResolveOptions options;
        options.on_indivisible = *rc::gen::element(
            OnIndivisible::Drop, OnIndivisible::Prefix, OnIndivisible::Pad,
            OnIndivisible::Chunk, OnIndivisible::Error);
        Diagnostics severities;
        severities.set_severity(Code::OverlyBroadPattern, Severity::Warning);
        const Advised before =
            advised(*model(), *rules_text(), *testing::gen::mesh(), options,
                    severities);
        const std::string broken = testing::broken_promises(before, fixes);
        if (!broken.empty()) RC_LOG() << before.text;
        RC_ASSERT(broken == "");
      }));
  CHECK(fixes > 100);  // else the property says little
}

TEST_CASE("the cheapest fix of each kind replaces the general help") {
  const Advised before =
      advised(testing::manifest({{"w", "u8[9, 8]"}}),
              "rules:\n  - [\"w\", [tp]]\n", testing::mesh("tp=2"));
  const auto found = before.find(Code::IndivisibleDimension);
  REQUIRE(found.size() == 1);
  CHECK(found[0].help ==
        std::vector<std::string>{
            "write `[null, tp]` as the spec of rule 1 (rules.yaml:2): 36 B "
            "less per device",
            "pad dimension 0 to 10: 32 B less per device",
            "pad dimension 0 to 128 (a multiple of 128): 440 B more per device",
            "use `tp=3`: 48 B less per device"});
  REQUIRE(found[0].fixes.size() >= 3);
  CHECK(found[0].fixes[0].bytes_per_device == -36);
  CHECK(found[0].fixes[0].finding_bytes_per_device == -36);
}

TEST_CASE("where nothing helps the general help stays") {
  const Advised before = advised(
      testing::manifest({{"w", "u8[7]"}, {"step", "i32[]"}}),
      "rules:\n  - [\"step\", []]\n  - [\"w\", [tp]]\n", testing::mesh("tp=7"));
  // Without the rule, `w` is fine; the rule for a scalar may simply go.
  const auto unused = before.find(Code::UnusedRule);
  REQUIRE(unused.size() == 1);
  CHECK(unused[0].fixes.size() == 1);
  CHECK(unused[0].help.back() ==
        "`shardplan inspect` shows the names that there are");
}

}  // namespace
}  // namespace shardplan
