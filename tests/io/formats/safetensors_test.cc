// SPDX-License-Identifier: Apache-2.0
#include "tests/support/safetensors.h"

#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "io/formats/formats.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

using testing::messages;
using testing::safetensors;

std::string names(const Manifest& manifest) {
  std::string text;
  for (size_t i = 0; i < manifest.size(); ++i) {
    text += std::string(manifest.name(i)) + " ";
  }
  return text;
}

TEST_CASE("a safetensors file is read through its table entry") {
  testing::MemoryHost host;
  const std::string bytes =
      safetensors({{"b", "F32", {4}}, {"a", "F32", {4}}}, false);
  CHECK(kSafetensors.recognize(bytes));
  CHECK(kSafetensors.is_weights);
  host.files["dir/m.safetensors"] = bytes;
  const auto file = std::make_shared<SourceFile>("dir/m.safetensors", bytes);
  Diagnostics diags;
  const auto manifest =
      kSafetensors.read({"dir/m.safetensors", "dir", file}, host, diags);
  REQUIRE(manifest.has_value());
  CHECK(names(*manifest) == "b a ");
  REQUIRE(manifest->remarks.size() == 1);
  CHECK(manifest->remarks[0] ==
        "the data of `dir/m.safetensors` is absent (header only)");
}

TEST_CASE("the size of the whole file counts, not what was read of it") {
  testing::MemoryHost host;
  const std::string bytes = safetensors({{"a", "F32", {4}}});
  host.files["m"] = bytes;
  const auto head =
      std::make_shared<SourceFile>("m", bytes.substr(0, bytes.size() - 16));
  Diagnostics diags;
  const auto manifest = kSafetensors.read({"m", "", head}, host, diags);
  REQUIRE(manifest.has_value());
  CHECK(manifest->remarks.empty());
}

TEST_CASE("standard input is not a file named `-`") {
  testing::MemoryHost host;
  host.files["-"] = std::string(1000, ' ');
  const auto file =
      std::make_shared<SourceFile>("<stdin>", safetensors({{"a", "F32", {4}}}));
  Diagnostics diags;
  CHECK(kSafetensors.read({"-", "", file}, host, diags).has_value());
  CHECK(messages(diags).empty());
}

TEST_CASE("a directory's files are one model, in the order of their names") {
  testing::MemoryHost host;
  host.files["d/2.safetensors"] = safetensors({{"a", "F32", {4}}});
  host.files["d/1.safetensors"] = safetensors({{"b", "F32", {4}}});
  host.files["d/readme.md"] = "no weights";
  Diagnostics diags;
  const auto manifest = kSafetensors.read({"d", "d", nullptr}, host, diags);
  REQUIRE(manifest.has_value());
  CHECK(names(*manifest) == "b a ");
  CHECK(manifest->where(1).file->name() == "d/2.safetensors");
  CHECK(manifest->remarks.empty());

  host.files["d/3.safetensors"] = safetensors({{"a", "F32", {4}}});
  CHECK_FALSE(kSafetensors.read({"d", "d", nullptr}, host, diags));
  CHECK(messages(diags) ==
        "SP008 d/3.safetensors:1:2 1 tensor in more than one shard: `a`");
}

}  // namespace
}  // namespace shardplan
