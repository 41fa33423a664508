// SPDX-License-Identifier: Apache-2.0
#include "cli/views/matmul_report.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "cli/flag_values.h"
#include "core/spec.h"
#include "resolve/matmul_spec.h"
#include "syntax/python.h"

namespace shardplan::cli {
namespace {

struct Product {
  PartitionSpec left;
  PartitionSpec right;
};

int rank_of(const PartitionSpec& spec) {
  return static_cast<int>(spec.dims.size());
}

std::nullopt_t refuse(Span where, std::string message, std::string help,
                      Diagnostics& diags) {
  return diags.error(Code::MalformedDocument, where, std::move(message))
      .help(std::move(help));
}

std::optional<AxisName> axis_of(const PythonValue& value, Diagnostics& diags) {
  const bool named =
      value.kind == PythonKind::Name || value.kind == PythonKind::String;
  if (named && is_axis_name(value.text)) return value.text;
  return refuse(value.where,
                in_backticks(value.where.text()) + " is not an axis",
                "write the name of an axis, None, or several in brackets: "
                "`P((dp, fsdp), None)`",
                diags);
}

std::optional<AxisNames> axes_of(const PythonValue& value, Diagnostics& diags) {
  if (value.kind == PythonKind::None) return AxisNames();
  const bool is_list =
      value.kind == PythonKind::Tuple || value.kind == PythonKind::List;
  AxisNames axes;
  for (const PythonValue& item :
       is_list ? std::span(value.items) : std::span(&value, 1)) {
    auto axis = axis_of(item, diags);
    if (!axis) return std::nullopt;
    axes.push_back(*std::move(axis));
  }
  return axes;
}

bool names_a_spec(const PythonValue& value) {
  const std::string_view name = value.text;
  const std::string_view last = name.substr(name.find_last_of('.') + 1);
  return value.kind == PythonKind::Call &&
         (last == "P" || last == "PS" || last == "PartitionSpec");
}

void report_repeated(const PythonValue& value, const PartitionSpec& spec,
                     std::string_view side, Diagnostics& diags) {
  std::set<AxisName> used;
  std::set<AxisName> twice;
  for (const AxisNames& axes : spec.dims) {
    for (const AxisName& axis : axes) {
      if (!used.insert(axis).second) twice.insert(axis);
    }
  }
  if (twice.empty()) return;
  diags
      .report(Code::RepeatedAxis, value.where,
              "the " + std::string(side) + " operand names " +
                  quoted_names(texts_of({twice.begin(), twice.end()})) +
                  " twice")
      .help("an axis can shard only one dimension of an array");
}

// Reads one operand, starting at tokens[at].
std::optional<PartitionSpec> read_spec(std::span<const PythonToken> tokens,
                                       size_t& at, std::string_view side,
                                       Diagnostics& diags) {
  const auto value = parse_python_value(tokens, at, diags);
  if (!value) return std::nullopt;
  if (!names_a_spec(*value)) {
    return refuse(value->where,
                  "the " + std::string(side) + " operand is not a spec",
                  "write it as `P(dp, None)`", diags);
  }
  PartitionSpec spec;
  for (const PythonValue& item : value->items) {
    auto axes = axes_of(item, diags);
    if (!axes) return std::nullopt;
    spec.dims.push_back(*std::move(axes));
  }
  report_repeated(*value, spec, side, diags);
  return spec;
}

std::optional<Product> read_product(const SourceFile& text,
                                    Diagnostics& diags) {
  const std::vector<PythonToken> tokens = python_tokens(text);
  size_t at = 0;
  auto left = read_spec(tokens, at, "left", diags);
  if (!left) return std::nullopt;
  if (!tokens[at].is("@")) {
    return refuse(tokens[at].where, "`@` is missing between the operands",
                  "write `P(dp, None) @ P(None, tp)`", diags);
  }
  ++at;
  auto right = read_spec(tokens, at, "right", diags);
  if (!right) return std::nullopt;
  if (tokens[at].kind != PythonTokenKind::End) {
    return refuse(tokens[at].where, "a product has two operands",
                  "ask for one product at a time", diags);
  }
  return Product{*std::move(left), *std::move(right)};
}

bool check_ranks(const Product& product, Diagnostics& diags) {
  const int left = rank_of(product.left);
  const int right = rank_of(product.right);
  if (left == 0 || right == 0) {
    diags
        .error(Code::Usage, {},
               "an operand of a matrix product has at least one dimension")
        .help("write an entry for each dimension: `P(None, tp)`");
    return false;
  }
  if (right <= 2 || left == right) return true;
  diags
      .error(Code::Usage, {},
             "no product of " + plural(left, "dimension") + " with " +
                 plural(right, "dimension") + " is supported")
      .help(
          "the right operand must have two dimensions, or as many as the left "
          "with the same batch dimensions first");
  return false;
}

AxisNames only_in(const AxisNames& axes, const AxisNames& others) {
  AxisNames result;
  for (const AxisName& axis : axes) {
    if (!contains(others, axis)) result.push_back(axis);
  }
  return result;
}

// The collectives that the product needs, one row each.
class Needs {
 public:
  Needs(const Product& product, const MatmulOutput& output)
      : left_(product.left), right_(product.right), output_(output) {
    contraction();
    partial();
    repeated();
    batch();
    if (rows_.empty()) {
      add("nothing", {}, "every device has its operands");
    }
  }
  std::vector<Row> rows() && { return std::move(rows_); }

