// SPDX-License-Identifier: Apache-2.0
#include "report/json.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/text.h"

namespace shardplan {
namespace {

// Appends the items between brackets.
template <typename Items, typename Append>
void append_list(std::string& out, const Items& items, Append append,
                 std::string_view brackets = "[]") {
  out += brackets.front();
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += ", ";
    first = false;
    append(item);
  }
  out += brackets.back();
}

// std::visit calls it with each kind of cell.
struct CellJson {
  std::string& out;

  void operator()(std::monostate) const { out += "null"; }
  void operator()(const std::string& text) const {
    append_printable_json(out, text);
  }
  // Count, ByteSize, MeanBytes, Ratio, Percent, Duration.
  template <typename Number>
  void operator()(Number number) const {
    append_json_number(out, number.value);
  }
  void operator()(YesNo flag) const { out += flag.value ? "true" : "false"; }
  void operator()(Bar bar) const { append_json_number(out, bar.fraction); }
  void operator()(const Names& names) const {
    append_list(out, names.values, *this);
  }
  void operator()(const Numbers& numbers) const {
    append_integers(numbers.values);
  }
  void operator()(const Dims& dims) const { append_integers(dims.shape); }
  void operator()(const PartitionSpec& spec) const {
    append_list(out, spec.dims, [&](const AxisNames& axes) {
      if (axes.empty()) {
        out += "null";
      } else if (axes.size() == 1) {
        append_printable_json(out, axes.front());
      } else {
        append_list(out, axes, [&](std::string_view axis) {
          append_printable_json(out, axis);
        });
      }
    });
  }
  void operator()(const MeshCell& cell) const {
    append_sizes(cell.mesh.axes());
  }
  void operator()(const ViewsCell& cell) const {
    const auto append = [&](const MeshView& view) {
      append_printable_json(out, view.name);
      out += ": ";
      append_sizes(view.axes);
    };
    append_list(out, cell.views, append, "{}");
  }
  void operator()(const WholePlacementCell& cell) const {
    out += "{\"axis\": ";
    append_printable_json(out, cell.axis);
    append_number(", \"rank\": ", cell.rank);
    out += '}';
  }
  void operator()(const Prose& prose) const {
    append_prose_json(out, prose.text);
  }
  void operator()(const MemoryRange& range) const {
    append_number("{\"max\": ", range.max);
    append_number(", \"min\": ", range.min);
    append_number(", \"mean\": ", range.mean);
    out += '}';
  }
  void operator()(const ByteBracket& bracket) const { append_bracket(bracket); }
  void operator()(const DurationBracket& bracket) const {
    append_bracket(bracket);
  }

 private:
  void append_integers(const std::vector<int64_t>& numbers) const {
    append_list(out, numbers,
                [&](int64_t number) { append_json_number(out, number); });
  }
  void append_sizes(const std::vector<Axis>& axes) const {
    const auto append = [&](const Axis& axis) {
      append_printable_json(out, axis.name);
      append_number(": ", axis.size);
    };
    append_list(out, axes, append, "{}");
  }
  // Appends a number after its key.
  template <typename Number>
  void append_number(std::string_view key, Number number) const {
    out += key;
    append_json_number(out, number);
  }
  template <typename Bracket>
  void append_bracket(const Bracket& bracket) const {
    append_number("{\"lower\": ", bracket.lower);
    append_number(", \"estimate\": ", bracket.estimate);
    append_number(", \"upper\": ", bracket.upper);
    out += '}';
  }
};

}  // namespace

void append_json(std::string& out, const Cell& cell) {
  std::visit(CellJson{out}, cell);
}

void append_json_number(std::string& out, int64_t number) {
  out += std::to_string(number);
}

void append_json_number(std::string& out, double number) {
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
