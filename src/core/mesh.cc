// SPDX-License-Identifier: Apache-2.0
#include "core/mesh.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

bool starts_name(char c) { return is_letter(c) || c == '_'; }

bool is_name_character(char c) {
  return starts_name(c) || is_digit(c) || c == '.' || c == '-';
}

// Parses one `name=size` entry at [begin, end) of the source.
std::optional<AxisRequest> parse_entry(const SourceFile& source, uint64_t begin,
                                       uint64_t end, Diagnostics& diags) {
  const Span where{&source, begin, end};
  const std::string_view text = where.text();
  const std::string shown(text);
  if (text.empty()) {
    return diags.error(Code::InvalidMesh, where, "expected an axis here")
        .help("write axes as `name=size`, e.g. `fsdp=8,tp=4`");
  }
  const size_t sign = text.find_first_of("=:");
  const std::string_view name = text.substr(0, sign);
  if (!is_axis_name(name)) {
    const bool blank = text.find_first_of(" \t") != std::string_view::npos;
    return diags
        .error(Code::InvalidMesh, where,
               in_backticks(name) + " is not an axis name")
        .help(std::ranges::all_of(name, is_digit) && !name.empty()
                  ? "`sweep` tries lists of sizes, such as `tp=1,2,4`"
              : blank ? "no spaces are allowed around `=` and `,`"
                      : "axis names start with a letter or `_`, followed by "
                        "letters, digits, `_`, `.` or `-`");
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
  const auto size = parse_integer(digits);
  if (!size) {
    return diags
        .error(Code::InvalidMesh, axis.size_where,
               in_backticks(digits) + " is not the size of an axis")
        .help(
            "a size is a positive integer, or -1 for the rest of "
            "`--devices`");
  }
  axis.size = *size;
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
                 in_backticks(axis.name) + " is not an axis name")
          .help(
              "axis names start with a letter or `_`, followed by letters, "
              "digits, `_`, `.` or `-`");
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
            .help("give every other axis a size");
        ok = false;
      }
    } else if (axis.size < 1) {
      diags
          .error(
              Code::InvalidMesh, axis.size_where,
              "axis `" + axis.name + "` has size " + std::to_string(axis.size))
          .help("give it at least one device: `" + axis.name + "=1`");
      ok = false;
    }
  }
  return ok;
}

Span trimmed(Span span) {
  const auto is_blank = [](char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
  };
  while (span.begin < span.end && is_blank(span.text().front())) ++span.begin;
  while (span.begin < span.end && is_blank(span.text().back())) --span.end;
  return span;
}

// Parses what Python's int() accepts: surrounding blanks, a sign, `_` between
// digits.
std::optional<int64_t> parse_size(Span where, Diagnostics& diags) {
  const std::string_view text = trimmed(where).text();
  std::string digits;
  bool after_digit = false;
  bool good = true;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool sign = i == 0 && (c == '-' || c == '+');
    good = good && (is_digit(c) || sign || (c == '_' && after_digit));
    if (is_digit(c) || c == '-') digits += c;
    after_digit = is_digit(c);
  }
  const auto size = parse_integer(digits);
  if (good && after_digit && size) return size;
  return diags
      .error(Code::InvalidMesh, where,
             in_backticks(text) + " is not the size of an axis")
      .help("a size is a positive integer, or -1 for the rest of `--devices`");
}

Diagnostics::Builder report_count(size_t sizes, const AxisNames& names,
                                  Span where, Diagnostics& diags) {
  auto report =
      diags.error(Code::InvalidMesh, where,
                  "there are " + std::to_string(sizes) + " sizes for " +
                      plural(std::ssize(names), "axis"));
  report.fact("the axes are " + quoted_names(texts_of(names), ", "));
  return report;
}

// Splits a text at its commas.
std::vector<Span> split_at(const SourceFile& source) {
  std::vector<Span> parts;
  const std::string_view text = source.text();
  for (uint64_t begin = 0; begin <= text.size();) {
    const uint64_t end = std::min<uint64_t>(text.find(',', begin), text.size());
    parts.push_back({&source, begin, end});
    begin = end + 1;
  }
  return parts;
}

