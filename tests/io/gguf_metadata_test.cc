// SPDX-License-Identifier: Apache-2.0
#include "io/gguf_metadata.h"

#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/gguf.h"

namespace shardplan {
namespace {

using testing::GgufFile;

// The pairs of a file's header, and what was wrong with one of them.
struct Read {
  std::string bytes;
  GgufMetadata metadata;
  std::string problem;
  bool good = true;
};

std::unique_ptr<Read> read(const GgufFile& file, int pairs,
                           size_t keep = std::string::npos) {
  auto result = std::make_unique<Read>();
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
  const auto all = read(file, 14);
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
  const auto all = read(file, 2);
  CHECK(all->problem.empty());
  CHECK(all->metadata.integer("after") == 9);
}

TEST_CASE("what metadata cannot be is said") {
  GgufFile unknown;
  unknown.pair("k", 13, "");
  CHECK(read(unknown, 1)->problem ==
        "the metadata key `k` has a value of type 13, which metadata does not "
        "have");
  GgufFile item;
  item.pair("k", 9, GgufFile::number(99, 4) + GgufFile::number(1, 8));
  CHECK(read(item, 1)->problem.find("type 99") != std::string::npos);
  GgufFile twice;
  twice.u32("k", 1).u32("k", 1);
  CHECK(read(twice, 2)->problem == "the metadata key `k` is given twice");
  GgufFile empty;
  empty.u32("", 1);
  CHECK(read(empty, 1)->problem == "a metadata key is empty");
  GgufFile deep;
  std::string value;
  for (int i = 0; i < 20; ++i) {
    value += GgufFile::number(9, 4) + GgufFile::number(1, 8);
  }
  deep.pair("k", 9, value);
  CHECK(read(deep, 1)->problem.find("nested too deeply") != std::string::npos);
}

TEST_CASE("bytes that end anywhere are no more than not good") {
  GgufFile file;
  file.u32s("list", {1, 2, 3}).texts("texts", {"a", "b"}).text("t", "abc");
  const size_t size = file.header().size() - 24;
  for (size_t keep = 0; keep < size; ++keep) {
    const auto part = read(file, 3, keep);
    CHECK(part->problem.empty());
    CHECK_FALSE(part->good);
  }
  CHECK(read(file, 3, size)->good);
}

TEST_CASE("a count beyond the file is not believed") {
  GgufFile file;
  file.pair("k", 9, GgufFile::number(4, 4) + GgufFile::number(~0ULL, 8));
  CHECK_FALSE(read(file, 1)->good);
  GgufFile texts;
  texts.pair("k", 9, GgufFile::number(8, 4) + GgufFile::number(~0ULL, 8));
  CHECK_FALSE(read(texts, 1)->good);
}

}  // namespace
}  // namespace shardplan
