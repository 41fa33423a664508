// SPDX-License-Identifier: Apache-2.0
// The dialect `flax`: a bare list of logical axis rules, in JSON or YAML.
//
//   [["batch", "data"], ["embed", ["fsdp", "sp"]], ["mlp", null]]
//
// In Python, such a list is a table of the dialect `python`.
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/words.h"
#include "core/partition_axis.h"
#include "io/dialects.h"
#include "io/python/rules.h"
#include "io/spec_node.h"
#include "syntax/document.h"

namespace shardplan {
namespace {

// Returns whether this is a logical axis rule. Pattern rules are also pairs, so
// the second item must be something that cannot be a spec.
bool is_pair_of_axes(const Node& node) {
  if (!node.is_list() || node.size() != 2) return false;
  const Node second = node.item(1);
  return second.is_null() ||
         (second.is_string() && find_sharding_preset(second.text()) == nullptr);
}

bool recognize(std::string_view head) {
  if (contains(head, "rules:")) return false;
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

bool read_flax(SourcePtr source, const RuleReading& how, RuleSet& rules,
               Diagnostics& diags) {
  if (looks_like_python_rules(source->text())) {
    rules.form = kPythonRules.form;
    return read_python_rules(std::move(source), how, rules, diags);
  }
  const auto document = parse_document(source, diags);
  if (!document) return false;
  rules.sources.push_back(std::move(source));
  return read_logical_rules(document->root(), rules, diags);
}

constexpr RuleForm kFlaxForm = {
    nullptr,
    [](std::string_view name) {
      return "add a rule `[" + std::string(name) +
             ", null]`, or name axes instead of `null`";
    },
    "", kNoPatterns};

}  // namespace

const RuleDialect kFlax = {
    "flax", "a list of logical axis rules: [[embed, fsdp], [mlp, null]]",
    recognize, read_flax, &kFlaxForm};

}  // namespace shardplan
