// SPDX-License-Identifier: Apache-2.0
#include "io/graph/graph_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "io/graph/layer_names.h"
#include "io/spec_node.h"

namespace shardplan {
namespace {

// The most nodes of the document, each counted once per repetition: some
// hundred thousand operations.
constexpr int64_t kMaxRepeated = 1'000'000;
// Above every rank that operations have letters or results for.
constexpr size_t kMaxRank = 64;
constexpr size_t kMaxNameLength = 1024;

// Returns whether a value may have this name: `activations` patterns can match
// it, and no composite generates it (`h:mean`).
bool is_value_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxNameLength &&
         std::ranges::all_of(text, [](char c) {
           return is_letter(c) || is_digit(c) || contains("_.-/", c);
         });
}

// The enumerators of integer types are next to each other.
bool is_integer_type(DType dtype) {
  return dtype >= DType::I64 && dtype <= DType::U4;
}

class Reader {
 public:
  Reader(const DimSizes& chosen, Diagnostics& diags)
      : chosen_(chosen),
        diags_(diags),
        errors_before_(diags.count(Severity::Error)) {}

  std::optional<GraphDescription> read(const Node& root) {
    static const std::array<std::string, 8> kKeys = {
        "graph",      "title", "dims",    "inputs",
        "parameters", "ops",   "outputs", "probes"};
    if (!require(root, NodeKind::Map, "a graph file", diags_) ||
        !reject_unknown_keys(root, kKeys, diags_)) {
      return std::nullopt;
    }
    if (const auto name = root.find("graph")) {
      graph_.name = text_of(*name, "graph");
    } else {
      malformed(root.span(), "`graph` is missing");
    }
    if (const auto title = root.find("title")) text_of(*title, "title");
    if (!read_dims(root.find("dims"), chosen_, dims_, diags_)) {
      return std::nullopt;  // otherwise every shape would fail
    }
    read_values(root.find("inputs"), "inputs", graph_.inputs);
    read_values(root.find("parameters"), "parameters", graph_.parameters);
    read_ops(root);
    if (const auto outputs = root.find("outputs")) {
      read_names(*outputs, "outputs", graph_.output_names,
                 graph_.outputs_where);
      for (const std::string& output : graph_.output_names) {
        graph_.outputs.push_back(names_.read(output));
      }
    }
    if (const auto probes = root.find("probes")) read_probes(*probes);
    if (failed()) return std::nullopt;
    return std::move(graph_);
  }

 private:
  int64_t errors() const {
    return diags_.count(Severity::Error) - errors_before_;
  }
  bool failed() const { return errors() > 0; }

  // Returns whether there were enough errors to stop, noting it at `next` once.
  bool stopped(const Node& next) {
    if (errors() < kMaxErrors) return false;
    if (!noted_) {
      diags_.report(Code::MalformedDocument, Severity::Note, next.span(),
                    "the graph from here on was not read: too many errors");
    }
    noted_ = true;
    return true;
  }

  Diagnostics::Builder malformed(Span where, std::string message) {
    return diags_.error(Code::MalformedDocument, where, std::move(message));
  }

  std::string text_of(const Node& node, std::string_view key) {
    if (!require(node, NodeKind::String, key, diags_)) return "";
    if (node.text().empty() || node.text().size() > kMaxNameLength) {
      malformed(node.span(), in_backticks(key) + " must have 1 to " +
                                 std::to_string(kMaxNameLength) +
                                 " characters");
    }
    return std::string(node.text());
  }

  std::string value_name(std::string_view text, Span where) {
    if (!is_value_name(text)) {
      malformed(where, in_backticks(text) + " is not a valid value name")
          .help("use letters, digits, `_`, `.`, `-` and `/`");
    }
    return std::string(text);
  }

  bool check_list(const Node& node, std::string_view what) {
    if (!require(node, NodeKind::List, what, diags_)) return false;
    if (node.size() <= kMaxRank) return true;
    malformed(node.span(), in_backticks(what) + " has more than " +
                               std::to_string(kMaxRank) + " items");
    return false;
  }

