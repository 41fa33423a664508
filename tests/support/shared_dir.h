// SPDX-License-Identifier: Apache-2.0
// Where data lies that tests read and the project does not hold: taken from
// public repositories under their own licences. $SHARDPLAN_SHARED, or a folder
// `shared` beside the checkout.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>

#include <doctest/doctest.h>

#include "tests/support/skip.h"
#include "tests/support/source_dir.h"

namespace shardplan::testing {

// A file of it. Empty where there is no such folder, and the current test is
// noted as skipped; a folder without the file fails it.
inline std::optional<std::filesystem::path> shared_file(
    const std::filesystem::path& path) {
  const char* given = std::getenv("SHARDPLAN_SHARED");  // NOLINT
  const std::filesystem::path folder = given != nullptr
                                           ? std::filesystem::path(given)
                                           : source_dir() / "../shared";
  if (given == nullptr && !std::filesystem::exists(folder)) {
    skip("there is no " + path.string() + "; set SHARDPLAN_SHARED");
    return std::nullopt;
  }
  REQUIRE_MESSAGE(std::filesystem::exists(folder / path),
                  (folder / path).string(), " is missing");
  return folder / path;
}

}  // namespace shardplan::testing
