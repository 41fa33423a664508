// SPDX-License-Identifier: Apache-2.0
// One JSON object, written as it is produced: `schema`, `command`, `summary`,
// `tables` and `diagnostics`. Each row is one line, so line-based tools can
// compare reports.
#include "report/json.h"

#include <utility>

#include "base/checked.h"
#include "base/plain_json.h"
#include "base/text.h"
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
  void close(std::string_view indent, char bracket) {
    if (!first_) {
      out_ += '\n';
      out_ += indent;
    }
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
  lines.close("  ", '}');
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
    return lines.close("    ", ']');
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
  lines.close("    ", ']');
}

void write_tables(const Report& report, Output& out) {
  out.buffer() += "  \"tables\": {";
  Lines lines(out.buffer(), "    ");
  for (const Table& table : report.tables) {
    if (table.audience == Audience::People) continue;
    lines.next();
    write_table(table, out);
  }
  lines.close("  ", '}');
}

void append_label(std::string& text, const Label& label) {
  text += "{\"file\": ";
  if (label.where) {
    const Place place = place_of(label.where);
    append_printable_json(text, label.where.file->name());
    text += ", \"line\": ";
    append_json_integer(text, place.line);
    text += ", \"column\": ";
    append_json_integer(text, place.column);
    text += ", \"end_column\": ";
    append_json_integer(text, place.end_column);
  } else {
    text += "null, \"line\": null, \"column\": null, \"end_column\": null";
  }
  text += ", \"text\": ";
  append_prose_json(text, label.text);
  text += '}';
}

using AppendString = void (*)(std::string&, std::string_view);

void append_strings(std::string& text, std::string_view key,
                    const std::vector<std::string>& values,
                    AppendString append) {
  text += ", ";
  append_key(text, key);
  text += '[';
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ", ";
    append(text, values[i]);
  }
  text += ']';
}

void append_number(std::string& text, std::string_view key, int64_t value) {
  text += ", ";
  append_key(text, key);
  append_json_integer(text, value);
}

void append_edit(std::string& text, const TextEdit& edit) {
  const Place place = place_of(edit.where);
  text += "{\"file\": ";
  append_printable_json(text, edit.where.file->name());
  append_number(text, "begin", static_cast<int64_t>(edit.where.begin));
  append_number(text, "end", static_cast<int64_t>(edit.where.end));
  append_number(text, "line", place.line);
  text += ", \"text\": ";
  append_printable_json(text, edit.text);
  text += '}';
}

void append_fixes(std::string& text, const std::vector<Fix>& fixes) {
  text += ", \"fixes\": [";
  for (size_t i = 0; i < fixes.size(); ++i) {
    const Fix& fix = fixes[i];
    if (i > 0) text += ", ";
    text += "{\"kind\": ";
    append_printable_json(text, fix_kind_name(fix.kind));
    text += ", \"text\": ";
    append_prose_json(text, fix.text);
    append_number(text, "bytes_per_device", fix.bytes_per_device);
    append_number(text, "finding_bytes_per_device",
                  fix.finding_bytes_per_device);
    if (fix.kind == FixKind::AxisSize) {
      text += ", \"axis\": ";
      append_printable_json(text, fix.axis);
      append_number(text, "size", fix.size);
    } else if (fix.kind == FixKind::PadDimension) {
      append_number(text, "dim", fix.dim);
      append_number(text, "size", fix.size);
      append_strings(text, "parameters", fix.parameters, append_printable_json);
    }
    if (fix.kind == FixKind::Declare) {
      text += ", \"declaration\": ";
      append_printable_json(text, fix.declaration);
    }
    text += ", \"edits\": [";
    for (size_t k = 0; k < fix.edits.size(); ++k) {
      if (k > 0) text += ", ";
      append_edit(text, fix.edits[k]);
    }
    text += "]}";
  }
  text += ']';
}

void append_diagnostic(std::string& text, const Diagnostic& diagnostic) {
  text += "{\"code\": ";
  append_printable_json(text, code_id(diagnostic.code));
  text += ", \"name\": ";
  append_printable_json(text, code_info(diagnostic.code).name);
  text += ", \"severity\": ";
  append_printable_json(text, severity_name(diagnostic.severity));
  text += ", \"message\": ";
  append_prose_json(text, diagnostic.message);
  text += ", \"labels\": [";
  for (size_t i = 0; i < diagnostic.labels.size(); ++i) {
    if (i > 0) text += ", ";
    append_label(text, diagnostic.labels[i]);
  }
  text += ']';
  append_strings(text, "facts", diagnostic.facts, append_prose_json);
  append_strings(text, "help", diagnostic.help, append_prose_json);
  append_fixes(text, diagnostic.fixes);
  append_strings(text, "parameters", diagnostic.parameters,
                 append_printable_json);
  text += ", \"findings\": ";
  append_json_integer(text, diagnostic.findings);
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
  lines.close("  ", ']');
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
  write_diagnostic_rows(report, out);
  text += "\n}\n";
  out.finish();
}

}  // namespace shardplan
