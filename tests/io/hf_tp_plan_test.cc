// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <set>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "io/dialects.h"
#include "io/export.h"
#include "io/hf_tp_plan/styles.h"
#include "tests/io/document_text.h"
#include "tests/support/messages.h"
#include "tests/support/planned_model.h"
#include "tests/support/property.h"
#include "tests/support/resolved.h"

namespace shardplan {
namespace {

TEST_CASE("styles are found by name, each once") {
  std::set<std::string_view> names;
  for (const TpStyle& style : tp_styles()) {
    CAPTURE(style.name);
    CHECK(names.insert(style.name).second);
    CHECK(find_tp_style(style.name) == &style);
    // A bias has one dimension.
    CHECK(style.bias != TpCut::SecondLast);
  }
  CHECK(find_tp_style("colwise")->weight == TpCut::SecondLast);
  CHECK(find_tp_style("rowwise")->bias == TpCut::Whole);
  CHECK(find_tp_style("Colwise") == nullptr);
}

using nlohmann::json;

// "pattern -> P(..)" per rule, then diagnostics.
std::string tp_plan_text(const std::string& text, RuleReading reading = {}) {
  Diagnostics diags;
  RuleSet rules;
  const bool good = kHfTpPlan.read(std::make_shared<SourceFile>("r", text),
                                   reading, rules, diags);
  std::string all;
  for (const Rule& rule : rules.rules) {
    all += rule.pattern + " -> " + spec_text(rule.spec) +
           (rule.from_last ? " from the last\n" : "\n");
  }
  return (good ? "" : "refused\n") + all + testing::text_of(diags);
}

TEST_CASE("entries become anchored rules, and what has none is replicated") {
  const std::string expected =
      "^(?:(?:model|transformer|language_model)\\.)*l\\.\\d+\\.q(?:\\.bias)$"
      " -> P(tp) from the last\n"
      "^(?:(?:model|transformer|language_model)\\.)*l\\.\\d+\\.q(?:\\.[^.]+)?$"
      " -> P(tp, None) from the last\n"
      ".* -> P()\n";
  CHECK(tp_plan_text("{\"base_model_tp_plan\": {\"l.*.q\": \"colwise\"}}") ==
        expected);
  CHECK(tp_plan_text("base_model_tp_plan:\n  l.*.q: colwise\n") == expected);
  CHECK(tp_plan_text("{'l.*.q': 'colwise',}") == expected);
  CHECK(tp_plan_text("class C:\n  base_model_tp_plan: dict = {\n"
                     "    \"l.*\" \".q\": \"colwise\",  # heads\n  }\n") ==
        expected);
  CHECK(tp_plan_text(
            "{\"model_type\": \"x\", \"base_model_pp_plan\": {\"a\": 1}, "
            "\"base_model_tp_plan\": {\"l.*.q\": \"colwise\"}}") == expected);
}

TEST_CASE("each style cuts its dimension of weights and of biases") {
  const auto rules = [](const std::string& style) {
    return tp_plan_text("{\"tp_plan\": {\"a\": \"" + style + "\"}}");
  };
  const std::string rest = ".* -> P()\n";
  CHECK(rules("rowwise") ==
        "^a(?:\\.bias)$ -> P()\n"
        "^a(?:\\.[^.]+)?$ -> P(tp) from the last\n" +
            rest);
  CHECK(rules("grouped_gemm") == "^a(?:\\.[^.]+)?$ -> P(tp)\n" + rest);
  CHECK(rules("sequence_parallel") == "^a(?:\\.[^.]+)?$ -> P()\n" + rest);
  CHECK(tp_plan_text("{\"tp_plan\": {\"a.bias\": \"rowwise\"}}") ==
        "^a\\.bias(?:\\.[^.]+)?$ -> P()\n" + rest);
}

TEST_CASE("a style that is none is refused with the nearest name") {
  Diagnostics diags;
  RuleSet rules;
  const auto source = std::make_shared<SourceFile>(
      "r", "{\"tp_plan\": {\"a\": \"colwize\", \"b\": \"\", \"c\": 3}}");
  CHECK_FALSE(kHfTpPlan.read(source, {}, rules, diags));
  CHECK(testing::text_of(diags) ==
        "SP002 1:44 the style of `c` must be a string, not an integer\n"
        "SP002 1:19 `colwize` is not a tensor-parallel style\n"
        "SP002 1:35 `` is not a tensor-parallel style\n");
  CHECK(diags.all()[1].help[0] == "did you mean `colwise`?");
}

TEST_CASE("a key that no name folds to is dropped with a warning") {
  CHECK(tp_plan_text("{\"tp_plan\": {\"e.*.w1\": \"rowwise\"}}") ==
        ".* -> P()\nSP102 1:14 `e.*.w1` cannot match any parameter\n");
  CHECK(tp_plan_text("{\"transformers_version\": \"5.23.0\", "
                     "\"tp_plan\": {\"e.*.w1\": \"grouped_gemm\"}}") ==
        "^e\\.\\d+\\.w1(?:\\.[^.]+)?$ -> P(tp)\n.* -> P()\n");
  CHECK(tp_plan_text("{\"transformers_version\": \"5.0\", "
                     "\"tp_plan\": {\"e.*.*\": \"gather\"}}") ==
        "^e\\.\\d+\\.\\d+(?:\\.[^.]+)?$ -> P()\n.* -> P()\n");
  CHECK(tp_plan_text("{\"transformers_version\": \"5.1\", "
                     "\"tp_plan\": {\"e.*.*\": \"gather\"}}") ==
        "refused\nSP002 1:54 transformers 5.1 has no style `gather`\n");
  CHECK(tp_plan_text("{\"transformers_version\": \"5.16\", \"tp_plan\": "
                     "{\"a\": \"colwise_rep\"}}")
            .starts_with("^a"));
}

TEST_CASE("plans are chosen by name, and those of one model are one") {
  const std::string both =
      "{\"tp_plan\": {\"a\": \"gather\"}, \"base_model_tp_plan\": {\"b\": "
      "\"local\"}, \"base_model_ep_plan\": {\"c\": \"ep_router\"}}";
  CHECK(tp_plan_text(both) ==
        "^a(?:\\.[^.]+)?$ -> P()\n"
        "^(?:(?:model|transformer|language_model)\\.)*b(?:\\.[^.]+)?$ -> P()\n"
        ".* -> P()\n");
  CHECK(tp_plan_text(both, {"base_model_ep_plan", {}}) ==
        "^(?:(?:model|transformer|language_model)\\.)*c(?:\\.[^.]+)?$ -> P()\n"
        ".* -> P()\n");
  CHECK(tp_plan_text(both, {"x", {}}) ==
        "refused\nSP002 1:1 there is no plan named `x`\n");
  CHECK(tp_plan_text("a = {\"x\": \"colwise\"}\nb = {\"x\": \"colwise\"}\n") ==
        "refused\nSP002 1:1 the file has 2 plans\n");
}

std::string strict_config(const std::string& type) {
  return "@strict\nclass C(PreTrainedConfig):\n    model_type = \"" + type +
         "\"\n    base_model_tp_plan = {\"l.*.q\": \"rowwise\"}\n";
}

RuleReading answered(std::vector<RuleAnswer> answers) {
  RuleReading reading;
  reading.answers = std::move(answers);
  return reading;
}

TEST_CASE("a configuration of transformers 5 is completed, by version") {
  const std::string usual = "^(?:(?:model|transformer|language_model)\\.)*";
  const std::string q = usual + "l\\.\\d+\\.q(?:\\.bias)$ -> P()\n" + usual +
                        "l\\.\\d+\\.q(?:\\.[^.]+)?$ -> P(tp) from the "
                        "last\n";
  const std::string head =
      usual + "lm_head(?:\\.bias)$ -> P(tp) from the last\n" + usual +
      "lm_head(?:\\.[^.]+)?$ -> P(tp, None) from the last\n";
  const std::string embedding = usual + "embed_tokens(?:\\.bias)$ -> P()\n" +
                                usual + "embed_tokens(?:\\.[^.]+)?$ -> P(tp)\n";
  const std::string rest = ".* -> P()\n";
  const std::string note =
      "SP109 4:26 the plan is completed as in transformers 5.23\n";
  const std::string text = strict_config("llama");
  CHECK(tp_plan_text(text) == q + head + embedding + rest + note);
  const auto as_of = [&](const std::string& version) {
    return tp_plan_text(text, answered({{"transformers_version", version}}));
  };
  CHECK(as_of("5.22.0") == q + head + embedding + rest);
  CHECK(as_of("5.14") == q + head + rest);
  CHECK(as_of("5.4.0") == q + rest);
  CHECK(as_of("5.18") ==
        "refused\nSP002 4:26 the plan depends on `tie_word_embeddings`\n");
  CHECK(tp_plan_text(text, answered({{"transformers_version", "5.18"},
                                     {"tie_word_embeddings", "true"}})) ==
        q + head + embedding + rest);
  CHECK(as_of("soon") ==
        "refused\nSP002 - `soon` is not a transformers version\n");
  // Neither the decorator nor a style of 5.2: an earlier file.
  CHECK(tp_plan_text(text.substr(text.find("class"))) == q + rest);
}

TEST_CASE("base models and heads are called as their models call them") {
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(has(tp_plan_text(strict_config("gpt_neox")), "^(?:(?:gpt_neox)\\.)*l"));
  CHECK(has(tp_plan_text(strict_config("inkling_text")),
            "lm_head(?:\\.[^.]+)?$ -> P(tp) from the last"));
  CHECK_FALSE(has(tp_plan_text(strict_config("nemotron_h")), "lm_head"));
  CHECK(has(tp_plan_text(strict_config("mine"),
                         answered({{"base_model_prefix", "talker.model"}})),
            "^(?:(?:talker|model)\\.)*l"));
  CHECK(has(tp_plan_text(strict_config("mine"),
                         answered({{"base_model_prefix", "a b"}})),
            "SP002 - `a b` is not a module name"));
  Diagnostics diags;
  RuleSet rules;
  CHECK(kHfTpPlan.read(std::make_shared<SourceFile>("r", strict_config("mine")),
                       {}, rules, diags));
  REQUIRE(diags.all().size() == 1);
  REQUIRE(diags.all()[0].facts.size() == 3);
  CHECK(diags.all()[0].facts[1].starts_with("the model type is unknown"));
  CHECK(rules.questions ==
        std::vector<std::string>{"transformers_version", "base_model_prefix"});
}

TEST_CASE("a plan that Python computes, or of a head alone, is refused") {
  CHECK(tp_plan_text("class C(PreTrainedConfig):\n"
                     "    base_model_tp_plan = dict(a=\"colwise\")\n")
            .starts_with(
                "refused\nSP002 2:26 `base_model_tp_plan` is computed "
                "here; only a literal dictionary of strings is supported\n"));
  CHECK(tp_plan_text("class M(PreTrainedModel):\n"
                     "    _tp_plan = {\"lm_head\": \"colwise_rep\"}\n") ==
        "refused\nSP002 2:16 this plan covers only a head: the base model's "
        "plan is in the configuration file\n");
}

TEST_CASE("fused experts stand for those of checkpoints, but for whole ones") {
  const auto spec_for = [](const std::string& style, const std::string& name,
                           const Shape& shape) {
    Diagnostics diags;
    const RuleSet rules = testing::read_rules(
        kHfTpPlan,
        R"({"tp_plan": {"l.*.mlp.experts.gate_up_proj": ")" + style + "\"}}",
        diags);
    Manifest manifest;
    REQUIRE(manifest.add(name, {DType::F32, shape}, {}));
    return spec_text(
        testing::spec_by_rules(rules, manifest, 0).value_or(PartitionSpec()));
  };
  CHECK(spec_for("packed_colwise", "l.0.mlp.experts.gate_up_proj", {4, 8, 2}) ==
        "P(None, tp)");
  CHECK(spec_for("packed_colwise", "l.0.mlp.experts.3.up_proj.weight",
                 {4, 2}) == "P(tp)");
  CHECK(spec_for("packed_colwise", "l.0.block_sparse_moe.experts.3.w3.weight",
                 {4, 2}) == "P(tp)");
  CHECK(spec_for("grouped_gemm", "l.0.mlp.experts.3.up_proj.weight", {4, 2}) ==
        "P()");
  Diagnostics diags;
  const RuleSet dealt = testing::read_rules(
      kHfTpPlan,
      R"({"tp_plan": {"l.*.mlp.experts.gate_up_proj": "grouped_gemm"}})",
      diags);
  CHECK(dealt.rules.at(1).deal == "tp");
}

TEST_CASE("packed styles shard each part") {
  const auto found = [](const std::string& style) {
    Diagnostics diags;
    const RuleSet rules = testing::read_rules(
        kHfTpPlan, R"({"tp_plan": {"l.*.mlp.gate_up_proj": ")" + style + "\"}}",
        diags);
    return rules.rules.at(1).shards_parts;
  };
  CHECK(found("packed_colwise"));
  CHECK_FALSE(found("colwise_gather_output"));
}

