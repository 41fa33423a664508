// SPDX-License-Identifier: Apache-2.0
// Svg: writes the elements of a drawing. SVG 1.1 (W3C, 2011) with basic shapes
// and text only.
//
// A drawing of its own has colours in its attributes, its own background and no
// style sheet, so that it looks the same everywhere. In a page, the same
// elements have classes instead, which src/report/html/page.css colours for
// light and dark.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/figures/figures.h"

namespace shardplan {

// The kind of a shape, which decides its colour.
enum class Ink : uint8_t { Text, Quiet, Grid, Axis, Limit, Empty };

// Average width of a character of font size 12.
inline constexpr double kCharacter = 6.8;
double text_width(std::string_view text, double font_size = 12);
// Shortens a printable text to a width.
std::string fitted(std::string_view text, double width, double font_size = 12);

// The colours of parts and series: those of Okabe and Ito (2008), which people
// with colour blindness can also distinguish, and twelve more. Series of plots
// use the first six and then dashes.
inline constexpr size_t kColours = 18;
inline constexpr size_t kLineColours = 6;

class Svg {
 public:
  explicit Svg(const SvgPlace& place) : place_(place) {}

  // Adds an element.
  void put(std::string_view element) { body_ += element; }
  // `shown` is printable; markup is escaped here.
  void text(double x, double y, const char* anchor, int size,
            std::string_view shown, std::string_view more = "");
  // The room that a drawing has: a file of its own has margins.
  double margin() const { return is_alone() ? 20 : 1; }
  double width() const { return place_.width - 2 * margin(); }
  // Draws the title of a file of its own, since a page has the title beside the
  // drawing. Returns the upper edge of what follows; `top` in a page.
  double head(double top);
  // A rectangle with a tooltip, which may be empty.
  void rect(double x, double y, double width, double height,
            std::string_view paint, std::string_view tooltip);
  // The names of some colours, in lines of at most `width`; returns the lower
  // edge.
  double legend(double x, double y, double width,
                const std::vector<size_t>& colours,
                const std::vector<std::string>& names);

  // Returns attributes.
  std::string fill(Ink ink) const { return paint("fill", ink); }
  std::string stroke(Ink ink) const { return paint("stroke", ink); }
  std::string fill(size_t colour) const { return paint("fill", colour); }
  std::string stroke(size_t colour) const { return paint("stroke", colour); }

  bool is_alone() const { return place_.is_alone; }

  // Returns the whole drawing. `description` is for screen readers.
  std::string finished(double width, double height,
                       std::string_view description = "") &&;

 private:
  std::string paint(std::string_view what, Ink ink) const;
  std::string paint(std::string_view what, size_t colour) const;

  SvgPlace place_;
  std::string body_;
};

}  // namespace shardplan
