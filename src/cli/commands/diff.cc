// SPDX-License-Identifier: Apache-2.0
// `shardplan diff A B`: which tensors two saved plans place differently, and
// how that changes the fullest device. (cli/commands/rule_diff.h compares two
// sets of rules, cli/commands/semantics.h implements --semantics.)
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/parallel.h"
#include "base/text.h"
#include "base/words.h"
#include "cli/commands.h"
#include "cli/commands/rule_diff.h"
#include "cli/commands/semantics.h"
#include "cli/flag_values.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/views/figures/plan_figures.h"
#include "cli/views/tables.h"
#include "core/fold.h"
#include "gate/changes.h"
#include "io/load.h"
#include "io/saved_plan.h"
#include "report/report.h"
#include "resolve/device_memory.h"
#include "resolve/framework_semantics.h"

namespace shardplan::cli {
namespace {

enum class Change : uint8_t { Changed, Added, Removed };
// In the order of Change.
constexpr std::array<std::string_view, 3> kChangeNames = {"changed", "added",
                                                          "removed"};
constexpr std::array<std::string_view, 3> kChangeSigns = {"~", "+", "-"};

// One tensor that differs between the plans, or that only one of them has.
struct Difference {
  std::optional<size_t> before;  // index in the first plan
  std::optional<size_t> after;   // index in the second plan

  Change change() const {
    return !before ? Change::Added : !after ? Change::Removed : Change::Changed;
  }
};

struct Side {
  SavedPlan saved;
  DeviceMemory memory;

  const Placement& of(size_t index) const { return saved.plan.of(index); }
  std::string_view name(size_t index) const {
    return saved.manifest.name(index);
  }
};

struct Comparison {
  std::vector<Difference> differences;  // in A's order, then new ones of B
  int64_t same = 0;