TEST_CASE("what is not a plan is refused") {
  CHECK(tp_plan_text("[1]") ==
        "refused\nSP002 1:1 `tp_plan` must be a map, not a "
        "list\n");
  CHECK(tp_plan_text("{\"tp_plan\": 3}") ==
        "refused\nSP002 1:13 `tp_plan` must be a map, not an integer\n");
  CHECK(tp_plan_text("{\"tp_plan\": null}") ==
        "refused\nSP002 1:1 no tensor-parallel plan found\n");
  CHECK(tp_plan_text("tp_plan = {\"a\": STYLE, **more}") ==
        "refused\nSP002 1:17 the style of `a` is not a string\n"
        "SP002 1:24 this entry has no literal key\n");
  CHECK(tp_plan_text("{\"transformers_version\": \"new\", \"tp_plan\": {}}") ==
        "refused\nSP002 1:26 `new` is not a transformers version\n");
}

TEST_CASE("plans are recognised by their keys or their styles") {
  CHECK(kHfTpPlan.recognize("{\"x\": \"colwise\"}"));
  CHECK(kHfTpPlan.recognize("x.y : rowwise\n"));
  CHECK(kHfTpPlan.recognize("  base_model_tp_plan = {"));
  CHECK_FALSE(kHfTpPlan.recognize("rules:\n- [\"colwise\", [tp]]\n"));
  CHECK_FALSE(kHfTpPlan.recognize("unmatched: replicate\n"));
}

