// SPDX-License-Identifier: Apache-2.0
#include "sim/held_values.h"

namespace shardplan {
Tensor as_stored(const Value& value, const Tensor& tensor,
                 const KeptTypes& precision, int threads) {
  if (precision.arithmetic != Arithmetic::F32 || value.integers_below > 0 ||
      precision.storage == Storage::F32) {
    return tensor;
  }
  // What a file or the caller holds is not written to.
  Tensor own = copy(tensor);
  round_to(own, precision.storage, threads);
  return own;
}

Tensor held_value(HeldValues& held, int value, Element element) {
  const auto v = static_cast<size_t>(value);
  held.singles.resize(held.graph->values.size());
  held.doubles.resize(held.graph->values.size());
  Tensor& place = element == Element::F32 ? held.singles[v] : held.doubles[v];
  if (place.storage != nullptr) return place;
  const bool makes_single = !held.exact && element == Element::F64;
  if (!makes_single && held.singles[v].storage == nullptr &&
      held.doubles[v].storage == nullptr) {
    held.present.push_back(v);
  }
  if (held.exact) {
    place = held.read(value, Element::F64);
  } else if (element == Element::F32) {
    place = as_stored(held.graph->values[v], held.read(value, element),
                      {Arithmetic::F32, held.storage}, held.threads);
  } else {
    place = converted(held_value(held, value, Element::F32), Element::F64,
                      held.threads);
  }
  return place;
}

void release_doubles(HeldValues& held, int stretch) {
  if (held.exact) return;
  for (const size_t v : held.present) {
    if (held.doubles[v].storage == nullptr ||
        held.graph->values[v].kind == Value::Kind::Input ||
        is_needed_soon(held.lives->needed[v], stretch)) {
      continue;
    }
    held.doubles[v] = {};
  }
}

void release_values(HeldValues& held, int stretch) {
  std::erase_if(held.present, [&](size_t v) {
    const std::vector<int>& needed = held.lives->needed[v];
    const bool keep = held.graph->values[v].kind == Value::Kind::Input
                          ? is_needed_later(needed, stretch)
                          : is_needed_soon(needed, stretch);
    if (keep) return false;
    held.singles[v] = {};
    held.doubles[v] = {};
    return true;
  });
}

}  // namespace shardplan
