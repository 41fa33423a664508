// SPDX-License-Identifier: Apache-2.0
#include "tests/support/source_dir.h"

namespace shardplan {

const std::filesystem::path& source_dir() {
  static const std::filesystem::path kRoot = SHARDPLAN_SOURCE_DIR;
  return kRoot;
}

}  // namespace shardplan
