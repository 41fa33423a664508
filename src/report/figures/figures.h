// SPDX-License-Identifier: Apache-2.0
// Draws figures: as lines for a terminal, as SVG, as JSON.
//
// The same figure gives the same bytes on every machine. Names from files may
// contain anything: what is not printable is shown as escapes, and markup is
// escaped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/figure.h"
#include "report/report.h"

namespace shardplan {

// Returns "bars", "plot", ...
std::string_view kind_of(const FigureData& figure);

// Returns lines of at most style.width columns, as far as the figure can be
// that narrow. With Style::expand nothing is omitted.
std::vector<std::string> lines_of(const FigureData& figure, const Style& style);

// The place of an SVG drawing.
struct SvgPlace {
  std::string_view title;
  // A file of its own, with title, background and colours. Otherwise it is part
  // of a page, whose style sheet has the colours.
  bool is_alone = true;
  double width = 640;  // in units of the view box, about a pixel each
};
std::string svg_of(const FigureData& figure, const SvgPlace& place);

// Appends the members of the figure's JSON object, each after a comma: its
// kind, and the numbers that it shows.
void append_figure_json(std::string& out, const FigureData& figure);

// One pair of functions per kind; in the files of their names.
std::vector<std::string> lines_of(const Bars& bars, const Style& style);
std::vector<std::string> lines_of(const Treemap& map, const Style& style);
std::vector<std::string> lines_of(const MeshDiagram& mesh, const Style& style);
std::vector<std::string> lines_of(const Plot& plot, const Style& style);
std::vector<std::string> lines_of(const ShardMap& map, const Style& style);
std::vector<std::string> lines_of(const StepChart& chart, const Style& style);
std::vector<std::string> lines_of(const ChangeList& list, const Style& style);
std::string svg_of(const Bars& bars, const SvgPlace& place);
std::string svg_of(const Treemap& map, const SvgPlace& place);
std::string svg_of(const MeshDiagram& mesh, const SvgPlace& place);
// REQUIRES: every series has one point per label.
std::string svg_of(const Plot& plot, const SvgPlace& place);

// Returns a different letter for each name: one of its own, if one is left.
std::string letters_of(const std::vector<std::string>& names);

// Returns "29.3 MiB", "1.20 s" or "0.0012".
std::string amount_text(double value, AmountUnit unit);

}  // namespace shardplan
