// SPDX-License-Identifier: Apache-2.0
#include "graph/family.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <set>
#include <utility>

#include "base/text.h"
#include "graph/families/families.h"

namespace shardplan {
namespace {

using Parts = std::vector<std::string_view>;

// Modules around the model proper; what a task adds (`lm_head`) stands beside
// them.
constexpr std::array<std::string_view, 8> kWrappers = {
    "params", "model",          "transformer", "bert",
    "module", "language_model", "text_model",  "base_model"};

// Lists of layers: a part before the number of a layer.
constexpr std::array<std::string_view, 3> kLayerLists = {"layers", "h",
                                                         "layer"};
// Parts that Flax joins with a number: `layers_3`.
constexpr std::array<std::string_view, 4> kNumbered = {"layers", "h", "layer",
                                                       "experts"};

template <size_t N>
bool is_one_of(std::string_view word,
               const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_number(std::string_view part) {
  return !part.empty() && std::all_of(part.begin(), part.end(), [](char c) {
    return c >= '0' && c <= '9';
  });
}

Parts split_name(std::string_view name) {
  const char separator = name.find('/') != std::string_view::npos ? '/' : '.';
  Parts parts;
  while (true) {
    const size_t end = name.find(separator);
    const std::string_view part = name.substr(0, end);
    const size_t bar = part.rfind('_');
    if (bar != std::string_view::npos && is_number(part.substr(bar + 1)) &&
        is_one_of(part.substr(0, bar), kNumbered)) {
      parts.push_back(part.substr(0, bar));
      parts.push_back(part.substr(bar + 1));
    } else {
      parts.push_back(part);
    }
    if (end == std::string_view::npos) return parts;
    name.remove_prefix(end + 1);
  }
}

std::string join(const Parts& parts) {
  std::string name;
  for (const std::string_view part : parts) {
    if (!name.empty()) name += '.';
    name += part;
  }
  return name;
}

// Where the number of the layer stands, or would stand: behind the first list
// of layers. 0 when the name has none.
size_t layer_place(const Parts& parts) {
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    if (is_one_of(parts[i], kLayerLists)) return i + 1;
  }
  return 0;
}

struct Canonical {
  Parts parts;
  NamedParameter parameter;
};

Canonical canonical(std::string_view name) {
  Canonical result;
  Parts& parts = result.parts;
  parts = split_name(name);
  if (parts.size() > 1 && parts.back() == "value") parts.pop_back();
  size_t outer = 0;
  while (outer + 1 < parts.size() && is_one_of(parts[outer], kWrappers)) {
    ++outer;
  }
  parts.erase(parts.begin(), parts.begin() + static_cast<ptrdiff_t>(outer));
  std::string_view& last = parts.back();
  if (parts.size() > 1) {
    result.parameter.inputs_first = last == "kernel";
    // gamma and beta are what BERT's first checkpoints call them.
    if (last == "kernel" || last == "embedding" || last == "scale" ||
        last == "gamma") {
      last = "weight";
    } else if (last == "beta") {
      last = "bias";
    }
  }
  const size_t place = layer_place(parts);
  result.parameter.stacked = place > 0 && !is_number(parts[place]);
  return result;
}

}  // namespace

ParameterNames::ParameterNames(const Manifest& manifest)
    : manifest_(&manifest) {
  for (size_t i = 0; i < manifest.size(); ++i) {
    Canonical name = canonical(manifest.name(i));
    name.parameter.index = i;
    by_name_.emplace(join(name.parts), name.parameter);
  }
}

const NamedParameter* ParameterNames::find(std::string_view name) const {
  const auto exact = by_name_.find(name);
  if (exact != by_name_.end()) return &exact->second;
  Parts parts = split_name(name);
  const size_t place = layer_place(parts);
  if (place == 0 || !is_number(parts[place])) return nullptr;
  parts.erase(parts.begin() + static_cast<ptrdiff_t>(place));
  const auto stacked = by_name_.find(join(parts));
  if (stacked == by_name_.end() || !stacked->second.stacked) return nullptr;
  return &stacked->second;
}

int64_t ParameterNames::layer_count(std::string_view prefix) const {
  const std::string start = std::string(prefix) + ".";
  int64_t count = 0;
  for (auto each = by_name_.lower_bound(start);
       each != by_name_.end() && each->first.rfind(start, 0) == 0; ++each) {
    if (each->second.stacked) {
      const Shape& shape = manifest_->type(each->second.index).shape;
      if (!shape.empty()) count = std::max(count, shape.front());
      continue;
    }
    int64_t layer = 0;
    const char* begin = each->first.data() + start.size();
    const char* end = each->first.data() + each->first.size();
    const auto [rest, problem] = std::from_chars(begin, end, layer);
    // A number near 2^63 is not a count of layers.
    if (problem == std::errc() && layer < INT64_MAX) {
      count = std::max(count, layer + 1);
    }
  }
  return count;
}

std::vector<std::string> ParameterNames::folded() const {
  std::set<std::string> names;
  for (const auto& [name, parameter] : by_name_) {
    Parts parts = split_name(name);
    if (parameter.stacked) {
      parts.insert(parts.begin() + static_cast<ptrdiff_t>(layer_place(parts)),
                   "*");
    }
    for (std::string_view& part : parts) {
      if (is_number(part)) part = "*";
    }
    names.insert(join(parts));
  }
  return {names.begin(), names.end()};
}

namespace {

// Names that a message shows.
constexpr size_t kShownNames = 6;

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
                  "the forward pass of " + in_backticks(config.model_type) +
                      " is not known");
  if (const auto near = nearest(config.model_type, known)) {
    problem.help("did you mean `" + *near + "`?");
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
  for (size_t i = 0; i < missing.size() && i < kShownNames; ++i) {
    problem.fact("not found: `" + std::string(missing[i]) + "`");
  }
  if (missing.size() > kShownNames) problem.fact("not found: ..");
  for (const std::string_view foreign : select(names, near->foreign, true)) {
    problem.fact("a `" + name + "` has no `" + std::string(foreign) + "`");
  }
  std::string own;
  for (size_t i = 0; i < names.size() && i < kShownNames; ++i) {
    own += (i == 0 ? "`" : ", `") + names[i] + "`";
  }
  problem.fact("the model has " + own +
               (names.size() > kShownNames ? ", .." : ""));
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

namespace {

// So large that no model has it, so small that products of two fit 63 bits.
constexpr int64_t kMaxSize = int64_t{1} << 31;

using Where = SizeSource::Where;
using Size = std::optional<int64_t>;

// "1e-06", "10000"
std::string shortest(double number) {
  std::array<char, 32> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), number);
  return {text.data(), end.ptr};
}

class Completion {
 public:
  Completion(const FamilyInput& input, const FamilySizes& sizes,
             Diagnostics& diags)
      : input_(input), sizes_(sizes), diags_(diags), config_(input.config) {}

