// SPDX-License-Identifier: Apache-2.0
// What reports say of an engine.
#include "cli/views/engine/tables.h"

#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/serve/models.h"

namespace shardplan::cli {
namespace {

Serving served_by(const char* engine, int64_t tp) {
  const auto made = testing::synthesize(testing::served_llama());
  ServingInput input;
  input.engine = find_engine(engine);
  input.mesh.tp = tp;
  input.device = {"--memory", int64_t{1} << 34, int64_t{1} << 34, false};
  input.seq = 1024;
  Diagnostics diags;
  auto answer = testing::served_once(made->good(), input, diags);
  REQUIRE(answer);
  return *answer;
}

const Table& table_of(const std::vector<Table>& tables, const std::string& id) {
  for (const Table& table : tables) {
    if (table.id == id) return table;
  }
  throw std::out_of_range(id);
}

std::vector<Row> rows_of_table(const Table& table) {
  std::vector<Row> rows;
  table.rows([&](std::span<const Cell> row) {
    rows.emplace_back(row.begin(), row.end());
  });
  return rows;
}

}  // namespace

TEST_CASE("engine: rows have as many cells as their table has columns") {
  for (const char* engine : {"vllm", "sglang"}) {
    const Serving serving = served_by(engine, 2);
    for (const Table& table : engine_tables(serving)) {
      CAPTURE(table.id);
      for (const Row& row : rows_of_table(table)) {
        CHECK(row.size() == table.columns.size());
      }
    }
  }
}

TEST_CASE("engine: parts of the share add up to it") {
  for (const char* engine : {"vllm", "sglang"}) {
    CAPTURE(engine);
    const Serving serving = served_by(engine, 2);
    const auto tables = engine_tables(serving);
    int64_t share = 0;
    int64_t parts = 0;
    int64_t weights = 0;
    int64_t total = 0;
    for (const Row& row : rows_of_table(table_of(tables, "engine_memory"))) {
      const auto& category = std::get<std::string>(row[0]);
      const auto& kind = std::get<std::string>(row[1]);
      const int64_t bytes = std::get<ByteSize>(row[3]).value;
      if (category == "share") {
        share = bytes;
      } else if (kind == "weights") {
        weights += bytes;
      } else if (kind == "share" || kind == "total" || kind == "cache") {
        parts += bytes;
        if (kind == "total") total = bytes;
      }
    }
    CHECK(parts == share);
    CHECK(weights == total);
  }
}

TEST_CASE("engine: people see degrees that are alike in one row") {
  const Serving serving = served_by("vllm", 2);
  const auto tables = engine_tables(serving);
  const auto shown = rows_of_table(table_of(tables, "engine_degrees_shown"));
  REQUIRE(!shown.empty());
  CHECK(std::get<std::string>(shown.front()[1]) == "runs at");
  CHECK(std::get<std::string>(shown.front()[2]) == "1 or 2");
  CHECK(shown.size() <
        rows_of_table(table_of(tables, "engine_degrees")).size());
}

TEST_CASE("engine: notes say settings, tokens and copies") {
  const Serving serving = served_by("vllm", 4);
  const auto notes = engine_notes(serving);
  REQUIRE(notes.size() >= 4);
  CHECK(notes[0].find("`--gpu-memory-utilization 0.92` by default") !=
        std::string::npos);
  CHECK(notes[1].find("sequences of 1,024 tokens at once") !=
        std::string::npos);
  CHECK(notes[2] == "vLLM: 2 KV heads: each is replicated on 2 ranks");
}

}  // namespace shardplan::cli
