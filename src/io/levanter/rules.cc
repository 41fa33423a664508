// SPDX-License-Identifier: Apache-2.0
// The dialect `levanter`: Levanter's trainer configs; see
// docs/formats/logical.md.
//
//   trainer:
//     fsdp_axis: embed
//     tensor_parallel_axes: [mlp, heads]
//     axis_resources: {vocab: model}
//     parameter_axis_resources: {embed: data}
//     model_axis_size: 4
//
// A logical axis maps to its mesh axes regardless of the other axes of an
// array, and a later entry replaces an earlier one: axis_resources,
// tensor_parallel_axes on `model`, batch_axis on (replica, data) and, for
// stored arrays, parameter_axis_resources, and fsdp_axis on `data`. Newer
// configs have one block for all of this:
//
//   trainer:
//     mesh:
//       axes: {data: -1, model: 4}
//       dcn_axes: {replica_dcn: -1}
//       shared_mapping: {vocab: model}
//       param_mapping: {embed: data}
//
// Stored arrays use the shared mapping, in which `mlp` and `heads` are on
// `model` by default, and the mapping of parameters. Source: levanter's
// MeshConfig.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "io/dialects.h"
#include "io/fence.h"
#include "io/paths.h"
#include "io/spec_node.h"
#include "syntax/document.h"

