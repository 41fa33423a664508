// SPDX-License-Identifier: Apache-2.0
#include "report/figures/figures.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <regex>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

using nlohmann::json;
using testing::draw_in;
using testing::draw_of;
using testing::holds;

Bars memory_bars() {
  return {AmountUnit::Bytes,
          {"parameters", "gradients", "unused"},
          {{"at least", {1 << 30, 0, 0}}, {"at most", {1 << 30, 3U << 30U, 0}}},
          {},
          FigureLimit{"limit", double{2U << 30U}}};
}

Treemap small_map() {
  return {{"fsdp", "replicated"},
          {{"model.layers.*.mlp.up.weight", 4, 600, 0, "P(fsdp)"},
           {"model.layers.*.mlp.down.weight", 4, 300, 0, ""},
           {"model.norm.weight", 1, 100, 1, ""}}};
}

MeshDiagram small_mesh() {
  return {{{"dp", 2}, {"tp", 4}, {"sp", 1}},
          true,
          {{{1}, "tp", "nvlink", 4e9, 0.5, 0.25},
           {{0, 1}, "dp,tp", "infiniband", 1e6, 0.001, 0.001}}};
}

Plot areas() {
  Plot plot;
  plot.title = "Memory";
  plot.x_labels = {"loss", "layer 1", "layer 0"};
  plot.series = {{"state", {4e9, 4e9, 4e9}},
                 {"activations", {8e9, 4e9, 0}},
                 {"at most", {13e9, 9e9, 5e9}}};
  plot.unit = AmountUnit::Bytes;
  plot.is_linear = true;
  plot.stacked = 2;
  plot.limit = FigureLimit{"limit", 16e9};
  return plot;
}

ShardMap small_shards() {
  auto slices = std::make_shared<DeviceSlices>();
  slices->slices = {{{0, 8}, {8, 16}}};
  slices->padding = {{0, 0}};
  slices->devices = {{0, 2}, {1, 3}};
  return {slices};
}

std::vector<FigureData> one_of_each() {
  return {memory_bars(),
          small_map(),
          small_mesh(),
          areas(),
          small_shards(),
          StepChart{{{{"0 → 1"}, {"1 → 0"}}}, 2},
          ChangeList{{{"`a` is new", "x:1", "P(tp)"}}}};
}

Style style_of(int width, bool unicode = true) {
  return {.width = width, .unicode = unicode};
}

using Lines = std::vector<std::string>;

TEST_CASE("figures: bars share a scale with their limit") {
  CHECK(lines_of(memory_bars(), style_of(44)) ==
        Lines{"at least  1.00 GiB  PPPPPP",
              "at most   4.00 GiB  PPPPPPGGGGGGGGGGGGGGGGG",
              "limit     2.00 GiB             |", "P parameters, G gradients"});
  const Bars one = {AmountUnit::Seconds, {"time"}, {{"a", {2}}, {"b", {1e-6}}}};
  CHECK(lines_of(one, style_of(30, false)) ==
        Lines{"a   2.00 s  =================", "b  1.00 µs  ="});
}

TEST_CASE("figures: a treemap lists modules by size, and leaves out none") {
  const Lines lines = lines_of(small_map(), style_of(90));
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].starts_with("model.layers.*.mlp.up.weight"));
  CHECK(lines[2].starts_with("model.norm.weight"));
  CHECK(lines[2].find("100 B") != std::string::npos);
}

TEST_CASE("figures: a mesh says what is sent along each axis") {
  const Lines lines = lines_of(small_mesh(), style_of(90));
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].starts_with("dp=2"));
  CHECK(lines[0].find("nothing sent along it alone") != std::string::npos);
  CHECK(lines[1].find("3.73 GiB, 500 ms (250 ms exposed)") !=
        std::string::npos);
  CHECK(lines[2].starts_with("dp=2, tp=4"));
}

