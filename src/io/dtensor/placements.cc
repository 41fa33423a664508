// SPDX-License-Identifier: Apache-2.0
#include "io/dtensor/placements.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

constexpr std::string_view kForms =
    "write Shard(d), Replicate() or _StridedShard(d, split_factor=n)";

class Parser {
 public:
  Parser(std::span<const PythonToken> tokens, size_t at, Diagnostics& diags)
      : tokens_(tokens), at_(at), diags_(diags) {}

  size_t at() const { return at_; }

  std::optional<std::vector<MeshPlacement>> list() {
    if (!here().is("[") && !here().is("(")) {
      const auto only = placement();
      if (!only) return std::nullopt;
      return std::vector{*only};
    }
    std::vector<MeshPlacement> placements;
    const std::string_view close = here().is("[") ? "]" : ")";
    ++at_;
    while (!here().is(close)) {
      const auto next = placement();
      if (!next) return std::nullopt;
      placements.push_back(*next);
      if (here().is(",")) {
        ++at_;
      } else if (!here().is(close)) {
        return malformed(here(), "a comma or `" + std::string(close) +
                                     "` is missing before this");
      }
    }
    ++at_;
    return placements;
  }

 private:
  const PythonToken& here() const {
    return tokens_[std::min(at_, tokens_.size() - 1)];
  }

  Diagnostics::Builder malformed(const PythonToken& token,
                                 std::string message) {
    return diags_
        .error(Code::MalformedDocument, token.where, std::move(message))
        .help(std::string(kForms));
  }

  std::optional<MeshPlacement> placement() {
    if (here().kind == PythonTokenKind::Bad) {
      return malformed(here(), "this is " + here().text);
    }
    if (here().kind != PythonTokenKind::Name) {
      return malformed(here(), here().kind == PythonTokenKind::End
                                   ? "a placement is missing here"
                                   : "this is not a placement");
    }
    const PythonToken& first = here();
    const std::string name = read_last_name(tokens_, at_);
    MeshPlacement result;
    result.where = first.where;
    if (name == "R") return result;
    if (name == "Partial" || name == "P" || name == "_Partial") {
      return diags_
          .error(Code::Inexpressible, first.where,
                 "a parameter cannot be Partial()")
          .fact("devices would hold partial sums, not its values")
          .help("write the placement it is stored with");
    }
    if (name == "Shard" || name == "S") {
      result.kind = MeshPlacementKind::Shard;
    } else if (name == "_StridedShard") {
      result.kind = MeshPlacementKind::Strided;
    } else if (name.ends_with("Parallel")) {
      return diags_
          .error(Code::MalformedDocument, first.where,
                 in_backticks(name) + " is a module style, not a placement")
          .help("style plans are read from Python: write {\"NAME\": " + name +
                "()} for every module in a Python file");
    } else if (name != "Replicate") {
      return malformed(first, in_backticks(name) + " is not a placement");
    }
    return with_arguments(first, result);
  }

  std::optional<MeshPlacement> with_arguments(const PythonToken& first,
                                              MeshPlacement result) {
    if (!here().is("(")) {
      return malformed(here(),
                       "`(` is missing after " + in_backticks(first.text));
    }
    ++at_;
    bool has_dim = false;
    bool has_factor = false;
    for (size_t position = 0; !here().is(")"); ++position) {
      bool is_dim = position == 0;
      if (here().kind == PythonTokenKind::Name) {
        is_dim = here().is("dim");
        const bool is_factor = here().is("split_factor") || here().is("sf");
        if ((!is_dim && !is_factor) || at_ + 1 >= tokens_.size() ||
            !tokens_[at_ + 1].is("=")) {
          return malformed(here(), "this is not an argument of a placement");
        }
        at_ += 2;
      } else if (position > 0) {
        return malformed(here(), "this argument needs a name");
      }
      const auto value = integer();
      if (!value) return std::nullopt;
      bool& has = is_dim ? has_dim : has_factor;
      if (std::exchange(has, true)) {
        return malformed(here(), "an argument is given twice");
      }
      (is_dim ? result.dim : result.split_factor) = *value;
      if (here().is(",")) {
        ++at_;
      } else if (!here().is(")")) {
        return malformed(here(), "`)` is missing before this");
      }
    }
    result.where.end = here().where.end;
    ++at_;
    const bool takes_factor = result.kind == MeshPlacementKind::Strided;
    if (has_dim != (result.kind != MeshPlacementKind::Replicate) ||
        has_factor != takes_factor) {
      return malformed(first, in_backticks(result.where.text()) +
                                  " has the wrong arguments");
    }
    if (result.dim >= kMaxPlacementDim || result.dim < -kMaxPlacementDim ||
        result.split_factor < 1) {
      return diags_
          .error(Code::MalformedDocument, result.where,
                 takes_factor && result.split_factor < 1
                     ? "a split factor is less than 1"
                     : "no tensor has dimension " + std::to_string(result.dim))
          .help("count dimensions from 0, or backwards from -1");
    }
    return result;
  }

