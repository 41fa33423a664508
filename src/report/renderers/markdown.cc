// SPDX-License-Identifier: Apache-2.0
// A page of GitHub-flavoured Markdown, suitable for $GITHUB_STEP_SUMMARY: the
// headline, the tables for people, and the findings as a list.
#include "report/markdown.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "report/figures/figures.h"
#include "report/output.h"
#include "report/renderers/renderers.h"
#include "report/report.h"
#include "report/table_text.h"

namespace shardplan {
namespace {

// Returns the cell; names and patterns, which text formats may shorten, are
// code.
std::string cell_markdown(const Cell& cell, const Column& column,
                          const Style& style) {
  const std::string text = cell_text(cell, style);
  const bool is_prose = std::holds_alternative<Prose>(cell);
  if (column.elastic &&
      (is_prose || std::holds_alternative<std::string>(cell))) {
    return markdown_code(text, true);
  }
  return is_prose ? markdown_prose(text, true) : markdown_plain(text, true);
}

// Returns text for an HTML block, in which Markdown is not parsed.
std::string html_text(std::string_view text) {
  std::string out;
  for (const MarkdownWord& word : markdown_words(text)) {
    if (word.code) {
      out += html_code(word.text);
      continue;
    }
    for (const char c : word.text) {
      if (is_letter(c) || is_digit(c) || c == ' ' ||
          static_cast<unsigned char>(c) >= 0x80) {
        out += c;
      } else {
        out += "&#" + std::to_string(static_cast<int>(c)) + ";";
      }
    }
  }
  return out;
}

// Escapes a line of a paragraph that would begin a list or underline a heading.
std::string paragraph_line(std::string text) {
  const size_t digits =
      std::min(text.find_first_not_of("0123456789"), text.size());
  const bool numbered = digits > 0 && digits < text.size() &&
                        (text[digits] == '.' || text[digits] == ')');
  if (numbered) text.insert(digits, 1, '\\');
  const bool listed = !text.empty() && contains("-+=", text.front());
  return listed ? "\\" + text : text;
}

class Page {
 public:
  Page(const Style& style, Output& out) : style_(style), out_(out) {}

  void heading(std::string_view text) {
    out_.buffer() += "### " + markdown_plain(text) + "\n";
  }

  void paragraph(const std::vector<std::string>& lines) {
    for (size_t i = 0; i < lines.size(); ++i) {
      if (i == 0) out_.buffer() += '\n';
      out_.buffer() += paragraph_line(markdown_prose(printable(lines[i])));
      // Two blanks preserve the line end.
      out_.buffer() += i + 1 < lines.size() ? "  \n" : "\n";
    }
  }

  // The fence is longer than any run of backticks, so no line ends it.
  void verbatim(const std::vector<std::string>& lines) {
    size_t longest = 2;
    for (const std::string& line : lines) {
      size_t run = 0;
      for (const char c : line) {
        run = c == '`' ? run + 1 : 0;
        longest = std::max(longest, run);
      }
    }
    const std::string fence(longest + 1, '`');
    out_.buffer() += "\n" + fence + "text\n";
    for (const std::string& line : lines) {
      out_.buffer() += printable(line) + "\n";
      out_.drain();
    }
    out_.buffer() += fence + "\n";
  }

  void table(const Table& table) {
    bool begun = false;
    table.rows([&](std::span<const Cell> row) {
      SHARDPLAN_CHECK(row.size() == table.columns.size());
      if (out_.refused()) return;
      if (!begun) table_head(table);
      begun = true;
      out_.buffer() += '|';
      for (size_t i = 0; i < row.size(); ++i) {
        cell(cell_markdown(row[i], table.columns[i], style_));
      }
      end_row();
    });
    if (begun && table.footer) footer(*table.footer);
    if (begun && table.folded) out_.buffer() += "\n</details>\n";
  }

  void finding(const Diagnostic& diagnostic) {
    std::string& text = out_.buffer();
    text += "- **" + std::string(severity_name(diagnostic.severity)) + " " +
            code_id(diagnostic.code) + "** " +
            markdown_prose(printable(diagnostic.message));
    if (const Label* label = main_label(diagnostic)) {
      const Place place = place_of(label->where);
      const std::string where = printable(label->where.file->name()) + ":" +
                                std::to_string(place.line) + ":" +
                                std::to_string(place.column);
      text += " (" + markdown_code(where, false) + ")";
    }
    text += '\n';
    for (const std::string& fact : diagnostic.facts) item("", fact);
    for (const std::string& help : diagnostic.help) item("help: ", help);
    out_.drain();
  }

