// SPDX-License-Identifier: Apache-2.0
// Levanter's trainer configs; docs/formats/logical.md.
//
//   trainer:
//     fsdp_axis: embed
//     tensor_parallel_axes: [mlp, heads]
//     axis_resources: {vocab: model}
//     parameter_axis_resources: {embed: data}
//     model_axis_size: 4
//
// An axis of an array means its mesh axes, whatever the other axes mean, and a
// later entry replaces an earlier one: axis_resources, tensor_parallel_axes on
// `model`, batch_axis on (replica, data), then, for what is stored,
// parameter_axis_resources, and fsdp_axis on `data`.
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "io/axis_tables.h"
#include "io/dialects/dialects.h"
#include "io/document.h"

namespace shardplan {
namespace {

constexpr std::array<std::string_view, 6> kKeys = {
    "axis_resources",       "parameter_axis_resources",
    "tensor_parallel_axes", "fsdp_axis",
    "batch_axis",           "model_axis_size"};

// One logical axis, or a list of them, all on the same mesh axes.
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

bool add_default(std::string_view name, const AxisNames& axes, Span where,
                 RuleSet& rules) {
  rules.logical_rules.push_back({std::string(name), axes, where, where});
  return true;
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
                       "`" + std::string(key) + "` does not fit 63 bits");
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

bool read_trainer(const Node& trainer, RuleSet& rules, Diagnostics& diags) {
  if (!require(trainer, NodeKind::Map, "trainer", diags)) return false;
  rules.logical_reading = LogicalReading::Mapping;
  if (const auto mesh = trainer.find("mesh")) {
    diags
        .error(Code::UnsupportedKey, mesh->span(),
               "`mesh` in a trainer's config is not read")
        .help(
            "write its mappings as axis_resources and "
            "parameter_axis_resources, and give the mesh with `--mesh`");
    return false;
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

bool recognize(std::string_view head) {
  int keys = 0;
  for (const std::string_view key : kKeys) {
    keys += head.find(std::string(key) + ":") != std::string_view::npos ? 1 : 0;
  }
  return keys > 0;
}

bool read(SourcePtr source, const RuleReading&, RuleSet& rules,
          Diagnostics& diags) {
  const auto document = parse_document(source, diags);
  if (!document) return false;
  rules.sources.push_back(std::move(source));
  const Node root = document->root();
  if (!require(root, NodeKind::Map, "a Levanter config", diags)) return false;
  return read_trainer(root.find("trainer").value_or(root), rules, diags);
}

}  // namespace

const RuleDialect kLevanter = {
    "levanter", "Levanter's trainer configs: axis_resources and fsdp_axis",
    recognize, read};

}  // namespace shardplan
