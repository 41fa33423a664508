// SPDX-License-Identifier: Apache-2.0
// The dialect `dtensor`: placements of PyTorch's DTensor, per parameter:
//
//   mesh_dim_names: [dp, tp]
//   mesh: {dp: 8, tp: 4}          # optional
//   placements: {"layers.*.wq.weight": ["Replicate()", "Shard(0)"]}
//
// or a dictionary in Python, {"wq.weight": [Replicate(), Shard(0)]}, whose mesh
// dimensions `--axes` names. Keys are matched part by part between dots, as in
// parallelize_module (fnmatch).
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "io/dialects.h"
#include "io/dtensor/placements.h"
#include "io/dtensor/styles.h"
#include "syntax/document.h"
#include "syntax/python.h"
#include "syntax/tokens.h"

namespace shardplan {
namespace {

// Returns the pattern of one part of a key, between dots.
std::string part_pattern(std::string_view part) {
  std::string pattern;
  for (size_t i = 0; i < part.size(); ++i) {
    if (part[i] == '*' || part[i] == '?') {
      pattern += part[i] == '*' ? "[^.]*" : "[^.]";
      continue;
    }
    const bool negated = part.substr(i + 1).starts_with('!');
    const size_t inside = i + (negated ? 2 : 1);
    // A `]` in the first position is one of the characters.
    const size_t close =
        part[i] == '[' ? part.find(']', inside + 1) : std::string_view::npos;
    if (close == std::string_view::npos) {
      pattern += escape_pattern(part.substr(i, 1));
      continue;
    }
    pattern += negated ? "[^" : "[";
    for (const char c : part.substr(inside, close - inside)) {
      if (contains("\\[]^&~|", c)) pattern += '\\';
      pattern += c;
    }
    pattern += ']';
    i = close;
  }
  return pattern;
}

std::string pattern_of(std::string_view key) {
  if (key.find_first_of("*?[") == std::string_view::npos) {
    return exact_pattern(key);
  }
  return "^" + fnmatch_parts(key) + "$";
}

bool recognize(std::string_view head) {
  return !contains(head, '\0') &&
         (has_parallel_styles(head) || contains(head, "Shard(") ||
          contains(head, "Replicate("));
}

class Reader {
 public:
  Reader(const RuleReading& reading, RuleSet& rules, Diagnostics& diags)
      : reading_(reading), rules_(rules), errors_(diags, "the file") {}

  bool read(const SourcePtr& source) {
    errors_.diags().add_source(source);
    const std::vector<PythonToken> tokens = python_tokens(*source);
    const std::vector<PythonDict> dicts = python_dicts(tokens);
    const auto plans = parallel_plans(tokens, dicts);
    if (!plans.empty()) {
      return read_parallel_plans(tokens, plans, reading_, rules_, errors_);
    }
    std::vector<const PythonDict*> tables;
    for (const PythonDict& dict : dicts) {
      const bool is_table = std::ranges::any_of(
          dict.entries,
          [&](const PythonEntry& entry) { return calls(tokens, entry); });
      // YAML's flow style looks the same, but it is not assigned.
      const bool is_python =
          !dict.name.empty() || dict.where.begin == tokens.front().where.begin;
      if (is_table && is_python) tables.push_back(&dict);
    }
    if (tables.empty() && is_python_module(tokens)) {
      errors_
          .malformed(
              {source.get(), 0, 0},
              "this Python file has no dictionary of placements or styles")
          .help(
              "write {\"NAME\": [Replicate(), Shard(0)]} or {\"NAME\": "
              "ColwiseParallel()}, with literal keys");
      return false;
    }
    constexpr std::string_view kHelp = "write every entry in one dictionary";
    if (!tables.empty() && !check_unchanged(tokens, tables, kHelp, errors_)) {
      return false;
    }
    const bool good = tables.empty() ? read_document(source)
                                     : read_python(*source, tokens, tables);
    return good && errors_.errors() == 0;
  }

