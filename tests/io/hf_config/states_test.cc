// SPDX-License-Identifier: Apache-2.0
// What layers keep while a model generates, against what transformers held
// after a forward pass (tests/data/states.jsonl, record_states.py).
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "memory/kv_cache.h"
#include "tests/support/hf_config.h"

namespace shardplan {
namespace {

using testing::Json;

Facts stated_facts(const Json& config) {
  Diagnostics diags;
  const auto document = parse_document(
      std::make_shared<const SourceFile>("config.json", config.dump()), diags);
  REQUIRE(document);
  return config_facts(document->root());
}

// Of one layer and sequence.
struct Kept {
  int64_t token = 0;   // bytes of a token
  int64_t window = 0;  // 0: all tokens
  bool latent = false;
  int64_t source = 0;  // bytes of one of the encoder's tokens
  int64_t source_tokens = 0;
  int64_t state = 0;
  int64_t narrow_state = 0;  // the same were all of the model's dtype
  int compressing = 0;       // caches of entries that tokens become
  int64_t entries = 0;       // bytes of these
  // Tokens that are not yet an entry are as many as there can be.
  bool short_of_one = true;

  bool nothing() const { return token == 0 && source == 0 && state == 0; }
};

Kept kept_of(const LayerState& layer, DType dtype, int64_t tokens) {
  Kept result;
  for (const CachedTensor& each : layer.cached) {
    const int64_t elements = std::max<int64_t>(each.heads, 1) * each.width;
    const int64_t bytes =
        byte_count(elements, each.dtype.value_or(dtype)).value();
    switch (each.per) {
      case CachedTensor::Per::Token:
        if (each.every > 1) {
          ++result.compressing;
          result.entries += bytes * (tokens / each.every);
          result.short_of_one &= tokens % each.every == each.every - 1;
          break;
        }
        result.token += bytes;
        result.window = each.tokens;
        result.latent = result.latent || each.name == "latent";
        break;
      case CachedTensor::Per::Source:
        result.source += bytes;
        result.source_tokens = each.tokens;
        break;
      case CachedTensor::Per::Sequence:
        result.state += bytes;
        result.narrow_state += byte_count(elements, dtype).value();
        break;
    }
  }
  return result;
}

// Of all states, or of those of one name.
int64_t sum_of(const Json& states, std::string_view name = "") {
  int64_t sum = 0;
  for (const Json& each : states) {
    if (name.empty() || each.at(0) == name) sum += each.at(1).get<int64_t>();
  }
  return sum;
}

// transformers 4 keeps the keys and values of all heads, which it computes from
// the latent.
int64_t expanded_bytes(const Json& config, DType dtype) {
  const int64_t heads = config.at("num_attention_heads");
  const int64_t width = config.at("qk_nope_head_dim").get<int64_t>() +
                        config.at("qk_rope_head_dim").get<int64_t>() +
                        config.at("v_head_dim").get<int64_t>();
  return byte_count(heads * width, dtype).value();
}

TEST_CASE("layers keep what transformers holds of them") {
  std::ifstream stream(testing::data_path("states.jsonl"));
  REQUIRE(stream);
  std::set<std::string> types;
  size_t rows = 0;
  size_t layers = 0;
  size_t unsaid = 0;
  for (std::string line; std::getline(stream, line);) {
    const Json row = Json::parse(line);
    const Json& config = row.at("config");
    const std::string type = config.at("model_type");
    const std::string version = config.at("transformers_version");
    CAPTURE(type);
    CAPTURE(config.dump());
    const bool old = version.starts_with("4.");
    const Facts facts = stated_facts(config);
    const DType dtype = *find_dtype(config.at("dtype").get<std::string>());
    CHECK(kv_missing(facts) == "");
    if (!kv_missing(facts).empty()) continue;
    std::vector<Kept> all;
    for (const uint32_t kind : facts.state.layers) {
      const Kept kept =
          kept_of(facts.state.kinds[kind], dtype, row.at("tokens"));
      // Layers of encoders are not recorded.
      if (!row.contains("source") || !kept.nothing()) all.push_back(kept);
    }
    // Where the file says nothing, heads and windows do: BERT as a decoder.
    if (facts.state.layers.empty()) {
      const auto plain = kv_layers(facts);
      REQUIRE(plain);
      for (const KvLayer& layer : *plain) {
        Kept kept;
        kept.token = byte_count(layer.heads * layer.width, dtype).value();
        kept.window = layer.window;
        all.push_back(kept);
      }
      ++unsaid;
    }
    const Json& recorded = row.at("layers");
    const auto tokens = row.at("tokens").get<int64_t>();
    // Two attentions in each.
    const size_t each = type == "longcat_flash" ? 2 : 1;
    CHECK(recorded.size() == all.size() * each);
    if (recorded.size() != all.size() * each) continue;
    for (size_t i = 0; i < recorded.size(); ++i) {
      CAPTURE(i);
      const Json& there = recorded[i];
      CAPTURE(there.dump());
      Kept kept = all[i / each];
      kept.token /= static_cast<int64_t>(each);
      if (there.contains("token")) {
        const auto bytes = there.at("token").at(0).get<int64_t>();
        const auto held = there.at("token").at(1).get<int64_t>();
        // Layers of DeepSeek V4 without compressed tokens hold keys twice,
        // as values.
        const bool twice = type == "deepseek_v4" && kept.compressing == 0;
        CHECK((bytes == kept.token || (twice && bytes == 2 * kept.token) ||
               (old && kept.latent && bytes == expanded_bytes(config, dtype))));
        const bool cut = kept.window > 0 && kept.window <= tokens;
        // The next token comes on top of those of a sliding layer; a ring is
        // allocated ahead.
        CHECK((held == tokens || (cut && held == kept.window - 1) ||
               (type == "recurrent_gemma" && held == kept.window)));
      } else {
        CHECK(kept.token == 0);
      }
      if (there.contains("source")) {
        CHECK(there.at("source").at(0) == kept.source);
        CHECK((kept.source_tokens == 0 ||
               kept.source_tokens == row.at("source").get<int64_t>()));
        CHECK(there.at("source").at(1) == row.at("source"));
      } else {
        // It was run without an image.
        CHECK((kept.source == 0 || type == "mllama"));
      }
      if (there.contains("state")) {
        const int64_t entries = sum_of(there.at("state"), "compressed_kv");
        const int64_t held = sum_of(there.at("state")) - entries;
        CHECK(entries == kept.entries);
        // transformers 4 allocates some in the model's dtype.
        // And a convolution's state for layers that have no convolution.
        const bool unused = old && type == "lfm2" && there.contains("token");
        CHECK((held == kept.state || (old && held == kept.narrow_state) ||
               (unused && kept.state == 0) ||
               (!kept.short_of_one && held < kept.state)));
      } else {
        CHECK(kept.state == 0);
      }
      ++layers;
    }
    types.insert(type);
    ++rows;
  }
  CHECK(rows > 700);
  CHECK(unsaid < 30);
  CHECK(types.size() > 130);
  CHECK(layers > 2000);
}

}  // namespace
}  // namespace shardplan
