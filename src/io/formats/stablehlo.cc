// SPDX-License-Identifier: Apache-2.0
// StableHLO: the arguments of a lowered program, as JAX prints it.
#include <optional>
#include <string>
#include <utility>

#include "base/text.h"
#include "io/formats/formats.h"
#include "io/stablehlo_text.h"

namespace shardplan {
namespace {

std::optional<Manifest> read(const ModelSource& model, Host& /*host*/,
                             Diagnostics& diags) {
  diags.keep(model.file);
  const auto module = read_stablehlo(*model.file, diags);
  if (!module) return std::nullopt;
  Manifest manifest;
  for (const StableHloArgument& argument : module->arguments) {
    if (argument.name.empty() || !is_valid_utf8(argument.name)) {
      return diags.error(Code::MalformedDocument, argument.where,
                         argument.name.empty()
                             ? "the name of an argument is empty"
                             : "the name of an argument is not UTF-8");
    }
    if (!manifest.add(argument.name, argument.type, argument.where)) {
      return diags
          .error(Code::MalformedDocument, argument.where,
                 "`" + printable(argument.name) + "` exceeds 2^63 bytes")
          .fact("its shape is " + shape_text(argument.type.shape));
    }
  }
  const ShardyMesh* mesh = nullptr;
  // What is wrong with shardings is not a matter of names and shapes.
  Diagnostics ignored;
  if (find_mesh(*module, mesh, ignored) && mesh != nullptr) {
    manifest.mesh = mesh->axes;
  }
  manifest.title = model.path;
  manifest.sources.push_back(model.file);
  return manifest;
}

}  // namespace

const ManifestFormat kStableHlo = {
    "stablehlo", "the arguments of a lowered program, in MLIR text",
    looks_like_stablehlo, read};

}  // namespace shardplan
