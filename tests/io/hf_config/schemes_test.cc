// SPDX-License-Identifier: Apache-2.0
// The shipped names of other programs against what those programs have
// (tests/data/schemes.jsonl, tests/data/schemes_jax.jsonl).
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "model/naming/name_scheme.h"
#include "tests/support/hf_config.h"

namespace shardplan {
namespace {

using testing::Json;

// The dtypes of these, where a program decides them.
using StarredDtypes = std::map<std::pair<std::string, Shape>, std::string>;

StarredDtypes recorded_dtypes(const Json& row) {
  StarredDtypes dtypes;
  for (const Json& tensor : row.at("tensors")) {
    if (tensor.size() < 4 || tensor.at(3).is_null()) continue;
    dtypes[{tensor.at(0).get<std::string>(), tensor.at(1).get<Shape>()}] =
        tensor.at(3).get<std::string>();
  }
  return dtypes;
}

// In a model of bf16 what is f32 is the program's.
StarredDtypes decided_dtypes(const Manifest& manifest) {
  StarredDtypes dtypes;
  const auto add = [&](std::string_view name, const TensorType& type) {
    if (type.dtype != DType::F32) return;
    dtypes[{testing::starred(name), type.shape}] = "f32";
  };
  for (size_t i = 0; i < manifest.size(); ++i) {
    add(manifest.name(i), manifest.type(i));
  }
  for (const auto& buffer : manifest.buffers()) add(buffer.name, buffer.type);
  return dtypes;
}

// Read with its dtypes as those of a bf16 model.
Json in_bf16(Json config) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (config.contains(key)) config[key] = "bfloat16";
  }
  for (auto& [key, section] : config.items()) {
    if (key.ends_with("_config") && section.is_object()) {
      section = in_bf16(section);
    }
  }
  return config;
}

// Types of models by scheme that are the same in a recording.
using SameTypes = std::map<std::string, std::set<std::string>>;

SameTypes compare_recorded(const char* file) {
  std::ifstream stream(testing::data_path(file));
  REQUIRE(stream);
  SameTypes same;
  for (std::string line; std::getline(stream, line);) {
    const Json row = Json::parse(line);
    const std::string name = row.at("scheme").get<std::string>();
    const Json& config = row.at("config");
    const std::string type = config.at("model_type").get<std::string>();
    CAPTURE(name);
    CAPTURE(row.at("case").get<std::string>());
    CAPTURE(type);
    const auto scheme = find_name_scheme(name);
    REQUIRE(scheme != nullptr);
    const auto result = testing::synthesize(in_bf16(config), scheme);
    CAPTURE(result->problem());
    if (row.contains("refused")) {
      CHECK_FALSE(result->manifest);
      continue;
    }
    REQUIRE(result->manifest);
    CHECK(testing::starred_tensors(*result->manifest) ==
          testing::starred_tensors(row.at("tensors")));
    if (name == "gguf") {
      CHECK(decided_dtypes(*result->manifest) == recorded_dtypes(row));
    }
    same[name].insert(type);
  }
  return same;
}

TEST_CASE("schemes: tensors are those of transformers in memory and of GGUF") {
  SameTypes same = compare_recorded("schemes.jsonl");
  CHECK(same["transformers-4"].size() > 130);
  CHECK(same["transformers-5"].size() > 160);
  CHECK(same["gguf"].size() > 90);
}

TEST_CASE("schemes: tensors are those that EasyDeL and MaxText build") {
  SameTypes same = compare_recorded("schemes_jax.jsonl");
  CHECK(same["easydel"].size() > 40);
  CHECK(same["easydel-linen"].size() > 14);
  CHECK(same["maxtext"].size() > 15);
}

}  // namespace
}  // namespace shardplan
