// SPDX-License-Identifier: Apache-2.0
// A page in one file, which opens without a network: the answer in a sentence,
// its main numbers, figures, findings, tables, and all parameters.
//
// Everything but the table of all parameters is plain HTML and SVG. The script
// (report/html/page.js) opens that table, filters it, and shows why a parameter
// is sharded as it is. Texts from files are escaped, and the page's security
// policy allows no other script.
#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "report/diagnostics_text.h"
#include "report/figures/figures.h"
#include "report/html/headline.h"
#include "report/html/packed.h"
#include "report/html/page_data.h"
#include "report/html/page_files.h"
#include "report/output.h"
#include "report/renderers/renderers.h"
#include "report/style.h"
#include "report/table_text.h"

namespace shardplan {
namespace {

// Widths of figures on wide and narrow screens; the style sheet shows one.
constexpr double kWide = 580;
constexpr double kNarrow = 320;
// Findings of one code that are shown in full, and all findings of a page.
constexpr int64_t kInFull = 5;
constexpr int64_t kMostFindings = 500;
constexpr int64_t kMostRows = 1000;  // of a table
// Bytes of the table of all parameters: a browser opens no more in good time.
constexpr size_t kMostData = size_t{256} << 20U;

std::string escaped(std::string_view text) { return xml_text(printable(text)); }

// Returns a sentence with what is in backticks as code.
std::string prose(std::string_view text) {
  const std::string shown = printable(text);
  std::string out;
  size_t at = 0;
  while (at < shown.size()) {
    const size_t begin = shown.find('`', at);
    const size_t end =
        begin == std::string::npos ? begin : shown.find('`', begin + 1);
    if (end == std::string::npos) break;
    out +=
        xml_text(std::string_view(shown).substr(at, begin - at)) + "<code>" +
        xml_text(std::string_view(shown).substr(begin + 1, end - begin - 1)) +
        "</code>";
    at = end + 1;
  }
  return out + xml_text(std::string_view(shown).substr(at));
}

std::string_view page_file(std::string_view path) {
  for (const PageFile& file : page_files()) {
    if (file.path == path) return file.text;
  }
  throw InternalError("the page has no " + std::string(path));
}

constexpr std::string_view tone_class(Tone tone) {
  switch (tone) {
    case Tone::Good:
      return "good";
    case Tone::Doubtful:
      return "doubtful";
    case Tone::Bad:
      return "bad";
    case Tone::Plain:
      break;
  }
  return "plain";
}

class HtmlPage {
 public:
  HtmlPage(const Report& report, const Style& style, Output& out)
      : report_(report), style_(style), out_(out) {}

  void write() {
    head();
    header();
    put("<main id=\"answer\">\n");
    if (report_.diagnostics_are_the_answer) findings();
    figures();
    if (!report_.diagnostics_are_the_answer) findings();
    notes();
    tables();
    parameters();
    put("</main>\n");
    script();
    put("</body>\n</html>\n");
    out_.finish();
  }

 private:
  void put(std::string_view text) {
    out_.buffer() += text;
    out_.drain();
  }

  std::string title() const {
    std::string text = "shardplan " + report_.command;
    if (!report_.headline.empty()) text += ": " + report_.headline.front();
    return text;
  }

  void head() {
    put("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta "
        "charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
        "'none'; style-src 'unsafe-inline'; script-src '" +
        script_hash(page_file("page.js")) +
        "'\">\n<meta name=\"viewport\" content=\"width=device-width, "
        "initial-scale=1\">\n<title>" +
        escaped(title()) + "</title>\n<style>\n");
    put(page_file("page.css"));
    put("</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#answer\">Skip to "
        "the report</a>\n");
  }

  void header() {
    put("<header>\n<p class=\"tool\">shardplan " + escaped(report_.command) +
        "</p>\n<h1>");
    bool is_first = true;
    const std::vector<Answer> answers = answers_of(report_);
    for (const Answer& answer : answers) {
      put(is_first ? "" : " ");
      is_first = false;
      put("<span class=\"" + std::string(tone_class(answer.tone)) + "\">" +
          escaped(answer.text) + "</span>");
    }
    if (answers.empty()) put(escaped(title()));
    put("</h1>\n");
    for (const std::string& line : report_.headline) {
      put("<p class=\"line\">" + prose(line) + "</p>\n");
    }
    const std::vector<KeyNumber> numbers = key_numbers_of(report_, style_);
    if (!numbers.empty()) {
      put("<dl class=\"numbers\">\n");
      for (const KeyNumber& number : numbers) {
        put("<div><dt>" + escaped(number.name) + "</dt><dd>" +
            escaped(number.value) +
            (number.range.empty()
                 ? ""
                 : "<small>" + escaped(number.range) + "</small>") +
            "</dd></div>\n");
      }
      put("</dl>\n");
    }
    put("<button type=\"button\" id=\"theme\" hidden>Dark or light</button>\n"
        "</header>\n");
  }