TEST_CASE("names find the entries that transformers finds for them") {
  const json record = testing::read_json(testing::data_path("hf_tp_plan.json"));
  for (const char* version : {"before", "since"}) {
    CAPTURE(version);
    // A file with a later style is read as of a later version; the recorded
    // functions do not look at styles.
    json plan = {{"tp_plan", record.at("plan")}};
    const auto style = [&](const json& recorded) {
      const bool is_late = recorded == "packed_colwise";
      return std::string(version) == "before" && is_late ? json("replicate")
                                                         : recorded;
    };
    for (auto& entry : plan.at("tp_plan")) entry = style(entry);
    if (std::string(version) == "before") {
      plan["transformers_version"] = "4.57.1";
    }
    Diagnostics diags;
    const RuleSet rules = testing::read_rules(kHfTpPlan, plan.dump(), diags);
    const auto matcher = Matcher::compile(rules, false, diags);
    REQUIRE(matcher);
    for (const json& row : record.at("rows")) {
      CAPTURE(row.dump());
      std::vector<int> found;
      matcher->find(row.at("name").get<std::string>(), found);
      REQUIRE_FALSE(found.empty());
      const Rule& rule = rules.rules[static_cast<size_t>(found.front())];
      if (row.at(version).is_null()) {
        CHECK(rule.pattern == ".*");
      } else {
        CHECK(rule.spec_where.text() ==
              style(row.at(version)).dump());  // in quotes
      }
    }
  }
}

