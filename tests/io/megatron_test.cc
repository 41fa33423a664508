// SPDX-License-Identifier: Apache-2.0
// Arguments for Megatron-LM, judged by its own arithmetic of ranks.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "core/views.h"
#include "io/export.h"
#include "resolve/resolve.h"
#include "tests/support/builders.h"
#include "tests/support/hf_config.h"
#include "tests/support/messages.h"
#include "tests/support/one_by_one.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

using testing::Json;

std::unique_ptr<testing::Synthesis> megatron_model(
    const char* name, const Json& changes = Json::object()) {
  return testing::synthesize(
      testing::changed(testing::small_config(name), changes));
}

// As Megatron places such a model.
RuleSet megatron_rules(bool view) {
  RuleSet rules =
      testing::rules({{"(embed_tokens|lm_head|[qkv]_proj)", "tp"},
                      {"o_proj", "None, tp"},
                      {"(gate|up)_proj", view ? "etp" : "tp"},
                      {"down_proj", view ? "None, etp" : "None, tp"},
                      {"", ""}});
  if (!view) return rules;
  for (const size_t i : {size_t{2}, size_t{3}}) {
    rules.rules[i].view = "experts";
    rules.rules[i].deal = "ep";
  }
  return rules;
}

struct MegatronText {
  std::string text;  // empty: refused
  std::string why;
  std::string facts;
  std::map<std::string, int64_t> arguments;

  int64_t operator[](const std::string& name) const {
    const auto found = arguments.find("--" + name);
    return found == arguments.end() ? 0 : found->second;
  }
};

MegatronText megatron_text(const Manifest& manifest, const Plan& plan) {
  Diagnostics diags;
  MegatronText result;
  ExportInput input{manifest, plan};
  input.no_rules = "a saved plan has no rules";
  result.text = export_text(kMegatronTarget, input, diags).value_or("");
  result.why = testing::messages(diags);
  for (const Diagnostic& diagnostic : diags.all()) {
    for (const std::string& fact : diagnostic.facts)
      result.facts += fact + "\n";
  }
  std::istringstream lines(result.text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    const size_t space = line.find(' ');
    result.arguments[line.substr(0, space)] =
        space == line.npos ? 1 : std::stoll(line.substr(space));
  }
  return result;
}

MegatronText megatron_text(const Manifest& manifest, const RuleSet& rules,
                           const Mesh& mesh, const ResolveOptions& how = {}) {
  Diagnostics diags;
  const auto plan = resolve(manifest, rules, mesh, how, diags);
  if (!plan) throw std::runtime_error(testing::messages(diags));
  return megatron_text(manifest, *plan);
}

// Megatron's RankGenerator: the first of the order is innermost.
int64_t rank_along(const std::vector<std::pair<std::string, int64_t>>& order,
                   const std::string& name, int64_t device) {
  for (const auto& [each, size] : order) {
    if (each == name) return device % size;
    device /= size;
  }
  throw std::invalid_argument(name);
}

// Rows of a dimension of `size` in `parts`.
Slice rows_of_part(int64_t size, int64_t parts, int64_t number) {
  return {size / parts * number, size / parts * (number + 1)};
}

// That what lies on every device is what Megatron has on that rank.
void require_same_places(const Manifest& manifest, const Plan& plan,
                         const MegatronText& args, int64_t experts) {
  const int64_t devices = plan.mesh.devices();
  const int64_t tp = args["tensor-model-parallel-size"];
  const int64_t pp = args["pipeline-model-parallel-size"];
  const int64_t cp = args["context-parallel-size"];
  const int64_t ep = args["expert-model-parallel-size"];
  const int64_t etp = args["expert-tensor-parallel-size"];
  const int64_t dp = devices / tp / cp / pp;
  const int64_t edp = devices / etp / ep / pp;
  ENSURE(dp * tp * cp * pp == devices);
  ENSURE(edp * etp * ep * pp == devices);
  const bool inside = args["use-tp-pp-dp-mapping"] != 0;
  std::vector<std::pair<std::string, int64_t>> order = {
      {"tp", tp}, {"cp", cp}, {"dp", dp}, {"pp", pp}};
  std::vector<std::pair<std::string, int64_t>> order_of_experts = {
      {"tp", etp}, {"ep", ep}, {"dp", edp}, {"pp", pp}};
  if (inside) std::swap(order[2], order[3]);
  if (inside) std::swap(order_of_experts[2], order_of_experts[3]);
  for (size_t i = 0; i < manifest.size(); ++i) {
    const std::string name(manifest.name(i));
    const Placement& placement = plan.of(i);
    const Shape& shape = placement.type.shape;
    const int64_t expert = testing::expert_in(name);
    const auto has = [&](const char* text) {
      return name.find(text) != name.npos;
    };
    // -1: whole.
    int cut = -1;
    if (has("embed_tokens") || has("lm_head") || has("q_proj") ||
        has("k_proj") || has("v_proj") || has("gate_proj") || has("up_proj")) {
      cut = 0;
    } else if (has("o_proj") || has("down_proj")) {
      cut = 1;
    }
    for (int64_t device = 0; device < devices; ++device) {
      const bool of_expert = expert >= 0;
      const int64_t tensor =
          rank_along(of_expert ? order_of_experts : order, "tp", device);
      const int64_t block = experts / ep;
      const bool held = !of_expert || rank_along(order_of_experts, "ep",
                                                 device) == expert / block;
      const int64_t rank =
          placement.dealt ? rank_of_expert(*placement.dealt, expert) : 0;
      ENSURE(is_held(placement, plan.mesh, rank, device) == held);
      const HeldSlice slice =
          held_slice(placement, plan.mesh, plan.on_indivisible, device);
      for (size_t dim = 0; dim < shape.size(); ++dim) {
        const bool is_cut = static_cast<int>(dim) == cut;
        ENSURE(slice.slices[dim] ==
               rows_of_part(shape[dim], is_cut ? (of_expert ? etp : tp) : 1,
                            is_cut ? tensor : 0));
      }
    }
  }
}

