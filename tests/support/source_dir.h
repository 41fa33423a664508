// SPDX-License-Identifier: Apache-2.0
// Where the repository is, for tests that read its files. Kept in one file, so
// that no other depends on where the repository stands, and compilers' caches
// serve every checkout.
#pragma once

#include <filesystem>

namespace shardplan {

const std::filesystem::path& source_dir();

}  // namespace shardplan
