// SPDX-License-Identifier: Apache-2.0
#include "io/gguf_header.h"

#include <memory>
#include <string>

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "tests/support/gguf.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

using testing::GgufFile;

struct Result {
  Diagnostics diags;
  std::optional<GgufHeader> header;
  std::string text;  // of the tensors, or what was reported
};

std::unique_ptr<Result> read(const std::string& bytes) {
  auto result = std::make_unique<Result>();
  const auto file = std::make_shared<SourceFile>("m.gguf", bytes);
  result->header =
      read_gguf_header(file, static_cast<int64_t>(bytes.size()), result->diags);
  result->text = testing::messages(result->diags);
  if (!result->header) {
    CHECK(result->diags.has_errors());
    return result;
  }
  const Manifest& manifest = result->header->manifest;
  for (size_t i = 0; i < manifest.size(); ++i) {
    result->text += std::string(manifest.name(i)) + " " +
                    type_text(manifest.type(i)) + "\n";
  }
  return result;
}

std::string said(const std::string& bytes) { return read(bytes)->text; }

TEST_CASE("sizes are read the other way round, types by their numbers") {
  GgufFile file = testing::llama_gguf();
  file.tensor("token_embd.weight", 12, {256, 1000})
      .tensor("blk.0.attn_norm.weight", 0, {256})
      .tensor("scalar", 1, {})
      .tensor("blk.0.ffn_gate_exps.weight", 8, {256, 64, 4});
  const auto result = read(file.bytes());
  CHECK(result->text ==
        "token_embd.weight q4_k[1000, 256]\n"
        "blk.0.attn_norm.weight f32[256]\n"
        "scalar f16[]\n"
        "blk.0.ffn_gate_exps.weight q8_0[4, 64, 256]\n");
  CHECK_FALSE(result->header->data_absent);
  CHECK(result->header->manifest.model_name == "Tiny");
  CHECK(result->header->manifest.facts.kv_heads == 2);
  CHECK(result->header->manifest.total_bytes() ==
        144000 + 256 * 4 + 2 + 4 * 64 * 8 * 34);
  CHECK(read(file.header())->header->data_absent);
}

TEST_CASE("places are lines of a listing of the tensors") {
  GgufFile file;
  file.tensor("a", 0, {2}).tensor("b", 12, {256, 2});
  const auto result = read(file.bytes());
  const Span where = result->header->manifest.where(1);
  CHECK(testing::place_text(where) == "m.gguf:2:1");
  CHECK(where.text() == "b");
  CHECK(where.file->line(2) == "b q4_k[2, 256]");
}

TEST_CASE("rotation factors and router corrections are buffers") {
  GgufFile file;
  file.tensor("rope_freqs.weight", 0, {64})
      .tensor("blk.3.exp_probs_b.bias", 0, {16})
      .tensor("blk.3.attn_q.bias", 0, {16});
  const auto result = read(file.bytes());
  CHECK(result->text == "blk.3.attn_q.bias f32[16]\n");
  CHECK(result->header->manifest.buffers().size() == 2);
}

TEST_CASE("other versions and byte orders are refused by name") {
  GgufFile file;
  file.version = 2;
  file.tensor("a", 0, {2});
  CHECK(said(file.bytes()) == "a f32[2]\n");
  file.version = 1;
  CHECK(said(file.bytes()) ==
        "SP006 m.gguf:1:1 GGUF version 1 is not read; versions 2 and 3 are");
  file.version = 4;
  CHECK(said(file.bytes()).find("version 4 is not read") != std::string::npos);
  file.version = 3U << 24U;
  const auto big = read(file.bytes());
  CHECK(big->text ==
        "SP006 m.gguf:1:1 this GGUF file is big-endian, which is not read");
  CHECK(big->diags.all()[0].help.size() == 1);
}

TEST_CASE("types that ggml removed, later ones and unknown ones are SP005") {
  for (const auto& row :
       {std::pair(31U, "type 31, Q4_0_4_4, which ggml has removed"),
        std::pair(5U, "type 5, Q4_3, which ggml has removed"),
        std::pair(40U, "type 40, NVFP4, which this version does not read"),
        std::pair(777U, "type 777, which ggml does not have")}) {
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
        "SP002 m.gguf:1:1 `a` is q4_k[4, 128], but a row of q4_k has a "
        "multiple of 256 elements\n"
        "SP002 m.gguf:3:1 `c` is q4_0[], but a row of q4_0 has a multiple of "
        "32 elements");
}

TEST_CASE("names are unique and UTF-8") {
  GgufFile file;
  file.tensor("a", 0, {2}).tensor("b", 0, {2}).tensor("a", 0, {3});
  CHECK(said(file.bytes()) == "SP003 m.gguf:3:1 `a` is given twice");
  GgufFile bad;
  bad.tensor("\xff\n", 0, {2});
  CHECK(said(bad.bytes()) ==
        "SP002 m.gguf:1:1 the name `\\xff\\n` is not UTF-8");
}

TEST_CASE("places of tensors are aligned, apart and without large gaps") {
  GgufFile file;
  file.tensor("a", 0, {16}).tensor("b", 0, {4}, 32).tensor("c", 0, {4}, 80);
  CHECK(said(file.bytes()) ==
        "SP002 m.gguf:3:1 `c` begins at byte 80 of the data, which is no "
        "multiple of 32\n"
        "SP002 m.gguf:2:1 the data of `b` overlaps that of `a`");
  GgufFile gap;
  gap.tensor("b", 0, {4}, 128).tensor("a", 0, {16}, 0);
  CHECK(said(gap.bytes()) ==
        "SP002 warning m.gguf:1:1 64 bytes between tensors belong to none"
        "b f32[4]\na f32[16]\n");
  GgufFile far;
  far.tensor("a", 0, {4}, 1ULL << 63U);
  CHECK(said(far.header()) == "SP002 m.gguf:1:1 `a` ends behind byte 2^62");
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
            .find("the header tells of 1152921504606846976 "
                  "tensors, but the file has ") != std::string::npos);
  file.tensor_count = 1;
  file.pair_count = ~0ULL;
  CHECK(said(file.header()).find("pairs of metadata") != std::string::npos);
  GgufFile dims;
  dims.tensor("a", 0, {1, 1, 1, 1, 1});
  CHECK(said(dims.bytes()) ==
        "SP002 m.gguf:1:1 tensor `a` has 5 dimensions; GGUF has at most 4");
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
    const auto result = read(header.substr(0, size));
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
  rc::check([](const std::string& tail) {
    const auto result = read("GGUF" + tail);
    RC_ASSERT(result->header.has_value() || result->diags.has_errors());
  });
}

}  // namespace
}  // namespace shardplan
