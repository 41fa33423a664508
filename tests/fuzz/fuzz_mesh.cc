// SPDX-License-Identifier: Apache-2.0
// Meshes on the command line, by name and by sizes, and their slices: what is
// accepted prints back to itself, and slices are equal parts.
#include "core/mesh.h"
#include "tests/fuzz/fuzz.h"

namespace {

std::optional<shardplan::Mesh> parse(std::string text,
                                     std::optional<int64_t> devices,
                                     shardplan::Diagnostics& diags) {
  const shardplan::SourceFile source("--mesh", std::move(text));
  const auto axes = shardplan::parse_mesh_text(source, diags);
  if (!axes) return std::nullopt;
  return shardplan::make_mesh(*axes, devices, {}, diags);
}

// The same sizes within slices and over them, or of the whole mesh.
void check_slices(std::string text, int64_t devices, int64_t slices,
                  bool both) {
  using namespace shardplan;
  const SourceFile source("--mesh", std::move(text));
  Diagnostics diags;
  auto axes = parse_mesh_text(source, diags);
  if (!axes) axes = parse_mesh_dims(source, {"dp", "tp"}, diags);
  if (!axes) return;
  const std::vector<AxisRequest> dcn =
      both ? *axes : std::vector<AxisRequest>();
  const size_t before = diags.all().size();
  const auto mesh = make_sliced_mesh(*axes, dcn, devices, slices, {}, diags);
  fuzz::require(mesh.has_value() || diags.all().size() > before,
                "a refusal has a reason");
  if (!mesh) return;
  fuzz::require(mesh->slices.has_value(), "slices were asked for");
  fuzz::require(mesh->slices->count() == slices, "as many as were asked for");
  for (size_t i = 0; i < mesh->mesh.axes().size(); ++i) {
    fuzz::require(mesh->mesh.axes()[i].size % mesh->slices->crossed[i] == 0,
                  "slices are equal parts");
  }
}

}  // namespace

FUZZ_TARGET(mesh) {
  using namespace shardplan;
  if (size == 0) return 0;
  std::optional<int64_t> devices;
  if (data[0] < 128) devices = int64_t{1} << (data[0] % 48U);
  check_slices(std::string(fuzz::text_of(data + 1, size - 1)),
               devices.value_or(64), 1 + data[0] % 5, data[0] % 2 == 0);
  Diagnostics diags;
  const auto mesh =
      parse(std::string(fuzz::text_of(data + 1, size - 1)), devices, diags);
  fuzz::require(mesh.has_value() || diags.has_errors(),
                "a refusal has a reason");
  if (!mesh) return 0;
  fuzz::require(mesh->devices() <= kMaxDevices, "a mesh is not too large");
  fuzz::require(parse(mesh_text(*mesh), std::nullopt, diags) == mesh,
                "a mesh prints as it is read");
  return 0;
}