std::optional<AxisRequest> parse_named(Span part, const AxisNames& names,
                                       Diagnostics& diags) {
  const size_t colon = part.text().find(':');
  const Span name{part.file, part.begin, part.begin + colon};
  if (colon == std::string_view::npos || !contains(names, name.text())) {
    return diags
        .error(Code::InvalidMesh, part,
               in_backticks(part.text().substr(0, colon)) +
                   " is not one of the axes")
        .fact("the axes are " + quoted_names(texts_of(names), ", "));
  }
  const Span size{part.file, part.begin + colon + 1, part.end};
  const auto number = parse_size(size, diags);
  if (!number) return std::nullopt;
  return AxisRequest{std::string(name.text()), *number, part, name, size};
}

// The product of all sizes except -1, and the axis of size -1, if any.
struct Product {
  int64_t value = 1;
  const AxisRequest* open = nullptr;
};

// Returns nothing, and reports why, if the product exceeds 2^40 or a size is
// invalid.
std::optional<Product> product_of(const std::vector<AxisRequest>& axes,
                                  std::string_view what, Diagnostics& diags) {
  Product product;
  for (const AxisRequest& axis : axes) {
    if (axis.size == -1) {
      if (product.open != nullptr) {
        return diags
            .error(Code::InvalidMesh, axis.size_where,
                   "only one axis may have size -1 " + std::string(what))
            .label(product.open->size_where, "the other one");
      }
      product.open = &axis;
      continue;
    }
    if (axis.size < 1) {
      return diags
          .error(Code::InvalidMesh, axis.size_where,
                 "axis " + in_backticks(axis.name) + " has size " +
                     std::to_string(axis.size) + " " + std::string(what))
          .help("give an unused axis size 1");
    }
    const auto next = checked_mul(product.value, axis.size);
    if (!next || *next > kMaxDevices) {
      return diags.error(
          Code::InvalidMesh, axis.size_where,
          "the axes have more than 2^40 devices " + std::string(what));
    }
    product.value = *next;
  }
  return product;
}

std::string mod_text(int64_t a, int64_t b) {
  return std::to_string(a) + " mod " + std::to_string(b) + " = " +
         std::to_string(a % b);
}

// Returns the sizes over slices, with a -1 resolved.
std::optional<std::vector<int64_t>> sizes_over_slices(
    const std::vector<AxisRequest>& dcn, std::optional<int64_t> slices,
    Diagnostics& diags) {
  const auto product = product_of(dcn, "over slices", diags);
  if (!product) return std::nullopt;
  const int64_t total = slices.value_or(product->value);
  const int64_t rest = product->open != nullptr ? total / product->value : 1;
  if (rest * product->value != total || rest == 0) {
    auto problem = diags.error(
        Code::InvalidMesh,
        product->open != nullptr ? product->open->size_where : Span(),
        "the sizes over slices do not multiply to " + plural(total, "slice"));
    problem.fact(product->open != nullptr
                     ? "without `" + product->open->name +
                           "` they multiply to " +
                           std::to_string(product->value) + "; " +
                           mod_text(total, product->value)
                     : "they multiply to " + std::to_string(product->value));
    problem.help("make the sizes over slices multiply to `--slices`");
    return problem;
  }
  std::vector<int64_t> sizes;
  for (const AxisRequest& axis : dcn) {
    sizes.push_back(axis.size == -1 ? rest : axis.size);
  }
  return sizes;
}

// Resolves a size of -1 in `axes`, within a slice, from `devices` and the other
// sizes.
bool fill_open(std::vector<AxisRequest>& axes, int64_t slices,
               std::optional<int64_t> devices, Diagnostics& diags) {
  const auto product = product_of(axes, "within a slice", diags);
  if (!product) return false;
  if (product->open == nullptr || !devices) return true;
  const auto others = checked_mul(product->value, slices);
  if (!others || *devices < *others || *devices % *others != 0) {
    diags
        .error(Code::InvalidMesh, product->open->size_where,
               "no size of axis " + in_backticks(product->open->name) +
                   " gives " + plural(*devices, "device") + " in " +
                   plural(slices, "slice"))
        .fact("the other axes have " + std::to_string(product->value) +
              " devices in each of " + plural(slices, "slice") +
              (others ? "; " + mod_text(*devices, *others) : ""));
    return false;
  }
  const auto open = static_cast<size_t>(product->open - axes.data());
  axes[open].size = *devices / *others;
  return true;
}

