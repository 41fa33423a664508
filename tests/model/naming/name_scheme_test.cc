// SPDX-License-Identifier: Apache-2.0
// Names of other programs: what rules do, and what is wrong with them.
#include "model/naming/name_scheme.h"

#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "core/fold.h"
#include "io/formats.h"
#include "io/load.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

struct Names {
  Diagnostics diags;
  std::shared_ptr<const NameScheme> scheme;
};

std::unique_ptr<Names> read_names(const std::string& text) {
  auto result = std::make_unique<Names>();
  const auto source = std::make_shared<const SourceFile>("names.yaml", text);
  result->diags.add_source(source);
  result->scheme = read_name_scheme(source, result->diags);
  CHECK((result->scheme == nullptr) == result->diags.has_errors());
  return result;
}

std::string mistakes(const std::string& text) {
  return testing::messages(read_names(text)->diags);
}

// What is wrong with a rule.
std::string rule_mistakes(const std::string& rule) {
  return mistakes("scheme: a\nnames: [" + rule +
                  "]\narchitectures: {llama: []}\n");
}

constexpr const char* kMixtral = R"({"model_type": "mixtral",
  "vocab_size": 10, "hidden_size": 8, "intermediate_size": 6,
  "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
  "num_local_experts": 3, "num_experts_per_tok": 2, "dtype": "bfloat16"})";

struct RenamedModel {
  Diagnostics diags;
  std::optional<Manifest> manifest;
};

std::unique_ptr<RenamedModel> rename_model(const std::string& names,
                                           const std::string& config) {
  auto result = std::make_unique<RenamedModel>();
  const auto scheme = read_names(names);
  REQUIRE_MESSAGE(scheme->scheme != nullptr, testing::messages(scheme->diags));
  const auto source = std::make_shared<const SourceFile>("config.json", config);
  result->diags.add_source(source);
  result->diags.add_source(scheme->scheme->source);
  const auto document = parse_document(source, result->diags);
  REQUIRE(document);
  result->manifest =
      synthesize_manifest(*document, result->diags, {nullptr, scheme->scheme});
  return result;
}

// "name type" per line of tensors whose name has `part`; or the problems.
std::string renamed(const std::string& rules, const std::string& part,
                    const std::string& config = kMixtral) {
  const auto model = rename_model(
      "scheme: other\nlabels: {e: experts, i: layers}\nnames:\n" + rules +
          "\n  - {from: \"*\", to: \"*\"}\narchitectures: {mixtral: []}\n",
      config);
  if (!model->manifest) return testing::messages(model->diags);
  std::string text;
  for (size_t i = 0; i < model->manifest->size(); ++i) {
    const std::string name(model->manifest->name(i));
    if (name.find(part) == name.npos) continue;
    text += name + " " + type_text(model->manifest->type(i)) + "\n";
  }
  return text;
}

TEST_CASE("names are matched by numbers and by any text") {
  const auto pattern = [](const std::string& text) {
    const auto names =
        read_names("scheme: a\nnames: [{from: \"" + text +
                   "\", drop: none}]\narchitectures: {llama: []}\n");
    REQUIRE(names->scheme != nullptr);
    return names->scheme->all.rules.front().from.front();
  };
  const auto numbers = [&](const std::string& text, const std::string& name) {
    const NamePattern p = pattern(text);
    const auto match = match_name(p, name);
    // What may match is never less than what does.
    if (match) CHECK(may_match_folded(p, folded_name(name)));
    if (!match) return std::string("none");
    std::string result;
    for (const auto& [number, value] : match->numbers) {
      result += std::string(number) + "=" + std::to_string(value) + " ";
    }
    return result + std::string(match->any);
  };
  CHECK(numbers("layers.{i}.w", "layers.12.w") == "i=12 ");
  CHECK(numbers("layers.{i}.w", "layers.w") == "none");
  CHECK(numbers("layers.{i}.w", "layers.012.w") == "none");
  CHECK(numbers("layers.{i}.w", "layers.1.w.bias") == "none");
  CHECK(numbers("layers.{i}.w", "layers.1234567890.w") == "none");
  CHECK(numbers("layers.{i}.*", "layers.1.w.bias") == "i=1 w.bias");
  CHECK(numbers("layers.{i}.*", "layers.1.") == "none");
  CHECK(numbers("*.weight", "a.b.weight") == "a.b");
  CHECK(numbers("*.{e}.weight", "a.3.b.4.weight") == "e=4 a.3.b");
  CHECK(numbers("a.*.{e}.{i}", "a.b.3.4.5") == "e=4 i=5 b.3");
  CHECK(numbers("layers_{i}.norm", "layers_3.norm") == "i=3 ");
  CHECK(numbers("layers.0.norm", "layers.1.norm") == "none");
  CHECK(numbers("layers.0.norm", "layers.0.norm") == "");
  CHECK(numbers("w{i}", "w31") == "i=31 ");
  CHECK(numbers("{i}.w", "31.w") == "i=31 ");
}

