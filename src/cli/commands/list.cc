// SPDX-License-Identifier: Apache-2.0
// `shardplan list TOPIC`: the contents of the program's tables.
#include <array>
#include <span>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/shipped.h"
#include "base/text.h"
#include "base/words.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/views/columns.h"
#include "cli/views/hardware_tables.h"
#include "cli/views/topology_tables.h"
#include "comm/collective.h"
#include "graph/composites.h"
#include "graph/op.h"
#include "io/export.h"
#include "io/graph/graph_file.h"
#include "io/hardware.h"
#include "io/load.h"
#include "io/topologies.h"
#include "model/architecture/quantisation.h"
#include "model/architectures.h"
#include "model/generation_state.h"
#include "model/naming/name_scheme.h"
#include "report/report.h"
#include "resolve/framework_semantics.h"

namespace shardplan::cli {
namespace {

constexpr std::array<std::string_view, 1> kGraphFolders = {kGraphFolder};
constexpr std::array<std::string_view, 1> kArchitectureFolders = {
    "architectures"};
constexpr std::array<std::string_view, 1> kSchemeFolders = {"schemes"};

struct NameAndSummary {
  std::string name;
  std::string summary;
};

// Returns names and summaries without a header. Long text wraps and is not
// shortened.
template <typename Items>
Table named_table(const char* id, const Items& items, const char* title = "",
                  Audience audience = Audience::Everyone) {
  Table table = table_of(
      id, title, items,
      {{left("name"), [](auto& item) { return std::string(item.name); }},
       {left("summary", ""),
        [](auto& item) { return std::string(item.summary); }}},
      audience);
  table.show_header = false;
  return table;
}

std::vector<Table> list_formats() {
  return {named_table("model_formats", manifest_formats(), "Models"),
          named_table("output_formats", renderers(), "Output (--format)")};
}

std::vector<Table> list_dialects() {
  return {named_table("dialects", rule_dialects())};
}

std::vector<Table> list_targets() {
  return {named_table("targets", export_targets())};
}

std::vector<Table> list_readings() {
  return {named_table("readings", framework_semantics())};
}

std::vector<Table> list_commands() {
  return {named_table("commands", commands())};
}

// Returns the first sentence of the comment at the start of a shipped file.
std::string first_sentence(std::string_view text) {
  std::string comment;
  while (text.starts_with("#")) {
    const std::string_view line = next_line(text);
    const size_t begin = line.find_first_not_of("# ");
    if (begin == line.npos || contains(line, "SPDX")) continue;
    comment += (comment.empty() ? "" : " ") + std::string(line.substr(begin));
    const size_t end = (comment + " ").find(". ");
    if (end != std::string::npos) return comment.substr(0, end);
  }
  return comment;
}

Table shipped_table(const char* id, std::span<const std::string_view> folders) {
  std::vector<NameAndSummary> files;
  for (const std::string_view folder : folders) {
    for (const ShippedFile& file : shipped_files(folder)) {
      files.push_back({"@" + shipped_name(file), first_sentence(file.text)});
    }
  }
  return named_table(id, files);
}

std::vector<Table> list_rules() {
  return {shipped_table("rules", kRuleFolders)};
}

std::vector<Table> list_graphs() {
  return {shipped_table("graphs", kGraphFolders)};
}

std::vector<Table> list_families() {
  std::vector<NameAndSummary> families;
  for (const std::string& name : computing_architectures()) {
    families.push_back({name, find_architecture(name)->summary});
  }
  return {named_table("families", families)};
}

// Returns the state that layers cache during generation, in the words of the
// architecture file: "kv", "kv+ssm+conv"; "unknown" if the file does not say.
std::string state_text(const Architecture& all) {
  const std::vector<std::string> names = state_names(all, all.classes.front());
  return names.empty() ? "unknown" : joined(names, "+");
}

// Returns "all", or "all but awq".
std::string quantised_text(const Architecture& all) {
  const std::vector<std::string>& unknown = all.quantisations_unknown;
  if (unknown.empty()) return "all";
  if (known_quantisations(all).empty()) return "none";
  return "all but " + joined(unknown, ", ");
}

std::vector<Table> list_architectures() {
  std::vector<NameAndSummary> summaries;
  std::vector<Row> for_people;
  std::vector<Row> rows;
  for (const std::string& name : architecture_names()) {
    const auto all = find_architecture(name);
    summaries.push_back({name, all->summary});
    Names classes;
    for (const ArchitectureClass& each : all->classes) {
      classes.values.push_back(each.class_name);
    }
    const std::string forward = all->computes ? "yes" : "no";
    const Names schemes{name_schemes_of(name)};
    for_people.push_back({name, forward, state_text(*all), quantised_text(*all),
                          Count{std::ssize(schemes.values)}});
    rows.push_back({name, forward, state_text(*all),
                    Names{known_quantisations(*all)}, schemes,
                    Names{all->model_types}, std::move(classes)});
  }
  const std::string id = "architecture_support";
  const std::string title = "Supported features";
  return {named_table("architectures", summaries),
          {id,
           title,
           {left("name"), left("forward"), left("state"),
            left("quantisations", "quantised"), right("schemes")},
           rows_of(std::move(for_people)),
           Audience::People},
          {id,
           title,
           {left("name"), left("forward"), left("state"),
            left("quantisations", "quantised"), left("schemes"),
            left("model_types"), left("classes")},
           rows_of(std::move(rows)),
           Audience::Programs}};
}

// Returns names and summaries with one more column.
Table extended_table(const char* id, Column last, std::vector<Row> rows,
                     Audience audience) {
  return {.id = id,
          .columns = {left("name"), left("summary", ""), std::move(last)},
          .rows = rows_of(std::move(rows)),
          .audience = audience,
          .show_header = false};
}

std::vector<Table> list_schemes() {
  std::vector<Row> for_people;
  std::vector<Row> rows;
  for (const std::string& name : name_scheme_names()) {
    const auto scheme = find_name_scheme(name);
    Names architectures;
    for (const auto& [architecture, rules] : scheme->architectures) {
      architectures.values.push_back(architecture);
    }
    for_people.push_back(
        {name, scheme->summary, Count{std::ssize(architectures.values)}});
    rows.push_back({name, scheme->summary, std::move(architectures)});
  }
  return {extended_table("schemes", right("architectures"),
                         std::move(for_people), Audience::People),
          extended_table("schemes", left("architectures"), std::move(rows),
                         Audience::Programs)};
}

std::vector<Table> list_hardware() {
  const std::vector<HardwareProfile> profiles = shipped_hardware();
  std::vector<Table> tables = hardware_overview(profiles);
  tables.push_back(hardware_numbers_table(profiles));
  return tables;
}

// Lists the algorithms with the collectives that each supports for at least
// some number of ranks: 16 ranks, 4 of them on the fast axis, suit all
// algorithms.
std::vector<Table> list_algorithms() {
  std::vector<Row> rows;
  for (const Algorithm& algorithm : algorithms()) {
    Names kinds;
    for (int i = 0; i < kCollectiveKinds; ++i) {
      const auto kind = static_cast<CollectiveKind>(i);
      if (!algorithm.supports(kind, {16, 4})) continue;
      kinds.values.emplace_back(collective_name(kind));
    }
    rows.push_back({std::string(algorithm.name), std::string(algorithm.summary),
                    std::move(kinds)});
  }
  return {named_table("algorithms", algorithms(), "", Audience::People),
          extended_table("algorithms", left("kinds"), std::move(rows),
                         Audience::Programs)};
}

std::vector<Table> list_codes() {
  return {table_of(
      "codes", "", all_codes(),
      {{left("code"), [](auto& info) { return code_id(info.code); }},
       {left("name"), [](auto& info) { return std::string(info.name); }},
       {left("severity", "default"),
        [](auto& info) { return std::string(severity_name(info.severity)); }},
       {left("summary", ""),
        [](auto& info) { return std::string(info.summary); }}})};
}

// `Op` is an OpDef or a CompositeDef.
template <typename Op>
std::string operand_count(const Op& op) {
  const std::string least = std::to_string(op.min_operands);
  if (op.max_operands == op.min_operands) return least;
  if (op.max_operands == kManyOperands) return least + " or more";
  return least + " to " + std::to_string(op.max_operands);
}

// In the order of AttributeDef::Kind.
constexpr std::array<std::string_view, 5> kAttributeKinds = {
    "number", "text", "integers", "spec", "numbers"};

std::vector<Table> list_ops() {
  std::vector<Row> rows;
  std::vector<Row> attributes;
  const auto add_attributes = [&](const auto& op) {
    for (const AttributeDef& attribute : op.attributes) {
      attributes.push_back({std::string(op.name), std::string(attribute.name),
                            std::string(nth(kAttributeKinds, attribute.kind)),
                            attribute.required ? "required" : "optional",
                            std::string(attribute.summary)});
    }
  };
  for (const OpDef& op : ops()) {
    rows.push_back({std::string(op.name), operand_count(op),
                    std::string(op.summary), std::string(op.factors)});
    add_attributes(op);
  }
  std::vector<Row> together;
  for (const CompositeDef& op : composites()) {
    together.push_back({std::string(op.name), operand_count(op),
                        std::string(op.summary),
                        op.many_results ? "one or more" : "one"});
    add_attributes(op);
  }
  return {{"ops",
           "Operations",
           {left("name"), left("operands"), left("summary", "result"),
            left("factors", "shardable")},
           rows_of(std::move(rows))},
          {"composites",
           "Composite operations",
           {left("name"), left("operands"), left("summary", "result"),
            left("results")},
           rows_of(std::move(together))},
          {"attributes",
           "Attributes",
           {left("op", "operation"), left("name", "attribute"), left("kind"),
            left("need", "needed"), left("summary", "")},
           rows_of(std::move(attributes))}};
}

struct Topic {
  std::string_view name;
  std::string_view summary;
  std::vector<Table> (*list)();
  // The shipped files that the topic lists, and the mark before their names.
  std::span<const std::string_view> folders = {};
  std::string_view mark = {};
};

constexpr Topic kTopics[] = {
    {"formats", "model and output formats", list_formats},
    {"dialects", "rules file formats, for --dialect", list_dialects},
    {"targets", "targets of `export --to`", list_targets},
    {"readings", "rule semantics, for `diff --semantics`", list_readings},
    {"rules", "shipped rule sets, for --rules @NAME", list_rules, kRuleFolders,
     "@"},
    {"hardware", "shipped profiles, for --hardware NAME", list_hardware},
    {"topologies", "TPU slices and machines, for --topology NAME",
     topology_overview},
    {"graphs", "shipped graphs, which can be used as models", list_graphs,
     kGraphFolders, "@"},
    {"architectures", "models with a supported config.json, for --architecture",
     list_architectures, kArchitectureFolders},
    {"schemes", "parameter naming schemes, for --scheme", list_schemes,
     kSchemeFolders},
    {"families", "models with a known forward pass, for simulate",
     list_families},
    {"ops", "operations of graph files", list_ops},
    {"algorithms", "collective algorithms, for explain --algorithm",
     list_algorithms},
    {"codes", "diagnostics, for --deny, --allow and explain", list_codes},
    {"commands", "the commands of shardplan", list_commands},
};

// Returns null, with the reason reported, if there is no topic of that name.
const Topic* known_topic(const std::string& name, Diagnostics& diags) {
  const Topic* topic = find_named(kTopics, name == "operations" ? "ops" : name);
  if (topic != nullptr) return topic;
  suggest(diags.error(Code::Usage, {}, "unknown topic " + in_backticks(name)),
          name, topic_names(), "`shardplan list` shows the topics");
  return nullptr;
}

Exit list_profile(Context& context, const std::string& name) {
  const auto profile =
      load_hardware(name, context.host, context.diags, Tables::Read);
  if (!profile) return Exit::CouldNotRun;
  Report report;
  report.headline = {profile->title};
  report.tables = hardware_details(*profile, context.options.output.exact);
  report.tables.push_back(hardware_numbers_table({*profile}));
  return finish(context, std::move(report));
}

Exit list_topology(Context& context, const std::string& name) {
  const auto topology = read_topology(name, {}, context.diags);
  if (!topology) return Exit::CouldNotRun;
  Report report;
  report.headline = {topology_text(*topology)};
  report.tables = topology_details(*topology);
  return finish(context, std::move(report));
}

// Prints a shipped file unchanged, to read it or as a starting point for one's
// own. Names of rules and graphs begin with `@`.
Exit print_shipped(Context& context, const Topic& topic, std::string name) {
  if (name.starts_with('@')) name.erase(0, 1);
  const std::string mark(topic.mark);
  std::vector<std::string> known;
  for (const std::string_view folder : topic.folders) {
    for (const ShippedFile& file : shipped_files(folder)) {
      if (shipped_name(file) == name) return finish_text(context, file.text);
      known.push_back(shipped_name(file));
    }
  }
  auto problem = context.diags.error(
      Code::Usage, {}, "nothing shipped is named " + in_backticks(mark + name));
  if (const auto near = nearest(name, known)) {
    problem.help("did you mean " + in_backticks(mark + *near) + "?");
  }
  return Exit::CouldNotRun;
}

}  // namespace

std::vector<std::string> topic_names() { return all_names(kTopics); }

Exit run_list(Context& context) {
  Report report;
  const std::vector<std::string>& arguments = context.options.arguments;
  if (arguments.empty()) {
    report.tables = {named_table("topics", kTopics)};
    report.next_step = "`shardplan list rules` shows the shipped rules.";
    return finish(context, std::move(report));
  }
  const Topic* topic = known_topic(arguments[0], context.diags);
  if (topic == nullptr) return Exit::CouldNotRun;
  if (arguments.size() == 1) {
    report.tables = topic->list();
    if (!topic->folders.empty()) {
      report.next_step =
          "`shardplan list " + std::string(topic->name) + " NAME` prints one.";
    }
    if (topic->list == list_hardware || topic->list == topology_overview) {
      report.next_step = "`shardplan list " + std::string(topic->name) +
                         " NAME` shows the source of each number.";
    }
    return finish(context, std::move(report));
  }
  if (topic->list == list_hardware) return list_profile(context, arguments[1]);
  if (topic->list == topology_overview) {
    return list_topology(context, arguments[1]);
  }
  if (!topic->folders.empty() && context.options.output.format == "text") {
    return print_shipped(context, *topic, arguments[1]);
  }
  context.diags
      .error(Code::Usage, {},
             "unexpected argument " + in_backticks(arguments[1]))
      .help(
          "`shardplan list` takes a name for `hardware` and `topologies`, and "
          "in text format for `rules`, `graphs`, `architectures` and "
          "`schemes`");
  return Exit::CouldNotRun;
}

}  // namespace shardplan::cli
