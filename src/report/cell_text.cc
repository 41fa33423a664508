// SPDX-License-Identifier: Apache-2.0
#include "report/cell_text.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "base/text.h"
#include "report/json.h"
#include "report/style.h"

namespace shardplan {
namespace {

// Lists are cut here; --exact and the formats for programs show them all.
constexpr size_t kMostItems = 8;

std::string exact_text(double value) {
  if (std::isnan(value)) return "undefined";
  if (std::isinf(value)) return value > 0 ? "infinite" : "-infinite";
  std::string text;
  append_json_double(text, value);
  return text;
}

// Small values keep their digits: 0.000 would say that there is nothing.
std::string ratio_text(double value) {
  const double size = std::abs(value);
  if (!std::isfinite(value)) return exact_text(value);
  if (size != 0 && size < 0.0005) {
    return fmt::format("{:.1e}", value);
  }
  return fmt::format("{:.3f}", value);
}

std::string seconds_text(double seconds, const Style& style) {
  struct Unit {
    double size;
    std::string name;
  };
  const std::array<Unit, 4> units = {
      {{1, "s"},
       {1e-3, "ms"},
       {1e-6, std::string(glyphs(style).micro) + "s"},
       {1e-9, "ns"}}};
  const double size = std::abs(seconds);
  if (!std::isfinite(seconds)) return exact_text(seconds);
  if (size == 0) return "0 s";
  // What would round to 1000 of a unit is one of the next.
  const auto unit = std::find_if(
      units.begin(), units.end(),
      [&](const Unit& candidate) { return size >= 0.9995 * candidate.size; });
  if (unit == units.end()) {
    return fmt::format("{:.1e} s", seconds);
  }
  const double value = size / unit->size;
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", seconds / unit->size, decimals, unit->name);
}

std::string bar_text(double fraction, const Style& style) {
  if (!(fraction > 0)) return {};
  const int longest = style.width < 80 ? 10 : 30;
  const int length = std::max(
      1, static_cast<int>(std::lround(std::min(fraction, 1.0) * longest)));
  std::string bar;
  for (int i = 0; i < length; ++i) bar += glyphs(style).block;
  return bar;
}

template <typename Item, typename ItemText>
std::string joined(const std::vector<Item>& items, std::string_view between,
                   size_t most, const Style& style, ItemText text_of) {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += between;
    if (i == most) return text + std::string(glyphs(style).ellipsis);
    text += text_of(items[i]);
  }
  return text;
}

// Called by std::visit with each kind of cell.
struct CellText {
  const Style& style;

  std::string bytes(double value) const {
    return style.exact ? exact_text(value) : bytes_text(value);
  }
  size_t most() const { return style.exact ? SIZE_MAX : kMostItems; }

  std::string operator()(std::monostate) const {
    return std::string(glyphs(style).nothing);
  }
  std::string operator()(const std::string& text) const {
    return shown(text, style);
  }
  std::string operator()(Count count) const {
    return style.exact ? std::to_string(count.value) : count_text(count.value);
  }
  std::string operator()(ByteSize size) const {
    return style.exact ? std::to_string(size.value)
                       : bytes_text(static_cast<double>(size.value));
  }
  std::string operator()(MeanBytes mean) const { return bytes(mean.value); }
  std::string operator()(Ratio ratio) const {
    return style.exact ? exact_text(ratio.value) : ratio_text(ratio.value);
  }
  std::string operator()(Percent percent) const {
    return style.exact || !std::isfinite(percent.value)
               ? exact_text(percent.value)
               : percent_text(percent.value);
  }
  std::string operator()(Seconds seconds) const {
    return style.exact ? exact_text(seconds.value)
                       : seconds_text(seconds.value, style);
  }
  std::string operator()(Flag flag) const { return flag.value ? "yes" : "no"; }
  std::string operator()(Bar bar) const {
    return bar_text(bar.fraction, style);
  }
  std::string operator()(const Names& names) const {
    return joined(names.values, ", ", most(), style,
                  [&](const std::string& name) { return shown(name, style); });
  }
  std::string operator()(const Numbers& numbers) const {
    return joined(numbers.values, ", ", most(), style,
                  [](int64_t number) { return std::to_string(number); });
  }
  std::string operator()(const Dims& dims) const {
    if (dims.shape.empty()) return "scalar";
    const std::string times = " " + std::string(glyphs(style).times) + " ";
    return joined(dims.shape, times, SIZE_MAX, style,
                  [](int64_t size) { return std::to_string(size); });
  }
  std::string operator()(const PartitionSpec& spec) const {
    return shown(spec_text(spec), style);
  }
  std::string operator()(const MeshCell& cell) const {
    return shown(mesh_text(cell.mesh), style);
  }
  std::string operator()(const MemoryRange& range) const {
    std::string max = (*this)(ByteSize{range.max});
    if (range.min == range.max) return max;
    return "max " + max + ", min " + (*this)(ByteSize{range.min}) + ", mean " +
           bytes(range.mean);
  }
};

}  // namespace

std::string cell_text(const Cell& cell, const Style& style) {
  return std::visit(CellText{style}, cell);
}

}  // namespace shardplan
