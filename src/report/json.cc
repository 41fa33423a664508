// SPDX-License-Identifier: Apache-2.0
#include "report/json.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/text.h"

namespace shardplan {
namespace {

template <typename Items, typename Append>
void append_list(std::string& out, const Items& items, Append append) {
  out += '[';
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += ", ";
    first = false;
    append(item);
  }
  out += ']';
}

void append_axes(std::string& out, const AxisNames& axes) {
  if (axes.empty()) {
    out += "null";
  } else if (axes.size() == 1) {
    append_printable_json(out, axes.front());
  } else {
    append_list(out, axes, [&](std::string_view axis) {
      append_printable_json(out, axis);
    });
  }
}

// std::visit calls it with each kind of cell.
struct CellJson {
  std::string& out;

  void operator()(std::monostate) const { out += "null"; }
  void operator()(const std::string& text) const {
    append_printable_json(out, text);
  }
  void operator()(Count count) const { append_json_integer(out, count.value); }
  void operator()(ByteSize size) const { append_json_integer(out, size.value); }
  void operator()(MeanBytes mean) const { append_json_double(out, mean.value); }
  void operator()(Ratio ratio) const { append_json_double(out, ratio.value); }
  void operator()(Percent percent) const {
    append_json_double(out, percent.value);
  }
  void operator()(Duration seconds) const {
    append_json_double(out, seconds.value);
  }
  void operator()(YesNo flag) const { out += flag.value ? "true" : "false"; }
  void operator()(Bar bar) const { append_json_double(out, bar.fraction); }
  void operator()(const Names& names) const {
    append_list(out, names.values, [&](std::string_view name) {
      append_printable_json(out, name);
    });
  }
  void operator()(const Numbers& numbers) const {
    append_list(out, numbers.values,
                [&](int64_t number) { append_json_integer(out, number); });
  }
  void operator()(const Dims& dims) const {
    append_list(out, dims.shape,
                [&](int64_t size) { append_json_integer(out, size); });
  }
  void operator()(const PartitionSpec& spec) const {
    append_list(out, spec.dims,
                [&](const AxisNames& axes) { append_axes(out, axes); });
  }
  void operator()(const MeshCell& cell) const {
    append_sizes(cell.mesh.axes());
  }
  void operator()(const ViewsCell& cell) const {
    out += '{';
    bool first = true;
    for (const MeshView& view : cell.views) {
      if (!first) out += ", ";
      first = false;
      append_printable_json(out, view.name);
      out += ": ";
      append_sizes(view.axes);
    }
    out += '}';
  }
  void operator()(const WholePlacementCell& cell) const {
    out += "{\"axis\": ";
    append_printable_json(out, cell.axis);
    out += ", \"rank\": ";
    append_json_integer(out, cell.rank);
    out += '}';
  }
  void append_sizes(const std::vector<Axis>& axes) const {
    out += '{';
    bool first = true;
    for (const Axis& axis : axes) {
      if (!first) out += ", ";
      first = false;
      append_printable_json(out, axis.name);
      out += ": ";
      append_json_integer(out, axis.size);
    }
    out += '}';
  }
  void operator()(const Prose& prose) const {
    append_prose_json(out, prose.text);
  }
  void operator()(const MemoryRange& range) const {
    out += "{\"max\": ";
    append_json_integer(out, range.max);
    out += ", \"min\": ";
    append_json_integer(out, range.min);
    out += ", \"mean\": ";
    append_json_double(out, range.mean);
    out += '}';
  }
  void operator()(const ByteBracket& bracket) const {
    append_bracket(bracket, &append_json_integer);
  }
  void operator()(const DurationBracket& bracket) const {
    append_bracket(bracket, &append_json_double);
  }

 private:
  template <typename Bracket, typename Append>
  void append_bracket(const Bracket& bracket, Append append) const {
    out += "{\"lower\": ";
    append(out, bracket.lower);
    out += ", \"estimate\": ";
    append(out, bracket.estimate);
    out += ", \"upper\": ";
    append(out, bracket.upper);
    out += '}';
  }
};

}  // namespace

void append_json(std::string& out, const Cell& cell) {
  std::visit(CellJson{out}, cell);
}

void append_json_integer(std::string& out, int64_t number) {
  std::array<char, 24> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  out.append(buffer.data(), end.ptr);
}

void append_json_double(std::string& out, double number) {
  if (!std::isfinite(number)) {
    out += "null";
    return;
  }
  std::array<char, 32> buffer{};
  // Adding zero turns -0 into 0.
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), number + 0.0);
  out.append(buffer.data(), end.ptr);
}

void append_prose_json(std::string& out, std::string_view text) {
  append_printable_json(out, printable(text));
}

}  // namespace shardplan
