// SPDX-License-Identifier: Apache-2.0
// Checks a graph file against the operations that there are, and builds it.
#include "graph/build.h"

#include <array>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "graph/graph.h"
#include "graph/random.h"

namespace shardplan {
namespace {

// With more names than this, the nearest one is not searched for.
constexpr size_t kMaxCandidates = 10'000;
// A value that could not be built; what reads it fails without a message.
constexpr ValueId kBroken;

using Kind = AttributeDef::Kind;

// Per kind, which is also the index of its alternative in AttributeValue.
constexpr std::array<std::string_view, 5> kKindTexts = {
    "a number", "a string", "a list of integers", "a spec",
    "a list of numbers"};

// Converts a written attribute to that kind; nullopt if it is of another kind.
std::optional<AttributeValue> as_kind(const DescribedAttribute& written,
                                      Kind kind) {
  if (written.value.index() == to_size(kind)) return written.value;
  const auto* number = std::get_if<double>(&written.value);
  const auto* integers = std::get_if<std::vector<int64_t>>(&written.value);
  if (kind == Kind::Numbers && integers != nullptr) {
    return std::vector<double>(integers->begin(), integers->end());
  }
  if (kind == Kind::Integers && written.size) {
    return std::vector<int64_t>{*written.size};
  }
  if (kind == Kind::Integers && number != nullptr) {
    // An integer above 2^53 is not exact, and a fraction is not an integer.
    const double limit = 0x1p53;
    if (!(*number >= -limit && *number <= limit)) return std::nullopt;
    const auto integer = static_cast<int64_t>(*number);
    if (static_cast<double>(integer) != *number) return std::nullopt;
    return std::vector<int64_t>{integer};
  }
  if (kind == Kind::Number && written.number) return *written.number;
  return std::nullopt;
}

// The operand counts and attributes that an operation of a file is checked
// against: those of one of ops() or composites().
struct Signature {
  int min_operands = 1;
  int max_operands = 1;
  bool many_results = false;
  std::span<const AttributeDef> attributes;
};

class Builder {
 public:
  Builder(const GraphDescription& description, Diagnostics& diags)
      : described_(description),
        diags_(diags),
        errors_before_(diags.count(Severity::Error)) {}

  std::optional<Graph> build(const Manifest& manifest) {
    graph_.name = described_.name;
    graph_.sources = described_.sources;
    graph_.layers = described_.layers;
    add_inputs();
    add_parameters(manifest);
    for (const DescribedOp& op : described_.ops) {
      for (const std::string& result : op.results) later_.insert(result);
    }
    for (const DescribedOp& op : described_.ops) {
      if (stopped(op.where)) break;
      add_op(op);
    }
    if (errors() == 0) choose_outputs();
    graph_.probes = find_values(described_.probes, described_.probes_where);
    if (errors() > 0) return std::nullopt;
    find_regions(graph_);
    return std::move(graph_);
  }

 private:
  int64_t errors() const {
    return diags_.count(Severity::Error) - errors_before_;
  }

  bool stopped(Span next) {
    if (errors() < kMaxErrors) return false;
    if (!noted_) {
      diags_.report(Code::InvalidGraph, Severity::Note, next,
                    "too many errors: the rest of the graph was not built");
    }
    noted_ = true;
    return true;
  }

  Diagnostics::Builder fail(Span where, std::string message) {
    return diags_.error(Code::InvalidGraph, where, std::move(message));
  }

  // Names a value. Reports an error if the name is in use.
  void define(const std::string& name, Span where, ValueId value) {
    const auto [known, added] = names_.try_emplace(name, Named{value, where});
    if (added) return;
    fail(where, in_backticks(name) + " is defined twice")
        .label(known->second.where, "first defined here");
  }

  bool labels_fit(const std::vector<std::string>& axes, Span where,
                  const Shape& shape) {
    if (axes.empty() || axes.size() == shape.size()) return true;
    fail(where, plural(static_cast<int64_t>(axes.size()), "label") + " for " +
                    shape_text(shape))
        .help("give `axes` one entry per dimension, `null` for no label");
    return false;
  }

