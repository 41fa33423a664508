// SPDX-License-Identifier: Apache-2.0
// Hugging Face configs.
#include "tests/fuzz/fuzz_manifest.h"

FUZZ_TARGET(config) {
  using namespace shardplan;
  testing::MemoryHost host;
  host.files["config.json"] = std::string(fuzz::text_of(data, size));
  fuzz::load_and_check("config.json", host);
  return 0;
}
