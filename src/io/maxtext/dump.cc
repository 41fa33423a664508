// SPDX-License-Identifier: Apache-2.0
#include "io/maxtext/dump.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "base/words.h"
#include "io/dialects.h"
#include "io/fence.h"
#include "io/formats.h"
#include "io/paths.h"
#include "syntax/document.h"
#include "syntax/tokens.h"

namespace shardplan {
namespace {

// Removes one key from the start of `path`, `['w']`, `[0]` or `.w`, and returns
// it.
std::optional<std::string> cut_key(std::string_view& path) {
  if (path.starts_with('.')) {
    const size_t end = std::min(path.find('/'), path.size());
    std::string key(path.substr(1, end - 1));
    path.remove_prefix(end);
    if (key.empty()) return std::nullopt;
    return key;
  }
  if (!path.starts_with('[')) return std::nullopt;
  path.remove_prefix(1);
  std::string key;
  const char quote = path.empty() ? '\0' : path[0];
  const bool quoted = quote == '\'' || quote == '"';
  if (quoted) path.remove_prefix(1);
  const char last = quoted ? quote : ']';
  size_t at = 0;
  for (; at < path.size() && path[at] != last; ++at) {
    if (quoted && path[at] == '\\' && at + 1 < path.size()) ++at;
    key += path[at];
  }
  if (at == path.size()) return std::nullopt;
  path.remove_prefix(at + 1);
  if (quoted) {
    if (!path.starts_with(']')) return std::nullopt;
    path.remove_prefix(1);
  }
  return key;
}

class DumpReader {
 public:
  explicit DumpReader(Diagnostics& diags) : errors_(diags, "the dump") {}

  std::optional<MaxtextDump> read(const Node& root) {
    MaxtextDump dump;
    for (size_t i = 0; i < root.size() && !errors_.stopped(); ++i) {
      DumpEntry entry;
      entry.sharding.name = key_path_name(root.key(i));
      entry.sharding.where = root.key_span(i);
      if (!root.item(i).is_map()) {
        errors_.malformed(root.item(i).span(),
                          "an array of the dump must be a map");
        continue;
      }
      read_entry(root.item(i), entry);
      dump.named = dump.named || !entry.sharding.mesh.empty();
      dump.entries.push_back(std::move(entry));
    }
    if (errors_.errors() > 0) return std::nullopt;
    return dump;
  }

 private:
  void read_entry(const Node& map, DumpEntry& entry) {
    if (const auto mesh = map.find("mesh")) read_mesh(*mesh, entry.sharding);
    const auto spec = map.find("partition_spec");
    if (spec && spec->is_list()) {
      read_spec(*spec, entry.sharding);
    } else {
      errors_.malformed(spec ? spec->span() : map.span(),
                        "an array must have a list `partition_spec`");
    }
    const auto shape = map.find("shape");
    if (!shape || shape->is_null()) return;
    entry.shape.emplace();
    for (size_t i = 0; i < shape->size(); ++i) {
      const auto size = shape->item(i).integer();
      if (!size || *size < 0) {
        errors_.malformed(shape->item(i).span(),
                          "an entry of `shape` must be a size");
        return;
      }
      entry.shape->push_back(*size);
    }
    if (!shape->is_list()) {
      errors_.malformed(shape->span(), "`shape` must be a list of sizes");
    } else if (entry.sharding.spec.dims.size() > entry.shape->size()) {
      errors_.malformed(
          entry.sharding.spec_where,
          "the spec has " +
              plural(std::ssize(entry.sharding.spec.dims), "dimension") +
              ", but the shape has " + std::to_string(entry.shape->size()));
    }
  }

  void read_mesh(const Node& mesh, RecordedSharding& sharding) {
    const auto names = mesh.find("axis_names");
    const auto sizes = mesh.find("shape");
    if (!names || !names->is_list() || !sizes || !sizes->is_map()) {
      errors_.malformed(
          mesh.span(),
          "a mesh must have a list `axis_names` and a map of sizes `shape`");
      return;
    }
    sharding.mesh_where = mesh.span();
    for (size_t i = 0; i < names->size(); ++i) {
      const Node name = names->item(i);
      const auto size =
          name.is_string() ? sizes->find(name.text()) : std::nullopt;
      if (!size || !size->integer()) {
        errors_.malformed(name.span(), "this axis has no size in `shape`");
        return;
      }
      sharding.mesh.push_back({std::string(name.text()), *size->integer(),
                               name.span(), name.span(), size->span()});
    }
  }

  void read_spec(const Node& spec, RecordedSharding& sharding) {
    sharding.spec_where = spec.span();
    for (size_t i = 0; i < spec.size(); ++i) {
      const Node dim = spec.item(i);
      AxisNames& axes = sharding.spec.dims.emplace_back();
      if (dim.is_null()) continue;
      if (!dim.is_list()) {
        read_axis(dim, axes);
        continue;
      }
      for (size_t k = 0; k < dim.size(); ++k) read_axis(dim.item(k), axes);
    }
  }

