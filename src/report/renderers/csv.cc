// SPDX-License-Identifier: Apache-2.0
// Tables for spreadsheets and scripts, quoted as RFC 4180 says, lines ending in
// LF as everywhere else. Numbers are exact; lists, specs and objects are in
// JSON notation; an absent value is an empty field, an empty text is `""`.
//
// Several tables are separated by an empty line, each with its header, the
// placements first. A report without tables gives its summary instead. Names
// are not altered, even those that a spreadsheet would take for a formula.
#include <algorithm>

#include "base/check.h"
#include "report/json.h"
#include "report/output.h"
#include "report/renderers/renderers.h"

namespace shardplan {
namespace {

void append_field(std::string& out, std::string_view field) {
  constexpr std::string_view kSpecial = "\",\r\n";
  const bool blank_end =
      field.empty() || field.front() == ' ' || field.back() == ' ';
  if (!blank_end && field.find_first_of(kSpecial) == std::string_view::npos) {
    out += field;
    return;
  }
  out += '"';
  for (const char c : field) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
}

void append_cell(std::string& out, const Cell& cell, std::string& scratch) {
  if (const auto* text = std::get_if<std::string>(&cell)) {
    append_field(out, *text);
    return;
  }
  scratch.clear();
  append_json(scratch, cell);
  if (scratch != "null") append_field(out, scratch);
}

void append_row(std::string& out, std::span<const Cell> row,
                std::string& scratch) {
  for (size_t i = 0; i < row.size(); ++i) {
    if (i > 0) out += ',';
    append_cell(out, row[i], scratch);
  }
  // An empty line would end the table.
  const bool nothing = row.size() == 1 && (out.empty() || out.back() == '\n');
  if (nothing) out += "\"\"";
  out += '\n';
}

void write_table(const Table& table, Output& out) {
  std::string& text = out.buffer();
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (i > 0) text += ',';
    append_field(text, table.columns[i].id);
  }
  text += '\n';
  std::string scratch;
  table.rows([&](std::span<const Cell> row) {
    SHARDPLAN_CHECK(row.size() == table.columns.size());
    if (out.refused()) return;
    append_row(text, row, scratch);
    out.drain();
  });
}

void write_summary(const Report& report, Output& out) {
  out.buffer() += "key,value\n";
  std::string scratch;
  for (const auto& [key, cell] : report.summary) {
    append_row(out.buffer(), std::vector<Cell>{key, cell}, scratch);
  }
}

}  // namespace

void render_csv(const Report& report, const Style&, const TextSink& sink) {
  std::vector<const Table*> tables;
  for (const Table& table : report.tables) {
    if (table.audience != Audience::People) tables.push_back(&table);
  }
  std::stable_partition(tables.begin(), tables.end(), [](const Table* table) {
    return table->id == "placements";
  });
  Output out(sink);
  for (size_t i = 0; i < tables.size(); ++i) {
    if (i > 0) out.buffer() += '\n';
    write_table(*tables[i], out);
  }
  if (tables.empty() && !report.summary.empty()) write_summary(report, out);
  out.finish();
}

}  // namespace shardplan