TEST_CASE("figures: areas are letters, and lines on top of one another share") {
  const Lines lines = lines_of(areas(), style_of(80));
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  CHECK(all.find("SSS") != std::string::npos);
  CHECK(all.find("AAA") != std::string::npos);
  CHECK(all.find("S state, A activations") != std::string::npos);
  CHECK(all.find("- limit 14.9 GiB") != std::string::npos);

  Plot twins;
  twins.x_labels = {"0", "1", "2"};
  twins.series = {{"a", {1, 2, 3}}, {"b", {1, 2, 3}}, {"c", {3, 2, 1}}};
  all.clear();
  for (const std::string& line : lines_of(twins, style_of(40, false))) {
    all += line + "\n";
  }
  CHECK(all.find('*') != all.rfind('*', all.find("* a") - 1));
  const std::string svg = svg_of(twins, {.title = "twins"});
  CHECK(svg.find("stroke-dasharray=\"8 8\" stroke-dashoffset=\"-0\"") !=
        std::string::npos);
  CHECK(svg.find("stroke-dasharray=\"8 8\" stroke-dashoffset=\"-8\"") !=
        std::string::npos);
}

TEST_CASE("figures: a narrow terminal loses no peak") {
  for (const size_t stacked : {size_t{0}, size_t{1}}) {
    for (size_t peak = 0; peak < 200; peak += 7) {
      Plot plot;
      plot.is_linear = true;
      plot.stacked = stacked;
      plot.x_labels.resize(200);
      plot.series = {{"s", std::vector<double>(200, 1.0)}};
      plot.series[0].points[peak] = 100;
      const Lines lines = lines_of(plot, style_of(40, false));
      const bool is_drawn = std::any_of(
          lines.begin(), lines.begin() + 5, [](const std::string& line) {
            return line.find_first_of("*S") != std::string::npos;
          });
      CHECK(is_drawn);
    }
  }
}

TEST_CASE("figures: each kind is a drawing, alone and in a page, and JSON") {
  for (const FigureData& figure : one_of_each()) {
    CAPTURE(kind_of(figure));
    CHECK(!lines_of(figure, style_of(80)).empty());
    const std::string alone = svg_of(figure, {.title = "T <1>"});
    CHECK(alone.starts_with("<svg xmlns="));
    CHECK(alone.find("<title>T &lt;1&gt;</title>") != std::string::npos);
    CHECK(alone.find("class=") == std::string::npos);
    for (const double width : {320.0, 580.0}) {
      const std::string part = svg_of(figure, {"T <1>", false, width});
      CHECK(part.starts_with("<svg class=\"figure\""));
      CHECK(part.find("aria-label=\"T &lt;1&gt;") != std::string::npos);
      CHECK(part.find("fill=\"#") == std::string::npos);
      CHECK(part.find("nan") == std::string::npos);
    }
    std::string text = "{\"name\": \"x\"";
    append_figure_json(text, figure);
    const json parsed = json::parse(text + "}");
    CHECK(parsed.at("kind") == kind_of(figure));
    CHECK(parsed.size() > 2);
  }
}

// What could be markup, or act on a terminal.
constexpr const char* kHostile = "</text><script>&\"'\x1b[2J\xff`";

TEST_CASE("figures: names cannot break out") {
  Bars bars = memory_bars();
  bars.bars[0].label = bars.parts[0] = kHostile;
  bars.limit->label = kHostile;
  Treemap map = small_map();
  map.leaves[0].path = map.groups[0] = kHostile;
  MeshDiagram mesh = small_mesh();
  mesh.axes[0].name = mesh.uses[0].link = kHostile;
  Plot plot = areas();
  plot.series[0].name = plot.x_labels[0] = plot.title = kHostile;
  for (const FigureData& figure :
       {FigureData(bars), FigureData(map), FigureData(mesh), FigureData(plot),
        FigureData(ChangeList{{{kHostile, kHostile, kHostile}}})}) {
    CAPTURE(kind_of(figure));
    for (const bool alone : {true, false}) {
      const std::string svg = svg_of(figure, {kHostile, alone, 580});
      CHECK(svg.find("<script") == std::string::npos);
      CHECK(svg.find('\x1b') == std::string::npos);
      CHECK(is_valid_utf8(svg));
    }
    std::string text = "{\"name\": 1";
    append_figure_json(text, figure);
    CHECK(json::accept(text + "}"));
  }
}

