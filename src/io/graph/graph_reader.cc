// SPDX-License-Identifier: Apache-2.0
#include "io/graph/graph_reader.h"

#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/text.h"
#include "io/spec_node.h"

namespace shardplan {
namespace {

// More than any operation has letters or results for.
constexpr size_t kMaxRank = 64;
constexpr size_t kMaxNameLength = 1024;

// Names of values: what a pattern of `activations` may say, and none that a
// composite makes up (`h:mean`).
bool is_value_name(std::string_view text) {
  if (text.empty() || text.size() > kMaxNameLength) return false;
  constexpr std::string_view kOthers = "_.-/";
  for (const char c : text) {
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                      (c >= '0' && c <= '9');
    if (!word && kOthers.find(c) == kOthers.npos) return false;
  }
  return true;
}

bool is_integer_type(DType dtype) {
  switch (dtype) {
    case DType::I64:
    case DType::I32:
    case DType::I16:
    case DType::I8:
    case DType::I4:
    case DType::U64:
    case DType::U32:
    case DType::U16:
    case DType::U8:
    case DType::U4:
      return true;
    default:
      return false;
  }
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
    const auto name = root.find("graph");
    if (name) graph_.name = text_of(*name, "graph");
    if (!name) malformed(root.span(), "there is no `graph`");
    const auto title = root.find("title");
    if (title) text_of(*title, "title");
    if (!read_dims(root.find("dims"), chosen_, dims_, diags_)) {
      return std::nullopt;  // every shape would fail, too
    }
    read_values(root.find("inputs"), "inputs", graph_.inputs);
    read_values(root.find("parameters"), "parameters", graph_.parameters);
    read_ops(root);
    if (const auto outputs = root.find("outputs")) {
      read_names(*outputs, "outputs", graph_.outputs, graph_.outputs_where);
    }
    if (const auto probes = root.find("probes")) {
      read_names(*probes, "probes", graph_.probes, graph_.probes_where);
    }
    if (failed()) return std::nullopt;
    return std::move(graph_);
  }

 private:
  int64_t errors() const {
    return diags_.count(Severity::Error) - errors_before_;
  }
  bool failed() const { return errors() > 0; }

  // True, with a note at `next`, once there were enough errors.
  bool stopped(const Node& next) {
    if (errors() < kMaxErrors) return false;
    if (!noted_) {
      diags_.report(Code::MalformedDocument, Severity::Note, next.span(),
                    "the graph was read no further: too many errors");
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
      malformed(node.span(), "`" + std::string(key) + "` must have from 1 to " +
                                 std::to_string(kMaxNameLength) +
                                 " characters");
    }
    return std::string(node.text());
  }

  std::string value_name(std::string_view text, Span where) {
    if (!is_value_name(text)) {
      malformed(where, in_backticks(text) + " is no name of a value")
          .help("names have letters, digits, `_`, `.`, `-` and `/`");
    }
    return std::string(text);
  }

  bool check_list(const Node& node, std::string_view what) {
    if (!require(node, NodeKind::List, what, diags_)) return false;
    if (node.size() <= kMaxRank) return true;
    malformed(node.span(), "`" + std::string(what) + "` has more than " +
                               std::to_string(kMaxRank) + " items");
    return false;
  }

  Shape shape_of(const Node& node) {
    Shape shape;
    if (!check_list(node, "shape")) return shape;
    for (size_t i = 0; i < node.size(); ++i) {
      shape.push_back(read_size(node.item(i), dims_, diags_).value_or(0));
    }
    if (!failed() && !element_count(shape)) {
      malformed(node.span(), "the shape has more than 2^63 elements")
          .fact("its sizes are " + shape_text(shape));
    }
    return shape;
  }

  std::vector<std::string> labels_of(const Node& node) {
    std::vector<std::string> labels;
    if (!check_list(node, "axes")) return labels;
    for (size_t i = 0; i < node.size(); ++i) {
      const Node item = node.item(i);
      labels.push_back(item.is_null() ? "" : text_of(item, "an axis"));
    }
    return labels;
  }

  std::optional<PartitionSpec> spec_of(const Node& node) {
    if (node.is_list() && !check_list(node, "spec")) return std::nullopt;
    return read_spec_node(node, diags_);
  }

  double real_of(const Node& node, std::string_view key) {
    if (!require(node, NodeKind::Real, key, diags_)) return 0;
    const auto number = node.number();
    if (!number || !std::isfinite(*number)) {
      malformed(node.span(), "`" + std::string(key) + "` must be finite");
    }
    return number.value_or(0);
  }

