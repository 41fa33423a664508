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
  LeastCost least(const PlanPoint& pass);
  double least_seconds(const PlanPoint& pass);
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
  // Seconds of a micro-batch of so many sequences, on one of `parts` devices
  // that share its work perfectly.
  double shared_seconds(int64_t sequences, int64_t parts, size_t remat);

  PricingInput in_;
  std::mutex mutex_;
  std::array<std::unique_ptr<Variant>, 16> variants_;
  std::vector<Remat> remats_;
  // One device with the whole model: its state, what it keeps of a sequence by
  // policy, and a device for each number of sequences.
  struct Alone;
  int64_t state_ = 0;
  std::vector<int64_t> kept_;
  std::mutex bounds_mutex_;
  std::map<int64_t, std::unique_ptr<Alone>> alone_;
  std::map<std::array<int64_t, 3>, double> shared_;
  // Answers of least_seconds(), of a micro-batch.
  std::map<std::array<int64_t, 5>, double> refined_;
};

}  // namespace shardplan
