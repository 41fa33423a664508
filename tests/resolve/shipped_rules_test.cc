// SPDX-License-Identifier: Apache-2.0
// The rule sets in rules/models, each against the names and shapes that its
// family has: recorded from the models' own modules (tests/data/hf), the same
// in Flax's spelling, and as MaxText has them.
#include "tests/support/shipped_rules.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/shipped.h"
#include "core/fold.h"
#include "io/load.h"
#include "model/tensor_name.h"
#include "resolve/correct.h"
#include "resolve/device_memory.h"
#include "resolve/match.h"
#include "resolve/resolve.h"
#include "tests/support/builders.h"
#include "tests/support/hf_config.h"
#include "tests/support/linted.h"
#include "tests/support/maxtext_names.h"
#include "tests/support/memory_host.h"
#include "tests/support/source_dir.h"

namespace shardplan {
namespace {

namespace fs = std::filesystem;

struct Tensor {
  std::string name;
  Shape shape;
};

// What no recorded model has: the layer for multi-token prediction, heads of
// models that usually tie them, BERT's for pairs of sentences, and how EasyDeL
// and transformers 5 keep experts.
const std::vector<std::pair<std::string_view, Tensor>> kAlso = {
    {"bert", {"bert.pooler.dense.weight", {768, 768}}},
    {"bert", {"bert.pooler.dense.bias", {768}}},
    {"bert", {"bert.embeddings.LayerNorm.gamma", {768}}},
    {"bert", {"cls.predictions.decoder.weight", {30522, 768}}},
    {"bert", {"cls.predictions.decoder.bias", {30522}}},
    {"bert", {"cls.seq_relationship.weight", {2, 768}}},
    {"bert", {"cls.seq_relationship.bias", {2}}},
    {"deepseek_v3", {"model.layers.61.eh_proj.weight", {7168, 14336}}},
    {"deepseek_v3", {"model.layers.61.enorm.weight", {7168}}},
    {"deepseek_v3", {"model.layers.61.hnorm.weight", {7168}}},
    {"deepseek_v3", {"model.layers.61.embed_tokens.weight", {129280, 7168}}},
    {"deepseek_v3", {"model.layers.61.shared_head.norm.weight", {7168}}},
    {"deepseek_v3",
     {"model.layers.61.shared_head.head.weight", {129280, 7168}}},
    {"deepseek_v3",
     {"model.layers.7.mlp.experts.gate_up_proj", {256, 4096, 7168}}},
    {"deepseek_v3",
     {"model.layers.7.mlp.experts.down_proj", {256, 7168, 2048}}},
    {"mixtral", {"model.layers.0.mlp.gate.weight", {8, 4096}}},
    {"mixtral", {"model.layers.0.mlp.experts.gate_up_proj", {8, 28672, 4096}}},
    {"mixtral", {"model.layers.0.mlp.experts.down_proj", {8, 4096, 14336}}},
    {"qwen3_moe",
     {"model.layers.0.mlp.experts.gate_up_proj", {128, 1536, 2048}}},
    {"qwen3_moe", {"model.layers.0.mlp.experts.down_proj", {128, 2048, 768}}},
    {"gpt2", {"transformer.h.0.attn.c_attn.weight", {768, 2304}}},
    {"gpt2", {"transformer.wte.weight", {50257, 768}}},
    {"gpt2", {"lm_head.weight", {50257, 768}}},
    {"gpt_oss", {"model.layers.0.mlp.experts.gate_up_proj", {32, 2880, 5760}}},
    {"gpt_oss", {"model.layers.0.mlp.experts.down_proj", {32, 2880, 2880}}},
    {"gpt_oss",
     {"model/layers/0/mlp/experts/gate_proj/kernel", {32, 2880, 2880}}},
    {"gpt_oss", {"model/layers/0/mlp/experts/up_proj/bias", {32, 2880}}},
    {"gpt_oss",
     {"model/layers/0/mlp/experts/down_proj/kernel", {32, 2880, 2880}}},
    {"gpt_oss", {"model/layers/0/mlp/experts/down_proj/bias", {32, 2880}}},
};

bool is_buffer(std::string_view name) {
  return name.ends_with(".weight_scale_inv") || name.ends_with(".attn.bias") ||
         name.ends_with(".attn.masked_bias");
}

std::string replaced(std::string text, std::string_view from,
                     std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != text.npos;
       at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::string family_of(const nlohmann::json& config) {
  const std::string type = config.at("model_type");
  return type == "gemma3_text" ? "gemma3" : type;
}

// Real models, or also small ones with every option (and odd sizes).
enum class Models : uint8_t { Real, All };

// The tensors of every recorded model of a family, one per layer-folded name
// and shape. Folded records have `*` for a number.
std::vector<Tensor> hugging_face(std::string_view family,
                                 Models models = Models::All) {
  const fs::path data = source_dir() / "tests/data";
  std::set<std::pair<std::string, Shape>> seen;
  std::vector<Tensor> tensors;
  const auto add = [&](const std::string& name, const Shape& shape) {
    if (is_buffer(name)) return;
    if (!seen.emplace(folded_name(name), shape).second) return;
    tensors.push_back({replaced(name, "*", "7"), shape});
  };
  for (const auto& entry : fs::directory_iterator(data / "hf")) {
    const auto json = nlohmann::json::parse(std::ifstream(entry.path()));
    const bool folded = json.contains("folded");
    if (models == Models::Real && !folded) continue;
    const auto config =
        folded ? nlohmann::json::parse(std::ifstream(
                     data / "configs" / std::string(json.at("config_file"))))
               : json.at("config");
    if (family_of(config) != family) continue;
    for (const auto& row : json.at(folded ? "folded" : "tensors")) {
      add(row.at(0), row.at(1).get<Shape>());
    }
  }
  for (const auto& [of, tensor] : kAlso) {
    if (of == family) add(tensor.name, tensor.shape);
  }
  return tensors;
}

// The order of dimensions in Flax's twin of a tensor.
std::vector<size_t> flax_order(std::string_view name, size_t rank) {
  const bool table = name.ends_with("embed_tokens.weight") ||
                     name.ends_with("wte.weight") ||
                     name.ends_with("wpe.weight") ||
                     name.ends_with("position_embedding.weight") ||
                     name.ends_with("_embeddings.weight");
  if (!table && name.ends_with(".weight") && rank == 2) return {1, 0};
  if (name.ends_with(".weight") && rank == 4) return {2, 3, 1, 0};
  std::vector<size_t> same(rank);
  for (size_t i = 0; i < rank; ++i) same[i] = i;
  return same;
}

template <typename T>
std::vector<T> reordered(const std::vector<T>& values,
                         const std::vector<size_t>& order) {
  std::vector<T> result;
  for (const size_t from : order) result.push_back(values[from]);
  return result;
}

Tensor flax_twin(const Tensor& tensor) {
  const auto order = flax_order(tensor.name, tensor.shape.size());
  Tensor twin{replaced(tensor.name, ".", "/"), reordered(tensor.shape, order)};
  constexpr std::string_view kWeight = "/weight";
  if (!twin.name.ends_with(kWeight)) return twin;
  twin.name.resize(twin.name.size() - kWeight.size());
  const bool table = twin.name.ends_with("embed_tokens") ||
                     twin.name.ends_with("wte") || twin.name.ends_with("wpe") ||
                     twin.name.ends_with("position_embedding") ||
                     twin.name.ends_with("_embeddings");
  const bool norm = twin.name.find("norm") != std::string::npos;
  twin.name += table ? "/embedding" : norm ? "/scale" : "/kernel";
  return twin;
}

// EasyDeL's stack of the kernels of all experts, for one of them.
std::optional<Tensor> stacked_twin(const Tensor& tensor) {
  constexpr std::string_view kOne = "/experts/";
  const size_t at = tensor.name.find(kOne);
  if (at == std::string::npos || tensor.shape.size() != 2) return std::nullopt;
  const size_t number = at + kOne.size();
  const size_t end = tensor.name.find('/', number);
  if (tensor.name.find_first_not_of("0123456789", number) != end) {
    return std::nullopt;
  }
  Tensor stack = tensor;
  stack.name.erase(number, end + 1 - number);
  stack.shape.insert(stack.shape.begin(), 8);
  return stack;
}

// As MaxText has them: a model without a latent of queries beside V3.
const std::vector<std::pair<std::string_view, const char*>> kMaxText = {
    {"deepseek_v3", "deepseek3-671b"}, {"deepseek_v3", "deepseek2-16b"},
    {"mixtral", "mixtral-8x7b"},       {"mixtral", "mixtral-8x22b"},
    {"qwen3_moe", "qwen3-30b-a3b"},    {"qwen3_moe", "qwen3-480b-a35b"}};

std::vector<Tensor> every_scheme(std::string_view family,
                                 Models models = Models::All) {
  std::vector<Tensor> all;
  for (const auto& [of, model] : kMaxText) {
    if (of != family) continue;
    for (const auto& array : testing::recorded_maxtext(model)) {
      all.push_back({array.name, array.shape});
    }
  }
  for (const Tensor& tensor : hugging_face(family, models)) {
    all.push_back(tensor);
    const Tensor twin = flax_twin(tensor);
    if (twin.name != tensor.name) all.push_back(twin);
    if (const auto stack = stacked_twin(twin)) all.push_back(*stack);
  }
  return all;
}

bool is_table(std::string_view name) {
  return name.ends_with("embed_tokens.weight") ||
         name.ends_with("wte.weight") ||
         name.ends_with("word_embeddings.weight");
}

// What PEFT makes of a linear layer, or of the table of words; none of others.
std::vector<Tensor> adapted(const Tensor& tensor) {
  const size_t leaf = tensor.name.rfind('.');
  if (leaf == std::string::npos) return {};
  const std::string module = tensor.name.substr(0, leaf);
  const std::string_view kind = std::string_view(tensor.name).substr(leaf);
  for (const char* other :
       {"norm", "Norm", "ln_", "wpe", "router", "gate", "position",
        "token_type", "patch_embedding", "seq_relationship", "mm_input"}) {
    const size_t at = tensor.name.find(other);
    if (at == std::string::npos) continue;
    if (tensor.name.compare(at, 9, "gate_proj") != 0) return {};
  }
  if (is_table(tensor.name)) {
    return {{module + ".modules_to_save.default.weight", tensor.shape}};
  }
  if (kind == ".bias" && tensor.shape.size() == 1 &&
      tensor.name.find("predictions.bias") == std::string::npos) {
    return {{module + ".base_layer.bias", tensor.shape}};
  }
  if (kind != ".weight" || tensor.shape.size() != 2) return {};
  std::vector<Tensor> all = {
      {module + ".lora_A.default.weight", {8, tensor.shape[1]}},
      {module + ".lora_A.weight", {8, tensor.shape[1]}},
      {module + ".lora_B.default.weight", {tensor.shape[0], 8}}};
  if (module.ends_with("lm_head")) {
    all.push_back({module + ".modules_to_save.default.weight", tensor.shape});
  } else {
    all.push_back({module + ".base_layer.weight", tensor.shape});
  }
  return all;
}

std::string family_name(const ShippedFile& file) {
  return fs::path(file.path).stem();
}

std::vector<ShippedFile> shipped_sets() { return shipped_files("models"); }

struct Loaded {
  RuleSet rules;
  Matcher matcher;
};

// Rules of views count where the mesh has these.
Loaded load(const std::string& family,
            const Mesh& mesh = testing::mesh("a=1")) {
  testing::MemoryHost host;
  Diagnostics diags;
  const std::vector<std::string> paths = {"@" + family};
  auto rules = load_rules(paths, std::nullopt, {}, host, diags);
  REQUIRE(rules.has_value());
  mark_inactive_views(*rules, mesh);
  auto matcher = Matcher::compile(*rules, true, diags);
  REQUIRE(matcher.has_value());
  CHECK(diags.all().empty());
  return {*std::move(rules), *std::move(matcher)};
}

std::vector<int> found(const Loaded& loaded, const std::string& name) {
  std::vector<int> rules;
  loaded.matcher.find(name, rules);
  std::erase_if(rules, [&](int rule) {
    return loaded.rules.rules[static_cast<size_t>(rule)].inactive;
  });
  return rules;
}

PartitionSpec spec_of(const Loaded& loaded, const Tensor& tensor) {
  const std::vector<int> rules = found(loaded, tensor.name);
  REQUIRE(rules.size() == 1);
  PartitionSpec spec = loaded.rules.rules[static_cast<size_t>(rules[0])].spec;
  REQUIRE(spec.dims.size() <= tensor.shape.size());
  spec.dims.resize(tensor.shape.size());
  return spec;
}

TEST_CASE("there is a shipped set for every family of configs") {
  std::vector<std::string> names;
  for (const ShippedFile& file : shipped_sets()) {
    names.push_back(family_name(file));
  }
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"bert", "deepseek_v3", "gemma2",
                                          "gemma3", "gpt2", "gpt_oss", "llama",
                                          "mistral", "mixtral", "qwen2",
                                          "qwen3", "qwen3_moe"});
}

TEST_CASE("exactly one shipped rule is found in each parameter's name") {
  for (const ShippedFile& file : shipped_sets()) {
    const std::string family = family_name(file);
    CAPTURE(family);
    const Loaded loaded = load(family);
    std::set<int> used;
    std::vector<Tensor> tensors = every_scheme(family);
    CHECK(tensors.size() > 20);
    for (const Tensor& tensor : hugging_face(family)) {
      for (Tensor& each : adapted(tensor)) tensors.push_back(std::move(each));
    }
    for (const Tensor& tensor : tensors) {
      CAPTURE(tensor.name);
      const std::vector<int> rules = found(loaded, tensor.name);
      REQUIRE(rules.size() == 1);
      used.insert(rules[0]);
      const Rule& rule = loaded.rules.rules[static_cast<size_t>(rules[0])];
      CHECK(rule.spec.dims.size() <= tensor.shape.size());
    }
    for (size_t i = 0; i < loaded.rules.rules.size(); ++i) {
      CAPTURE(loaded.rules.rules[i].pattern);
      const bool is_active = !loaded.rules.rules[i].inactive;
      CHECK(used.count(static_cast<int>(i)) == (is_active ? 1 : 0));
    }
  }
}

// In the order of the shipped sets.
const AxisNames kViewAxes = {"ep", "edp", "etp", "efsdp"};

bool has_experts(const ShippedFile& file) {
  return file.text.find("view: experts") != file.text.npos;
}

bool is_of_experts(std::string_view name) {
  const ExpertName expert = expert_name(name);
  return expert.number || expert.stacked;
}

TEST_CASE("in a mesh with their view exactly one rule of it decides experts") {
  const Mesh mesh =
      testing::mesh_with_views("fsdp=4,tp=8", {"experts:ep=8,edp=4"});
  std::vector<std::string> families;
  for (const ShippedFile& file : shipped_sets()) {
    if (!has_experts(file)) continue;
    const std::string family = family_name(file);
    families.push_back(family);
    CAPTURE(family);
    const Loaded loaded = load(family, mesh);
    CHECK(loaded.rules.view_axes.at("experts") == kViewAxes);
    std::set<int> used;
    std::vector<Tensor> tensors = every_scheme(family);
    for (const Tensor& tensor : hugging_face(family)) {
      for (Tensor& each : adapted(tensor)) tensors.push_back(std::move(each));
    }
    int experts = 0;
    for (const Tensor& tensor : tensors) {
      CAPTURE(tensor.name);
      const std::vector<int> rules = found(loaded, tensor.name);
      std::vector<int> of_view;
      for (const int rule : rules) {
        const Rule& each = loaded.rules.rules[static_cast<size_t>(rule)];
        if (!each.view.empty()) of_view.push_back(rule);
      }
      REQUIRE(of_view.size() == (is_of_experts(tensor.name) ? 1 : 0));
      if (of_view.empty()) continue;
      ++experts;
      used.insert(of_view.front());
      CHECK(rules.front() == of_view.front());
      const Rule& rule =
          loaded.rules.rules[static_cast<size_t>(of_view.front())];
      const bool is_dealt = expert_name(tensor.name).number.has_value();
      CHECK(rule.deal == (is_dealt ? "ep" : ""));
      CHECK(rule.spec.dims.size() <= tensor.shape.size());
      // The same dimensions as in the mesh, by the view's own axes.
      const Rule& other = loaded.rules.rules[static_cast<size_t>(rules.back())];
      PartitionSpec expected = other.spec;
      for (AxisNames& axes : expected.dims) {
        AxisNames renamed;
        for (const AxisName& axis : axes) {
          if (axis == "tp") renamed.emplace_back("etp");
          if (axis == "fsdp") renamed.emplace_back("efsdp");
          if (axis == "ep" && !is_dealt) renamed.emplace_back("ep");
        }
        axes = renamed;
      }
      CHECK(spec_text(rule.spec) == spec_text(expected));
    }
    CHECK(experts > 8);
    for (size_t i = 0; i < loaded.rules.rules.size(); ++i) {
      const Rule& rule = loaded.rules.rules[i];
      if (rule.view.empty()) continue;
      CAPTURE(rule.pattern);
      CHECK(used.count(static_cast<int>(i)) == 1);
    }
  }
  CHECK(families == std::vector<std::string>{"deepseek_v3", "gpt_oss",
                                             "mixtral", "qwen3_moe"});
}

// One layer of experts, as Hugging Face checkpoints and as transformers 5 hold
// them, and as EasyDeL does.
struct ExpertForms {
  std::string family;
  std::string block, gate, up, down;
};

std::vector<std::vector<std::pair<std::string, std::string>>> forms_of(
    const ExpertForms& names, int64_t experts) {
  const auto bf16 = [](std::vector<int64_t> shape) {
    std::string text = "bf16[";
    for (const int64_t size : shape) {
      text += (text.back() == '[' ? "" : ", ") + std::to_string(size);
    }
    return text + "]";
  };
  constexpr int64_t kIn = 64;
  constexpr int64_t kOut = 128;
  const std::string layer = "model.layers.0.";
  std::vector<std::vector<std::pair<std::string, std::string>>> forms(4);
  const std::string flax = "model/layers/0/" + names.block + "/experts/";
  for (int64_t e = 0; e < experts; ++e) {
    const std::string dots =
        layer + names.block + ".experts." + std::to_string(e) + ".";
    const std::string slashes = flax + std::to_string(e) + "/";
    for (const std::string& name : {names.gate, names.up}) {
      forms[0].emplace_back(dots + name + ".weight", bf16({kOut, kIn}));
      forms[1].emplace_back(slashes + name + "/kernel", bf16({kIn, kOut}));
    }
    forms[0].emplace_back(dots + names.down + ".weight", bf16({kIn, kOut}));
    forms[1].emplace_back(slashes + names.down + "/kernel", bf16({kOut, kIn}));
  }
  for (const std::string& name : {names.gate, names.up}) {
    forms[2].emplace_back(flax + name + "/kernel", bf16({experts, kIn, kOut}));
  }
  forms[2].emplace_back(flax + names.down + "/kernel",
                        bf16({experts, kOut, kIn}));
  forms[3].emplace_back(layer + "mlp.experts.gate_up_proj",
                        bf16({experts, 2 * kOut, kIn}));
  forms[3].emplace_back(layer + "mlp.experts.down_proj",
                        bf16({experts, kIn, kOut}));
  return forms;
}

TEST_CASE("experts take the same bytes, stacked or one by one") {
  const std::vector<ExpertForms> families = {
      {"qwen3_moe", "mlp", "gate_proj", "up_proj", "down_proj"},
      {"deepseek_v3", "mlp", "gate_proj", "up_proj", "down_proj"},
      {"mixtral", "block_sparse_moe", "w1", "w3", "w2"}};
  constexpr int64_t kExperts = 16;
  constexpr int64_t kTotal = kExperts * 3 * 64 * 128 * 2;
  struct Row {
    const char* view;
    int64_t shards;
  };
  for (const ExpertForms& names : families) {
    const auto forms = forms_of(names, kExperts);
    for (const Row& row : std::vector<Row>{{"experts:ep=8,edp=4", 8},
                                           {"experts:ep=4,etp=2,edp=4", 8},
                                           {"experts:ep=4,etp=2,efsdp=4", 32},
                                           {"experts:edp=2,ep=16", 16},
                                           {"experts:efsdp=8,etp=4", 32}}) {
      const Mesh mesh = testing::mesh_with_views("fsdp=4,tp=8", {row.view});
      RuleSet rules = testing::shipped_rules("@" + names.family);
      mark_inactive_views(rules, mesh);
      for (const auto& form : forms) {
        CAPTURE(names.family);
        CAPTURE(row.view);
        CAPTURE(form.front().first);
        Manifest manifest;
        for (const auto& [name, type] : form) {
          REQUIRE(manifest.add(name, testing::type(type), Span()));
        }
        Diagnostics diags;
        const auto plan = resolve(manifest, rules, mesh, {}, diags);
        REQUIRE(plan);
        const auto memory = device_memory(manifest, *plan, diags);
        REQUIRE(memory);
        CHECK(memory->max == kTotal / row.shards);
        CHECK(memory->min == memory->max);
        for (const Placement& placement : plan->placements) {
          CHECK(placement.corrections.empty());
          CHECK(placement.view == "experts");
          CHECK(placement.replicas * row.shards == 32);
        }
      }
    }
  }
}

TEST_CASE("shipped rules place a tensor alike in either spelling") {
  for (const ShippedFile& file : shipped_sets()) {
    const std::string family = family_name(file);
    const Loaded loaded = load(family);
    for (const Tensor& tensor : hugging_face(family)) {
      CAPTURE(tensor.name);
      PartitionSpec expected = spec_of(loaded, tensor);
      const PartitionSpec twin = spec_of(loaded, flax_twin(tensor));
      const auto order = flax_order(tensor.name, tensor.shape.size());
      expected.dims = reordered(expected.dims, order);
      CHECK(spec_text(twin) == spec_text(expected));
    }
  }
}

TEST_CASE("neither prefixes nor the numbers of layers matter to a set") {
  for (const ShippedFile& file : shipped_sets()) {
    const std::string family = family_name(file);
    const Loaded loaded = load(family);
    for (const Tensor& tensor : every_scheme(family)) {
      CAPTURE(tensor.name);
      const std::vector<int> expected = found(loaded, tensor.name);
      CHECK(found(loaded, "opt_state/0/mu/" + tensor.name) == expected);
      CHECK(found(loaded, "language_model." + tensor.name) == expected);
      std::string deep = tensor.name;
      for (const std::string number : {".0.", "/0/", ".7.", "/7/"}) {
        deep = replaced(deep, number, number[0] + ("12345" + number.substr(2)));
      }
      CHECK(found(loaded, deep) == expected);
    }
  }
}

TEST_CASE("adapters are cut as the weights that they adapt") {
  int adapters = 0;
  for (const ShippedFile& file : shipped_sets()) {
    const std::string family = family_name(file);
    const Loaded loaded = load(family);
    for (const Tensor& tensor : hugging_face(family)) {
      const PartitionSpec weight = spec_of(loaded, tensor);
      for (const Tensor& each : adapted(tensor)) {
        CAPTURE(each.name);
        PartitionSpec expected = weight;
        // GPT-2's layers are stored [in, out].
        const bool turned =
            family == "gpt2" && each.name.find("lm_head") == std::string::npos;
        if (each.name.find(".lora_") != std::string::npos && turned) {
          std::swap(expected.dims[0], expected.dims[1]);
        }
        if (each.name.find(".lora_A") != std::string::npos) {
          expected.dims[0].clear();
        } else if (each.name.find(".lora_B") != std::string::npos) {
          expected.dims[1].clear();
        }
        CHECK(spec_text(spec_of(loaded, each)) == spec_text(expected));
        ++adapters;
      }
    }
  }
  CHECK(adapters > 300);
}

TEST_CASE("neither scales nor others are taken for the weights they serve") {
  const Loaded loaded = load("llama");
  for (const char* name :
       {"base_model.model.layers.0.self_attn.q_proj.lora_dropout.weight",
        "model.layers.0.self_attn.q_proj.weight_scale_inv",
        "model/layers/0/mlp/up_proj/kernel_scale",
        "model.layers.0.xnorm.weight",
        "model.layers.0.self_attn.rotary_emb.inv_freq"}) {
    CAPTURE(name);
    CHECK(found(loaded, name).empty());
  }
}

// Kept whole, or whole over tp: what each set says of it.
int64_t expected_shards(std::string_view name, const Shape& shape, int64_t tp,
                        int64_t others) {
  const auto has = [&](std::string_view part) {
    return name.find(part) != std::string_view::npos;
  };
  if (has("router") || has("mlp.gate.") || has("moe.gate.") || has("/gate/")) {
    return 1;
  }
  if (has("q_a_proj") || has("kv_a_proj") || has("wq_a") || has("wkv_a") ||
      has("wpe") || has("patch_emb") || has("position_emb") ||
      has("mm_input_projection") || has("token_type") ||
      has("seq_relationship")) {
    return others;
  }
  // GPT-2's vocabulary is odd.
  if (has("wte") || has("lm_head")) {
    if (*std::max_element(shape.begin(), shape.end()) == 50257) return others;
  }
  return tp * others;
}

TEST_CASE("shipped rules shard every matrix on every kind of axis") {
  struct Row {
    std::string mesh;
    int64_t tp, others;
    bool experts;  // only a model with experts uses all of the mesh
  };
  const std::vector<Row> rows = {
      {"fsdp=2,tp=2", 2, 2, false}, {"fsdp=2", 1, 2, false},
      {"tp=2", 2, 1, false},        {"sp=2,tp=2", 2, 2, false},
      {"dp=2,tp=2", 2, 1, false},   {"ep=2,tp=2", 2, 2, true},
      {"fsdp=2,ep=2", 1, 4, true},
  };
  for (const ShippedFile& file : shipped_sets()) {
    const std::string family = family_name(file);
    const Loaded loaded = load(family);
    const bool experts = file.text.find("[fsdp, ep, sp]") != file.text.npos;
    for (const Tensor& tensor : every_scheme(family, Models::Real)) {
      if (tensor.shape.size() < 2) continue;
      // Biases of experts are as large as a vector each, as norms of all
      // layers are.
      if (tensor.name.ends_with("bias")) continue;
      if (tensor.name.ends_with("norm/scale")) continue;
      for (const Row& row : rows) {
        if (row.experts && !experts) continue;
        CAPTURE(tensor.name);
        CAPTURE(row.mesh);
        const Mesh mesh = testing::mesh(row.mesh);
        const CorrectedSpec corrected =
            correct(spec_of(loaded, tensor), tensor.shape, mesh,
                    loaded.rules.declared_axes, OnIndivisible::Drop);
        CHECK(shard_count(mesh, corrected.spec) ==
              expected_shards(tensor.name, tensor.shape, row.tp, row.others));
      }
    }
  }
}

TEST_CASE("any subset of the declared axes may be in the mesh") {
  const AxisNames axes = {"dp", "fsdp", "ep", "tp", "sp", "cp"};
  for (const ShippedFile& file : shipped_sets()) {
    const Loaded loaded = load(family_name(file));
    CHECK(loaded.rules.declared_axes == axes);
    for (unsigned subset = 1; subset < 64; ++subset) {
      std::vector<Axis> chosen;
      for (size_t i = 0; i < axes.size(); ++i) {
        if ((subset >> i & 1U) != 0) chosen.push_back({axes[i], 2});
      }
      const Mesh mesh(chosen);
      for (const Rule& rule : loaded.rules.rules) {
        if (rule.inactive) continue;
        CAPTURE(rule.pattern);
        const Shape shape(rule.spec.dims.size(), 64);
        CHECK(correct(rule.spec, shape, mesh, loaded.rules.declared_axes,
                      OnIndivisible::Drop)
                  .corrections.empty());
      }
    }
  }
}

// Gemma 3's text config leaves out its heads, but the class has them.
TEST_CASE("no shipped set cuts a unit of its own models") {
  for (const auto& entry :
       fs::directory_iterator(source_dir() / "tests/data/configs")) {
    const auto config = nlohmann::json::parse(std::ifstream(entry.path()));
    const auto model = testing::synthesize(config);
    const std::string family = family_of(config);
    const Manifest& manifest = model->good();
    const int64_t kv = manifest.facts.kv_heads.value_or(1);
    for (const int tp : {1, 2, 4, 8, 16}) {
      if (manifest.facts.heads.value_or(1) % tp != 0) continue;
      const std::string mesh = "fsdp=2,ep=8,sp=16,tp=" + std::to_string(tp);
      CAPTURE(entry.path().filename().string());
      CAPTURE(mesh);
      ResolveOptions options;
      // More devices than KV heads need copies, whatever the rules.
      options.declarations.replicate_kv_heads = tp > kv;
      const auto found =
          testing::lint_of(manifest, load(family).rules, mesh, options)
              .find(Code::SplitUnit);
      CHECK(found.empty());
    }
  }
}

}  // namespace
}  // namespace shardplan
