// SPDX-License-Identifier: Apache-2.0
// A list of logical axis rules alone, in JSON or YAML:
//
//   [["batch", "data"], ["embed", ["fsdp", "sp"]], ["mlp", null]]
//
// In Python it is a table of the dialect `python`.
#include <utility>

#include "io/axis_tables.h"
#include "io/dialects/dialects.h"
#include "io/document.h"
#include "io/python_rules.h"

namespace shardplan {
namespace {

// Pairs are also how rules of patterns are written; only a second item that is
// no spec tells that these are none.
bool is_pair_of_axes(const Node& node) {
  if (!node.is_list() || node.size() != 2) return false;
  const Node second = node.item(1);
  const bool is_axis =
      second.is_string() && find_sharding_preset(second.text()) == nullptr;
  return second.is_null() || is_axis;
}

bool recognize(std::string_view head) {
  if (head.find("rules:") != std::string_view::npos) return false;
  Diagnostics ignored;
  const auto document = parse_document(
      std::make_shared<SourceFile>("rules", std::string(head)), ignored);
  if (!document || !document->root().is_list()) return false;
  const Node root = document->root();
  for (size_t i = 0; i < root.size(); ++i) {
    if (is_pair_of_axes(root.item(i))) return true;
  }
  return false;
}

bool read(SourcePtr source, const RuleReading& how, RuleSet& rules,
          Diagnostics& diags) {
  if (looks_like_python_rules(source->text())) {
    return read_python_rules(source, how.table, rules, diags);
  }
  const auto document = parse_document(source, diags);
  if (!document) return false;
  rules.sources.push_back(std::move(source));
  return read_logical_rules(document->root(), rules, diags);
}

}  // namespace

const RuleDialect kFlax = {
    "flax", "a list of logical axis rules: [[embed, fsdp], [mlp, null]]",
    recognize, read};

}  // namespace shardplan
