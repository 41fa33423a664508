// SPDX-License-Identifier: Apache-2.0
#include "sim/held_values.h"

namespace shardplan {
namespace {

// What the file or the caller holds is not written to.
Tensor in_storage(const HeldValues& held, int value) {
  Tensor tensor = held.read(value, Element::F32);
  const Value& of = held.graph->values[static_cast<size_t>(value)];
  if (held.storage == Storage::F32 || of.integers_below > 0) return tensor;
  tensor = copy(tensor);
  round_to(tensor, held.storage, held.threads);
  return tensor;
}

}  // namespace

Tensor held_value(HeldValues& held, int value, Element element) {
  const auto v = static_cast<size_t>(value);
  held.singles.resize(held.graph->values.size());
  held.doubles.resize(held.graph->values.size());
  Tensor& place = element == Element::F32 ? held.singles[v] : held.doubles[v];
  if (place.storage != nullptr) return place;
  if (held.exact) {
    place = held.read(value, Element::F64);
  } else if (element == Element::F32) {
    place = in_storage(held, value);
  } else {
    place = converted(held_value(held, value, Element::F32), Element::F64,
                      held.threads);
  }
  return place;
}

void release_values(HeldValues& held, int stretch) {
  for (size_t v = 0; v < held.singles.size(); ++v) {
    if (held.singles[v].storage == nullptr &&
        held.doubles[v].storage == nullptr) {
      continue;
    }
    const std::vector<int>& needed = held.lives->needed[v];
    const bool keep =
        held.graph->values[v].kind == Value::Kind::Input
            ? is_needed_later(needed, stretch)
            : is_needed_soon(needed, stretch);
    if (keep) continue;
    held.singles[v] = {};
    held.doubles[v] = {};
  }
}

}  // namespace shardplan
