// SPDX-License-Identifier: Apache-2.0
// MaxText's sharding dumps: names and shapes from the file that is given, the
// logical axes from `logical_shardings.json`, the mesh from
// `named_shardings.json`; whichever is given, the other beside it is read too.
#include "io/maxtext_dump.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text.h"
#include "io/formats/formats.h"
#include "io/paths.h"
#include "io/shards.h"
#include "io/train_state.h"

namespace shardplan {
namespace {

std::vector<RecordedSharding> shardings_of(const MaxtextDump& dump) {
  std::vector<RecordedSharding> shardings;
  for (const DumpEntry& entry : dump.entries) {
    shardings.push_back(entry.sharding);
  }
  return shardings;
}

// The file beside the one that is given. One that is broken takes nothing from
// it.
std::optional<MaxtextDump> read_twin(const ModelSource& source, bool named,
                                     Manifest& manifest, Host& host,
                                     Diagnostics& diags) {
  const bool is_named = file_name_of(source.path) == kNamedShardings;
  const bool is_logical = file_name_of(source.path) == kLogicalShardings;
  if (named ? !is_named : !is_logical) return std::nullopt;
  const std::string path =
      join_path(source.directory, named ? kLogicalShardings : kNamedShardings);
  if (!host.file_info(path)) return std::nullopt;
  Diagnostics problems;
  const SourcePtr file = read_source(path, kWholeFile, host, problems);
  std::optional<MaxtextDump> twin;
  if (file != nullptr) twin = read_maxtext_dump(file, problems);
  if (twin && twin->named != named) {
    diags.keep(file);
    manifest.sources.push_back(file);
    return twin;
  }
  std::string why = "it is of the same kind";
  Code code = Code::InconsistentCheckpoint;
  if (!problems.all().empty()) {
    why = problems.all().front().message;
    code = problems.all().front().code;
  }
  diags.report(code, Severity::Warning, {},
               "`" + path + "` is not used: " + why);
  return std::nullopt;
}

// Labels of an array's dimensions; those that the spec leaves out have none.
AxisLabels labels_of(const DumpEntry& entry) {
  AxisLabels labels(entry.shape->size());
  const std::vector<AxisNames>& dims = entry.sharding.spec.dims;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!dims[i].empty()) labels[i] = dims[i].front();
  }
  return labels;
}

// Newer dumps write what logical names became: axes of the mesh, several for a
// dimension.
bool names_mesh_axes(const MaxtextDump& logical,
                     const std::vector<AxisRequest>& mesh) {
  bool any = false;
  bool all_in_mesh = !mesh.empty();
  for (const DumpEntry& entry : logical.entries) {
    for (const AxisNames& axes : entry.sharding.spec.dims) {
      if (axes.size() > 1) return true;
      for (const AxisName& name : axes) {
        any = true;
        all_in_mesh = all_in_mesh && std::any_of(mesh.begin(), mesh.end(),
                                                 [&](const AxisRequest& axis) {
                                                   return axis.name == name;
                                                 });
      }
    }
  }
  return any && all_in_mesh;
}

class ManifestMaker {
 public:
  ManifestMaker(Manifest& manifest, Diagnostics& diags)
      : manifest_(manifest), diags_(diags) {}

  bool make(const MaxtextDump& dump, const MaxtextDump* axes_from) {
    std::unordered_map<std::string_view, const DumpEntry*> axes_of;
    if (axes_from != nullptr) {
      for (const DumpEntry& entry : axes_from->entries) {
        axes_of.emplace(entry.sharding.name, &entry);
      }
    }
    const bool any = std::any_of(
        dump.entries.begin(), dump.entries.end(), [](const DumpEntry& entry) {
          return state_part(entry.sharding.name) == StatePart::Parameter;
        });
    for (const DumpEntry& entry : dump.entries) {
      const StatePart part = state_part(entry.sharding.name);
      if (any && part == StatePart::Optimizer) {
        ++left_out_;
        continue;
      }
      const auto twin = axes_of.find(entry.sharding.name);
      if (!add(entry, any && part == StatePart::Counter,
               twin == axes_of.end() ? nullptr : twin->second)) {
        return false;
      }
    }
    report();
    return true;
  }

 private:
  bool add(const DumpEntry& entry, bool buffer, const DumpEntry* axes) {
    const Span where = entry.sharding.where;
    if (!entry.shape) {
      diags_.error(Code::MissingFacts, where,
                   "the dump does not give the shape of `" +
                       printable(entry.sharding.name) + "`");
      return false;
    }
    const size_t index = manifest_.size();
    if (!manifest_.add(entry.sharding.name, {DType::F32, *entry.shape}, where,
                       buffer)) {
      diags_.error(Code::MalformedDocument, where,
                   "with this array the dump exceeds 2^63 bytes");
      return false;
    }
    if (!buffer && first_.file == nullptr) first_ = where;
    if (axes == nullptr || buffer) return true;
    if (axes->shape == entry.shape) {
      manifest_.set_axes(index, labels_of(*axes));
    } else {
      differing_.push_back(entry.sharding.name);
    }
    return true;
  }

  void report() {
    if (!differing_.empty()) {
      diags_
          .report(
              Code::InconsistentCheckpoint, Severity::Warning, {},
              "the two dumps differ in the shape of " + some_names(differing_))
          .fact("logical axes of these are not used")
          .parameters(differing_);
    }
    if (manifest_.size() > 0) {
      diags_
          .report(Code::MissingFacts, Severity::Warning, first_,
                  "a sharding dump does not say dtypes: f32 is assumed for all")
          .fact("all bytes follow from that: in bf16 they would be half")
          .help(
              "f32 is MaxText's default for weights; give a native manifest to "
              "have other dtypes");
    }
    if (left_out_ > 0) {
      manifest_.remarks.push_back(
          plural(left_out_, "array") +
          " of the optimizer's state left out: `--optimizer` computes it");
    }
  }

  Manifest& manifest_;
  Diagnostics& diags_;
  Span first_;
  std::vector<std::string> differing_;
  int64_t left_out_ = 0;
};

std::optional<Manifest> read(const ModelSource& source, Host& host,
                             Diagnostics& diags) {
  const auto given = read_maxtext_dump(source.file, diags);
  if (!given) return std::nullopt;
  Manifest manifest;
  manifest.sources.push_back(source.file);
  const auto twin = source.path == "-" ? std::nullopt
                                       : read_twin(source, given->named,
                                                   manifest, host, diags);
  const MaxtextDump* named = given->named ? &*given : twin ? &*twin : nullptr;
  const MaxtextDump* logical = !given->named ? &*given
                               : twin        ? &*twin
                                             : nullptr;
  if (named != nullptr) {
    manifest.mesh = common_mesh(shardings_of(*named), diags).axes;
  }
  if (logical != nullptr && names_mesh_axes(*logical, manifest.mesh)) {
    manifest.remarks.emplace_back(
        "`" + std::string(kLogicalShardings) +
        "` names axes of the mesh, not logical ones: these are not used");
    logical = nullptr;
  }
  if (!ManifestMaker(manifest, diags).make(*given, logical)) {
    return std::nullopt;
  }
  return manifest;
}

}  // namespace

const ManifestFormat kMaxtextDump = {
    "maxtext-dump", "MaxText's sharding dumps: names, shapes, axes and mesh",
    is_maxtext_dump, read};

}  // namespace shardplan
