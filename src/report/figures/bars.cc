// SPDX-License-Identifier: Apache-2.0
// Bars: a label and an amount above each bar in SVG, beside it in text.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "report/figures/figures.h"
#include "report/figures/svg.h"
#include "report/style.h"
#include "report/table_text.h"

namespace shardplan {
namespace {

constexpr size_t kMostBars = 24;
constexpr double kBarHeight = 16;
constexpr double kBarStep = 44;  // from one bar to the next
constexpr int kLongestLabel = 40;

double total_of(const Bars::Bar& bar) {
  return std::accumulate(bar.values.begin(), bar.values.end(), 0.0);
}

// Returns the end of the scale.
double end_of(const Bars& bars) {
  double end = bars.limit ? bars.limit->value : 0;
  for (const Bars::Bar& bar : bars.bars) end = std::max(end, total_of(bar));
  return end > 0 ? end : 1;
}

std::string left_out_text(size_t left) {
  return "and " + count_text(static_cast<int64_t>(left)) + " more";
}

// Returns the parts that some bar has.
std::vector<size_t> used_parts(const Bars& bars) {
  std::vector<size_t> used;
  for (size_t part = 0; part < bars.parts.size(); ++part) {
    const bool is_used = std::ranges::any_of(
        bars.bars, [&](const Bars::Bar& bar) { return bar.values[part] > 0; });
    if (is_used) used.push_back(part);
  }
  return used;
}

size_t colour_of(const Bars& bars, size_t part) {
  return (bars.colours.empty() ? part : bars.colours[part]) % kColours;
}

}  // namespace

std::string letters_of(const std::vector<std::string>& names) {
  std::string letters;
  for (const std::string& name : names) {
    std::string candidates;
    for (const char c : name) {
      if (!is_letter(c)) continue;
      candidates += static_cast<char>(c >= 'a' ? c - 'a' + 'A' : c);
    }
    candidates += "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const size_t at = candidates.find_first_not_of(letters);
    letters += at == std::string::npos ? '*' : candidates[at];
  }
  return letters;
}

std::vector<std::string> lines_of(const Bars& bars, const Style& style) {
  const std::vector<size_t> used = used_parts(bars);
  std::vector<std::string> names;
  for (const size_t part : used) names.push_back(bars.parts[part]);
  const std::string letters = letters_of(names);
  const size_t count =
      style.expand ? bars.bars.size() : std::min(bars.bars.size(), kMostBars);
  int label_width = bars.limit ? display_width(bars.limit->label) : 0;
  int amount_width =
      bars.limit ? display_width(amount_text(bars.limit->value, bars.unit)) : 0;
  for (size_t i = 0; i < count; ++i) {
    const Bars::Bar& bar = bars.bars[i];
    label_width = std::max(label_width, display_width(printable(bar.label)));
    amount_width = std::max(
        amount_width, display_width(amount_text(total_of(bar), bars.unit)));
  }
  label_width =
      std::min({label_width, kLongestLabel, std::max(8, style.width * 2 / 5)});
  const int room = std::max(10, style.width - label_width - amount_width - 5);
  const double end = end_of(bars);
  const auto line = [&](std::string_view label, double amount,
                        const std::string& bar) {
    std::string text =
        pad(elide_middle(printable(label), label_width, style.unicode),
            label_width) +
        "  " + pad(amount_text(amount, bars.unit), amount_width, true);
    if (!bar.empty()) text += "  " + bar;
    return text;
  };
  std::vector<std::string> lines;
  for (size_t i = 0; i < count; ++i) {
    const Bars::Bar& bar = bars.bars[i];
    std::string drawn;
    for (size_t n = 0; n < used.size(); ++n) {
      const std::string glyph = used.size() == 1
                                    ? std::string(glyphs(style).block)
                                    : letters.substr(n, 1);
      drawn += bar_text(bar.values[used[n]] / end, room, glyph);
    }
    lines.push_back(line(bar.label, total_of(bar), drawn));
  }
  if (count < bars.bars.size()) {
    lines.push_back(left_out_text(bars.bars.size() - count) + " (--expand)");
  }
  if (bars.limit) {
    const double at = bars.limit->value / end * room + 0.5;
    const size_t before = to_size(std::max(static_cast<int>(at) - 1, 0));
    lines.push_back(line(bars.limit->label, bars.limit->value,
                         std::string(before, ' ') + "|"));
  }
  if (used.size() > 1) {
    std::string legend;
    for (size_t n = 0; n < used.size(); ++n) {
      legend += (n == 0 ? "" : ", ") + letters.substr(n, 1) + " " + names[n];
    }
    for (std::string& part : wrapped_words(legend, style.width)) {
      lines.push_back(std::move(part));
    }
  }
  return lines;
}

std::string svg_of(const Bars& bars, const SvgPlace& place) {
  Svg svg(place);
  const double margin = svg.margin();
  const double width = svg.width();
  double y = svg.head(4);
  const double end = end_of(bars);
  const double top = y;
  if (bars.limit) y += 18;
  const std::vector<size_t> used = used_parts(bars);
  const size_t count = std::min(bars.bars.size(), kMostBars);
  std::vector<std::string> described;
  for (size_t i = 0; i < count; ++i) {
    const Bars::Bar& bar = bars.bars[i];
    const std::string amount = amount_text(total_of(bar), bars.unit);
    described.push_back(bar.label + " " + amount);
    svg.text(margin, y + 12, "start", 12,
             fitted(printable(bar.label), width - text_width(amount) - 12));
    svg.text(margin + width, y + 12, "end", 12, amount, " font-weight=\"600\"");
    double x = margin;
    for (const size_t part : used) {
      const double value = bar.values[part];
      if (value <= 0) continue;
      const double length = width * value / end;
      svg.rect(x, y + 18, std::max(length - 1, 0.5), kBarHeight,
               svg.fill(colour_of(bars, part)),
               bars.parts[part] + ": " + amount_text(value, bars.unit));
      x += length;
    }
    if (bars.limit) {
      const double at = std::min(margin + width * bars.limit->value / end,
                                 margin + width - 1);
      svg.put(
          fmt::format("<path d=\"M{:.1f} {:.1f}v{:.1f}\" fill=\"none\" "
                      "stroke-width=\"2\" {}/>\n",
                      at, y + 15, kBarHeight + 6, svg.stroke(Ink::Limit)));
    }
    y += kBarStep;
  }
  if (count < bars.bars.size()) {
    svg.text(margin, y + 12, "start", 12,
             left_out_text(bars.bars.size() - count));
    y += 22;
  }
  if (bars.limit) {
    const double x = margin + width * bars.limit->value / end;
    const std::string label =
        bars.limit->label + " " + amount_text(bars.limit->value, bars.unit);
    const bool is_right = x + text_width(label) / 2 > margin + width;
    const bool is_left = x - text_width(label) / 2 < margin;
    svg.text(is_right  ? margin + width
             : is_left ? margin
                       : x,
             top + 12,
             is_right  ? "end"
             : is_left ? "start"
                       : "middle",
             12, fitted(printable(label), width), " " + svg.fill(Ink::Limit));
    described.push_back(label);
  }
  if (used.size() > 1) {
    std::vector<size_t> colours;
    std::vector<std::string> names(kColours);
    for (const size_t part : used) {
      colours.push_back(colour_of(bars, part));
      names[colours.back()] = bars.parts[part];
    }
    y = svg.legend(margin, y + 12, width, colours, names);
  }
  return std::move(svg).finished(place.width, y + (place.is_alone ? 20 : 8),
                                 joined(described, ", "));
}

}  // namespace shardplan
