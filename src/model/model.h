// SPDX-License-Identifier: Apache-2.0
// Model: what was loaded, and what is found in it, once.
//
// A manifest says what a model's tensors are, and keeps its config,
// architecture and facts (core/manifest.h). What follows from these is found
// when it is first asked for, and kept: who reads a model opens no file again
// and recognises nothing again.
#pragma once

#include <memory>

#include "base/diagnostic.h"
#include "core/fold.h"
#include "core/manifest.h"
#include "model/forward/runnable.h"

namespace shardplan {

struct UnitFacts;

// Safe to be read by several threads. Copies share what is found, which stays
// where it is when a model is moved, and may be pointed into while one lives.
struct Model {
  Model() : Model(Manifest()) {}
  explicit Model(Manifest from);
  // A model made smaller, whose forward pass is known.
  Model(Manifest from, RunnableModel pass);

  // Of it, of copies too, only the labels of parameters may change.
  Manifest manifest;

  // What it computes (model/forward/recognise.h); null where that is not known.
  const RunnableModel* forward() const;
  // What recognising it said: errors where there is no forward pass, and notes.
  const Diagnostics& recognised() const;
  // The same, reported with the severities that are in force there.
  void report_recognised(Diagnostics& diags) const;

  // Which parameters are alike in name and type.
  const Folding& folding() const;
  // What must be known to tell units. Any folding of its parameters by what
  // tells types apart does, and who has one need not make another.
  const UnitFacts& units(const Folding& by) const;
  const UnitFacts& units() const { return units(folding()); }

 private:
  struct Found;
  std::shared_ptr<Found> found_;
};

}  // namespace shardplan
