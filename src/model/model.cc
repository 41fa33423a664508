// SPDX-License-Identifier: Apache-2.0
#include "model/model.h"

#include <mutex>
#include <optional>
#include <utility>

#include "model/forward/recognise.h"
#include "model/units.h"

namespace shardplan {

struct Model::Found {
  std::once_flag recognised;
  std::optional<ForwardDefinition> forward;
  Diagnostics diags;
  std::once_flag folded;
  Folding folding;
  std::once_flag read;
  UnitFacts units;
};

Model::Model(Manifest from)
    : manifest(std::move(from)), found_(std::make_shared<Found>()) {}

Model::Model(Manifest from, ForwardDefinition pass) : Model(std::move(from)) {
  std::call_once(found_->recognised,
                 [&] { found_->forward.emplace(std::move(pass)); });
}

const ForwardDefinition* Model::forward() const {
  std::call_once(found_->recognised, [this] {
    found_->forward = recognise_model(manifest, found_->diags);
  });
  return found_->forward ? &*found_->forward : nullptr;
}

const Diagnostics& Model::recognised() const {
  forward();
  return found_->diags;
}

void Model::report_recognised(Diagnostics& diags) const {
  diags.keep_sources(recognised());
  for (const Diagnostic& each : recognised().all()) {
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

const Folding& Model::folding() const {
  std::call_once(found_->folded,
                 [this] { found_->folding = fold_by_type(manifest); });
  return found_->folding;
}

const UnitFacts& Model::units(const Folding& by) const {
  std::call_once(found_->read,
                 [&] { found_->units = unit_facts(manifest, by); });
  return found_->units;
}

}  // namespace shardplan
