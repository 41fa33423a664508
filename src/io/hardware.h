// SPDX-License-Identifier: Apache-2.0
// Reading hardware profiles: shipped ones by name, others from files of the
// same form (docs/formats/hardware.md).
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
#include "syntax/document.h"

namespace shardplan {

// The folder of shipped profiles (base/shipped.h).
inline constexpr std::string_view kHardwareFolder = "hardware";

// The section `measured` is thousands of numbers, of use where a time is asked
// for. Skipped, nothing is said of its mistakes either.
enum class Tables : uint8_t { Skip, Read };

// A path has a `/` or a `.`; anything else is the name of a shipped profile.
bool is_hardware_path(std::string_view name_or_path);

// Empty when there is no such profile (SP001, with names that are near) or the
// file is none: every number must have a source, and every source a title and
// the day on which it was read (SP002, SP004).
std::optional<HardwareProfile> load_hardware(const std::string& name_or_path,
                                             Host& host, Diagnostics& diags,
                                             Tables tables = Tables::Skip);

// Replaces what the profile has of measurements by what the user measured:
// files of --calibrate, as docs/formats/hardware.md describes them. False, with
// the reason reported (SP001, SP002, SP006); what is of no use is a note.
bool calibrate(std::span<const std::string> files, HardwareProfile& card,
               Host& host, Diagnostics& diags);

// All shipped profiles, by name, without what was measured.
std::vector<HardwareProfile> shipped_hardware();

// The profile that a text describes.
std::optional<HardwareProfile> read_hardware(SourcePtr source,
                                             Diagnostics& diags,
                                             Tables tables = Tables::Skip);

// The keys of a hardware profile, from a tree of nodes (io/hardware.h).

// Reports everything that is wrong, not only the first.
std::optional<HardwareProfile> read_hardware_node(const Node& root,
                                                  Diagnostics& diags,
                                                  Tables tables = Tables::Skip);

}  // namespace shardplan
