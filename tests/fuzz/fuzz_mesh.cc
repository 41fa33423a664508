// SPDX-License-Identifier: Apache-2.0
// Meshes on the command line: what is accepted prints back to itself.
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace shardplan;
  if (size == 0) return 0;
  std::optional<int64_t> devices;
  if (data[0] < 128) devices = int64_t{1} << (data[0] % 48U);
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
