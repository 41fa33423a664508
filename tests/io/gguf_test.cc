// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gguf.h"

#include <memory>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "io/formats.h"
#include "io/gguf/facts.h"
#include "io/gguf/header.h"
#include "io/load.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

using testing::GgufFile;
using testing::MemoryHost;

std::string load_gguf(MemoryHost& host, const std::string& path) {
  Diagnostics diags;
  const auto manifest = load_manifest(path, host, diags);
  if (!manifest) return testing::messages(diags);
  std::string text = testing::problems(diags);
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
  CHECK(load_gguf(host, "m") == "gguf token_embd.weight");
  host.files["m"] = file.header();
  CHECK(load_gguf(host, "m") ==
        "gguf token_embd.weight; the data of `m` is missing (header only)");
  host.input = file.bytes();
  CHECK(load_gguf(host, "-") == "gguf token_embd.weight");
}

TEST_CASE("123 tensors do not make safetensors of it") {
  GgufFile file;
  for (int i = 0; i < 123; ++i) {
    file.tensor("t" + std::to_string(i), 0, {2});
  }
  MemoryHost host;
  host.files["m"] = file.bytes();
  CHECK(load_gguf(host, "m").starts_with("gguf t0 t1 "));
}

TEST_CASE("only the header of a large file is read where it is short") {
  GgufFile file;
  file.tensor("w", 24, {10 << 20});
  MemoryHost host;
  host.files["m"] = file.bytes();
  CHECK(load_gguf(host, "m") == "gguf w");
  CHECK(host.bytes_read < 200'000);
  GgufFile wordy;
  wordy
      .texts("tokenizer.ggml.tokens",
             std::vector<std::string>(20'000, "a token"))
      .tensor("w", 24, {1000});
  host.files["m"] = wordy.bytes();
  CHECK(load_gguf(host, "m") == "gguf w");
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
    CHECK(load_gguf(host, path) == "gguf blk.0.w blk.1.w blk.2.w");
  }
  Diagnostics diags;
  CHECK(load_manifest("d", host, diags)->facts.heads == 4);

  auto incomplete = host;
  incomplete.files.erase("d/m-00002-of-00003.gguf");
  CHECK(load_gguf(incomplete, "d/m-00001-of-00003.gguf") ==
        "SP008 1 part of 3 of the split model missing from its folder: "
        "`d/m-00002-of-00003.gguf`");
  auto swapped = host;
  swapped.files["d/m-00002-of-00003.gguf"] = part(0, 3).bytes();
  CHECK(load_gguf(swapped, "d") ==
        "SP008 `d/m-00002-of-00003.gguf` is not the part that its name states");
  auto renamed = host;
  renamed.files["m.gguf"] = part(1, 3).bytes();
  CHECK(load_gguf(renamed, "m.gguf") ==
        "SP008 `m.gguf` is part 2 of 3 of a split model, but its name does not "
        "say so");
}

TEST_CASE("parts must not repeat a tensor, nor lack one") {
  MemoryHost host;
  GgufFile second;
  second.pair("split.no", 2, GgufFile::number(1, 2))
      .pair("split.count", 2, GgufFile::number(2, 2))
      .tensor("blk.0.w", 0, {4});
  host.files["m-00001-of-00002.gguf"] = part(0, 2).bytes();
  host.files["m-00002-of-00002.gguf"] = second.bytes();
  CHECK(load_gguf(host, "m-00001-of-00002.gguf")
            .find("1 tensor in more than one shard: `blk.0.w`") !=
        std::string::npos);
  second.tensor("more", 0, {4});
  host.files["m-00002-of-00002.gguf"] = second.bytes();
  CHECK(load_gguf(host, "m-00001-of-00002.gguf") ==
        "SP008 the parts have 3 tensors, but `split.tensors.count` is 2");
}

TEST_CASE("a directory must have one model") {
  MemoryHost host;
  GgufFile file;
  file.tensor("w", 0, {2});
  host.files["d/a.gguf"] = file.bytes();
  CHECK(load_gguf(host, "d") == "gguf w");
  host.files["d/b.gguf"] = file.bytes();
  CHECK(load_gguf(host, "d") ==
        "SP006 directory `d` has 2 GGUF files of different models");
}

struct GgufReading {
  std::string bytes;
  Facts facts;
  std::vector<std::string> remarks;
};

GgufReading reading_of(const GgufFile& file, int pairs) {
  GgufReading result;
  result.bytes = file.header();
  GgufCursor cursor(result.bytes, 24);
  GgufMetadata metadata;
  for (int i = 0; i < pairs; ++i) REQUIRE(metadata.add(cursor).empty());
  REQUIRE(cursor.good());
  result.facts = gguf_facts(metadata, result.remarks);
  return result;
}

TEST_CASE("a model says its layers, heads and vocabulary") {
  const Facts facts = reading_of(testing::llama_gguf(), 7).facts;
  CHECK(facts.from == FactsFrom::Manifest);
  CHECK(facts.layers == 2);
  CHECK(facts.heads == 4);
  CHECK(facts.kv_heads == 2);
  CHECK(facts.head_dim == 64);
  CHECK_FALSE(facts.value_dim);
  CHECK(facts.vocab == 1000);
  CHECK_FALSE(facts.experts);
  CHECK(facts.windows.empty());
}

TEST_CASE("without KV heads of its own a model has as many as heads") {
  GgufFile file;
  file.text("general.architecture", "gpt2")
      .u32("gpt2.attention.head_count", 12)
      .u32("gpt2.attention.key_length", 80)
      .u32("gpt2.attention.value_length", 48)
      .texts("tokenizer.ggml.tokens", {"a", "b", "c"});
  const Facts facts = reading_of(file, 5).facts;
  CHECK(facts.kv_heads == 12);
  CHECK(facts.head_dim == 80);
  CHECK(facts.value_dim == 48);
  CHECK(facts.vocab == 3);
}

TEST_CASE("nothing is known of heads where the metadata says nothing") {
  GgufFile file;
  file.text("general.architecture", "llama").u32("qwen2.block_count", 3);
  CHECK(reading_of(file, 2).facts.from == FactsFrom::None);
  GgufFile none;
  none.u32("llama.block_count", 3);
  CHECK(reading_of(none, 1).facts.from == FactsFrom::None);
}

TEST_CASE("numbers per layer count where layers agree") {
  GgufFile file;
  file.text("general.architecture", "lfm2")
      .u32("lfm2.block_count", 3)
      .u32("lfm2.attention.head_count", 32)
      .u32s("lfm2.attention.head_count_kv", {0, 8, 8});
  const GgufReading agreed = reading_of(file, 4);
  CHECK(agreed.facts.kv_heads == 8);
  CHECK(agreed.facts.windows == std::vector<int64_t>{kUnknownWindow, 0, 0});
  CHECK(agreed.remarks.empty());

  GgufFile differ;
  differ.text("general.architecture", "deci")
      .u32("deci.attention.head_count", 32)
      .u32s("deci.attention.head_count_kv", {4, 8});
  const GgufReading differing = reading_of(differ, 3);
  CHECK_FALSE(differing.facts.kv_heads);
  REQUIRE(differing.remarks.size() == 1);
  CHECK(differing.remarks[0] ==
        "layers differ in `deci.attention.head_count_kv` (4 and 8), so this "
        "value is treated as unknown");
}

TEST_CASE("latent attention has no head size, but a latent") {
  GgufFile file;
  file.text("general.architecture", "deepseek2")
      .u32("deepseek2.attention.head_count", 16)
      .u32("deepseek2.attention.head_count_kv", 1)
      .u32("deepseek2.attention.kv_lora_rank", 512)
      .u32("deepseek2.attention.key_length", 576)
      .u32("deepseek2.attention.value_length_mla", 128)
      .u32("deepseek2.rope.dimension_count", 64)
      .u32("deepseek2.expert_count", 64)
      .u32("deepseek2.expert_group_count", 8);
  const Facts facts = reading_of(file, 9).facts;
  CHECK(facts.kv_heads == 16);
  CHECK(facts.kv_latent == 576);
  CHECK(facts.value_dim == 128);
  CHECK_FALSE(facts.head_dim);
  CHECK(facts.experts == 64);
  CHECK(facts.expert_groups == 8);
}

TEST_CASE("windows follow the pattern where the file has one") {
  GgufFile file;
  file.text("general.architecture", "gemma3")
      .u32("gemma3.block_count", 3)
      .u32("gemma3.attention.sliding_window", 512);
  CHECK(reading_of(file, 3).facts.windows ==
        std::vector<int64_t>(3, kUnknownWindow));
  file.pair("gemma3.attention.sliding_window_pattern", 9,
            GgufFile::number(7, 4) + GgufFile::number(3, 8) +
                std::string("\1\1\0", 3));
  CHECK(reading_of(file, 4).facts.windows == std::vector<int64_t>{512, 512, 0});
}

TEST_CASE("absurd numbers claim nothing") {
  GgufFile file;
  file.text("general.architecture", "llama")
      .pair("llama.block_count", 10, GgufFile::number(1ULL << 62U, 8))
      .u32("llama.attention.sliding_window", 8)
      .pair("llama.attention.head_count", 5, "\xff\xff\xff\xff")
      .u32("llama.expert_count", 0);
  const Facts facts = reading_of(file, 5).facts;
  CHECK(facts.windows.empty());
  CHECK_FALSE(facts.heads);
  CHECK_FALSE(facts.experts);
}

struct Result {
  Diagnostics diags;
  Manifest manifest;
  std::optional<GgufHeader> header;
  std::string text;  // of the tensors, or what was reported
};

std::unique_ptr<Result> read_header(const std::string& bytes) {
  auto result = std::make_unique<Result>();
  const auto file = std::make_shared<SourceFile>("m.gguf", bytes);
  result->header = read_gguf_header(file, static_cast<int64_t>(bytes.size()),
                                    result->manifest, result->diags);
  result->text = testing::messages(result->diags);
  if (!result->header) {
    CHECK(result->diags.has_errors());
    return result;
  }
  const Manifest& manifest = result->manifest;
  for (size_t i = 0; i < manifest.size(); ++i) {
    result->text += std::string(manifest.name(i)) + " " +
                    type_text(manifest.type(i)) + "\n";
  }
  return result;
}

std::string said(const std::string& bytes) { return read_header(bytes)->text; }

TEST_CASE("sizes are read the other way round, types by their numbers") {
  GgufFile file = testing::llama_gguf();
  file.tensor("token_embd.weight", 12, {256, 1000})
      .tensor("blk.0.attn_norm.weight", 0, {256})
      .tensor("scalar", 1, {})
      .tensor("blk.0.ffn_gate_exps.weight", 8, {256, 64, 4});
  const auto result = read_header(file.bytes());
  CHECK(result->text ==
        "token_embd.weight q4_k[1000, 256]\n"
        "blk.0.attn_norm.weight f32[256]\n"
        "scalar f16[]\n"
        "blk.0.ffn_gate_exps.weight q8_0[4, 64, 256]\n");
  CHECK_FALSE(result->header->data_absent);
  CHECK(result->manifest.model_name == "Tiny");
  CHECK(result->manifest.facts.kv_heads == 2);
  CHECK(result->manifest.total_bytes() ==
        144000 + 256 * 4 + 2 + 4 * 64 * 8 * 34);
  CHECK(read_header(file.header())->header->data_absent);
}

TEST_CASE("places are lines of a listing of the tensors") {
  GgufFile file;
  file.tensor("a", 0, {2}).tensor("b", 12, {256, 2});
  const auto result = read_header(file.bytes());
  const Span where = result->manifest.where(1);
  CHECK(testing::place_text(where) == "m.gguf:2:1");
  CHECK(where.text() == "b");
  CHECK(where.file->line(2) == "b q4_k[2, 256]");
}

TEST_CASE("rotation factors and router corrections are buffers") {
  GgufFile file;
  file.tensor("rope_freqs.weight", 0, {64})
      .tensor("blk.3.exp_probs_b.bias", 0, {16})
      .tensor("blk.3.attn_q.bias", 0, {16});
  const auto result = read_header(file.bytes());
  CHECK(result->text == "blk.3.attn_q.bias f32[16]\n");
  CHECK(result->manifest.buffers().size() == 2);
}

TEST_CASE("other versions and byte orders are refused by name") {
  GgufFile file;
  file.version = 2;
  file.tensor("a", 0, {2});
  CHECK(said(file.bytes()) == "a f32[2]\n");
  file.version = 1;
  CHECK(
      said(file.bytes()) ==
      "SP006 m.gguf:1:1 GGUF version 1 is not supported; versions 2 and 3 are");
  file.version = 4;
  CHECK(said(file.bytes()).find("version 4 is not supported") !=
        std::string::npos);
  file.version = 3U << 24U;
  const auto big = read_header(file.bytes());
  CHECK(
      big->text ==
      "SP006 m.gguf:1:1 this GGUF file is big-endian, which is not supported");
  CHECK(big->diags.all()[0].help.size() == 1);
}

TEST_CASE("types that ggml removed, later ones and unknown ones are SP005") {
  for (const auto& row :
       {std::pair(31U, "type 31, Q4_0_4_4, which ggml has removed"),
        std::pair(5U, "type 5, Q4_3, which ggml has removed"),
        std::pair(40U, "type 40, NVFP4, which this version does not support"),
        std::pair(777U, "type 777, which ggml does not define")}) {
    CAPTURE(row.first);
    GgufFile file;
    file.tensor("a", row.first, {256});
    CHECK(said(file.bytes()) ==
          "SP005 m.gguf:1:1 `a` has ggml " + std::string(row.second));
  }
}

TEST_CASE("a row consists of whole blocks") {
  GgufFile file;
  file.tensor("a", 12, {128, 4}).tensor("b", 2, {32}).tensor("c", 2, {});
  CHECK(said(file.bytes()) ==
        "SP002 m.gguf:1:1 `a` is q4_k[4, 128], but a row of q4_k must have a "
        "multiple of 256 elements\n"
        "SP002 m.gguf:3:1 `c` is q4_0[], but a row of q4_0 must have a "
        "multiple of "
        "32 elements");
}

TEST_CASE("names are unique and UTF-8") {
  GgufFile file;
  file.tensor("a", 0, {2}).tensor("b", 0, {2}).tensor("a", 0, {3});
  testing::MemoryHost host;
  host.files["m.gguf"] = file.bytes();
  CHECK(load_gguf(host, "m.gguf") == "SP003 m.gguf:3:1 `a` is given twice");
  GgufFile bad;
  bad.tensor("\xff\n", 0, {2});
  CHECK(said(bad.bytes()) ==
        "SP002 m.gguf:1:1 the name `\\xff\\n` is not UTF-8");
}

TEST_CASE("places of tensors are aligned, apart and without large gaps") {
  GgufFile file;
  file.tensor("a", 0, {16}).tensor("b", 0, {4}, 32).tensor("c", 0, {4}, 80);
  CHECK(said(file.bytes()) ==
        "SP002 m.gguf:3:1 `c` begins at byte 80 of the data, which is not a "
        "multiple of 32\n"
        "SP002 m.gguf:2:1 the data of `b` overlaps that of `a`");
  GgufFile gap;
  gap.tensor("b", 0, {4}, 128).tensor("a", 0, {16}, 0);
  CHECK(said(gap.bytes()) ==
        "SP002 warning m.gguf:1:1 64 bytes between tensors belong to no tensor"
        "b f32[4]\na f32[16]\n");
  GgufFile far;
  far.tensor("a", 0, {4}, 1ULL << 63U);
  CHECK(said(far.header()) == "SP002 m.gguf:1:1 `a` ends after byte 2^62");
}

TEST_CASE("the alignment is the file's own, and a power of two") {
  GgufFile file;
  file.alignment = 64;
  file.u32("general.alignment", 64).tensor("a", 0, {4}).tensor("b", 0, {4});
  CHECK(said(file.bytes()) == "a f32[4]\nb f32[4]\n");
  for (const uint32_t bad : {0U, 24U}) {
    GgufFile other;
    other.u32("general.alignment", bad);
    CHECK(said(other.bytes()) == "SP002 m.gguf:1:1 `general.alignment` is " +
                                     std::to_string(bad) +
                                     ", but must be a power of two");
  }
}

TEST_CASE("counts and sizes that a file cannot have are refused") {
  GgufFile file;
  file.tensor("a", 0, {2});
  file.tensor_count = 1ULL << 60U;
  CHECK(said(file.header())
            .find("the header declares 1152921504606846976 "
                  "tensors, but the file has ") != std::string::npos);
  file.tensor_count = 1;
  file.pair_count = ~0ULL;
  CHECK(said(file.header()).find("metadata pairs") != std::string::npos);
  GgufFile dims;
  dims.tensor("a", 0, {1, 1, 1, 1, 1});
  CHECK(said(dims.bytes()) ==
        "SP002 m.gguf:1:1 tensor `a` has 5 dimensions; GGUF allows at most 4");
  GgufFile huge;
  huge.tensor("a", 0, {1ULL << 40U, 1ULL << 40U});
  CHECK(said(huge.header()) ==
        "SP002 m.gguf:1:1 with `a` the tensors exceed 2^63 bytes");
  GgufFile negative;
  negative.tensor("a", 0, {~0ULL}, 0);
  CHECK(said(negative.header()).find("exceed 2^63") != std::string::npos);
}

TEST_CASE("a header that is cut anywhere is refused, never misread") {
  GgufFile file = testing::llama_gguf();
  file.tensor("a", 12, {256, 4}).tensor("b", 0, {4});
  const std::string header = file.header();
  for (size_t size = 4; size < header.size(); ++size) {
    CAPTURE(size);
    const auto result = read_header(header.substr(0, size));
    CHECK_FALSE(result->header.has_value());
  }
}

TEST_CASE("the bytes needed are those up to the header's end") {
  GgufFile file = testing::llama_gguf();
  file.tensor("a", 12, {256, 4});
  const std::string header = file.header();
  const auto size = static_cast<int64_t>(header.size());
  CHECK(gguf_bytes_needed(file.bytes()) == size);
  CHECK(gguf_bytes_needed(header.substr(0, header.size() - 1)) == INT64_MAX);
  CHECK(gguf_bytes_needed("GGUF") == INT64_MAX);
  file.version = 1;
  CHECK(gguf_bytes_needed(file.bytes()) == 0);
}

TEST_CASE("any bytes behind the magic are read or refused with a reason") {
  CHECK(holds([] {
    const auto tail = draw_any<std::string>();
    const auto result = read_header("GGUF" + tail);
    ENSURE(result->header.has_value() || result->diags.has_errors());
  }));
}

TEST_CASE("ggml's numbers mean its types") {
  struct Row {
    uint32_t number;
    DType dtype;
  };
  for (const Row& row :
       {Row{0, DType::F32}, Row{1, DType::F16}, Row{2, DType::Q4_0},
        Row{8, DType::Q8_0}, Row{12, DType::Q4_K}, Row{14, DType::Q6_K},
        Row{20, DType::IQ4_NL}, Row{23, DType::IQ4_XS}, Row{30, DType::BF16},
        Row{39, DType::MXFP4}}) {
    CAPTURE(row.number);
    CHECK(ggml_dtype(row.number) == row.dtype);
  }
}

TEST_CASE("no number is both read and refused, and no type has two") {
  std::set<DType> seen;
  for (uint32_t number = 0; number < 100; ++number) {
    CAPTURE(number);
    const auto dtype = ggml_dtype(number);
    CHECK_FALSE((dtype && refused_ggml_type(number)));
    if (dtype) CHECK(seen.insert(*dtype).second);
  }
  CHECK(seen.size() == 32);
}

TEST_CASE("removed and later types are refused by name") {
  CHECK(refused_ggml_type(31)->name == "Q4_0_4_4");
  CHECK(refused_ggml_type(4)->why == "which ggml has removed");
  CHECK(refused_ggml_type(40)->why == "which this version does not support");
  CHECK_FALSE(refused_ggml_type(0));
  CHECK_FALSE(refused_ggml_type(1000));
}

// The pairs of a file's header, and what was wrong with one of them.
struct ReadHeader {
  std::string bytes;
  GgufMetadata metadata;
  std::string problem;
  bool good = true;
};

std::unique_ptr<ReadHeader> read_gguf_metadata(
    const GgufFile& file, int pairs, size_t keep = std::string::npos) {
  auto result = std::make_unique<ReadHeader>();
  result->bytes = file.header().substr(24).substr(0, keep);
  GgufCursor cursor(result->bytes);
  for (int i = 0; i < pairs && result->problem.empty(); ++i) {
    result->problem = result->metadata.add(cursor);
  }
  result->good = cursor.good();
  return result;
}

TEST_CASE("metadata keeps numbers of every width, texts and arrays") {
  GgufFile file;
  file.pair("u8", 0, "\xfe")
      .pair("i8", 1, "\xfe")
      .pair("u16", 2, "\xfe\xff")
      .pair("i16", 3, "\xfe\xff")
      .u32("u32", 7)
      .pair("i32", 5, "\xff\xff\xff\xff")
      .pair("u64", 10, GgufFile::number(1ULL << 40U, 8))
      .pair("i64", 11, GgufFile::number(~0ULL, 8))
      .pair("large", 10, GgufFile::number(~0ULL, 8))
      .pair("float", 6, "\1\1\1\1")
      .pair("yes", 7, "\1")
      .text("name", "x")
      .u32s("list", {3, 0, 5})
      .texts("tokens", {"a", "bc"});
  const auto all = read_gguf_metadata(file, 14);
  REQUIRE(all->problem.empty());
  REQUIRE(all->good);
  const GgufMetadata& m = all->metadata;
  CHECK(m.integer("u8") == 254);
  CHECK(m.integer("i8") == -2);
  CHECK(m.integer("u16") == 65534);
  CHECK(m.integer("i16") == -2);
  CHECK(m.integer("u32") == 7);
  CHECK(m.integer("i32") == -1);
  CHECK(m.integer("u64") == int64_t{1} << 40);
  CHECK(m.integer("i64") == -1);
  CHECK_FALSE(m.integer("large"));
  CHECK_FALSE(m.integer("float"));
  CHECK_FALSE(m.integer("yes"));
  CHECK_FALSE(m.integer("absent"));
  CHECK(m.text("name") == "x");
  CHECK_FALSE(m.text("u8"));
  CHECK(m.integers("list") == std::vector<int64_t>{3, 0, 5});
  CHECK(m.integers("u32") == std::vector<int64_t>{7});
  CHECK_FALSE(m.integers("tokens"));
  CHECK(m.length("tokens") == 2);
  CHECK_FALSE(m.length("u32"));
}

TEST_CASE("arrays of arrays are passed over") {
  GgufFile file;
  const std::string inner =
      GgufFile::number(4, 4) + GgufFile::number(1, 8) + "abcd";
  file.pair("nested", 9,
            GgufFile::number(9, 4) + GgufFile::number(2, 8) + inner + inner)
      .u32("after", 9);
  const auto all = read_gguf_metadata(file, 2);
  CHECK(all->problem.empty());
  CHECK(all->metadata.integer("after") == 9);
}

TEST_CASE("what metadata cannot be is said") {
  GgufFile unknown;
  unknown.pair("k", 13, "");
  CHECK(read_gguf_metadata(unknown, 1)->problem ==
        "the metadata key `k` has a value of unknown type 13");
  GgufFile item;
  item.pair("k", 9, GgufFile::number(99, 4) + GgufFile::number(1, 8));
  CHECK(read_gguf_metadata(item, 1)->problem.find("type 99") !=
        std::string::npos);
  GgufFile twice;
  twice.u32("k", 1).u32("k", 1);
  CHECK(read_gguf_metadata(twice, 2)->problem ==
        "the metadata key `k` is given twice");
  GgufFile empty;
  empty.u32("", 1);
  CHECK(read_gguf_metadata(empty, 1)->problem == "a metadata key is empty");
  GgufFile deep;
  std::string value;
  for (int i = 0; i < 20; ++i) {
    value += GgufFile::number(9, 4) + GgufFile::number(1, 8);
  }
  deep.pair("k", 9, value);
  CHECK(read_gguf_metadata(deep, 1)->problem.find("nested too deeply") !=
        std::string::npos);
}

TEST_CASE("bytes that end anywhere are no more than not good") {
  GgufFile file;
  file.u32s("list", {1, 2, 3}).texts("texts", {"a", "b"}).text("t", "abc");
  const size_t size = file.header().size() - 24;
  for (size_t keep = 0; keep < size; ++keep) {
    const auto part = read_gguf_metadata(file, 3, keep);
    CHECK(part->problem.empty());
    CHECK_FALSE(part->good);
  }
  CHECK(read_gguf_metadata(file, 3, size)->good);
}

TEST_CASE("a count beyond the file is not believed") {
  GgufFile file;
  file.pair("k", 9, GgufFile::number(4, 4) + GgufFile::number(~0ULL, 8));
  CHECK_FALSE(read_gguf_metadata(file, 1)->good);
  GgufFile texts;
  texts.pair("k", 9, GgufFile::number(8, 4) + GgufFile::number(~0ULL, 8));
  CHECK_FALSE(read_gguf_metadata(texts, 1)->good);
}

}  // namespace

}  // namespace shardplan
