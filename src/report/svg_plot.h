// SPDX-License-Identifier: Apache-2.0
// A plot of positive numbers over labelled places, as one self-contained SVG
// file: it needs no external fonts, styles or scripts, and has its own
// background, so that it looks the same on light and dark pages.
//
// The y axis is logarithmic. Numbers that it cannot show have their own signs:
// 0 is a triangle at the lower border, infinity one at the upper border, and
// NaN or a negative number a gap. The same plot gives the same bytes on every
// machine.
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

// Returns the SVG file. Texts may contain anything: XML's special characters
// are escaped, and characters that are not printable are shown as escapes.
//
// REQUIRES: every series has one point per label.
std::string svg_text(const Plot& plot);

}  // namespace shardplan
