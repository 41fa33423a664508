// SPDX-License-Identifier: Apache-2.0
#include "io/shards.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/safetensors.h"

namespace shardplan {
namespace {

using testing::messages;
using testing::safetensors;

const std::vector<std::string> kPaths = {"a", "b", "c"};

testing::MemoryHost host_with_shards(bool with_data = true) {
  testing::MemoryHost host;
  host.files["a"] = safetensors({{"x", "F32", {4}}}, with_data);
  host.files["b"] = safetensors({{"y", "F32", {4}}}, with_data);
  host.files["c"] = safetensors({{"z", "F32", {4}}}, with_data);
  return host;
}

TEST_CASE("shards are read in the order asked for") {
  auto host = host_with_shards();
  Diagnostics diags;
  const auto shards = read_shards(kPaths, host, diags);
  REQUIRE(shards.has_value());
  REQUIRE(shards->size() == 3);
  CHECK(shards->at(1).manifest.name(0) == "y");
  CHECK(check_distinct(*shards, diags));
  CHECK(diags.all().empty());
}

TEST_CASE("every shard that cannot be read is reported") {
  auto host = host_with_shards();
  host.files["a"] = "not a shard";
  host.unreadable.insert("c");
  Diagnostics diags;
  CHECK_FALSE(read_shards(kPaths, host, diags));
  CHECK(diags.all().size() == 2);
}

TEST_CASE("absent data is remarked on once for all shards") {
  for (const int absent : {0, 1, 3}) {
    CAPTURE(absent);
    auto host = host_with_shards();
    auto headers = host_with_shards(false);
    for (int i = 0; i < absent; ++i) {
      const std::string& path = kPaths[static_cast<size_t>(i)];
      host.files[path] = headers.files[path];
    }
    Diagnostics diags;
    const auto shards = read_shards(kPaths, host, diags);
    REQUIRE(shards.has_value());
    Manifest manifest;
    adopt_shards(*shards, manifest);
    CHECK(manifest.sources.size() == 3);
    std::string remark;
    for (const std::string& text : manifest.remarks) remark += text;
    CHECK(remark == (absent == 0 ? ""
                     : absent == 1
                         ? "the data of `a` is absent (header only)"
                         : "the data of 3 of 3 shards is absent (headers "
                           "only)"));
  }
}

TEST_CASE("copying keeps the name, type, place and kind of a tensor") {
  auto host = host_with_shards();
  host.files["a"] =
      safetensors({{"h.0.attn.bias", "F32", {1, 1, 2, 2}}, {"x", "BF16", {3}}});
  Diagnostics diags;
  const auto shards = read_shards(kPaths, host, diags);
  REQUIRE(shards.has_value());
  const Manifest& from = shards->front().manifest;
  CHECK(tensor_count(from) == 2);
  CHECK(tensor_bytes(from) == 22);
  Manifest into;
  CHECK(copy_tensor(from, 1, into, diags));
  CHECK(copy_tensor(from, 0, into, diags));
  REQUIRE(into.size() == 1);
  CHECK(into.name(0) == "x");
  CHECK(type_text(into.type(0)) == "bf16[3]");
  CHECK(into.where(0).text() == "\"x\"");
  REQUIRE(into.buffers().size() == 1);
  CHECK(into.buffers()[0].where.text() == "\"h.0.attn.bias\"");
}

TEST_CASE("shards that together exceed 63 bits are refused") {
  auto host = host_with_shards();
  const Shape huge = {int64_t{1} << 62U};
  host.files["a"] = safetensors({{"x", "U8", huge}}, false);
  Diagnostics diags;
  const auto shards = read_shards(kPaths, host, diags);
  REQUIRE(shards.has_value());
  Manifest into;
  CHECK(copy_tensor(shards->front().manifest, 0, into, diags));
  CHECK_FALSE(copy_tensor(shards->front().manifest, 0, into, diags));
  CHECK(messages(diags) ==
        "SP008 a:1:2 with this tensor the shards together exceed 2^63 bytes");
}

TEST_CASE("tensors in two shards are reported together") {
  auto host = host_with_shards();
  host.files["c"] =
      safetensors({{"z", "F32", {1}}, {"x", "F32", {1}}, {"y", "F32", {1}}});
  Diagnostics diags;
  const auto shards = read_shards(kPaths, host, diags);
  REQUIRE(shards.has_value());
  CHECK_FALSE(check_distinct(*shards, diags));
  CHECK(messages(diags).starts_with("SP008 c:1:"));
  CHECK(messages(diags).ends_with(
      "2 tensors in more than one shard: `x` and `y`"));
  CHECK(testing::place_text(diags.all().front().labels.at(1).where) == "a:1:2");
  CHECK(diags.count(Severity::Error) == 2);
}

TEST_CASE("a few names stand for many") {
  const std::vector<std::string> names = {"a", "b", "c", "d", "e", "f", "g"};
  const std::span<const std::string> all(names);
  CHECK(some_names(all.first(1)) == "`a`");
  CHECK(some_names(all.first(2)) == "`a` and `b`");
  CHECK(some_names(all.first(5)) == "`a`, `b`, `c`, `d` and `e`");
  CHECK(some_names(all) == "`a`, `b`, `c`, `d`, `e` and 2 more");
}

}  // namespace
}  // namespace shardplan
