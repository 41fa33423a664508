// SPDX-License-Identifier: Apache-2.0
#include "sim/activations.h"

#include <algorithm>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "resolve/resolve.h"
#include "tests/support/built_graph.h"
#include "tests/support/loaded_rules.h"

namespace shardplan {
namespace {

struct Placed {
  std::unique_ptr<testing::BuiltGraph> built;
  Diagnostics diags;
  std::optional<PlacedValues> values;
  std::string messages;

  std::string spec(const std::string& name) const {
    const ValueId v = built->value(name);
    return values->wanted[v] ? layout_text(*values->wanted[v]) : "open";
  }
  std::string from(const std::string& name) const {
    return values->from[built->value(name)];
  }
};

constexpr const char* kGraph = R"(graph: g
inputs:
  x: {shape: [8, 16], axes: [BATCH, null]}
  y: {shape: [8, 16], spec: [null, tp]}
  z: {shape: [16]}
parameters:
  w: {name: "mlp/w", shape: [16, 32]}
ops:
  - {op: linear, in: [x, w], out: h}
  - {op: silu, in: h, out: a, axes: [BATCH, MLP_INTERMEDIATE]}
  - {op: constraint, in: a, out: c, spec: [null, [tp, fsdp]]}
  - {op: rms_norm, in: [y, z], out: n}
outputs: [c, n]
)";

// Graph and rules, in which the graph is the model.
Placed placed(const std::string& rules, const std::string& graph = kGraph,
              OnIndivisible policy = OnIndivisible::Drop,
              const Mesh& mesh = Mesh({{"fsdp", 2}, {"tp", 2}})) {
  Placed result;
  result.built = testing::built_graph(graph);
  REQUIRE_MESSAGE(result.built->graph, result.built->messages);
  testing::MemoryHost host;
  host.files["rules.yaml"] = rules;
  const auto loaded = testing::loaded_rules(host, "rules.yaml");
  REQUIRE(loaded->rules.has_value());
  Manifest manifest;
  for (const Value& value : result.built->graph->values) {
    if (value.kind != Value::Kind::Parameter) continue;
    REQUIRE(manifest.add(value.parameter, {DType::F32, value.shape}, {}));
  }
  ResolveOptions how;
  how.on_indivisible = policy;
  const auto plan = resolve(manifest, *loaded->rules, mesh, how, result.diags);
  REQUIRE(plan.has_value());
  result.values = place_values(*result.built->graph, manifest, *plan,
                               *loaded->rules, {}, result.diags);
  result.messages = testing::messages(result.diags);
  return result;
}

constexpr const char* kRules = R"(axes: [dp, sp, ep]
rules:
  - ["mlp/w", [fsdp, tp]]
)";

TEST_CASE(
    "activations: what the graph, the rules and the labels say, in order") {
  const Placed p = placed(std::string(kRules) + R"(activations:
  - ["^h$", [fsdp, tp]]
  - ["h|z|y", [tp]]
)");
  REQUIRE(p.values.has_value());
  CHECK(p.spec("w") == "P(fsdp, tp)");
  CHECK(p.from("w") == "rules.yaml:3");
  CHECK(p.spec("x") == "P(fsdp, None)");  // BATCH is (fsdp, dp)
  CHECK(p.from("x") == "axes");
  CHECK(p.spec("y") == "P(None, tp)");  // its own spec, not the rule's
  CHECK(p.from("y") == "graph");
  CHECK(p.spec("z") == "P(tp)");
  CHECK(p.spec("h") == "P(fsdp, tp)");  // the first rule found
  CHECK(p.from("h") == "rules.yaml:5");
  CHECK(p.spec("a") == "P(fsdp, tp)");
  CHECK(p.spec("c") == "P(None, (tp, fsdp))");
  CHECK(p.from("c") == "constraint");
  CHECK(p.spec("n") == "open");
  CHECK(p.from("n").empty());
  // That the rule found in `y` does not count was not said.
  CHECK(p.messages ==
        "SP506 note rules.yaml:6:6 activation rule `h|z|y` does not decide "
        "how `y` is sharded: the graph gives its own spec");
}

TEST_CASE("activations: an input that nothing speaks of is replicated") {
  const Placed p = placed(kRules);
  CHECK(p.spec("z") == "P(None)");
  CHECK(p.from("z") == "no spec; replicated");
}

TEST_CASE("activations: rules do not reach what is computed on the way") {
  const Placed p = placed(std::string(kRules) + R"(activations:
  - ["n", [tp, null]]
)");
  CHECK(p.spec("n") == "P(tp, None)");
  CHECK(p.spec("n:mean_square") == "open");
}

