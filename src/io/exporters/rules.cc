// SPDX-License-Identifier: Apache-2.0
// Our own rules format, as YAML and as JSON; docs/formats/rules.md. JSON has no
// comments, so it says nothing of where it is from.
#include <string>
#include <utility>
#include <vector>

#include "base/json_text.h"
#include "io/exporters/exporters.h"
#include "io/expressible.h"
#include "io/resolved_table.h"
#include "io/yaml_text.h"

namespace shardplan {
namespace {

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

// The two spellings of one document.
struct Spelling {
  std::string_view target;
  bool is_json = false;
  std::string (*text)(std::string_view) = nullptr;  // any string
  std::string (*word)(std::string_view) = nullptr;  // a name
};
constexpr Spelling kYaml = {"yaml", false, yaml_string, yaml_word};
constexpr Spelling kJson = {"json", true, json_string, json_string};

// A key with its value: in one line, or an item per line.
struct Section {
  std::string key;
  std::string line;
  std::vector<std::string> items;
};

class Writer {
 public:
  explicit Writer(const Spelling& spelling) : how_(spelling) {}

  void axes(const AxisNames& names) {
    if (!names.empty()) sections_.push_back({"axes", list(names), {}});
  }

  void mesh(const Mesh& mesh) {
    std::string line;
    for (const Axis& axis : mesh.axes()) {
      line += (line.empty() ? "{" : ", ") + how_.word(axis.name) + ": " +
              std::to_string(axis.size);
    }
    sections_.push_back({"mesh", line + "}", {}});
  }

  // `[pattern, spec]` each.
  template <typename Rules>
  void patterns(const std::string& key, const Rules& rules) {
    Section section{key, "[]", {}};
    for (const auto& rule : rules) {
      section.items.push_back("[" + how_.text(rule.pattern) + ", " +
                              spec(rule.spec) + "]");
    }
    sections_.push_back(std::move(section));
  }

  void logical(const std::vector<LogicalRule>& rules) {
    if (rules.empty()) return;
    Section section{"logical_axis_rules", "", {}};
    for (const LogicalRule& rule : rules) {
      section.items.push_back("[" +
                              (rule.name ? how_.word(*rule.name) : "null") +
                              ", " + entry(rule.axes) + "]");
    }
    sections_.push_back(std::move(section));
  }

  void semantic(const PartitionAxis& axis) {
    std::string line;
    for (size_t i = 0; i < kPartitionFields; ++i) {
      if (!axis[i]) continue;
      const bool tuple = axis[i]->is_tuple && !axis[i]->axes.empty();
      line += (line.empty() ? "{" : ", ") +
              how_.word(partition_fields()[i].name) + ": " +
              (tuple ? list(axis[i]->axes) : entry(axis[i]->axes));
    }
    sections_.push_back({"partition_axis", line + "}", {}});
  }

  std::string finish() const {
    std::string out = how_.is_json ? "{" : "";
    for (const Section& section : sections_) {
      if (how_.is_json) {
        out += (out.size() > 1 ? ",\n  " : "\n  ") + json_string(section.key);
      } else {
        out += section.key;
      }
      out += ":" + value(section);
      if (!how_.is_json) out += "\n";
    }
    return out + (how_.is_json ? "\n}\n" : "");
  }

 private:
  std::string list(const AxisNames& names) const {
    std::string text = "[";
    for (const AxisName& name : names) {
      if (text.size() > 1) text += ", ";
      text += how_.word(name);
    }
    return text + "]";
  }
  std::string entry(const AxisNames& axes) const {
    if (axes.empty()) return "null";
    return axes.size() == 1 ? how_.word(axes.front()) : list(axes);
  }
  std::string spec(const PartitionSpec& spec) const {
    std::string text = "[";
    for (size_t i = 0; i < spec.dims.size(); ++i) {
      if (i > 0) text += ", ";
      text += entry(spec.dims[i]);
    }
    return text + "]";
  }

  std::string value(const Section& section) const {
    if (section.items.empty()) return " " + section.line;
    std::string out = how_.is_json ? " [" : "";
    for (size_t i = 0; i < section.items.size(); ++i) {
      if (how_.is_json) {
        out += (i == 0 ? "\n    " : ",\n    ") + section.items[i];
      } else {
        out += "\n  - " + section.items[i];
      }
    }
    return out + (how_.is_json ? "\n  ]" : "");
  }

  const Spelling& how_;
  std::vector<Section> sections_;
};

std::string why_resolved(const ExportInput& input) {
  std::string why = why_no_rules(input);
  if (why.empty() && !input.rules->logical_rules.empty() &&
      input.rules->logical_reading == LogicalReading::Mapping) {
    why = "the rules give a mesh axis to several names";
  }
  return why;
}

std::optional<std::string> write(const ExportInput& input, Diagnostics& diags,
                                 const Spelling& how) {
  if (!specs_are_expressible(input, how.target, diags)) return std::nullopt;
  const std::string why = why_resolved(input);
  Writer writer(how);
  std::vector<std::string> lines;
  if (why.empty()) {
    const RuleSet& rules = *input.rules;
    lines = header_lines(input, "Partition rules, as given", how.target);
    writer.axes(rules.declared_axes);
    writer.mesh(input.plan.mesh);
    writer.patterns("rules", rules.rules);
    writer.logical(rules.logical_rules);
    if (rules.partition_axis) writer.semantic(*rules.partition_axis);
    if (!rules.activations.empty()) {
      writer.patterns("activations", rules.activations);
    }
  } else {
    if (!names_are_expressible(input, how.target, diags)) return std::nullopt;
    lines = header_lines(input, "Partition rules, one per parameter or layer",
                         how.target);
    lines.push_back(why);
    const ResolvedTable table = resolved_table(input);
    add_left_out(table.left_out, lines);
    writer.mesh(input.plan.mesh);
    writer.patterns("rules", table.entries);
    note_activations(input, how.target, diags);
  }
  note_slices(input, how.target, diags);
  return (how.is_json ? "" : comment_text(lines)) + writer.finish();
}

}  // namespace

const ExportTarget kYamlTarget = {
    kYaml.target, "rules and mesh as this program reads them",
    [](const ExportInput& input, Diagnostics& diags) {
      return write(input, diags, kYaml);
    }};
const ExportTarget kJsonTarget = {
    kJson.target, "the same as JSON",
    [](const ExportInput& input, Diagnostics& diags) {
      return write(input, diags, kJson);
    }};

}  // namespace shardplan
