// SPDX-License-Identifier: Apache-2.0
// Figures: what a report draws, as data. Text, Markdown, SVG and HTML draw them
// (report/figures/figures.h), and JSON has their numbers.
//
// Commands make figures and know nothing about how they look. A figure is made
// on demand, since most formats draw only a few.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/plan.h"

namespace shardplan {

enum class AmountUnit : uint8_t { Number, Bytes, Seconds };

// A line across a figure, such as the memory of a device.
struct FigureLimit {
  std::string label;
  double value = 0;
};

// Horizontal bars over one scale. Each is a stack of the same parts.
struct Bars {
  struct Bar {
    std::string label;
    std::vector<double> values;  // one per part; none is negative
  };
  AmountUnit unit = AmountUnit::Bytes;
  std::vector<std::string> parts;
  std::vector<Bar> bars;
  std::vector<size_t> colours = {};  // of the parts; empty: 0, 1, 2, ...
  std::optional<FigureLimit> limit = {};
};

// Areas in proportion to bytes, nested like the names of modules.
struct Treemap {
  struct Leaf {
    std::string path;  // of a class of parameters: "layers.*.mlp.up.weight"
    int64_t count = 1;
    int64_t bytes = 0;
    size_t group = 0;  // index into `groups`
    std::string detail = {};
  };
  std::vector<std::string> groups;  // what the colours mean
  std::vector<Leaf> leaves;         // in the order of the model
};

// The axes of a mesh, major to minor, and what one device sends along them.
struct MeshDiagram {
  struct Axis {
    std::string name;
    int64_t size = 1;
  };
  // Collectives over one axis or several.
  struct Use {
    std::vector<size_t> axes;  // indices; empty for axes of another view
    std::string over;          // their names: "dp,fsdp"
    std::string link;          // "nvlink+infiniband"
    double bytes = 0;          // sent by one device
    double seconds = 0;        // in the estimate
    double exposed = 0;        // the part of the seconds that does not hide
  };
  std::vector<Axis> axes;
  bool is_priced = false;  // uses are known
  std::vector<Use> uses = {};
};

struct PlotSeries {
  std::string name;
  std::vector<double> points;  // one per label of the x axis
};

// Numbers over labelled places.
//
// A logarithmic y axis cannot show all numbers: 0 is a triangle at the lower
// border, infinity one at the upper border, and NaN or a negative number a gap.
struct Plot {
  std::string title;
  std::string x_title;
  std::string y_title;
  std::vector<std::string> x_labels;
  std::vector<PlotSeries> series;
  std::string subtitle = {};  // what all series have in common
  AmountUnit unit = AmountUnit::Number;
  bool is_linear = false;  // else the y axis is logarithmic
  // The first `stacked` series are areas on top of one another. REQUIRES:
  // is_linear, if there are any.
  size_t stacked = 0;
  std::optional<FigureLimit> limit = {};
};

// The shards of a tensor, and the devices that hold them.
struct ShardMap {
  std::shared_ptr<const DeviceSlices> slices;
};

// The sends of every rank in each step of a schedule.
struct StepChart {
  // Per step and rank, lines of text.
  std::vector<std::vector<std::vector<std::string>>> steps;
  size_t ranks = 0;
};

// A change of a set of rules, as people read it.
struct ChangeText {
  std::string what;    // "`activation_exp` loses `expert` to `experts`"
  std::string places;  // "base.yml:82 → base.yml:81"
  std::string detail;  // "[data, expert] → [data]; matters where `expert` > 1"
};
struct ChangeList {
  std::vector<ChangeText> changes;
};

using FigureData = std::variant<Bars, Treemap, MeshDiagram, Plot, ShardMap,
                                StepChart, ChangeList>;

// Whether text and Markdown draw a figure.
enum class InText : uint8_t { No, Drawn, Titled };

struct Figure {
  std::string name;   // --plot NAME=FILE.svg; unique in a report
  std::string title;  // for people
  std::function<FigureData()> make;
  InText in_text = InText::No;
};

}  // namespace shardplan