  // Reads each item of a list, which is empty if the node is not one.
  template <typename Read>
  auto list_of(const Node& node, std::string_view what, Read read) {
    std::vector<decltype(read(node))> items;
    if (!check_list(node, what)) return items;
    for (size_t i = 0; i < node.size(); ++i) {
      items.push_back(read(node.item(i)));
    }
    return items;
  }

  Shape shape_of(const Node& node) {
    Shape shape = list_of(node, "shape", [&](const Node& item) {
      return read_size(item, dims_, diags_).value_or(0);
    });
    if (!failed() && !element_count(shape)) {
      malformed(node.span(), "the shape has more than 2^63 elements")
          .fact("its sizes are " + shape_text(shape));
    }
    return shape;
  }

  std::vector<std::string> labels_of(const Node& node) {
    return list_of(node, "axes", [&](const Node& item) {
      return item.is_null() ? "" : text_of(item, "an axis");
    });
  }

  std::optional<PartitionSpec> spec_of(const Node& node) {
    if (node.is_list() && !check_list(node, "spec")) return std::nullopt;
    return read_spec_node(node, diags_);
  }

  double real_of(const Node& node, std::string_view key) {
    if (!require(node, NodeKind::Real, key, diags_)) return 0;
    const auto number = node.number();
    if (!number || !std::isfinite(*number)) {
      malformed(node.span(), in_backticks(key) + " must be finite");
    }
    return number.value_or(0);
  }

  bool flag_of(const Node& node, std::string_view key) {
    const auto flag = node.boolean();
    if (!flag) {
      malformed(node.span(), in_backticks(key) + " must be true or false");
    }
    return flag.value_or(false);
  }

  void read_init(const Node& node, DescribedValue& value) {
    value.init_where = node.span();
    Initialiser& init = value.initialiser;
    if (!node.is_map()) {
      init.name = text_of(node, "init");
      return;
    }
    static const std::array<std::string, 6> kKeys = {
        "name", "scale", "stddev", "per_shard", "split_rngs", "mask_except"};
    if (!reject_unknown_keys(node, kKeys, diags_)) return;
    if (const auto name = node.find("name")) {
      init.name = text_of(*name, "name");
    } else {
      malformed(node.span(), "`init` has no `name`");
    }
    if (const auto scale = node.find("scale")) {
      init.scale = real_of(*scale, "scale");
    }
    if (const auto stddev = node.find("stddev")) {
      init.stddev = real_of(*stddev, "stddev");
    }
    if (const auto per_shard = node.find("per_shard")) {
      init.per_shard = flag_of(*per_shard, "per_shard");
    }
    if (const auto split = node.find("split_rngs")) {
      init.split_rngs = flag_of(*split, "split_rngs");
    }
    if (const auto mask = node.find("mask_except")) {
      init.mask_except = read_size(*mask, dims_, diags_);
    }
    if (!init.per_shard && (!init.split_rngs || init.mask_except)) {
      malformed(node.span(),
                "`split_rngs` and `mask_except` require `per_shard: true`");
    }
  }

  void read_type(const Node& node, DescribedValue& value) {
    const auto dtype = node.find("dtype");
    const auto below = node.find("below");
    if (below) {
      value.dtype = DType::I32;
      value.integers_below = read_size(*below, dims_, diags_).value_or(1);
      if (value.integers_below < 1) {
        malformed(below->span(), "`below` must be at least 1");
      }
    }
    if (!dtype) return;
    const std::string text = text_of(*dtype, "dtype");
    const auto known = find_dtype(text);
    if (!known) {
      auto problem =
          malformed(dtype->span(), in_backticks(text) + " is not a dtype");
      const std::string near = nearest_dtype(text);
      if (!near.empty()) problem.help("did you mean `" + near + "`?");
      return;
    }
    value.dtype = *known;
    if (is_integer_type(*known) != below.has_value()) {
      malformed(dtype->span(), below ? "`below` applies only to integer dtypes"
                                     : "integer dtypes need `below`")
          .help("`below: vocab` means values from 0 to `vocab` - 1");
    }
  }

