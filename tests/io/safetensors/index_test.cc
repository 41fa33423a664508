// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "io/formats.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/safetensors.h"

namespace shardplan {
namespace {

using testing::MemoryHost;
using testing::messages;
using testing::safetensors;

struct Read {
  std::optional<Manifest> manifest;
  std::string text;  // what was reported, else names and types
  Diagnostics diags;
};

Read read(MemoryHost& host, const std::string& index) {
  Read result;
  const auto file = std::make_shared<SourceFile>("d/i.json", index);
  result.manifest =
      kSafetensorsIndex.read({"d/i.json", file}, host, result.diags);
  result.text = messages(result.diags);
  CHECK(result.manifest.has_value() == !result.diags.has_errors());
  if (!result.manifest || !result.text.empty()) return result;
  for (size_t i = 0; i < result.manifest->size(); ++i) {
    result.text += std::string(result.manifest->name(i)) + " " +
                   type_text(result.manifest->type(i)) + "; ";
  }
  return result;
}

MemoryHost two_shards() {
  MemoryHost host;
  host.files["d/1"] = safetensors({{"a", "F32", {4}}, {"c", "BF16", {2, 2}}});
  host.files["d/2"] = safetensors({{"b", "F32", {1}}});
  return host;
}

constexpr const char* kIndex =
    R"({"metadata":{"total_size":28},"weight_map":{"c":"1","b":"2","a":"1"}})";

TEST_CASE("an index takes its tensors from the shards, in its own order") {
  auto host = two_shards();
  const Read result = read(host, kIndex);
  CHECK(result.text == "c bf16[2, 2]; b f32[1]; a f32[4]; ");
  CHECK(result.manifest->where(1).file->name() == "d/2");
  CHECK(result.manifest->where(2).text() == "\"a\"");
  CHECK(result.manifest->total_bytes() == 28);
}

// As transformers writes them: the index is sorted, and a shard begins with
// what has the larger dtype.
TEST_CASE("shards may have their tensors in another order than the index") {
  MemoryHost host;
  host.files["d/1"] = safetensors({{"l.0.norm", "F32", {4}},
                                   {"l.1.norm", "F32", {4}},
                                   {"l.0.inv_freq", "F32", {2}},
                                   {"l.0.w", "BF16", {2, 2}},
                                   {"l.1.w", "BF16", {2, 2}}});
  host.files["d/2"] =
      safetensors({{"l.2.w", "BF16", {2, 2}}, {"l.10.w", "BF16", {2, 2}}});
  const Read result = read(
      host, R"({"weight_map":{"l.0.inv_freq":"1","l.0.norm":"1","l.0.w":"1",)"
            R"("l.1.norm":"1","l.1.w":"1","l.10.w":"2","l.2.w":"2"}})");
  CHECK(result.text ==
        "l.0.norm f32[4]; l.0.w bf16[2, 2]; l.1.norm f32[4]; l.1.w bf16[2, 2]; "
        "l.10.w bf16[2, 2]; l.2.w bf16[2, 2]; ");
  REQUIRE(result.manifest->buffers().size() == 1);
  CHECK(result.manifest->buffers()[0].name == "l.0.inv_freq");
  CHECK(result.manifest->where(4).file->name() == "d/2");
  const auto with = [&](const std::string& more) {
    return read(host, R"({"weight_map":{"l.0.inv_freq":"1","l.0.norm":"1",)"
                      R"("l.0.w":"1","l.1.norm":"1","l.1.w":"1",)" +
                          more + "}}")
        .text;
  };
  CHECK(with(R"("l.10.w":"2","l.2.w":"1")")
            .find("missing from the shard that the index names: `l.2.w`") !=
        std::string::npos);
  CHECK(with(R"("l.10.w":"2")")
            .find("1 tensor in the shards, but not in the index: `l.2.w`") !=
        std::string::npos);
  CHECK(with(R"("l.2.w":"2","l.10.w":"2","l.0.w":"1")")
            .find("`l.0.w` is given twice") != std::string::npos);
  CHECK(with(R"("l.2.w":"2","l.1\u0030.w":"2")")
            .ends_with("l.2.w bf16[2, 2]; l.10.w bf16[2, 2]; "));
}

TEST_CASE("an index is recognised by its content") {
  CHECK(kSafetensorsIndex.recognize(kIndex));
  CHECK_FALSE(kSafetensorsIndex.recognize(R"({"model_type": "llama"})"));
  CHECK_FALSE(kSafetensorsIndex.recognize("weight_map: {}"));
  CHECK_FALSE(kSafetensorsIndex.recognize(""));
}

TEST_CASE("the total size may be absent or a float, and is compared") {
  struct Row {
    std::string metadata, expected;
  };
  const std::string fine = "c bf16[2, 2]; b f32[1]; a f32[4]; ";
  for (const Row& row : std::vector<Row>{
           {"{}", fine},
           {R"({"total_size":28.0})", fine},
           {R"({"total_size":2.8e1,"x":[1]})", fine},
           {R"({"total_size":29})",
            "SP008 warning d/i.json:1:27 `total_size` is 29, but the tensors "
            "of the shards total 28 bytes"},
           {R"({"total_size":0})",
            "SP008 warning d/i.json:1:27 `total_size` is 0, but the tensors "
            "of the shards total 28 bytes"},
           {R"({"total_size":28.5})",
            "SP002 d/i.json:1:27 `total_size` must be an integer below 2^63, "
            "not `28.5`"},
           {R"({"total_size":-1})",
            "SP002 d/i.json:1:27 `total_size` must not be negative, but is -1"},
           {R"({"total_size":"28"})",
            "SP002 d/i.json:1:27 `total_size` must be an integer, not a "
            "string"},
           {R"({"total_size":1e400})",
            "SP002 d/i.json:1:27 `total_size` must be an integer below 2^63, "
            "not `1e400`"}}) {
    CAPTURE(row.metadata);
    auto host = two_shards();
    CHECK(read(host, R"({"metadata":)" + row.metadata +
                         R"(,"weight_map":{"c":"1","b":"2","a":"1"}})")
              .text == row.expected);
  }
}

TEST_CASE("paths that leave the index's folder are refused") {
  for (const char* path : {"/etc/x", "../x", "a/../../x", "a/..", "..", "",
                           R"(..\\x)", R"(a\\b)", "C:x", "a\\u0000b"}) {
    CAPTURE(path);
    auto host = two_shards();
    const Read result = read(
        host, R"({"weight_map":{"a":"1","b":")" + std::string(path) + "\"}}");
    REQUIRE(result.diags.all().size() == 1);
    CHECK(result.diags.all()[0].code == Code::InconsistentCheckpoint);
    CHECK(result.text.starts_with("SP008 d/i.json:1:28 shard `"));
    CHECK(host.bytes_read == 0);
  }
}

TEST_CASE("shards may lie in folders below, under names with dots") {
  MemoryHost host;
  host.files["d/x/..y.safetensors"] = safetensors({{"a", "F32", {4}}});
  CHECK(read(host, R"({"weight_map":{"a":"x/..y.safetensors"}})").text ==
        "a f32[4]; ");
}

TEST_CASE("each shard that is missing is reported where it is named") {
  auto host = two_shards();
  CHECK(
      read(host, R"({"weight_map":{"a":"1","x":"8","y":"9","z":"8","c":"1"}})")
          .text ==
      "SP001 d/i.json:1:28 shard `8` is not beside the index\n"
      "SP001 d/i.json:1:36 shard `9` is not beside the index");
}

TEST_CASE("a shard's header is read once, however many tensors it has") {
  auto host = two_shards();
  host.files["d/1"] = safetensors({{"a", "U8", {100000}}, {"c", "U8", {1}}});
  read(host, kIndex);
  CHECK(host.bytes_read < 1000);
}

TEST_CASE("tensors that their shard lacks are reported together") {
  auto host = two_shards();
  const Read result = read(
      host, R"({"weight_map":{"a":"2","c":"1","n1":"1","n2":"1","b":"2"}})");
  CHECK(result.text ==
        "SP008 d/i.json:1:16 3 tensors missing from the shard that the index "
        "names: "
        "`a`, `n1` and `n2`");
  CHECK(result.diags.count(Severity::Error) == 3);
}

TEST_CASE("tensors that the index forgets are counted, with a warning") {
  auto host = two_shards();
  const Read result = read(host, R"({"weight_map":{"c":"1","b":"2"}})");
  CHECK(result.text ==
        "SP008 warning d/1:1:2 1 tensor in the shards, but not in the index: "
        "`a`");
  REQUIRE(result.manifest.has_value());
  CHECK(result.manifest->size() == 3);
  CHECK(result.manifest->name(2) == "a");
}

TEST_CASE("a tensor in two shards is refused") {
  auto host = two_shards();
  host.files["d/2"] = safetensors({{"b", "F32", {1}}, {"a", "F32", {4}}});
  CHECK(read(host, kIndex).text.find("1 tensor in more than one shard: `a`") !=
        std::string::npos);
}

TEST_CASE("malformed indices are reported with their place") {
  struct Row {
    std::string index, expected;
  };
  for (const Row& row : std::vector<Row>{
           {"[]", "SP002 d/i.json:1:1 the index must be a map, not a list"},
           {"{}", "SP002 d/i.json:1:3 the index has no `weight_map`"},
           {R"({"weight_map":[]})",
            "SP002 d/i.json:1:15 `weight_map` must be a map, not a list"},
           {R"({"weight_map":{"a":1}})",
            "SP002 d/i.json:1:20 the shard of `a` must be a string, not a "
            "number"},
           {R"({"weight_map":{"a":"1","a":"2"}})",
            "SP003 d/i.json:1:24 `a` is given twice"},
           {R"({"weight_map":{},"weight_map":{}})",
            "SP003 d/i.json:1:18 `weight_map` is given twice"},
           {R"({"metadata":7,"weight_map":{}})",
            "SP002 d/i.json:1:13 `metadata` must be a map, not a number"}}) {
    CAPTURE(row.index);
    auto host = two_shards();
    CHECK(read(host, row.index).text == row.expected);
  }
}

TEST_CASE("an empty index is an empty model") {
  MemoryHost host;
  const Read result = read(host, R"({"weight_map":{}})");
  REQUIRE(result.manifest.has_value());
  CHECK(result.manifest->size() == 0);
}

TEST_CASE("an index alone says what to add") {
  MemoryHost host;
  const Read result = read(host, kIndex);
  CHECK(result.text ==
        "SP008 d/i.json:1:31 an index alone does not give tensor shapes");
  REQUIRE(result.diags.all().size() == 1);
  CHECK(result.diags.all()[0].facts.at(0) ==
        "neither its 2 shards nor a config.json is beside it");
  CHECK(result.diags.all()[0].help.size() == 1);
}

// A GPT-2 of one layer: 4 x (6 + 3) embeddings, 13 other tensors in a layer.
constexpr const char* kConfig =
    R"({"model_type":"gpt2","n_layer":1,"n_head":2,"n_embd":4,"vocab_size":6,)"
    R"("n_positions":3,"n_ctx":3,"torch_dtype":"float32"})";

// The tensors that the config implies, as an index of one missing shard.
std::string implied_index(const std::string& total_size,
                          const std::string& more = "",
                          const std::string& less = "") {
  Diagnostics diags;
  const auto config =
      parse_document(std::make_shared<SourceFile>("c", kConfig), diags);
  const auto manifest = synthesize_manifest(config.value(), diags);
  REQUIRE(manifest.has_value());
  std::string map = more.empty() ? "" : "\"" + more + "\":\"1\"";
  const size_t total = manifest->size() + manifest->buffers().size();
  for (size_t i = 0; i < total; ++i) {
    if (manifest->any_name(i) == less) continue;
    if (!map.empty()) map += ",";
    map += "\"" + std::string(manifest->any_name(i)) + "\":\"1\"";
  }
  return R"({"metadata":{"total_size":)" + total_size + R"(},"weight_map":{)" +
         map + "}}";
}

int64_t implied_bytes() {
  Diagnostics diags;
  const auto config =
      parse_document(std::make_shared<SourceFile>("c", kConfig), diags);
  const auto manifest = synthesize_manifest(config.value(), diags);
  REQUIRE(manifest.has_value());
  CHECK(manifest->buffer_bytes() > 0);
  return manifest->total_bytes() + manifest->buffer_bytes();
}

TEST_CASE("a config stands in for shards when names and size agree") {
  MemoryHost host;
  host.files["d/config.json"] = kConfig;
  Read result = read(host, implied_index(std::to_string(implied_bytes())));
  REQUIRE(result.manifest.has_value());
  CHECK(result.manifest->size() > 10);
  REQUIRE(result.manifest->remarks.size() == 1);
  CHECK(result.manifest->remarks[0] ==
        "no shard is beside the index; shapes and dtypes come from "
        "`d/config.json`");

  result = read(host, implied_index("0"));
  REQUIRE(result.manifest.has_value());
  CHECK(result.manifest->remarks.size() == 2);
}

TEST_CASE("a config that disagrees with the index is refused") {
  MemoryHost host;
  host.files["d/config.json"] = kConfig;
  CHECK(read(host, implied_index("7"))
            .text.find(
                "`total_size` is 7, but the tensors of the config total ") !=
        std::string::npos);
  const Read result = read(host, implied_index("0", "extra", "wte.weight"));
  REQUIRE(result.diags.all().size() == 1);
  CHECK(result.diags.all()[0].code == Code::InconsistentCheckpoint);
  CHECK(result.diags.all()[0].facts ==
        std::vector<std::string>{"only in the index: `extra`",
                                 "only implied by the config: `wte.weight`"});
}

TEST_CASE("what the index alone names is said, and the rest is read") {
  MemoryHost host;
  host.files["d/config.json"] = kConfig;
  const int64_t bytes = implied_bytes();
  Read result =
      read(host, implied_index(std::to_string(bytes + 4096), "mtp.fc.weight"));
  REQUIRE(result.manifest.has_value());
  CHECK(result.manifest->total_bytes() + result.manifest->buffer_bytes() ==
        bytes);
  REQUIRE(result.diags.all().size() == 1);
  CHECK(result.diags.all()[0].severity == Severity::Warning);
  CHECK(result.diags.all()[0].message ==
        "the index names 1 tensor that the config.json beside it does not "
        "imply: it is excluded from all totals");
  CHECK(result.diags.all()[0].facts ==
        std::vector<std::string>{"`total_size` leaves 4.00 KiB for them",
                                 "only in the index: `mtp.fc.weight`"});
  // A size that is less than what the config implies is wrong all the same.
  CHECK_FALSE(read(host, implied_index("9", "mtp.fc.weight")).manifest);

  // Masks of earlier versions are buffers by their names.
  result = read(
      host, implied_index(std::to_string(bytes + 9), "h.0.attn.causal_mask"));
  REQUIRE(result.manifest.has_value());
  CHECK(result.diags.all().empty());
  CHECK(result.manifest->remarks.front().find("`h.0.attn.causal_mask`") !=
        std::string::npos);
}

TEST_CASE("what the index lacks is left out where the total size says so") {
  MemoryHost host;
  host.files["d/config.json"] = kConfig;
  const std::string less = "wpe.weight";  // f32 [3, 4]
  const int64_t bytes = implied_bytes();
  const Read result =
      read(host, implied_index(std::to_string(bytes - 48), "", less));
  REQUIRE(result.manifest.has_value());
  REQUIRE(result.diags.all().size() == 1);
  CHECK(result.diags.all()[0].severity == Severity::Warning);
  for (size_t i = 0; i < result.manifest->any_size(); ++i) {
    CHECK(result.manifest->any_name(i) != less);
  }
  CHECK_FALSE(
      read(host, implied_index(std::to_string(bytes), "", less)).manifest);
}

// An index of Llama as transformers before 4.32 saved it: one layer of 2 heads
// of 4, of which `frequencies` bytes are beside what the config implies.
std::string llama_index(const std::string& config, int64_t frequencies) {
  Diagnostics diags;
  const auto document =
      parse_document(std::make_shared<SourceFile>("c", config), diags);
  const auto manifest = synthesize_manifest(document.value(), diags);
  REQUIRE(manifest.has_value());
  std::string map = R"("model.layers.0.self_attn.rotary_emb.inv_freq":"1")";
  for (size_t i = 0; i < manifest->size(); ++i) {
    map += ",\"" + std::string(manifest->name(i)) + "\":\"1\"";
  }
  return R"({"metadata":{"total_size":)" +
         std::to_string(manifest->total_bytes() + frequencies) +
         R"(},"weight_map":{)" + map + "}}";
}

TEST_CASE("rotary frequencies of old indices are buffers") {
  const std::string config =
      R"({"model_type":"llama","architectures":["LlamaForCausalLM"],)"
      R"("num_hidden_layers":1,"num_attention_heads":2,"hidden_size":8,)"
      R"("intermediate_size":16,"vocab_size":6,"torch_dtype":"float16"})";
  MemoryHost host;
  host.files["d/config.json"] = config;
  for (const auto& [bytes, type] :
       {std::pair(8, "f32[2]"), std::pair(4, "f16[2]")}) {
    const Read result = read(host, llama_index(config, bytes));
    CHECK(result.text.find("inv_freq: f") == std::string::npos);
    REQUIRE(result.manifest.has_value());
    REQUIRE(result.manifest->buffers().size() == 1);
    CHECK(type_text(result.manifest->buffers()[0].type) == type);
    CHECK(result.manifest->remarks[0] ==
          "1 tensor `*.rotary_emb.inv_freq` in the index: rotary frequencies, "
          "not parameters");
  }
  CHECK(read(host, llama_index(config, 6))
            .text.find("but the tensors of the config total ") !=
        std::string::npos);
}

constexpr const char* kPointer =
    "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";

TEST_CASE("Git LFS pointers in place of shards leave the config to say") {
  MemoryHost host;
  host.files["d/1"] = kPointer;
  const std::string index = implied_index(std::to_string(implied_bytes()));
  const Read alone = read(host, index);
  CHECK(alone.text.find("the shards beside the index are Git LFS pointers") !=
        std::string::npos);
  host.files["d/config.json"] = kConfig;
  const Read result = read(host, index);
  REQUIRE(result.manifest.has_value());
  CHECK(result.manifest->remarks[0] ==
        "the shards beside the index are Git LFS pointers (run `git lfs pull` "
        "to fetch them); shapes and dtypes come from `d/config.json`");
}

TEST_CASE("one pointer among the shards is reported") {
  auto host = two_shards();
  host.files["d/2"] = kPointer;
  CHECK(read(host, kIndex).text ==
        "SP001 d/i.json:1:57 shard `2` is a Git LFS pointer, not the file "
        "itself");
}

TEST_CASE("one shard beside the index makes a config no substitute") {
  auto host = two_shards();
  host.files.erase("d/2");
  host.files["d/config.json"] = kConfig;
  CHECK(read(host, kIndex).text ==
        "SP001 d/i.json:1:57 shard `2` is not beside the index");
}

}  // namespace

}  // namespace shardplan