  void read_axis(const Node& node, AxisNames& axes) {
    if (node.is_string() && is_axis_name(node.text())) {
      axes.emplace_back(node.text());
      return;
    }
    errors_.malformed(node.span(), "this is not an axis name");
  }

  ErrorLimit errors_;
};

// The format `maxtext-dump`: names and shapes come from the given file, logical
// axes from `logical_shardings.json`, and the mesh from `named_shardings.json`.
// Whichever file is given, the other one in the same folder is read as well.

std::vector<RecordedSharding> shardings_of(const MaxtextDump& dump) {
  std::vector<RecordedSharding> shardings;
  for (const DumpEntry& entry : dump.entries) {
    shardings.push_back(entry.sharding);
  }
  return shardings;
}

// Reads the other dump in the same folder. If it is broken, the given one is
// still used.
std::optional<MaxtextDump> read_twin(const ManifestSource& source, bool named,
                                     Manifest& manifest, Host& host,
                                     Diagnostics& diags) {
  std::string_view own = kNamedShardings;
  std::string_view other = kLogicalShardings;
  if (!named) std::swap(own, other);
  if (file_name_of(source.path) != own) return std::nullopt;
  const std::string path = path_relative_to(source.path, other, host);
  if (!host.file_info(path)) return std::nullopt;
  Diagnostics problems;
  const SourcePtr file = read_source(path, kWholeFile, host, problems);
  std::optional<MaxtextDump> twin;
  if (file != nullptr) twin = read_maxtext_dump(file, problems);
  if (twin && twin->named != named) {
    diags.add_source(file);
    manifest.sources.push_back(file);
    return twin;
  }
  std::string why = "it is the same kind of dump";
  Code code = Code::InconsistentCheckpoint;
  if (!problems.all().empty()) {
    why = problems.all().front().message;
    code = problems.all().front().code;
  }
  diags.report(code, Severity::Warning, {},
               "`" + path + "` is ignored: " + why);
  return std::nullopt;
}

// Returns the labels of an array's dimensions; dimensions that the spec omits
// have none.
AxisLabels labels_of(const DumpEntry& entry) {
  AxisLabels labels(entry.shape->size());
  const std::vector<AxisNames>& dims = entry.sharding.spec.dims;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!dims[i].empty()) labels[i] = dims[i].front();
  }
  return labels;
}

// Returns whether a "logical" dump has mesh axes. Newer dumps record the axes
// that logical names resolve to, sometimes several per dimension.
bool names_mesh_axes(const MaxtextDump& logical,
                     const std::vector<AxisRequest>& mesh) {
  bool any = false;
  bool all_in_mesh = !mesh.empty();
  for (const DumpEntry& entry : logical.entries) {
    for (const AxisNames& axes : entry.sharding.spec.dims) {
      if (axes.size() > 1) return true;
      for (const AxisName& name : axes) {
        any = true;
        all_in_mesh = all_in_mesh &&
                      std::ranges::any_of(mesh, [&](const AxisRequest& axis) {
                        return axis.name == name;
                      });
      }
    }
  }
  return any && all_in_mesh;
}

// Adds the arrays of `dump`, each with the logical axes of the array with its
// name in `logical`, which may be null.
bool add_arrays(const MaxtextDump& dump, const MaxtextDump* logical,
                Manifest& manifest, Diagnostics& diags) {
  std::unordered_map<std::string_view, const DumpEntry*> labelled;
  if (logical != nullptr) {
    for (const DumpEntry& entry : logical->entries) {
      labelled.emplace(entry.sharding.name, &entry);
    }
  }
  const auto part_of = [](const DumpEntry& entry) {
    return state_part(entry.sharding.name);
  };
  const bool any_parameter =
      std::ranges::count(dump.entries, StatePart::Parameter, part_of) > 0;
  std::vector<std::string> differing;
  int64_t left_out = 0;
  for (const DumpEntry& entry : dump.entries) {
    const std::string& name = entry.sharding.name;
    const Span where = entry.sharding.where;
    const StatePart part =
        any_parameter ? part_of(entry) : StatePart::Parameter;
    if (part == StatePart::Optimizer) {
      ++left_out;
      continue;
    }
    if (!entry.shape) {
      diags.error(Code::MissingFacts, where,
                  "the dump does not give the shape of " + in_backticks(name));
      return false;
    }
    const size_t index = manifest.size();
    const bool buffer = part == StatePart::Counter;
    if (!manifest.add(name, {DType::F32, *entry.shape}, where, buffer)) {
      diags.error(Code::MalformedDocument, where,
                  "with this array the dump exceeds 2^63 bytes");
      return false;
    }
    const auto axes = labelled.find(name);
    if (buffer || axes == labelled.end()) continue;
    if (axes->second->shape == entry.shape) {
      manifest.set_axes(index, labels_of(*axes->second));
    } else {
      differing.push_back(name);
    }
  }
  if (!differing.empty()) {
    diags
        .report(Code::InconsistentCheckpoint, Severity::Warning, {},
                "the two dumps differ in the shape of " + some_names(differing))
        .fact("their logical axes are ignored")
        .parameters(differing);
  }
  if (left_out > 0) {
    manifest.remarks.push_back(
        plural(left_out, "array") +
        " of optimizer state left out: `--optimizer` computes it");
  }
  return true;
}

