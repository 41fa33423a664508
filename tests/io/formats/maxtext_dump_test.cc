// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "io/formats/formats.h"
#include "io/load.h"
#include "io/recorded_sharding.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

using testing::MemoryHost;

constexpr const char* kNamed = R"({
  ".step": {"mesh": {"axis_names": ["fsdp"], "shape": {"fsdp": 16}},
    "partition_spec": [], "shape": []},
  ".params/['params']/['w']":
   {"mesh": {"axis_names": ["fsdp"], "shape": {"fsdp": 16}},
    "partition_spec": [["fsdp"], null], "shape": [64, 8]},
  ".opt_state/[0]/.mu/['params']/['w']":
   {"mesh": {"axis_names": ["fsdp"], "shape": {"fsdp": 16}},
    "partition_spec": [["fsdp"], null], "shape": [64, 8]}})";
constexpr const char* kLogical = R"({
  ".step": {"partition_spec": [], "shape": []},
  ".params/['params']/['w']":
   {"partition_spec": ["embed", null], "shape": [64, 8]},
  ".opt_state/[0]/.mu/['params']/['w']":
   {"partition_spec": ["embed", null], "shape": [64, 8]}})";
constexpr const char* kAssumed =
    "a sharding dump does not say dtypes: f32 is assumed for all";

struct Loaded {
  std::optional<Manifest> manifest;
  Diagnostics diags;
  std::string text;
};

std::unique_ptr<Loaded> load(MemoryHost& host, const std::string& path) {
  auto result = std::make_unique<Loaded>();
  result->manifest = load_manifest(path, host, result->diags);
  if (!result->manifest) {
    result->text = testing::messages(result->diags);
    return result;
  }
  const Manifest& manifest = *result->manifest;
  for (size_t i = 0; i < manifest.size(); ++i) {
    result->text +=
        std::string(manifest.name(i)) + " " + type_text(manifest.type(i));
    if (const AxisLabels* axes = manifest.axes(i)) {
      for (const auto& label : *axes) {
        result->text += " " + label.value_or("-");
      }
    }
    result->text += "\n";
  }
  result->text += axes_text(manifest.mesh);
  return result;
}

TEST_CASE("the two dumps beside each other complete each other") {
  MemoryHost host;
  host.files["d/named_shardings.json"] = kNamed;
  host.files["d/logical_shardings.json"] = kLogical;
  for (const char* path :
       {"d", "d/named_shardings.json", "d/logical_shardings.json"}) {
    CAPTURE(path);
    const auto result = load(host, path);
    CHECK(result->text == "params/params/w f32[64, 8] embed -\nfsdp=16");
    CHECK(result->manifest->format == "maxtext-dump");
    CHECK(result->manifest->buffers().size() == 1);
    REQUIRE(result->diags.all().size() == 1);
    CHECK(result->diags.all()[0].message == kAssumed);
    CHECK(result->diags.all()[0].severity == Severity::Warning);
    CHECK(result->manifest->remarks.size() == 1);
  }
}

TEST_CASE("either dump alone gives what it has") {
  MemoryHost host;
  host.files["d/named_shardings.json"] = kNamed;
  CHECK(load(host, "d")->text == "params/params/w f32[64, 8]\nfsdp=16");
  host.files["e/logical_shardings.json"] = kLogical;
  CHECK(load(host, "e")->text == "params/params/w f32[64, 8] embed -\n");
  host.input = kLogical;
  CHECK(load(host, "-")->text == "params/params/w f32[64, 8] embed -\n");
}

TEST_CASE("a dump of mesh axes gives no logical ones") {
  MemoryHost host;
  host.files["d/named_shardings.json"] = kNamed;
  host.files["d/logical_shardings.json"] = kNamed;
  const auto same = load(host, "d");
  CHECK(same->text == "params/params/w f32[64, 8]\nfsdp=16");
  CHECK(
      testing::messages(same->diags)
          .find(
              "SP008 warning `d/logical_shardings.json` is not used: it is of "
              "the same kind") != std::string::npos);
  host.files["d/logical_shardings.json"] =
      R"({".params/['params']/['w']":
          {"partition_spec": ["fsdp", null], "shape": [64, 8]}})";
  const auto axes = load(host, "d");
  CHECK(axes->text == "params/params/w f32[64, 8]\nfsdp=16");
  REQUIRE(axes->manifest->remarks.size() == 2);
  CHECK(axes->manifest->remarks[0] ==
        "`logical_shardings.json` names axes of the mesh, not logical ones: "
        "these are not used");
}

TEST_CASE("a twin that is broken or differs takes nothing away") {
  MemoryHost host;
  host.files["d/named_shardings.json"] = kNamed;
  host.files["d/logical_shardings.json"] = "{";
  const auto broken = load(host, "d");
  CHECK(broken->text == "params/params/w f32[64, 8]\nfsdp=16");
  CHECK(testing::messages(broken->diags)
            .find("SP002 warning `d/logical_shardings.json` is not used: ") !=
        std::string::npos);
  host.files["d/logical_shardings.json"] =
      R"({".params/['params']/['w']":
          {"partition_spec": ["embed"], "shape": [64]}})";
  const auto differs = load(host, "d");
  CHECK(differs->text == "params/params/w f32[64, 8]\nfsdp=16");
  CHECK(testing::messages(differs->diags)
            .find("SP008 warning the two dumps differ in the shape of "
                  "`params/params/w`") != std::string::npos);
}

TEST_CASE("an array without a shape is an error") {
  MemoryHost host;
  host.files["d.json"] = R"({".params/['w']": {"partition_spec": []}})";
  CHECK(load(host, "d.json")->text ==
        "SP013 d.json:1:2 the dump does not give the shape of `params/w`");
}

}  // namespace
}  // namespace shardplan
