// SPDX-License-Identifier: Apache-2.0
#include "core/plan.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include <openssl/evp.h>
#include <openssl/sha.h>

#include "base/checked.h"
#include "base/text.h"

namespace shardplan {

// OpenSSL 3 marks the plain functions deprecated in favour of EVP, which loads
// providers at run time: milliseconds, for one hash.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
struct Sha256::Context {
  SHA256_CTX state{};
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  SHA256_Init(&context_->state);
}
Sha256::~Sha256() = default;

void Sha256::update(std::string_view text) {
  SHA256_Update(&context_->state, text.data(), text.size());
}

std::string Sha256::hex() {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256_Final(digest.data(), &context_->state);
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : digest) {
    text += kHex[byte >> 4U];
    text += kHex[byte & 15U];
  }
  return text;
}
#pragma GCC diagnostic pop

namespace {

struct Algorithm {
  std::string_view name;  // hashlib's
  const char* openssl;
};
constexpr std::array<Algorithm, 12> kAlgorithms = {{
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

// Names that hashlib has, too, and that need more than a text.
constexpr std::array<std::string_view, 8> kNeedMore = {
    "shake_128",   "shake_256",
    "new",         "pbkdf2_hmac",
    "scrypt",      "algorithms_available",
    "file_digest", "algorithms_guaranteed",
};

// A number in base 256, most significant first, in base 10.
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
      std::find_if(kAlgorithms.begin(), kAlgorithms.end(),
                   [&](const Algorithm& a) { return a.name == algorithm; });
  if (found == kAlgorithms.end()) {
    const bool needs_more = std::find(kNeedMore.begin(), kNeedMore.end(),
                                      algorithm) != kNeedMore.end();
    std::vector<std::string> names;
    for (const Algorithm& known : kAlgorithms) names.emplace_back(known.name);
    auto report =
        diags.error(Code::Usage, {},
                    "`" + printable(algorithm) +
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

namespace {

struct PolicyName {
  OnIndivisible policy;
  std::string_view name;
};
constexpr std::array<PolicyName, 5> kPolicies = {{
    {OnIndivisible::Drop, "drop"},
    {OnIndivisible::Prefix, "prefix"},
    {OnIndivisible::Pad, "pad"},
    {OnIndivisible::Chunk, "chunk"},
    {OnIndivisible::Error, "error"},
}};

void append_axes(std::string& out, const AxisNames& axes) {
  if (axes.empty()) {
    out += "null";
  } else if (axes.size() == 1) {
    append_json_string(out, axes.front());
  } else {
    out += '[';
    for (size_t i = 0; i < axes.size(); ++i) {
      if (i > 0) out += ',';
      append_json_string(out, axes[i]);
    }
    out += ']';
  }
}

// "[2,3]"
void append_shape(std::string& out, const Shape& shape) {
  out += '[';
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(shape[i]);
  }
  out += ']';
}

// `,"bf16",[2,3],["tp",null]]`: what follows a parameter's name.
std::string canonical_tail(const Placement& placement) {
  std::string out = ",";
  append_json_string(out, dtype_name(placement.type.dtype));
  out += ',';
  append_shape(out, placement.type.shape);
  out += ",[";
  for (size_t i = 0; i < placement.spec.dims.size(); ++i) {
    if (i > 0) out += ',';
    append_axes(out, placement.spec.dims[i]);
  }
  return out + "]]";
}

}  // namespace

std::string_view policy_name(OnIndivisible policy) {
  const PolicyName& entry = kPolicies.at(static_cast<size_t>(policy));
  SHARDPLAN_CHECK(entry.policy == policy);
  return entry.name;
}

std::optional<OnIndivisible> find_policy(std::string_view name) {
  for (const PolicyName& entry : kPolicies) {
    if (entry.name == name) return entry.policy;
  }
  return std::nullopt;
}

Shape stored_shape(const Placement& placement) {
  Shape shape = placement.type.shape;
  for (const StoredDim& stored : placement.stored) {
    shape[static_cast<size_t>(stored.dim)] = stored.size;
  }
  return shape;
}

void measure(Placement& placement, const Mesh& mesh, OnIndivisible policy) {
  placement.shards = shard_count(mesh, placement.spec);
  placement.replicas = mesh.devices() / placement.shards;
  placement.local_shape = local_shape({&mesh, placement.spec, cut_of(policy)},
                                      stored_shape(placement));
  placement.bytes_per_device =
      TensorType{placement.type.dtype, placement.local_shape}.bytes();
}

namespace {

// `,"stored":[["w",[4,8]]]`, or nothing.
std::string canonical_stored(const Manifest& manifest, const Plan& plan) {
  std::string out;
  if (!plan.declarations.any()) return out;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const Shape shape = stored_shape(plan.of(i));
    if (shape == plan.of(i).type.shape) continue;
    out += out.empty() ? ",\"stored\":[[" : ",[";
    append_json_string(out, manifest.name(i));
    out += ',';
    append_shape(out, shape);
    out += ']';
  }
  return out.empty() ? out : out + "]";
}

}  // namespace

std::string fingerprint(const Manifest& manifest, const Plan& plan) {
  std::vector<std::string> tails;
  tails.reserve(plan.placements.size());
  for (const Placement& placement : plan.placements) {
    tails.push_back(canonical_tail(placement));
  }
  Sha256 hash;
  std::string out = "{\"mesh\":[";
  for (size_t i = 0; i < plan.mesh.axes().size(); ++i) {
    const Axis& axis = plan.mesh.axes()[i];
    out += i > 0 ? ",[" : "[";
    append_json_string(out, axis.name);
    out += "," + std::to_string(axis.size) + "]";
  }
  out += "],\"parameters\":[";
  constexpr size_t kFlush = 1U << 16U;
  for (size_t i = 0; i < manifest.size(); ++i) {
    out += i > 0 ? ",[" : "[";
    append_json_string(out, manifest.name(i));
    out += tails[plan.placement_of[i]];
    if (out.size() > kFlush) {
      hash.update(out);
      out.clear();
    }
  }
  hash.update(out + "]");
  hash.update(canonical_stored(manifest, plan) + "}");
  return hash.hex();
}

}  // namespace shardplan