 private:
  // Returns whether a value is a call or a list of calls, and not a string.
  static bool calls(std::span<const PythonToken> tokens,
                    const PythonEntry& entry) {
    for (size_t i = entry.begin; i + 1 < entry.end; ++i) {
      if (tokens[i].kind == PythonTokenKind::Name && tokens[i + 1].is("(") &&
          (tokens[i].text.ends_with("Shard") || tokens[i].is("Replicate") ||
           tokens[i].is("Partial"))) {
        return true;
      }
    }
    return false;
  }

  bool read_python(const SourceFile& source,
                   std::span<const PythonToken> tokens,
                   const std::vector<const PythonDict*>& tables) {
    std::vector<const PythonDict*> chosen = tables;
    std::erase_if(chosen, [&](const PythonDict* table) {
      return reading_.table && table->name != *reading_.table;
    });
    if (chosen.size() != 1) {
      auto report = errors_.malformed(
          {&source, 0, 0}, chosen.empty()
                               ? "there is no dictionary of placements named " +
                                     in_backticks(*reading_.table)
                               : "the file has " +
                                     plural(std::ssize(chosen), "dictionary") +
                                     " of placements");
      for (const PythonDict* table : tables) {
        report.fact("dictionary: " + in_backticks(table->name));
      }
      report.help("choose one with `--table NAME`");
      return false;
    }
    const PythonDict& table = *chosen.front();
    if (!name_dimensions(table.where)) return false;
    for (const PythonEntry& entry : table.entries) {
      if (errors_.stopped()) return false;
      size_t at = entry.begin;
      const size_t last = std::max(entry.begin + 1, entry.end) - 1;
      const Span value = {&source, tokens[entry.begin].where.begin,
                          tokens[last].where.end};
      const auto placements = parsed(tokens, at, {});
      if (!placements) continue;
      if (at != entry.end) {
        errors_.malformed(tokens[at].where, "this expression is not evaluated")
            .help("write a list of placements");
        continue;
      }
      add_rule(entry.key, entry.where, value, *placements);
    }
    if (table.problem) {
      errors_.malformed(table.problem, "this entry has no literal key")
          .help("write every entry as \"NAME\": [PLACEMENTS]");
    }
    return true;
  }

  // Reports problems at `where` or, if it is empty, at their own positions.
  std::optional<std::vector<MeshPlacement>> parsed(
      std::span<const PythonToken> tokens, size_t& at, Span where) {
    Diagnostics found;
    auto placements = parse_placements(tokens, at, found);
    forward(found, where);
    return placements;
  }

  void forward(const Diagnostics& found, Span where) {
    for (const Diagnostic& problem : found.all()) {
      const Span at = where || problem.labels.empty()
                          ? where
                          : problem.labels.front().where;
      auto report = errors_.error(problem.code, at, problem.message);
      for (const std::string& fact : problem.facts) report.fact(fact);
      for (const std::string& help : problem.help) report.help(help);
    }
  }

  bool read_document(const SourcePtr& source) {
    const auto document = parse_document(source, errors_.diags());
    if (!document) return false;
    const auto root =
        require(document->root(), NodeKind::Map, "placements", errors_.diags());
    if (!root) return false;
    static const std::array<std::string, 3> kKeys = {"mesh_dim_names", "mesh",
                                                     "placements"};
    const auto placements = root->find("placements");
    if (placements) {
      if (!reject_unknown_keys(*root, kKeys, errors_.diags())) return false;
      if (const auto mesh = root->find("mesh")) read_sizes(*mesh);
      if (const auto names = root->find("mesh_dim_names")) read_names(*names);
    }
    if (errors_.errors() > 0) return false;
    const Node map = placements ? *placements : *root;
    if (!name_dimensions(map.span())) return false;
    if (!require(map, NodeKind::Map, "placements", errors_.diags())) {
      return false;
    }
    for (size_t i = 0; i < map.size() && !errors_.stopped(); ++i) {
      read_value(map, i);
    }
    return true;
  }

