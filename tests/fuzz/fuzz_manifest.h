// SPDX-License-Identifier: Apache-2.0
// Manifest readers over a host in memory.
#pragma once

#include <string>

#include "base/checked.h"
#include "base/text.h"
#include "io/load.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/memory_host.h"

namespace shardplan::fuzz {

// Loads `path`; either there is a manifest that keeps its invariants or there
// is a reason why not.
inline void load_and_check(const std::string& path, testing::MemoryHost& host) {
  Diagnostics diags;
  const std::optional<Manifest> manifest = load_manifest(path, host, diags);
  require(manifest.has_value() || diags.has_errors(), "a refusal has a reason");
  if (!manifest) return;
  require(!diags.cannot_run(), "what cannot be used is not returned");
  require(!manifest->find_duplicate(), "names are unique");
  Int128 elements = 0;
  Int128 bytes = 0;
  for (size_t i = 0; i < manifest->size(); ++i) {
    elements += manifest->type(i).elements();
    bytes += manifest->type(i).bytes();
    require(is_valid_utf8(manifest->name(i)), "names are UTF-8");
  }
  require(elements == manifest->total_elements(), "elements add up");
  require(bytes == manifest->total_bytes(), "bytes add up");
}

}  // namespace shardplan::fuzz
