// SPDX-License-Identifier: Apache-2.0
// A plot of positive numbers over a row of places, as one SVG file that needs
// nothing else: no fonts, styles or scripts from elsewhere, and a background of
// its own, so that it reads the same on light and dark pages.
//
// The y axis is logarithmic. What it cannot show is shown for what it is: a
// point of 0 as a triangle at the lower border, an infinite one at the upper
// border, and a NaN (or a negative number) as a gap. The same plot gives the
// same bytes everywhere.
#pragma once

#include <string>
#include <vector>

namespace shardplan {

struct PlotSeries {
  std::string name;
  std::vector<double> points;  // one per label of the x axis
};

struct Plot {
  std::string title;
  std::string x_title;
  std::string y_title;  // "(log scale)" is added
  std::vector<std::string> x_labels;
  std::vector<PlotSeries> series;
  std::string subtitle = {};  // what all series have in common
};

// Texts may hold anything: what is special in XML is escaped, what is not
// printable shown as its escape. REQUIRES: every series has one point per
// label.
std::string svg_text(const Plot& plot);

}  // namespace shardplan