  void read_value(const Node& map, size_t index) {
    const Node value = map.item(index);
    std::vector<MeshPlacement> placements;
    bool good = true;
    for (size_t i = 0; i < (value.is_list() ? value.size() : 1); ++i) {
      const Node node = value.is_list() ? value.item(i) : value;
      const auto one = placements_of(node);
      good = good && one;
      if (one) placements.insert(placements.end(), one->begin(), one->end());
    }
    if (!good) return;
    add_rule(map.key(index), map.key_span(index), value.span(), placements);
  }

  std::optional<std::vector<MeshPlacement>> placements_of(const Node& node) {
    if (!node.is_string()) {
      return errors_
          .malformed(node.span(), "a placement must be a string, not " +
                                      std::string(kind_name(node.kind())))
          .help("write, for example, `\"Shard(0)\"`");
    }
    const SourceFile text("placement", std::string(node.text()));
    const std::vector<PythonToken> tokens = python_tokens(text);
    size_t at = 0;
    auto placements = parsed(tokens, at, node.span());
    if (!placements) return std::nullopt;
    if (tokens[at].kind != PythonTokenKind::End) {
      return errors_.malformed(node.span(),
                               "unexpected text after the placement");
    }
    for (MeshPlacement& placement : *placements) placement.where = node.span();
    return placements;
  }

  void read_names(const Node& node) {
    if (!node.is_list()) {
      errors_.malformed(node.span(), "`mesh_dim_names` must be a list, not " +
                                         std::string(kind_name(node.kind())));
      return;
    }
    std::vector<AxisRequest> named;
    for (size_t i = 0; i < node.size(); ++i) {
      const Node item = node.item(i);
      if (!item.is_string() || !is_axis_name(item.text())) {
        errors_
            .malformed(item.span(), "this is not the name of a mesh dimension")
            .help(
                "names start with a letter or `_`, followed by letters, "
                "digits, `_`, `.` and `-`");
        return;
      }
      const AxisName name(item.text());
      const AxisRequest* sized = find_named(mesh_, name);
      const bool twice = find_named(named, name) != nullptr;
      if (twice || (has_sizes_ && sized == nullptr)) {
        errors_.malformed(item.span(),
                          twice ? "mesh dimension `" + name + "` appears twice"
                                : "`mesh` has no size for `" + name + "`");
        return;
      }
      named.push_back(sized != nullptr ? *sized
                                       : AxisRequest{name, -1, item.span(),
                                                     item.span(), item.span()});
    }
    if (has_sizes_ && named.size() != mesh_.size()) {
      errors_.malformed(node.span(),
                        "`mesh` has " + plural(std::ssize(mesh_), "size") +
                            " for " + plural(std::ssize(named), "name"));
      return;
    }
    mesh_ = std::move(named);
  }

  void read_sizes(const Node& node) {
    if (!node.is_map()) {
      errors_
          .malformed(node.span(), "`mesh` must be a map, not " +
                                      std::string(kind_name(node.kind())))
          .help("write, for example, `mesh: {dp: 8, tp: 4}`");
      return;
    }
    has_sizes_ = true;
    rules_.mesh_where = node.span();
    for (size_t i = 0; i < node.size(); ++i) {
      const auto size = node.item(i).integer();
      const std::string name(node.key(i));
      if (!size || *size < 1 || !is_axis_name(name)) {
        errors_
            .error(Code::InvalidMesh, node.item(i).span(),
                   in_backticks(name) + " is not a mesh dimension with a size")
            .help("write, for example, `mesh: {dp: 8, tp: 4}`");
        return;
      }
      mesh_.push_back({name, *size, node.key_span(i), node.key_span(i),
                       node.item(i).span()});
    }
  }