using testing::PlannedModel;

std::optional<std::string> written_tp_plan(const PlannedModel& model,
                                           Diagnostics& diags) {
  return kHfTpPlanTarget.write({model.manifest, model.plan}, diags);
}

TEST_CASE("a style is found per module, and whole modules have none") {
  Diagnostics diags;
  const auto text =
      written_tp_plan(testing::planned({{"l.0.q.weight", "f32[8, 4]"},
                                        {"l.0.q.bias", "f32[8]"},
                                        {"l.1.q.weight", "f32[8, 4]"},
                                        {"l.1.q.bias", "f32[8]"},
                                        {"l.0.o.weight", "f32[8, 4]"},
                                        {"l.0.o.bias", "f32[8]"},
                                        {"l.0.norm.weight", "f32[8]"},
                                        {"l.0.stacks.up", "f32[4, 8, 2]"},
                                        {"l.0.stacks.gate", "f32[4, 8, 2]"},
                                        {"l.0.mixed.a", "f32[4, 8]"},
                                        {"l.0.mixed.b", "f32[4, 8]"}},
                                       {"tp", "tp", "tp", "tp", "None, tp", "",
                                        "", "tp", "None, tp", "None, tp", ""},
                                       "dp=2,tp=2"),
                      diags);
  REQUIRE_MESSAGE(text, testing::messages(diags));
  CHECK(*text == R"({
  "tp_plan": {
    "l.*.q": "colwise",
    "l.*.o": "rowwise",
    "l.*.stacks.up": "grouped_gemm",
    "l.*.stacks.gate": "colwise",
    "l.*.mixed.a": "rowwise"
  }
}
)");
}

