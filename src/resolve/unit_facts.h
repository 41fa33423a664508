// SPDX-License-Identifier: Apache-2.0
// Everything that must be known of a model to tell the units of its tensors.
#pragma once

#include <string>
#include <vector>

#include "core/fold.h"
#include "core/manifest.h"
#include "resolve/layout_hints.h"

namespace shardplan {

struct UnitFacts {
  ModelFacts facts;  // given, or inferred
  LayoutHints hints;
  // How inferred facts were come by; empty where they were given.
  std::vector<std::string> why;

  // From a config or the manifest, and taken at their word.
  bool given() const {
    return facts.from == FactsFrom::Config || facts.from == FactsFrom::Manifest;
  }
};

// Names are read once per class; `folding` is by placement or by type.
UnitFacts unit_facts(const Manifest& manifest, const Folding& folding);
// The same where nothing is folded yet. O(parameters).
UnitFacts unit_facts(const Manifest& manifest);

}  // namespace shardplan