  void heading(std::string_view id, std::string_view text) {
    put("<section aria-labelledby=\"" + std::string(id) + "\">\n<h2 id=\"" +
        std::string(id) + "\">" + std::string(text) + "</h2>\n");
  }

  void figures() {
    if (report_.figures.empty()) return;
    heading("figures", "Figures");
    put("<div class=\"figures\">\n");
    for (const Figure& figure : report_.figures) {
      const FigureData data = figure.make();
      put("<figure id=\"figure-" + escaped(figure.name) + "\">\n<figcaption>" +
          escaped(figure.title) + "</figcaption>\n");
      for (const double width : {kWide, kNarrow}) {
        put(width == kWide ? "<div class=\"wide\">" : "<div class=\"narrow\">");
        put(svg_of(data, {figure.title, false, width}));
        put("</div>\n");
      }
      put("</figure>\n");
    }
    put("</div>\n</section>\n");
  }

  void findings() {
    if (report_.diagnostics == nullptr || report_.diagnostics->all().empty()) {
      return;
    }
    const auto& all = report_.diagnostics->all();
    heading("findings", "Findings");
    int64_t of_code = 0;
    int64_t shown = 0;
    bool is_open = false;  // a list of further findings of one code
    const Diagnostic* before = nullptr;
    for (const Diagnostic& diagnostic : all) {
      const bool same = before != nullptr && before->code == diagnostic.code &&
                        before->severity == diagnostic.severity;
      of_code = same ? of_code + 1 : 1;
      if (is_open && !same) put("</details>\n");
      is_open = is_open && same;
      if (++shown > kMostFindings) break;
      if (of_code == kInFull + 1) {
        put("<details><summary>more of " + code_id(diagnostic.code) +
            "</summary>\n");
        is_open = true;
      }
      finding(diagnostic);
      before = &diagnostic;
    }
    if (is_open) put("</details>\n");
    if (std::ssize(all) > kMostFindings) {
      put("<p>" + count_text(std::ssize(all) - kMostFindings) +
          " more findings are in the JSON report.</p>\n");
    }
    put("</section>\n");
  }

  void finding(const Diagnostic& diagnostic) {
    const std::string severity(severity_name(diagnostic.severity));
    put("<article class=\"finding " + severity +
        "\">\n<h3><span class=\"badge\">" + severity +
        "</span> <span class=\"code\">" + code_id(diagnostic.code) +
        "</span> " + prose(diagnostic.message) + "</h3>\n");
    const std::string places = places_text(diagnostic, style_);
    if (!places.empty()) {
      put("<pre tabindex=\"0\">" + xml_text(places) + "</pre>\n");
    }
    if (const auto facts = facts_of(diagnostic); !facts.empty()) {
      put("<ul>\n");
      for (const std::string& fact : facts) {
        put("<li>" + prose(fact) + "</li>\n");
      }
      put("</ul>\n");
    }
    for (const std::string& help : diagnostic.help) {
      put("<p class=\"help\"><strong>help</strong> " + prose(help) + "</p>\n");
    }
    put("</article>\n");
  }

  // People see the rules where they can see what each of them decides.
  bool is_shown(const Table& table) const {
    return table.audience != Audience::Programs ||
           (table.id == "rules" && named_table(report_) != nullptr);
  }

  void tables() {
    const bool any = std::ranges::any_of(
        report_.tables, [&](const Table& table) { return is_shown(table); });
    if (!any) return;
    heading("tables", "Tables");
    for (const Table& table : report_.tables) {
      if (is_shown(table)) this->table(table);
    }
    put("</section>\n");
  }

  static std::string title_of(const Table& table) {
    if (!table.title.empty()) return table.title;
    std::string text = table.id;
    std::ranges::replace(text, '_', ' ');
    return text;
  }

  // Returns which columns a table has a value in.
  static std::vector<bool> used_columns(const Table& table, int64_t& rows) {
    std::vector<bool> used(table.columns.size());
    table.rows([&](std::span<const Cell> row) {
      ++rows;
      for (size_t i = 0; i < row.size(); ++i) {
        const auto* text = std::get_if<std::string>(&row[i]);
        const bool is_empty = std::holds_alternative<std::monostate>(row[i]) ||
                              (text != nullptr && text->empty());
        used[i] = used[i] || !is_empty;
      }
    });
    return used;
  }

