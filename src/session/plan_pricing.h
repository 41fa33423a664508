// SPDX-License-Identifier: Apache-2.0
// What the points of a PlanSpace cost: each is judged as any other command
// would judge it (evaluate/evaluate.h).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "evaluate/evaluate.h"
#include "search/plan_search.h"
#include "session/memory_request.h"
#include "session/session.h"

namespace shardplan {

// All must outlive the pricing.
struct PricingInput {
  const PlanRequest& planning;
  const MemoryRequest& memory;  // with a batch and a length
  const Inputs& inputs;         // with the rules of all views
  const AskedMemory& asked;     // without stages, ZeRO and axes of tokens
  const StepModel& step;
  const PlanSpace& space;
};

class PlanPricing {
 public:
  ~PlanPricing();
  // Null, with the reason reported: rules that cannot be searched for, a
  // profile without figures for the step.
  static std::unique_ptr<PlanPricing> of(const PricingInput& input,
                                         Diagnostics& diags);

  // Safe to call from several threads.
  PlanCost price(const PlanPoint& point);
  std::optional<PlanCost> refused(const PlanPoint& shape);
  LeastCost least(const PlanPoint& point);
  PlanCosts costs();

 private:
  // Points that the same rules and requests place: with stages, with tokens
  // over tensor parallelism, with parts of sequences, with a view of experts.
  struct Variant {
    RuleSet rules;
    AskedMemory memory;
    std::unique_ptr<const Groundwork> ground;  // null: `why`
    std::unique_ptr<const Asked> asked;
    std::vector<std::unique_ptr<Evaluator>> idle;
    std::string why;
  };
  class Lease;

  explicit PlanPricing(const PricingInput& input);
  PlanCost priced(const PlanPoint& point);
  static size_t variant_number(const PlanPoint& point);
  Variant& variant_of(const PlanPoint& point);
  void make(Variant& variant, const PlanPoint& point);
  Candidate candidate_of(const PlanPoint& point, const Mesh& mesh,
                         const Variant& variant) const;
  std::optional<std::string> illegal(const Evaluator::Placed& on,
                                     const Candidate& candidate) const;
  Candidate unlimited(const PlanPoint& point, int64_t sequences,
                      const Variant& variant) const;
  bool find_least(Diagnostics& diags);
  // A bound by a few devices (Sample): `sequence` of those that the tokens of a
  // sequence are cut over are there, and share their work with the others
  // perfectly, as they do where `sequences` of each are more than those of the
  // pass. `whole`: with tensor and expert parallelism, else one device.
  struct Sample;
  double sampled_seconds(const PlanPoint& pass, bool whole, int64_t sequence,
                         int64_t sequences);
  double gathering(const PlanPoint& pass) const;
  bool is_sampled(const PlanPoint& pass) const;
  double closer(const PlanPoint& pass);
  double closest(const PlanPoint& pass);
  int64_t most_sequences(const PlanPoint& pass) const;

  PricingInput in_;
  std::mutex mutex_;
  std::array<std::unique_ptr<Variant>, 16> variants_;
  std::vector<Remat> remats_;
  // Bytes of the whole model on one device: what is copied with weights, what
  // ZeRO shares out, layers as they are gathered, and what is kept of a
  // sequence by policy.
  double copied_ = 0;
  double shared_ = 0;
  double layer_weights_ = 0;
  std::vector<int64_t> kept_;
  std::map<PlanPoint, PlanCost> known_;  // by price()
  std::mutex samples_mutex_;
  std::map<std::array<int64_t, 6>, std::unique_ptr<Sample>> samples_;
};

}  // namespace shardplan
