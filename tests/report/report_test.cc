// SPDX-License-Identifier: Apache-2.0
#include "report/report.h"

#include <cmath>
#include <cstdlib>
#include <set>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "report/table_text.h"
#include "tests/support/property.h"
#include "tests/support/reports.h"

namespace shardplan {

TEST_CASE("a place counts lines and code points from one") {
  const SourceFile file("f", "ab\né层x\r\nlast");
  struct Case {
    Span where;
    int64_t line, column, end_column;
  };
  const std::vector<Case> cases = {
      {{&file, 0, 2}, 1, 1, 3},
      {{&file, 1, 1}, 1, 2, 2},
      {{&file, 3, 8}, 2, 1, 3},
      {{&file, 5, 9}, 2, 2, 4},
      {{&file, 11, 15}, 3, 1, 5},
      {{&file, 1, 15}, 1, 2, 3},    // several lines: to the end of the first
      {{&file, 5, 15}, 2, 2, 4},    // not counting its carriage return
      {{&file, 15, 15}, 3, 5, 5},   // behind the last character
      {{&file, 99, 120}, 3, 5, 5},  // past the end
  };
  for (const Case& test : cases) {
    CAPTURE(test.where.begin);
    CAPTURE(test.where.end);
    const Place place = place_of(test.where);
    CHECK(place.line == test.line);
    CHECK(place.column == test.column);
    CHECK(place.end_column == test.end_column);
  }
}

TEST_CASE("the main label is the first that has a place") {
  const SourceFile file("f", "text");
  Diagnostic diagnostic;
  CHECK(main_label(diagnostic) == nullptr);
  diagnostic.labels = {{{}, "nowhere"}};
  CHECK(main_label(diagnostic) == nullptr);
  diagnostic.labels.push_back({{&file, 0, 4}, "here"});
  REQUIRE(main_label(diagnostic) != nullptr);
  CHECK(main_label(diagnostic)->text == "here");
}

TEST_CASE("a flag is told from a file by its name") {
  CHECK(is_flag(SourceFile("--mesh", "")));
  CHECK_FALSE(is_flag(SourceFile("mesh.yaml", "")));
  CHECK_FALSE(is_flag(SourceFile("-", "")));
}

namespace {

using Json = nlohmann::ordered_json;

// Valid UTF-8 that tries to break out of every format.
std::string any_name() {
  const auto pieces = draw_list([] {
    return draw_of<std::string>(
        {"a", "layers.0",     "/",  "*",        "_", "|",   "\\", "`", "\"",
         ",", "\n",           "\r", "\x1b[31m", " ", "<b>", "层", "×", "=1",
         "'", "\xE2\x80\xAE", "::"});
  });
  std::string name;
  for (const std::string& piece : pieces) name += piece;
  return name;
}

AxisNames any_axes() {
  const auto names = draw_list([] {
    return draw_of<AxisName>({"dp", "fsdp", "tp"});
  });
  return {names.begin(), names.end()};
}

PartitionSpec any_spec() {
  return PartitionSpec{draw_list([] { return any_axes(); })};
}

// One cell of each kind that has a value of its own; column i is always kind i.
constexpr size_t kKinds = 20;

Row any_row() {
  const auto whole = [] { return draw_any<int64_t>(); };
  const auto real = [] { return draw_any<double>(); };
  return {any_name(),
          Count{whole()},
          ByteSize{whole()},
          MeanBytes{real()},
          Ratio{real()},
          Percent{real()},
          Duration{real()},
          YesNo{draw_bool()},
          Bar{real()},
          Names{draw_list([] { return any_name(); })},
          Numbers{draw_any<std::vector<int64_t>>()},
          Dims{draw_any<std::vector<int64_t>>()},
          any_spec(),
          ViewsCell{{{any_name(), {{"ep", draw_in<int64_t>(1, 9)}}},
                     {any_name() + "2", {{"cp", 2}, {"tp", 4}}}}},
          WholePlacementCell{any_name(), whole()},
          MemoryRange{whole(), whole(), real()},
          ByteBracket{whole(), whole(), whole()},
          DurationBracket{real(), real(), real()},
          Prose{any_name()},
          std::monostate{}};
}

Report any_report(std::vector<Row>& rows) {
  for (int i = draw_in(0, 5); i > 0; --i) rows.push_back(any_row());
  Table table;
  table.id = "placements";
  for (size_t i = 0; i < kKinds; ++i) {
    const std::string name = "c" + std::to_string(i);
    table.columns.push_back({name, name, Align::Left, i % 2 == 0});
  }
  table.rows = rows_of(rows);
  Report report;
  report.command = "resolve";
  report.tables.push_back(std::move(table));
  return report;
}

// What JSON must hold for a cell, made the plain way.
struct Expected {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(const std::string& text) const { return text; }
  Json operator()(Count cell) const { return cell.value; }
  Json operator()(ByteSize cell) const { return cell.value; }
  Json operator()(MeanBytes cell) const { return cell.value; }
  Json operator()(Ratio cell) const { return cell.value; }
  Json operator()(Percent cell) const { return cell.value; }
  Json operator()(Duration cell) const { return cell.value; }
  Json operator()(YesNo cell) const { return cell.value; }
  Json operator()(Bar cell) const { return cell.fraction; }
  Json operator()(const Names& cell) const { return cell.values; }
  Json operator()(const Numbers& cell) const { return cell.values; }
  Json operator()(const Dims& cell) const { return cell.shape; }
  Json operator()(const PartitionSpec& spec) const {
    Json dims = Json::array();
    for (const AxisNames& axes : spec.dims) {
      if (axes.empty()) {
        dims.push_back(nullptr);
      } else if (axes.size() == 1) {
        dims.push_back(axes[0]);
      } else {
        dims.push_back(axes);
      }
    }
    return dims;
  }
  static Json sizes_of(const std::vector<Axis>& axes) {
    Json sizes = Json::object();
    for (const Axis& axis : axes) sizes[axis.name] = axis.size;
    return sizes;
  }
  Json operator()(const MeshCell& cell) const {
    return sizes_of(cell.mesh.axes());
  }
  Json operator()(const ViewsCell& cell) const {
    Json views = Json::object();
    for (const MeshView& view : cell.views) {
      views[view.name] = sizes_of(view.axes);
    }
    return views;
  }
  Json operator()(const WholePlacementCell& cell) const {
    return {{"axis", cell.axis}, {"rank", cell.rank}};
  }
  Json operator()(const Prose& prose) const { return printable(prose.text); }
  Json operator()(const ByteBracket& bracket) const {
    return {{"lower", bracket.lower},
            {"estimate", bracket.estimate},
            {"upper", bracket.upper}};
  }
  Json operator()(const DurationBracket& bracket) const {
    return {{"lower", bracket.lower},
            {"estimate", bracket.estimate},
            {"upper", bracket.upper}};
  }
  Json operator()(const MemoryRange& range) const {
    return {{"max", range.max}, {"min", range.min}, {"mean", range.mean}};
  }
};

// Pieces that end with one of `ends`, but for the last.
std::vector<std::string> split_behind(const std::string& text,
                                      std::string_view ends) {
  std::vector<std::string> pieces;
  bool begins = true;
  for (const char c : text) {
    if (begins) pieces.emplace_back();
    pieces.back() += c;
    begins = ends.find(c) != std::string_view::npos;
  }
  return pieces;
}

// What CSV has of a text: nothing that a spreadsheet computes, and no control
// characters but tabs.
std::string spreadsheet_text(const std::string& text) {
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  const bool number =
      !text.empty() && text[0] == '-' && end == text.c_str() + text.size();
  const bool computed =
      !text.empty() &&
      std::string_view("=+-@\t\r\n").find(text[0]) != std::string_view::npos;
  std::string out = computed && !number ? "'" : "";
  for (const std::string& piece : split_behind(text, "\t")) {
    const bool kept = piece.back() == '\t';
    const size_t shown = piece.size() - (kept ? 1 : 0);
    out += printable(std::string_view(piece).substr(0, shown));
    if (kept) out += piece.back();
  }
  return out;
}

// Fields of RFC 4180 text, with LF between rows.
std::vector<std::vector<std::string>> csv_fields(std::string_view text) {
  std::vector<std::vector<std::string>> rows;
  for (size_t at = 0; at < text.size();) {
    std::vector<std::string> row(1);
    bool quoted = false;
    for (; at < text.size() && (quoted || text[at] != '\n'); ++at) {
      const bool doubled = quoted && text.substr(at).substr(0, 2) == "\"\"";
      if (doubled) {
        row.back() += text[at++];
      } else if (text[at] == '"') {
        quoted = !quoted;
      } else if (text[at] == ',' && !quoted) {
        row.emplace_back();
      } else {
        row.back() += text[at];
      }
    }
    ++at;
    rows.push_back(std::move(row));
  }
  return rows;
}

// Cells of a line of a Markdown table, as GitHub cuts it.
size_t markdown_cells(std::string_view line) {
  size_t pipes = 0;
  for (size_t at = 0; at < line.size(); ++at) {
    if (line[at] == '\\') {
      ++at;
    } else if (line[at] == '|') {
      ++pipes;
    }
  }
  return pipes - 1;
}

}  // namespace

TEST_CASE("every format has a name of its own and is found by it") {
  std::set<std::string_view> names;
  for (const Renderer& renderer : renderers()) {
    CAPTURE(renderer.name);
    CHECK(names.insert(renderer.name).second);
    CHECK(find_renderer(renderer.name) == &renderer);
    CHECK_FALSE(renderer.summary.empty());
  }
  CHECK(find_renderer("yaml") == nullptr);
  CHECK(find_renderer("") == nullptr);
}

TEST_CASE("rows that are there are given each time, in order") {
  const auto rows = rows_of({{Count{1}}, {Count{2}}});
  for (int round = 0; round < 2; ++round) {
    int64_t expected = 0;
    rows([&](std::span<const Cell> row) {
      CHECK(std::get<Count>(row[0]).value == ++expected);
    });
    CHECK(expected == 2);
  }
}

TEST_CASE("the value of every cell reads back from JSON") {
  CHECK(holds("json", [] {
    std::vector<Row> rows;
    Report report = any_report(rows);
    report.summary = {{"mesh", MeshCell{Mesh({{"tp", 2}, {"dp", 3}})}}};
    const Json json = Json::parse(rendered(report, "json"));
    ENSURE(json["summary"]["mesh"].dump() == R"({"tp":2,"dp":3})");
    const Json& table = json["tables"]["placements"];
    ENSURE(table.size() == rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      ENSURE(table[i].size() == kKinds);
      for (size_t column = 0; column < kKinds; ++column) {
        const Json& value = table[i]["c" + std::to_string(column)];
        const Json expected = std::visit(Expected{}, rows[i][column]);
        ENSURE(value == expected);
        if (expected.is_number_integer()) {
          ENSURE(value.is_number_integer());
        }
      }
    }
  }));
}

TEST_CASE("CSV has the rows of JSON") {
  CHECK(holds("csv", [] {
    std::vector<Row> rows;
    const Report report = any_report(rows);
    const auto fields = csv_fields(rendered(report, "csv"));
    ENSURE(fields.size() == rows.size() + 1);
    for (size_t i = 0; i < rows.size(); ++i) {
      ENSURE(fields[i + 1].size() == kKinds);
      for (size_t column = 0; column < kKinds; ++column) {
        const std::string& field = fields[i + 1][column];
        const Json expected = std::visit(Expected{}, rows[i][column]);
        if (expected.is_string()) {
          ENSURE(field == spreadsheet_text(expected.get<std::string>()));
        } else {
          ENSURE(Json::parse(field.empty() ? "null" : field) == expected);
        }
      }
    }
  }));
}

TEST_CASE("Markdown has the rows of JSON, whatever they are called") {
  CHECK(holds("markdown", [] {
    std::vector<Row> rows;
    const Report report = any_report(rows);
    const auto lines = lines_of(rendered(report, "markdown"));
    size_t found = 0;
    ENSURE(lines.at(0) == "### shardplan resolve");
    for (const std::string& line : lines) {
      ENSURE((&line == lines.data() || printable(line) == line));
      if (!line.starts_with("|")) continue;
      ++found;
      ENSURE(markdown_cells(line) == kKinds);
    }
    ENSURE(found == (rows.empty() ? 0 : rows.size() + 2));
  }));
}

TEST_CASE("text has the rows of JSON, with nothing that acts on a terminal") {
  CHECK(holds("text", [] {
    std::vector<Row> rows;
    const Report report = any_report(rows);
    Style style;
    style.unicode = draw_bool();
    style.exact = draw_bool();
    style.width = 1 << 20;  // nothing wraps
    const auto lines = lines_of(rendered(report, "text", style));
    ENSURE(lines.size() == (rows.empty() ? 0 : rows.size() + 1));
    for (const std::string& line : lines) {
      ENSURE(printable(line) == line);
      ENSURE(line.empty() || line.back() != ' ');
    }
  }));
}

TEST_CASE("a report of many rows leaves in pieces") {
  constexpr int kRows = 100'000;
  Report report;
  report.command = "resolve";
  Table table{"placements", "", {{"parameter", "parameter"}}, {}};
  table.rows = [](const RowSink& sink) {
    const Row row = {std::string("model/layers/0/mlp/up_proj/kernel")};
    for (int i = 0; i < kRows; ++i) sink(row);
  };
  report.tables.push_back(std::move(table));
  for (const std::string_view format : {"json", "csv", "markdown", "text"}) {
    CAPTURE(format);
    size_t largest = 0;
    size_t total = 0;
    find_renderer(format)->render(report, Style{}, [&](std::string_view piece) {
      largest = std::max(largest, piece.size());
      total += piece.size();
      return true;
    });
    CHECK(total > size_t{kRows} * 30);
    CHECK(largest < 70'000);
  }
}

TEST_CASE("a closed pipe gets nothing more") {
  Diagnostics diags;
  for (int i = 0; i < 5000; ++i) {
    diags.report(Code::UnusedAxis, {}, "axis `sp` shards nothing");
  }
  Report report;
  report.diagnostics = &diags;
  report.diagnostics_are_the_answer = true;
  Table table{"t", "", {{"a", "a"}}, {}};
  table.rows = [](const RowSink& sink) {
    const Row row = {std::string(100, 'x')};
    for (int i = 0; i < 5000; ++i) sink(row);
  };
  report.tables.push_back(std::move(table));
  for (const Renderer& renderer : renderers()) {
    CAPTURE(renderer.name);
    int pieces = 0;
    renderer.render(report, Style{}, [&](std::string_view) {
      ++pieces;
      return false;
    });
    CHECK(pieces == 1);
  }
}

}  // namespace shardplan
