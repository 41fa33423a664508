// SPDX-License-Identifier: Apache-2.0
#include "core/slices.h"

#include <utility>

#include "base/check.h"
#include "base/checked.h"
#include "base/text.h"

namespace shardplan {
namespace {

// The product of the sizes that are not open, and the axis that is.
struct Product {
  int64_t value = 1;
  const AxisRequest* open = nullptr;
};

// Empty, with the reason reported, when it exceeds 2^40 or a size is none.
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
                 "axis `" + printable(axis.name) + "` has size " +
                     std::to_string(axis.size) + " " + std::string(what))
          .help("1 is the size of an axis that is not used");
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

// The sizes over slices, none of them open.
std::optional<std::vector<int64_t>> sizes_over_slices(
    const std::vector<AxisRequest>& dcn, std::optional<int64_t> slices,
    Diagnostics& diags) {
  const auto product = product_of(dcn, "over slices", diags);
  if (!product) return std::nullopt;
  const int64_t asked = slices.value_or(product->value);
  const int64_t rest = product->open != nullptr ? asked / product->value : 1;
  if (rest * product->value != asked || rest == 0) {
    auto problem = diags.error(
        Code::InvalidMesh,
        product->open != nullptr ? product->open->size_where : Span(),
        "the axes do not cross " + plural(asked, "slice"));
    problem.fact(product->open != nullptr
                     ? "without `" + product->open->name + "` they cross " +
                           std::to_string(product->value) + "; " +
                           mod_text(asked, product->value)
                     : "they cross " + std::to_string(product->value));
    problem.help("the sizes over slices multiply to `--slices`");
    return problem;
  }
  std::vector<int64_t> sizes;
  for (const AxisRequest& axis : dcn) {
    sizes.push_back(axis.size == -1 ? rest : axis.size);
  }
  return sizes;
}

// Fills the open size of `axes`, within a slice, with what `devices` leaves.
bool fill_open(std::vector<AxisRequest>& axes, int64_t slices,
               std::optional<int64_t> devices, Diagnostics& diags) {
  const auto product = product_of(axes, "within a slice", diags);
  if (!product) return false;
  if (product->open == nullptr || !devices) return true;
  const auto others = checked_mul(product->value, slices);
  if (!others || *devices < *others || *devices % *others != 0) {
    diags
        .error(Code::InvalidMesh, product->open->size_where,
               "no size of axis `" + printable(product->open->name) +
                   "` gives " + plural(*devices, "device") + " in " +
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

// Both kinds of sizes are known: the mesh over all slices.
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
    if (axes[i].size == -1) continue;  // make_mesh says what is missing
    const auto size = checked_mul(axes[i].size, crossed.crossed[i]);
    // Beyond 63 bits it is as much too large as any size beyond 2^40.
    axes[i].size = size.value_or(INT64_MAX);
  }
  auto mesh = make_mesh(axes, devices, where, diags);
  if (!mesh) return std::nullopt;
  SlicedMesh result{*std::move(mesh), std::nullopt};
  if (slices || crossed.count() > 1) result.slices = std::move(crossed);
  return result;
}

}  // namespace

int64_t Slices::count() const {
  int64_t count = 1;  // at most 2^40, as the mesh has devices
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
             "no axis of the mesh can cross " + plural(*slices, "slice"))
      .fact("the mesh has " + mesh_text(result.mesh) +
            ", and the first axis that " + std::to_string(*slices) +
            " divides would be cut")
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
