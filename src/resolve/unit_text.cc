// SPDX-License-Identifier: Apache-2.0
#include "resolve/unit_text.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/checked.h"
#include "base/text.h"
#include "resolve/lint.h"

namespace shardplan {
namespace {

std::string number(int64_t value) { return std::to_string(value); }

// "half a head", "1/3 of a head", "1/4 of an expert"
std::string share_text(int64_t units, int64_t devices, std::string_view name) {
  const int64_t common = std::gcd(units, devices);
  const int64_t parts = devices / common;
  const int64_t whole = units / common;
  const bool vowel = name.starts_with('e');
  const std::string one = (vowel ? "an " : "a ") + std::string(name);
  if (whole == 1 && parts == 2) return "half " + one;
  return number(whole) + "/" + number(parts) + " of " + one;
}

// What the dimension of a matrix has: the last is its columns.
std::string_view lines_name(const SplitUnit& split) {
  const bool last =
      static_cast<size_t>(split.unit.dim) + 1 == split.type.shape.size();
  return last && split.type.shape.size() > 1 ? "columns" : "rows";
}

std::string part_names(const Unit& unit) {
  std::string text;
  for (size_t i = 0; i < unit.parts.size(); ++i) {
    if (i > 0) text += i + 1 == unit.parts.size() ? " and " : ", ";
    text += unit.parts[i].name;
  }
  return text;
}

// "device 0 would hold gate rows 0-2047 and no up rows"
std::string first_shard_text(const SplitUnit& split) {
  const std::string lines(lines_name(split));
  const int64_t end = ceil_div(split.size, split.shards);
  std::string held;
  std::string missing;
  int64_t begin = 0;
  for (const Part& part : split.unit.parts) {
    const std::string name = std::string(part.name) + " " + lines;
    if (begin < end) {
      held += (held.empty() ? "" : ", ") + name + " 0-" +
              number(std::min(end - begin, part.rows) - 1) + " of " +
              number(part.rows);
    } else {
      missing += (missing.empty() ? "no " : ", no ") + name;
    }
    begin += part.rows;
  }
  return "device 0 would hold " + held +
         (missing.empty() ? "" : " and " + missing);
}

std::string packed_fact(const SplitUnit& split) {
  return part_names(split.unit) + " are side by side in the " +
         number(split.size) + " " + std::string(lines_name(split)) + ": " +
         first_shard_text(split);
}

std::string block_fact(const SplitUnit& split) {
  return "dimension " + number(split.unit.dim) + " is " + number(split.size) +
         ", in " + plural(split.unit.count, "quantisation block") + "; " +
         number(split.shards) + " shards of " +
         number(ceil_div(split.size, split.shards)) +
         " begin or end within a block";
}

std::string layer_fact(const SplitUnit& split) {
  return "dimension " + number(split.unit.dim) + " is the stack of " +
         number(split.unit.count) + " layers: a device would hold " +
         number(ceil_div(split.size, split.shards)) +
         " of them whole, and nothing of the others, which it needs too";
}

// The sizes of one axis that cut nothing, while `others` shards stay.
std::vector<int64_t> legal_counts(const SplitUnit& split, int64_t others,
                                  const Declarations& declared) {
  const Unit& unit = split.unit;
  std::set<int64_t> candidates = {1};
  const int64_t logical = split.type.shape[static_cast<size_t>(unit.dim)];
  if (logical > 0) {
    for (const int64_t n : common_divisors(logical, logical, logical)) {
      if (n % others == 0) candidates.insert(n / others);
    }
  }
  // Replication stores more rows than there are.
  if (declared.replicate_kv_heads && unit.queries > 0) {
    for (const int64_t n :
         common_divisors(unit.queries, unit.queries, unit.queries)) {
      if (n % others == 0) candidates.insert(n / others);
    }
  }
  std::vector<int64_t> legal;
  for (const int64_t n : candidates) {
    if (!is_cut(unit, n * others, declared)) legal.push_back(n);
  }
  return legal;
}

bool is_kv(const Unit& unit) {
  return unit.kind == UnitKind::KvHead || unit.kind == UnitKind::HeadGroup;
}

}  // namespace

std::string split_message(const SplitUnit& split, const Mesh& mesh) {
  std::string axes;
  for (const AxisName& axis : split.axes) {
    if (!axes.empty()) axes += ",";
    axes += axis + "=" + number(mesh.size_of(axis));
  }
  const std::string name(unit_name(split.unit.kind));
  if (split.unit.kind == UnitKind::Layer) {
    return axes + " spreads the stacked layers of";
  }
  return axes + " cuts the " + name +
         (split.unit.parts.empty() ? "s of" : " of");
}

std::string split_fact(const SplitUnit& split) {
  const Unit& unit = split.unit;
  const std::string name(unit_name(unit.kind));
  if (unit.kind == UnitKind::Layer) return layer_fact(split);
  if (unit.inside) {
    return "dimension " + number(unit.dim) + ", of " + number(split.size) +
           ", lies within one " + name + ": any cut splits it";
  }
  if (!unit.parts.empty()) return packed_fact(split);
  if (unit.kind == UnitKind::QuantBlock) return block_fact(split);
  return plural(unit.count, name) + " over " + number(split.shards) +
         " shards: " + share_text(unit.count, split.shards, name) +
         " on each, though " + number(split.size) + " mod " +
         number(split.shards) + " = " + number(split.size % split.shards);
}

std::string legal_sizes(const SplitUnit& split, const Mesh& mesh,
                        const Declarations& declared) {
  std::string text;
  for (const AxisName& axis : split.axes) {
    const int64_t others = split.shards / mesh.size_of(axis);
    const std::vector<int64_t> legal = legal_counts(split, others, declared);
    if (legal.empty()) continue;
    if (!text.empty()) text += "; ";
    text += "`" + axis + "` may be " + list_text(legal, legal.size());
  }
  if (!text.empty()) return text;
  return "no size of a single axis keeps them whole while the others stay";
}

std::vector<std::string> split_help(const SplitUnit& split,
                                    const Declarations& declared) {
  const Unit& unit = split.unit;
  const std::string dim = "dimension " + number(unit.dim);
  if (unit.kind == UnitKind::Layer) {
    return {"write `null` for " + dim +
            ": rules for scanned layers have one entry more, at the stack"};
  }
  std::vector<std::string> help;
  if (unit.parts.empty() && !unit.inside && unit.count > 1) {
    help.push_back("use a size of the axis that divides " + number(unit.count) +
                   ", or leave the dimension unsharded " +
                   (is_kv(unit) ? "to replicate the " : "to keep the ") +
                   std::string(unit_name(unit.kind)) + "s" +
                   (is_kv(unit) ? "" : " whole"));
  } else {
    help.push_back("leave " + dim + " unsharded, or shard another dimension");
  }
  if (!unit.inside && is_kv(unit) && !declared.replicate_kv_heads &&
      split.shards > unit.count && split.shards % unit.count == 0) {
    help.emplace_back(
        "`--declare replicate-kv-heads` where each shard stores a whole KV "
        "head instead");
  }
  if (unit.kind == UnitKind::PackedGateUp && !declared.interleave_gate_up) {
    help.emplace_back(
        "`--declare interleave-gate-up` where each shard stores its part of "
        "both");
  }
  if (unit.kind == UnitKind::FusedQkv && !declared.interleave_qkv) {
    help.emplace_back(
        "`--declare interleave-qkv` where each shard stores its part of each");
  }
  return help;
}

}  // namespace shardplan