  void add_value(const DescribedValue& written, Shape shape, Value::Kind kind) {
    Value value;
    value.name = written.name;
    value.kind = kind;
    value.where = written.where;
    value.spec = written.spec;
    value.parameter = written.parameter;
    value.initialiser = written.initialiser;
    value.integers_below = written.integers_below;
    value.shape = std::move(shape);
    if (!element_count(value.shape)) {
      fail(written.where, "`" + value.name + "` has more than 2^63 elements");
    }
    if (labels_fit(written.axes, written.axes_where, value.shape)) {
      value.axes = written.axes;
      value.labelled = !written.axes.empty();
    }
    if (value.spec && value.spec->dims.size() > value.shape.size()) {
      fail(written.spec_where, spec_text(*value.spec) +
                                   " is longer than the rank of " +
                                   shape_text(value.shape));
    }
    define(written.name, written.where, append_value(graph_, std::move(value)));
  }

  void add_inputs() {
    for (const DescribedValue& input : described_.inputs) {
      if (stopped(input.where)) return;
      if (!input.shape) {
        fail(input.where, "input `" + input.name + "` has no shape");
      } else {
        add_value(input, *input.shape, Value::Kind::Input);
      }
    }
  }

  void check_initialiser(const DescribedValue& parameter, const Shape& shape) {
    const Initialiser& init = parameter.initialiser;
    if (init.name.empty()) return;
    const std::vector<std::string> known = initialiser_names();
    if (!contains(known, init.name)) {
      suggest(fail(parameter.init_where,
                   in_backticks(init.name) + " is not an initialiser"),
              init.name, known);
    }
    if (!init.per_shard) return;
    if (shape.empty()) {
      fail(parameter.init_where, "a scalar has no shards")
          .help("`per_shard` draws along the first dimension");
    } else if (init.mask_except && *init.mask_except >= shape[0]) {
      fail(parameter.init_where, "there is no shard " +
                                     std::to_string(*init.mask_except) +
                                     " in " + shape_text(shape));
    }
  }

  void add_parameters(const Manifest& manifest) {
    std::unordered_map<std::string_view, size_t> places;
    for (const DescribedValue& parameter : described_.parameters) {
      places.emplace(parameter.parameter, manifest.any_size());
    }
    for (size_t i = 0; !places.empty() && i < manifest.any_size(); ++i) {
      const auto wanted = places.find(manifest.any_name(i));
      if (wanted != places.end()) wanted->second = i;
    }
    for (const DescribedValue& parameter : described_.parameters) {
      if (stopped(parameter.where)) return;
      if (is_repeated(described_, parameter.layer) && errors() > 0) {
        names_.try_emplace(parameter.name);
        continue;
      }
      const size_t place = places.at(parameter.parameter);
      const Shape* held = place < manifest.any_size()
                              ? &manifest.any_type(place).shape
                              : nullptr;
      if (held != nullptr && parameter.shape && *held != *parameter.shape) {
        fail(parameter.where,
             "`" + parameter.name + "` has a different shape in the model")
            .fact("in the graph it is " + shape_text(*parameter.shape))
            .fact(in_backticks(parameter.parameter) + " in the model is " +
                  shape_text(*held));
      }
      if (held == nullptr && !parameter.shape) {
        report_unknown_parameter(parameter, manifest);
        names_.try_emplace(parameter.name);
        continue;
      }
      const Shape& shape = parameter.shape ? *parameter.shape : *held;
      check_initialiser(parameter, shape);
      add_value(parameter, shape, Value::Kind::Parameter);
    }
  }

  void report_unknown_parameter(const DescribedValue& parameter,
                                const Manifest& manifest) {
    std::vector<std::string> names;
    for (size_t i = 0; i < manifest.size() && i < kMaxCandidates; ++i) {
      names.emplace_back(manifest.name(i));
    }
    suggest(fail(parameter.where,
                 "the shape of `" + parameter.name + "` is unknown")
                .fact("the model has no " + in_backticks(parameter.parameter)),
            parameter.parameter, names);
  }

