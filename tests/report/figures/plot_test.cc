// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <regex>

#include <doctest/doctest.h>

#include "report/figures/figures.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

std::string svg_text(const Plot& plot) {
  return svg_of(plot, {.title = plot.title});
}

Plot small() {
  return {"Errors",
          "layer",
          "relative error",
          {"0", "1"},
          {{"unsharded", {0.001, 0.002}}, {"tp=4", {0.0012, 0.004}}}};
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

TEST_CASE("plot: a plot of two lines") {
  CHECK(
      svg_text(small()) ==
      R"svg(<svg xmlns="http://www.w3.org/2000/svg" width="758" height="456" viewBox="0 0 758 456" role="img" font-family="system-ui, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif" fill="#222222">
<title>Errors</title>
<rect width="100%" height="100%" rx="6" fill="#fbfbf9"/>
<text x="76.0" y="26.0" text-anchor="start" font-size="15" font-weight="600">Errors</text>
<g stroke="#d9d9d4">
<path d="M76.0 392.0H636.0"/>
<path d="M76.0 292.7H636.0"/>
<path d="M76.0 193.3H636.0"/>
<path d="M76.0 62.0H636.0"/>
</g>
<text x="68.0" y="396.0" text-anchor="end" font-size="12">5e-4</text>
<text x="68.0" y="296.7" text-anchor="end" font-size="12">1e-3</text>
<text x="68.0" y="197.3" text-anchor="end" font-size="12">2e-3</text>
<text x="68.0" y="66.0" text-anchor="end" font-size="12">5e-3</text>
<path d="M76.0 62.0V392.0H636.0" fill="none" stroke="#555555"/>
<path d="M216.0 392.0v5" stroke="#555555"/>
<text x="216.0" y="412.0" text-anchor="middle" font-size="12">0</text>
<path d="M496.0 392.0v5" stroke="#555555"/>
<text x="496.0" y="412.0" text-anchor="middle" font-size="12">1</text>
<text x="356.0" y="434.0" text-anchor="middle" font-size="12">layer</text>
<text x="18.0" y="227.0" text-anchor="middle" font-size="12" transform="rotate(-90 18 227.0)">relative error (log scale)</text>
<path d="M216.0 292.7L496.0 193.3" fill="none" stroke-width="2" stroke-linejoin="round" stroke="#0072b2"/>
<path d="M213.0 292.7a3 3 0 1 0 6 0a3 3 0 1 0 -6 0zM493.0 193.3a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z" fill="#0072b2"/>
<path d="M216.0 266.5L496.0 94.0" fill="none" stroke-width="2" stroke-linejoin="round" stroke="#d55e00"/>
<path d="M213.0 266.5a3 3 0 1 0 6 0a3 3 0 1 0 -6 0zM493.0 94.0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z" fill="#d55e00"/>
<path d="M500.0 94.0L658.0 94.0H672.0" fill="none" stroke-opacity="0.6" stroke="#d55e00"/>
<text x="676.0" y="98.0" text-anchor="start" font-size="12">tp=4</text>
<path d="M500.0 193.3L658.0 193.3H672.0" fill="none" stroke-opacity="0.6" stroke="#0072b2"/>
<text x="676.0" y="197.3" text-anchor="start" font-size="12">unsharded</text>
</svg>
)svg");
}

TEST_CASE("plot: texts cannot break out of their elements") {
  Plot plot = small();
  plot.title = "a < b & \"c\" > d";
  plot.series[0].name = "</text><script>";
  plot.x_labels[0] = "\x1b[2J\xff";
  const std::string text = svg_text(plot);
  CHECK(text.find("a &lt; b &amp; &quot;c&quot; &gt; d</text>") !=
        std::string::npos);
  CHECK(text.find("&lt;/text&gt;&lt;script&gt;") != std::string::npos);
  CHECK(text.find("<script") == std::string::npos);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find('\xff') == std::string::npos);
}

TEST_CASE("plot: what a logarithm has no place for is marked at the border") {
  Plot plot = small();
  const std::string plain = svg_text(plot);
  CHECK(plain.find("triangles") == std::string::npos);
  plot.x_labels.assign(6, "x");
  plot.series = {{"a", {0, 1e-3, 1e-3, std::nan(""), kInf, 1e-3}}};
  const std::string text = svg_text(plot);
  CHECK(count(text, "h8l-4 7z") == 1);   // 0, pointing down
  CHECK(count(text, "h8l-4 -7z") == 1);  // infinite, pointing up
  CHECK(text.find("triangles at the border") != std::string::npos);
  // One line of two points; the last point stands alone, with its own marker.
  std::smatch path;
  REQUIRE(std::regex_search(text, path,
                            std::regex("<path d=\"(M[^\"]*)\" fill=\"none\" "
                                       "stroke-width=\"2\"")));
  CHECK(count(path[1], "M") == 2);
  CHECK(count(path[1], "L") == 1);
}