  bool flag_of(const Node& node, std::string_view key) {
    const auto flag = node.boolean();
    if (!flag) {
      malformed(node.span(), "`" + std::string(key) + "` is true or false");
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
    const auto name = node.find("name");
    if (name) init.name = text_of(*name, "name");
    if (!name) malformed(node.span(), "`init` has no `name`");
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
                "`split_rngs` and `mask_except` are for `per_shard: true`");
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
          malformed(dtype->span(), in_backticks(text) + " is no dtype");
      const std::string near = nearest_dtype(text);
      if (!near.empty()) problem.help("a similar one is `" + near + "`");
      return;
    }
    value.dtype = *known;
    if (is_integer_type(*known) != below.has_value()) {
      malformed(dtype->span(),
                below ? "`below` is for integers" : "integers need a limit")
          .help(
              "`below: vocab` says that they are from 0 to less than `vocab`");
    }
  }

  void check_rank(const DescribedValue& value) {
    if (!value.shape || failed()) return;
    const std::string shape = shape_text(*value.shape);
    if (!value.axes.empty() && value.axes.size() != value.shape->size()) {
      diags_
          .error(Code::InvalidGraph, value.axes_where,
                 plural(static_cast<int64_t>(value.axes.size()), "label") +
                     " for " + shape)
          .help("`axes` has an entry per dimension; `null` is no label");
    }
    if (value.spec && value.spec->dims.size() > value.shape->size()) {
      diags_.error(
          Code::InvalidGraph, value.spec_where,
          spec_text(*value.spec) + " is longer than the rank of " + shape);
    }
  }

  // `x: [batch, embed]`, or a map that says more.
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
      value.parameter = text_of(*name, "name");
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
      value.name = value_name(node->key(i), value.where);
      read_value(node->item(i), what == "parameters", value);
      values.push_back(std::move(value));
    }
  }

  // A name, or a list of names.
  void read_names(const Node& node, std::string_view what,
                  std::vector<std::string>& names, std::vector<Span>& where) {
    if (!node.is_list()) {
      if (!require(node, NodeKind::String, what, diags_)) return;
      names.push_back(value_name(node.text(), node.span()));
      where.push_back(node.span());
      return;
    }
    for (size_t i = 0; i < node.size(); ++i) {
      const Node item = node.item(i);
      if (stopped(item) || !require(item, NodeKind::String, what, diags_)) {
        return;
      }
      names.push_back(value_name(item.text(), item.span()));
      where.push_back(item.span());
    }
  }

  std::vector<int64_t> integers_of(const Node& node, std::string_view key) {
    std::vector<int64_t> integers;
    if (!check_list(node, key)) return integers;
    for (size_t i = 0; i < node.size(); ++i) {
      const Node item = node.item(i);
      const auto number = item.integer();
      const bool negative = number && *number < 0 && *number >= -kMaxDimSize;
      integers.push_back(negative ? *number
                                  : read_size(item, dims_, diags_).value_or(0));
    }
    return integers;
  }

  // `{rsqrt: head_dim}`: 1/sqrt of a size, which a graph of other sizes needs
  // as a number.
  double rsqrt_of(const Node& node) {
    static const std::array<std::string, 1> kKeys = {"rsqrt"};
    if (!reject_unknown_keys(node, kKeys, diags_)) return 0;
    const auto inner = node.find("rsqrt");
    if (!inner) {
      malformed(node.span(), "there is no `rsqrt`")
          .help("`{rsqrt: head_dim}` is 1/sqrt(head_dim)");
      return 0;
    }
    const auto size = read_size(*inner, dims_, diags_);
    if (size && *size == 0) malformed(inner->span(), "1/sqrt(0) is no number");
    return 1 / std::sqrt(static_cast<double>(size.value_or(1)));
  }

  void read_attribute(const Node& node, DescribedAttribute& attribute) {
    attribute.where = node.span();
    if (attribute.name == "spec") {
      attribute.value = spec_of(node).value_or(PartitionSpec());
    } else if (node.is_list()) {
      attribute.value = integers_of(node, attribute.name);
    } else if (node.is_map()) {
      attribute.value = rsqrt_of(node);
    } else if (node.is_string()) {
      attribute.value = text_of(node, attribute.name);
      std::string why;
      attribute.size = evaluate_size(node.text(), dims_, why);
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

  // `{in_specs: [[null, tp]], out_specs: [null, tp], psum: [sp]}`
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
              "`{in_specs: [[null, tp]], out_specs: [null, tp]}` takes one "
              "operand");
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
          .help("an operation is `{op: linear, in: [x, kernel], out: y}`");
    }
    graph_.ops.push_back(std::move(op));
  }

  void read_ops(const Node& root) {
    const auto ops = root.find("ops");
    if (!ops) {
      malformed(root.span(), "there are no `ops`");
    } else if (require(*ops, NodeKind::List, "ops", diags_)) {
      for (size_t i = 0; i < ops->size(); ++i) {
        if (stopped(ops->item(i))) return;
        read_op(ops->item(i));
      }
    }
  }

  const DimSizes& chosen_;
  Diagnostics& diags_;
  int64_t errors_before_;
  bool noted_ = false;
  DimSizes dims_;
  GraphDescription graph_;
};

}  // namespace

