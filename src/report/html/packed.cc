// SPDX-License-Identifier: Apache-2.0
#include "report/html/packed.h"

#include <array>

#include <openssl/evp.h>
#include <zlib.h>

#include "base/checked.h"

namespace shardplan {
namespace {

std::string base64(const unsigned char* bytes, size_t count) {
  std::string text((count + 2) / 3 * 4 + 1, '\0');
  const int length =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), bytes,
                      static_cast<int>(count));
  text.resize(to_size(length));
  return text;
}

}  // namespace

std::string packed(std::string_view text) {
  uLongf size = compressBound(text.size());
  // EVP_EncodeBlock counts in int.
  SHARDPLAN_CHECK(size < (uLongf{1} << 30U));
  std::string bytes(size, '\0');
  auto* const to = reinterpret_cast<Bytef*>(bytes.data());
  const int result =
      compress2(to, &size, reinterpret_cast<const Bytef*>(text.data()),
                text.size(), Z_DEFAULT_COMPRESSION);
  SHARDPLAN_CHECK(result == Z_OK);
  return base64(to, size);
}

std::string script_hash(std::string_view script) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  const int result = EVP_Digest(script.data(), script.size(), digest.data(),
                                &size, EVP_sha256(), nullptr);
  SHARDPLAN_CHECK(result == 1);
  return "sha256-" + base64(digest.data(), size);
}

}  // namespace shardplan