TEST_CASE("tensors are renamed, reordered and given other shapes") {
  CHECK(renamed("  - {from: \"model.layers.{i}.self_attn.q_proj.weight\", to: "
                "\"blocks.{i + 1}.q\", order: [1, 0], when: i == 3}",
                "blocks") == "blocks.4.q bf16[8, 8]\n");
  CHECK(renamed("  - {from: model.embed_tokens.*, to: words.*, order: [1, 0]}",
                "words") == "words.weight bf16[8, 10]\n");
  CHECK(
      renamed("  - {from: \"model.layers.0.self_attn.k_proj.weight\", to: "
              "key, order: [1, 0], shape: [hidden, kv_heads, head_dim], then: "
              "[1, 0, 2], dtype: f32}",
              "key") == "key f32[2, 8, 2]\n");
  CHECK(renamed("  - {from: \"model.layers.{i}.self_attn.v_proj.*\", to: "
                "\"v.{i}\", shape: [d0 / kv_heads, kv_heads, d1], when: i < 1}",
                "v.0") == "v.0 bf16[2, 2, 8]\n");
  CHECK(renamed("  - {from: \"*.weight\", of: rms_norm, to: \"*.scale\"}",
                "model.norm") == "model.norm.scale bf16[8]\n");
  CHECK(renamed("  - {from: \"*.weight\", dims: 1, to: \"*.scale\", when: "
                "class == 'MixtralForCausalLM'}",
                "model.norm") == "model.norm.scale bf16[8]\n");
}

TEST_CASE("several tensors become one") {
  const std::string expert = "model.layers.{i}.block_sparse_moe.experts.{e}.";
  CHECK(renamed("  - {from: \"" + expert +
                    "w1.weight\", to: \"up.{i}\", stack: {e: 0}, when: i < 2}",
                "up.") == "up.0 bf16[3, 6, 8]\nup.1 bf16[3, 6, 8]\n");
  CHECK(renamed("  - {from: [\"" + expert + "w1.weight\", \"" + expert +
                    "w3.weight\"], to: up, join: 0, stack: {e: 1, i: 0}}",
                "up") == "up bf16[4, 3, 12, 8]\n");
  CHECK(renamed("  - {from: \"model.layers.{i}.self_attn.q_proj.weight\", to: "
                "\"q.{i % 2}\", order: [1, 0], stack: {i: 1}}",
                "q.") == "q.0 bf16[8, 2, 8]\nq.1 bf16[8, 2, 8]\n");
}

TEST_CASE("one number becomes two dimensions") {
  CHECK(renamed("  - {from: \"model.layers.{i}.self_attn.q_proj.weight\", to: "
                "queries, stack: {i // 2: 1, i % 2: 2}}",
                "queries") == "queries bf16[8, 2, 2, 8]\n");
}

