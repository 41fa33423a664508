// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors/checkpoint.h"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "io/load.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/property.h"
#include "tests/support/safetensors.h"

namespace shardplan {
namespace {

using testing::MemoryHost;
using testing::messages;
using testing::safetensors;
using testing::safetensors_bytes;

// A file of bytes a, b, c, ... behind its header.
std::string lettered(const std::vector<testing::StoredTensor>& tensors) {
  std::string file = safetensors(tensors);
  const size_t header = safetensors(tensors, false).size();
  for (size_t i = header; i < file.size(); ++i) {
    file[i] = static_cast<char>('a' + (i - header) % 26);
  }
  return file;
}

// "name=bytes", each on its own; or what was reported.
std::string weights(const std::string& path, Host& host) {
  Diagnostics diags;
  const auto manifest = load_manifest(path, host, diags);
  if (!manifest) return messages(diags);
  const auto tensors = open_weights(path, *manifest, host, diags);
  CHECK(tensors.has_value() == !diags.has_errors());
  CHECK(tensors.has_value() == has_weights(path, host));
  if (!tensors) return messages(diags);
  CHECK(tensors->size() == manifest->size());
  std::string text;
  for (size_t i = 0; i < tensors->size(); ++i) {
    const StoredTensor& tensor = (*tensors)[i];
    CHECK(tensor.dtype == manifest->type(i).dtype);
    CHECK(tensor.shape == manifest->type(i).shape);
    text += std::string(manifest->name(i)) + "=" +
            std::string(reinterpret_cast<const char*>(tensor.data),
                        static_cast<size_t>(manifest->type(i).bytes())) +
            ";";
  }
  return text;
}

TEST_CASE("tensors lie where the header says") {
  MemoryHost host;
  host.files["m.safetensors"] =
      lettered({{"b", "U8", {2, 3}}, {"a", "BF16", {}}, {"c", "U8", {0}}});
  CHECK(weights("m.safetensors", host) == "b=abcdef;a=gh;c=;");
  // The data may be in another order than the names.
  host.files["m.safetensors"] = safetensors_bytes(
      R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[3,5]},)"
      R"("b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})");
  host.files["m.safetensors"] += "vwxyz";
  CHECK(weights("m.safetensors", host) == "a=yz;b=vwx;");
}

TEST_CASE("buffers are no weights") {
  MemoryHost host;
  host.files["m.safetensors"] = lettered(
      {{"h.0.attn.bias", "U8", {1, 1, 2, 2}}, {"wte.weight", "U8", {2, 2}}});
  CHECK(weights("m.safetensors", host) == "wte.weight=efgh;");
}

TEST_CASE("all files of a directory or an index") {
  MemoryHost host;
  host.files["m/x-1.safetensors"] = lettered({{"a", "U8", {2}}});
  host.files["m/x-2.safetensors"] =
      lettered({{"b", "U8", {3}}, {"c", "U8", {1}}});
  CHECK(weights("m", host) == "a=ab;b=abc;c=d;");
  host.files["m/model.safetensors.index.json"] =
      R"({"weight_map":{"c":"x-2.safetensors","a":"x-1.safetensors",)"
      R"("b":"x-2.safetensors"}})";
  CHECK(weights("m", host) == "c=d;a=ab;b=abc;");
  CHECK(weights("m/model.safetensors.index.json", host) == "c=d;a=ab;b=abc;");
}

TEST_CASE("a header without its data holds no numbers") {
  MemoryHost host;
  const std::vector<testing::StoredTensor> tensors = {{"a", "U8", {2}},
                                                      {"b", "F32", {3}}};
  host.files["m.safetensors"] = safetensors(tensors, false);
  CHECK(weights("m.safetensors", host) ==
        "SP008 m.safetensors:1:2 the file ends before the data of `a` and `b`");
  host.files["m.safetensors"] += "abcdefg";
  CHECK(weights("m.safetensors", host) ==
        "SP008 m.safetensors:1:54 the file ends before the data of `b`");
}

TEST_CASE("models that are no safetensors hold no numbers") {
  MemoryHost host;
  host.files["model.json"] = R"({"tensors":{"a":{"shape":[2],"dtype":"f32"}}})";
  CHECK(weights("model.json", host) == "SP008 `model.json` holds no numbers");
  host.files["m/model.safetensors.index.json"] =
      R"({"weight_map":{"a":"x-1.safetensors"}})";
  CHECK_FALSE(has_weights("m", host));
  CHECK_FALSE(has_weights("nothing", host));
  CHECK_FALSE(has_weights("-", host));
  host.files["empty"] = "";
  CHECK_FALSE(has_weights("empty", host));
}

TEST_CASE("a file that has changed since its header was read") {
  MemoryHost host;
  host.files["m.safetensors"] = lettered({{"a", "U8", {2}}, {"b", "U8", {2}}});
  Diagnostics diags;
  const auto manifest = load_manifest("m.safetensors", host, diags);
  REQUIRE(manifest);
  host.files["m.safetensors"] = lettered({{"a", "U8", {2}}, {"b", "U8", {1}}});
  CHECK_FALSE(open_weights("m.safetensors", *manifest, host, diags));
  CHECK(messages(diags) ==
        "SP008 m.safetensors:1:54 the file has changed while it was read: `b`");
  Diagnostics gone;
  host.files.clear();
  CHECK_FALSE(open_weights("m.safetensors", *manifest, host, gone));
  CHECK(messages(gone) ==
        "SP001 cannot read `m.safetensors`: no such file or directory");
}

TEST_CASE("damaged files are refused, or their tensors lie within them") {
  const std::string good =
      lettered({{"a", "F32", {2, 2}}, {"b", "BF16", {3}}, {"c", "F4", {3}}});
  CHECK(holds([&] {
    std::string bytes = good;
    for (size_t left = draw_size(); left > 0; --left) {
      const auto at = draw_in<size_t>(0, bytes.size());
      bytes[at] = draw_any<char>();
    }
    bytes.resize(draw_in<size_t>(0, bytes.size() + 1));
    MemoryHost host;
    host.files["m.safetensors"] = bytes;
    weights("m.safetensors", host);  // reads every byte: sanitizers see
  }));
}

}  // namespace

}  // namespace shardplan
