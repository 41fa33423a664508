// SPDX-License-Identifier: Apache-2.0
// The shipped names of EasyDeL and MaxText against what these programs build
// from the same config (tests/data/schemes_jax.jsonl).
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "model/naming/name_scheme.h"
#include "tests/support/hf_config.h"

namespace shardplan {
namespace {

using testing::Json;

using NamedShapes = std::map<std::pair<std::string, Shape>, int64_t>;

// Every number is one `*`.
std::string starred(std::string_view name) {
  std::string folded;
  for (const char c : name) {
    if (c < '0' || c > '9') {
      folded += c;
    } else if (!folded.ends_with('*')) {
      folded += '*';
    }
  }
  return folded;
}

NamedShapes shapes_of(const Manifest& manifest) {
  NamedShapes shapes;
  for (size_t i = 0; i < manifest.size(); ++i) {
    ++shapes[{starred(manifest.name(i)), manifest.type(i).shape}];
  }
  for (const auto& buffer : manifest.buffers()) {
    ++shapes[{starred(buffer.name), buffer.type.shape}];
  }
  return shapes;
}

TEST_CASE("schemes: tensors are those that EasyDeL and MaxText build") {
  std::ifstream stream(testing::data_path("schemes_jax.jsonl"));
  REQUIRE(stream);
  std::map<std::string, int> judged;
  for (std::string line; std::getline(stream, line);) {
    const Json row = Json::parse(line);
    const std::string name = row.at("scheme").get<std::string>();
    CAPTURE(name);
    CAPTURE(row.at("case").get<std::string>());
    CAPTURE(row.at("config").at("model_type").get<std::string>());
    const auto source = std::make_shared<const SourceFile>(
        "config.json", row.at("config").dump(1));
    testing::Synthesis result;
    result.diags.keep(source);
    const auto document = parse_document(source, result.diags);
    REQUIRE(document);
    const auto scheme = find_name_scheme(name);
    REQUIRE(scheme != nullptr);
    result.manifest =
        synthesize_manifest(*document, result.diags, {nullptr, scheme});
    CAPTURE(result.problem());
    if (row.contains("refused")) {
      CHECK_FALSE(result.manifest);
      continue;
    }
    REQUIRE(result.manifest);
    NamedShapes recorded;
    for (const Json& tensor : row.at("tensors")) {
      recorded[{tensor.at(0).get<std::string>(), tensor.at(1).get<Shape>()}] =
          tensor.at(2).get<int64_t>();
    }
    CHECK(shapes_of(*result.manifest) == recorded);
    ++judged[name];
  }
  CHECK(judged["easydel"] > 250);
  CHECK(judged["easydel-linen"] > 60);
  CHECK(judged["maxtext"] > 70);
}

}  // namespace
}  // namespace shardplan