TEST_CASE(
    "what is written for Megatron puts on every rank what Megatron does") {
  constexpr int64_t kExperts = 8;
  const auto config = megatron_model("qwen3_moe", {{"num_experts", kExperts}});
  const Manifest& manifest = config->good();
  int inside = 0;
  int refused = 0;
  CHECK(holds("megatron", [&] {
    std::map<std::string, int64_t> sizes;
    for (const char* axis : {"pp", "dp", "cp", "tp"}) {
      sizes[axis] = draw_of<int64_t>({1, 2});
    }
    sizes["tp"] = draw_of<int64_t>({1, 2, 4});
    // In Megatron's order, or in any.
    const bool ordered = draw_bool();
    std::vector<std::string> names = {"pp", "dp", "cp", "tp"};
    if (!ordered) {
      for (size_t i = names.size(); i > 1; --i) {
        std::swap(names[i - 1], names[draw_in<size_t>(0, i)]);
      }
    }
    std::vector<Axis> axes;
    for (const std::string& name : names) axes.push_back({name, sizes[name]});
    Mesh mesh(axes);
    const int64_t stage = mesh.devices() / sizes["pp"];
    const int64_t ep = draw_of<int64_t>({2, 1, 4});
    const int64_t etp = draw_of<int64_t>({1, 2, 4});
    const bool view = draw_bool() && stage % (ep * etp) == 0;
    if (view) {
      std::vector<Axis> of_experts = {{"pp", sizes["pp"]},
                                      {"edp", stage / ep / etp},
                                      {"ep", ep},
                                      {"etp", etp}};
      if (!ordered) {
        std::swap(of_experts[draw_in<size_t>(0, 4)],
                  of_experts[draw_in<size_t>(0, 4)]);
      }
      ViewRequest request{"experts", {}, {}, {}};
      for (const Axis& axis : of_experts) {
        request.axes.push_back({axis.name, axis.size, {}, {}, {}});
      }
      Diagnostics quiet;
      const auto with_view = add_view(mesh, request, quiet);
      ASSUME(with_view.has_value());
      mesh = *with_view;
    }
    Diagnostics diags;
    const auto plan = resolve(manifest, megatron_rules(view), mesh, {}, diags);
    ENSURE(plan.has_value());
    const MegatronText result = megatron_text(manifest, *plan);
    testing::case_log() << mesh_text(mesh) << "\n" << result.text << result.why;
    if (result.text.empty()) {
      ++refused;
      ENSURE(!ordered);
      ENSURE(result.why.find("cannot order ranks") != std::string::npos);
      return;
    }
    inside += result["use-tp-pp-dp-mapping"] != 0 ? 1 : 0;
    ENSURE(result["make-vocab-size-divisible-by"] * sizes["tp"] == 96);
    require_same_places(manifest, *plan, result, kExperts);
  }));
  CHECK(inside > 0);
  CHECK(refused > 0);
}

TEST_CASE("latent attention and shared experts are cut as Megatron cuts them") {
  const auto config = megatron_model("deepseek_v3");
  const Mesh mesh =
      testing::mesh_with_views("dp=4,tp=2", {"experts:edp=4,ep=2"});
  RuleSet rules =
      testing::rules({{"(embed_tokens|lm_head|q_b_proj|kv_b_proj)", "tp"},
                      {"o_proj", "None, tp"},
                      {"mlp.(shared_experts.)?(gate|up)_proj", "tp"},
                      {"mlp.(shared_experts.)?down_proj", "None, tp"},
                      {"experts\\.\\d", ""},
                      {"", ""}});
  rules.rules[4].view = "experts";
  rules.rules[4].deal = "ep";
  const MegatronText result = megatron_text(config->good(), rules, mesh);
  CHECK(result.why == "");
  CHECK(result["expert-model-parallel-size"] == 2);
  CHECK(result["expert-tensor-parallel-size"] == 1);
  CHECK(result["sequence-parallel"] == 1);
}

