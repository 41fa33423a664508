// SPDX-License-Identifier: Apache-2.0
// Samples: a user's measurements on one device type, one per run, as
// `--calibrate` reads them (docs/formats/hardware.md). Units: seconds, bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"
#include "core/hardware.h"

namespace shardplan {

// Repeated runs of one measurement, and the position of the first.
struct Runs {
  std::vector<double> seconds;
  Span where;
};

// The number of ranks that ran a collective, and of their machines.
struct RankCount {
  int64_t ranks = 0;
  int64_t hosts = 0;
  auto operator<=>(const RankCount&) const = default;
};

struct Samples {
  // Runs by precision and m, n, k.
  std::map<Precision, std::map<std::array<int64_t, 3>, Runs>> products;
  std::map<int64_t, Runs> copies;  // by bytes read and written, together
  // Runs between host and device, by direction ("to-host") and bytes.
  std::map<std::pair<std::string, int64_t>, Runs> host_copies;
  Runs kernel_starts;
  Runs launches;
  // Runs by a kind of kMeasuredCollectives, ranks, and bytes of the payload.
  std::map<std::string, std::map<RankCount, std::map<int64_t, Runs>>>
      collectives;
};

// Reads a file into `samples`: CSV that scripts/measure-gpu writes, or the
// output of nccl-tests, possibly of several programs in sequence. Returns
// false, with the reason reported: SP002, or SP006 if the file is neither.
// Measurements without any use are noted (SP019).
bool read_samples(const SourceFile& file, Samples& samples, Diagnostics& diags);

}  // namespace shardplan
