// SPDX-License-Identifier: Apache-2.0
// `shardplan list TOPIC`: the contents of the program's tables.
#include <optional>
#include <string>
#include <vector>

#include "base/shipped.h"
#include "base/text.h"
#include "base/words.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
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

Table named_table(std::string id, std::string title, std::vector<Row> rows) {
  Table table;
  table.id = std::move(id);
  table.title = std::move(title);
  // Long text wraps and is not shortened.
  table.columns = {left("name"), left("summary", "")};
  table.rows = rows_of(std::move(rows));
  table.show_header = false;
  return table;
}

template <typename Items>
std::vector<Row> named_rows(const Items& items) {
  std::vector<Row> rows;
  for (const auto& item : items) {
    rows.push_back({std::string(item.name), std::string(item.summary)});
  }
  return rows;
}

std::vector<Table> list_formats() {
  return {
      named_table("model_formats", "Models", named_rows(manifest_formats())),
      named_table("output_formats", "Output (--format)",
                  named_rows(renderers()))};
}

std::vector<Table> list_dialects() {
  return {named_table("dialects", "", named_rows(rule_dialects()))};
}

std::vector<Table> list_targets() {
  return {named_table("targets", "", named_rows(export_targets()))};
}

std::vector<Table> list_readings() {
  return {named_table("readings", "", named_rows(framework_semantics()))};
}

std::vector<Table> list_commands() {
  return {named_table("commands", "", named_rows(commands()))};
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

std::vector<Table> list_rules() {
  std::vector<Row> rows;
  for (const std::string_view folder : kRuleFolders) {
    for (const ShippedFile& file : shipped_files(folder)) {
      rows.push_back({"@" + shipped_name(file), first_sentence(file.text)});
    }
  }
  return {named_table("rules", "", std::move(rows))};
}

std::vector<Table> list_graphs() {
  std::vector<Row> rows;
  for (const ShippedFile& file : shipped_files(kGraphFolder)) {
    rows.push_back({"@" + shipped_name(file), first_sentence(file.text)});
  }
  return {named_table("graphs", "", std::move(rows))};
}

std::vector<Table> list_families() {
  std::vector<Row> rows;
  for (const std::string& name : computing_architectures()) {
    rows.push_back({name, find_architecture(name)->summary});
  }
  return {named_table("families", "", std::move(rows))};
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
  std::vector<Row> summaries;
  std::vector<Row> short_rows;
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
    short_rows.push_back({name, forward, state_text(*all), quantised_text(*all),
                          Count{std::ssize(schemes.values)}});
    rows.push_back({name, forward, state_text(*all),
                    Names{known_quantisations(*all)}, schemes,
                    Names{all->model_types}, std::move(classes)});
  }
  Table people = {"architecture_support",
                  "Supported features",
                  {left("name"), left("forward"), left("state"),
                   left("quantisations", "quantised"), right("schemes")}};
  people.audience = Audience::People;
  people.rows = rows_of(std::move(short_rows));
  Table programs = people;
  programs.audience = Audience::Programs;
  programs.columns = {left("name"),    left("forward"),
                      left("state"),   left("quantisations", "quantised"),
                      left("schemes"), left("model_types"),
                      left("classes")};
  programs.rows = rows_of(std::move(rows));
  return {named_table("architectures", "", std::move(summaries)),
          std::move(people), std::move(programs)};
}

std::vector<Table> list_schemes() {
  std::vector<Row> short_rows;
  std::vector<Row> rows;
  for (const std::string& name : name_scheme_names()) {
    const auto scheme = find_name_scheme(name);
    Names architectures;
    for (const auto& [architecture, rules] : scheme->architectures) {
      architectures.values.push_back(architecture);
    }
    short_rows.push_back(
        {name, scheme->summary, Count{std::ssize(architectures.values)}});
    rows.push_back({name, scheme->summary, std::move(architectures)});
  }
  Table people = named_table("schemes", "", {});
  people.columns.push_back(right("architectures"));
  people.audience = Audience::People;
  people.rows = rows_of(std::move(short_rows));
  Table programs = named_table("schemes", "", {});
  programs.columns.push_back(left("architectures"));
  programs.audience = Audience::Programs;
  programs.rows = rows_of(std::move(rows));
  return {std::move(people), std::move(programs)};
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
  Table people = named_table("algorithms", "", named_rows(algorithms()));
  people.audience = Audience::People;
  Table programs = named_table("algorithms", "", std::move(rows));
  programs.columns.push_back(left("kinds"));
  programs.audience = Audience::Programs;
  return {people, programs};
}