 private:
  void add(std::string what, const AxisNames& axes, std::string why) {
    rows_.push_back({std::move(what), Names{texts_of(axes)}, std::move(why)});
  }

  const AxisNames& contracted_right() const {
    return right_.dims[right_.dims.size() == 1 ? 0 : right_.dims.size() - 2];
  }

  void one_sided(const AxisNames& axes, const char* sharded,
                 const char* whole) {
    if (axes.empty()) return;
    add("all-gather, or slice", axes,
        "only the " + std::string(sharded) +
            " is sharded: gather it, or slice the " + whole);
  }

  void contraction() {
    const AxisNames& ours = left_.dims.back();
    const AxisNames& theirs = contracted_right();
    const AxisNames left_only = only_in(ours, theirs);
    const AxisNames right_only = only_in(theirs, ours);
    one_sided(left_only, "left", "right");
    one_sided(right_only, "right", "left");
    if (left_only.empty() && right_only.empty() && ours != theirs) {
      add("resharding", ours,
          "the contraction is sharded in different orders: " + axes_text(ours) +
              " and " + axes_text(theirs));
    }
  }

  void partial() {
    if (output_.partial.empty()) return;
    add("all-reduce", output_.partial,
        "each device holds a partial sum; yields " + spec_text(output_.spec));
    // The result may also contain the axis if an illegal operand names it
    // twice.
    const AxisNames named = axes_in(output_.spec);
    const bool is_named = std::ranges::any_of(
        output_.partial,
        [&](const AxisName& axis) { return contains(named, axis); });
    if (output_.spec.dims.empty() || is_named) return;
    PartitionSpec scattered = output_.spec;
    AxisNames& last = scattered.dims.back();
    last.insert(last.end(), output_.partial.begin(), output_.partial.end());
    add("or reduce-scatter", output_.partial,
        "each device keeps a part of the sum: " + spec_text(scattered));
  }

  void repeated() {
    if (output_.repeated.empty()) return;
    add("all-gather", output_.repeated,
        "an earlier dimension of the result already uses it");
  }

  void batch() {
    for (size_t dim = 0; dim + 2 < right_.dims.size(); ++dim) {
      if (left_.dims[dim] == right_.dims[dim]) continue;
      AxisNames axes = only_in(left_.dims[dim], right_.dims[dim]);
      const AxisNames others = only_in(right_.dims[dim], left_.dims[dim]);
      axes.insert(axes.end(), others.begin(), others.end());
      add("resharding", axes,
          "batch dimension " + std::to_string(dim) + " is sharded as " +
              axes_text(left_.dims[dim]) + " and as " +
              axes_text(right_.dims[dim]));
    }
  }

  const PartitionSpec& left_;
  const PartitionSpec& right_;
  const MatmulOutput& output_;
  std::vector<Row> rows_;
};

Table needs_table(const Product& product, const MatmulOutput& output) {
  return {"needs",
          "Required communication",
          {left("what", "operation"), left("axes", "over"), elastic("why")},
          rows_of(Needs(product, output).rows())};
}

std::string parity_text(const PartitionSpec& original,
                        const MatmulOutput& output) {
  return "EasyDeL's get_matmul_output_sharding: " + spec_text(original) +
         (original == output.spec ? ", the same"
                                  : ", since it only replaces the last entry "
                                    "of the left spec with that of the right");
}

}  // namespace

std::optional<Report> matmul_report(const SourcePtr& text, bool parity,
                                    Diagnostics& diags) {
  diags.add_source(text);
  const auto product = read_product(*text, diags);
  if (!product || !check_ranks(*product, diags)) return std::nullopt;
  const MatmulOutput output =
      matmul_output(product->left, rank_of(product->left), product->right,
                    rank_of(product->right));
  Report report;
  report.command = "explain";
  report.diagnostics = &diags;
  report.summary = {{"left", product->left},
                    {"right", product->right},
                    {"output", output.spec},
                    {"partial", Names{texts_of(output.partial)}},
                    {"mismatched", Names{texts_of(output.mismatched)}},
                    {"repeated", Names{texts_of(output.repeated)}}};
  report.headline = {spec_text(product->left) + " @ " +
                     spec_text(product->right) + " = " +
                     spec_text(output.spec)};
  report.tables = {needs_table(*product, output)};
  if (parity) {
    const PartitionSpec original =
        original_matmul_output(product->left, product->right);
    report.summary.emplace_back("parity", original);
    report.closing.push_back(parity_text(original, output));
  }
  return report;
}

}  // namespace shardplan::cli