  std::optional<ModelConfig> run() {
    read_shapes();
    read_heads();
    take_defaults();
    if (!check()) return std::nullopt;
    report_assumed();
    return std::move(config_);
  }

 private:
  Size found(const SizeSource& source) const {
    for (const std::string_view name : source.names) {
      const NamedParameter* parameter = input_.names.find(name);
      if (parameter == nullptr) continue;
      Shape shape = input_.manifest.type(parameter->index).shape;
      if (parameter->stacked && !shape.empty()) shape.erase(shape.begin());
      if (shape.empty()) continue;
      const size_t last = shape.size() - 1;
      size_t dim = source.where == Where::First ? 0 : last;
      if (source.where == Where::Outputs && last > 0 &&
          !parameter->inputs_first) {
        dim = last - 1;
      }
      return shape[dim] / source.parts;
    }
    return std::nullopt;
  }

  static void otherwise(Size& size, const Size& value) {
    if (!size) size = value;
  }

  void read_shapes() {
    const ModelFacts& facts = input_.manifest.facts;
    otherwise(config_.vocab, facts.vocab);
    otherwise(config_.vocab, found(sizes_.vocab));
    otherwise(config_.hidden, found(sizes_.hidden));
    otherwise(config_.intermediate, found(sizes_.intermediate));
    otherwise(config_.layers, facts.layers);
    otherwise(config_.layers, input_.names.layer_count(sizes_.layer_prefix));
    otherwise(config_.max_positions, found(sizes_.positions));
    otherwise(config_.token_types, found(sizes_.token_types));
    otherwise(config_.experts, facts.experts);
    otherwise(config_.experts, found(sizes_.experts));
    otherwise(config_.expert_intermediate, found(sizes_.expert_intermediate));
    if (config_.windows.empty()) config_.windows = facts.windows;
  }

  void read_heads() {
    const ModelFacts& facts = input_.manifest.facts;
    otherwise(config_.heads, facts.heads);
    otherwise(config_.kv_heads, facts.kv_heads);
    otherwise(config_.head_dim, facts.head_dim);
    otherwise(config_.head_dim, found(sizes_.head_dim));
    Size queries = found(sizes_.queries);
    otherwise(queries, config_.hidden);
    Size keys = found(sizes_.keys);
    otherwise(keys, queries);
    if (!config_.heads && queries) {
      config_.heads = quotient(*queries, config_.head_dim);
    }
    if (!config_.head_dim && queries) {
      config_.head_dim = quotient(*queries, config_.heads);
    }
    if (!config_.kv_heads && keys) {
      config_.kv_heads = quotient(*keys, config_.head_dim);
    }
  }