// Returns the mesh over all slices.
std::optional<SlicedMesh> combine(std::vector<AxisRequest> axes,
                                  const std::vector<AxisRequest>& dcn,
                                  std::optional<int64_t> devices,
                                  std::optional<int64_t> slices, Span where,
                                  Diagnostics& diags) {
  SHARDPLAN_CHECK(dcn.size() == axes.size());
  auto over = sizes_over_slices(dcn, slices, diags);
  if (!over) return std::nullopt;
  Slices crossed{*std::move(over)};
  if (!fill_open(axes, crossed.count(), devices, diags)) return std::nullopt;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].size == -1) continue;  // make_mesh reports the missing size
    const auto size = checked_mul(axes[i].size, crossed.crossed[i]);
    // Beyond 63 bits the size is too large anyway, like any size beyond 2^40.
    axes[i].size = size.value_or(INT64_MAX);
  }
  auto mesh = make_mesh(axes, devices, where, diags);
  if (!mesh) return std::nullopt;
  SlicedMesh result{*std::move(mesh), std::nullopt};
  if (slices || crossed.count() > 1) result.slices = std::move(crossed);
  return result;
}

}  // namespace

bool is_axis_name(std::string_view text) {
  return !text.empty() && starts_name(text.front()) &&
         std::ranges::all_of(text, is_name_character);
}

Mesh::Mesh(std::vector<Axis> axes, std::vector<MeshView> views) {
  SHARDPLAN_CHECK(!axes.empty());
  const auto parts = std::make_shared<Parts>();
  parts->all_axes = axes;
  parts->axes = std::move(axes);
  parts->views = std::move(views);
  parts_ = parts;
  for (const Axis& axis : parts->axes) {
    SHARDPLAN_CHECK(axis.size >= 1 &&
                    axis.size <= kMaxDevices / parts->devices);
    parts->devices *= axis.size;
  }
  const auto add_strides = [&](std::span<const Axis> of, bool only_new) {
    int64_t before = 1;
    for (const Axis& axis : of) {
      before *= axis.size;
      const int64_t stride = parts->devices / before;
      const auto known = only_new ? find(axis.name) : std::nullopt;
      if (known) {
        SHARDPLAN_CHECK(parts->all_axes[*known] == axis &&
                        (axis.size == 1 || parts->strides[*known] == stride));
        continue;
      }
      if (only_new) parts->all_axes.push_back(axis);
      parts->strides.push_back(stride);
    }
    SHARDPLAN_CHECK(before == parts->devices);
  };
  add_strides(parts->axes, false);
  for (const MeshView& view : parts->views) add_strides(view.axes, true);
}

std::optional<size_t> Mesh::find(const AxisName& name) const {
  const std::vector<Axis>& all = all_axes();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].name == name) return i;
  }
  return std::nullopt;
}

int64_t Mesh::size_of(const AxisName& name) const {
  const std::optional<size_t> index = find(name);
  return index ? all_axes()[*index].size : 1;
}

std::vector<int64_t> Mesh::coordinates(int64_t device) const {
  SHARDPLAN_CHECK(device >= 0 && device < devices());
  std::vector<int64_t> result(all_axes().size());
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] = device / stride(i) % all_axes()[i].size;
  }
  return result;
}

const std::vector<Axis>& Mesh::axes_of(std::string_view view) const {
  if (view.empty()) return axes();
  const auto found = std::ranges::find(views(), view, &MeshView::name);
  SHARDPLAN_CHECK(found != views().end());
  return found->axes;
}

bool Mesh::has_view(std::string_view view) const {
  return view.empty() ||
         std::ranges::find(views(), view, &MeshView::name) != views().end();
}

bool Mesh::has(std::string_view view, const AxisName& axis) const {
  return std::ranges::find(axes_of(view), axis, &Axis::name) !=
         axes_of(view).end();
}

std::optional<std::string_view> Mesh::view_of(const AxisNames& axes) const {
  if (views().empty()) return "";
  const auto has_all = [&](std::string_view view) {
    return std::ranges::all_of(axes, [&](const AxisName& axis) {
      return !find(axis) || has(view, axis);
    });
  };
  if (has_all({})) return "";
  for (const MeshView& view : views()) {
    if (has_all(view.name)) return view.name;
  }
  return std::nullopt;
}

