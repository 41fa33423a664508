// SPDX-License-Identifier: Apache-2.0
// The rule half of io/load.h.
#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/text.h"
#include "io/dialects/dialects.h"
#include "io/formats/formats.h"
#include "io/load.h"
#include "io/maxtext_dump.h"
#include "io/orbax_checkpoint.h"
#include "io/paths.h"
#include "io/plan_file.h"
#include "io/shipped.h"

namespace shardplan {
namespace {

// What tells dialects apart stands in a file's beginning.
constexpr size_t kHeadBytes = size_t{1} << 16U;

// Rules for the names of a model's parameters, and for logical axes.
constexpr std::array<std::string_view, 2> kFolders = {"models", "logical"};

// A shipped set by its name without the `@`.
SourcePtr shipped_source(const std::string& name, Diagnostics& diags) {
  std::vector<std::string> known;
  for (const std::string_view folder : kFolders) {
    SourcePtr source = find_shipped(folder, name, diags);
    if (source != nullptr) return source;
    for (std::string& other : shipped_names(folder)) {
      known.push_back(std::move(other));
    }
  }
  auto report = diags.error(Code::UnreadableFile, {},
                            "no shipped rules named `" + name + "`");
  if (const auto near = nearest(name, known)) {
    report.help("a set with a similar name is `@" + *near + "`");
  }
  report.help("`shardplan list rules` shows all");
  return nullptr;
}

const RuleDialect* find_dialect(const std::string& name, Diagnostics& diags) {
  std::vector<std::string> known;
  for (const RuleDialect& dialect : rule_dialects()) {
    if (dialect.name == name) return &dialect;
    known.emplace_back(dialect.name);
  }
  auto report =
      diags.error(Code::Usage, {}, "unknown rule dialect `" + name + "`");
  if (const auto near = nearest(name, known)) {
    report.help("a dialect with a similar name is `" + *near + "`");
  }
  report.help("`shardplan list dialects` shows all");
  return nullptr;
}

// What a file of rules turned out to be instead, or empty.
std::string_view other_than_rules(std::string_view head) {
  if (is_plan(head)) return "a saved plan";
  if (kGguf.recognize(head)) return "a GGUF file";
  if (kSafetensors.recognize(head)) return "a safetensors file";
  if (kSafetensorsIndex.recognize(head)) return "an index of shards";
  if (is_orbax_metadata(head)) {
    return "an Orbax `_METADATA` (the `_sharding` beside it has rules)";
  }
  // A config may hold a plan.
  if (kHfConfig.recognize(head) && !kHfTpPlan.recognize(head)) {
    return "a model's config";
  }
  return "";
}

const RuleDialect* recognize_dialect(const SourceFile& file,
                                     Diagnostics& diags) {
  const std::string_view head = file.text().substr(0, kHeadBytes);
  const std::string_view other = other_than_rules(head);
  if (!other.empty()) {
    auto report = diags.error(
        Code::UnrecognizedFormat, {},
        "`" + file.name() + "` is " + std::string(other) + ", not rules");
    if (is_plan(head)) report.help("`--plan` takes saved plans");
    return nullptr;
  }
  for (const RuleDialect& dialect : rule_dialects()) {
    if (dialect.recognize(head)) return &dialect;
  }
  auto report = diags.error(Code::UnrecognizedFormat, {},
                            "`" + file.name() + "` has no rules");
  std::string tried;
  for (const RuleDialect& dialect : rule_dialects()) {
    tried += (tried.empty() ? "" : ", ") + std::string(dialect.name);
  }
  report.fact("dialects tried: " + tried);
  return nullptr;
}

// Adds the logical rules and semantic axes of one file to those before it.
bool append_logical(RuleSet& more, RuleSet& rules, Diagnostics& diags) {
  std::vector<LogicalRule>& all = rules.logical_rules;
  if (more.logical_merge == LogicalMerge::ReplaceAll) all.clear();
  if (more.logical_merge == LogicalMerge::ReplaceNames) {
    std::erase_if(all, [&](const LogicalRule& rule) {
      return std::any_of(
          more.logical_rules.begin(), more.logical_rules.end(),
          [&](const LogicalRule& other) { return other.name == rule.name; });
    });
  }
  if (!all.empty() && !more.logical_rules.empty() &&
      rules.logical_reading != more.logical_reading) {
    diags
        .error(Code::Usage, more.logical_rules.front().where,
               "these axes are a mapping, those of an earlier file rules by "
               "priority, or the other way round")
        .label(all.front().where, "the earlier file")
        .help("use the logical axes of one of them");
    return false;
  }
  if (!more.logical_rules.empty()) {
    rules.logical_reading = more.logical_reading;
  }
  std::move(more.logical_rules.begin(), more.logical_rules.end(),
            std::back_inserter(all));
  if (!more.partition_axis) return true;
  if (rules.partition_axis) {
    diags
        .report(Code::DuplicateKey, Severity::Warning,
                more.partition_axis_where, "this partition_axis is not used")
        .label(rules.partition_axis_where, "that of an earlier file is");
    return true;
  }
  rules.partition_axis = std::move(more.partition_axis);
  rules.partition_axis_where = more.partition_axis_where;
  return true;
}

// Adds the rules of one file behind those of the files before it.
bool append_rules(RuleSet more, bool shipped, RuleSet& rules,
                  Diagnostics& diags) {
  for (Rule& rule : more.rules) {
    rule.shipped = shipped;
    rules.rules.push_back(std::move(rule));
  }
  AxisNames& axes = rules.declared_axes;
  std::set<AxisName> known(axes.begin(), axes.end());
  for (AxisName& axis : more.declared_axes) {
    if (known.insert(axis).second) axes.push_back(std::move(axis));
  }
  const bool joined = append_logical(more, rules, diags);
  std::move(more.activations.begin(), more.activations.end(),
            std::back_inserter(rules.activations));
  if (rules.mesh && more.mesh) {
    diags
        .report(Code::InvalidMesh, Severity::Warning, more.mesh_where,
                "this mesh is not used")
        .label(rules.mesh_where, "the mesh of an earlier file is")
        .help("give the mesh in one file, or with `--mesh`");
  } else if (more.mesh) {
    rules.mesh = std::move(more.mesh);
    rules.mesh_where = more.mesh_where;
    rules.dcn_mesh = std::move(more.dcn_mesh);
  }
  std::move(more.sources.begin(), more.sources.end(),
            std::back_inserter(rules.sources));
  return joined;
}

// The file that has the rules of a directory: a checkpoint's, or a dump's.
std::string rules_file(const std::string& path, Host& host) {
  const auto info = path == "-" ? std::nullopt : host.file_info(path);
  if (!info || !info->directory) return path;
  if (const auto item = find_orbax_item(path, host)) {
    return join_path(*item, kOrbaxSharding);
  }
  const std::string dump = join_path(path, kNamedShardings);
  return host.file_info(dump) ? dump : path;
}

bool load_rule_file(const std::string& path, const RuleDialect* forced,
                    const RuleReading& reading, RuleSet& rules, Host& host,
                    Diagnostics& diags) {
  const bool shipped = path.starts_with('@');
  const SourcePtr file =
      shipped ? shipped_source(path.substr(1), diags)
              : read_source(rules_file(path, host), kWholeFile, host, diags);
  if (file == nullptr) return false;
  const RuleDialect* dialect =
      forced != nullptr ? forced : recognize_dialect(*file, diags);
  if (dialect == nullptr) return false;
  RuleSet more;
  if (!dialect->read(file, reading, more, diags)) return false;
  more.sources.push_back(file);
  return append_rules(std::move(more), shipped, rules, diags);
}

}  // namespace

std::span<const RuleDialect> rule_dialects() {
  // Tried in this order: the last one takes any text.
  static const std::array<RuleDialect, 10> kRuleDialects = {
      kOrbaxRules,  kMaxtextDumpRules, kShardy,   kHfTpPlan, kDtensor,
      kPythonRules, kMaxText,          kLevanter, kFlax,     kYamlRules};
  return kRuleDialects;
}

std::optional<RuleSet> load_rules(std::span<const std::string> paths,
                                  const std::optional<std::string>& dialect,
                                  const RuleReading& reading, Host& host,
                                  Diagnostics& diags) {
  const RuleDialect* forced = nullptr;
  if (dialect) {
    forced = find_dialect(*dialect, diags);
    if (forced == nullptr) return std::nullopt;
  }
  if (std::count(paths.begin(), paths.end(), "-") > 1) {
    return diags.error(Code::Usage, {}, "`-` is given twice")
        .fact("standard input can be read only once");
  }
  RuleSet rules;
  bool good = true;
  for (const std::string& path : paths) {
    good = load_rule_file(path, forced, reading, rules, host, diags) && good;
  }
  if (!good) return std::nullopt;
  return rules;
}

}  // namespace shardplan