TEST_CASE("one tensor becomes several") {
  CHECK(renamed("  - {from: \"model.layers.0.block_sparse_moe.gate.weight\", "
                "split: 0, to: [{name: first, size: 1, shape: [d1]}, {name: "
                "second, size: experts - 1, order: [1, 0]}]}",
                "s")
            .find("first bf16[8]\nsecond bf16[8, 2]\n") != std::string::npos);
  CHECK(renamed("  - {from: lm_head.weight, split: 0, to: [{name: a, size: 2}, "
                "{name: b, size: 3}]}",
                "a") ==
        "SP009 config.json:1:1 names of `other` do not fit this model: the "
        "parts of a split do not make up the whole");
}

TEST_CASE("what its dimensions are stays known") {
  const auto model = rename_model(
      "scheme: other\nlabels: {e: experts}\nnames:\n"
      "  - {from: \"model.layers.{i}.self_attn.q_proj.weight\", to: "
      "\"q.{i}.kernel\", order: [1, 0]}\n"
      "  - {from: \"model.layers.{i}.self_attn.k_proj.weight\", to: "
      "\"k.{i}\", shape: [kv_heads, head_dim, d1]}\n"
      "  - {from: [\"model.layers.{i}.block_sparse_moe.experts.{e}.w1.weight\","
      " \"model.layers.{i}.block_sparse_moe.experts.{e}.w3.weight\"], to: "
      "\"up.{i}\", join: 0, stack: {e: 0}}\n"
      "  - {from: \"*\", to: \"*\"}\narchitectures: {mixtral: []}\n",
      kMixtral);
  REQUIRE(model->manifest);
  const ParameterKinds& kinds = *model->manifest->kinds;
  const ParameterKind q = kinds.at({"q.*.kernel", {8, 8}});
  CHECK(q[0].label == "hidden");
  CHECK(q[1].label == "heads");
  CHECK(q[1].count == 4);
  const ParameterKind k = kinds.at({"k.*", {2, 2, 8}});
  CHECK(k[0].label == "kv_heads");
  CHECK(k[1].label == "head_dim");
  CHECK(k[2].label == "hidden");
  const ParameterKind up = kinds.at({"up.*", {3, 12, 8}});
  CHECK(up[0].label == "experts");
  REQUIRE(up[1].parts.size() == 2);
  CHECK(up[1].parts[0].name == "w1");
  CHECK(up[1].parts[1].label == "mlp");
  CHECK(up[1].parts[1].rows == 6);
  CHECK(up[2].label == "hidden");
}

TEST_CASE("tensors are dropped and added with a word") {
  const auto model = rename_model(
      "scheme: other\nsummary: of a test\ndtypes: {vectors: f32}\n"
      "flags: {scaled: {key: rope_scaling.scaled, else: false}}\nnames:\n"
      "  - {from: \"model.layers.{i}.input_layernorm.weight\", drop: it is "
      "part of what follows}\n"
      "  - {from: \"*\", to: \"*\"}\n"
      "adds:\n"
      "  - {name: rope, shape: [head_dim / 2], dtype: f32, when: scaled}\n"
      "  - {name: \"blocks.{i}.rope\", repeat: {i: layers}, shape: [i, 4], "
      "when: i == 2}\n"
      "  - {name: never, shape: [1], dtype: f32, when: not scaled}\n"
      "  - {name: as_the_model, shape: [hidden]}\n"
      "architectures: {mixtral: []}\n",
      std::string(kMixtral).insert(1, R"("rope_scaling": {"scaled": true},)"));
  REQUIRE_MESSAGE(model->manifest, testing::messages(model->diags));
  std::string last;
  for (size_t i = 0; i < model->manifest->size(); ++i) {
    last = std::string(model->manifest->name(i)) + " " +
           type_text(model->manifest->type(i));
    CHECK(last.find("input_layernorm") == last.npos);
    if (last.starts_with("model.norm"))
      CHECK(last == "model.norm.weight f32[8]");
    if (last.starts_with("blocks")) CHECK(last == "blocks.2.rope bf16[2, 4]");
  }
  CHECK(last == "as_the_model f32[8]");
  std::string remarks;
  for (const std::string& each : model->manifest->remarks) {
    remarks += each + "\n";
  }
  CHECK(remarks.find("using the names of `other` (of a test)\n") !=
        remarks.npos);
  CHECK(remarks.find("4 tensors of the checkpoint are left out, "
                     "`model.layers.*.input_layernorm.weight`: it is part of "
                     "what follows\n") != remarks.npos);
}

