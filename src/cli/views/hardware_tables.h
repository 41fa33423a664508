// SPDX-License-Identifier: Apache-2.0
// Hardware profiles as tables, for `shardplan list hardware`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/hardware.h"
#include "report/report.h"

namespace shardplan::cli {

// Returns one row per profile with the numbers that distinguish profiles: one
// table for people and one for programs.
std::vector<Table> hardware_overview(
    const std::vector<HardwareProfile>& profiles);
// Returns one row per number, for programs: its unit, where it was read, and
// when.
Table hardware_numbers_table(const std::vector<HardwareProfile>& profiles);
// Returns the numbers of one profile and the documents that they cite, for
// people. `exact`: in bytes and per second, without prefixes.
std::vector<Table> hardware_details(const HardwareProfile& profile, bool exact);

// Formats "450 GB/s", "2.307 PFLOP/s", "1 us": powers of 1000, four digits.
std::string si_text(double value, std::string_view unit);

}  // namespace shardplan::cli