std::vector<Table> list_codes() {
  std::vector<Row> rows;
  for (const CodeInfo& info : all_codes()) {
    rows.push_back({code_id(info.code), std::string(info.name),
                    std::string(severity_name(info.severity)),
                    std::string(info.summary)});
  }
  Table table = {"codes",
                 "",
                 {left("code"), left("name"), left("severity", "default"),
                  left("summary", "")}};
  table.rows = rows_of(std::move(rows));
  return {table};
}

// `Op` is an OpDef or a CompositeDef.
template <typename Op>
std::string operand_count(const Op& op) {
  const std::string least = std::to_string(op.min_operands);
  if (op.max_operands == op.min_operands) return least;
  if (op.max_operands == kManyOperands) return least + " or more";
  return least + " to " + std::to_string(op.max_operands);
}

std::string_view kind_name(AttributeDef::Kind kind) {
  switch (kind) {
    case AttributeDef::Kind::Number:
      return "number";
    case AttributeDef::Kind::Text:
      return "text";
    case AttributeDef::Kind::Integers:
      return "integers";
    case AttributeDef::Kind::Spec:
      return "spec";
    case AttributeDef::Kind::Numbers:
      return "numbers";
  }
  return "";
}

std::vector<Table> list_ops() {
  std::vector<Row> rows;
  std::vector<Row> attributes;
  const auto add_attributes = [&](const auto& op) {
    for (const AttributeDef& attribute : op.attributes) {
      attributes.push_back({std::string(op.name), std::string(attribute.name),
                            std::string(kind_name(attribute.kind)),
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
  Table table = {"ops",
                 "Operations",
                 {left("name"), left("operands"), left("summary", "result"),
                  left("factors", "shardable")}};
  table.rows = rows_of(std::move(rows));
  Table composed = {"composites",
                    "Composite operations",
                    {left("name"), left("operands"), left("summary", "result"),
                     left("results")}};
  composed.rows = rows_of(std::move(together));
  Table given = {"attributes",
                 "Attributes",
                 {left("op", "operation"), left("name", "attribute"),
                  left("kind"), left("need", "needed"), left("summary", "")}};
  given.rows = rows_of(std::move(attributes));
  return {table, composed, given};
}

struct Topic {
  std::string_view name;
  std::string_view summary;
  std::vector<Table> (*list)();
};

constexpr Topic kTopics[] = {
    {"formats", "model and output formats", list_formats},
    {"dialects", "rules file formats, for --dialect", list_dialects},
    {"targets", "targets of `export --to`", list_targets},
    {"readings", "rule semantics, for `diff --semantics`", list_readings},
    {"rules", "shipped rule sets, for --rules @NAME", list_rules},
    {"hardware", "shipped profiles, for --hardware NAME", list_hardware},
    {"topologies", "TPU slices and machines, for --topology NAME",
     topology_overview},
    {"graphs", "shipped graphs, which can be used as models", list_graphs},
    {"architectures", "models with a supported config.json, for --architecture",
     list_architectures},
    {"schemes", "parameter naming schemes, for --scheme", list_schemes},
    {"families", "models with a known forward pass, for simulate",
     list_families},
    {"ops", "operations of graph files", list_ops},
    {"algorithms", "collective algorithms, for explain --algorithm",
     list_algorithms},
    {"codes", "diagnostics, for --deny, --allow and explain", list_codes},
    {"commands", "the commands of shardplan", list_commands},
};

const Topic* find_topic(std::string_view name) {
  if (name == "operations") name = "ops";
  return find_named(kTopics, name);
}

// Returns null, with the reason reported, if there is no topic of that name.
const Topic* known_topic(const std::string& name, Diagnostics& diags) {
  const Topic* topic = find_topic(name);
  if (topic != nullptr) return topic;
  suggest(diags.error(Code::Usage, {}, "unknown topic " + in_backticks(name)),
          name, topic_names(), "`shardplan list` shows the topics");
  return nullptr;
}

Exit list_profile(Context& context, Report report, const std::string& name) {
  const auto profile =
      load_hardware(name, context.host, context.diags, Tables::Read);
  if (!profile) return Exit::CouldNotRun;
  report.headline = {profile->title};
  report.tables = hardware_details(*profile, context.options.output.exact);
  report.tables.push_back(hardware_numbers_table({*profile}));
  return finish(context, std::move(report));
}

Exit list_topology(Context& context, Report report, const std::string& name) {
  const auto topology = read_topology(name, {}, context.diags);
  if (!topology) return Exit::CouldNotRun;
  report.headline = {topology_text(*topology)};
  report.tables = topology_details(*topology);
  return finish(context, std::move(report));
}

// Prints a shipped file unchanged, to read it or as a starting point for one's
// own. Names of rules and graphs begin with `@`.
Exit print_shipped(Context& context, std::span<const std::string_view> folders,
                   std::string name, const std::string& mark = "@") {
  if (name.starts_with('@')) name.erase(0, 1);
  std::vector<std::string> known;
  for (const std::string_view folder : folders) {
    for (const ShippedFile& file : shipped_files(folder)) {
      if (shipped_name(file) != name) {
        known.push_back(shipped_name(file));
        continue;
      }
      return finish_with(context,
                         [&](const TextSink& sink) { return sink(file.text); });
    }
  }
  auto problem = context.diags.error(
      Code::Usage, {}, "nothing shipped is named " + in_backticks(mark + name));
  if (const auto near = nearest(name, known)) {
    problem.help("did you mean " + in_backticks(mark + *near) + "?");
  }
  return Exit::CouldNotRun;
}

constexpr std::array<std::string_view, 1> kGraphFolders = {kGraphFolder};
constexpr std::array<std::string_view, 1> kArchitectureFolders = {
    "architectures"};
constexpr std::array<std::string_view, 1> kSchemeFolders = {"schemes"};

}  // namespace

std::vector<std::string> topic_names() { return all_names(kTopics); }

Exit run_list(Context& context) {
  Report report;
  report.command = context.options.command;
  const std::vector<std::string>& arguments = context.options.arguments;
  if (arguments.empty()) {
    report.tables = {named_table("topics", "", named_rows(kTopics))};
    report.next_step = "`shardplan list rules` shows the shipped rules.";
    return finish(context, std::move(report));
  }
  const Topic* topic = known_topic(arguments[0], context.diags);
  if (topic == nullptr) return Exit::CouldNotRun;
  if (arguments.size() == 1) {
    report.tables = topic->list();
    if (topic->list == list_rules || topic->list == list_graphs ||
        topic->list == list_architectures || topic->list == list_schemes) {
      report.next_step =
          "`shardplan list " + std::string(topic->name) + " NAME` prints one.";
    }
    if (topic->list == list_hardware || topic->list == topology_overview) {
      report.next_step = "`shardplan list " + std::string(topic->name) +
                         " NAME` shows the source of each number.";
    }
    return finish(context, std::move(report));
  }
  if (topic->list == list_hardware) {
    return list_profile(context, std::move(report), arguments[1]);
  }
  if (topic->list == topology_overview) {
    return list_topology(context, std::move(report), arguments[1]);
  }
  const bool is_json = context.options.output.format != "text";
  if (topic->list == list_rules && !is_json) {
    return print_shipped(context, kRuleFolders, arguments[1]);
  }
  if (topic->list == list_graphs && !is_json) {
    return print_shipped(context, kGraphFolders, arguments[1]);
  }
  if (topic->list == list_architectures && !is_json) {
    return print_shipped(context, kArchitectureFolders, arguments[1], "");
  }
  if (topic->list == list_schemes && !is_json) {
    return print_shipped(context, kSchemeFolders, arguments[1], "");
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