 private:
  void item(std::string_view before, std::string_view text) {
    out_.buffer() += "  - " + std::string(before) +
                     paragraph_line(markdown_prose(printable(text))) + "\n";
  }

  void cell(const std::string& text) {
    out_.buffer() += " " + text + (text.empty() ? "|" : " |");
  }

  void end_row() {
    out_.buffer() += '\n';
    out_.drain();
  }

  void table_head(const Table& table) {
    std::string& out = out_.buffer();
    out += '\n';
    if (!table.title.empty() && !table.folded) {
      out += "**" + markdown_plain(printable(table.title)) + "**\n\n";
    }
    if (table.folded) {
      out += "<details><summary>" + html_text(printable(table.title)) +
             "</summary>\n\n";
    }
    out += '|';
    for (const Column& column : table.columns) {
      cell(markdown_plain(printable(column.title), true));
    }
    out += "\n|";
    for (const Column& column : table.columns) {
      cell(column.align == Align::Right ? "---:" : "---");
    }
    end_row();
  }

  void footer(const Row& footer) {
    out_.buffer() += '|';
    for (const Cell& total : footer) {
      const bool nothing = std::holds_alternative<std::monostate>(total);
      const std::string text =
          nothing ? "" : markdown_plain(cell_text(total, style_), true);
      cell(text.empty() ? "" : "**" + text + "**");
    }
    end_row();
  }

  const Style& style_;
  Output& out_;
};

// Returns the page that `fill` writes, as text.
template <typename Fill>
std::string page_text(const Style& style, const Fill& fill) {
  std::string text;
  const TextSink sink = [&](std::string_view piece) {
    text += piece;
    return true;
  };
  Output out(sink);
  Page page(style, out);
  fill(page);
  out.finish();
  return text;
}

// Writes the parts in order while they fit, and how many were omitted.
void render_within(const Report& report, const Style& style,
                   const TextSink& sink) {
  const std::string head = page_text(style, [&](Page& page) {
    page.heading("shardplan " + report.command);
    page.paragraph(report.headline);
    page.paragraph(report.closing);
    page.paragraph(report.notes);
  });
  // Reserves room for the last line.
  constexpr size_t kLastLine = 200;
  size_t taken = head.size() + kLastLine;
  std::string text = head;
  int64_t left_out = 0;
  const auto add = [&](const std::string& part) {
    if (left_out > 0 || taken + part.size() > report.most_bytes) {
      ++left_out;
      return;
    }
    taken += part.size();
    text += part;
  };
  for (const Table& table : report.tables) {
    if (table.audience == Audience::Programs) continue;
    add(page_text(style, [&](Page& page) { page.table(table); }));
  }
  const int64_t tables = left_out;
  left_out = 0;
  if (report.diagnostics != nullptr) {
    bool first = true;
    for (const Diagnostic& diagnostic : report.diagnostics->all()) {
      add((std::exchange(first, false) ? "\n" : "") +
          page_text(style, [&](Page& page) { page.finding(diagnostic); }));
    }
  }
  if (tables + left_out > 0) {
    text += "\n" + plural(tables, "more table") + " and " +
            plural(left_out, "more finding") +
            " do not fit here; the text report has them all.\n";
  }
  sink(text);
}

}  // namespace

void render_markdown(const Report& report, const Style& style,
                     const TextSink& sink) {
  // A page does not have a terminal's limits.
  Style plain;
  plain.exact = style.exact;
  plain.expand = style.expand;
  if (report.most_bytes > 0) {
    render_within(report, plain, sink);
    return;
  }
  Output out(sink);
  Page page(plain, out);
  page.heading("shardplan " + report.command);
  page.paragraph(report.headline);
  for (const Figure& figure : report.figures) {
    if (figure.in_text == InText::No) continue;
    if (figure.in_text == InText::Titled) page.paragraph({figure.title});
    page.verbatim(lines_of(figure.make(), plain));
  }
  for (const Table& table : report.tables) {
    if (table.audience != Audience::Programs) page.table(table);
  }
  page.paragraph(report.closing);
  page.paragraph(report.notes);
  if (report.diagnostics != nullptr && !report.diagnostics->all().empty()) {
    out.buffer() += '\n';
    for (const Diagnostic& diagnostic : report.diagnostics->all()) {
      if (out.refused()) break;
      page.finding(diagnostic);
    }
  }
  if (report.next_step) page.paragraph({*report.next_step});
  out.finish();
}

}  // namespace shardplan
