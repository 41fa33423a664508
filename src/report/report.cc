// SPDX-License-Identifier: Apache-2.0
#include "report/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "base/words.h"
#include "report/renderers/renderers.h"

namespace shardplan {

Column left(std::string key, std::optional<std::string> title) {
  if (!title) {
    title = key;
    std::ranges::replace(*title, '_', ' ');
  }
  return {std::move(key), *std::move(title)};
}

Column right(std::string key, std::optional<std::string> title) {
  Column column = left(std::move(key), std::move(title));
  column.align = Align::Right;
  return column;
}

Column elastic(std::string key, std::optional<std::string> title) {
  Column column = left(std::move(key), std::move(title));
  column.elastic = true;
  return column;
}

Column below(std::string key, std::optional<std::string> title) {
  Column column = left(std::move(key), std::move(title));
  column.below = true;
  return column;
}

Cell text_cell(std::string_view text) {
  return text.empty() ? Cell() : Cell(std::string(text));
}

Cell ratio_cell(double number) {
  return std::isfinite(number) ? Cell(Ratio{number}) : Cell();
}

std::function<void(const RowSink&)> rows_of(std::vector<Row> rows) {
  // The rows are shared, because a std::function is copied and tables can be
  // long.
  const auto kept = std::make_shared<const std::vector<Row>>(std::move(rows));
  return [kept](const RowSink& sink) {
    for (const Row& row : *kept) sink(row);
  };
}

std::function<void(const RowSink&)> rows_of_named(NamedRows named) {
  return [named = std::move(named)](const RowSink& sink) {
    std::vector<Row> rows = named.rests();
    named.each([&](std::string_view name, size_t rest) {
      std::get<std::string>(rows[rest].front()).assign(name);
      sink(rows[rest]);
    });
  };
}

std::span<const Renderer> renderers() {
  static constexpr std::array<Renderer, 10> kRenderers = {{
      {"text", "txt", "for reading in a terminal", true, true, false,
       render_text},
      {"json", "json", "everything, for scripts and programs", false, false,
       true, render_json},
      {"markdown", "md", "tables and findings for pages and step summaries",
       false, true, false, render_markdown},
      {"html", "html", "a page with figures, to read in a browser and pass on",
       false, true, false, render_html},
      {"svg", "svg", "the first figure (--plot writes the others)", true, true,
       false, render_svg},
      {"csv", "csv", "the tables, for spreadsheets and scripts", true, false,
       false, render_csv},
      {"concise", "", "one line per finding, for editors to parse", false,
       false, true, render_concise},
      {"github", "", "annotations for GitHub Actions", false, false, true,
       render_github},
      {"sarif", "sarif", "findings for code scanning, SARIF 2.1.0", false,
       false, true, render_sarif},
      {"junit", "xml", "findings as test results for CI servers", false, false,
       true, render_junit},
  }};
  return kRenderers;
}

const Renderer* find_renderer(std::string_view name) {
  return find_named(renderers(), name);
}

Place place_of(Span where) {
  const Position begin = where.file->position(where.begin);
  const std::string_view line = where.file->line(begin.line);
  const auto line_begin =
      static_cast<uint64_t>(line.data() - where.file->text().data());
  const uint64_t end = std::clamp(
      where.end, where.begin, std::max(where.begin, line_begin + line.size()));
  return {begin.line, begin.column, where.file->position(end).column};
}

bool is_flag(const SourceFile& file) { return file.name().starts_with("--"); }

bool is_in_file(const Report& report, const Label& label) {
  if (!label.where) return false;
  const std::string& name = label.where.file->name();
  return !name.starts_with("-") && !name.starts_with("<") &&
         (!report.is_there || report.is_there(name));
}

const Label* place_in_file(const Report& report, const Diagnostic& diagnostic) {
  const Label* label = main_label(diagnostic);
  return label != nullptr && is_in_file(report, *label) ? label : nullptr;
}

}  // namespace shardplan
