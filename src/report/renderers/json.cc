// SPDX-License-Identifier: Apache-2.0
// One JSON object, written as it is produced: `schema`, `command`, `summary`,
// `tables`, `figures` (if there are any) and `diagnostics`. Each row is one
// line, so line-based tools can compare reports.
#include "report/json.h"

#include <utility>

#include "base/checked.h"
#include "base/plain_json.h"
#include "base/text.h"
#include "report/figures/figures.h"
#include "report/output.h"
#include "report/renderers/renderers.h"
#include "report/report.h"

namespace shardplan {
namespace {

constexpr std::string_view kSchema = "shardplan.report/1";

// Writes the separators between the items of a list or object, one item per
// line.
class Lines {
 public:
  Lines(std::string& out, std::string_view indent)
      : out_(out), line_("\n" + std::string(indent)) {}
  void next() {
    if (!std::exchange(first_, false)) out_ += ',';
    out_ += line_;
  }
  // Writes the closing bracket, on its own line unless there are no items.
  void close(char bracket) {
    if (!first_) out_ += line_.substr(0, line_.size() - 2);
    out_ += bracket;
  }

 private:
  std::string& out_;
  std::string line_;  // the line end and the indentation of the next item
  bool first_ = true;
};

void append_key(std::string& out, std::string_view key) {
  append_printable_json(out, key);
  out += ": ";
}

void write_summary(const Report& report, Output& out) {
  std::string& text = out.buffer();
  text += "  \"summary\": {";
  Lines lines(text, "    ");
  for (const auto& [key, cell] : report.summary) {
    lines.next();
    append_key(text, key);
    append_json(text, cell);
  }
  lines.close('}');
}

// Returns the text before each cell of a row: `{"parameter": `, `, "dtype": `.
std::vector<std::string> row_keys(const Table& table) {
  std::vector<std::string> keys;
  for (const Column& column : table.columns) {
    std::string key = keys.empty() ? "{" : ", ";
    append_key(key, column.id);
    keys.push_back(std::move(key));
  }
  return keys;
}

// Returns, for each rest, the text from after the first cell to the end of the
// line.
std::vector<std::string> written_rests(const std::vector<Row>& rests,
                                       const std::vector<std::string>& keys) {
  std::vector<std::string> written;
  written.reserve(rests.size());
  for (const Row& row : rests) {
    SHARDPLAN_CHECK(row.size() == keys.size());
    std::string& text = written.emplace_back("\"");
    for (size_t i = 1; i < keys.size(); ++i) {
      text += keys[i];
      append_json(text, row[i]);
    }
    text += '}';
  }
  return written;
}

void write_named_rows(const NamedRows& named,
                      const std::vector<std::string>& keys, Lines& lines,
                      Output& out) {
  std::string& text = out.buffer();
  const std::vector<std::string> rests = written_rests(named.rests(), keys);
  const std::string begin = keys.front() + '"';
  named.each([&](std::string_view name, size_t rest) {
    if (out.refused()) return;
    lines.next();
    if (plain_json(name) == name.size()) {
      text += begin;
      text += name;
      text += rests[rest];
    } else {
      text += keys.front();
      append_printable_json(text, name);
      text += std::string_view(rests[rest]).substr(1);
    }
    out.drain();
  });
}

void write_table(const Table& table, Output& out) {
  std::string& text = out.buffer();
  append_key(text, table.id);
  text += '[';
  const std::vector<std::string> keys = row_keys(table);
  Lines lines(text, "      ");
  if (table.named) {
    write_named_rows(*table.named, keys, lines, out);
    return lines.close(']');
  }
  table.rows([&](std::span<const Cell> row) {
    SHARDPLAN_CHECK(row.size() == keys.size());
    if (out.refused()) return;
    lines.next();
    for (size_t i = 0; i < keys.size(); ++i) {
      text += keys[i];
      append_json(text, row[i]);
    }
    text += '}';
    out.drain();
  });
  lines.close(']');
}

void write_tables(const Report& report, Output& out) {
  out.buffer() += "  \"tables\": {";
  Lines lines(out.buffer(), "    ");
  for (const Table& table : report.tables) {
    if (table.audience == Audience::People) continue;
    lines.next();
    write_table(table, out);
  }
  lines.close('}');
}

void write_figures(const Report& report, Output& out) {
  std::string& text = out.buffer();
  text += "  \"figures\": [";
  Lines lines(text, "    ");
  for (const Figure& figure : report.figures) {
    if (out.refused()) return;
    lines.next();
    text += "{\"name\": ";
    append_printable_json(text, figure.name);
    text += ", \"title\": ";
    append_prose_json(text, figure.title);
    append_figure_json(text, figure.make());
    text += '}';
    out.drain();
  }
  lines.close(']');
}

// Appends the key of a member, after a comma unless it is the first of its
// object.
void append_member(std::string& text, std::string_view key) {
  if (text.back() != '{') text += ", ";
  append_key(text, key);
}

void append_number(std::string& text, std::string_view key, int64_t value) {
  append_member(text, key);
  append_json_number(text, value);
}

using AppendText = void (*)(std::string&, std::string_view);

void append_text(std::string& text, std::string_view key,
                 std::string_view value,
                 AppendText append = append_printable_json) {
  append_member(text, key);
  append(text, value);
}

// Appends a list; `append` appends one of its items.
template <typename Items, typename Append>
void append_list(std::string& text, std::string_view key, const Items& items,
                 Append append) {
  append_member(text, key);
  text += '[';
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += ", ";
    append(text, items[i]);
  }
  text += ']';
}

void append_label(std::string& text, const Label& label) {
  text += '{';
  if (label.where) {
    const Place place = place_of(label.where);
    append_text(text, "file", label.where.file->name());
    append_number(text, "line", place.line);
    append_number(text, "column", place.column);
    append_number(text, "end_column", place.end_column);
  } else {
    text += R"("file": null, "line": null, "column": null, "end_column": null)";
  }
  append_text(text, "text", label.text, append_prose_json);
  text += '}';
}

void append_edit(std::string& text, const TextEdit& edit) {
  text += '{';
  append_text(text, "file", edit.where.file->name());
  append_number(text, "begin", static_cast<int64_t>(edit.where.begin));
  append_number(text, "end", static_cast<int64_t>(edit.where.end));
  append_number(text, "line", place_of(edit.where).line);
  append_text(text, "text", edit.text);
  text += '}';
}

void append_fix(std::string& text, const Fix& fix) {
  text += '{';
  append_text(text, "kind", fix_kind_name(fix.kind));
  append_text(text, "text", fix.text, append_prose_json);
  append_number(text, "bytes_per_device", fix.bytes_per_device);
  append_number(text, "finding_bytes_per_device", fix.finding_bytes_per_device);
  if (fix.kind == FixKind::AxisSize) {
    append_text(text, "axis", fix.axis);
    append_number(text, "size", fix.size);
  } else if (fix.kind == FixKind::PadDimension) {
    append_number(text, "dim", fix.dim);
    append_number(text, "size", fix.size);
    append_list(text, "parameters", fix.parameters, append_printable_json);
  } else if (fix.kind == FixKind::Declare) {
    append_text(text, "declaration", fix.declaration);
  }
  append_list(text, "edits", fix.edits, append_edit);
  text += '}';
}

void append_diagnostic(std::string& text, const Diagnostic& diagnostic) {
  text += '{';
  append_text(text, "code", code_id(diagnostic.code));
  append_text(text, "name", code_info(diagnostic.code).name);
  append_text(text, "severity", severity_name(diagnostic.severity));
  append_text(text, "message", diagnostic.message, append_prose_json);
  append_list(text, "labels", diagnostic.labels, append_label);
  append_list(text, "facts", diagnostic.facts, append_prose_json);
  append_list(text, "help", diagnostic.help, append_prose_json);
  append_list(text, "fixes", diagnostic.fixes, append_fix);
  append_list(text, "parameters", diagnostic.parameters, append_printable_json);
  append_number(text, "findings", diagnostic.findings);
  text += '}';
}

void write_diagnostic_rows(const Report& report, Output& out) {
  out.buffer() += "  \"diagnostics\": [";
  Lines lines(out.buffer(), "    ");
  if (report.diagnostics != nullptr) {
    for (const Diagnostic& diagnostic : report.diagnostics->all()) {
      if (out.refused()) return;
      lines.next();
      append_diagnostic(out.buffer(), diagnostic);
      out.drain();
    }
  }
  lines.close(']');
}

}  // namespace

void render_json(const Report& report, const Style&, const TextSink& sink) {
  Output out(sink);
  std::string& text = out.buffer();
  text += "{\n  \"schema\": ";
  append_printable_json(text, kSchema);
  text += ",\n  \"command\": ";
  append_printable_json(text, report.command);
  text += ",\n";
  write_summary(report, out);
  text += ",\n";
  write_tables(report, out);
  text += ",\n";
  if (!report.figures.empty()) {
    write_figures(report, out);
    text += ",\n";
  }
  write_diagnostic_rows(report, out);
  text += "\n}\n";
  out.finish();
}

}  // namespace shardplan
