// SPDX-License-Identifier: Apache-2.0
// Quantised models against what libraries store of them
// (tests/data/quantised.jsonl, made by record_quantised.py).
#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>

#include <doctest/doctest.h>

#include "model/quant_scales.h"
#include "tests/support/hf_config.h"

namespace shardplan {
namespace {

using testing::Json;
using StoredTensors =
    std::map<std::tuple<std::string, std::string, Shape>, int64_t>;

// Every number that is a component of it is a `*`.
std::string without_layer_numbers(std::string_view name) {
  std::string folded;
  for (size_t at = 0; at <= name.size();) {
    const size_t dot = std::min(name.find('.', at), name.size());
    const std::string_view part = name.substr(at, dot - at);
    const bool inner = at > 0 && dot < name.size();
    const bool number =
        !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    if (!folded.empty()) folded += '.';
    folded += inner && number ? "*" : std::string(part);
    at = dot + 1;
  }
  return folded;
}

StoredTensors stored_tensors(const Manifest& manifest) {
  StoredTensors counts;
  const auto add = [&](std::string_view name, const TensorType& type) {
    ++counts[{without_layer_numbers(name), std::string(dtype_name(type.dtype)),
              type.shape}];
  };
  for (size_t i = 0; i < manifest.size(); ++i) {
    add(manifest.name(i), manifest.type(i));
    // As the headers of a checkpoint are read.
    CHECK_FALSE(is_known_buffer(manifest.name(i), manifest.type(i)));
  }
  for (const auto& buffer : manifest.buffers()) {
    add(buffer.name, buffer.type);
    CAPTURE(buffer.name);
    CHECK(is_known_buffer(buffer.name, buffer.type));
  }
  return counts;
}

StoredTensors recorded_tensors(const Json& row) {
  StoredTensors counts;
  for (const Json& tensor : row.at("tensors")) {
    counts[{tensor.at(0).get<std::string>(), tensor.at(1).get<std::string>(),
            tensor.at(2).get<Shape>()}] += tensor.at(3).get<int64_t>();
  }
  return counts;
}

std::string tensor_difference(const StoredTensors& got,
                              const StoredTensors& wanted) {
  std::string text;
  const auto show = [&](const char* sign, const StoredTensors& of,
                        const StoredTensors& other) {
    for (const auto& [key, count] : of) {
      const auto found = other.find(key);
      if (found != other.end() && found->second == count) continue;
      text += std::string("\n  ") + sign + " " + std::get<0>(key) + " " +
              std::get<1>(key) + " [";
      for (const int64_t size : std::get<2>(key)) {
        text += std::to_string(size) + " ";
      }
      text += "] x " + std::to_string(count);
    }
  };
  show("+", got, wanted);
  show("-", wanted, got);
  return text;
}

std::unique_ptr<testing::Synthesis> synthesize_row(const Json& row) {
  auto result = std::make_unique<testing::Synthesis>();
  const auto read = [&](const char* name, const Json& json) {
    const auto source = std::make_shared<const SourceFile>(name, json.dump(1));
    result->diags.add_source(source);
    return parse_document(source, result->diags);
  };
  const auto config = read("config.json", row.at("config"));
  QuantisationFile beside;
  const bool own = row.at("config").contains("quantization_config");
  if (row.contains("beside") && !own) {
    beside.document = std::make_shared<const Document>(
        *read("hf_quant_config.json", row.at("beside")));
    beside.file = beside.document->shared_source();
  }
  result->manifest = synthesize_manifest(*config, result->diags, {}, beside);
  return result;
}

TEST_CASE("quantised models: names, dtypes and shapes are those stored") {
  std::ifstream stream(testing::data_path("quantised.jsonl"));
  REQUIRE(stream);
  std::map<std::string, int64_t> agree;
  std::map<std::string, int64_t> refused;
  int64_t otherwise = 0;
  for (std::string line; std::getline(stream, line);) {
    const Json row = Json::parse(line);
    const std::string method = row.at("method").get<std::string>();
    CAPTURE(method);
    CAPTURE(row.at("transformers").get<std::string>());
    CAPTURE(row.at("case").get<std::string>());
    const auto result = synthesize_row(row);
    if (row.contains("refused")) {
      // For a reason, until it is described.
      CHECK(result->problem() == row.at("refused").get<std::string>());
      ++refused[method];
      continue;
    }
    CAPTURE(result->problem());
    CHECK(result->manifest);
    if (!result->manifest) continue;
    // What transformers 5 quantises itself, where that is known to differ.
    const bool noted =
        std::any_of(result->manifest->remarks.begin(),
                    result->manifest->remarks.end(), [](const std::string& r) {
                      return r.find("transformers 5") != r.npos;
                    });
    if (noted) {
      ++otherwise;
      continue;
    }
    StoredTensors ours = stored_tensors(*result->manifest);
    StoredTensors theirs = recorded_tensors(row);
    // The length of a text that has a number of the weights is estimated.
    if (row.at("case").get<std::string>() == "llama, double") {
      for (StoredTensors* each : {&ours, &theirs}) {
        std::erase_if(*each, [](const auto& tensor) {
          return std::get<0>(tensor.first).find("quant_state") !=
                 std::string::npos;
        });
      }
    }
    CHECK(tensor_difference(ours, theirs) == "");
    ++agree[method];
  }
  CHECK(otherwise < 80);
  for (const char* method :
       {"awq", "bnb", "ct", "fp8", "gptq", "mlx", "modelopt", "torchao"}) {
    CAPTURE(method);
    CHECK(agree[method] >= 8);
  }
}

// From the tensors alone, as from the headers of a checkpoint.
TEST_CASE("quantised models: the method is told by names") {
  std::ifstream stream(testing::data_path("quantised.jsonl"));
  const std::map<std::string, std::string> names = {
      {"bnb", "bitsandbytes"}, {"ct", "compressed-tensors"}};
  int recognised = 0;
  for (std::string line; std::getline(stream, line);) {
    const Json row = Json::parse(line);
    if (!row.contains("tensors")) continue;
    CAPTURE(row.at("case").get<std::string>());
    Manifest manifest;
    for (const Json& tensor : row.at("tensors")) {
      const auto dtype = find_dtype(tensor.at(1).get<std::string>());
      REQUIRE(dtype);
      REQUIRE(manifest.add(tensor.at(0).get<std::string>(),
                           {*dtype, tensor.at(2).get<Shape>()}, {}));
    }
    // transformers 5 writes scales beside weights of blocks that are not whole,
    // which stay as they were.
    const auto& types = manifest.types();
    const bool plain = std::all_of(
        types.begin(), types.end(),
        [](const TensorType& type) { return type.dtype == DType::F32; });
    if (plain) continue;
    const std::string method(quantisation_by_names(manifest));
    const auto own = row.at("method").get<std::string>();
    const auto name = names.find(own);
    CHECK(method.find(name == names.end() ? own : name->second) !=
          std::string::npos);
    ++recognised;
  }
  CHECK(recognised > 400);
}

// Kimi K2.5's config says of its text alone that experts are packed.
TEST_CASE("quantised models: a part that is alone quantised") {
  const Json scheme = {{"quant_method", "compressed-tensors"},
                       {"format", "pack-quantized"},
                       {"quantization_status", "compressed"},
                       {"ignore", {"lm_head", "re:.*self_attn.*"}},
                       {"config_groups",
                        {{"group_0",
                          {{"targets", {"Linear"}},
                           {"weights",
                            {{"num_bits", 4},
                             {"type", "int"},
                             {"symmetric", true},
                             {"strategy", "group"},
                             {"group_size", 32},
                             {"dynamic", false}}}}}}}};
  Json config = testing::small_config("gemma3");
  const auto plain = testing::synthesize(config);
  const auto names = [](const Manifest& manifest) {
    std::set<std::string> all;
    for (size_t i = 0; i < manifest.size(); ++i) {
      all.insert(std::string(manifest.name(i)));
    }
    return all;
  };
  const std::set<std::string> before = names(plain->good());
  config["text_config"]["hidden_size"] = 64;
  config["text_config"]["intermediate_size"] = 96;
  config["text_config"]["quantization_config"] = scheme;
  const auto packed = testing::synthesize(config);
  const std::set<std::string> after = names(packed->good());
  int converted = 0;
  for (const std::string& name : before) {
    const bool is_mlp = name.find("language_model") != name.npos &&
                        name.find(".mlp.") != name.npos;
    CAPTURE(name);
    CHECK(after.contains(name) == !is_mlp);
    if (is_mlp) CHECK(after.contains(name + "_packed"));
    converted += is_mlp ? 1 : 0;
  }
  CHECK(converted > 0);
  // Names within the part would begin otherwise in the whole.
  Json named = config;
  named["text_config"]["quantization_config"]["ignore"].push_back(
      "model.layers.0.mlp.up_proj");
  CHECK(!testing::synthesize(named)->manifest);
  Json other = config;
  other["text_config"]["quantization_config"] = {{"quant_method", "fp8"}};
  CHECK(!testing::synthesize(other)->manifest);
  Json twice = config;
  twice["quantization_config"] = scheme;
  CHECK(!testing::synthesize(twice)->manifest);
}

TEST_CASE("plain models are of no method") {
  for (const char* name : {"gpt2", "llama-3.1-8b", "bert-base"}) {
    const auto model = testing::synthesize(testing::sample_config(name));
    CHECK(quantisation_by_names(model->good()).empty());
  }
}

}  // namespace
}  // namespace shardplan