  void table(const Table& table) {
    int64_t rows = 0;
    const std::vector<bool> used = used_columns(table, rows);
    if (rows == 0) return;
    const bool folds = table.folded || table.id == "rules" || rows > 40;
    put(folds ? "<details class=\"table\"><summary>"
              : "<details class=\"table\" open><summary>");
    put(escaped(title_of(table)) +
        "</summary>\n<div class=\"scroll\" "
        "tabindex=\"0\" role=\"region\" aria-label=\"" +
        escaped(title_of(table)) + "\"><table>\n");
    const bool has_titles = std::ranges::any_of(
        table.columns,
        [](const Column& column) { return !column.title.empty(); });
    put("<thead" + std::string(has_titles ? "" : " class=\"unseen\"") +
        "><tr>");
    for (size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) continue;
      const Column& column = table.columns[i];
      std::string name = column.title.empty() ? column.id : column.title;
      std::ranges::replace(name, '_', ' ');
      // A column without a title has one for those who hear the table.
      put(std::string("<th scope=\"col\"") +
          (column.align == Align::Right ? " class=\"right\">" : ">") +
          (column.title.empty()
               ? "<span class=\"unseen\">" + escaped(name) + "</span>"
               : escaped(name)) +
          "</th>");
    }
    put("</tr></thead>\n<tbody>\n");
    int64_t written = 0;
    table.rows([&](std::span<const Cell> row) {
      if (++written > kMostRows) return;
      put("<tr>");
      for (size_t i = 0; i < row.size(); ++i) {
        if (used[i]) cell(row[i], table.columns[i]);
      }
      put("</tr>\n");
    });
    put("</tbody>\n");
    if (table.footer) {
      put("<tfoot><tr>");
      for (size_t i = 0; i < table.footer->size(); ++i) {
        if (used[i]) cell((*table.footer)[i], table.columns[i]);
      }
      put("</tr></tfoot>\n");
    }
    put("</table></div>\n");
    if (rows > kMostRows) {
      put("<p>" + count_text(rows - kMostRows) +
          " more rows are in the JSON report.</p>\n");
    }
    put("</details>\n");
  }

  void cell(const Cell& cell, const Column& column) {
    std::string text;
    std::string kind = column.align == Align::Right ? "right" : "";
    if (const auto* bar = std::get_if<Bar>(&cell)) {
      const auto percent =
          static_cast<int>(100 * std::clamp(bar->fraction, 0.0, 1.0) + 0.5);
      text = "<span class=\"bar\" style=\"width:" + std::to_string(percent) +
             "%\"></span>";
      kind = "share";
    } else if (!std::holds_alternative<std::monostate>(cell)) {
      const bool is_prose = std::holds_alternative<Prose>(cell);
      const std::string shown = cell_text(cell, style_);
      text = is_prose && !column.elastic ? prose(shown) : escaped(shown);
      if (column.elastic) kind = "name";
      if (column.tone != nullptr) {
        kind += " " + std::string(tone_class(column.tone(shown)));
      }
    }
    put((kind.empty() ? "<td>" : "<td class=\"" + kind + "\">") + text +
        "</td>");
  }

  void parameters() {
    if (named_table(report_) == nullptr) return;
    heading("parameters", "Parameters");
    const std::string data = page_data(report_, style_);
    if (data.size() > kMostData) {
      put("<p>There are too many parameters to search in a page. "
          "<code>shardplan resolve</code> prints them.</p>\n");
      table(alike_table(report_));
      put("</section>\n");
      return;
    }
    data_ = packed(data);
    put("<div id=\"plain\">\n");
    table(alike_table(report_));
    put("</div>\n<div id=\"explorer\" hidden></div>\n</section>\n");
  }

  void notes() {
    if (report_.closing.empty() && report_.notes.empty() &&
        !report_.next_step) {
      return;
    }
    heading("notes", "In words");
    put("<ul class=\"notes\">\n");
    for (const auto* lines : {&report_.closing, &report_.notes}) {
      for (const std::string& line : *lines) {
        put("<li>" + prose(line) + "</li>\n");
      }
    }
    put("</ul>\n");
    if (report_.next_step) put("<p>" + prose(*report_.next_step) + "</p>\n");
    put("</section>\n");
  }

  void script() {
    if (!data_.empty()) {
      put("<script type=\"application/octet-stream\" id=\"data\">");
      put(data_);
      put("</script>\n");
    }
    put("<script>");
    put(page_file("page.js"));
    put("</script>\n");
  }

  const Report& report_;
  const Style& style_;
  Output& out_;
  std::string data_;  // packed; "" if the page has no table of all parameters
};

}  // namespace

void render_html(const Report& report, const Style& style,
                 const TextSink& sink) {
  // A page does not have a terminal's limits.
  Style plain;
  plain.exact = style.exact;
  Output out(sink);
  HtmlPage(report, plain, out).write();
}

}  // namespace shardplan
