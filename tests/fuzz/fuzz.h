// SPDX-License-Identifier: Apache-2.0
// What fuzz targets share. A target is one function over bytes; it must not
// crash, hang or break an invariant, whatever the bytes.
//
// Under the preset `fuzz` each is a program that libFuzzer calls; otherwise one
// program replays all corpora, so what was once found stays found with any
// compiler (driver.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace shardplan::fuzz {

using Target = int (*)(const uint8_t* data, size_t size);

// In the table of driver.cc; the result means nothing.
bool add_target(const char* name, Target target);

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

// FUZZ_TARGET(name) { .. } over `data` and `size`, with a corpus in
// tests/fuzz/corpus/name; returns 0.
#define FUZZ_TARGET(name)                                   \
  static int fuzz_##name(const uint8_t* data, size_t size); \
  [[maybe_unused]] static const bool kAdded_##name =        \
      shardplan::fuzz::add_target(#name, fuzz_##name);      \
  static int fuzz_##name(const uint8_t* data, size_t size)
