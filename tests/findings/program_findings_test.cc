// SPDX-License-Identifier: Apache-2.0
#include "findings/program_findings.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "resolve/resolve.h"
#include "tests/support/builders.h"
#include "tests/support/built_graph.h"
#include "tests/support/loaded_rules.h"
#include "tests/support/messages.h"
#include "tests/support/small_graph.h"

namespace shardplan {
namespace {

using testing::SmallGraph;

// Tokens, a table on `spec` and logits by the same table, perhaps laid out
// otherwise first.
struct Tied {
  explicit Tied(const char* mesh, const char* spec, const char* head = nullptr)
      : g(mesh) {
    const ValueId table = g.parameter({256, 64}, spec);
    const ValueId tokens = g.input({2, 8}, "", 256);
    const ValueId hidden =
        g.constrained(g.node("embedding", {table, tokens}), "");
    const ValueId used = head ? g.constrained(table, head) : table;
    g.einsum("bsd,vd->bsv", hidden, used);
  }
  std::string report(Storage storage = Storage::F32) {
    const Program program = g.plan();
    report_tied_uses(program, storage, storage, diags);
    return testing::messages(diags);
  }
  SmallGraph g;
  Diagnostics diags;
};

TEST_CASE("tied: two uses in one layout are no finding") {
  CHECK(Tied("tp=4", "tp, None").report().empty());
  CHECK(Tied("fsdp=4", "fsdp, None").report().empty());
  CHECK(Tied("tp=4", "None, None", "None, None").report().empty());
}

TEST_CASE("tied: two layouts are reported, with what they cost") {
  Tied tied("tp=4", "tp, None", "None, tp");
  CHECK(tied.report() ==
        "SP508 warning `` is looked up in one layout and multiplied in "
        "another");
  const Diagnostic& found = tied.diags.all()[0];
  REQUIRE(found.facts.size() == 4);
  CHECK(found.facts[0] == "it is sharded as P(tp, None)");
  CHECK(found.facts[1].find("(v2) reads it as P(tp, None)") !=
        std::string::npos);
  CHECK(found.facts[2].find("reads it as P(None, tp)") != std::string::npos);
  // 64 KiB, of which every device has a quarter and sends three of its four
  // parts.
  CHECK(found.facts[3] ==
        "to reshard it, all devices together send 48.0 KiB in every forward "
        "pass");
}

// Bytes were those of float32, whatever --dtype said.
TEST_CASE("tied: what is sent in bf16 is half") {
  Tied tied("tp=4", "tp, None", "None, tp");
  tied.report(Storage::BF16);
  CHECK(tied.diags.all()[0].facts.at(3) ==
        "to reshard it, all devices together send 24.0 KiB in every forward "
        "pass");
}

TEST_CASE("tied: cutting what every device has costs nothing") {
  CHECK(Tied("tp=4", "None, None", "tp, None").report().empty());
}

std::string copies(const std::string& rules, const char* table_type,
                   const char* head_type, const char* head = "lm_head/kernel") {
  testing::MemoryHost host;
  host.files["rules.yaml"] = rules;
  const auto loaded = testing::loaded_rules(host, "rules.yaml");
  REQUIRE(loaded->rules.has_value());
  Manifest manifest;
  REQUIRE(
      manifest.add("embed_tokens/embedding", testing::type(table_type), {}));
  REQUIRE(manifest.add(head, testing::type(head_type), {}));
  Diagnostics diags;
  const auto plan = resolve(manifest, *loaded->rules,
                            testing::mesh("fsdp=2,tp=4"), {}, diags);
  REQUIRE(plan.has_value());
  Diagnostics found;
  report_tied_copies(manifest, *plan, found);
  std::string text = testing::messages(found);
  for (const Diagnostic& each : found.all()) {
    for (const std::string& fact : each.facts) text += "\n" + fact;
  }
  return text;
}

TEST_CASE("tied: a stored copy has the vocabulary on the same axes") {
  CHECK(copies("rules:\n  - [embed_tokens, [tp, fsdp]]\n"
               "  - [lm_head, [fsdp, tp]]\n",
               "bf16[64, 16]", "bf16[16, 64]")
            .empty());
  CHECK(copies("rules:\n  - ['embed_tokens|lm_head', [tp, fsdp]]\n",
               "bf16[64, 16]", "bf16[64, 16]", "lm_head.weight")
            .empty());
  // No head at all, and one that is none.
  CHECK(copies("rules:\n  - ['.', [tp, fsdp]]\n", "bf16[64, 16]",
               "bf16[16, 64]", "mlp/kernel")
            .empty());
}

TEST_CASE("tied: copies in two layouts are reported") {
  CHECK(copies("rules:\n  - ['embed_tokens|lm_head', [tp, fsdp]]\n",
               "bf16[64, 16]", "bf16[16, 64]") ==
        "SP508 warning `embed_tokens/embedding` and `lm_head/kernel` are tied "
        "but sharded differently\n"
        "`embed_tokens/embedding` [64, 16] is sharded as P(tp, fsdp)\n"
        "`lm_head/kernel` [16, 64] is sharded as P(tp, fsdp)\n"
        "to reshard one into the other, every device sends 576 B");
}

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
        "`layers/{28-29}/w` are not read; 28 others of the same kind are");
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

// Names of repeated biases of a shipped graph.
std::string repeated(const std::string& name) {
  const auto built = testing::shipped_graph(name);
  REQUIRE_MESSAGE(built->graph, built->messages);
  std::string names;
  for (const ValueId value : repeated_biases(*built->graph)) {
    names += built->graph->values[value].name + " ";
  }
  return names;
}

TEST_CASE("TPDense repeats its bias in mode scatter, and nothing else does") {
  CHECK(repeated("tp_dense_scatter") == "bias ");
  for (const char* name : {"tp_dense_gather", "tp_dense_local",
                           "tp_async_dense_gather", "tp_async_dense_scatter",
                           "parallel_linear", "mlp", "attention", "moe"}) {
    CHECK_MESSAGE(repeated(name).empty(), name);
  }
}

// Whether b [3, 4] is repeated, summed and added to a product like this.
bool is_repeated(const std::string& ops) {
  const auto built = testing::built_graph(
      "graph: g\ninputs: {x: [2, 3, 5], z: [2, 4]}\n"
      "parameters: {w: [3, 5, 4], b: [3, 4]}\nops:\n" +
      ops);
  REQUIRE_MESSAGE(built->graph, built->messages);
  return !repeated_biases(*built->graph).empty();
}

TEST_CASE("a repeated bias is found in other clothes, and only there") {
  const std::string product =
      "  - {op: einsum, in: [x, w], out: p, equation: 'btk,tkj->bj'}\n";
  const std::string summed = "  - {op: sum, in: b, out: s, dims: [0]}\n";
  CHECK(is_repeated(product + summed + "  - {op: add, in: [s, p], out: y}\n"));
  CHECK(is_repeated(product + "  - {op: scale, in: p, out: q, by: 2}\n" +
                    summed + "  - {op: add, in: [q, s], out: y}\n"));
  CHECK_FALSE(
      is_repeated(product + summed + "  - {op: add, in: [z, s], out: y}\n"));
  CHECK_FALSE(is_repeated(product + summed +
                          "  - {op: multiply, in: [p, s], out: y}\n"));
  CHECK_FALSE(is_repeated(
      "  - {op: einsum, in: [x, w], out: p, equation: 'btk,tkj->btj'}\n" +
      summed + "  - {op: add, in: [p, s], out: y}\n"));
}

}  // namespace

}  // namespace shardplan
