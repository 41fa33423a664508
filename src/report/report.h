// SPDX-License-Identifier: Apache-2.0
// Where a diagnostic points, as lines and columns.
#pragma once

#include <cstdint>
#include <functional>
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

namespace shardplan {

// 1-based; columns count code points. A span of several lines is cut at the
// end of its first one. REQUIRES: the span has a file.
struct Place {
  int64_t line = 1;
  int64_t column = 1;
  int64_t end_column = 1;  // behind the last character
};
Place place_of(Span where);

// True for the value of a flag (`--mesh`), which has no lines to speak of.
bool is_flag(const SourceFile& file);

// Report: what a command found, as typed data; renderers turn it into bytes.
//
// Commands fill reports and know nothing of formats; renderers know nothing of
// commands. A cell says what a value is (bytes, a count, a spec), so text can
// show `29.3 MiB` where JSON carries 30720000. Rows are produced on demand: the
// tables of a model with a million parameters are never held in memory.

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
};  // of 1; text shows 89.3 %
struct Duration {
  double value = 0;
};
struct YesNo {
  bool value = false;
};
struct Bar {
  double fraction = 0;
};  // of 1; drawn in text, else a number
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
};  // JSON object of such objects, in order
struct DealtCell {
  std::string axis;
  int64_t rank = 0;
};  // JSON object
struct MemoryRange {
  int64_t max = 0, min = 0;
  double mean = 0;
};  // object
struct ByteBracket {
  int64_t lower = 0, estimate = 0, upper = 0;
};  // object
struct DurationBracket {
  double lower = 0, estimate = 0, upper = 0;
};  // object
// A sentence that may quote names: what is not printable is escaped in every
// format, where a plain text is a value that programs get as it is.
struct Prose {
  std::string text;
};

using Cell =
    std::variant<std::monostate, std::string, Count, ByteSize, MeanBytes, Ratio,
                 Percent, Duration, YesNo, Bar, Names, Numbers, Dims,
                 PartitionSpec, MeshCell, ViewsCell, DealtCell, MemoryRange,
                 ByteBracket, DurationBracket, Prose>;

enum class Align : uint8_t { Left, Right };

// What a cell means to its reader; a terminal shows it in colours.
enum class Tone : uint8_t { Plain, Good, Doubtful, Bad };

struct Column {
  std::string id;     // JSON key and CSV header; stable
  std::string title;  // for people; may change
  Align align = Align::Left;
  // Text may shorten this column (names, patterns) to fit the terminal.
  bool elastic = false;
  // Text has it below the row, on a line of its own: a sentence, not a value.
  bool below = false;
  // Text has it below the row, behind its title, where a row is too wide.
  bool gives_way = false;
  // The tone of a cell's text; null: all are plain.
  Tone (*tone)(std::string_view text) = nullptr;
};
// A column of texts, and one of numbers. Without a title it has the key's
// words.
Column left(std::string key);
Column left(std::string key, std::string title);
Column right(std::string key);
Column right(std::string key, std::string title);

// Placements are listed one by one for programs and folded for people.
enum class Audience : uint8_t { Everyone, People, Programs };

using Row = std::vector<Cell>;
using RowSink = std::function<void(std::span<const Cell>)>;

// Rows of which the first cell is a text of its own and the rest is one of few:
// a row per parameter. What the rest becomes is rendered once for each of them.
struct NamedRows {
  // The rests, behind a first cell that nobody looks at.
  std::function<std::vector<Row>()> rests;
  // Calls the sink with the first cell and the number of the rest, in order.
  using Sink = std::function<void(std::string_view name, size_t rest)>;
  std::function<void(const Sink&)> each;
};

struct Table {
  std::string id = {};
  std::string title = {};  // printed above it in text and Markdown
  std::vector<Column> columns = {};
  // Calls the sink once per row, in order, the same each time it is called.
  std::function<void(const RowSink&)> rows = {};
  Audience audience = Audience::Everyone;
  // The same rows, where they are such: for renderers of a million of them. Who
  // sets other rows resets it.
  std::optional<NamedRows> named = {};
  std::optional<Row> footer = {};  // for people: totals under a rule
  bool show_header = true;         // text only
  bool folded = false;  // Markdown: behind its title, until it is clicked
};

// A table whose rows are already there.
std::function<void(const RowSink&)> rows_of(std::vector<Row> rows);
// The same rows as `named` has, one by one.
std::function<void(const RowSink&)> rows_of_named(NamedRows named);

struct Style;

struct Report {
  std::string command;
  std::vector<std::pair<std::string, Cell>> summary;  // JSON keys, in order
  // For people: lines above and below the tables.
  std::vector<std::string> headline;
  // For people, between the two: lines in which every column counts.
  std::function<std::vector<std::string>(const Style&)> drawing = {};
  std::vector<Table> tables;
  // Last lines of the answer, which its tables and summary have, too.
  std::vector<std::string> closing;
  // What the answer assumes or leaves out. Formats without lines for people
  // have them as diagnostics (SP019).
  std::vector<std::string> notes;
  std::optional<std::string> next_step;  // the last line: a command to type
  // Bytes of Markdown, where there is a limit, as a comment on GitHub has.
  // Tables and findings lead by importance; those that have no room are
  // counted.
  size_t most_bytes = 0;  // 0: no limit
  const Diagnostics* diagnostics = nullptr;
  // What formats for code review say at its line beside the diagnostics, as
  // notes: changes that fail of nothing. May be null.
  const Diagnostics* remarks = nullptr;
  // The file that a finding without a place of its own is about, as the user
  // named it; empty where there is none.
  std::string main_file;
  // Whether a file is there for a reader: shipped rules have names and lines,
  // and are none of the repository's files. Empty: all are there.
  std::function<bool(const std::string&)> is_there = {};
  // What stands before a relative path where paths are those of a repository:
  // "" or a folder of it with its slash.
  std::string repository_prefix;
  // `check`: the diagnostics are the answer and lead on stdout. Otherwise they
  // go to stderr in formats for people.
  bool diagnostics_are_the_answer = false;
};

// The main place of a diagnostic where that is in a file which a reader has:
// no flag, standard input or shipped rules. Else null.
const Label* place_in_file(const Report& report, const Diagnostic& diagnostic);
bool is_in_file(const Report& report, const Label& label);

// How text may look on one stream.
struct Style {
  int width = 100;  // columns
  bool colour = false;
  bool unicode = true;  // glyphs, else ASCII
  bool exact = false;   // raw numbers instead of 29.3 MiB
  bool expand = false;  // every finding in full, however many of a code
};

// Receives output piece by piece; false stops the renderer (closed pipe).
using TextSink = std::function<bool(std::string_view)>;

struct Renderer {
  std::string_view name;     // --format NAME
  std::string_view ending;   // of a file in this format: "json"; empty: none
  std::string_view summary;  // one line for `list`
  bool for_people = false;   // diagnostics go to stderr, as text
  // Says too why a command could not run; else that goes to stderr, as text.
  bool says_failures = false;
  void (*render)(const Report&, const Style&, const TextSink&);
};

// The one table of output formats.
std::span<const Renderer> renderers();
const Renderer* find_renderer(std::string_view name);

}  // namespace shardplan