  std::optional<int64_t> integer() {
    const bool negative = here().is("-");
    if (negative) ++at_;
    const auto value = parse_integer(here().text);
    if (here().kind != PythonTokenKind::Number || !value) {
      return malformed(here(), "a whole number is expected here");
    }
    ++at_;
    return negative ? -*value : *value;
  }

  std::span<const PythonToken> tokens_;
  size_t at_;
  Diagnostics& diags_;
};

// The axes of one dimension of the tensor, major to minor. Mesh dimensions are
// added from the last to the first.
struct Order {
  std::vector<AxisRequest> axes;
  Span where = {};  // the first placement that shards the dimension

  // Inserts after the axes that split into `factor` parts; false if none do.
  bool add(const AxisRequest& axis, int64_t factor) {
    int64_t parts = 1;
    size_t at = 0;
    while (parts != factor) {
      if (at == axes.size() || axes[at].size < 1) return false;
      const auto product = checked_mul(parts, axes[at++].size);
      if (!product || *product > factor) return false;
      parts = *product;
    }
    axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(at), axis);
    return true;
  }

  std::string text() const {
    if (axes.empty()) return "none";
    return joined_of(axes, " x ", [](const AxisRequest& axis) {
      return axis.name + (axis.size < 1 ? " (size unknown)"
                                        : "=" + std::to_string(axis.size));
    });
  }
};

}  // namespace

std::optional<std::vector<MeshPlacement>> parse_placements(
    std::span<const PythonToken> tokens, size_t& at, Diagnostics& diags) {
  Parser parser(tokens, at, diags);
  auto placements = parser.list();
  at = parser.at();
  return placements;
}

std::string read_last_name(std::span<const PythonToken> tokens, size_t& at) {
  std::string name = tokens[at++].text;
  while (at + 1 < tokens.size() && tokens[at].is(".") &&
         tokens[at + 1].kind == PythonTokenKind::Name) {
    name = tokens[at + 1].text;
    at += 2;
  }
  return name;
}

std::optional<PlacedSpec> spec_of_placements(
    std::span<const MeshPlacement> placements,
    std::span<const AxisRequest> mesh, Span where, Diagnostics& diags) {
  if (placements.size() != mesh.size()) {
    return diags
        .error(Code::MalformedDocument, where,
               "there " + std::string(placements.size() == 1 ? "is " : "are ") +
                   plural(std::ssize(placements), "placement") + " for " +
                   plural(std::ssize(mesh), "mesh dimension"))
        .fact("mesh dimensions: " + joined_of(mesh, ", ", &AxisRequest::name))
        .help("write one placement per mesh dimension");
  }
  std::map<int64_t, Order> orders;
  PlacedSpec result;
  for (size_t i = placements.size(); i-- > 0;) {
    const MeshPlacement& placement = placements[i];
    if (placement.kind == MeshPlacementKind::Replicate) continue;
    Order& order = orders[placement.dim];
    order.where = placement.where;
    if (order.add(mesh[i], placement.split_factor)) continue;
    return diags
        .error(Code::Inexpressible, placement.where,
               "no axis order matches this _StridedShard")
        .fact("its split factor is " + std::to_string(placement.split_factor) +
              ", but later mesh dimensions that shard dimension " +
              std::to_string(placement.dim) + " are " + order.text())
        .help(
            "the split factor must be the product of sizes of later mesh "
            "dimensions; give the sizes with `mesh`");
  }
  if (orders.empty()) return result;
  const int64_t lowest = orders.begin()->first;
  const int64_t highest = orders.rbegin()->first;
  if (lowest < 0 && highest >= 0) {
    return diags
        .error(Code::Inexpressible, where,
               "dimensions are counted both from the start and from the end")
        .fact("Shard(" + std::to_string(highest) + ") and Shard(" +
              std::to_string(lowest) +
              ") may be the same dimension: the rank is not known here")
        .help("count all dimensions from 0");
  }
  result.from_last = lowest < 0;
  const int64_t first = result.from_last ? lowest : 0;
  const int64_t last = result.from_last ? -1 : highest;
  for (int64_t dim = first; dim <= last; ++dim) {
    const auto order = orders.find(dim);
    const bool is_sharded = order != orders.end();
    result.dim_where.push_back(is_sharded ? order->second.where : where);
    AxisNames& axes = result.spec.dims.emplace_back();
    if (!is_sharded) continue;
    for (const AxisRequest& axis : order->second.axes) {
      axes.push_back(axis.name);
    }
  }
  return result;
}

std::string placement_text(const PartitionSpec& spec, const AxisName& axis) {
  for (size_t dim = 0; dim < spec.dims.size(); ++dim) {
    if (contains(spec.dims[dim], axis)) {
      return "Shard(" + std::to_string(dim) + ")";
    }
  }
  return "Replicate()";
}

}  // namespace shardplan
