// SPDX-License-Identifier: Apache-2.0
// Text for a terminal: blocks of lines separated by empty lines. They are the
// headline, the findings if they are the answer, figures, the tables, and at
// the end the notes with the next step.
#include "report/diagnostics_text.h"
#include "report/figures/figures.h"
#include "report/output.h"
#include "report/renderers/renderers.h"
#include "report/style.h"
#include "report/table_text.h"

namespace shardplan {
namespace {

class Blocks {
 public:
  Blocks(const Style& style, Output& out) : style_(style), out_(out) {}

  void start() {
    if (any_) out_.buffer() += '\n';
    any_ = true;
  }

  void line(std::string_view text, Paint paint) {
    out_.buffer() += painted(shown(text, style_), paint, style_);
    out_.buffer() += '\n';
    out_.drain();
  }

  void table(const Table& table) {
    any_ = print_table(table, style_, any_, out_) || any_;
  }

  void findings(const Diagnostics& diags) {
    if (diags.all().empty()) return;
    start();
    write_diagnostics(diags, style_, [&](std::string_view text) {
      out_.buffer() += text;
      out_.drain();
      return !out_.refused();
    });
  }

 private:
  const Style& style_;
  Output& out_;
  bool any_ = false;
};

}  // namespace

void render_text(const Report& report, const Style& style,
                 const TextSink& sink) {
  Output out(sink);
  Blocks blocks(style, out);
  if (!report.headline.empty()) blocks.start();
  for (size_t i = 0; i < report.headline.size(); ++i) {
    blocks.line(report.headline[i], i == 0 ? Paint::Bold : Paint::Plain);
  }
  if (report.diagnostics_are_the_answer && report.diagnostics != nullptr) {
    blocks.findings(*report.diagnostics);
  }
  for (const Figure& figure : report.figures) {
    if (figure.in_text == InText::No) continue;
    blocks.start();
    if (figure.in_text == InText::Titled) {
      blocks.line(figure.title, Paint::Bold);
    }
    for (const std::string& line : lines_of(figure.make(), style)) {
      blocks.line(line, Paint::Plain);
    }
  }
  for (const Table& table : report.tables) {
    if (table.audience != Audience::Programs) blocks.table(table);
  }
  if (!report.closing.empty() || !report.notes.empty() || report.next_step) {
    blocks.start();
  }
  for (const auto* lines : {&report.closing, &report.notes}) {
    for (const std::string& line : *lines) blocks.line(line, Paint::Plain);
  }
  if (report.next_step) blocks.line(*report.next_step, Paint::Help);
  out.finish();
}

// One line per finding, `file:line:column: error[SP101] message`, and nothing
// else: the format that editors and grep expect.

void render_concise(const Report& report, const Style&, const TextSink& sink) {
  if (report.diagnostics != nullptr) write_concise(*report.diagnostics, sink);
}

}  // namespace shardplan