  void check_rank(const DescribedValue& value) {
    if (!value.shape || failed()) return;
    const std::string shape = shape_text(*value.shape);
    if (!value.axes.empty() && value.axes.size() != value.shape->size()) {
      diags_
          .error(Code::InvalidGraph, value.axes_where,
                 plural(std::ssize(value.axes), "label") + " for " + shape)
          .help(
              "give one entry per dimension in `axes`; `null` means no label");
    }
    if (value.spec && value.spec->dims.size() > value.shape->size()) {
      diags_.error(
          Code::InvalidGraph, value.spec_where,
          spec_text(*value.spec) + " is longer than the rank of " + shape);
    }
  }

  // Returns a parameter's name in the model. In repeated layers the layer's
  // name precedes it, unless the name itself contains `{i}`.
  std::string parameter_name(const Node& node) {
    std::string name = text_of(node, "name");
    if (!names_.repeats()) return name;
    if (!contains(name, kLayerIndex)) return names_.in_layer(name);
    return with_index(name, names_.layer());
  }

  // Reads `x: [batch, embed]`, or a map with more keys.
  void read_value(const Node& node, bool parameter, DescribedValue& value) {
    if (parameter) value.parameter = value.name;
    if (node.is_list()) value.shape = shape_of(node);
    if (node.is_list() || (parameter && node.is_null())) return;
    static const std::vector<std::string> kOfInput = {"shape", "axes", "spec",
                                                      "dtype", "below"};
    static const std::vector<std::string> kOfParameter = {
        "name", "shape", "axes", "spec", "dtype", "init"};
    if (!require(node, NodeKind::Map, value.name, diags_) ||
        !reject_unknown_keys(node, parameter ? kOfParameter : kOfInput,
                             diags_)) {
      return;
    }
    if (const auto name = node.find("name")) {
      value.parameter = parameter_name(*name);
    }
    if (const auto shape = node.find("shape")) value.shape = shape_of(*shape);
    if (!value.shape && !parameter) {
      malformed(node.span(), "input `" + value.name + "` has no `shape`");
    }
    if (const auto axes = node.find("axes")) {
      value.axes = labels_of(*axes);
      value.axes_where = axes->span();
    }
    if (const auto spec = node.find("spec")) {
      value.spec = spec_of(*spec);
      value.spec_where = spec->span();
    }
    check_rank(value);
    read_type(node, value);
    if (const auto init = node.find("init")) read_init(*init, value);
  }

  void read_values(const std::optional<Node>& node, std::string_view what,
                   std::vector<DescribedValue>& values) {
    if (!node || node->is_null() ||
        !require(*node, NodeKind::Map, what, diags_)) {
      return;
    }
    for (size_t i = 0; i < node->size(); ++i) {
      if (stopped(node->item(i))) return;
      DescribedValue value;
      value.where = node->key_span(i);
      value.name = names_.make(value_name(node->key(i), value.where));
      value.layer = layer_;
      read_value(node->item(i), what == "parameters", value);
      values.push_back(std::move(value));
    }
  }

  // Reads a name, or a list of names.
  void read_names(const Node& node, std::string_view what,
                  std::vector<std::string>& names, std::vector<Span>& where) {
    const auto add = [&](const Node& name) {
      if (!require(name, NodeKind::String, what, diags_)) return false;
      names.push_back(value_name(name.text(), name.span()));
      where.push_back(name.span());
      return true;
    };
    if (!node.is_list()) add(node);
    for (size_t i = 0; node.is_list() && i < node.size(); ++i) {
      const Node item = node.item(i);
      if (stopped(item)) return;
      if (item.number() && what == "in") {
        malformed(item.span(), "a number cannot be an operand")
            .help(
                "write `{op: shift, in: x, by: 1}` to add a number, or `{op: "
                "scale, in: x, by: 2}` to multiply by one");
        return;
      }
      if (!add(item)) return;
    }
  }

