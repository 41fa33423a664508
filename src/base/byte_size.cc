// SPDX-License-Identifier: Apache-2.0
#include "base/byte_size.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>

namespace shardplan {
namespace {

struct ByteUnit {
  std::string_view name;
  double bytes;
};
constexpr std::array<ByteUnit, 11> kByteUnits = {{
    {"", 1},
    {"B", 1},
    {"kB", 1e3},
    {"KB", 1e3},
    {"MB", 1e6},
    {"GB", 1e9},
    {"TB", 1e12},
    {"KiB", 0x1p10},
    {"MiB", 0x1p20},
    {"GiB", 0x1p30},
    {"TiB", 0x1p40},
}};

}  // namespace

std::optional<int64_t> parse_bytes(std::string_view text) {
  const size_t unit_at =
      std::min(text.find_first_not_of("0123456789.eE+"), text.size());
  const char* end = text.data() + unit_at;
  double number = 0;
  const auto [rest, problem] = std::from_chars(text.data(), end, number);
  if (problem != std::errc() || rest != end) return std::nullopt;
  std::string_view unit = text.substr(unit_at);
  unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
  const auto* const found =
      std::find_if(kByteUnits.begin(), kByteUnits.end(),
                   [&](const ByteUnit& u) { return u.name == unit; });
  if (found == kByteUnits.end()) return std::nullopt;
  const double bytes = std::floor(number * found->bytes);
  if (!(bytes >= 1 && bytes < 0x1p62)) return std::nullopt;
  return static_cast<int64_t>(bytes);
}

}  // namespace shardplan