TEST_CASE("embeddings, heads, experts and norms of heads have their styles") {
  Diagnostics diags;
  const auto text = written_tp_plan(
      testing::planned(
          {{"embed_tokens.weight", "f32[8, 4]"},
           {"l.0.q_proj.weight", "f32[8, 4]"},
           {"l.0.q_norm.weight", "f32[2]"},
           {"l.0.mlp.experts.0.gate_proj.weight", "f32[8, 4]"},
           {"l.0.mlp.experts.0.down_proj.weight", "f32[4, 8]"},
           {"l.1.block_sparse_moe.experts.0.w3.weight", "f32[8, 4]"},
           {"lm_head.weight", "f32[8, 4]"}},
          {"tp", "tp", "", "tp", "None, tp", "tp", "tp"}, "tp=2"),
      diags);
  REQUIRE_MESSAGE(text, testing::messages(diags));
  CHECK(*text == R"({
  "transformers_version": "5.3.0",
  "tp_plan": {
    "embed_tokens": "embedding_rowwise",
    "l.*.q_proj": "colwise",
    "l.*.mlp.experts.gate_up_proj": "packed_colwise",
    "l.*.mlp.experts": "moe_tp_experts",
    "l.*.mlp.experts.down_proj": "rowwise",
    "lm_head": "colwise_gather_output",
    "l.*.q_norm": "replicated_with_grad_allreduce"
  }
}
)");
}

TEST_CASE("where digits would merge layouts the later folding is asked for") {
  Diagnostics diags;
  const auto text = written_tp_plan(
      testing::planned(
          {{"e.0.w1.weight", "f32[8, 4]"}, {"e.0.w2.weight", "f32[4, 8]"}},
          {"tp", "None, tp"}, "tp=2"),
      diags);
  REQUIRE(text);
  CHECK(*text == R"({
  "transformers_version": "5.2.0",
  "tp_plan": {
    "e.*.w1": "colwise",
    "e.*.w2": "rowwise"
  }
}
)");
}

