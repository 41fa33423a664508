// SPDX-License-Identifier: Apache-2.0
#include "io/expressible.h"

#include <doctest/doctest.h>

#include "tests/support/exported.h"

namespace shardplan {
namespace {

using testing::exported;
using testing::Exporting;

Exporting model() {
  return {testing::manifest({{"layers.0.w", "f32[10, 8]"},
                             {"layers.1.w", "f32[10, 8]"},
                             {"lm_head.weight", "f32[10, 8]"}}),
          testing::rules({{"", "tp"}}), testing::mesh("tp=4")};
}

TEST_CASE("uneven shards are no spec, whatever the target") {
  for (const char* target : {"yaml", "json", "python", "jax"}) {
    for (const auto policy : {OnIndivisible::Pad, OnIndivisible::Chunk}) {
      Exporting what = model();
      what.how.on_indivisible = policy;
      CHECK(exported(target, what) ==
            "SP014 `" + std::string(target) +
                "` cannot say how `--on-indivisible " +
                std::string(policy_name(policy)) +
                "` cuts `layers.0.w` and 2 more");
      what.mesh = testing::mesh("tp=2");  // divides
      CHECK(exported(target, what).find("SP014") == std::string::npos);
    }
  }
}

TEST_CASE("what is declared is no spec") {
  Exporting what = model();
  what.model.facts.vocab = 10;
  what.how.declarations.pad_vocab = 4;
  CHECK(exported("jax", what) ==
        "SP014 `jax` cannot say what `--declare` changes of "
        "`lm_head.weight`");
}

TEST_CASE("UNCONSTRAINED is no axis, where a parameter asks for it") {
  Exporting what = model();
  what.rules.rules[0].spec.dims = {{std::string(kUnconstrained)}};
  CHECK(exported("python", what) ==
        "SP014 `python` cannot say UNCONSTRAINED, which is asked for "
        "`layers.0.w` and 2 more");
  // A rule that decides nothing is not in the table.
  what.rules = testing::rules({{"", ""}, {"never", ""}});
  what.rules.rules[1].spec.dims = {{std::string(kUnconstrained)}};
  CHECK(exported("python", what).find("# a rule says UNCONSTRAINED\n") !=
        std::string::npos);
}

TEST_CASE("a pattern cannot tell a name from itself with a newline") {
  Exporting what = model();
  what.model = testing::manifest({{"w", "f32[8]"}, {"w\n", "f32[8]"}});
  what.saved = true;
  CHECK(exported("python", what) ==
        "SP014 `python` cannot tell `w\\n` from the same without the newline");
  CHECK(exported("jax", what).find("\"w\\n\": PartitionSpec(\"tp\")") !=
        std::string::npos);
}

TEST_CASE("comments cannot be left") {
  const Exporting what = model();
  Diagnostics diags;
  const auto plan = resolve(what.model, what.rules, what.mesh, {}, diags);
  ExportInput input{what.model, *plan};
  input.origin = {"model: a\nimport os"};
  CHECK(comment_text(header_lines(input, "Rules", "yaml")) ==
        "# Rules; `shardplan export --to yaml`.\n"
        "# model: a\\nimport os\n# mesh: tp=4\n");
}

}  // namespace
}  // namespace shardplan
