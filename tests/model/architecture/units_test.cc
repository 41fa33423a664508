// SPDX-License-Identifier: Apache-2.0
// Units that an architecture's dimensions give, held against those that names
// and shapes give.
#include "model/units.h"

#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "core/fold.h"
#include "io/formats.h"
#include "model/architectures.h"

namespace shardplan {
namespace {

std::string text_of(const std::vector<Unit>& units) {
  std::string text;
  for (const Unit& unit : units) {
    text += std::to_string(unit.dim) + ":" + std::string(unit_name(unit.kind)) +
            "x" + std::to_string(unit.count);
    if (unit.queries > 0) text += "/" + std::to_string(unit.queries);
    for (const Part& part : unit.parts) {
      text += " " + std::string(part.name) + "=" + std::to_string(part.rows) +
              "/" + std::to_string(part.count) + (part.kv ? "kv" : "");
    }
    text += "; ";
  }
  return text;
}

TEST_CASE("labels give every unit that names and shapes give") {
  size_t compared = 0;
  for (const Manifest& sample : family_samples()) {
    CAPTURE(sample.title);
    LayoutHints hints = layout_hints(sample);
    REQUIRE(hints.kinds != nullptr);
    LayoutHints named = hints;
    named.kinds = nullptr;
    for (size_t i = 0; i < sample.size(); ++i) {
      const std::string name(sample.name(i));
      CAPTURE(name);
      const TensorType& type = sample.type(i);
      const std::string by_name =
          text_of(units_of(name, type, sample.facts, named));
      const std::string by_label =
          text_of(units_of(name, type, sample.facts, hints));
      // More is known by labels: of heads that no name tells.
      if (!by_name.empty()) CHECK(by_label == by_name);
      if (!by_name.empty()) ++compared;
    }
  }
  CHECK(compared > 80);
}

// The units of the one parameter `p` of an architecture whose shape is given.
std::string units(const std::string& dim) {
  Diagnostics diags;
  const auto source = std::make_shared<const SourceFile>(
      "a.yaml",
      "architecture: a\nsizes: {heads: {is: 8}, kv_heads: {is: 2}, head_dim: "
      "{is: 16}, mlp: {is: 48}, experts: {is: 4}, key_heads: {is: "
      "3}}\nclasses:\n  A: "
      "[{parameter: p, shape: [" +
          dim + "]}]");
  diags.add_source(source);
  const auto all = read_user_architecture(
      source, [](std::string_view) { return nullptr; }, diags);
  REQUIRE(all != nullptr);
  const auto config = parse_document(
      std::make_shared<const SourceFile>("config.json", R"({"x": 1})"), diags);
  auto manifest = synthesize_manifest(*config, diags, {all});
  REQUIRE(manifest);
  manifest->facts.heads = 8;
  manifest->facts.kv_heads = 2;
  return text_of(units_of("p", manifest->type(0), manifest->facts,
                          layout_hints(*manifest)));
}

TEST_CASE("a dimension's tree says what of it must stay whole") {
  CHECK(units("heads * head_dim") == "0:headx8; ");
  CHECK(units("3, kv_heads * head_dim") == "1:KV headx2/8; ");
  CHECK(units("heads") == "0:headx8; ");
  CHECK(units("mlp") == "");
  CHECK(units("experts * mlp, 5") == "0:expertx4; ");
  CHECK(units("{per: heads, q: head_dim, gate: head_dim}") == "0:headx8; ");
  CHECK(units("{per: mlp, gate: 1, up: 1}") == "0:gate/up pairx48; ");
  CHECK(units("{gate: mlp, up: mlp}") ==
        "0:packed gate and upx1 gate=48/48 up=48/48; ");
  CHECK(units("{q: heads * head_dim, k: kv_heads * head_dim, v: kv_heads * "
              "head_dim}") ==
        "0:fused q, k, vx1/8 q=128/8 k=32/2kv v=32/2kv; ");
  CHECK(units("{per: kv_heads, q: heads // kv_heads * head_dim, k: head_dim, "
              "v: head_dim}") == "0:head groupx2/8; ");
  CHECK(units("{latent: 4, rope: 2}") == "");
  CHECK(units("{per: key_heads, q: 4, k: 4, v: 8, z: 8}") == "0:headx3; ");
  CHECK(units("{q: key_heads * 4, k: key_heads * 4, v: heads}") ==
        "0:fused q, k, vx1 q=12/3 k=12/3 v=8/8; ");
}

}  // namespace
}  // namespace shardplan