std::optional<Manifest> read_dump(const ManifestSource& source, Host& host,
                                  Diagnostics& diags) {
  const auto given = read_maxtext_dump(source.file, diags);
  if (!given) return std::nullopt;
  Manifest manifest;
  manifest.sources.push_back(source.file);
  const auto twin = source.path == "-" ? std::nullopt
                                       : read_twin(source, given->named,
                                                   manifest, host, diags);
  const MaxtextDump* const other = twin ? &*twin : nullptr;
  const MaxtextDump* const named = given->named ? &*given : other;
  const MaxtextDump* logical = given->named ? other : &*given;
  if (named != nullptr) {
    manifest.mesh = common_mesh(shardings_of(*named), diags).axes;
  }
  if (logical != nullptr && names_mesh_axes(*logical, manifest.mesh)) {
    manifest.remarks.emplace_back(
        "`" + std::string(kLogicalShardings) +
        "` has mesh axes instead of logical axes: these are ignored");
    logical = nullptr;
  }
  if (!add_arrays(*given, logical, manifest, diags)) return std::nullopt;
  if (manifest.size() > 0) {
    diags
        .report(Code::MissingFacts, Severity::Warning, manifest.where(0),
                "a sharding dump has no dtypes: f32 is assumed for all arrays")
        .fact("all byte counts depend on this: bf16 would halve them")
        .help(
            "f32 is MaxText's default for weights; give a native manifest for "
            "other dtypes");
  }
  return manifest;
}

// The rules of MaxText's `named_shardings.json`: for each array, a rule for
// exactly its name, with the recorded spec.
bool read_recorded_rules(SourcePtr source, const RuleReading&, RuleSet& rules,
                         Diagnostics& diags) {
  const auto dump = read_maxtext_dump(source, diags);
  if (!dump) return false;
  if (!dump->named) {
    diags
        .error(Code::UnrecognizedFormat, {},
               "`" + source->name() + "` has logical axes, not resolved specs")
        .help(
            "give `named_shardings.json` as rules, or this file as the model "
            "with `logical_axis_rules` as rules");
    return false;
  }
  const std::vector<RecordedSharding> shardings = shardings_of(*dump);
  RecordedMesh mesh = common_mesh(shardings, diags);
  if (!mesh.axes.empty()) {
    rules.mesh = std::move(mesh.axes);
    rules.mesh_where = mesh.where;
    rules.mesh_recorded = true;
  }
  add_recorded_rules(shardings, rules, diags);
  rules.sources.push_back(std::move(source));
  return true;
}

}  // namespace

std::string key_path_name(std::string_view path) {
  const std::string whole(path);
  std::string name;
  while (true) {
    const bool attribute = path.starts_with('.');
    const auto key = cut_key(path);
    if (!key) return whole;
    const bool boxed =
        attribute && *key == "value" && path.empty() && !name.empty();
    if (!boxed) name += (name.empty() ? "" : "/") + *key;
    if (path.empty()) return name;
    if (!path.starts_with('/')) return whole;
    path.remove_prefix(1);
  }
}

bool is_maxtext_dump(std::string_view head) {
  const size_t first = head.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && head[first] == '{' &&
         contains(head, "\"partition_spec\"") && !contains(head, "\"dtype\"");
}

std::optional<MaxtextDump> read_maxtext_dump(const SourcePtr& file,
                                             Diagnostics& diags) {
  const auto document = parse_document(file, diags);
  if (!document || !require(document->root(), NodeKind::Map, "dump", diags)) {
    return std::nullopt;
  }
  return DumpReader(diags).read(document->root());
}

const ManifestFormat kMaxtextDump = {
    "maxtext-dump", "MaxText's sharding dumps: names, shapes, axes and mesh",
    is_maxtext_dump, read_dump};

const RuleDialect kMaxtextDumpRules = {
    "maxtext-dump", "the shardings in MaxText's `named_shardings.json`",
    is_maxtext_dump, read_recorded_rules, &kRecordedForm};

}  // namespace shardplan
