// SPDX-License-Identifier: Apache-2.0
// Samples: what a user measured on a card, one run after the other, as
// `--calibrate` reads it (docs/formats/hardware.md). Units: seconds, bytes.
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

// Repeated runs of one thing, and where the first of them stands.
struct Runs {
  std::vector<double> seconds;
  Span where;
};

// How many ranks ran a collective, on how many machines.
struct RankCount {
  int64_t ranks = 0;
  int64_t hosts = 0;
  auto operator<=>(const RankCount&) const = default;
};

struct Samples {
  // By precision and m, n, k.
  std::map<Precision, std::map<std::array<int64_t, 3>, Runs>> products;
  std::map<int64_t, Runs> copies;  // by bytes read and written, together
  // Between host and device, by direction ("to-host") and bytes.
  std::map<std::pair<std::string, int64_t>, Runs> host_copies;
  Runs kernel_starts;
  Runs launches;
  // By a kind of kMeasuredCollectives, ranks, and bytes of the payload.
  std::map<std::string, std::map<RankCount, std::map<int64_t, Runs>>>
      collectives;
};

// Reads a file into `samples`: CSV that scripts/measure-gpu writes, or what
// programs of nccl-tests print, several after one another. False, with the
// reason reported: SP002, or SP006 for neither. What is there and of no use is
// a note (SP019).
bool read_samples(const SourceFile& file, Samples& samples, Diagnostics& diags);

}  // namespace shardplan