  int64_t count(Change change) const {
    return std::ranges::count(differences, change, &Difference::change);
  }
};

bool same_placement(const Placement& a, const Placement& b) {
  return a.type == b.type && a.spec == b.spec && a.dealt == b.dealt &&
         a.bytes_per_device == b.bytes_per_device;
}

Comparison compare(const Side& a, const Side& b) {
  const size_t count = b.saved.manifest.size();
  // Two plans of one model list the same names in the same order; otherwise
  // names are looked up.
  std::unordered_map<std::string_view, size_t> in_b;
  const auto find_in_b = [&](size_t i) -> std::optional<size_t> {
    if (i < count && a.name(i) == b.name(i)) return i;
    if (in_b.empty()) {
      in_b.reserve(count);
      for (size_t k = 0; k < count; ++k) in_b[b.name(k)] = k;
    }
    const auto found = in_b.find(a.name(i));
    if (found == in_b.end()) return std::nullopt;
    return found->second;
  };

  Comparison comparison;
  std::vector<bool> known(count);
  for (size_t i = 0; i < a.saved.manifest.size(); ++i) {
    const std::optional<size_t> found = find_in_b(i);
    if (found) known[*found] = true;
    if (found && same_placement(a.of(i), b.of(*found))) {
      ++comparison.same;
    } else {
      comparison.differences.push_back({i, found});
    }
  }
  for (size_t i = 0; i < known.size(); ++i) {
    if (!known[i]) comparison.differences.push_back({std::nullopt, i});
  }
  return comparison;
}

std::string_view name_of(const Difference& difference, const Side& a,
                         const Side& b) {
  return difference.before ? a.name(*difference.before)
                           : b.name(*difference.after);
}

// Returns the placements of a difference; null on a side that lacks the tensor.
std::pair<const Placement*, const Placement*> placements_of(
    const Difference& difference, const Side& a, const Side& b) {
  return {difference.before ? &a.of(*difference.before) : nullptr,
          difference.after ? &b.of(*difference.after) : nullptr};
}

std::pair<Cell, Cell> both(
    const std::pair<const Placement*, const Placement*>& placements,
    Cell (*cell)(const Placement&)) {
  const auto& [before, after] = placements;
  return {before == nullptr ? Cell() : cell(*before),
          after == nullptr ? Cell() : cell(*after)};
}

Cell dtype_cell(const Placement& p) {
  return std::string(dtype_name(p.type.dtype));
}
Cell shape_cell(const Placement& p) { return Dims{p.type.shape}; }
Cell spec_cell(const Placement& p) { return p.spec; }
Cell bytes_cell(const Placement& p) { return ByteSize{p.bytes_per_device}; }
Cell view_cell(const Placement& p) { return text_cell(p.view); }

// Returns the rank that holds the tensor on the side where it has this index.
Cell whole_placement_cell(const Side& side,
                          const std::optional<size_t>& index) {
  if (!index || !side.of(*index).dealt) return {};
  const ExpertPlacement& dealt = *side.of(*index).dealt;
  return WholePlacementCell{dealt.axis, rank_of(dealt, side.name(*index))};
}

Table changes_table(const Comparison& comparison, const Side& a,
                    const Side& b) {
  Table table;
  table.id = "changes";
  table.audience = Audience::Programs;
  for (const char* id :
       {"parameter", "change", "dtype_before", "dtype_after", "shape_before",
        "shape_after", "spec_before", "spec_after", "bytes_before",
        "bytes_after", "view_before", "view_after", "dealt_before",
        "dealt_after"}) {
    table.columns.push_back({id, id});
  }
  table.rows = [&](const RowSink& sink) {
    for (const Difference& difference : comparison.differences) {
      const auto placements = placements_of(difference, a, b);
      Row row = {std::string(name_of(difference, a, b)),
                 std::string(nth(kChangeNames, difference.change()))};
      for (auto* cell :
           {dtype_cell, shape_cell, spec_cell, bytes_cell, view_cell}) {
        auto [before, after] = both(placements, cell);
        row.push_back(std::move(before));
        row.push_back(std::move(after));
      }
      row.push_back(whole_placement_cell(a, difference.before));
      row.push_back(whole_placement_cell(b, difference.after));
      sink(row);
    }
  };
  return table;
}

// Returns equal numbers for tensors that change in the same way.
std::vector<uint32_t> kinds_of(const Comparison& comparison, const Side& a,
                               const Side& b) {
  constexpr int64_t kAbsent = -1;
  std::map<std::pair<int64_t, int64_t>, uint32_t> numbers;
  std::vector<uint32_t> kinds;
  for (const Difference& difference : comparison.differences) {
    const std::pair<int64_t, int64_t> key = {
        difference.before ? a.saved.plan.placement_of[*difference.before]
                          : kAbsent,
        difference.after ? b.saved.plan.placement_of[*difference.after]
                         : kAbsent};
    const auto next = static_cast<uint32_t>(numbers.size());
    kinds.push_back(numbers.emplace(key, next).first->second);
  }
  return kinds;
}

// Returns the bytes per device of tensors that change in the same way. If whole
// experts are placed on ranks, this is the rank that holds most.
Cell held_cell(const Side& side, std::span<const size_t> tensors) {
  std::map<int64_t, double> by_rank;
  for (const size_t i : tensors) {
    const Placement& p = side.of(i);
    by_rank[p.dealt ? rank_of(*p.dealt, side.name(i)) : 0] +=
        static_cast<double>(p.bytes_per_device);
  }
  double most = 0;
  for (const auto& [rank, bytes] : by_rank) most = std::max(most, bytes);
  return tensors.empty() ? Cell() : Cell(MeanBytes{most});
}

// Returns "ep=8, 128 experts".
Cell dealing_cell(const Placement& p) {
  if (!p.dealt) return std::string("not dealt out");
  return p.dealt->axis + "=" + std::to_string(p.dealt->size) + ", " +
         plural(p.dealt->experts, "expert");
}

// Adds the rows of equal changes: what differs, before and after.
void add_lines(const Comparison& comparison, std::span<const uint32_t> members,
               const std::string& label, const Side& a, const Side& b,
               std::vector<Row>& rows) {
  const Difference& difference = comparison.differences[members.front()];
  std::vector<size_t> were;
  std::vector<size_t> are;
  for (const uint32_t member : members) {
    const Difference& each = comparison.differences[member];
    if (each.before) were.push_back(*each.before);
    if (each.after) are.push_back(*each.after);
  }
  const auto placements = placements_of(difference, a, b);
  const bool changed = difference.change() == Change::Changed;
  std::string sign(nth(kChangeSigns, difference.change()));
  std::string name = label;
  if (members.size() > 1) name += " ×" + std::to_string(members.size());
  const auto add = [&](const char* what, std::pair<Cell, Cell> cells) {
    rows.push_back({std::exchange(sign, ""), std::exchange(name, ""),
                    std::string(what), std::move(cells.first), std::string("→"),
                    std::move(cells.second)});
  };
  const auto [before, after] = placements;
  if (!changed || before->type.dtype != after->type.dtype) {
    add("dtype", both(placements, dtype_cell));
  }
  if (!changed || before->type.shape != after->type.shape) {
    add("shape", both(placements, shape_cell));
  }
  if (!changed || before->spec != after->spec) {
    add("spec", both(placements, spec_cell));
  }
  const bool dealt = (before != nullptr && before->dealt) ||
                     (after != nullptr && after->dealt);
  if (dealt && (!changed || before->dealt != after->dealt)) {
    add("dealt over", both(placements, dealing_cell));
  }
  if (!changed || before->bytes_per_device != after->bytes_per_device ||
      before->dealt != after->dealt) {
    add("per device", {held_cell(a, were), held_cell(b, are)});
  }
}

Table folded_table(const Comparison& comparison, const Side& a, const Side& b,
                   bool expand) {
  const NameOf name = [&](size_t i) {
    return name_of(comparison.differences[i], a, b);
  };
  std::vector<Row> rows;
  if (expand) {
    for (uint32_t i = 0; i < comparison.differences.size(); ++i) {
      add_lines(comparison, {&i, 1}, std::string(name(i)), a, b, rows);
    }
  } else {
    const Folding folding = fold(kinds_of(comparison, a, b), name);
    const std::vector<std::string> labels = class_labels(folding, name);
    const Members members(folding.class_of, folding.classes.size());
    for (size_t i = 0; i < labels.size(); ++i) {
      add_lines(comparison, members.of(i), labels[i], a, b, rows);
    }
  }
  return {.id = "differences",
          .columns = {left("change", ""), elastic("parameter", ""),
                      left("what", ""), left("before", ""), left("arrow", ""),
                      left("after", "")},
          .rows = rows_of(std::move(rows)),
          .audience = Audience::People,
          .show_header = false};
}

std::optional<Side> read_side(const SourcePtr& source, Diagnostics& diags) {
  auto saved = read_plan(source, diags);
  if (!saved) return std::nullopt;
  auto memory = device_memory(saved->manifest, saved->plan, diags);
  if (!memory) return std::nullopt;
  return Side{std::move(*saved), std::move(*memory)};
}

// Reads both plans in parallel. Returns empty, with the reasons reported, if
// one cannot be read.
std::optional<std::array<Side, 2>> read_sides(
    const std::array<RuleSide, 2>& sides, Diagnostics& diags) {
  std::array<std::optional<Side>, 2> read;
  std::array<Diagnostics, 2> found = {diags.fresh(), diags.fresh()};
  parallel_for(2, thread_count(0), [&](int64_t i) {
    nth(read, i) = read_side(nth(sides, i).file, nth(found, i));
  });
  for (const Diagnostics& of_side : found) diags.add_all(of_side);
  if (!read[0] || !read[1]) return std::nullopt;
  return std::array<Side, 2>{*std::move(read[0]), *std::move(read[1])};
}

// Returns "293.7 MiB → 262.6 MiB (−10.6 %)".
std::string memory_change(int64_t before, int64_t after, bool exact) {
  std::string text = size_text(before, exact) + " → " + size_text(after, exact);
  if (before <= 0) return text;
  const double change =
      100 * (static_cast<double>(after) / static_cast<double>(before) - 1);
  return text + fmt::format(" ({:+.1f} %)", change);
}

void add_summary(const Comparison& comparison, const Side& a, const Side& b,
                 Report& report) {
  report.summary = {
      {"changed", Count{comparison.count(Change::Changed)}},
      {"added", Count{comparison.count(Change::Added)}},
      {"removed", Count{comparison.count(Change::Removed)}},
      {"same", Count{comparison.same}},
      {"mesh_before", MeshCell{a.saved.plan.mesh}},
      {"mesh_after", MeshCell{b.saved.plan.mesh}},
      {"views_before", ViewsCell{a.saved.plan.mesh.views()}},
      {"views_after", ViewsCell{b.saved.plan.mesh.views()}},
      {"memory_per_device_before", ByteSize{a.memory.max}},
      {"memory_per_device_after", ByteSize{b.memory.max}},
      {"fingerprint_before", fingerprint(a.saved.manifest, a.saved.plan)},
      {"fingerprint_after", fingerprint(b.saved.manifest, b.saved.plan)}};
}

std::string last_line(const Comparison& comparison, const Side& a,
                      const Side& b, bool exact) {
  return count_text(comparison.count(Change::Changed)) + " changed, " +
         count_text(comparison.count(Change::Added)) + " added, " +
         count_text(comparison.count(Change::Removed)) + " removed, " +
         count_text(comparison.same) + " unchanged. Per device " +
         memory_change(a.memory.max, b.memory.max, exact) + ".";
}

std::string mesh_line(const Mesh& mesh) {
  return mesh_text(mesh) + views_text(mesh) + " (" +
         plural(mesh.devices(), "device") + ")";
}

// Flags that apply to rules only, and are rejected for saved plans.
constexpr std::string_view kOfRules = "dialect table axes jobs names fail-on";

// Reads an argument. A shipped set or a folder is never a plan; the text of a
// file decides.
std::optional<RuleSide> read_argument(const std::string& path,
                                      Context& context) {
  if (path.starts_with('@')) return RuleSide{path, nullptr};
  const auto info = path == "-" ? std::nullopt : context.host.file_info(path);
  if (info && info->directory) return RuleSide{path, nullptr};
  context.progress.stage("reading " + path);
  SourcePtr file = read_source(path, kWholeFile, context.host, context.diags);
  if (file == nullptr) return std::nullopt;
  return RuleSide{path, std::move(file)};
}

bool holds_plan(const RuleSide& side) {
  return side.file != nullptr && is_plan(side.file->text());
}

Exit diff_plans(Context& context, const std::array<RuleSide, 2>& sides) {
  for (const auto& [flag, value] : context.options.given) {
    if (!has_word(kOfRules, flag)) continue;
    context.diags
        .error(Code::Usage, {},
               "`--" + std::string(flag) + "` does not apply to saved plans")
        .help("it applies to `diff` of two rules files");
  }
  if (context.diags.cannot_run()) return Exit::CouldNotRun;
  context.progress.stage("reading two plans");
  const auto read = read_sides(sides, context.diags);
  if (!read) return Exit::CouldNotRun;
  const auto& [a, b] = *read;
  const Comparison comparison = compare(a, b);
  const bool same_mesh = a.saved.plan.mesh == b.saved.plan.mesh;

  Report report;
  add_summary(comparison, a, b, report);
  report.headline = {"mesh " + mesh_line(a.saved.plan.mesh)};
  if (!same_mesh) report.headline[0] += " → " + mesh_line(b.saved.plan.mesh);
  report.tables = {changes_table(comparison, a, b)};
  if (!comparison.differences.empty()) {
    report.tables.push_back(
        folded_table(comparison, a, b, context.options.output.expand));
  }
  report.closing = {last_line(comparison, a, b, context.options.output.exact)};
  Bars memory = before_and_after(AmountUnit::Bytes);
  add_before_and_after("", static_cast<double>(a.memory.max),
                       static_cast<double>(b.memory.max), memory);
  report.figures = {{"memory", "Memory per device, before and after",
                     [memory] { return memory; }}};
  const bool differ = !comparison.differences.empty() || !same_mesh;
  return finish(context, std::move(report),
                differ && context.options.diff.exit_code);
}

void set_fail_on(const Setting& setting, Options& options, Diagnostics& diags) {
  FailOn fail_on;
  bool fine = true;
  for (const std::string& text : split_list(setting.value)) {
    if (add_fail_on(text, fail_on)) continue;
    fine = false;
    const std::vector<std::string> forms = fail_on_forms();
    suggest(diags.error(Code::Usage, setting.where,
                        in_backticks(text) + " in " + title_of(setting) +
                            " is not known"),
            text, forms)
        .help("valid conditions: " + quoted_names(forms));
  }
  if (fine) options.diff.fail_on = fail_on;
}

void set_semantics(const Setting& setting, Options& options,
                   Diagnostics& diags) {
  const std::vector<std::string> names = split_list(setting.value);
  bool fine = names.size() == 2;
  if (!fine) {
    diags
        .error(Code::Usage, setting.where,
               title_of(setting) + " takes two readings, not " +
                   in_backticks(setting.value))
        .help("for example `--semantics eformer,flax`");
  }
  for (const std::string& name : names) {
    if (find_framework_semantics(name) != nullptr) continue;
    fine = false;
    suggest(diags.error(Code::Usage, setting.where,
                        "unknown reading " + in_backticks(name)),
            name, all_names(framework_semantics()),
            "`shardplan list readings` shows all");
  }
  if (fine) options.diff.semantics = names;
}

// Reports flags that cannot be used with the flag `with`, which selects what is
// compared.
void refuse_together(std::span<const Setting> given, const std::string& with,
                     const std::string& help, bool (*refused)(const Flag&),
                     Diagnostics& diags) {
  for (const Setting& setting : given) {
    if (!refused(*setting.flag)) continue;
    auto problem = diags.error(
        Code::Usage, {},
        title_of(setting) + " cannot be used with `--" + with + "`");
    if (!help.empty()) problem.help(help);
  }
}

void validate_model_diff(std::span<const Setting> given,
                         const DiffRequest& request, Diagnostics& diags) {
  if (request.before.empty() || request.after.empty()) {
    const bool lacks_after = request.after.empty();
    diags
        .error(Code::Usage, {},
               lacks_after ? "`--before` needs `--after`"
                           : "`--after` needs `--before`")
        .help(
            "`shardplan diff MODEL --before OLD --after NEW` compares two sets "
            "of rules; `diff OLD NEW` does so without a model");
  }
  refuse_together(
      given, "before",
      "`--before` and `--after` give the rules, MODEL the names",
      [](const Flag& flag) {
        return has_word("rules pattern names", flag.name);
      },
      diags);
}

}  // namespace

Exit run_diff(Context& context) {
  if (!context.options.diff.semantics.empty()) return diff_semantics(context);
  if (!context.options.diff.before.empty()) return diff_model(context);
  const std::vector<std::string>& arguments = context.options.arguments;
  std::vector<std::string> named = context.options.diff.names;
  append(named, arguments);
  if (!is_stdin_read_once(named, context.diags)) return Exit::CouldNotRun;
  auto a = read_argument(arguments[0], context);
  auto b = read_argument(arguments[1], context);
  if (!a || !b) return Exit::CouldNotRun;
  if (holds_plan(*a) != holds_plan(*b)) {
    if (holds_plan(*b)) std::swap(a, b);
    context.diags
        .error(Code::Usage, {},
               in_backticks(a->path) + " is a saved plan, but " +
                   in_backticks(b->path) + " is not")
        .help("`diff` compares two saved plans or two rules files");
    return Exit::CouldNotRun;
  }
  const std::array<RuleSide, 2> sides = {*std::move(a), *std::move(b)};
  if (holds_plan(sides[0])) return diff_plans(context, sides);
  const Exit exit = diff_rules(context, sides);
  for (Diagnostic& each : context.diags.all()) {
    if (each.code != Code::UnrecognizedFormat) continue;
    each.help.emplace_back(
        "`diff` compares two saved plans or two rules files; `shardplan diff "
        "MODEL --before OLD --after NEW -m MESH` compares rules on a model");
    break;
  }
  return exit;
}

std::vector<Flag> diff_flags() {
  return {
      {"semantics", Takes::Text, "A,B", "Inputs",
       "compare two readings of one model's rules: eformer, flax, maxtext, "
       "easylm, dtensor, hf, gspmd",
       "diff", set_semantics, false, false},
      {"names", Takes::File, "MODEL", "Inputs",
       "with rules files: a model that supplies names and logical axes; may "
       "repeat",
       "diff",
       [](auto& s, auto& o, auto&) { o.diff.names.push_back(path_of(s)); },
       true, false},
      {"before", Takes::File, "FILE|@NAME", "Inputs",
       "rules before a change, with MODEL and --after; may repeat", "diff",
       [](auto& s, auto& o, auto&) { o.diff.before.push_back(path_of(s)); },
       true, false},
      {"after", Takes::File, "FILE|@NAME", "Inputs",
       "rules after the change; may repeat", "diff",
       [](auto& s, auto& o, auto&) { o.diff.after.push_back(path_of(s)); },
       true, false},
      {"fail-on", Takes::Text, "LIST", "Diagnostics",
       "what fails: memory>1%, replicated>0, time>3%, new-errors, "
       "new-warnings, lost-axes, any-change (rules files: only the last two); "
       "default new-errors, for gate new-errors,lost-axes,memory>10%",
       "diff gate", set_fail_on},
      {"exit-code", Takes::Nothing, "", "Diagnostics",
       "exit with 1 if they differ", "diff",
       [](auto&, auto& o, auto&) { o.diff.exit_code = true; }, false, false},
  };
}

// Saved plans contain their own rules and meshes, and comparing only rules
// needs neither. Such keys of a configuration are not reported: they are for
// other commands.
void validate_diff(std::span<const Setting> given, const Options& options,
                   Diagnostics& diags) {
  const DiffRequest& request = options.diff;
  const bool has_model = !request.before.empty() || !request.after.empty();
  if (!request.semantics.empty()) {
    refuse_together(
        given, "semantics", "",
        [](const Flag& flag) {
          return has_word("names fail-on before after", flag.name) ||
                 needs_before(flag);
        },
        diags);
    return;
  }
  if (has_model) return validate_model_diff(given, request, diags);
  for (const Setting& setting : given) {
    const Flag& flag = *setting.flag;
    const bool is_of_model = makes_plan(flag) || needs_before(flag);
    if (!is_of_model || has_word(kOfRules, flag.name)) continue;
    diags
        .error(Code::Usage, {},
               title_of(setting) + " does not apply to `diff` without " +
                   (needs_before(flag) ? "`--before`"
                    : has_word("rules pattern", flag.name)
                        ? "`--semantics`"  // --before replaces them
                        : "`--semantics` or `--before`"))
        .help(
            "saved plans contain their own mesh, rules and placements; two "
            "rules files need nothing else");
  }
}

}  // namespace shardplan::cli
