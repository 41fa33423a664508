// SPDX-License-Identifier: Apache-2.0
// Conformance of JAX's random numbers and initialisers, and of the wrapper of
// xlstm_jax that changes them per device.

#include "tests/conformance/runner/random.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <numeric>
#include <vector>

#include <openssl/evp.h>

#include "base/checked.h"
#include "base/text.h"
#include "graph/random.h"
#include "tests/conformance/runner/vector_case.h"

namespace shardplan::conformance {
namespace {

RandomKey key_of(const Json& inputs) {
  const Json& written = inputs.at("key");
  RandomKey key = random_key(written.at("seed").get<int64_t>());
  for (const Json& data : written.value("fold_in", Json::array())) {
    key = fold_in(key, data.get<uint32_t>());
  }
  return key;
}

Shape shape_of(const Json& inputs) { return inputs.at("shape").get<Shape>(); }
int64_t count_of(const Json& inputs) {
  return element_count(shape_of(inputs)).value();
}

Answer answered(Json value) { return {std::move(value), std::nullopt, ""}; }
Answer answered(const std::optional<std::vector<float>>& numbers) {
  if (numbers) return answered(Json(*numbers));
  return {nullptr, Code::InvalidGraph, "the shape has no fans"};
}

Answer prng_key(const Json& inputs) {
  return answered(Json(random_key(inputs.at("seed").get<int64_t>())));
}

Answer keys_split(const Json& inputs) {
  const RandomKey key = key_of(inputs);
  const auto count = inputs.at("num").get<uint32_t>();
  std::vector<RandomKey> keys;
  for (uint32_t i = 0; i < count; ++i) keys.push_back(fold_in(key, i));
  return answered(Json(keys));
}

Answer key_folded(const Json& inputs) {
  return answered(
      Json(fold_in(key_of(inputs), inputs.at("data").get<uint32_t>())));
}

Answer bits(const Json& inputs) {
  const std::vector<uint32_t> all =
      random_bits(key_of(inputs), count_of(inputs));
  if (!inputs.contains("at")) return answered(Json(all));
  Json at = Json::array();
  for (const Json& index : inputs.at("at")) {
    at.push_back(all.at(index.get<size_t>()));
  }
  return answered(
      Json{{"at", at}, {"sum", std::accumulate(all.begin(), all.end(), 0U)}});
}

// Returns the bits of the floats, since they must agree exactly.
Answer uniform(const Json& inputs) {
  Json numbers = Json::array();
  for (const float x : random_uniform(key_of(inputs), count_of(inputs),
                                      inputs.at("minval").get<float>(),
                                      inputs.at("maxval").get<float>())) {
    numbers.push_back(std::bit_cast<uint32_t>(x));
  }
  return answered(numbers);
}

Answer normal(const Json& inputs) {
  return answered(Json(random_normal(key_of(inputs), count_of(inputs))));
}

Answer truncated_normal(const Json& inputs) {
  return answered(Json(random_truncated_normal(
      key_of(inputs), count_of(inputs), inputs.at("lower").get<float>(),
      inputs.at("upper").get<float>())));
}

Answer initialiser(const Json& inputs) {
  Initialiser how;
  how.name = inputs.at("init").get<std::string>();
  how.stddev = inputs.value("stddev", how.stddev);
  return answered(initialise(how, key_of(inputs), shape_of(inputs)));
}

Answer scaling(const Json& inputs) {
  const auto mode = inputs.at("mode").get<std::string>();
  const auto distribution = inputs.at("distribution").get<std::string>();
  return answered(variance_scaling(
      key_of(inputs), shape_of(inputs), inputs.at("scale").get<double>(),
      mode == "fan_in"    ? FanMode::In
      : mode == "fan_out" ? FanMode::Out
                          : FanMode::Average,
      distribution == "uniform"  ? Distribution::Uniform
      : distribution == "normal" ? Distribution::Normal
                                 : Distribution::TruncatedNormal));
}

Answer wrapped(const Json& inputs) {
  Initialiser how;
  how.name = inputs.at("init").get<std::string>();
  how.scale = inputs.at("scale_factor").get<double>();
  PerShard shards{inputs.at("devices").get<int>(),
                  inputs.at("split_rngs").get<bool>(), std::nullopt};
  const Json& mask = inputs.at("mask_except_model_idx");
  if (!mask.is_null()) shards.mask_except = mask.get<int>();
  return answered(
      initialise_shards(how, key_of(inputs), shape_of(inputs), shards));
}

bool is_same_shape_error(const Answer& answer, const Json& error) {
  return answer.refused == Code::InvalidGraph &&
         error.at("type") == "ValueError";
}

Function close(std::string_view name, Answer (*answer)(const Json&)) {
  return {name,    answer,  is_same_shape_error,
          nullptr, nullptr, agree_within_4_ulps};
}

}  // namespace

const std::vector<Function>& random_functions() {
  static const std::vector<Function> kFunctions = {
      {"jax.random.PRNGKey", prng_key, is_same_shape_error},
      {"jax.random.split", keys_split, is_same_shape_error},
      {"jax.random.fold_in", key_folded, is_same_shape_error},
      {"jax.random.bits", bits, is_same_shape_error},
      {"jax.random.uniform", uniform, is_same_shape_error},
      close("jax.random.normal", normal),
      close("jax.random.truncated_normal", truncated_normal),
      close("jax.nn.initializers", initialiser),
      close("jax.nn.initializers.variance_scaling", scaling),
      close("ModelParallelismWrapper.init", wrapped),
  };
  return kFunctions;
}

}  // namespace shardplan::conformance

