// SPDX-License-Identifier: Apache-2.0
// The dialect `shardy`: the shardings of the arguments of a StableHLO module,
// from Shardy's `sdy.sharding`, or from `mhlo.sharding`, which does not name
// axes. Each argument gets a rule.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "io/dialects.h"
#include "io/export.h"
#include "io/stablehlo/module.h"
#include "syntax/mlir.h"

namespace shardplan {
namespace {

// Notes, once per file, the parts of shardings that a spec does not have.
void note_openness(const StableHloModule& module, Diagnostics& diags) {
  const ShardySharding* open = nullptr;
  const ShardySharding* ordered = nullptr;
  int64_t count = 0;
  for (const StableHloArgument& argument : module.arguments) {
    if (!argument.sharding) continue;
    const ShardySharding& sharding = *argument.sharding;
    if (sharding.open_after_axes && count++ == 0) open = &sharding;
    if (sharding.priorities && ordered == nullptr) ordered = &sharding;
  }
  if (open != nullptr) {
    diags
        .report(Code::Inexpressible, Severity::Note, open->where,
                "open dimensions are read as closed")
        .fact(plural(count, "argument") + (count == 1 ? " has" : " have") +
              " a dimension that `?` allows to be sharded further; a spec "
              "keeps only the listed axes");
  }
  if (ordered != nullptr) {
    diags
        .report(Code::Inexpressible, Severity::Note, ordered->where,
                "sharding priorities are dropped")
        .fact("they order the propagation of shardings to other values");
  }
}

bool read_shardy(const StableHloModule& module, RuleSet& rules,
                 Diagnostics& diags) {
  const ShardyMesh* mesh = nullptr;
  if (!find_mesh(module, mesh, diags)) return false;
  for (const StableHloArgument& argument : module.arguments) {
    if (!argument.sharding) continue;
    const ShardySharding& sharding = *argument.sharding;
    rules.rules.push_back({exact_pattern(argument.name), sharding.spec,
                           argument.where, sharding.where, sharding.dim_where});
  }
  rules.mesh = mesh->axes;
  rules.mesh_where = mesh->where;
  rules.mesh_recorded = true;
  if (mesh->has_device_ids) {
    diags
        .report(Code::Inexpressible, Severity::Note, mesh->where,
                "the device order is dropped")
        .fact("devices are numbered by their mesh coordinates instead");
  }
  note_openness(module, diags);
  return true;
}

// Builds the mesh from the requested axes. Returns false unless the products of
// consecutive axes are `sizes`, the axis sizes of the shardings. Axes of size 1
// are skipped.
bool is_made_of(const std::vector<int64_t>& sizes, std::vector<Axis> asked,
                std::vector<Axis>& mesh) {
  // One axis may have the remaining devices.
  int64_t rest = 1;
  for (const int64_t size : sizes) rest *= size;
  for (const Axis& axis : asked) {
    if (axis.size > 0 && rest % axis.size == 0) rest /= axis.size;
  }
  for (Axis& axis : asked) {
    if (axis.size == -1) axis.size = std::exchange(rest, 1);
  }
  size_t next = 0;
  for (const int64_t size : sizes) {
    int64_t parts = 1;
    while (parts < size && next < asked.size()) {
      const Axis& axis = asked[next++];
      if (axis.size < 1 || size % axis.size != 0) return false;
      if (axis.size > 1) mesh.push_back({axis.name, axis.size});
      parts *= axis.size;
    }
    if (parts != size) return false;
  }
  return std::ranges::all_of(std::span(asked).subspan(next),
                             [](const Axis& axis) { return axis.size == 1; });
}

// Splits names such as `fsdp=4`, which `--mesh` passes; empty for the bare
// names of `--axes`.
std::vector<Axis> axes_with_sizes(const AxisNames& names) {
  std::vector<Axis> axes;
  for (const std::string& name : names) {
    const size_t equals = name.find('=');
    if (equals == name.npos) return {};
    int64_t size = 0;
    const char* const end = name.data() + name.size();
    std::from_chars(name.data() + equals + 1, end, size);
    axes.push_back({name.substr(0, equals), size});
  }
  return axes;
}

// Names the axes: from `--axes`, one name per size, or from `--mesh`.
bool name_axes(const std::vector<int64_t>& sizes, const RuleReading& reading,
               Span where, std::vector<Axis>& mesh, Diagnostics& diags) {
  const std::vector<Axis> asked = axes_with_sizes(reading.axes);
  const bool is_asked = !asked.empty();
  if (is_asked && is_made_of(sizes, asked, mesh)) return true;
  mesh.clear();
  const std::string found = joined_of(
      sizes, " x ", [](int64_t size) { return std::to_string(size); });
  if (is_asked || reading.axes.size() != sizes.size()) {
    auto report = diags.error(
        Code::MalformedDocument, where,
        is_asked ? "these shardings do not match the mesh axes"
        : reading.axes.empty()
            ? "`mhlo.sharding` has no axis names"
            : plural(std::ssize(reading.axes), "name") +
                  (reading.axes.size() == 1 ? " is" : " are") + " given for " +
                  plural(std::ssize(sizes), "axis"));
    report.fact("the shardings use axes of " +
                (found.empty() ? std::string("no size") : found) +
                " devices, major to minor");
    if (is_asked) {
      report.fact("the mesh is " + quoted_names(texts_of(reading.axes)));
      report.help(
          "pass `--axes a,b` to name the shardings' axes in that order, "
          "independent of the mesh");
    } else {
      report.help(
          "name them in that order with `--axes a,b`, or pass names and sizes "
          "with `--mesh`");
    }
    return false;
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    mesh.push_back({reading.axes[i], sizes[i]});
  }
  return true;
}

bool read_hlo(const StableHloModule& module, const RuleReading& reading,
              RuleSet& rules, Diagnostics& diags) {
  std::vector<HloSharding> shardings;
  for (const StableHloArgument& argument : module.arguments) {
    if (argument.hlo_sharding) shardings.push_back(*argument.hlo_sharding);
  }
  const auto sizes = axis_sizes_of(shardings, diags);
  if (!sizes) return false;
  std::vector<Axis> mesh;
  if (!sizes->empty()) {
    const auto first = std::ranges::find_if(
        shardings,
        [](const HloSharding& sharding) { return !sharding.tiles.empty(); });
    if (module.partitions && *module.partitions != first->devices()) {
      diags
          .error(Code::MalformedDocument, first->where,
                 "a sharding does not cover all devices")
          .fact("it covers " + std::to_string(first->devices()) +
                ", but the module has " + std::to_string(*module.partitions) +
                " partitions");
      return false;
    }
    if (!name_axes(*sizes, reading, first->where, mesh, diags)) return false;
    const Span where = first->where;
    rules.mesh.emplace();
    rules.mesh_where = where;
    for (const Axis& axis : mesh) {
      rules.mesh->push_back({axis.name, axis.size, where, where, where});
    }
  }
  for (const StableHloArgument& argument : module.arguments) {
    if (!argument.hlo_sharding) continue;
    const Span where = argument.hlo_sharding->where;
    const PartitionSpec spec = spec_of(*argument.hlo_sharding, mesh);
    rules.rules.push_back({exact_pattern(argument.name), spec, argument.where,
                           where, std::vector<Span>(spec.dims.size(), where)});
  }
  return true;
}

bool read_shardings(SourcePtr source, const RuleReading& reading,
                    RuleSet& rules, Diagnostics& diags) {
  diags.add_source(source);
  const auto module = read_stablehlo(*source, diags);
  const SourceFile& file = *source;
  rules.sources.push_back(std::move(source));
  if (!module) return false;
  bool shardy = false;
  bool hlo = false;
  for (const StableHloArgument& argument : module->arguments) {
    shardy = shardy || argument.sharding;
    hlo = hlo || argument.hlo_sharding;
  }
  if (shardy && hlo) {
    diags
        .error(Code::Inexpressible, {&file, 0, 0},
               "some arguments have `sdy.sharding`, others `mhlo.sharding`")
        .help("lower the program with one partitioner");
    return false;
  }
  if (shardy) return read_shardy(*module, rules, diags);
  if (hlo) return read_hlo(*module, reading, rules, diags);
  diags
      .error(Code::UnrecognizedFormat, {&file, 0, 0},
             "no argument of the module has a sharding")
      .fact("it has " + plural(std::ssize(module->arguments), "argument"))
      .help(
          "pass shardings to jit (`in_shardings`, or sharded arrays) "
          "before lowering");
  return false;
}

// The export target `shardy`: the resolved table as a StableHLO module. The
// arguments of its function are the parameters: names, types and Shardy
// shardings. The body only returns.

std::string quoted_text(std::string_view text) {
  static constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string result = "\"";
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const auto byte = static_cast<unsigned char>(c);
    // Every byte of a character that is not printable is escaped.
    const bool hash = c == '#' && follows_hash(text, at);
    if (c == '"' || c == '\\' || byte < 0x20 || byte >= 0x7F || hash) {
      result += '\\';
      result += kHex[byte >> 4U];
      result += kHex[byte & 0xFU];
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string sharding_text(const Placement& placement) {
  std::string text = "#sdy.sharding<@mesh, [";
  for (size_t dim = 0; dim < placement.type.shape.size(); ++dim) {
    text += dim == 0 ? "{" : ", {";
    AxisNames axes;
    if (dim < placement.spec.dims.size()) axes = placement.spec.dims[dim];
    const bool open =
        placement.requested && dim < placement.requested_spec().dims.size() &&
        placement.requested_spec().dims[dim] == AxisNames{kUnconstrained};
    text += axes.empty() && open ? "?" : joined_of(axes, ", ", quoted_text);
    text += "}";
  }
  return text + "]>";
}

std::string type_name(const TensorType& type) {
  std::string text = "tensor<";
  for (const int64_t size : type.shape) text += std::to_string(size) + "x";
  text += mlir_type_name(type.dtype);
  return text + ">";
}

// Returns why a parameter cannot be an argument, or "".
std::string problem_of(std::string_view name, const Placement& placement,
                       const Plan& plan) {
  if (mlir_type_name(placement.type.dtype).empty()) {
    return "MLIR has no element type for " +
           std::string(dtype_name(placement.type.dtype));
  }
  if (!placement.stored_dims.empty())
    return "a declaration changes how it is stored";
  if (name_of_location(name) != name) {
    return "its name would be read as the JAX path " +
           in_backticks(name_of_location(name));
  }
  if (cut_of(plan.on_indivisible) != Cut::Chunked) return "";
  for (size_t dim = 0; dim < placement.spec.dims.size(); ++dim) {
    const int64_t shards = shard_count(plan.mesh, placement.spec.dims[dim]);
    if (placement.type.shape[dim] % shards != 0) {
      return "dimension " + std::to_string(dim) + " of size " +
             std::to_string(placement.type.shape[dim]) +
             " is split into uneven chunks; Shardy would pad them";
    }
  }
  return "";
}

std::optional<std::string> write(const ExportInput& input, Diagnostics& diags) {
  const Plan& plan = input.plan;
  const std::string mesh =
      joined_of(plan.mesh.axes(), ", ", [](const Axis& axis) {
        return quoted_text(axis.name) + "=" + std::to_string(axis.size);
      });
  std::string text = "module @shardplan {\n  sdy.mesh @mesh = <[" + mesh +
                     "]>\n  func.func public @main(";
  bool good = true;
  for (size_t i = 0; i < input.manifest.size(); ++i) {
    const std::string_view name = input.manifest.name(i);
    const Placement& placement = plan.of(i);
    const std::string problem = problem_of(name, placement, plan);
    if (!problem.empty()) {
      good = false;
      diags
          .error(Code::Inexpressible, {},
                 in_backticks(name) + " cannot be an argument in Shardy")
          .fact(problem)
          .help("export to another target, or leave the parameter out")
          .parameters({std::string(name)});
      continue;
    }
    text += i == 0 ? "\n" : ",\n";
    text += "      %arg" + std::to_string(i) + ": " +
            type_name(placement.type) +
            " {sdy.sharding = " + sharding_text(placement) + "} loc(" +
            quoted_text(name) + ")";
  }
  if (!good) return std::nullopt;
  return text + ") {\n    return\n  }\n}\n";
}

}  // namespace

const RuleDialect kShardy = {
    "shardy", "shardings of the arguments of a StableHLO module",
    looks_like_stablehlo, read_shardings, &kRecordedForm};

const ExportTarget kShardyTarget = {
    "shardy", "a StableHLO module with Shardy shardings, in MLIR text", write};

}  // namespace shardplan
