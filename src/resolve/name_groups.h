// SPDX-License-Identifier: Apache-2.0
// Names of a manifest that no pattern tells apart (told_numbers.h).
#pragma once

#include <cstdint>
#include <vector>

#include "core/manifest.h"
#include "resolve/told_numbers.h"

namespace shardplan {

struct NameGroups {
  std::vector<uint32_t> of;     // per parameter
  std::vector<uint32_t> first;  // the first parameter of each group
};
// False where nearly every name is of a class of its own.
bool may_be_grouped(const Manifest& manifest);
// REQUIRES: names are plain, as the patterns' are that `told` is of.
NameGroups group_names(const Manifest& manifest, const ToldNumbers& told);

}  // namespace shardplan