TEST_CASE("plot: many layers have fewer labels and no markers") {
  Plot plot{"t", "x", "y", {}, {{"a", {}}}};
  for (int i = 0; i < 100; ++i) {
    plot.x_labels.push_back("layer " + std::to_string(i));
    plot.series[0].points.push_back(1e-3 * (i + 1));
  }
  const std::string text = svg_text(plot);
  CHECK(count(text, ">layer ") == 5);  // every twentieth
  CHECK(count(text, "a3 3 0") == 0);
}

TEST_CASE("plot: nothing to show is a plot too") {
  CHECK(svg_text({}).find("</svg>") != std::string::npos);
  const Plot empty{"t", "x", "y", {}, {{"a", {}}}};
  CHECK(svg_text(empty).find(">a</text>") != std::string::npos);
}

struct Box {
  double width = 0;
  double height = 0;
};

// Every pair of absolute coordinates: x="..", y="..", M and L of paths.
bool all_inside(const std::string& text) {
  std::smatch found;
  if (!std::regex_search(text, found,
                         std::regex("viewBox=\"0 0 ([0-9]+) ([0-9]+)\""))) {
    return false;
  }
  const Box box{std::stod(found[1]), std::stod(found[2])};
  if (text.find("nan") != std::string::npos ||
      text.find("inf ") != std::string::npos) {
    return false;
  }
  static const std::regex kPair(
      "(?:x=\"|[ML])(-?[0-9.]+)(?:\" y=\"| )(-?[0-9.]+)");
  int pairs = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), kPair), end; it != end;
       ++it, ++pairs) {
    const double x = std::stod((*it)[1]);
    const double y = std::stod((*it)[2]);
    if (!(x >= 0 && x <= box.width && y >= 0 && y <= box.height)) return false;
  }
  return pairs > 0;
}

double any_height() {
  switch (draw_of({0, 1, 2})) {
    case 0:
      return draw_of({0.0, kInf, -1.0, std::nan(""), 5e-324,
                      std::numeric_limits<double>::max()});
    case 1:
      return draw_in(1, 1000) * 1e-5;
    default:
      return std::pow(10.0, draw_in(-320, 309));
  }
}

TEST_CASE("plot: whatever the numbers, all is inside the view box") {
  CHECK(holds([] {
    const int labels = draw_in(0, 30);
    Plot plot{"t", "x", "y", {}, {}};
    for (int i = 0; i < labels; ++i) {
      plot.x_labels.push_back(std::to_string(i));
    }
    const int series = draw_in(0, 12);
    for (int s = 0; s < series; ++s) {
      plot.series.push_back({"s", {}});
      for (int i = 0; i < labels; ++i) {
        plot.series.back().points.push_back(any_height());
      }
    }
    const std::string text = svg_text(plot);
    ENSURE(all_inside(text));
    ENSURE(text == svg_text(plot));
  }));
}

// The numbers that the ticks of the y axis show, from bottom to top.
std::vector<double> ticks(const std::string& text) {
  std::vector<double> result;
  static const std::regex kTick(
      "text-anchor=\"end\" font-size=\"12\">([^<]+)</text>");
  for (std::sregex_iterator it(text.begin(), text.end(), kTick), end; it != end;
       ++it) {
    result.push_back(std::stod((*it)[1]));
  }
  return result;
}

TEST_CASE("plot: ticks are few, round and around all points") {
  CHECK(holds([] {
    const double low = draw_in(1, 1000) * std::pow(10.0, draw_in(-30, 10));
    const double high = low * std::pow(1.5, draw_in(0, 60));
    const std::vector<double> shown =
        ticks(svg_text({"", "", "", {"a", "b"}, {{"s", {low, high}}}}));
    ENSURE(shown.size() >= 2);
    ENSURE(shown.size() <= 12);
    ENSURE(shown.front() <= low * (1 + 1e-9));
    ENSURE(shown.back() * (1 + 1e-9) >= high);
  }));
  const std::vector<double> expected = {0.0005, 0.001, 0.002, 0.005};
  CHECK(ticks(svg_text(small())) == expected);
}

}  // namespace
}  // namespace shardplan