TEST_CASE("a model that names do not fit is refused") {
  const auto problems = [](const std::string& rules,
                           const std::string& config = kMixtral) {
    const auto model = rename_model(
        "scheme: other\n" + rules + "\narchitectures: {mixtral: []}\n", config);
    CHECK(!model->manifest);
    return testing::messages(model->diags);
  };
  CHECK(problems("names: [{from: \"model.*\", to: \"*\"}]") ==
        "SP009 config.json:1:1 names of `other` are missing for 1 kind of "
        "tensors");
  CHECK(problems("names: [{from: \"*\", to: all}]")
            .find("two tensors become "
                  "`all`") != std::string::npos);
  CHECK(problems("names: [{from: \"lm_head.*\", refuse: nobody has tried}, "
                 "{from: \"*\", to: \"*\"}]")
            .find("cannot be used: nobody has tried") != std::string::npos);
  CHECK(problems("names: [{from: lm_head.weight, to: a, order: [0]}, {from: "
                 "\"*\", to: \"*\"}]")
            .find("an order has 1 dimension") != std::string::npos);
  CHECK(problems("names: [{from: lm_head.weight, to: a, shape: [hidden]}, "
                 "{from: \"*\", to: \"*\"}]")
            .find("a different number of elements") != std::string::npos);
  CHECK(problems("names: [{from: lm_head.weight, to: a, shape: [hiden]}, "
                 "{from: \"*\", to: \"*\"}]")
            .find("`hiden`") != std::string::npos);
  // Layer 3 has no w1 that the rule takes.
  const std::string expert = "model.layers.{i}.block_sparse_moe.experts.{e}.";
  CHECK(problems("names: [{from: \"" + expert +
                 "w1.weight\", to: up, stack: {i: 0, e: 1}, when: i < 3 or e < "
                 "1}, {from: \"*\", to: \"*\"}]")
            .find("`up` is made of several tensors: some are missing") !=
        std::string::npos);
  CHECK(problems("names: [{from: [\"" + expert + "w1.weight\", \"" + expert +
                 "w2.weight\"], to: \"up.{i}\", join: 0, stack: {e: 0}}, "
                 "{from: \"*\", to: \"*\"}]")
            .find("does not fit next to") != std::string::npos);
  CHECK(problems("names: [{from: \"model.layers.{i}.self_attn.q_proj.weight\", "
                 "to: a, stack: {i: 7}}, {from: \"*\", to: \"*\"}]")
            .find("past the end") != std::string::npos);
  CHECK(problems("names: [{from: \"*\", to: \"*\"}]\nsizes: {hidden: d}")
            .find("define a value `hidden`") != std::string::npos);
  const auto other = rename_model(
      "scheme: other\nnames: [{from: \"*\", to: \"*\"}]\narchitectures: "
      "{llama: []}\n",
      kMixtral);
  CHECK(testing::messages(other->diags) ==
        "SP009 config.json:1:16 names of `other` are not available for "
        "architecture `mixtral`");
  CHECK(problems("names: [{from: \"*\", to: \"*\"}]",
                 std::string(kMixtral).insert(
                     1, R"("quantization_config": {"quant_method": "fp8",
                         "weight_block_size": [2, 2]},)"))
            .find("not supported for quantised models") != std::string::npos);
}

