// SPDX-License-Identifier: Apache-2.0
#include "report/report.h"

#include <algorithm>
#include <array>
#include <memory>

#include "report/renderers/renderers.h"

namespace shardplan {

std::function<void(const RowSink&)> rows_of(std::vector<Row> rows) {
  // Shared: a std::function is copied, and tables can be long.
  const auto kept = std::make_shared<const std::vector<Row>>(std::move(rows));
  return [kept](const RowSink& sink) {
    for (const Row& row : *kept) sink(row);
  };
}

std::span<const Renderer> renderers() {
  static constexpr std::array<Renderer, 6> kRenderers = {{
      {"text", "for people, at a terminal", true, render_text},
      {"json", "everything, for programs", false, render_json},
      {"markdown", "tables and findings for pages and step summaries", false,
       render_markdown},
      {"csv", "the tables, for spreadsheets and scripts", true, render_csv},
      {"concise", "one line per finding, as editors parse them", false,
       render_concise},
      {"github", "annotations for GitHub Actions", false, render_github},
  }};
  return kRenderers;
}

const Renderer* find_renderer(std::string_view name) {
  const auto all = renderers();
  const auto found = std::find_if(
      all.begin(), all.end(),
      [&](const Renderer& renderer) { return renderer.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace shardplan