std::vector<double> numbers_after(const std::string& text, const char* key) {
  std::vector<double> found;
  const std::regex pattern(std::string(" ") + key + "=\"(-?[0-9.]+)\"");
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end;
       it != end; ++it) {
    found.push_back(std::stod((*it)[1]));
  }
  return found;
}

TEST_CASE("figures: areas of a treemap are as large as their bytes") {
  CHECK(holds("areas", [] {
    Treemap map;
    map.groups = {"g"};
    const int count = draw_in(1, 40);
    double total = 0;
    for (int i = 0; i < count; ++i) {
      const int64_t bytes = draw_in(1, 100000);
      map.leaves.push_back({"p" + std::to_string(i), 1, bytes, 0, ""});
      total += static_cast<double>(bytes);
    }
    const std::string svg = svg_of(map, {.title = "t"});
    // The background has sizes in percent; the last one is of the legend.
    const std::vector<double> widths = numbers_after(svg, "width");
    const std::vector<double> heights = numbers_after(svg, "height");
    ENSURE(widths.size() == heights.size());
    double area = 0;
    for (size_t i = 1; i + 1 < widths.size(); ++i) {
      ENSURE(widths[i] >= 0 && heights[i] >= 0);
      area += (widths[i] + 1) * (heights[i] + 1);
    }
    // Rectangles are drawn a unit smaller than they are, down to a point.
    ENSURE(std::abs(area / (600 * 600 * 0.62) - 1) < 0.1 + count * 0.002);
    ENSURE(total > 0);
  }));
}

TEST_CASE("figures: lines are as wide as the terminal, whatever it is") {
  CHECK(holds("widths", [] {
    const int width = draw_in(40, 160);
    Bars bars;
    bars.parts = {"a", "b"};
    const int count = draw_in(0, 40);
    for (int i = 0; i < count; ++i) {
      bars.bars.push_back(
          {std::string(static_cast<size_t>(draw_in(0, 60)), 'x'),
           {draw_in(0, 1000) * 1e6, draw_in(0, 1000) * 1e6}});
    }
    if (draw_of({true, false})) bars.limit = FigureLimit{"limit", 5e8};
    Plot plot = areas();
    for (PlotSeries& series : plot.series) {
      for (double& point : series.points) point = draw_in(0, 1000) * 1e7;
    }
    for (const FigureData& figure : {FigureData(bars), FigureData(plot)}) {
      for (const std::string& line : lines_of(figure, style_of(width))) {
        ENSURE(display_width(line) <= width + 2);
        ENSURE(line.empty() || line.back() != ' ');
      }
    }
  }));
}

TEST_CASE("figures: a linear scale begins at 0 and reaches all points") {
  CHECK(holds("scale", [] {
    Plot plot = areas();
    plot.limit.reset();
    const double most = draw_in(1, 1000) * std::pow(10.0, draw_in(-6, 12));
    plot.unit =
        draw_of({AmountUnit::Bytes, AmountUnit::Seconds, AmountUnit::Number});
    for (PlotSeries& series : plot.series) {
      for (double& point : series.points) point = most * draw_in(0, 10) / 30;
    }
    const std::string svg = svg_of(plot, {.title = "t"});
    ENSURE(svg.find("nan") == std::string::npos);
    for (const double y : numbers_after(svg, "y")) {
      ENSURE(y >= 0 && y < 600);
    }
  }));
}

TEST_CASE("figures: a large mesh is drawn in part, and says so") {
  const MeshDiagram mesh = {{{"dp", 512}, {"fsdp", 64}, {"tp", 8}}};
  const std::string svg = svg_of(mesh, {.title = "mesh"});
  CHECK(svg.find("…") != std::string::npos);
  CHECK(svg.size() < 200'000);
  CHECK(svg.find("device 262143<") != std::string::npos);  // the last one
}

}  // namespace
}  // namespace shardplan