  void read_probes(const Node& node) {
    std::vector<std::string> written;
    read_names(node, "probes", written, graph_.probes_where);
    for (const std::string& name : written) {
      graph_.probes.push_back(names_.read(name));
    }
  }

  std::vector<int64_t> integers_of(const Node& node, std::string_view key) {
    return list_of(node, key, [&](const Node& item) {
      const auto number = item.integer();
      const bool negative = number && *number < 0 && *number >= -kMaxDimSize;
      return negative ? *number : read_size(item, dims_, diags_).value_or(0);
    });
  }

  static bool has_fractions(const Node& list) {
    for (size_t i = 0; i < list.size(); ++i) {
      if (list.item(i).kind() == NodeKind::Real) return true;
    }
    return false;
  }

  // Reads `{rsqrt: head_dim}`, another way to write 1/sqrt(head_dim).
  double rsqrt_of(const Node& node) {
    static const std::array<std::string, 1> kKeys = {"rsqrt"};
    if (!reject_unknown_keys(node, kKeys, diags_)) return 0;
    const auto inner = node.find("rsqrt");
    if (!inner) {
      malformed(node.span(), "`rsqrt` is missing")
          .help("`{rsqrt: head_dim}` is 1/sqrt(head_dim)");
      return 0;
    }
    const auto size = read_size(*inner, dims_, diags_);
    if (size == 0) malformed(inner->span(), "1/sqrt(0) is not a number");
    return 1 / std::sqrt(static_cast<double>(size.value_or(1)));
  }

  void read_attribute(const Node& node, DescribedAttribute& attribute) {
    attribute.where = node.span();
    if (attribute.name == "spec") {
      attribute.value = spec_of(node).value_or(PartitionSpec());
    } else if (node.is_list() && has_fractions(node)) {
      attribute.value = list_of(node, attribute.name, [&](const Node& item) {
        return real_of(item, attribute.name);
      });
    } else if (node.is_list()) {
      attribute.value = integers_of(node, attribute.name);
    } else if (node.is_map()) {
      attribute.value = rsqrt_of(node);
    } else if (node.is_string()) {
      attribute.value = text_of(node, attribute.name);
      const auto amount = evaluate_amount(node.text(), dims_, attribute.why);
      if (amount) {
        attribute.number = amount->real;
        attribute.size = amount->whole;
        attribute.why = amount->why;
      }
    } else if (const auto flag = node.boolean()) {
      attribute.value = *flag ? 1.0 : 0.0;
    } else {
      const double number = real_of(node, attribute.name);
      if (node.kind() == NodeKind::Integer &&
          std::abs(number) > static_cast<double>(kMaxDimSize)) {
        malformed(node.span(), "the number exceeds 2^53");
      }
      attribute.value = number;
    }
  }

  // Reads `{in_specs: [[null, tp]], out_specs: [null, tp], psum: [sp]}`.
  std::optional<ShardMapUse> shard_map_of(const Node& node) {
    static const std::array<std::string, 3> kKeys = {"in_specs", "out_specs",
                                                     "psum"};
    if (!require(node, NodeKind::Map, "shard_map", diags_) ||
        !reject_unknown_keys(node, kKeys, diags_)) {
      return std::nullopt;
    }
    ShardMapUse map;
    const auto in_specs = node.find("in_specs");
    const auto out_specs = node.find("out_specs");
    if (!in_specs || !out_specs) {
      malformed(node.span(), std::string("`shard_map` has no `") +
                                 (in_specs ? "out_specs`" : "in_specs`"))
          .help(
              "for one operand, write `{in_specs: [[null, tp]], out_specs: "
              "[null, tp]}`");
      return std::nullopt;
    }
    if (!check_list(*in_specs, "in_specs")) return std::nullopt;
    for (size_t i = 0; i < in_specs->size(); ++i) {
      map.in_specs.push_back(
          spec_of(in_specs->item(i)).value_or(PartitionSpec()));
    }
    map.out_spec = spec_of(*out_specs).value_or(PartitionSpec());
    if (const auto psum = node.find("psum")) {
      map.psum = read_axes_node(*psum, diags_).value_or(AxisNames());
    }
    return map;
  }

