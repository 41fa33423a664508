// SPDX-License-Identifier: Apache-2.0
#include "model/model.h"

#include <optional>
#include <utility>

#include "model/forward/recognise.h"
#include "model/from_config.h"
#include "model/read_once.h"
#include "model/units.h"

namespace shardplan {
namespace {

// Reports the diagnostics `recorded`, of an earlier run, under the
// severities of `diags`.
void report(const Diagnostics& recorded, Diagnostics& diags) {
  diags.add_sources(recorded);
  for (const Diagnostic& each : recorded.all()) {
    if (each.severity == Severity::Error) {
      diags.add(each);
      continue;
    }
    const size_t before = diags.all().size();
    diags.report(each.code, each.severity, {}, "");
    if (diags.all().size() == before) continue;  // allowed
    const Severity severity = diags.all().back().severity;
    diags.all().back() = each;
    diags.all().back().severity = severity;
  }
}

}  // namespace

struct Model::Found {
  Once recognised;
  std::optional<ForwardDefinition> forward;
  Diagnostics diags;
  Once unquantised;
  std::unique_ptr<const Model> plain;
  Diagnostics why_not_plain;
  Once folded;
  Folding folding;
  Once read;
  UnitFacts units;
};

Model::Model(Manifest from)
    : manifest(std::move(from)), found_(std::make_shared<Found>()) {}

Model::Model(Manifest from, ForwardDefinition pass) : Model(std::move(from)) {
  found_->recognised.run([&] { found_->forward.emplace(std::move(pass)); });
}

const ForwardDefinition* Model::forward() const {
  found_->recognised.run(
      [this] { found_->forward = recognise_model(manifest, found_->diags); });
  return found_->forward ? &*found_->forward : nullptr;
}

const Diagnostics& Model::recognised() const {
  forward();
  return found_->diags;
}

void Model::report_recognised(Diagnostics& diags) const {
  report(recognised(), diags);
}

const Model* Model::unquantised(Diagnostics& diags) const {
  found_->unquantised.run([this] {
    auto plain = plain_manifest(*manifest.config, manifest.architecture,
                                found_->why_not_plain);
    if (plain) found_->plain = std::make_unique<Model>(*std::move(plain));
  });
  report(found_->why_not_plain, diags);
  return found_->plain.get();
}

const Folding& Model::folding() const {
  found_->folded.run([this] { found_->folding = fold_by_type(manifest); });
  return found_->folding;
}

const UnitFacts& Model::units(const Folding& by) const {
  found_->read.run([&] { found_->units = unit_facts(manifest, by); });
  return found_->units;
}

}  // namespace shardplan
