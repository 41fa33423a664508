// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/real_host.h"
#include "io/formats/formats.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/resolved.h"

namespace shardplan {
namespace {

TEST_CASE("arguments that JAX lowered have their names, shapes and dtypes") {
  const auto record =
      testing::read_json(testing::data_path("stablehlo/arguments.json"));
  const auto host = make_real_host();
  for (const char* file : {"shardy.mlir", "gspmd.mlir"}) {
    CAPTURE(file);
    Diagnostics diags;
    const auto manifest = load_manifest(
        testing::data_path(std::string("stablehlo/") + file).string(), *host,
        diags);
    REQUIRE_MESSAGE(manifest, testing::messages(diags));
    CHECK(manifest->format == "stablehlo");
    REQUIRE(manifest->size() == record.size());
    std::map<std::string, TensorType> types;
    for (size_t i = 0; i < manifest->size(); ++i) {
      types[std::string(manifest->name(i))] = manifest->type(i);
    }
    for (const auto& row : record) {
      CAPTURE(row.dump());
      const TensorType& type = types.at(row.at("name").get<std::string>());
      CHECK(type.shape == row.at("shape").get<Shape>());
      CHECK(type.dtype == find_dtype(row.at("dtype").get<std::string>()));
    }
    CHECK(manifest->mesh.size() ==
          (std::string(file) == "shardy.mlir" ? 3 : 0));
  }
}

TEST_CASE("names and sizes that no manifest can have are refused") {
  const auto read = [](const std::string& text) {
    testing::MemoryHost host;
    Diagnostics diags;
    const auto manifest = kStableHlo.read(
        {"m", "", std::make_shared<SourceFile>("m", text)}, host, diags);
    return manifest ? "read" : testing::messages(diags);
  };
  CHECK(read("func.func @main(%a: tensor<f32> loc(\"\"))") ==
        "SP002 m:1:17 the name of an argument is empty");
  CHECK(read("func.func @main(%a: tensor<f32> loc(\"\\FF\"))") ==
        "SP002 m:1:17 the name of an argument is not UTF-8");
  CHECK(read("func.func @main(%a: tensor<9223372036854775807x2xf32>)") ==
        "SP002 m:1:17 `a` exceeds 2^63 bytes");
}

}  // namespace
}  // namespace shardplan
