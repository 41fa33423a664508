// SPDX-License-Identifier: Apache-2.0
#include "resolve/unit_facts.h"

#include <utility>

#include "resolve/facts.h"

namespace shardplan {

UnitFacts unit_facts(const Manifest& manifest, const Folding& folding) {
  UnitFacts known{manifest.facts, layout_hints(manifest, folding), {}};
  if (known.given()) return known;
  InferredFacts inferred = infer_facts(manifest, folding);
  known.facts = std::move(inferred.facts);
  known.why = std::move(inferred.why);
  return known;
}

UnitFacts unit_facts(const Manifest& manifest) {
  return unit_facts(manifest, fold_by_type(manifest));
}

}  // namespace shardplan