TEST_CASE("a parameter that is called as a module has one entry with it") {
  const auto said = [](const char* inner) {
    Diagnostics diags;
    return written_tp_plan(testing::planned({{"head.bias", "f32[]"},
                                             {"head.w", "f32[8, 4]"},
                                             {"head.v", "f32[8, 4]"},
                                             {"head.w.inner", "f32[8, 4]"}},
                                            {"", "tp", "", inner}, "tp=2"),
                           diags)
        .value_or(testing::messages(diags));
  };
  CHECK(said("tp") == R"({
  "transformers_version": "5.23.0",
  "tp_plan": {
    "head": "local_params",
    "head.w": "colwise"
  }
}
)");
  CHECK(said("None, tp") ==
        "SP014 `head.w.inner` cannot be expressed in a tensor-parallel plan");
}

TEST_CASE("what no style says is refused with the reason") {
  Diagnostics diags;
  CHECK_FALSE(written_tp_plan(
      testing::planned({{"a.weight", "f32[8, 4]"},
                        {"b.weight", "f32[2, 2, 2, 2]"},
                        {"c.0", "f32[4, 4]"},
                        {"c.1", "f32[4, 4]"},
                        {"d*", "f32[4]"}},
                       {"fsdp", "None, tp", "tp", "None, tp", "tp"},
                       "fsdp=2,tp=2"),
      diags));
  std::string all;
  for (const Diagnostic& d : diags.all()) {
    all += testing::message(d) + ": " + d.facts.at(0) + "\n";
  }
  CHECK(all ==
        "SP014 `a.weight` cannot be expressed in a tensor-parallel plan: it is "
        "sharded as P(fsdp); a plan has only the axis `tp`\n"
        "SP014 `b.weight` cannot be expressed in a tensor-parallel plan: "
        "dimension 1 of 4 is sharded; styles shard only the first or one of "
        "the last two\n"
        "SP014 `c.1` cannot be expressed in a tensor-parallel plan: `c.*` "
        "would also match `c.0`, which is sharded differently\n"
        "SP014 `d*` cannot be expressed in a tensor-parallel plan: its name "
        "has a `*`, which matches digits in a plan\n");
}

TEST_CASE("a tensor-parallel plan is read back as it was written") {
  CHECK(holds("specs survive", [] {
    PlannedModel model{{}, testing::empty_plan(testing::mesh("tp=2"))};
    std::set<std::string> names;
    const auto count = draw_in(0, 8);
    for (int i = 0; i < count; ++i) {
      const auto module =
          draw_of<std::string>({"l.0.q", "l.1.q", "l.0.w1", "l.0.w2", "head",
                                "l.0.1.x", "3.k", "lm_head", "embed_tokens"});
      const auto leaf =
          draw_of<std::string>({"weight", "bias", "w", "0", "weight.inner"});
      if (!names.insert(module + "." + leaf).second) continue;
      Placement placement;
      placement.type = {DType::F32, Shape(draw_in<size_t>(0, 5), 4)};
      const size_t rank = placement.type.shape.size();
      placement.spec.dims.resize(rank);
      const auto dim = draw_in<size_t>(0, rank + 1);
      if (dim < rank) placement.spec.dims[dim] = {"tp"};
      ENSURE(model.manifest.add(module + "." + leaf, placement.type, {}));
      model.plan.placement_of.push_back(
          static_cast<uint32_t>(model.plan.placements.size()));
      model.plan.placements.push_back(placement);
    }
    Diagnostics diags;
    const auto text = written_tp_plan(model, diags);
    ENSURE(text.has_value() != diags.has_errors());
    if (text.has_value()) testing::count_case("written");
    if (!text) return;
    const RuleSet rules = testing::read_rules(kHfTpPlan, *text, diags);
    ENSURE(diags.all().empty());
    for (size_t i = 0; i < model.manifest.size(); ++i) {
      ENSURE(testing::spec_by_rules(rules, model.manifest, i) ==
             testing::without_trailing(model.plan.of(i).spec));
    }
  }));
}

}  // namespace

}  // namespace shardplan