std::optional<GraphDescription> read_graph_node(const Node& root,
                                                const DimSizes& dims,
                                                Diagnostics& diags) {
  return Reader(dims, diags).read(root);
}

namespace {

constexpr int64_t kMaxDimErrors = 20;

bool starts_name(char c) { return is_letter(c) || c == '_'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::vector<std::string> names_of(const DimSizes& dims) {
  std::vector<std::string> names;
  for (const auto& [name, size] : dims) names.push_back(name);
  return names;
}

std::optional<int64_t> term(std::string_view text, const DimSizes& dims,
                            std::string& why) {
  int64_t number = 0;
  if (!text.empty() && is_digit(text.front())) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (stop == end && error == std::errc()) return number;
  }
  const auto found = dims.find(text);
  if (found != dims.end()) return found->second;
  why = in_backticks(text) + " is neither a number nor a name in `dims`";
  if (const auto near = nearest(text, names_of(dims))) {
    why += "; `" + *near + "` is";
  }
  return std::nullopt;
}

std::optional<int64_t> combined(int64_t left, char sign, int64_t right,
                                std::string& why) {
  if (sign == '*') {
    const auto product = checked_mul(left, right);
    if (product && *product <= kMaxDimSize) return product;
    why = "the product exceeds 2^53";
    return std::nullopt;
  }
  if (right > 0 && left % right == 0) return left / right;
  why = std::to_string(right) + " does not divide " + std::to_string(left);
  return std::nullopt;
}

void report_size(const Node& node, const std::string& why, Diagnostics& diags) {
  diags
      .error(Code::InvalidGraph, node.span(),
             in_backticks(node.text()) + " is no size: " + why)
      .help(
          "a size is a number, a name in `dims`, or several joined by `*` "
          "and `/`");
}

}  // namespace

bool is_dim_name(std::string_view text) {
  if (text.empty() || !starts_name(text.front())) return false;
  for (const char c : text) {
    if (!starts_name(c) && !is_digit(c)) return false;
  }
  return true;
}

std::optional<int64_t> evaluate_size(std::string_view text,
                                     const DimSizes& dims, std::string& why) {
  std::optional<int64_t> value;
  char sign = '*';
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find_first_of("*/", begin), text.size());
    const auto next = term(trimmed(text.substr(begin, end - begin)), dims, why);
    if (!next) return std::nullopt;
    value = combined(value.value_or(1), sign, *next, why);
    if (!value) return std::nullopt;
    if (end < text.size()) sign = text[end];
    begin = end + 1;
  }
  return value;
}

std::optional<int64_t> read_size(const Node& node, const DimSizes& dims,
                                 Diagnostics& diags) {
  if (node.is_string()) {
    std::string why;
    const auto size = evaluate_size(node.text(), dims, why);
    if (!size) report_size(node, why, diags);
    return size;
  }
  if (!require(node, NodeKind::Integer, "a size", diags)) return std::nullopt;
  const auto number = node.integer();
  if (number && *number >= 0 && *number <= kMaxDimSize) return number;
  return diags.error(Code::MalformedDocument, node.span(),
                     "a size must be from 0 to 2^53");
}

bool read_dims(const std::optional<Node>& node, const DimSizes& chosen,
               DimSizes& dims, Diagnostics& diags) {
  const int64_t errors_before = diags.count(Severity::Error);
  const auto errors = [&] {
    return diags.count(Severity::Error) - errors_before;
  };
  if (node && !node->is_null() &&
      !require(*node, NodeKind::Map, "dims", diags)) {
    return false;
  }
  const size_t count = node ? node->size() : 0;
  for (size_t i = 0; i < count && errors() < kMaxDimErrors; ++i) {
    const std::string_view name = node->key(i);
    if (!is_dim_name(name)) {
      diags
          .error(Code::MalformedDocument, node->key_span(i),
                 in_backticks(name) + " is no name of a size")
          .help("names have letters, digits and `_`, no digit first");
      continue;
    }
    const auto wish = chosen.find(name);
    const auto size = wish == chosen.end()
                          ? read_size(node->item(i), dims, diags)
                          : std::optional<int64_t>(wish->second);
    if (size) dims.emplace(name, *size);
  }
  if (errors() > 0) return false;
  for (const auto& [name, size] : chosen) {
    if (dims.count(name) == 0) {
      auto problem =
          diags.error(Code::InvalidGraph, {},
                      "the graph has no size named " + in_backticks(name));
      if (const auto near = nearest(name, names_of(dims))) {
        problem.help("one with a similar name is `" + *near + "`");
      }
    } else if (size < 0 || size > kMaxDimSize) {
      diags.error(Code::InvalidGraph, {},
                  "`" + name + "` must be from 0 to 2^53");
    }
  }
  return errors() == 0;
}

}  // namespace shardplan
