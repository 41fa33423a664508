// SPDX-License-Identifier: Apache-2.0
#include "cli/mesh_input.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/text.h"
#include "cli/flag_values.h"
#include "core/mesh_dims.h"

namespace shardplan::cli {
namespace {

// No name anywhere, and a number in front.
bool is_sizes(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  return first != std::string_view::npos &&
         std::string_view("-0123456789").find(text[first]) !=
             std::string_view::npos &&
         text.find_first_of("=:") == std::string_view::npos;
}

// The whole text, to be pointed at.
Span whole(const SourceFile& source) {
  return {&source, 0, source.text().size()};
}

std::optional<std::vector<AxisRequest>> read_sizes(const SourceFile& source,
                                                   const AxisNames& names,
                                                   Diagnostics& diags) {
  const std::string_view text = source.text();
  const auto sizes =
      static_cast<size_t>(std::count(text.begin(), text.end(), ',')) + 1;
  if (sizes == names.size()) return parse_mesh_dims(source, names, diags);
  const std::string count = plural(static_cast<int64_t>(sizes), "size");
  if (names.empty()) {
    return diags
        .error(Code::InvalidMesh, whole(source), "the sizes have no names")
        .fact("there are " + count + ": " + printable(text))
        .help(
            "name each with `--axes`, e.g. `--axes fsdp,tp`, or write "
            "`--mesh fsdp=8,tp=4`");
  }
  return diags
      .error(Code::InvalidMesh, whole(source),
             "there are " + count + " for " +
                 plural(static_cast<int64_t>(names.size()), "name"))
      .fact("the sizes are " + printable(text))
      .fact("`--axes` names " + names_text(names, " and "))
      .help(
          "`--axes` names each size in its order; with `--mesh fsdp=8,tp=4` it "
          "may declare axes that the mesh lacks");
}

}  // namespace

std::optional<SlicedMesh> written_mesh(const SourcePtr& text,
                                       const Options& options,
                                       std::optional<int64_t> devices,
                                       Diagnostics& diags) {
  diags.keep(text);
  const auto axes = is_sizes(text->text())
                        ? read_sizes(*text, options.axes, diags)
                        : parse_mesh_text(*text, diags);
  if (!axes) return std::nullopt;
  return make_sliced_mesh(*axes, {}, devices, options.slices, whole(*text),
                          diags);
}

std::optional<SlicedMesh> mesh_of_rules(const RuleSet& rules,
                                        std::optional<int64_t> devices,
                                        std::optional<int64_t> slices,
                                        Diagnostics& diags) {
  SHARDPLAN_CHECK(rules.mesh.has_value());
  return make_sliced_mesh(*rules.mesh, rules.dcn_mesh, devices, slices,
                          rules.mesh_where, diags);
}

}  // namespace shardplan::cli
