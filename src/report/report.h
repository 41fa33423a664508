// SPDX-License-Identifier: Apache-2.0
// Report: the results of a command as typed data, which a Renderer turns into
// one of the output formats.
//
// Commands fill reports and know nothing about formats; renderers know nothing
// about commands. The type of a cell is the kind of its value (bytes, a count,
// a spec), so text can show `29.3 MiB` where JSON has 30720000. Rows are
// produced on demand: the tables of a model with a million parameters are never
// in memory as a whole.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/diagnostic.h"
#include "core/mesh.h"
#include "core/spec.h"
#include "core/types.h"
#include "report/figure.h"

namespace shardplan {

struct Count {
  int64_t value = 0;
};  // JSON integer
struct ByteSize {
  int64_t value = 0;
};  // JSON integer
struct MeanBytes {
  double value = 0;
};  // bytes that may be fractional
struct Ratio {
  double value = 0;
};  // JSON number; shown as is: 0.893
struct Percent {
  double value = 0;
};  // fraction of 1; text shows 89.3 %
struct Duration {
  double value = 0;
};
struct YesNo {
  bool value = false;
};
struct Bar {
  double fraction = 0;
};  // fraction of 1; drawn in text, else a number
struct Names {
  std::vector<std::string> values;
};  // JSON list of strings
struct Numbers {
  std::vector<int64_t> values;
};  // JSON list of integers
struct Dims {
  Shape shape;
};  // JSON list; text "2048 × 256"
struct MeshCell {
  Mesh mesh;
};  // JSON object, in order
struct ViewsCell {
  std::vector<MeshView> views;
};  // JSON object of JSON objects, in order
struct WholePlacementCell {
  std::string axis;
  int64_t rank = 0;
};  // JSON object
struct MemoryRange {
  int64_t max = 0, min = 0;
  double mean = 0;
};  // JSON object
struct ByteBracket {
  int64_t lower = 0, estimate = 0, upper = 0;
};  // JSON object
struct DurationBracket {
  double lower = 0, estimate = 0, upper = 0;
};  // JSON object
// A sentence that may quote names. Characters that are not printable are
// escaped in every format, whereas programs receive a plain text unchanged.
struct Prose {
  std::string text;
};

using Cell =
    std::variant<std::monostate, std::string, Count, ByteSize, MeanBytes, Ratio,
                 Percent, Duration, YesNo, Bar, Names, Numbers, Dims,
                 PartitionSpec, MeshCell, ViewsCell, WholePlacementCell,
                 MemoryRange, ByteBracket, DurationBracket, Prose>;

enum class Align : uint8_t { Left, Right };

// The meaning of a cell's value for its reader; a terminal shows it as a
// colour.
enum class Tone : uint8_t { Plain, Good, Doubtful, Bad };

struct Column {
  std::string id;     // JSON key and CSV header; stable
  std::string title;  // for people; may change
  Align align = Align::Left;
  // Whether text formats may shorten this column (names, patterns) to fit the
  // terminal.
  bool elastic = false;
  // Whether text formats print the column below the row, on its own line, as a
  // sentence and not a value.
  bool below = false;
  // Whether text formats print the column below the row, after its title, if a
  // row is too wide.
  bool below_if_wide = false;
  // Returns the tone of a cell's text; null: all cells are plain.
  Tone (*tone)(std::string_view text) = nullptr;
};
// Return a column of texts (left), of numbers (right), of names that text
// formats may shorten (elastic), or of sentences that they print below the row.
// Without a title, the title is made from the words of the key.
Column left(std::string key, std::optional<std::string> title = {});
Column right(std::string key, std::optional<std::string> title = {});
Column elastic(std::string key, std::optional<std::string> title = {});
Column below(std::string key, std::optional<std::string> title = {});

// Cells that are absent without a value: for an empty text, a number that is
// not finite, an empty optional.
Cell text_cell(std::string_view text);
Cell ratio_cell(double number);
template <typename Kind, typename Value>
Cell optional_cell(const std::optional<Value>& value) {
  return value ? Cell(Kind{*value}) : Cell();
}

// Who sees a table: placements are listed one by one for programs and folded
// for people.
enum class Audience : uint8_t { Everyone, People, Programs };

using Row = std::vector<Cell>;
using RowSink = std::function<void(std::span<const Cell>)>;

// Rows in which the first cell varies and the remaining cells (the "rest") are
// one of few combinations, such as a row per parameter. Each rest is rendered
// only once.
struct NamedRows {
  // Returns the distinct rests as rows whose first cell is ignored.
  std::function<std::vector<Row>()> rests;
  // Calls the sink with the first cell and the index of the rest, in order.
  using Sink = std::function<void(std::string_view name, size_t rest)>;
  std::function<void(const Sink&)> each;
};

struct Table {
  std::string id = {};
  std::string title = {};  // printed above it in text and Markdown
  std::vector<Column> columns = {};
  // Calls the sink once per row, in order. Every call produces the same rows.
  std::function<void(const RowSink&)> rows = {};
  Audience audience = Audience::Everyone;
  // The same rows, if they have that form, for renderers of a million rows.
  // Code that replaces `rows` must reset it.
  std::optional<NamedRows> named = {};
  std::optional<Row> footer = {};  // for people: totals under a rule
  bool show_header = true;         // text only
  bool folded = false;             // Markdown: collapsed under its title
};

// Returns a producer of rows that already exist.
std::function<void(const RowSink&)> rows_of(std::vector<Row> rows);
// Returns a producer of the rows of `named`, one by one.
std::function<void(const RowSink&)> rows_of_named(NamedRows named);

struct Report {
  std::string command;
  std::vector<std::pair<std::string, Cell>> summary;  // JSON keys, in order
  // For people: lines above the tables.
  std::vector<std::string> headline;
  // Objects that tables and figures refer to, if nothing else owns them.
  std::vector<std::shared_ptr<const void>> owned = {};
  // Text and Markdown draw some of them, between headline and tables. The first
  // is the one that `--plot FILE.svg` writes.
  std::vector<Figure> figures;
  std::vector<Table> tables;
  // The last lines of the answer, which repeat values of its tables and
  // summary.
  std::vector<std::string> closing;
  // Assumptions and omissions of the answer. Formats without lines for people
  // show them as diagnostics (SP019).
  std::vector<std::string> notes;
  std::optional<std::string> next_step;  // last line: a command to type
  // The largest size of Markdown, bytes, if there is a limit, such as that of a
  // comment on GitHub. The most important tables and findings come first; those
  // that do not fit are counted.
  size_t most_bytes = 0;  // 0: no limit
  const Diagnostics* diagnostics = nullptr;
  // Additional notes that formats for code review show at their lines: changes
  // that do not fail. May be null.
  const Diagnostics* remarks = nullptr;
  // The file that findings without a place are about, as the user named it;
  // empty if there is none.
  std::string main_file;
  // Returns whether the reader has the file: shipped rules have names and lines
  // but are not files of the repository. Empty: the reader has all files.
  std::function<bool(const std::string&)> is_there = {};
  // The prefix of relative paths in formats with paths of a repository: "" or a
  // folder of the repository with a slash.
  std::string repository_prefix;
  // `check`: the diagnostics are the answer and come first on stdout. Otherwise
  // they go to stderr in formats for people.
  bool diagnostics_are_the_answer = false;
};

// How text looks on one stream.
struct Style {
  int width = 100;  // columns
  bool colour = false;
  bool unicode = true;  // use Unicode glyphs, else ASCII
  bool exact = false;   // raw numbers instead of 29.3 MiB
  bool expand = false;  // show every finding in full
};

// Receives output piece by piece. Returns false to stop the renderer (closed
// pipe).
using TextSink = std::function<bool(std::string_view)>;

struct Renderer {
  std::string_view name;     // --format NAME
  std::string_view ending;   // extension of such files: "json"; empty: none
  std::string_view summary;  // one line for `list`
  bool for_people = false;   // diagnostics go to stderr, as text
  // Whether the format shows the report's notes; else they are findings.
  bool has_notes = false;
  // Whether the format also reports why a command could not run; else that goes
  // to stderr, as text.
  bool reports_failures = false;
  void (*render)(const Report&, const Style&, const TextSink&);
};

// The table of output formats.
std::span<const Renderer> renderers();
const Renderer* find_renderer(std::string_view name);

// The line and columns that a span points to, 1-based; columns count code
// points. A span of several lines ends at the end of its first line.
//
// REQUIRES: the span has a file.
struct Place {
  int64_t line = 1;
  int64_t column = 1;
  int64_t end_column = 1;  // after the last character
};
Place place_of(Span where);

// Returns whether the source is the value of a flag (`--mesh`), whose line
// numbers mean nothing.
bool is_flag(const SourceFile& file);

// Returns the main label of a diagnostic if it is in a file that the reader
// has, not in a flag, standard input or shipped rules. Otherwise returns null.
const Label* place_in_file(const Report& report, const Diagnostic& diagnostic);
bool is_in_file(const Report& report, const Label& label);

}  // namespace shardplan
