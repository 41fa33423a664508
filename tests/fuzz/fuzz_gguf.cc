// SPDX-License-Identifier: Apache-2.0
// GGUF files. The magic and version are put in front when the first bit of the
// input says so.
#include "tests/fuzz/fuzz_manifest.h"

FUZZ_TARGET(gguf) {
  using namespace shardplan;
  if (size == 0) return 0;
  std::string file;
  if ((data[0] & 1U) != 0) file = std::string("GGUF\3\0\0\0", 8);
  file += fuzz::text_of(data + 1, size - 1);
  testing::MemoryHost host;
  host.files["m-00001-of-00002.gguf"] = file;
  host.files["m-00002-of-00002.gguf"] = file;
  fuzz::load_and_check("m-00001-of-00002.gguf", host);
  return 0;
}
