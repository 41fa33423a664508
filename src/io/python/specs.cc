// SPDX-License-Identifier: Apache-2.0
// Implements the readers of specs, axes and PartitionAxis of
// io/python/tables.h.
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "io/python/tables.h"
#include "io/spec_node.h"

namespace shardplan {
namespace {

std::nullopt_t refuse(Span where, std::string message, std::string help,
                      Diagnostics& diags) {
  return diags.error(Code::MalformedDocument, where, std::move(message))
      .help(std::move(help));
}

// Reads the name of a preset, alone or as the argument of `resolve`.
bool read_preset(const PythonValue& value, Rule& rule, Diagnostics& diags) {
  const ShardingPreset* preset =
      value.kind == PythonKind::Name
          ? find_sharding_preset(last_word(value.text))
          : nullptr;
  if (preset != nullptr) {
    rule.spec = preset_spec(*preset);
    rule.decode_dim = preset->decode_dim;
    return true;
  }
  auto report = diags.error(Code::MalformedDocument, value.where,
                            "this is not a PartitionSpec");
  suggest(report, last_word(value.text), all_names(sharding_presets()));
  report.help(
      "write PartitionSpec, PS, P or a preset such as ColumnWise; "
      "PartitionSpec() replicates");
  return false;
}

std::optional<AxisName> read_axis(const PythonValue& value,
                                  Diagnostics& diags) {
  if (is_axis_name(value.text)) return value.text;
  return refuse(value.where, in_backticks(value.text) + " is not an axis name",
                "axis names start with a letter or `_`, followed by letters, "
                "digits, `_`, `.` or `-`",
                diags);
}

std::nullopt_t refuse_entry(const PythonValue& value, Diagnostics& diags) {
  return refuse(value.where,
                value.kind == PythonKind::Name
                    ? in_backticks(value.text) + " is not defined here"
                    : "this is not a valid PartitionSpec entry",
                "write None, the axis as a string, or a tuple of strings",
                diags);
}

}  // namespace

bool is_python_spec_name(std::string_view name) {
  const std::string_view last = last_word(name);
  if (last == "PartitionSpec") return true;
  // `P` of another module may be anything.
  return (last == "PS" || last == "P") &&
         (last == name || name.starts_with("jax."));
}

bool is_python_spec(const PythonValue& value) {
  return value.kind == PythonKind::Call || value.kind == PythonKind::Name;
}

bool read_python_spec(const PythonValue& value, Rule& rule,
                      Diagnostics& diags) {
  rule.spec_where = value.where;
  if (value.kind == PythonKind::Name) return read_preset(value, rule, diags);
  const bool is_call = value.kind == PythonKind::Call;
  // `pmag.resolve(ColumnWise)`
  if (is_call && value.text.ends_with(".resolve")) {
    if (value.items.size() == 1 && value.items[0].keyword.empty()) {
      return read_preset(value.items[0], rule, diags);
    }
    refuse(value.where, "`resolve` is supported only for a single preset",
           "write PartitionSpec(..) with the axes that it resolves to", diags);
    return false;
  }
  if (is_call && !is_python_spec_name(value.text)) {
    refuse(value.where,
           "the call to " + in_backticks(value.text) + " is not evaluated",
           "write the PartitionSpec that it returns, as PartitionSpec, or as P "
           "or PS imported from jax",
           diags);
    return false;
  }
  if (!is_call) {
    refuse(value.where,
           value.kind == PythonKind::None ? "the rule has no spec"
                                          : "this is not a PartitionSpec",
           "write PartitionSpec, PS or P; PartitionSpec() replicates", diags);
    return false;
  }
  bool good = true;
  for (const PythonValue& item : value.items) {
    if (!item.keyword.empty()) {
      refuse(item.where, "keyword arguments are not supported",
             "pass the axes by position", diags);
      return false;
    }
    const auto axes = read_python_axes(item, diags);
    good = good && axes;
    rule.spec.dims.push_back(axes.value_or(AxisNames()));
    rule.dim_where.push_back(item.where);
  }
  return good;
}

std::optional<AxisNames> read_python_axes(const PythonValue& value,
                                          Diagnostics& diags) {
  const bool is_text = value.kind == PythonKind::String;
  if (is_text && value.text.empty()) return AxisNames();
  std::span<const PythonValue> items = value.items;
  if (!is_python_sequence(value)) {
    if (!is_text && value.text.ends_with(".UNCONSTRAINED")) {
      return AxisNames{kUnconstrained};
    }
    items = {&value, 1};
  }
  AxisNames axes;
  for (const PythonValue& item : items) {
    if (item.kind == PythonKind::None && items.size() == 1) continue;
    if (item.kind != PythonKind::String) return refuse_entry(item, diags);
    auto name = read_axis(item, diags);
    if (!name) return std::nullopt;
    axes.push_back(*std::move(name));
  }
  return axes;
}

std::optional<PartitionAxis> read_python_partition_axis(
    const PythonValue& value, Diagnostics& diags) {
  std::vector<std::string> known = all_names(partition_fields());
  PartitionAxis axis = default_partition_axis();
  for (const PythonValue& item : value.items) {
    const auto field = find_partition_field(item.keyword);
    if (!field) {
      suggest(diags.error(Code::UnknownKey, item.where,
                          item.keyword.empty()
                              ? "PartitionAxis takes only keyword arguments"
                              : "PartitionAxis has no field " +
                                    in_backticks(item.keyword)),
              item.keyword, known);
      return std::nullopt;
    }
    auto axes = read_python_axes(item, diags);
    if (!axes) return std::nullopt;
    axis.at(*field) = AxisValue{*std::move(axes), is_python_sequence(item)};
  }
  return resolve_partition_axis(axis, diags);
}

}  // namespace shardplan