TEST_CASE("what Megatron places otherwise is refused, with the reason") {
  struct Row {
    const char* model;
    std::vector<testing::PatternAndSpec> rules;
    const char* mesh;
    const char* fact;
  };
  const Row rows[] = {
      {"llama",
       {{"q_proj", "tp, fsdp"}, {"", ""}},
       "fsdp=2,tp=2",
       "dimension `hidden` is sharded over fsdp, but Megatron replicates it"},
      {"llama",
       {{"", ""}},
       "dp=2,tp=2",
       "dimension `heads` is replicated, but Megatron shards it over tp"},
      {"llama",
       {{"norm", "tp"}, {"", ""}},
       "dp=2,tp=2",
       "dimension `norm` is sharded over tp, but Megatron replicates it"},
      {"llama",
       {{"q_proj", "(dp, tp)"}, {"", ""}},
       "dp=2,tp=2",
       "dimension `heads` is sharded over (dp, tp), but Megatron shards it "
       "over tp"},
      {"llama",
       {{"", ""}},
       "tp=2,dp=2",
       "neighbours along `tp` are 2 devices apart, but Megatron's order needs "
       "1"},
      {"llama",
       {{"", ""}},
       "x=2,tp=2",
       "`x` and `tp` would set the same degree"},
      {"gpt2",
       {{"c_attn", "None, tp"}, {"", ""}},
       "tp=2",
       "dimension `packed` is sharded as one block, but Megatron shards each "
       "of its parts"},
      {"bert",
       {{"", ""}},
       "tp=2",
       "dimension `hidden_out` does not occur in Megatron's GPT models"},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.fact));
    const auto config = megatron_model(row.model);
    const MegatronText result = megatron_text(
        config->good(), testing::rules(row.rules), testing::mesh(row.mesh));
    CHECK(result.text == "");
    CHECK(result.facts.find(row.fact + std::string("\n")) != std::string::npos);
  }
  const auto experts = megatron_model("qwen3_moe", {{"num_experts", 3}});
  const Mesh mesh = testing::mesh_with_views("dp=2", {"experts:ep=2"});
  CHECK(megatron_text(experts->good(), megatron_rules(true), mesh).facts ==
        "3 experts are distributed unevenly over `ep`\n");
  RuleSet whole = testing::rules({{"", ""}});
  CHECK(
      megatron_text(experts->good(), whole, testing::mesh("dp=1,ep=2")).facts ==
      "it is not placed whole over `ep`\n");
  const Manifest plain = testing::manifest({{"w", "f32[8, 8]"}});
  CHECK(megatron_text(plain, whole, testing::mesh("dp=2")).facts ==
        "without an architecture its dimensions are unknown\n");
}

TEST_CASE("heads that tensor parallelism does not divide are refused") {
  const auto config = megatron_model("llama", {{"num_key_value_heads", 2}});
  const RuleSet rules = megatron_rules(false);
  const MegatronText result =
      megatron_text(config->good(), rules, testing::mesh("tp=4"));
  CHECK(result.facts ==
        "dimension `kv_heads` consists of 2 parts, not divisible by tp=4\n");
  ResolveOptions how;
  how.declarations.replicate_kv_heads = true;
  CHECK(
      megatron_text(config->good(), rules, testing::mesh("tp=4"), how).facts ==
      "dimension `kv_heads` is changed by replicate-kv-heads: one of 2 KV "
      "heads on each of 4 shards\n");
}

TEST_CASE("a padded vocabulary and interleaved parts are Megatron's own") {
  const auto config = megatron_model("gpt2", {{"vocab_size", 97}});
  const RuleSet rules = testing::rules({{"wte", "tp"},
                                        {"c_attn.weight", "None, tp"},
                                        {"c_attn.bias", "tp"},
                                        {"attn.c_proj.weight", "tp"},
                                        {"c_fc.weight", "None, tp"},
                                        {"c_fc.bias", "tp"},
                                        {"mlp.c_proj.weight", "tp"},
                                        {"", ""}});
  ResolveOptions how;
  how.declarations.pad_vocab = 8;
  how.declarations.interleave_qkv = true;
  const MegatronText result =
      megatron_text(config->good(), rules, testing::mesh("dp=2,tp=2"), how);
  CHECK(result.why == "");
  CHECK(result["make-vocab-size-divisible-by"] == 52);
}

}  // namespace
}  // namespace shardplan