TEST_CASE("mistakes in files of names have places") {
  CHECK(mistakes("names: []\narchitectures: {llama: []}\n") ==
        "SP018 names.yaml:1:1 the file has no `scheme`");
  CHECK(mistakes("scheme: a\n") ==
        "SP018 names.yaml:1:1 the file has no `architectures`");
  CHECK(mistakes("scheme: a\narchitectures: {llama: {like: lama}}\n") ==
        "SP018 names.yaml:2:31 there is no entry `lama`");
  CHECK(mistakes("scheme: a\narchitectures: {a: {like: b}, b: {like: a}}\n")
            .find("refer to each other") != std::string::npos);
  CHECK(mistakes("scheme: a\nadds: [{name: b, shape: [1], dtype: f32, repeat: "
                 "{I: 2}}]\narchitectures: {llama: []}\n")
            .find("`repeat` needs one number") != std::string::npos);
  CHECK(mistakes("scheme: a\nadds: [{name: b}]\narchitectures: "
                 "{llama: []}\n")
            .find("`name` and `shape`") != std::string::npos);
  CHECK(rule_mistakes("{to: a}").find("a rule needs `from`") !=
        std::string::npos);
  CHECK(rule_mistakes("{from: a}").find("one of `to`, `drop` and `refuse`") !=
        std::string::npos);
  CHECK(rule_mistakes("{from: a, to: b, drop: c}")
            .find("one of `to`, `drop` and `refuse`") != std::string::npos);
  CHECK(rule_mistakes("{from: \"a.{i}\", to: b}")
            .find("`i` is neither in `to` nor in `stack`") !=
        std::string::npos);
  CHECK(rule_mistakes("{from: \"a.{i}\", to: b, stack: {e: 0}}")
            .find("`e` is not a number of the names") != std::string::npos);
  CHECK(rule_mistakes("{from: \"a.{i}.{i}\", to: \"b.{i}\"}")
            .find("appears twice") != std::string::npos);
  CHECK(rule_mistakes("{from: \"*{i}\", to: \"b.{i}\"}")
            .find("two placeholders need text between them") !=
        std::string::npos);
  CHECK(rule_mistakes("{from: \"*.a.*\", to: \"*\"}").find("only one `*`") !=
        std::string::npos);
  CHECK(rule_mistakes("{from: a, to: \"*\"}").find("if `from` does") !=
        std::string::npos);
  CHECK(rule_mistakes("{from: \"a.{i\", to: b}").find("not closed") !=
        std::string::npos);
  CHECK(rule_mistakes("{from: \"a.{I}\", to: b}")
            .find("`I` is not a valid name of a number") != std::string::npos);
  CHECK(rule_mistakes("{from: \"a.{i}\", to: \"b.{i +}\"}")
            .find("`i +` is not a valid expression") != std::string::npos);
  CHECK(rule_mistakes("{from: \"\", to: b}").find("a name is empty") !=
        std::string::npos);
  CHECK(
      rule_mistakes("{from: [a], to: b, join: 0}").find("must have several") !=
      std::string::npos);
  CHECK(rule_mistakes("{from: [a, b], to: b}").find("`join` needs a list") !=
        std::string::npos);
  CHECK(rule_mistakes("{from: [\"a.{i}\", \"b.{e}\"], to: \"c.{i}\", join: 0}")
            .find("have the same numbers") != std::string::npos);
  CHECK(rule_mistakes("{from: a, to: b, order: [0, 2]}")
            .find("each dimension once") != std::string::npos);
  CHECK(rule_mistakes("{from: a, to: b, order: [0, 9]}")
            .find("dimensions are 0 to 7") != std::string::npos);
  CHECK(rule_mistakes("{from: a, to: [b], split: 0}").find("part") !=
        std::string::npos);
  CHECK(rule_mistakes("{from: a, to: b, split: 0}")
            .find("`to` must be a list if there is a `split`, and only then") !=
        std::string::npos);
  CHECK(rule_mistakes("{from: a, to: b, of: liner}")
            .find("`of` must be one of") != std::string::npos);
  CHECK(rule_mistakes("{from: a, to: b, dtype: f31}").find("SP005") !=
        std::string::npos);
  CHECK(rule_mistakes("{from: a, to: b, wen: tied}").find("`wen`") !=
        std::string::npos);
  CHECK(rule_mistakes("{from: a, drop: ''}").find("must give the reason") !=
        std::string::npos);
}

}  // namespace
}  // namespace shardplan
