// SPDX-License-Identifier: Apache-2.0
#include "report/html/page_data.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "report/json.h"
#include "report/table_text.h"

namespace shardplan {
namespace {

const Table* table_of(const Report& report, std::string_view id) {
  const auto found = std::ranges::find(report.tables, id, &Table::id);
  return found == report.tables.end() ? nullptr : &*found;
}

// Returns the position of a column; empty if there is none.
std::optional<size_t> column_of(const Table& table, std::string_view id) {
  const auto found = std::ranges::find(table.columns, id, &Column::id);
  if (found == table.columns.end()) return std::nullopt;
  return to_size(found - table.columns.begin());
}

std::string text_of(const Row& row, std::optional<size_t> column,
                    const Style& style) {
  return column ? cell_text(row[*column], style) : "";
}

// Calls `write` for each item, with commas between.
template <typename Items, typename Write>
void append_items(std::string& out, const Items& items, const Write& write) {
  bool is_first = true;
  for (const auto& item : items) {
    if (!is_first) out += ',';
    is_first = false;
    write(item);
  }
}

// Returns a number to sort a cell by; null for texts.
Cell sort_key(const Cell& cell) {
  if (const auto* bytes = std::get_if<ByteSize>(&cell)) {
    return Count{bytes->value};
  }
  const auto* count = std::get_if<Count>(&cell);
  return count == nullptr ? Cell() : Cell(*count);
}

void append_rests(std::string& out, const Table& table,
                  const std::vector<Row>& rests, const Style& style) {
  append_items(out, rests, [&](const Row& row) {
    const std::span<const Cell> cells = std::span(row).subspan(1);
    out += "{\"cells\":[";
    append_items(out, cells, [&](const Cell& cell) {
      append_printable_json(out, cell_text(cell, style));
    });
    out += "],\"numbers\":[";
    append_items(out, cells,
                 [&](const Cell& cell) { append_json(out, sort_key(cell)); });
    out += ']';
    for (const char* id : {"spec", "shape", "view", "dealt"}) {
      const std::optional<size_t> column = column_of(table, id);
      out += ",\"" + std::string(id) + "\":";
      append_json(out, column ? row[*column] : Cell());
    }
    out += '}';
  });
}

// The names, and the rest of each.
struct Named {
  std::vector<std::string> names;
  std::vector<size_t> rests;
  std::unordered_map<std::string_view, size_t> index = {};  // of a name
};

Named named_rows(const Table& table) {
  Named named;
  table.named->each([&](std::string_view name, size_t rest) {
    named.names.emplace_back(name);
    named.rests.push_back(rest);
  });
  named.index.reserve(named.names.size());
  for (size_t i = 0; i < named.names.size(); ++i) {
    named.index.emplace(named.names[i], i);
  }
  return named;
}

void append_rules(std::string& out, const Report& report, const Style& style) {
  const Table* rules = table_of(report, "rules");
  if (rules == nullptr) return;
  bool is_first = true;
  rules->rows([&](std::span<const Cell> cells) {
    const Row row(cells.begin(), cells.end());
    if (!is_first) out += ',';
    is_first = false;
    const std::string file = text_of(row, column_of(*rules, "file"), style);
    const std::string line = text_of(row, column_of(*rules, "line"), style);
    out += "{\"pattern\":";
    append_printable_json(out,
                          text_of(row, column_of(*rules, "pattern"), style));
    out += ",\"place\":";
    append_printable_json(out, file.empty() ? "" : file + ":" + line);
    out += '}';
  });
}

void append_corrections(std::string& out, const Report& report,
                        const Named& named, const Style& style) {
  const Table* corrections = table_of(report, "corrections");
  if (corrections == nullptr) return;
  std::map<size_t, std::vector<std::string>> by_rest;
  std::map<size_t, size_t> first;  // the name that has a rest's corrections
  corrections->rows([&](std::span<const Cell> cells) {
    const Row row(cells.begin(), cells.end());
    const auto* name = std::get_if<std::string>(&row.front());
    if (name == nullptr) return;
    const auto at = named.index.find(*name);
    if (at == named.index.end()) return;
    const size_t rest = named.rests[at->second];
    if (first.emplace(rest, at->second).first->second != at->second) return;
    by_rest[rest].push_back(
        "dimension " + text_of(row, column_of(*corrections, "dim"), style) +
        ": " + text_of(row, column_of(*corrections, "reason"), style) + " (" +
        text_of(row, column_of(*corrections, "code"), style) + ")");
  });
  append_items(out, by_rest, [&](const auto& entry) {
    out += '"' + std::to_string(entry.first) + "\":[";
    append_items(out, entry.second, [&](const std::string& text) {
      append_printable_json(out, text);
    });
    out += ']';
  });
}

// Appends indices as pairs of a first one and a count.
void append_ranges(std::string& out, const std::set<size_t>& indices) {
  std::vector<std::pair<size_t, size_t>> ranges;
  for (const size_t index : indices) {
    if (!ranges.empty() &&
        ranges.back().first + ranges.back().second == index) {
      ++ranges.back().second;
    } else {
      ranges.emplace_back(index, 1);
    }
  }
  append_items(out, ranges, [&](const auto& range) {
    out += std::to_string(range.first) + "," + std::to_string(range.second);
  });
}

void append_findings(std::string& out, const Report& report,
                     const Named& named) {
  if (report.diagnostics == nullptr) return;
  append_items(
      out, report.diagnostics->all(), [&](const Diagnostic& diagnostic) {
        out += "{\"title\":";
        append_prose_json(out, std::string(severity_name(diagnostic.severity)) +
                                   " " + code_id(diagnostic.code) + ": " +
                                   diagnostic.message);
        out += ",\"help\":[";
        append_items(out, diagnostic.help, [&](const std::string& help) {
          append_prose_json(out, help);
        });
        std::set<size_t> indices;
        for (const std::string& name : diagnostic.parameters) {
          const auto at = named.index.find(name);
          if (at != named.index.end()) indices.insert(at->second);
        }
        out += "],\"names\":[";
        append_ranges(out, indices);
        out += "]}";
      });
}

}  // namespace

const Table* named_table(const Report& report) {
  for (const Table& table : report.tables) {
    if (table.named) return &table;
  }
  return nullptr;
}

Table alike_table(const Report& report) {
  const Table& table = *named_table(report);
  std::vector<size_t> shown;
  for (const char* id :
       {"dtype", "shape", "spec", "bytes_per_device", "replicas"}) {
    if (const auto column = column_of(table, id)) shown.push_back(*column);
  }
  const std::vector<Row> rests = table.named->rests();
  std::vector<std::string> first(rests.size());
  std::vector<int64_t> count(rests.size());
  std::vector<size_t> order;
  table.named->each([&](std::string_view name, size_t rest) {
    if (count[rest]++ > 0) return;
    first[rest] = name;
    order.push_back(rest);
  });
  std::vector<Row> rows;
  for (const size_t rest : order) {
    Row& row = rows.emplace_back(Row{first[rest], Count{count[rest]}});
    for (const size_t column : shown) row.push_back(rests[rest][column]);
  }
  Table alike;
  alike.id = "alike";
  alike.title = "The first of the parameters that are sharded alike";
  alike.columns = {elastic("parameter"), right("count", "how many")};
  for (const size_t column : shown) {
    const Column& of = table.columns[column];
    const bool is_number = of.id == "bytes_per_device" || of.id == "replicas";
    alike.columns.push_back(is_number ? right(of.id) : left(of.id));
  }
  alike.rows = rows_of(std::move(rows));
  return alike;
}

std::string page_data(const Report& report, const Style& style) {
  const Table& table = *named_table(report);
  const Named named = named_rows(table);
  std::string out = "{\"title\":";
  append_printable_json(out, table.columns.front().title);
  out += ",\"columns\":[";
  append_items(
      out, std::span(table.columns).subspan(1),
      [&](const Column& column) { append_printable_json(out, column.title); });
  out += "],\"rests\":[";
  append_rests(out, table, table.named->rests(), style);
  out += "],\"names\":\"";
  for (const std::string& name : named.names) {
    // One string for all: parsing a list of a million takes longer.
    std::string quoted;
    append_printable_json(quoted, printable(name));
    out += std::string_view(quoted).substr(1, quoted.size() - 2);
    out += "\\n";
  }
  out += "\",\"rest\":[";
  append_items(out, named.rests,
               [&](size_t rest) { out += std::to_string(rest); });
  out += "],\"rules\":[";
  append_rules(out, report, style);
  out += "],\"corrections\":{";
  append_corrections(out, report, named, style);
  out += "},\"findings\":[";
  append_findings(out, report, named);
  out += "],\"mesh\":[";
  for (const auto& [key, cell] : report.summary) {
    const auto* mesh = std::get_if<MeshCell>(&cell);
    if (key != "mesh" || mesh == nullptr) continue;
    append_items(out, mesh->mesh.axes(), [&](const Axis& axis) {
      out += '[';
      append_printable_json(out, axis.name.text());
      out += ',' + std::to_string(axis.size) + ']';
    });
  }
  return out + "]}";
}

}  // namespace shardplan