  static Size quotient(int64_t whole, const Size& part) {
    if (!part || *part < 1 || whole % *part != 0) return std::nullopt;
    return whole / *part;
  }

  void take_defaults() {
    if (!config_.norm_epsilon) {
      config_.norm_epsilon = sizes_.norm_epsilon;
      assume("epsilon of norms " + shortest(sizes_.norm_epsilon));
    }
    if (config_.activation.empty()) {
      config_.activation = std::string(sizes_.activation);
      assume("activation function " + config_.activation);
    }
    if (!config_.rope.theta && sizes_.rope_theta > 0) {
      config_.rope.theta = sizes_.rope_theta;
      assume("base of rotary positions " + shortest(sizes_.rope_theta));
    }
    if (!config_.tied) config_.tied = sizes_.tied;
    if (sizes_.experts_per_token == 0) return;
    if (!config_.experts_per_token) {
      config_.experts_per_token = sizes_.experts_per_token;
      assume(plural(sizes_.experts_per_token, "expert") + " per token");
    }
    if (!config_.normalise_top_k) {
      config_.normalise_top_k = sizes_.normalise_top_k;
    }
    if (!config_.sparse_step) config_.sparse_step = 1;
  }

  void assume(std::string what) { assumed_.push_back(std::move(what)); }

  // Heads are what shapes do not tell, so they are asked for; whatever else is
  // missing, so is the parameter that has it.
  bool check() {
    if (!config_.heads || !config_.kv_heads || !config_.head_dim) {
      auto problem = diags_.error(
          Code::MissingFacts, config_.where,
          "the heads of this `" + std::string(sizes_.family) +
              "` are not known: names and shapes do not determine them");
      if (!config_.heads) problem.fact("missing: `heads`");
      if (!config_.kv_heads) problem.fact("missing: `kv_heads`");
      if (!config_.head_dim) problem.fact("missing: `head_dim`");
      problem.help(
          "put the model's config.json beside it, or give `facts` in the "
          "manifest: `heads`, `kv_heads` and `head_dim`");
      return false;
    }
    bool good = fits("heads", config_.heads) &&
                fits("kv_heads", config_.kv_heads) &&
                fits("head_dim", config_.head_dim) &&
                needed("hidden", config_.hidden, sizes_.hidden) &&
                needed("vocab", config_.vocab, sizes_.vocab) &&
                fits("intermediate", config_.intermediate) &&
                fits("layers", config_.layers, kMaxModelLayers) &&
                fits("experts", config_.experts) &&
                fits("expert_intermediate", config_.expert_intermediate) &&
                fits("max_positions", config_.max_positions) &&
                fits("token_types", config_.token_types);
    if (good && *config_.heads % *config_.kv_heads != 0) {
      refuse("the number of heads is not a multiple of that of KV heads")
          .fact(count_text(*config_.heads) + " heads, " +
                count_text(*config_.kv_heads) + " KV heads");
      good = false;
    }
    return good;
  }

  Diagnostics::Builder refuse(std::string message) {
    return diags_.error(Code::UnsupportedConfig, config_.where,
                        std::move(message));
  }

  bool fits(const char* name, const Size& size, int64_t limit = kMaxSize) {
    if (!size || (*size >= 1 && *size <= limit)) return true;
    refuse("`" + std::string(name) + "` of the model is " +
           std::to_string(*size))
        .help("give it a size from 1 to " + count_text(limit));
    return false;
  }

  bool needed(const char* name, const Size& size, const SizeSource& source) {
    if (size) return fits(name, size);
    diags_
        .error(Code::MissingFacts, config_.where,
               "`" + std::string(name) + "` of this `" +
                   std::string(sizes_.family) + "` is not known")
        .fact("the model has no `" + std::string(source.names.front()) + "`")
        .help("put the model's config.json beside it");
    return false;
  }

  void report_assumed() {
    if (config_.where || !config_.model_type.empty() || assumed_.empty()) {
      return;
    }
    auto note =
        diags_.report(Code::MissingFacts, Severity::Note, {},
                      "the model has no config: it is taken to have what a `" +
                          std::string(sizes_.family) + "` has by default");
    for (std::string& what : assumed_) note.fact(std::move(what));
    note.help("put the model's config.json beside it");
  }

  const FamilyInput& input_;
  const FamilySizes& sizes_;
  Diagnostics& diags_;
  ModelConfig config_;
  std::vector<std::string> assumed_;
};

}  // namespace

std::optional<ModelConfig> complete_config(const FamilyInput& input,
                                           const FamilySizes& sizes,
                                           Diagnostics& diags) {
  return Completion(input, sizes, diags).run();
}

int64_t layers_run(const ForwardPass& pass, const ModelConfig& config) {
  const int64_t all = config.layers.value_or(0);
  return pass.layers ? std::clamp<int64_t>(*pass.layers, 0, all) : all;
}

}  // namespace shardplan
