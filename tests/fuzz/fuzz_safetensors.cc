// SPDX-License-Identifier: Apache-2.0
// Safetensors files. The header's length is put in front when the first bit of
// the input says so: the fuzzer need not learn to count.
#include "tests/fuzz/fuzz_manifest.h"

FUZZ_TARGET(safetensors) {
  using namespace shardplan;
  if (size == 0) return 0;
  std::string file;
  const std::string_view rest = fuzz::text_of(data + 1, size - 1);
  if ((data[0] & 1U) != 0) {
    for (uint64_t length = rest.size(), i = 0; i < 8; ++i, length >>= 8U) {
      file += static_cast<char>(length & 0xffU);
    }
  }
  file += rest;
  testing::MemoryHost host;
  host.files["model.safetensors"] = std::move(file);
  fuzz::load_and_check("model.safetensors", host);
  return 0;
}
