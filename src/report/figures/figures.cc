// SPDX-License-Identifier: Apache-2.0
#include "report/figures/figures.h"

#include <array>
#include <cmath>
#include <type_traits>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "report/figures/svg.h"
#include "report/json.h"

namespace shardplan {
namespace {

constexpr std::array<std::string_view, std::variant_size_v<FigureData>> kKinds =
    {"bars", "treemap", "mesh", "plot", "shards", "steps", "changes"};
constexpr std::array<std::string_view, 3> kUnits = {"number", "bytes",
                                                    "seconds"};
constexpr double kMonospace = 7.3;  // width of a character of font size 12
constexpr double kLineHeight = 16;

// A list of JSON objects or values, and the members of objects.
class Json {
 public:
  explicit Json(std::string& out) : out_(out) {}

  void key(std::string_view name) {
    if (out_.back() != '{') out_ += ", ";
    append_printable_json(out_, name);
    out_ += ": ";
  }
  void member(std::string_view name, std::string_view text) {
    key(name);
    append_prose_json(out_, text);
  }
  template <typename Number>
  requires std::is_arithmetic_v<Number>
  void member(std::string_view name, Number number) {
    key(name);
    value(number);
  }
  void value(double number) { append_json_number(out_, number); }
  void value(int64_t number) { append_json_number(out_, number); }
  void value(size_t number) { value(static_cast<int64_t>(number)); }
  void value(bool flag) { out_ += flag ? "true" : "false"; }
  void value(const std::string& text) { append_prose_json(out_, text); }
  template <typename Item>
  void value(const std::vector<Item>& items) {
    list(items, [&](const auto& item) { value(item); });
  }
  template <typename Items>
  void member(std::string_view name, const std::vector<Items>& items) {
    key(name);
    value(items);
  }
  template <typename Items, typename Write>
  void list(const Items& items, const Write& write) {
    out_ += '[';
    bool is_first = true;
    for (const auto& item : items) {
      if (!is_first) out_ += ", ";
      is_first = false;
      write(item);
    }
    out_ += ']';
  }
  template <typename Items, typename Write>
  void objects(std::string_view name, const Items& items, const Write& write) {
    key(name);
    list(items, [&](const auto& item) {
      out_ += '{';
      write(item);
      out_ += '}';
    });
  }
  void limit(const std::optional<FigureLimit>& limit) {
    key("limit");
    if (!limit) {
      out_ += "null";
      return;
    }
    out_ += '{';
    member("label", limit->label);
    member("value", limit->value);
    out_ += '}';
  }

 private:
  std::string& out_;
};

// std::visit calls it with each kind of figure.
struct FigureJson {
  Json json;

  void operator()(const Bars& bars) {
    json.member("unit", nth(kUnits, bars.unit));
    json.member("parts", bars.parts);
    json.objects("bars", bars.bars, [&](const Bars::Bar& bar) {
      json.member("label", bar.label);
      json.member("values", bar.values);
    });
    json.limit(bars.limit);
  }
  void operator()(const Treemap& map) {
    json.member("groups", map.groups);
    json.objects("leaves", map.leaves, [&](const Treemap::Leaf& leaf) {
      json.member("path", leaf.path);
      json.member("count", leaf.count);
      json.member("bytes_per_device", leaf.bytes);
      json.member("group", leaf.group);
      json.member("detail", leaf.detail);
    });
  }
  void operator()(const MeshDiagram& mesh) {
    json.objects("axes", mesh.axes, [&](const MeshDiagram::Axis& axis) {
      json.member("axis", axis.name);
      json.member("size", axis.size);
    });
    if (!mesh.is_priced) return;
    json.objects("uses", mesh.uses, [&](const MeshDiagram::Use& use) {
      json.member("axis", use.over);
      json.member("link", use.link);
      json.member("bytes_per_device", use.bytes);
      json.member("seconds", use.seconds);
      json.member("exposed", use.exposed);
    });
  }
  void operator()(const Plot& plot) {
    json.member("x_title", plot.x_title);
    json.member("y_title", plot.y_title);
    json.member("unit", nth(kUnits, plot.unit));
    json.member("linear", plot.is_linear);
    json.member("stacked", plot.stacked);
    json.member("x_labels", plot.x_labels);
    json.objects("series", plot.series, [&](const PlotSeries& series) {
      json.member("name", series.name);
      json.member("points", series.points);
    });
    json.limit(plot.limit);
  }
  void operator()(const ShardMap& map) {
    json.key("slices");
    json.list(map.slices->slices, [&](const std::vector<Slice>& dim) {
      json.list(dim, [&](const Slice& slice) {
        json.value(std::vector<int64_t>{slice.begin, slice.end});
      });
    });
    json.member("padding", map.slices->padding);
    json.member("devices", map.slices->devices);
  }
  void operator()(const StepChart& chart) {
    json.member("ranks", chart.ranks);
    json.member("steps", chart.steps);
  }
  void operator()(const ChangeList& list) {
    json.objects("changes", list.changes, [&](const ChangeText& change) {
      json.member("what", change.what);
      json.member("places", change.places);
      json.member("detail", change.detail);
    });
  }
};

// Returns the lines of a figure that is text in every format.
template <typename Figure>
std::string svg_of_lines(const Figure& figure, const SvgPlace& place) {
  Style style;
  style.width = 110;
  style.expand = true;
  const std::vector<std::string> lines = lines_of(figure, style);
  Svg svg(place);
  const double margin = svg.margin();
  double y = place.is_alone ? 28 : 14;
  double width = text_width(place.title, 15);
  if (place.is_alone) {
    svg.text(margin, y, "start", 15, place.title, " font-weight=\"600\"");
    y += 26;
  }
  for (const std::string& line : lines) {
    svg.text(margin, y, "start", 12, line,
             " font-family=\"ui-monospace, 'DejaVu Sans Mono', monospace\" "
             "xml:space=\"preserve\"");
    width = std::max(width, kMonospace * display_width(line));
    y += kLineHeight;
  }
  return std::move(svg).finished(width + 2 * margin, y + margin / 2);
}

}  // namespace

std::string_view kind_of(const FigureData& figure) {
  return nth(kKinds, figure.index());
}

std::vector<std::string> lines_of(const FigureData& figure,
                                  const Style& style) {
  return std::visit([&](const auto& kind) { return lines_of(kind, style); },
                    figure);
}

std::string svg_of(const FigureData& figure, const SvgPlace& place) {
  return std::visit(
      [&](const auto& kind) {
        using Kind = std::decay_t<decltype(kind)>;
        if constexpr (std::is_same_v<Kind, ShardMap> ||
                      std::is_same_v<Kind, StepChart> ||
                      std::is_same_v<Kind, ChangeList>) {
          return svg_of_lines(kind, place);
        } else {
          return svg_of(kind, place);
        }
      },
      figure);
}

void append_figure_json(std::string& out, const FigureData& figure) {
  Json json(out);
  json.member("kind", kind_of(figure));
  std::visit(FigureJson{json}, figure);
}

std::string amount_text(double value, AmountUnit unit) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  switch (unit) {
    case AmountUnit::Bytes:
      return bytes_text(value);
    case AmountUnit::Seconds:
      return seconds_text(value, "µ");
    case AmountUnit::Number:
      break;
  }
  return fmt::format("{:.4g}", value);
}

}  // namespace shardplan
