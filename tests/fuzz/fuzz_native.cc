// SPDX-License-Identifier: Apache-2.0
// Native manifests, JSON and YAML.
#include "tests/fuzz/fuzz_manifest.h"

FUZZ_TARGET(native) {
  using namespace shardplan;
  testing::MemoryHost host;
  host.files["model"] = std::string(fuzz::text_of(data, size));
  fuzz::load_and_check("model", host);
  return 0;
}