TEST_CASE("activations: what cannot be as asked is said, and where") {
  const Placed p = placed(R"(rules:
  - ["mlp/w", [fsdp, tp]]
activations:
  - ["h", [nope, tp]]
  - ["nothing", [tp]]
)");
  REQUIRE(p.values.has_value());
  CHECK(p.spec("h") == "P(None, tp)");
  CHECK(p.messages.find(
            "SP201 rules.yaml:4:11 `h` is not sharded as requested") !=
        std::string::npos);
  CHECK(p.messages.find("SP506 warning rules.yaml:5:6 activation rule "
                        "`nothing` matches no value in the graph") !=
        std::string::npos);
}

TEST_CASE("activations: axes that labels mean by default may be absent") {
  const std::string rules = "rules:\n  - [\"mlp/w\", [fsdp, null]]\n";
  const Placed plain = placed(rules);
  CHECK(plain.messages == "");
  CHECK(plain.spec("x") == "P(fsdp, None)");
  CHECK(plain.spec("a") == "P(fsdp, tp)");
  const auto is_unknown = [](const Placed& p, const std::string& axis) {
    return p.messages.find("axis `" + axis + "` is unknown") !=
           std::string::npos;
  };
  // `data` may be what is meant by `dp`.
  const Placed other = placed(rules, kGraph, OnIndivisible::Drop,
                              Mesh({{"fsdp", 2}, {"tp", 2}, {"data", 2}}));
  CHECK(is_unknown(other, "dp"));
  REQUIRE_FALSE(other.diags.all().empty());
  CHECK(other.diags.all().front().help.back() ==
        "map the graph's labels to axes with `partition_axis` in the rules");
  // Somebody asked for it, in the rules or in the graph.
  CHECK(is_unknown(placed(rules + "partition_axis: {batch_axis: [dp, fsdp]}\n"),
                   "dp"));
  std::string literal = kGraph;
  literal.replace(literal.find("BATCH, null"), 11, "sp, null");
  CHECK(is_unknown(placed(rules, literal), "sp"));
}

TEST_CASE("activations: a dimension that does not divide stays whole") {
  const Placed p = placed(kRules, R"(graph: g
inputs:
  x: {shape: [3, 16], spec: [fsdp, tp]}
parameters:
  w: {name: "mlp/w", shape: [16, 32]}
ops:
  - {op: linear, in: [x, w], out: h}
)");
  CHECK(p.spec("x") == "P(None, tp)");
  CHECK(p.messages.find("SP203 warning g:3:3 `x`") != std::string::npos);
}

TEST_CASE(
    "activations: shards of different sizes are refused, but where they are "
    "gathered") {
  const auto of_shape = [](const std::string& shape) {
    return placed(kRules,
                  R"(graph: g
inputs:
  x: {shape: [4, 7]}
parameters:
  w: {name: "mlp/w", shape: )" +
                      shape + R"(}
ops:
  - {op: linear, in: [x, w], out: h}
)",
                  OnIndivisible::Pad);
  };
  const Placed gathered = of_shape("[7, 32]");
  REQUIRE(gathered.values.has_value());
  CHECK(gathered.spec("w") == "P(fsdp, tp)");
  const Placed p = of_shape("[7, 33]");
  CHECK_FALSE(p.values.has_value());
  CHECK(p.messages.find("SP010 `simulate` cannot run shards of different "
                        "sizes: `mlp/w`") != std::string::npos);
}

TEST_CASE("activations: a parameter that the model lacks is named") {
  const auto built = testing::built_graph(kGraph);
  REQUIRE(built->graph.has_value());
  Manifest manifest;
  REQUIRE(manifest.add("mlp/ww", {DType::F32, {16, 32}}, {}));
  const RuleSet rules;
  Diagnostics diags;
  const auto plan = resolve(manifest, rules, Mesh({{"tp", 2}}), {}, diags);
  REQUIRE(plan.has_value());
  CHECK_FALSE(place_values(*built->graph, manifest, *plan, rules, {}, diags));
  const auto lacking = std::find_if(
      diags.all().begin(), diags.all().end(), [](const Diagnostic& d) {
        return d.message == "the model has no parameter `mlp/w`";
      });
  REQUIRE(lacking != diags.all().end());
  CHECK(lacking->help[0].find("`mlp/ww`") != std::string::npos);
}

}  // namespace
}  // namespace shardplan
