// SPDX-License-Identifier: Apache-2.0
// Model: a manifest with everything derived from it.
//
// The manifest holds the tensors, config, architecture and facts
// (core/manifest.h). A Model derives the forward pass, the folding and the
// units on first use and caches them, so callers never reopen a file.
#pragma once

#include <memory>

#include "base/diagnostic.h"
#include "core/fold.h"
#include "core/manifest.h"
#include "model/forward/definition.h"

namespace shardplan {

struct UnitFacts;

// Several threads may read it at once. Copies share the cached results, whose
// addresses stay valid while any copy lives, even if it is moved.
struct Model {
  Model() : Model(Manifest()) {}
  explicit Model(Manifest from);
  // Constructs a shrunk model, whose forward pass is already known.
  Model(Manifest from, ForwardDefinition pass);

  // Only the parameters' labels may change, also in copies.
  Manifest manifest;

  // Returns the forward pass (model/forward/recognise.h); null if it is not
  // known.
  const ForwardDefinition* forward() const;
  // Returns the diagnostics of recognising it: notes, and errors if there is no
  // forward pass.
  const Diagnostics& recognised() const;
  // Reports them under the severities of `diags` (--allow, --deny).
  void report_recognised(Diagnostics& diags) const;

  // Returns the model before it was quantised, according to its config; null,
  // with the reason reported, if the config does not determine it.
  //
  // REQUIRES: there is a config.
  const Model* unquantised(Diagnostics& diags) const;

  // Returns classes of parameters that have the same type and the same name
  // except for numbers.
  const Folding& folding() const;
  // Returns heads, experts and other units (model/units.h). `by` may be any
  // folding by type or finer, so that a caller can reuse one.
  const UnitFacts& units(const Folding& by) const;
  const UnitFacts& units() const { return units(folding()); }

 private:
  struct Found;
  std::shared_ptr<Found> found_;
};

}  // namespace shardplan
