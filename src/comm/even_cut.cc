// SPDX-License-Identifier: Apache-2.0
#include "comm/even_cut.h"

#include <limits>

#include "base/check.h"
#include "base/checked.h"

namespace shardplan {

int64_t wrap(int64_t index, int64_t count) {
  const int64_t rest = index % count;
  return rest < 0 ? rest + count : rest;
}

int64_t EvenCut::begin(int64_t part) const {
  return static_cast<int64_t>(Int128{total} * part / parts);
}

int64_t EvenCut::size(int64_t part) const {
  const int64_t at = wrap(part, parts);
  return begin(at + 1) - begin(at);
}

int64_t EvenCut::run(int64_t first, int64_t count) const {
  SHARDPLAN_CHECK(0 <= count && count <= parts);
  const int64_t from = wrap(first, parts);
  const int64_t to = from + count;
  if (to <= parts) return begin(to) - begin(from);
  return total - begin(from) + begin(to - parts);
}

int64_t saturated_product(int64_t a, int64_t b) {
  return checked_mul(a, b).value_or(std::numeric_limits<int64_t>::max());
}

}  // namespace shardplan
