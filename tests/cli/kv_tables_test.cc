// SPDX-License-Identifier: Apache-2.0
#include "cli/kv_tables.h"

#include <doctest/doctest.h>

#include "tests/support/builders.h"

namespace shardplan::cli {
namespace {

using testing::mesh;

std::vector<Row> rows_of_table(const Table& table) {
  std::vector<Row> rows;
  table.rows([&](std::span<const Cell> row) {
    rows.emplace_back(row.begin(), row.end());
  });
  return rows;
}

int64_t count_at(const Row& row, size_t column) {
  return std::get<Count>(row.at(column)).value;
}
int64_t bytes_at(const Row& row, size_t column) {
  return std::get<ByteSize>(row.at(column)).value;
}

constexpr KvLayer kFull{8, 4, 0, 0};
constexpr KvLayer kSliding{8, 4, 0, 16};

TEST_CASE("kinds of layers have a row each, and a sum") {
  const KvAxes axes{{"tp"}, {"dp"}, {}, "as told"};
  const Table table =
      kv_table(mesh("pp=3,dp=2,tp=16"), {kSliding, kFull, kSliding}, axes,
               {.batch = 5, .seq = 100});
  const std::vector<Row> rows = rows_of_table(table);
  REQUIRE(rows.size() == 2);
  CHECK(std::get<std::string>(rows[0][0]) == "window 16");
  CHECK(count_at(rows[0], 1) == 2);
  CHECK(count_at(rows[0], 2) == 8);
  CHECK(count_at(rows[0], 3) == 1);
  // Two of 16 ranks hold the same head, on each of three of `pp`.
  CHECK(count_at(rows[0], 4) == 6);
  CHECK(count_at(rows[0], 5) == 3);
  CHECK(count_at(rows[0], 6) == 16);
  CHECK(bytes_at(rows[0], 7) == 2 * 4 * 2);
  CHECK(bytes_at(rows[0], 8) == 2 * 3 * 16 * 4 * 2);
  CHECK(std::get<std::string>(rows[1][0]) == "all tokens");
  CHECK(bytes_at(rows[1], 8) == 3 * 100 * 4 * 2);
  REQUIRE(table.footer);
  CHECK(bytes_at(*table.footer, 8) == 768 + 2400);
}

TEST_CASE("prefill shows what one layer holds before its window cuts") {
  const Table table = kv_table(mesh("tp=1"), {kSliding, kSliding}, {},
                               {.seq = 100, .prefill = true});
  const std::vector<Row> rows = rows_of_table(table);
  REQUIRE(rows.size() == 2);
  CHECK(bytes_at(rows[1], 8) == (100 - 16) * 8 * 4 * 2);
  CHECK(bytes_at(*table.footer, 8) == (100 + 16) * 8 * 4 * 2);
}

TEST_CASE("a latent has no heads, and copies on every rank") {
  const KvLayer latent{0, 0, 576, 0};
  const Table table = kv_table(mesh("dp=2,tp=8"), {latent},
                               {{}, {"dp"}, {}, "a latent"}, {.batch = 2});
  const std::vector<Row> rows = rows_of_table(table);
  REQUIRE(rows.size() == 1);
  CHECK(std::holds_alternative<std::monostate>(rows[0][2]));
  CHECK(count_at(rows[0], 4) == 8);
  CHECK(bytes_at(rows[0], 8) == 1152);
  CHECK_FALSE(table.footer);
}

TEST_CASE("notes say over what the cache is cut, and why") {
  const Mesh m = mesh("dp=2,tp=4");
  const KvAxes cut{{"tp"}, {"dp"}, {}, "as told"};
  CHECK(kv_notes(m, {kFull}, cut, {.block = 16}) ==
        std::vector<std::string>{
            "KV cache in bf16, pages of 16 tokens: heads over tp=4 (as told), "
            "batch over dp=2, context whole"});
  const auto whole = kv_notes(m, {kFull}, {{}, {}, {"dp"}, "as told"}, {});
  REQUIRE(whole.size() == 2);
  CHECK(whole[0].ends_with("batch whole, context over dp=2"));
  CHECK(whole[1].find("--kv-axes") != std::string::npos);
  const auto latent = kv_notes(m, {{0, 0, 8, 0}}, {}, {});
  REQUIRE(latent.size() == 2);
  CHECK(latent[1].find("expanded") != std::string::npos);
}

}  // namespace
}  // namespace shardplan::cli
