// SPDX-License-Identifier: Apache-2.0
// Steps that say what a layer keeps while it generates.
#include <algorithm>
#include <utility>

#include "base/text.h"
#include "model/architecture/reading.h"

namespace shardplan {
namespace {

// `tokens` of what is kept of an encoder's tokens, however many there are.
constexpr std::string_view kSource = "source";
constexpr std::string_view kNothing = "nothing";

}  // namespace

bool is_kept_step(const Node& node) {
  return node.is_map() && node.size() > 0 &&
         std::find(std::begin(kKeptSteps), std::end(kKeptSteps), node.key(0)) !=
             std::end(kKeptSteps);
}

std::optional<KeptStep> StepReader::kept_step(const Node& node) {
  KeptStep result;
  result.where = node.key_span(0);
  const std::string_view what = node.key(0);
  std::vector<std::string> known = {std::string(what), "when"};
  if (what == "cache") {
    known.insert(known.end(), {"of", "window", "tokens"});
  } else if (what == "state") {
    result.kind = KeptStep::Kind::State;
    known.insert(known.end(), {"shape", "dtype"});
  } else {
    result.kind = KeptStep::Kind::Nothing;
  }
  auto name = text(node.item(0), in_backticks(what));
  if (!name || !known_keys(node, known)) return std::nullopt;
  result.name = *std::move(name);
  if (const auto when = node.find("when")) {
    result.when = expression(*when);
    if (!result.when) return std::nullopt;
  }
  if (result.kind == KeptStep::Kind::Nothing) {
    if (result.name == kNothing) return result;
    return refuse(node.item(0).span(),
                  "`keeps` is `nothing`; what a layer keeps is said by `cache` "
                  "and `state`");
  }
  if (result.name.empty()) {
    return refuse(result.where, in_backticks(what) + " has no name");
  }
  if (!kept_elements(node, result)) return std::nullopt;
  return result;
}

bool StepReader::kept_elements(const Node& node, KeptStep& result) {
  const bool cache = result.kind == KeptStep::Kind::Cache;
  const std::string_view key = cache ? "of" : "shape";
  const auto elements = node.find(key);
  const bool listed = elements && elements->is_list();
  if (!elements || listed == cache || (listed && elements->size() == 0)) {
    refuse(elements ? elements->span() : result.where,
           in_backticks(result.name) +
               (cache ? " has no `of`, the elements of a token"
                      : " has no list `shape`"));
    return false;
  }
  for (size_t i = 0; i < (cache ? 1 : elements->size()); ++i) {
    auto read = dim(cache ? *elements : elements->item(i));
    if (!read) return false;
    result.dims.push_back(*std::move(read));
  }
  const auto window = node.find("window");
  const auto tokens = node.find("tokens");
  if (window && tokens) {
    refuse(
        tokens->span(),
        "`window` is of tokens that are generated, `tokens` of an encoder's: "
        "one of them says how many are kept");
    return false;
  }
  result.source = tokens.has_value();
  if (window) result.window = expression(*window);
  if (window && !result.window) return false;
  if (tokens && tokens->text() != kSource) {
    result.tokens = expression(*tokens);
    if (!result.tokens) return false;
  }
  if (const auto dtype = node.find("dtype")) {
    result.dtype = find_dtype(dtype->text());
    if (!result.dtype) {
      refuse(dtype->span(), in_backticks(dtype->text()) + " is no dtype");
      return false;
    }
  }
  return true;
}

}  // namespace shardplan
