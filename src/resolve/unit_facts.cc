// SPDX-License-Identifier: Apache-2.0
#include "resolve/unit_facts.h"

#include <utility>

#include "resolve/facts.h"

namespace shardplan {

UnitFacts unit_facts(const Manifest& manifest) {
  UnitFacts known{manifest.facts, layout_hints(manifest), {}};
  if (known.given()) return known;
  InferredFacts inferred = infer_facts(manifest);
  known.facts = std::move(inferred.facts);
  known.why = std::move(inferred.why);
  return known;
}

}  // namespace shardplan
