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

// Safe to read from several threads. Copies share the cached results, whose
// addresses stay valid while any copy lives, also after a move.
struct Model {
  Model() : Model(Manifest()) {}
  explicit Model(Manifest from);
  // For a shrunk model, whose forward pass is already known.
  Model(Manifest from, ForwardDefinition pass);

  // Only the parameters' labels may change, in copies as well.
  Manifest manifest;

  // The forward pass (model/forward/recognise.h); null if it is not known.
  const ForwardDefinition* forward() const;
  // Diagnostics of recognising it: notes, and errors if there is no forward
  // pass.
  const Diagnostics& recognised() const;
  // Reports them under the severities of `diags` (--allow, --deny).
  void report_recognised(Diagnostics& diags) const;

  // Parameters that agree in type and in name, apart from numbers.
  const Folding& folding() const;
  // Heads, experts and other units (model/units.h). `by` may be any folding by
  // type or finer, so that a caller reuses the one it has.
  const UnitFacts& units(const Folding& by) const;
  const UnitFacts& units() const { return units(folding()); }

 private:
  struct Found;
  std::shared_ptr<Found> found_;
};

}  // namespace shardplan