  void read_op(const Node& node) {
    if (!require(node, NodeKind::Map, "an operation", diags_)) return;
    DescribedOp op;
    op.where = node.span();
    op.layer = layer_;
    for (size_t i = 0; i < node.size(); ++i) {
      const std::string_view key = node.key(i);
      const Node item = node.item(i);
      if (key == "op") {
        op.op = text_of(item, "op");
        op.where = item.span();
      } else if (key == "in") {
        read_names(item, "in", op.operands, op.operands_where);
      } else if (key == "out") {
        read_names(item, "out", op.results, op.results_where);
      } else if (key == "axes") {
        op.axes = labels_of(item);
        op.axes_where = item.span();
      } else if (key == "shard_map") {
        op.shard_map = shard_map_of(item);
        op.shard_map_where = item.span();
      } else {
        DescribedAttribute attribute;
        attribute.name = key;
        attribute.name_where = node.key_span(i);
        read_attribute(item, attribute);
        op.attributes.push_back(std::move(attribute));
      }
    }
    for (const char* key : {"op", "in", "out"}) {
      if (node.find(key)) continue;
      malformed(node.span(), "an operation has no `" + std::string(key) + "`")
          .help(
              "write an operation as `{op: linear, in: [x, kernel], out: y}`");
    }
    // Operands come first: they exist before the operation's results.
    for (std::string& name : op.operands) name = names_.read(name);
    for (std::string& name : op.results) name = names_.make(name);
    graph_.ops.push_back(std::move(op));
  }

  void read_ops(const Node& root) {
    const auto ops = root.find("ops");
    if (!ops) malformed(root.span(), "`ops` is missing");
    if (!ops || !require(*ops, NodeKind::List, "ops", diags_)) return;
    for (size_t i = 0; i < ops->size(); ++i) {
      const Node item = ops->item(i);
      if (stopped(item)) return;
      if (item.is_map() && item.find("repeat")) {
        read_repeat(item);
      } else {
        read_op(item);
      }
    }
  }

  // Repeated layers: operations and parameters that are written only once.
  struct Repeat {
    int64_t count = 0;
    std::string name;  // "layers.{i}"
    std::vector<std::string> carried;
    std::vector<Span> carried_where;
  };

  void read_repeat(const Node& node) {
    static const std::array<std::string, 6> kKeys = {
        "repeat", "name", "carry", "parameters", "ops", "probes"};
    if (!reject_unknown_keys(node, kKeys, diags_)) return;
    const auto ops = node.find("ops");
    if (!ops) {
      malformed(node.span(), "`repeat` has no `ops`");
      return;
    }
    if (!require(*ops, NodeKind::List, "ops", diags_)) return;
    for (size_t n = 0; n < ops->size(); ++n) {
      const Node item = ops->item(n);
      if (!item.is_map() || !item.find("repeat")) continue;
      malformed(item.span(), "`repeat` cannot be nested in another `repeat`")
          .help("write the inner layers one by one");
      return;
    }
    auto repeat = repeat_of(node);
    if (!repeat || !may_repeat(node, *repeat) || !names_fit(*ops, *repeat)) {
      return;
    }
    const int64_t before = errors();
    names_.begin(names_in_layer(node), repeat->carried);
    for (int64_t i = 0; i < repeat->count && errors() == before; ++i) {
      layer_ = static_cast<int>(graph_.layers.size());
      graph_.layers.push_back({with_index(repeat->name, i), repeat->name, i});
      names_.enter(i, graph_.layers.back().name);
      dims_.insert_or_assign("i", i);
      read_values(node.find("parameters"), "parameters", graph_.parameters);
      for (size_t n = 0; n < ops->size(); ++n) {
        if (stopped(ops->item(n))) break;
        read_op(ops->item(n));
      }
      if (const auto probes = node.find("probes")) read_probes(*probes);
    }
    dims_.erase("i");
    names_.end();
    layer_ = -1;
  }

