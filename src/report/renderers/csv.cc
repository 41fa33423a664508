// SPDX-License-Identifier: Apache-2.0
// Tables for spreadsheets and scripts, quoted according to RFC 4180, with LF
// line ends as in all formats. Numbers are exact; lists, specs and objects are
// in JSON notation; an absent value is an empty field, an empty text is `""`.
//
// Several tables are separated by an empty line, each with its header, the
// placements first. A report without tables writes its summary instead.
//
// A text that a spreadsheet would read as a formula gets an apostrophe in
// front. Characters that are not printable are escaped, except tabs. Line ends
// are escaped too, since the text after one would begin a line of a CI job's
// log, whose runner executes `::name::`. All of these may occur in names from
// files that somebody else wrote.
#include <algorithm>
#include <charconv>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "report/json.h"
#include "report/output.h"
#include "report/renderers/renderers.h"
#include "report/runner_commands.h"

namespace shardplan {
namespace {

bool is_special(char c) {
  return c == '"' || c == ',' || c == '\r' || c == '\n';
}

void append_field(std::string& out, std::string_view field) {
  // The runner of a CI job may execute a line that begins with `::`, but not
  // one that begins with a quote.
  const bool needs_quotes =
      field.empty() || field.front() == ' ' || field.back() == ' ' ||
      (contains(field, ':') && without_commands(field) != field);
  if (!needs_quotes && std::ranges::none_of(field, is_special)) {
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

bool is_number(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data(), end, number);
  return problem == std::errc() && rest == end;
}

// Returns whether a spreadsheet would compute the text.
bool is_formula(std::string_view text) {
  return !text.empty() && contains("=+-@\t\r\n", text.front()) &&
         !is_number(text);
}

std::string disarmed(std::string_view text) {
  std::string out = is_formula(text) ? "'" : "";
  while (!text.empty()) {
    const size_t end = std::min(text.find('\t'), text.size());
    out += printable(text.substr(0, end));
    if (end < text.size()) out += text[end];
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

void append_cell(std::string& out, const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) {
    append_field(out, disarmed(*text));
    return;
  }
  if (const auto* prose = std::get_if<Prose>(&cell)) {
    append_field(out, disarmed(printable(prose->text)));
    return;
  }
  std::string json;
  append_json(json, cell);
  if (json != "null") append_field(out, json);
}

void append_row(std::string& out, std::span<const Cell> row) {
  for (size_t i = 0; i < row.size(); ++i) {
    if (i > 0) out += ',';
    append_cell(out, row[i]);
  }
  // An empty line would end the table.
  const bool nothing = row.size() == 1 && (out.empty() || out.back() == '\n');
  if (nothing) out += "\"\"";
  out += '\n';
}

void write_csv_table(const Table& table, Output& out) {
  std::string& text = out.buffer();
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (i > 0) text += ',';
    append_field(text, table.columns[i].id);
  }
  text += '\n';
  table.rows([&](std::span<const Cell> row) {
    SHARDPLAN_CHECK(row.size() == table.columns.size());
    if (out.refused()) return;
    append_row(text, row);
    out.drain();
  });
}

void write_csv_summary(const Report& report, Output& out) {
  out.buffer() += "key,value\n";
  for (const auto& [key, cell] : report.summary) {
    append_row(out.buffer(), Row{key, cell});
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
    write_csv_table(*tables[i], out);
  }
  if (tables.empty() && !report.summary.empty()) write_csv_summary(report, out);
  out.finish();
}

}  // namespace shardplan
