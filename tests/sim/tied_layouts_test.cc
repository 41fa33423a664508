// SPDX-License-Identifier: Apache-2.0
#include "sim/tied_layouts.h"

#include <string>

#include <doctest/doctest.h>

#include "resolve/resolve.h"
#include "tests/support/builders.h"
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
    const int table = g.parameter({256, 64}, spec);
    const int tokens = g.input({2, 8}, "", 256);
    const int hidden = g.constrained(g.node("embedding", {table, tokens}), "");
    const int used = head ? g.constrained(table, head) : table;
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

TEST_CASE("tied: two layouts are told, with what they cost") {
  Tied tied("tp=4", "tp, None", "None, tp");
  CHECK(tied.report() ==
        "SP508 warning `` is looked up in one layout and multiplied in "
        "another");
  const Diagnostic& found = tied.diags.all()[0];
  REQUIRE(found.facts.size() == 4);
  CHECK(found.facts[0] == "it lies as P(tp, None)");
  CHECK(found.facts[1].find("(v2) reads it as P(tp, None)") !=
        std::string::npos);
  CHECK(found.facts[2].find("reads it as P(None, tp)") != std::string::npos);
  // 64 KiB, of which every device has a quarter and sends three of its four
  // parts.
  CHECK(found.facts[3] ==
        "for that, all devices together send 48.0 KiB of it in every forward "
        "pass");
}

// Bytes were those of float32, whatever --dtype said.
TEST_CASE("tied: what is sent in bf16 is half") {
  Tied tied("tp=4", "tp, None", "None, tp");
  tied.report(Storage::BF16);
  CHECK(tied.diags.all()[0].facts.at(3) ==
        "for that, all devices together send 24.0 KiB of it in every forward "
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

TEST_CASE("tied: copies in two layouts are told") {
  CHECK(copies("rules:\n  - ['embed_tokens|lm_head', [tp, fsdp]]\n",
               "bf16[64, 16]", "bf16[16, 64]") ==
        "SP508 warning `embed_tokens/embedding` and `lm_head/kernel` are tied, "
        "and lie differently\n"
        "`embed_tokens/embedding` [64, 16] lies as P(tp, fsdp)\n"
        "`lm_head/kernel` [16, 64] lies as P(tp, fsdp)\n"
        "from one to the other every device sends 576 B");
}

}  // namespace
}  // namespace shardplan
