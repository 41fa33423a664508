// SPDX-License-Identifier: Apache-2.0
// Where data lies that tests read and the project does not hold: taken from
// public repositories under their own licences. $SHARDPLAN_SHARED, or a folder
// `shared` beside the checkout.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "tests/support/source_dir.h"

namespace shardplan::testing {

// A file of it; empty where it is not there, and the test says so and skips.
inline std::optional<std::filesystem::path> shared_file(
    const std::filesystem::path& path) {
  const char* given = std::getenv("SHARDPLAN_SHARED");  // NOLINT
  const std::filesystem::path folder = given != nullptr
                                           ? std::filesystem::path(given)
                                           : source_dir() / "../shared";
  if (!std::filesystem::exists(folder / path)) return std::nullopt;
  return folder / path;
}

}  // namespace shardplan::testing
