// SPDX-License-Identifier: Apache-2.0
#include "graph/model_sizes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/text.h"

namespace shardplan {
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
    otherwise(config_.layers, input_.names.layers(sizes_.layers));
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
              "` are not known: names and shapes do not tell them");
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
