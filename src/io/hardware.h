// SPDX-License-Identifier: Apache-2.0
// Reads hardware profiles: shipped ones by name, others from files of the same
// form (docs/formats/hardware.md).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "base/source.h"
#include "core/hardware.h"

namespace shardplan {

// The folder of the shipped profiles (base/shipped.h).
inline constexpr std::string_view kHardwareFolder = "hardware";

// Whether to read the section `measured`, thousands of numbers that only time
// estimates need. A skipped section is not checked for mistakes.
enum class Tables : uint8_t { Skip, Read };

// Returns whether this is a path, which has a `/` or a `.`; anything else is
// the name of a shipped profile.
bool is_hardware_path(std::string_view name_or_path);

// Returns nullopt when there is no such profile (SP001, with similar names) or
// the file is not a profile: every number must have a source, and every source
// a title and the day on which it was read (SP002, SP004).
std::optional<HardwareProfile> load_hardware(const std::string& name_or_path,
                                             Host& host, Diagnostics& diags,
                                             Tables tables = Tables::Skip);

// Replaces the profile's measurements with those of the user: files of
// --calibrate, as docs/formats/hardware.md describes them. Returns false, with
// the reason reported (SP001, SP002, SP006); entries without any use are noted.
bool calibrate(std::span<const std::string> files, HardwareProfile& card,
               Host& host, Diagnostics& diags);

// Returns all shipped profiles, sorted by name, without measurements.
std::vector<HardwareProfile> shipped_hardware();
// Returns one of them. REQUIRES: it exists.
HardwareProfile shipped_hardware(std::string_view name);

// Reads a profile from the text of a file. Reports every mistake, not only the
// first.
std::optional<HardwareProfile> read_hardware(SourcePtr source,
                                             Diagnostics& diags,
                                             Tables tables = Tables::Skip);

}  // namespace shardplan