  // Returns the value, or reports why there is none and returns kBroken.
  ValueId find_value(const std::string& name, Span where) {
    const auto found = names_.find(name);
    if (found != names_.end()) return found->second.value;
    if (later_.contains(name)) {
      fail(where, in_backticks(name) + " is read before it is defined")
          .help("list each operation after the ones it reads from");
      return kBroken;
    }
    std::vector<std::string> known;
    if (names_.size() <= kMaxCandidates) {
      for (const auto& [each, named] : names_) known.push_back(each);
    }
    suggest(fail(where, "there is no value named " + in_backticks(name)), name,
            known);
    return kBroken;
  }

  // Returns the values that there are, and reports the others.
  std::vector<ValueId> find_values(const std::vector<std::string>& names,
                                   const std::vector<Span>& where) {
    std::vector<ValueId> values;
    for (size_t i = 0; i < names.size(); ++i) {
      values.push_back(find_value(names[i], where[i]));
    }
    std::erase(values, kBroken);
    return values;
  }

  void report_unknown_op(const DescribedOp& op) {
    std::vector<std::string> known = all_names(ops());
    for (const CompositeDef& each : composites()) known.emplace_back(each.name);
    suggest(fail(op.where, "unknown operation " + in_backticks(op.op)), op.op,
            known)
        .help("`shardplan list ops` lists them all");
  }

  std::optional<Attributes> read_attributes(const DescribedOp& op,
                                            const Signature& signature) {
    Attributes attributes;
    bool good = true;
    for (const DescribedAttribute& written : op.attributes) {
      good = read_attribute(op, written, signature, attributes) && good;
    }
    for (const AttributeDef& known : signature.attributes) {
      if (!good || !known.required || attributes.contains(known.name)) continue;
      fail(op.where, "`" + op.op + "` needs `" + std::string(known.name) + "`")
          .fact(std::string(known.summary));
      good = false;
    }
    if (!good) return std::nullopt;
    return attributes;
  }

  bool read_attribute(const DescribedOp& op, const DescribedAttribute& written,
                      const Signature& signature, Attributes& attributes) {
    std::string kinds;
    for (const AttributeDef& known : signature.attributes) {
      if (known.name != written.name) continue;
      if (auto value = as_kind(written, known.kind)) {
        attributes.insert_or_assign(written.name, *std::move(value));
        return true;
      }
      if (!kinds.empty()) kinds += " or ";
      kinds += nth(kKindTexts, known.kind);
    }
    if (!kinds.empty()) {
      auto problem = fail(written.where, "`" + written.name + "` of `" + op.op +
                                             "` must be " + kinds);
      if (!written.why.empty()) problem.fact(written.why);
      return false;
    }
    suggest(fail(written.name_where, "`" + op.op + "` has no attribute " +
                                         in_backticks(written.name)),
            written.name, all_names(signature.attributes));
    return false;
  }

  // Returns whether the numbers of operands and results are right; reports if
  // not.
  bool counts_fit(const DescribedOp& op, const Signature& signature) {
    const auto operands = static_cast<int>(op.operands.size());
    if (operands < signature.min_operands ||
        operands > signature.max_operands) {
      const bool exact = signature.min_operands == signature.max_operands;
      fail(op.where, "`" + op.op + "` has " + plural(operands, "operand"))
          .fact("it takes " +
                (exact ? std::to_string(signature.min_operands)
                       : std::to_string(signature.min_operands) + " to " +
                             std::to_string(signature.max_operands)));
      return false;
    }
    const size_t results = op.results.size();
    if (results == 1 || (results > 1 && signature.many_results)) return true;
    fail(op.where, "`" + op.op + "` has " +
                       plural(static_cast<int64_t>(results), "result"))
        .fact(signature.many_results ? "it gives one or more" : "it gives one");
    return false;
  }

  std::optional<std::vector<ValueId>> append(const DescribedOp& op,
                                             const CompositeDef* composite,
                                             std::vector<ValueId> operands,
                                             Attributes attributes) {
    if (composite != nullptr) {
      return expand(*composite,
                    {std::move(operands), std::move(attributes), op.results,
                     op.results_where, op.op, op.where},
                    graph_, diags_);
    }
    const auto result = append_node(
        graph_,
        {op.op, std::move(operands), std::move(attributes), op.results.front(),
         op.op, op.where, op.results_where.front(), op.part},
        diags_);
    if (!result) return std::nullopt;
    return std::vector<ValueId>{*result};
  }

