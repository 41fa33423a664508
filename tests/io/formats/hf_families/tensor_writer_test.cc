// SPDX-License-Identifier: Apache-2.0
#include "io/formats/hf_families/tensor_writer.h"

#include <doctest/doctest.h>

#include "tests/support/hf_config.h"

namespace shardplan {
namespace {

struct Fixture {
  Diagnostics diags;
  Document document = *parse_document(
      std::make_shared<const SourceFile>("config.json", "{}"), diags);
  ConfigReader config{document.root(), "", diags};
  Manifest manifest;
  TensorWriter writer{manifest, DType::BF16, config};
};

TEST_CASE("modules are spelled with their weights and biases") {
  Fixture test;
  test.writer.linear("a", 4, 2);
  test.writer.linear("b", 4, 2, true);
  test.writer.norm("c", 3);
  test.writer.layer_norm("d", 3);
  test.writer.embedding("e", 10, 2);
  test.writer.tensor("f", {5});
  test.writer.tensor("g", DType::U8, {6});
  test.writer.buffer("h", DType::F32, {7});
  std::string written;
  for (size_t i = 0; i < test.manifest.size(); ++i) {
    written += std::string(test.manifest.name(i)) + " " +
               type_text(test.manifest.type(i)) + "\n";
    CHECK_FALSE(test.manifest.where(i));
  }
  CHECK(written ==
        "a.weight bf16[4, 2]\n"
        "b.weight bf16[4, 2]\nb.bias bf16[4]\n"
        "c.weight bf16[3]\n"
        "d.weight bf16[3]\nd.bias bf16[3]\n"
        "e.weight bf16[10, 2]\n"
        "f bf16[5]\ng u8[6]\n");
  REQUIRE(test.manifest.buffers().size() == 1);
  CHECK(test.manifest.buffers()[0].name == "h");
  CHECK(test.manifest.buffers()[0].type == TensorType{DType::F32, {7}});
}

TEST_CASE("a model beyond the limit of tensors is refused before it is made") {
  Fixture fits;
  CHECK(fits.writer.begin(kMaxTensors / 10, 10));
  CHECK(fits.config.ok());
  Fixture over;
  CHECK_FALSE(over.writer.begin(kMaxTensors / 10 + 1, 10));
  REQUIRE(over.diags.all().size() == 1);
  CHECK(over.diags.all()[0].message == "the model would have too many tensors");
  CHECK(over.diags.all()[0].facts[1] == "the limit is 20,000,000");
  Fixture huge;
  CHECK_FALSE(huge.writer.begin(INT64_MAX, INT64_MAX));
}

TEST_CASE("nothing begins after a problem of the config") {
  Fixture test;
  test.config.size("absent");
  CHECK_FALSE(test.writer.begin(1, 1));
  CHECK(test.diags.all().size() == 1);
}

TEST_CASE("a size beyond 63 bits is reported once and ends the writing") {
  Fixture test;
  test.writer.tensor("small", {1});
  test.writer.tensor("vast", {int64_t{1} << 61, 4});
  test.writer.tensor("vast too", {int64_t{1} << 61, 4});
  test.writer.tensor("late", {1});
  CHECK(test.manifest.size() == 1);
  REQUIRE(test.diags.all().size() == 1);
  const Diagnostic& found = test.diags.all()[0];
  CHECK(code_id(found.code) == "SP009");
  CHECK(found.message == "the model's size exceeds 63 bits");
  CHECK(found.facts[0] == "at `vast`, bf16[2305843009213693952, 4]");
}

}  // namespace
}  // namespace shardplan
