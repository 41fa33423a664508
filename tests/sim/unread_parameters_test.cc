// SPDX-License-Identifier: Apache-2.0
#include "sim/unread_parameters.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/built_graph.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

// A matrix per layer, of which the graph runs `run` of `layers`, then a head.
struct Stack {
  Stack(int layers, int run, const std::string& outputs = "") {
    std::string text = "graph: g\ninputs: {x: [2, 4]}\nparameters:\n";
    std::string ops = "ops:\n";
    std::string last = "x";
    for (int i = 0; i < run; ++i) {
      const std::string n = std::to_string(i);
      text += "  w" + n + ": {name: layers/" + n + "/w, shape: [4, 4]}\n";
      ops +=
          "  - {op: linear, in: [" + last + ", w" + n + "], out: h" + n + "}\n";
      last = "h" + n;
    }
    for (int i = 0; i < layers; ++i) {
      REQUIRE(manifest.add("layers/" + std::to_string(i) + "/w",
                           {DType::F32, {4, 4}}, {}));
    }
    REQUIRE(manifest.add("head", {DType::F32, {4, 4}}, {}));
    built = testing::built_graph(text + ops + outputs);
    REQUIRE_MESSAGE(built->graph, built->messages);
  }

  const Diagnostics& report(const UnreadScope& scope = {}) {
    report_unread_parameters(*built->graph, manifest, scope, diags);
    return diags;
  }

  Manifest manifest;
  std::unique_ptr<testing::BuiltGraph> built;
  Diagnostics diags;
};

TEST_CASE("unread: layers whose like is read are named") {
  Stack stack(30, 28);
  const Diagnostics& diags = stack.report();
  REQUIRE(diags.all().size() == 1);
  const Diagnostic& found = diags.all()[0];
  CHECK(testing::message(found) ==
        "SP507 warning the forward pass never reads 2 parameters of the model");
  REQUIRE(found.facts.size() == 1);
  CHECK(found.facts[0] ==
        "`layers/{28-29}/w` are not read; 28 of the same kind are");
  CHECK(found.parameters ==
        std::vector<std::string>{"layers/28/w", "layers/29/w"});
}

TEST_CASE("unread: nothing is said where all are read, or none") {
  CHECK(Stack(3, 3).report().all().empty());
  // The head stands alone: the graph may be a part of the model.
  Stack none(0, 1);
  CHECK(none.report().all().empty());
}

TEST_CASE("unread: of a whole model everything is reported") {
  Stack stack(3, 3);
  const Diagnostics& diags = stack.report({true, std::nullopt});
  REQUIRE(diags.all().size() == 1);
  CHECK(diags.all()[0].facts == std::vector<std::string>{"`head` is not read"});
}

TEST_CASE("unread: layers that are left out on purpose are no finding") {
  Stack stack(30, 28);
  CHECK(stack.report({false, 28}).all().empty());
  Stack fewer(30, 28);
  const Diagnostics& diags = fewer.report({true, 29});
  REQUIRE(diags.all().size() == 1);
  CHECK(diags.all()[0].parameters ==
        std::vector<std::string>{"layers/28/w", "head"});
}

TEST_CASE("unread: a layer whose result nobody uses is not read") {
  Stack stack(3, 3, "outputs: h1\n");
  const Diagnostics& diags = stack.report();
  REQUIRE(diags.all().size() == 1);
  CHECK(diags.all()[0].parameters == std::vector<std::string>{"layers/2/w"});
  // A probe looks at it.
  Stack probed(3, 3, "outputs: h1\nprobes: h2\n");
  CHECK(probed.report().all().empty());
}

}  // namespace
}  // namespace shardplan