  // Returns the results' values, or nullopt if something is wrong.
  std::optional<std::vector<ValueId>> make(const DescribedOp& op) {
    const OpDef* primitive = find_op(op.op);
    const CompositeDef* composite = find_composite(op.op);
    if (primitive == nullptr && composite == nullptr) {
      report_unknown_op(op);
      return std::nullopt;
    }
    const Signature signature =
        composite == nullptr
            ? Signature{primitive->min_operands, primitive->max_operands, false,
                        primitive->attributes}
            : Signature{composite->min_operands, composite->max_operands,
                        composite->many_results, composite->attributes};
    bool good = counts_fit(op, signature);
    std::vector<ValueId> operands;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      operands.push_back(find_value(op.operands[i], op.operands_where[i]));
      good = good && operands.back() != kBroken;
    }
    auto attributes = read_attributes(op, signature);
    good = good && may_be_mapped(
                       op, composite == nullptr || composite->mappable, diags_);
    if (!good || !attributes) return std::nullopt;
    const NodeId first(graph_.nodes.size());
    auto made = append(op, composite, operands, *std::move(attributes));
    if (made && !map_nodes(graph_, first, op, operands, diags_)) {
      return std::nullopt;
    }
    for (const NodeId n : graph_.nodes.ids(first)) {
      put_in_layer(graph_.nodes[n], op.layer);
    }
    return made;
  }

  void put_in_layer(GraphNode& node, int layer) {
    node.layer = layer;
    if (layer < 0) return;
    // A slice of a stacked weight has the name of the stack, without the layer.
    Value& value = graph_.values[node.result];
    const std::string within = nth(graph_.layers, layer).name + ".";
    if (!value.name.starts_with(within)) return;
    value.part_at = within.size();
    value.step_at = value.name.find(':', value.part_at);
  }

  void add_op(const DescribedOp& op) {
    // All repeats of a layer have the same errors, which are reported once.
    const bool known_wrong = is_repeated(described_, op.layer) && errors() > 0;
    const auto made = known_wrong ? std::nullopt : make(op);
    for (size_t i = 0; i < op.results.size(); ++i) {
      define(op.results[i], op.results_where[i], made ? (*made)[i] : kBroken);
    }
    if (!made || op.axes.empty()) return;
    Value& value = graph_.values[made->front()];
    if (made->size() > 1) {
      fail(op.axes_where,
           "`axes` cannot label an operation with several results")
          .help("label each result in a separate operation");
    } else if (labels_fit(op.axes, op.axes_where, value.shape)) {
      value.axes = op.axes;
      value.labelled = true;
    }
  }

  void choose_outputs() {
    graph_.outputs = find_values(described_.outputs, described_.outputs_where);
    graph_.output_names = described_.output_names;
    if (described_.outputs.empty()) {
      PerValue<bool> read(graph_.values.size());
      for (const GraphNode& node : graph_.nodes) {
        for (const ValueId operand : node.operands) read[operand] = true;
      }
      for (const ValueId v : read.ids()) {
        const bool result = graph_.values[v].kind == Value::Kind::Result;
        if (result && !read[v]) graph_.outputs.push_back(v);
      }
    }
    if (errors() == 0 && graph_.outputs.empty()) {
      fail({}, "graph " + in_backticks(described_.name) + " computes nothing");
    }
  }

  const GraphDescription& described_;
  Diagnostics& diags_;
  int64_t errors_before_;
  bool noted_ = false;
  Graph graph_;
  struct Named {
    ValueId value;
    Span where;
  };
  std::map<std::string, Named, std::less<>> names_;
  std::set<std::string> later_;
};

}  // namespace

std::optional<Graph> build_graph(const GraphDescription& description,
                                 const Manifest& manifest, Diagnostics& diags) {
  return Builder(description, diags).build(manifest);
}

}  // namespace shardplan
