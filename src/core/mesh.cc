// SPDX-License-Identifier: Apache-2.0
#include "core/mesh.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/check.h"
#include "base/checked.h"
#include "base/text.h"

namespace shardplan {
namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_name_character(char c) {
  return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '-';
}

// One `name=size` entry at [begin, end) of the source.
std::optional<AxisRequest> parse_entry(const SourceFile& source, uint64_t begin,
                                       uint64_t end, Diagnostics& diags) {
  const Span where{&source, begin, end};
  const std::string_view text = where.text();
  const std::string shown = printable(text);
  if (text.empty()) {
    return diags.error(Code::InvalidMesh, where, "an axis is missing here")
        .help("write axes as `name=size`, e.g. `fsdp=8,tp=4`");
  }
  const size_t sign = text.find_first_of("=:");
  const std::string_view name = text.substr(0, sign);
  if (!is_axis_name(name)) {
    const bool blank = text.find_first_of(" \t") != std::string_view::npos;
    return diags
        .error(Code::InvalidMesh, where,
               "`" + printable(name) + "` is not an axis name")
        .help(blank ? "no blanks may stand around `=` and `,`"
                    : "axis names start with a letter or `_` and go on with "
                      "letters, digits, `_`, `.` and `-`");
  }
  if (sign == std::string_view::npos || sign + 1 == text.size()) {
    auto problem = diags.error(Code::InvalidMesh, {},
                               "axis `" + std::string(name) + "` has no size");
    problem.label(where, "expected `" + std::string(name) + "=N`");
    return problem;
  }
  AxisRequest axis{std::string(name),
                   0,
                   where,
                   {&source, begin, begin + sign},
                   {&source, begin + sign + 1, end}};
  const std::string_view digits = axis.size_where.text();
  const auto [last, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), axis.size);
  if (error != std::errc() || last != digits.data() + digits.size()) {
    return diags
        .error(Code::InvalidMesh, axis.size_where,
               "`" + printable(digits) + "` is not the size of an axis")
        .help(
            "a size is a positive integer, or -1 for the rest of "
            "`--devices`");
  }
  return axis;
}

std::string product_text(const std::vector<AxisRequest>& axes) {
  std::string text;
  for (const AxisRequest& axis : axes) {
    if (axis.size == -1) continue;
    if (!text.empty()) text += " x ";
    text += std::to_string(axis.size);
  }
  return text;
}

bool check_names_and_sizes(const std::vector<AxisRequest>& axes,
                           Diagnostics& diags) {
  bool ok = true;
  int open = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    const AxisRequest& axis = axes[i];
    if (!is_axis_name(axis.name)) {
      diags
          .error(Code::InvalidMesh, axis.name_where,
                 "`" + printable(axis.name) + "` is not an axis name")
          .help(
              "axis names start with a letter or `_` and go on with letters, "
              "digits, `_`, `.` and `-`");
      ok = false;
    }
    for (size_t j = 0; j < i; ++j) {
      if (axes[j].name != axis.name) continue;
      diags
          .error(Code::InvalidMesh, axis.name_where,
                 "axis `" + axis.name + "` appears twice")
          .label(axes[j].name_where, "first here")
          .help("give each axis one size, e.g. `fsdp=4,tp=2`");
      ok = false;
      break;
    }
    if (axis.size == -1) {
      if (++open == 2) {
        diags
            .error(Code::InvalidMesh, axis.size_where,
                   "only one axis may have size -1")
            .help("give all axes but one a size");
        ok = false;
      }
    } else if (axis.size < 1) {
      diags
          .error(
              Code::InvalidMesh, axis.size_where,
              "axis `" + axis.name + "` has size " + std::to_string(axis.size))
          .help("an axis has at least one device: `" + axis.name + "=1`");
      ok = false;
    }
  }
  return ok;
}

}  // namespace

bool is_axis_name(std::string_view text) {
  return !text.empty() && is_letter(text.front()) &&
         std::all_of(text.begin(), text.end(), is_name_character);
}

Mesh::Mesh(std::vector<Axis> axes) : axes_(std::move(axes)) {
  SHARDPLAN_CHECK(!axes_.empty());
  for (const Axis& axis : axes_) {
    SHARDPLAN_CHECK(axis.size >= 1 && axis.size <= kMaxDevices / devices_);
    devices_ *= axis.size;
  }
}