namespace shardplan {
namespace {

constexpr std::array<std::string_view, 8> kKeys = {
    "axis_resources", "parameter_axis_resources", "tensor_parallel_axes",
    "fsdp_axis",      "model_axis_size",          "param_mapping",
    "shared_mapping", "compute_mapping"};

void add_axis(std::string_view name, const AxisNames& axes, Span where,
              RuleSet& rules) {
  rules.logical_rules.push_back({std::string(name), axes, where, where});
}

// Maps one logical axis, or each axis of a list, to the same mesh axes.
bool add_axes(const Node& node, const AxisNames& axes, RuleSet& rules,
              Diagnostics& diags) {
  if (node.is_null()) return true;
  if (!node.is_list()) {
    if (!require(node, NodeKind::String, "axis", diags)) return false;
    add_axis(node.text(), axes, node.span(), rules);
    return true;
  }
  bool good = true;
  for (size_t i = 0; i < node.size(); ++i) {
    good = add_axes(node.item(i), axes, rules, diags) && good;
  }
  return good;
}

AxisRequest default_axis(std::string_view name, int64_t size, Span where) {
  return {name, size, where, where, where};
}

// Reads the size of an axis, which is 1 by default.
std::optional<AxisRequest> axis_of(const Node& trainer, std::string_view name,
                                   std::string_view key, Diagnostics& diags) {
  AxisRequest axis = default_axis(name, 1, trainer.span());
  const auto given = trainer.find(key);
  if (!given) return axis;
  if (!require(*given, NodeKind::Integer, key, diags)) return std::nullopt;
  if (!given->integer()) {
    return diags.error(Code::InvalidMesh, given->span(),
                       "`" + std::string(key) + "` does not fit in 63 bits");
  }
  axis.size = *given->integer();
  axis.where = axis.size_where = given->span();
  return axis;
}

bool read_mesh(const Node& trainer, RuleSet& rules, Diagnostics& diags) {
  const auto replica =
      axis_of(trainer, "replica", "replica_ici_axis_size", diags);
  const auto model = axis_of(trainer, "model", "model_axis_size", diags);
  const auto slices =
      axis_of(trainer, "replica", "replica_dcn_axis_size", diags);
  if (!replica || !model || !slices) return false;
  const Span where = trainer.span();
  rules.declared_axes = {"replica", "data", "model"};
  rules.mesh = {*replica, default_axis("data", -1, where), *model};
  rules.dcn_mesh = {*slices, default_axis("data", 1, where),
                    default_axis("model", 1, where)};
  rules.mesh_where = where;
  return true;
}

// Returns the default axes of a block, overridden by the axes that it lists by
// name. The first default axis has the remaining devices unless another axis
// does.
std::optional<std::vector<AxisRequest>> sizes_of(
    const Node& mesh, std::string_view key, std::vector<AxisRequest> defaults,
    Diagnostics& diags) {
  std::vector<AxisRequest> given;
  if (const auto node = mesh.find(key)) {
    auto read = read_mesh_node(*node, diags);
    if (!read) return std::nullopt;
    given = *std::move(read);
  }
  const bool rest_is_taken =
      std::ranges::find(given, -1, &AxisRequest::size) != given.end();
  if (rest_is_taken) defaults.front().size = 1;
  for (const AxisRequest& axis : given) {
    if (AxisRequest* const known = find_named(defaults, axis.name)) {
      *known = axis;
    } else {
      defaults.push_back(axis);
    }
  }
  return defaults;
}

bool read_block_mesh(const Node& mesh, RuleSet& rules, Diagnostics& diags) {
  const Span where = mesh.span();
  const auto within = sizes_of(
      mesh, "axes",
      {default_axis("data", -1, where), default_axis("replica", 1, where),
       default_axis("model", 1, where)},
      diags);
  const auto across = sizes_of(mesh, "dcn_axes",
                               {default_axis("replica_dcn", -1, where)}, diags);
  if (!within || !across) return false;
  rules.mesh = within;
  rules.mesh_where = where;
  rules.dcn_mesh = *within;
  for (AxisRequest& one : rules.dcn_mesh) one.size = 1;
  for (AxisRequest one : *across) {
    if (find_named(*within, one.name) != nullptr) {
      diags.error(Code::InvalidMesh, one.where,
                  "axis `" + one.name + "` is in both `axes` and `dcn_axes`");
      return false;
    }
    rules.dcn_mesh.push_back(one);
    one.size = 1;
    rules.mesh->push_back(std::move(one));
  }
  for (const AxisRequest& one : *rules.mesh) {
    rules.declared_axes.push_back(one.name);
  }
  return true;
}

bool read_mesh_block(const Node& mesh, RuleSet& rules, Diagnostics& diags) {
  if (!require(mesh, NodeKind::Map, "mesh", diags) ||
      !read_block_mesh(mesh, rules, diags)) {
    return false;
  }
  add_axis("mlp", {"model"}, mesh.span(), rules);
  add_axis("heads", {"model"}, mesh.span(), rules);
  const auto shared = mesh.find("shared_mapping");
  const bool good = !shared || read_axis_mapping(*shared, rules, diags);
  const auto parameters = mesh.find("param_mapping");
  if (!parameters) {
    add_axis("embed", {"data"}, mesh.span(), rules);
    return good;
  }
  return read_axis_mapping(*parameters, rules, diags) && good;
}

bool read_trainer(const Node& trainer, RuleSet& rules, Diagnostics& diags) {
  if (!require(trainer, NodeKind::Map, "trainer", diags)) return false;
  rules.logical_reading = LogicalReading::Mapping;
  if (const auto mesh = trainer.find("mesh")) {
    return read_mesh_block(*mesh, rules, diags);
  }
  bool good = read_mesh(trainer, rules, diags);
  const auto mapping = [&](std::string_view key) {
    const auto node = trainer.find(key);
    good = (!node || read_axis_mapping(*node, rules, diags)) && good;
  };
  const auto axes = [&](std::string_view key, const AxisNames& on,
                        std::string_view otherwise) {
    if (const auto node = trainer.find(key)) {
      good = add_axes(*node, on, rules, diags) && good;
    } else if (!otherwise.empty()) {
      add_axis(otherwise, on, trainer.span(), rules);
    }
  };
  mapping("axis_resources");
  axes("tensor_parallel_axes", {"model"}, "");
  axes("batch_axis", {"replica", "data"}, "batch");
  mapping("parameter_axis_resources");
  axes("fsdp_axis", {"data"}, "embed");
  return good;
}

constexpr std::string_view kIncludeTag = "!include ";

bool is_include(const Node& node) {
  return node.is_string() && node.text().starts_with(kIncludeTag);
}

// Reads `trainer: !include FILE`, where the file next to this one is the
// trainer.
std::optional<Document> read_included(const Node& node, const SourceFile& from,
                                      Host* files, Diagnostics& diags) {
  const std::string name(node.text().substr(kIncludeTag.size()));
  const std::string path =
      files == nullptr ? name : path_relative_to(from.name(), name, *files);
  if (files == nullptr || !files->file_info(path)) {
    return diags
        .error(Code::UnreadableFile, node.span(),
               in_backticks(path) + " is included here but was not found")
        .help("give `--rules` the file that has the trainer's keys");
  }
  const SourcePtr source = read_source(path, kWholeFile, *files, diags);
  if (source == nullptr) return std::nullopt;
  return parse_document(source, diags, Includes::AsText);
}

// Refuses `!include` in any other key that is read.
bool reject_includes(const Node& trainer, Diagnostics& diags) {
  bool good = true;
  for (size_t i = 0; i < trainer.size(); ++i) {
    const bool is_read = trainer.key(i) == "mesh" ||
                         trainer.key(i) == "batch_axis" ||
                         contains(kKeys, trainer.key(i));
    if (!is_read || !is_include(trainer.item(i))) continue;
    good = false;
    diags
        .error(Code::UnsupportedKey, trainer.item(i).span(),
               "`!include` is not supported here")
        .help("write the included keys here instead");
  }
  return good;
}

// A config without any of the keys has levanter's defaults.
bool is_trainer_config(std::string_view head) {
  return (head.starts_with("trainer:") || contains(head, "\ntrainer:")) &&
         (contains(head, "train_batch_size:") ||
          contains(head, "num_train_steps:") ||
          contains(head, "per_device_parallelism:"));
}

bool recognize(std::string_view head) {
  return is_trainer_config(head) || contains(head, "trainer: !include") ||
         std::ranges::any_of(kKeys, [&](std::string_view key) {
           return contains(head, std::string(key) + ":");
         });
}

bool read(SourcePtr source, const RuleReading& reading, RuleSet& rules,
          Diagnostics& diags) {
  const auto document = parse_document(source, diags, Includes::AsText);
  if (!document) return false;
  rules.sources.push_back(std::move(source));
  const Node root = document->root();
  if (!require(root, NodeKind::Map, "a Levanter config", diags)) return false;
  const Node trainer = root.find("trainer").value_or(root);
  if (!is_include(trainer)) {
    return reject_includes(trainer, diags) &&
           read_trainer(trainer, rules, diags);
  }
  const auto included =
      read_included(trainer, document->source(), reading.files, diags);
  if (!included) return false;
  rules.sources.push_back(included->shared_source());
  return reject_includes(included->root(), diags) &&
         read_trainer(included->root(), rules, diags);
}

constexpr RuleForm kLevanterForm = {
    nullptr,
    [](std::string_view name) {
      return "add `" + std::string(name) +
             ": AXIS` to `axis_resources`, or to `parameter_axis_resources` "
             "for parameters only";
    },
    "", kNoPatterns};

}  // namespace

const RuleDialect kLevanter = {
    "levanter", "Levanter's trainer configs: axis_resources and fsdp_axis",
    recognize, read, &kLevanterForm};

}  // namespace shardplan