namespace shardplan {
namespace {

struct HashAlgorithm {
  std::string_view name;  // in hashlib
  const char* openssl;
};
constexpr std::array<HashAlgorithm, 12> kHashAlgorithms = {{
    {"md5", "MD5"},
    {"sha1", "SHA1"},
    {"sha224", "SHA224"},
    {"sha256", "SHA256"},
    {"sha384", "SHA384"},
    {"sha512", "SHA512"},
    {"sha3_224", "SHA3-224"},
    {"sha3_256", "SHA3-256"},
    {"sha3_384", "SHA3-384"},
    {"sha3_512", "SHA3-512"},
    {"blake2b", "BLAKE2B-512"},
    {"blake2s", "BLAKE2S-256"},
}};

// Names that hashlib also has but that need more than a text.
constexpr std::array<std::string_view, 8> kNeedMore = {
    "shake_128",   "shake_256",
    "new",         "pbkdf2_hmac",
    "scrypt",      "algorithms_available",
    "file_digest", "algorithms_guaranteed",
};

// Converts a number from base 256, most significant digit first, to base 10.
std::string decimal(std::vector<unsigned char> number) {
  std::string text;
  while (!number.empty()) {
    unsigned rest = 0;
    for (unsigned char& byte : number) {
      rest = rest * 256 + byte;
      byte = static_cast<unsigned char>(rest / 10);
      rest %= 10;
    }
    text += static_cast<char>('0' + rest);
    number.erase(number.begin(),
                 std::find_if(number.begin(), number.end(),
                              [](unsigned char byte) { return byte != 0; }));
  }
  std::reverse(text.begin(), text.end());
  return text;
}

}  // namespace

std::optional<std::string> hash_as_integer(std::string_view text,
                                           std::string_view algorithm,
                                           Diagnostics& diags) {
  const auto* const found =
      std::find_if(kHashAlgorithms.begin(), kHashAlgorithms.end(),
                   [&](const HashAlgorithm& a) { return a.name == algorithm; });
  if (found == kHashAlgorithms.end()) {
    const bool needs_more = std::find(kNeedMore.begin(), kNeedMore.end(),
                                      algorithm) != kNeedMore.end();
    std::vector<std::string> names;
    for (const HashAlgorithm& known : kHashAlgorithms)
      names.emplace_back(known.name);
    auto report =
        diags.error(Code::Usage, {},
                    "`" + std::string(algorithm) +
                        (needs_more ? "` gives no digest of a text alone"
                                    : "` is not a hash algorithm"));
    if (const auto near = nearest(algorithm, names)) {
      report.help("a name that is known and similar: `" + *near + "`");
    }
    return report;
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  size_t size = 0;
  SHARDPLAN_CHECK(EVP_Q_digest(nullptr, found->openssl, nullptr, text.data(),
                               text.size(), digest.data(), &size) == 1);
  return decimal(
      {digest.begin(), digest.begin() + static_cast<ptrdiff_t>(size)});
}

}  // namespace shardplan