std::optional<std::vector<AxisRequest>> parse_mesh_text(
    const SourceFile& source, uint64_t begin, Diagnostics& diags) {
  const std::string_view text = source.text();
  std::vector<AxisRequest> axes;
  bool ok = true;
  while (begin <= text.size()) {
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
                    " devices, not the requested " + std::to_string(*devices))
        .fact("the mesh has " + product_text(axes) + " = " +
              std::to_string(product) + " devices")
        .fact("`--devices` is " + std::to_string(*devices))
        .help("set one axis to -1 to use the remaining devices");
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

std::string axes_text(std::span<const Axis> axes) {
  return joined_of(axes, ",", [](const Axis& axis) {
    return axis.name + "=" + std::to_string(axis.size);
  });
}

std::string mesh_text(const Mesh& mesh) { return axes_text(mesh.axes()); }

std::optional<std::vector<AxisRequest>> axes_of_dims(
    std::span<const int64_t> dims, const AxisNames& names, Span where,
    Diagnostics& diags) {
  if (dims.size() != names.size()) {
    return report_count(dims.size(), names, where, diags);
  }
  std::vector<AxisRequest> axes;
  for (size_t i = 0; i < dims.size(); ++i) {
    axes.push_back({names[i], dims[i] < 0 ? -1 : dims[i], where, where, where});
  }
  return axes;
}

std::optional<std::vector<AxisRequest>> parse_mesh_dims(
    const SourceFile& source, const AxisNames& names, Diagnostics& diags) {
  const std::vector<Span> parts = split_at(source);
  if (!contains(source.text(), ':')) {
    std::vector<int64_t> sizes;
    for (const Span& part : parts) {
      const auto size = parse_size(part, diags);
      if (!size) return std::nullopt;
      sizes.push_back(*size);
    }
    return axes_of_dims(sizes, names, {&source, 0, source.text().size()},
                        diags);
  }
  if (parts.size() != names.size()) {
    return report_count(parts.size(), names, {&source, 0, source.text().size()},
                        diags);
  }
  std::vector<AxisRequest> axes;
  for (const Span& part : parts) {
    auto axis = parse_named(part, names, diags);
    if (!axis) return std::nullopt;
    axis->size = std::max<int64_t>(axis->size, -1);
    axes.push_back(*std::move(axis));
  }
  for (const AxisName& name : names) {
    const bool used = std::ranges::any_of(
        axes, [&](const AxisRequest& a) { return a.name == name; });
    if (used) continue;
    return diags.error(Code::InvalidMesh, {&source, 0, source.text().size()},
                       "axis " + in_backticks(name) + " has no size");
  }
  return axes;
}

int64_t Slices::count() const {
  int64_t count = 1;  // at most 2^40, the most devices of a mesh
  for (const int64_t pieces : crossed) count *= pieces;
  return count;
}

std::optional<SlicedMesh> make_sliced_mesh(const std::vector<AxisRequest>& axes,
                                           const std::vector<AxisRequest>& dcn,
                                           std::optional<int64_t> devices,
                                           std::optional<int64_t> slices,
                                           Span where, Diagnostics& diags) {
  if (!dcn.empty()) return combine(axes, dcn, devices, slices, where, diags);
  auto mesh = make_mesh(axes, devices, where, diags);
  if (!mesh) return std::nullopt;
  SlicedMesh result{*std::move(mesh), std::nullopt};
  if (!slices) return result;
  Slices cut{std::vector<int64_t>(result.mesh.axes().size(), 1)};
  for (size_t i = 0; i < cut.crossed.size(); ++i) {
    if (result.mesh.axes()[i].size % *slices != 0) continue;
    cut.crossed[i] = *slices;
    result.slices = std::move(cut);
    return result;
  }
  return diags
      .error(Code::InvalidMesh, where,
             "no mesh axis can span " + plural(*slices, "slice"))
      .fact("the mesh is " + mesh_text(result.mesh) +
            "; the first axis divisible by " + std::to_string(*slices) +
            " would span the slices")
      .help("make one axis a multiple of " + std::to_string(*slices));
}

std::string slices_text(const Mesh& mesh, const Slices& slices) {
  std::string crossing;
  for (size_t i = 0; i < slices.crossed.size(); ++i) {
    if (slices.crossed[i] == 1) continue;
    crossing += (crossing.empty() ? " (" : ", ") + mesh.axes()[i].name +
                " crosses " + std::to_string(slices.crossed[i]);
  }
  if (!crossing.empty()) crossing += ")";
  return plural(slices.count(), "slice") + crossing;
}

}  // namespace shardplan
