// SPDX-License-Identifier: Apache-2.0
// Shipped profiles with their tables, read once, and data of the shared folder.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "base/shipped.h"
#include "io/hardware.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"

namespace shardplan::testing {

inline const HardwareProfile& measured_card(const std::string& name) {
  static std::map<std::string, HardwareProfile> cards;
  const auto found = cards.find(name);
  if (found != cards.end()) return found->second;
  MemoryHost host;
  Diagnostics diags;
  auto profile = load_hardware(name, host, diags, Tables::Read);
  REQUIRE_MESSAGE(profile.has_value(), messages(diags));
  return cards.emplace(name, *std::move(profile)).first->second;
}

// All that have arithmetic.
inline std::vector<std::string> card_names() {
  std::vector<std::string> names = shipped_names(kHardwareFolder);
  std::erase(names, "cpu");
  return names;
}

inline std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char c : line) {
    if (c == ',') {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

// Rows of a table without quotes, without its head.
inline std::vector<std::vector<std::string>> csv_rows(
    const std::filesystem::path& path) {
  std::ifstream stream(path);
  std::vector<std::vector<std::string>> rows;
  std::string line;
  std::getline(stream, line);
  while (std::getline(stream, line)) {
    if (line.ends_with('\r')) line.pop_back();
    rows.push_back(fields_of(line));
  }
  return rows;
}

}  // namespace shardplan::testing
