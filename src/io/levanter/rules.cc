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

// Maps one logical axis, or each axis of a list, to the same mesh axes.
bool add_axes(const Node& node, const AxisNames& axes, RuleSet& rules,
              Diagnostics& diags) {
  if (node.is_null()) return true;
  if (!node.is_list()) {
    if (!require(node, NodeKind::String, "axis", diags)) return false;
    rules.logical_rules.push_back(
        {std::string(node.text()), axes, node.span(), node.span()});
    return true;
  }
  bool good = true;
  for (size_t i = 0; i < node.size(); ++i) {
    good = add_axes(node.item(i), axes, rules, diags) && good;
  }
  return good;
}

void add_default(std::string_view name, const AxisNames& axes, Span where,
                 RuleSet& rules) {
  rules.logical_rules.push_back({std::string(name), axes, where, where});
}

std::optional<AxisRequest> axis_of(const Node& trainer, std::string_view name,
                                   std::string_view key, int64_t size,
                                   Diagnostics& diags) {
  AxisRequest axis{std::string(name), size, trainer.span(), trainer.span(),
                   trainer.span()};
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
      axis_of(trainer, "replica", "replica_ici_axis_size", 1, diags);
  const auto model = axis_of(trainer, "model", "model_axis_size", 1, diags);
  const auto slices =
      axis_of(trainer, "replica", "replica_dcn_axis_size", 1, diags);
  if (!replica || !model || !slices) return false;
  const Span where = trainer.span();
  rules.declared_axes = {"replica", "data", "model"};
  rules.mesh = {*replica, {"data", -1, where, where, where}, *model};
  rules.dcn_mesh = {*slices,
                    {"data", 1, where, where, where},
                    {"model", 1, where, where, where}};
  rules.mesh_where = where;
  return true;
}

bool has_axis(const std::vector<AxisRequest>& axes, std::string_view name) {
  return std::ranges::any_of(
      axes, [&](const AxisRequest& axis) { return axis.name == name; });
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
  const bool rest_is_taken = std::ranges::any_of(
      given, [](const AxisRequest& axis) { return axis.size == -1; });
  if (rest_is_taken) defaults.front().size = 1;
  for (AxisRequest& axis : given) {
    const auto known =
        std::ranges::find(defaults, axis.name, &AxisRequest::name);
    if (known != defaults.end()) {
      *known = std::move(axis);
    } else {
      defaults.push_back(std::move(axis));
    }
  }
  return defaults;
}

bool read_block_mesh(const Node& mesh, RuleSet& rules, Diagnostics& diags) {
  const Span where = mesh.span();
  const auto axis = [&](const char* name, int64_t size) {
    return AxisRequest{name, size, where, where, where};
  };
  const auto within =
      sizes_of(mesh, "axes",
               {axis("data", -1), axis("replica", 1), axis("model", 1)}, diags);
  const auto across =
      sizes_of(mesh, "dcn_axes", {axis("replica_dcn", -1)}, diags);
  if (!within || !across) return false;
  rules.mesh = within;
  rules.mesh_where = where;
  for (AxisRequest one : *within) {
    one.size = 1;
    rules.dcn_mesh.push_back(std::move(one));
  }
  for (AxisRequest one : *across) {
    if (has_axis(*within, one.name)) {
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
  add_default("mlp", {"model"}, mesh.span(), rules);
  add_default("heads", {"model"}, mesh.span(), rules);
  bool good = true;
  if (const auto shared = mesh.find("shared_mapping")) {
    good = read_axis_mapping(*shared, rules, diags);
  }
  const auto parameters = mesh.find("param_mapping");
  if (!parameters) {
    add_default("embed", {"data"}, mesh.span(), rules);
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
    const auto node = trainer.find(key);
    if (node) {
      good = add_axes(*node, on, rules, diags) && good;
    } else if (!otherwise.empty()) {
      add_default(otherwise, on, trainer.span(), rules);
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
  const bool has_trainer =
      head.starts_with("trainer:") || contains(head, "\ntrainer:");
  constexpr std::array<std::string_view, 3> kTrainerKeys = {
      "train_batch_size:", "num_train_steps:", "per_device_parallelism:"};
  return has_trainer &&
         std::ranges::any_of(kTrainerKeys, [&](std::string_view key) {
           return contains(head, key);
         });
}

bool recognize(std::string_view head) {
  if (is_trainer_config(head)) return true;
  if (contains(head, "trainer: !include")) return true;
  return std::ranges::any_of(kKeys, [&](std::string_view key) {
    return head.find(std::string(key) + ":") != std::string_view::npos;
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