  // Uses the names from the command line if the file has none.
  bool name_dimensions(Span where) {
    if (mesh_.empty()) {
      for (const std::string& name : reading_.axes) {
        // `--mesh` passes names with sizes, `dp=8`.
        mesh_.push_back(
            {name.substr(0, name.find('=')), -1, where, where, where});
      }
    }
    if (mesh_.empty()) {
      errors_.malformed(where, "the mesh dimensions have no names")
          .fact("placements are given per mesh dimension")
          .help(
              "give their names in order: `--axes dp,tp`, or "
              "`mesh_dim_names` in the file");
      return false;
    }
    AxisNames& all = rules_.declared_axes;
    for (const AxisRequest& axis : mesh_) {
      if (!contains(all, axis.name)) all.push_back(axis.name);
    }
    if (has_sizes_) rules_.mesh = mesh_;
    return true;
  }

  void add_rule(std::string_view key, Span where, Span value,
                std::span<const MeshPlacement> placements) {
    Diagnostics found;
    auto placed = spec_of_placements(placements, mesh_, value, found);
    forward(found, {});
    if (!placed) return;
    Rule rule;
    rule.pattern = pattern_of(key);
    rule.spec = std::move(placed->spec);
    rule.from_last = placed->from_last;
    rule.where = where;
    rule.spec_where = value;
    rule.dim_where = std::move(placed->dim_where);
    rules_.rules.push_back(std::move(rule));
  }

  const RuleReading& reading_;
  RuleSet& rules_;
  ErrorLimit errors_;
  std::vector<AxisRequest> mesh_;  // mesh dimensions in order; size -1: unknown
  bool has_sizes_ = false;
};

bool read(SourcePtr source, const RuleReading& reading, RuleSet& rules,
          Diagnostics& diags) {
  const bool good = Reader(reading, rules, diags).read(source);
  rules.sources.push_back(std::move(source));
  return good;
}

// The axes of a dimension must be in the order of the mesh dimensions.
std::optional<std::string> written_entries(const RuleSet& rules,
                                           const WantedRule& wanted) {
  const AxisNames& names = rules.declared_axes;
  const auto place = [&](const AxisName& axis) {
    return std::ranges::find(names, axis);
  };
  for (const AxisNames& axes : wanted.spec.dims) {
    const bool is_known = std::ranges::all_of(
        axes, [&](const AxisName& axis) { return contains(names, axis); });
    if (!is_known || !std::ranges::is_sorted(axes, {}, place)) {
      return std::nullopt;
    }
  }
  const Rule* sample = nullptr;
  for (const Rule& rule : rules.rules) {
    if (!rule.shipped && rule.spec_where.file) sample = &rule;
  }
  // Placements are calls in Python, strings elsewhere.
  const bool is_text = sample == nullptr ||
                       contains(sample->spec_where.text(), '"') ||
                       contains(sample->spec_where.text(), '\'') ||
                       !contains(sample->spec_where.text(), '[');
  const std::string quote = is_text ? "\"" : "";
  const std::string value = joined_of(names, ", ", [&](const AxisName& axis) {
    return quote + placement_text(wanted.spec, axis) + quote;
  });
  // A `*` in a name stands for a number, and is also a pattern in a key.
  const bool is_plain =
      std::ranges::none_of(wanted.names, [](const std::string& name) {
        return contains(name, '?') || contains(name, '[');
      });
  if (!is_plain || wanted.names.empty()) return std::nullopt;
  return joined_of(wanted.names, ", ", [&](const std::string& name) {
    return python_quoted(name) + ": [" + value + "]";
  });
}

constexpr RuleForm kPlacementForm = {written_entries, nullptr, "the placements",
                                     "give the parameter placements"};

}  // namespace

std::string fnmatch_parts(std::string_view key) {
  std::string pattern;
  for (size_t begin = 0; begin <= key.size();) {
    const size_t end = std::min(key.find('.', begin), key.size());
    if (begin > 0) pattern += "\\.";
    pattern += part_pattern(key.substr(begin, end - begin));
    begin = end + 1;
  }
  return pattern;
}

const RuleDialect kDtensor = {"dtensor",
                              "PyTorch DTensor placements per parameter",
                              recognize, read, &kPlacementForm};

}  // namespace shardplan
