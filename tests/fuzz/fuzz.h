// SPDX-License-Identifier: Apache-2.0
// What fuzz targets share. A target is one function over bytes; it must not
// crash, hang or break an invariant, whatever the bytes.
//
// Under the preset `fuzz` libFuzzer calls it; otherwise driver.cc replays the
// corpus, so what was once found stays found with any compiler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace shardplan::fuzz {

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// An invariant of the code under test, on in every build.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

}  // namespace shardplan::fuzz
