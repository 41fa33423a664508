// SPDX-License-Identifier: Apache-2.0
#include "conformance/safe_hash.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include <openssl/evp.h>

#include "base/checked.h"
#include "base/text.h"

namespace shardplan {
namespace {

struct HashAlgorithm {
  std::string_view name;  // hashlib's
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
