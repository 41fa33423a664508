// SPDX-License-Identifier: Apache-2.0
// Hardware profiles: what is read keeps what the header promises.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "io/hardware.h"
#include "tests/fuzz/fuzz.h"

namespace {

using shardplan::HardwareProfile;
using shardplan::LinkTier;
using shardplan::Sourced;

template <typename T>
void check(const HardwareProfile& profile, const Sourced<T>& number) {
  shardplan::fuzz::require(number.source < profile.sources.size(),
                           "every number has a source");
  shardplan::fuzz::require(!number.estimated || !number.note.empty(),
                           "every estimate says how");
}

void check_rate(const HardwareProfile& profile, const Sourced<double>& rate) {
  check(profile, rate);
  shardplan::fuzz::require(std::isfinite(rate.value) && rate.value > 0,
                           "rates are positive and finite");
}

void check_profile(const HardwareProfile& profile) {
  using shardplan::fuzz::require;
  check(profile, profile.devices_per_chip);
  require(profile.devices_per_chip.value >= 1, "a chip has a device");
  for (const auto& source : profile.sources) {
    require(!source.title.empty() && source.read.size() == 10,
            "every source has a title and a date");
  }
  if (const auto& usable = profile.hbm_usable_bytes) {
    check(profile, *usable);
    require(profile.hbm_bytes && usable->value >= 1 &&
                usable->value <= profile.hbm_bytes->value,
            "no more is usable than there is");
  }
  for (const auto& rate : profile.flops_per_second) {
    check_rate(profile, rate.second);
  }
  for (const LinkTier& link : profile.links) {
    check_rate(profile, link.bytes_per_second);
    require(link.topology == shardplan::Topology::Torus || !link.extents,
            "only a torus has extents");
  }
}

}  // namespace

FUZZ_TARGET(hardware) {
  using namespace shardplan;
  Diagnostics diags;
  auto source = std::make_shared<SourceFile>(
      "hw.yaml", std::string(fuzz::text_of(data, size)));
  diags.keep(source);
  const auto profile = read_hardware(source, diags);
  fuzz::require(profile.has_value() == !diags.has_errors(),
                "a refusal has a reason, and only a refusal");
  if (profile) check_profile(*profile);
  return 0;
}
