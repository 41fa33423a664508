// SPDX-License-Identifier: Apache-2.0
// Name groups: names of a manifest that no pattern tells apart
// (distinguished_numbers.h).
#pragma once

#include <cstdint>
#include <vector>

#include "core/manifest.h"
#include "resolve/distinguished_numbers.h"

namespace shardplan {

struct NameGroups {
  std::vector<uint32_t> of;     // the group of each parameter
  std::vector<uint32_t> first;  // the first parameter of each group
};
// Returns false if nearly every name is in a class of its own.
bool may_be_grouped(const Manifest& manifest);
// Groups the names of a manifest. REQUIRES: its names are plain, and so are
// those that `distinguished` was computed for.
NameGroups group_names(const Manifest& manifest,
                       const DistinguishedNumbers& distinguished);

}  // namespace shardplan