std::optional<size_t> Mesh::find(std::string_view name) const {
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == name) return i;
  }
  return std::nullopt;
}

int64_t Mesh::size_of(std::string_view name) const {
  const std::optional<size_t> index = find(name);
  return index ? axes_[*index].size : 1;
}

std::vector<int64_t> Mesh::coordinates(int64_t device) const {
  SHARDPLAN_CHECK(device >= 0 && device < devices_);
  std::vector<int64_t> result(axes_.size());
  for (size_t i = axes_.size(); i-- > 0;) {
    result[i] = device % axes_[i].size;
    device /= axes_[i].size;
  }
  return result;
}

std::optional<std::vector<AxisRequest>> parse_mesh_text(
    const SourceFile& source, Diagnostics& diags) {
  const std::string_view text = source.text();
  std::vector<AxisRequest> axes;
  bool ok = true;
  for (uint64_t begin = 0; begin <= text.size();) {
    const uint64_t comma = text.find(',', begin);
    const uint64_t end = std::min<uint64_t>(comma, text.size());
    std::optional<AxisRequest> axis = parse_entry(source, begin, end, diags);
    if (axis) {
      axes.push_back(std::move(*axis));
    } else {
      ok = false;
    }
    begin = end + 1;
  }
  if (!ok) return std::nullopt;
  return axes;
}

std::optional<Mesh> make_mesh(const std::vector<AxisRequest>& axes,
                              std::optional<int64_t> devices, Span where,
                              Diagnostics& diags) {
  if (axes.empty()) {
    return diags.error(Code::InvalidMesh, where, "the mesh has no axes")
        .help("name at least one axis, e.g. `tp=8`");
  }
  if (!check_names_and_sizes(axes, diags)) return std::nullopt;

  int64_t product = 1;
  const AxisRequest* open = nullptr;
  for (const AxisRequest& axis : axes) {
    if (axis.size == -1) {
      open = &axis;
      continue;
    }
    const std::optional<int64_t> next = checked_mul(product, axis.size);
    if (!next || *next > kMaxDevices) {
      return diags
          .error(Code::InvalidMesh, where, "the mesh has too many devices")
          .fact(product_text(axes) + " exceeds 2^40 devices");
    }
    product = *next;
  }

  int64_t rest = 1;
  if (open != nullptr) {
    if (!devices) {
      return diags
          .error(Code::InvalidMesh, open->size_where,
                 "size -1 of axis `" + open->name +
                     "` needs the number of devices")
          .help("add `--devices N`");
    }
    if (*devices % product != 0 || *devices < product) {
      return diags
          .error(Code::InvalidMesh, open->size_where,
                 "no size of axis `" + open->name + "` gives " +
                     std::to_string(*devices) + " devices")
          .fact("the other axes have " + product_text(axes) + " = " +
                std::to_string(product) + " devices; " +
                std::to_string(*devices) + " mod " + std::to_string(product) +
                " = " + std::to_string(*devices % product));
    }
    rest = *devices / product;
  } else if (devices && *devices != product) {
    diags
        .report(Code::DeviceCountMismatch, where,
                "the mesh has " + std::to_string(product) +
                    " devices, not the " + std::to_string(*devices) +
                    " asked for")
        .fact("the mesh has " + product_text(axes) + " = " +
              std::to_string(product) + " devices")
        .fact("`--devices` says " + std::to_string(*devices))
        .help("make one of the axes -1 to let it take the rest");
  }

  std::vector<Axis> result;
  result.reserve(axes.size());
  for (const AxisRequest& axis : axes) {
    result.push_back({axis.name, axis.size == -1 ? rest : axis.size});
  }
  if (rest > kMaxDevices / product) {
    return diags
        .error(Code::InvalidMesh, where, "the mesh has too many devices")
        .fact(std::to_string(*devices) + " exceeds 2^40 devices");
  }
  return Mesh(std::move(result));
}

std::string mesh_text(const Mesh& mesh) {
  std::string text;
  for (const Axis& axis : mesh.axes()) {
    if (!text.empty()) text += ",";
    text += axis.name + "=" + std::to_string(axis.size);
  }
  return text;
}

}  // namespace shardplan
