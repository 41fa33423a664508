// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gguf.h"

#include <string>

#include <doctest/doctest.h>

#include "io/formats/formats.h"
#include "io/load.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

using testing::GgufFile;
using testing::MemoryHost;

std::string load(MemoryHost& host, const std::string& path) {
  Diagnostics diags;
  const auto manifest = load_manifest(path, host, diags);
  std::string text = testing::messages(diags);
  if (!manifest) return text;
  text += manifest->format;
  for (size_t i = 0; i < manifest->size(); ++i) {
    text += " " + std::string(manifest->name(i));
  }
  for (const std::string& remark : manifest->remarks) text += "; " + remark;
  return text;
}

GgufFile part(uint32_t number, uint32_t count) {
  GgufFile file = number == 0 ? testing::llama_gguf() : GgufFile();
  file.pair("split.no", 2, GgufFile::number(number, 2))
      .pair("split.count", 2, GgufFile::number(count, 2))
      .pair("split.tensors.count", 5, GgufFile::number(count, 4))
      .tensor("blk." + std::to_string(number) + ".w", 0, {4});
  return file;
}

TEST_CASE("a GGUF file is known by its content") {
  MemoryHost host;
  GgufFile file = testing::llama_gguf();
  file.tensor("token_embd.weight", 0, {256, 1000});
  host.files["m"] = file.bytes();
  CHECK(load(host, "m") == "gguf token_embd.weight");
  host.files["m"] = file.header();
  CHECK(load(host, "m") ==
        "gguf token_embd.weight; the data of `m` is absent (header only)");
  host.input = file.bytes();
  CHECK(load(host, "-") == "gguf token_embd.weight");
}

TEST_CASE("123 tensors do not make safetensors of it") {
  GgufFile file;
  for (int i = 0; i < 123; ++i) {
    file.tensor("t" + std::to_string(i), 0, {2});
  }
  MemoryHost host;
  host.files["m"] = file.bytes();
  CHECK(load(host, "m").starts_with("gguf t0 t1 "));
}

TEST_CASE("only the header of a large file is read where it is short") {
  GgufFile file;
  file.tensor("w", 24, {10 << 20});
  MemoryHost host;
  host.files["m"] = file.bytes();
  CHECK(load(host, "m") == "gguf w");
  CHECK(host.bytes_read < 200'000);
  GgufFile wordy;
  wordy
      .texts("tokenizer.ggml.tokens",
             std::vector<std::string>(20'000, "a token"))
      .tensor("w", 24, {1000});
  host.files["m"] = wordy.bytes();
  CHECK(load(host, "m") == "gguf w");
}

TEST_CASE("the parts of a split model are one model, whichever is named") {
  MemoryHost host;
  for (uint32_t i = 0; i < 3; ++i) {
    host.files["d/m-0000" + std::to_string(i + 1) + "-of-00003.gguf"] =
        part(i, 3).bytes();
  }
  for (const char* path :
       {"d", "d/m-00001-of-00003.gguf", "d/m-00003-of-00003.gguf"}) {
    CAPTURE(path);
    CHECK(load(host, path) == "gguf blk.0.w blk.1.w blk.2.w");
  }
  Diagnostics diags;
  CHECK(load_manifest("d", host, diags)->facts.heads == 4);

  auto incomplete = host;
  incomplete.files.erase("d/m-00002-of-00003.gguf");
  CHECK(load(incomplete, "d/m-00001-of-00003.gguf") ==
        "SP008 1 part of 3 of the split model not beside it: "
        "`d/m-00002-of-00003.gguf`");
  auto swapped = host;
  swapped.files["d/m-00002-of-00003.gguf"] = part(0, 3).bytes();
  CHECK(load(swapped, "d") ==
        "SP008 `d/m-00002-of-00003.gguf` is not the part that its name says");
  auto renamed = host;
  renamed.files["m.gguf"] = part(1, 3).bytes();
  CHECK(load(renamed, "m.gguf") ==
        "SP008 `m.gguf` is part 2 of 3 of a split model, but is not named so");
}

TEST_CASE("parts must not repeat a tensor, nor lack one") {
  MemoryHost host;
  GgufFile second;
  second.pair("split.no", 2, GgufFile::number(1, 2))
      .pair("split.count", 2, GgufFile::number(2, 2))
      .tensor("blk.0.w", 0, {4});
  host.files["m-00001-of-00002.gguf"] = part(0, 2).bytes();
  host.files["m-00002-of-00002.gguf"] = second.bytes();
  CHECK(load(host, "m-00001-of-00002.gguf")
            .find("1 tensor in more than one shard: `blk.0.w`") !=
        std::string::npos);
  second.tensor("more", 0, {4});
  host.files["m-00002-of-00002.gguf"] = second.bytes();
  CHECK(load(host, "m-00001-of-00002.gguf") ==
        "SP008 the parts have 3 tensors, but `split.tensors.count` is 2");
}

TEST_CASE("a directory must have one model") {
  MemoryHost host;
  GgufFile file;
  file.tensor("w", 0, {2});
  host.files["d/a.gguf"] = file.bytes();
  CHECK(load(host, "d") == "gguf w");
  host.files["d/b.gguf"] = file.bytes();
  CHECK(load(host, "d") ==
        "SP006 directory `d` has 2 GGUF files of different models");
}

}  // namespace
}  // namespace shardplan
