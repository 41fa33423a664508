// SPDX-License-Identifier: Apache-2.0
#include "graph/family.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "graph/families/families.h"

namespace shardplan {
namespace {

// Names that a message shows.
constexpr size_t kShown = 6;

std::string families_text() {
  std::string text;
  for (const Family& family : model_families()) {
    text += (text.empty() ? "" : ", ") + std::string(family.name);
  }
  return text;
}

constexpr const char* kByHand =
    "a graph file describes any other forward pass: `--graph FILE`";

const Family* find_by_type(const ModelConfig& config, Diagnostics& diags) {
  std::vector<std::string> known;
  for (const Family& family : model_families()) {
    if (family.name == config.model_type) return &family;
    known.emplace_back(family.name);
  }
  auto problem =
      diags.error(Code::UnknownFamily, config.where,
                  "the forward pass of `" + printable(config.model_type) +
                      "` is not known");
  if (const auto near = nearest(config.model_type, known)) {
    problem.help("a family with a similar name is `" + *near + "`");
  }
  problem.help("known are " + families_text()).help(kByHand);
  return nullptr;
}

using Names = std::vector<std::string>;  // sorted

bool has(const Names& names, std::string_view name) {
  return std::binary_search(names.begin(), names.end(), name);
}

// Those of `wanted` that are there, or that are not.
std::vector<std::string_view> select(
    const Names& names, const std::vector<std::string_view>& wanted,
    bool there) {
  std::vector<std::string_view> some;
  for (const std::string_view name : wanted) {
    if (has(names, name) == there) some.push_back(name);
  }
  return some;
}

// What the family that is nearest has, and the model has not.
void report_unrecognised(const Names& names, Diagnostics& diags) {
  auto problem = diags.error(Code::UnknownFamily, {},
                             "the names of this model are those of no family "
                             "whose forward pass is known");
  const Family* near = nullptr;
  size_t most = 0;
  for (const Family& family : model_families()) {
    const size_t found = select(names, family.marks, true).size();
    if (near != nullptr && found <= most) continue;
    near = &family;
    most = found;
  }
  const std::string name(near->name);
  problem.fact("`" + name + "` is nearest: " + std::to_string(most) + " of " +
               plural(static_cast<int64_t>(near->marks.size()), "name") +
               " looked for are there");
  const auto missing = select(names, near->marks, false);
  for (size_t i = 0; i < missing.size() && i < kShown; ++i) {
    problem.fact("not found: `" + std::string(missing[i]) + "`");
  }
  if (missing.size() > kShown) problem.fact("not found: ..");
  for (const std::string_view foreign : select(names, near->foreign, true)) {
    problem.fact("a `" + name + "` has no `" + std::string(foreign) + "`");
  }
  std::string own;
  for (size_t i = 0; i < names.size() && i < kShown; ++i) {
    own += (i == 0 ? "`" : ", `") + printable(names[i]) + "`";
  }
  problem.fact("the model has " + own + (names.size() > kShown ? ", .." : ""));
  problem
      .help("known families are " + families_text() +
            "; a config.json beside the model names its own")
      .help(kByHand);
}

}  // namespace

std::span<const Family> model_families() {
  static const std::vector<Family> kFamilies = {
      llama_family(),   mistral_family(),   qwen2_family(), qwen3_family(),
      mixtral_family(), qwen3_moe_family(), gpt2_family(),  bert_family(),
  };
  return kFamilies;
}

const Family* recognise_family(const Manifest& /*manifest*/,
                               const ParameterNames& names,
                               const ModelConfig& config, Diagnostics& diags) {
  if (!config.model_type.empty()) return find_by_type(config, diags);
  const Names folded = names.folded();
  const Family* best = nullptr;
  for (const Family& family : model_families()) {
    const bool fits = select(folded, family.marks, false).empty() &&
                      select(folded, family.foreign, true).empty();
    if (!fits) continue;
    if (best == nullptr || family.marks.size() > best->marks.size()) {
      best = &family;
    }
  }
  if (best == nullptr) report_unrecognised(folded, diags);
  return best;
}

}  // namespace shardplan