  std::optional<Repeat> repeat_of(const Node& node) {
    Repeat repeat;
    const Node count = *node.find("repeat");
    const auto size = read_size(count, dims_, diags_);
    if (!size) return std::nullopt;
    repeat.count = *size;
    if (repeat.count == 0) {
      malformed(count.span(), "`repeat` must be at least 1");
      return std::nullopt;
    }
    if (dims_.contains("i")) {
      malformed(node.span(),
                "`i` is reserved for the index of a repeated layer")
          .help("rename the size `i` in `dims`");
      return std::nullopt;
    }
    if (const auto carry = node.find("carry")) {
      read_names(*carry, "carry", repeat.carried, repeat.carried_where);
    }
    if (const auto name = node.find("name")) {
      repeat.name = text_of(*name, "name");
      if (!contains(repeat.name, kLayerIndex)) {
        malformed(name->span(),
                  "the name of repeated layers must contain `{i}`")
            .help("for example `name: model.layers.{i}`");
      } else {
        value_name(with_index(repeat.name, 0), name->span());
      }
    } else if (count.is_string() && is_dim_name(count.text())) {
      repeat.name = std::string(count.text()) + ".{i}";
    } else {
      malformed(node.span(), "repeated layers need a `name`")
          .help("for example `name: layers.{i}`");
    }
    if (failed()) return std::nullopt;
    return repeat;
  }

  // Returns whether the repetition is within the limit, which bounds the work
  // that a short text can cause.
  bool may_repeat(const Node& node, const Repeat& repeat) {
    const int64_t nodes = nodes_in(node, kMaxRepeated);
    const auto all = checked_mul(repeat.count, nodes);
    const auto total = all ? checked_add(repeated_, *all) : std::nullopt;
    if (total && *total <= kMaxRepeated) {
      repeated_ = *total;
      return true;
    }
    diags_
        .error(Code::InvalidGraph, node.find("repeat")->span(),
               count_text(repeat.count) + " layers are too many")
        .fact("each has " + count_text(nodes) +
              " nodes in the file; all repeated layers together may have " +
              count_text(kMaxRepeated))
        .help("give a smaller number with `--dims`");
    return false;
  }

  // Checks that a carried value exists before the first layer and that each
  // layer produces it again, and that a layer does not produce a value with an
  // outer name unless it is carried.
  bool names_fit(const Node& ops, const Repeat& repeat) {
    const auto made = results_in(ops);
    const int64_t before = errors();
    for (size_t c = 0; c < repeat.carried.size(); ++c) {
      const std::string& name = repeat.carried[c];
      const bool remade = std::ranges::any_of(
          made, [&](const auto& each) { return each.first == name; });
      if (!names_.is_known(name)) {
        diags_.error(Code::InvalidGraph, repeat.carried_where[c],
                     "no " + in_backticks(name) +
                         " exists for the first layer to start from");
      } else if (!remade) {
        diags_
            .error(Code::InvalidGraph, repeat.carried_where[c],
                   "no operation of the layer produces " + in_backticks(name))
            .help("`out: " + name +
                  "` names the result that the next layer reads");
      }
    }
    for (const auto& [name, where] : made) {
      if (!names_.is_known(name) || contains(repeat.carried, name)) continue;
      diags_
          .error(Code::InvalidGraph, where,
                 in_backticks(name) +
                     " is produced in every layer and also outside")
          .help("`carry: [" + name +
                "]` passes it from layer to layer; otherwise rename it");
    }
    return errors() == before;
  }

  const DimSizes& chosen_;
  Diagnostics& diags_;
  int64_t errors_before_;
  bool noted_ = false;
  DimSizes dims_;
  GraphDescription graph_;
  LayerNames names_;
  int layer_ = -1;  // index in the graph while layers are repeated
  int64_t repeated_ = 0;
};

}  // namespace

std::optional<GraphDescription> read_graph_node(const Node& root,
                                                const DimSizes& dims,
                                                Diagnostics& diags) {
  return Reader(dims, diags).read(root);
}

}  // namespace shardplan
