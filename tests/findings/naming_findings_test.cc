// SPDX-License-Identifier: Apache-2.0
// SP208, SP209: src/findings/naming_findings.cc.

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/linted.h"

namespace shardplan {
namespace {

using testing::lint_of;
using testing::Linted;
using testing::rules;

Manifest hugging_face() {
  return testing::manifest(
      {{"model.embed_tokens.weight", "bf16[64, 16]"},
       {"model.layers.0.self_attn.q_proj.weight", "bf16[16, 16]"},
       {"model.layers.1.self_attn.q_proj.weight", "bf16[16, 16]"},
       {"model.norm.weight", "bf16[16]"}});
}

std::string first_message(const Linted& linted) {
  if (linted.diags.all().empty()) return "none";
  const Diagnostic& first = linted.diags.all().front();
  return code_id(first.code) + " " +
         std::string(severity_name(first.severity)) + " " + first.message;
}

// "SP107 SP204"
std::string codes(const Linted& linted) {
  std::string text;
  for (const Diagnostic& each : linted.diags.all()) {
    text += (text.empty() ? "" : " ") + code_id(each.code);
  }
  return text;
}

TEST_CASE(
    "An axis of the mesh that the rules do not know sharded nothing, and "
    "passed: an error") {
  const auto message_of = [](RuleSet set, const char* mesh) {
    return first_message(lint_of(hugging_face(), std::move(set), mesh));
  };
  const auto codes_of = [](RuleSet set, const char* mesh,
                           const LintOptions& options = {}) {
    return codes(lint_of(hugging_face(), std::move(set), mesh, {}, options));
  };
  const RuleSet plain = rules({{"q_proj|embed", "fsdp, tp"}, {".*", ""}});
  RuleSet declared = plain;
  declared.declared_axes = {"fsdp", "tp"};
  CHECK(message_of(declared, "tensor=2") ==
        "SP208 error the rules use `fsdp`, `tp`; the mesh has `tensor`: did "
        "you mean `tp`?");
  CHECK(codes_of(declared, "tensor=2") == "SP208 SP209 SP107");
  CHECK(message_of(declared, "fsdp=2,tpp=2") ==
        "SP208 error the rules use `fsdp`, `tp`; the mesh has `tpp`: did you "
        "mean `tp`?");
  CHECK(message_of(plain, "dp=2,fsdp=2,tp=2") ==
        "SP208 error the mesh has axis `dp`, which the rules neither use nor "
        "declare");
  // Two letters are near any two others.
  declared.declared_axes.emplace_back("ep");
  CHECK(message_of(declared, "dp=2,fsdp=2,tp=2") ==
        "SP208 error the mesh has axis `dp`, which the rules neither use nor "
        "declare");
  // What the rules misspell is reported as that.
  CHECK(codes_of(rules({{"q_proj|embed", "fsdp, tpp"}, {".*", ""}}),
                 "fsdp=2,tp=2") == "SP107 SP201 SP204");
  // Declared, known from elsewhere, of size 1, or of no concern.
  RuleSet declares = plain;
  declares.declared_axes = {"dp"};
  CHECK(codes_of(declares, "dp=2,fsdp=2,tp=2") == "SP107 SP204");
  RuleSet of_values = plain;
  of_values.activations = rules({{"x", "dp"}}).rules;
  CHECK(codes_of(of_values, "dp=2,fsdp=2,tp=2") == "SP107 SP204");
  RuleSet semantic = plain;
  semantic.partition_axis = default_partition_axis();
  CHECK(codes_of(semantic, "dp=2,fsdp=2,tp=2") == "SP107 SP204");
  LintOptions named;
  named.named_axes = {"dp"};
  CHECK(codes_of(plain, "dp=2,fsdp=2,tp=2", named) == "SP107 SP204");
  CHECK(codes_of(plain, "dp=1,fsdp=2,tp=2") == "SP107");
  CHECK(codes_of(rules({{".*", ""}}), "dp=2") == "SP107 SP204");
  // An axis that a rule names and this model does not use.
  CHECK(codes_of(
            rules({{"q_proj|embed", "fsdp, tp"}, {"experts", "ep"}, {"", ""}}),
            "ep=2,fsdp=2,tp=2") == "SP102 SP107 SP204");
}

TEST_CASE(
    "A declared axis that the mesh lacks counted as size 1 without a word: one "
    "note says so, and `parity` makes it unknown") {
  RuleSet set = rules({{"w", "tp, (fsdp, sp)"}});
  set.declared_axes = {"dp", "sp"};
  const Manifest manifest = testing::manifest({{"w", "bf16[8, 8]"}});
  const Linted found = lint_of(manifest, set, "fsdp=2,tp=2");
  CHECK(first_message(found) ==
        "SP209 note the mesh lacks `sp`, which the rules declare: counted as "
        "size 1");
  REQUIRE(found.diags.all().size() == 1);
  CHECK(found.diags.all().front().facts.at(0) ==
        "the spec of 1 parameter names it; eFormer would replicate these "
        "dimensions (+32 B per device); JAX would reject the specs");
  ResolveOptions parity;
  parity.parity = true;
  CHECK(first_message(lint_of(manifest, set, "fsdp=2,tp=2", parity)) ==
        "SP201 error unknown axis `sp`");
  CHECK(first_message(lint_of(manifest, set, "fsdp=2,tp=2,sp=1", parity)) ==
        "none");
  CHECK(first_message(lint_of(manifest, set, "fsdp=2,tp=2,sp=1")) == "none");
}

// SP115: src/findings/naming_findings.cc.

Manifest flax() {
  return testing::manifest(
      {{"model/embed_tokens/embedding", "bf16[64, 16]"},
       {"model/layers/0/self_attn/q_proj/kernel", "bf16[16, 16]"},
       {"model/norm/scale", "bf16[16]"}});
}

TEST_CASE(
    "Rules for Flax names over a Hugging Face model replicated everything and "
    "passed: they are an error, reported first, in place of its consequences") {
  const Linted found = lint_of(
      hugging_face(),
      rules({{"q_proj/kernel", "fsdp, tp"}, {"norm/scale", ""}, {".*", ""}}),
      "fsdp=2,tp=2");
  CHECK(first_message(found) ==
        "SP115 error these rules are for Flax names "
        "(`self_attn/q_proj/kernel`), but the model has Hugging Face names "
        "(`self_attn.q_proj.weight`)");
  CHECK(found.diags.all().size() == 1);
  // The sound twin: the same rules over the names that they are for.
  const Linted sound = lint_of(
      flax(),
      rules({{"q_proj/kernel", "fsdp, tp"}, {"norm/scale", ""}, {".*", ""}}),
      "fsdp=2,tp=2");
  CHECK(sound.find(Code::RulesForOtherNames).empty());
  CHECK(sound.find(Code::CatchAllOnly).size() == 1);
}

TEST_CASE("schemes of names are told apart") {
  const auto message_of = [](const Manifest& manifest, const char* pattern) {
    return first_message(
        lint_of(manifest, rules({{pattern, "tp"}, {".*", ""}}), "tp=2"));
  };
  CHECK(message_of(flax(), R"(q_proj\.weight)") ==
        "SP115 error these rules are for Hugging Face names "
        "(`self_attn.q_proj.weight`), but the model has Flax names "
        "(`self_attn/q_proj/kernel`)");
  CHECK(message_of(flax(), R"(\['q_proj'\]\['kernel'\])") ==
        "SP115 error these rules are for JAX key paths "
        "(`['self_attn']['q_proj']['kernel']`), but the model has Flax names "
        "(`self_attn/q_proj/kernel`)");
  CHECK(message_of(testing::manifest({{"['wte']['embedding']", "bf16[4, 4]"}}),
                   "wte/embedding") ==
        "SP115 error these rules are for Flax names (`wte/embedding`), but the "
        "model has JAX key paths (`['wte']['embedding']`)");
  CHECK(message_of(testing::manifest({{"a.b", "bf16[4, 4]"}}), "a/b") ==
        "SP115 error these rules are for names with `/` (`a/b`), but the model "
        "has names with `.` (`a.b`)");
}

TEST_CASE("a catch-all that shards does not hide rules for other names") {
  CHECK(lint_of(hugging_face(),
                rules({{"q_proj/kernel", "fsdp, tp"}, {".*", "fsdp"}}),
                "fsdp=2,tp=2")
            .find(Code::RulesForOtherNames)
            .size() == 1);
}

TEST_CASE(
    "Rules of which none meets a name left all to a catch-all that replicates, "
    "and passed: an error, whatever the names are") {
  const Linted found =
      lint_of(hugging_face(), rules({{"wq/kernel", "fsdp, tp"}, {".*", ""}}),
              "fsdp=2,tp=2");
  CHECK(first_message(found) ==
        "SP115 error the rules are for different names than the model's");
  CHECK(found.diags.all().size() == 1);
}

TEST_CASE("rules that miss some names are no rules for other names") {
  const auto misses = [](const std::vector<testing::PatternAndSpec>& all) {
    return !lint_of(hugging_face(), rules(all), "fsdp=2,tp=2")
                .find(Code::RulesForOtherNames)
                .empty();
  };
  // One that shards is found.
  CHECK_FALSE(misses({{"embed", "tp"}, {"q_proj/kernel", "tp"}, {".*", ""}}));
  // Nothing is to be sharded.
  CHECK_FALSE(misses({{".*", ""}}));
  CHECK_FALSE(misses({{"bias", ""}, {".*", ""}}));
  // The catch-all is what shards; the others are for what may be there.
  CHECK_FALSE(misses({{"experts", "tp"}, {".*", "fsdp"}}));
  // What has no rule is an error of its own (SP101): a slip.
  CHECK_FALSE(misses({{"q_prjo", "tp"}, {"norm", ""}}));
  CHECK_FALSE(misses({{"q_prjo", "tp"}, {"emebd", "tp"}}));
  // More than slips.
  CHECK(misses({{"wq", "tp"}, {"wk", "tp"}, {"wte", "tp"}}));
}

TEST_CASE("logical axes that no rule names are reported once") {
  Manifest manifest = testing::manifest({{"w", "bf16[4, 4]"}});
  RuleSet logical;
  logical.logical_rules = {{"embed", {"tp"}, {}, {}}};
  const auto messages = [&] {
    return first_message(lint_of(manifest, logical, "tp=2"));
  };
  CHECK(messages() ==
        "SP115 error the rules place logical axes, but the model has none");
  manifest.set_axes(0, AxisLabels{"emb", std::nullopt});
  CHECK(messages() ==
        "SP115 error the rules and the model use different logical axes");
  CHECK(lint_of(manifest, logical, "tp=2").diags.all().size() == 1);
  manifest.set_axes(0, AxisLabels{"embed", std::nullopt});
  CHECK(messages() == "none");
  // One of several is named: what is not is a warning (SP111).
  manifest.set_axes(0, AxisLabels{"embed", "emb"});
  CHECK(messages().starts_with("SP111 warning"));
}

}  // namespace

}  // namespace shardplan
