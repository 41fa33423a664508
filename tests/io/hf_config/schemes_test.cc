// SPDX-License-Identifier: Apache-2.0
// The shipped names of other programs against what those programs have
// (tests/data/schemes.jsonl).
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include <doctest/doctest.h>

#include "model/naming/name_scheme.h"
#include "tests/support/hf_config.h"

namespace shardplan {
namespace {

using testing::Json;

// Names with every number replaced by `*`, shapes and the dtypes that count.
using Tensors = std::map<std::tuple<std::string, Shape, std::string>, int64_t>;

std::string without_numbers(std::string_view name) {
  std::string folded;
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) folded += c;
    if (digit && !folded.ends_with('*')) folded += '*';
  }
  return folded;
}

Tensors recorded(const Json& row) {
  Tensors tensors;
  for (const Json& tensor : row.at("tensors")) {
    const Json& dtype = tensor.at(3);
    tensors[{tensor.at(0).get<std::string>(), tensor.at(1).get<Shape>(),
             dtype.is_null() ? "" : dtype.get<std::string>()}] =
        tensor.at(2).get<int64_t>();
  }
  return tensors;
}

// In a model of bf16, so that f32 is what the program decides.
Tensors tensors_of(const Manifest& manifest, bool dtypes) {
  Tensors tensors;
  const auto add = [&](std::string_view name, const TensorType& type) {
    const bool f32 = dtypes && type.dtype == DType::F32;
    ++tensors[{without_numbers(name), type.shape, f32 ? "f32" : ""}];
  };
  for (size_t i = 0; i < manifest.size(); ++i) {
    add(manifest.name(i), manifest.type(i));
  }
  for (const auto& buffer : manifest.buffers()) add(buffer.name, buffer.type);
  return tensors;
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

TEST_CASE("schemes: names, shapes and dtypes are those of the programs") {
  std::ifstream stream(testing::data_path("schemes.jsonl"));
  REQUIRE(stream);
  std::map<std::string, std::set<std::string>> types;
  for (std::string line; std::getline(stream, line);) {
    const Json row = Json::parse(line);
    const std::string name = row.at("scheme").get<std::string>();
    const Json& config = row.at("config");
    CAPTURE(name);
    CAPTURE(row.at("case").get<std::string>());
    CAPTURE(config.at("model_type").get<std::string>());
    const auto scheme = find_name_scheme(name);
    REQUIRE(scheme != nullptr);
    const auto result = testing::synthesize(in_bf16(config), scheme);
    CAPTURE(result->problem());
    REQUIRE(result->manifest);
    CHECK(tensors_of(*result->manifest, name == "gguf") == recorded(row));
    types[name].insert(config.at("model_type").get<std::string>());
  }
  CHECK(types["transformers-4"].size() > 130);
  CHECK(types["transformers-5"].size() > 160);
  CHECK(types["gguf"].size() > 90);
}

}  // namespace
}  // namespace shardplan
