// SPDX-License-Identifier: Apache-2.0
// What the points of a PlanSpace cost: each is judged as any other command
// would judge it (evaluate/evaluate.h).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/diagnostic.h"
#include "evaluate/evaluate.h"
#include "search/plan_search.h"
#include "session/exported_plan.h"
#include "session/memory_request.h"
#include "session/session.h"

namespace shardplan {

// What no plan may place so.
struct ForbiddenSpec {
  std::string text;                // as a user wrote it
  std::vector<size_t> parameters;  // of the manifest
  PartitionSpec spec;
};

// All must outlive the pricing.
struct PricingInput {
  const PlanRequest& planning;
  const MemoryRequest& memory;  // with a batch and a length
  const Inputs& inputs;         // with the rules of all views
  const AskedMemory& asked;     // without stages, ZeRO and axes of tokens
  const StepModel& step;
  const PlanSpace& space;
  const std::vector<ForbiddenSpec>& forbidden;
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
  // The reason if it is unknown whether the framework can run the tensor
  // parallelism of a priced point; else empty.
  std::string unknown_of(const PlanPoint& point);

 private:
  // Points that the same rules and requests place: with stages, with tokens
  // over tensor parallelism, with parts of sequences, with a view of experts.
  struct Variant {
    struct Idle {
      PlanPoint program;  // the last one's
      std::unique_ptr<Evaluator> evaluator;
    };
    RuleSet rules;
    AskedMemory memory;
    std::unique_ptr<const Groundwork> ground;  // null: `why`
    std::unique_ptr<const Asked> asked;
    std::vector<Idle> idle;  // the longest idle first
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
  std::optional<std::string> illegal(const PlanPoint& point,
                                     const Evaluator::Placed& on,
                                     const Candidate& candidate);
  TensorParallelism tensor_parallelism(const PlanPoint& point,
                                       const Plan& plan);
  Candidate unlimited(const PlanPoint& point, int64_t sequences,
                      const Variant& variant) const;
  bool find_least(Diagnostics& diags);
  // Bytes of the whole model on one device: what is copied with weights, what
  // ZeRO shares out, and what is kept of a sequence.
  struct Held {
    double copied = 0;
    double shared = 0;
    double kept = 0;
  };
  std::optional<Held> held_by(const PlanPoint& point, Diagnostics& diags);
  // A bound by a few devices (Sample): `sequence` of those that the tokens of a
  // sequence are cut over are there, and share their work with the others
  // perfectly, as they do where `sequences` of each are more than those of the
  // pass. `whole`: with tensor and expert parallelism, else one device.
  struct Sample;
  double sampled_seconds(const PlanPoint& pass, bool whole, int64_t sequence,
                         int64_t sequences);
  double gathering(const PlanPoint& pass, double kept) const;
  int64_t sampled_parts(const PlanPoint& pass, int64_t most) const;
  LeastCost closer(const PlanPoint& pass);
  LeastCost closest(const PlanPoint& pass);
  // Bytes that all layers keep for backward, of a sequence and on all devices
  // that share it.
  double kept(const PlanPoint& pass);
  // What the fullest device holds at least; `kept`: the same of what is in
  // flight on the fullest stage.
  double bytes_of(const PlanPoint& point, double kept) const;
  int64_t most_sequences(const PlanPoint& pass) const;

  PricingInput in_;
  std::mutex mutex_;
  std::array<std::unique_ptr<Variant>, 16> variants_;
  std::vector<Remat> remats_;
  // By policy of rematerialisation; written before the search begins.
  std::vector<Held> held_;
  // Bytes of all layers as they are gathered.
  double layer_weights_ = 0;
  // What a sequence keeps by parts of products, whether of tokens, and policy.
  std::mutex kept_mutex_;
  std::map<std::tuple<int64_t, bool, size_t>, double> kept_in_parts_;
  std::atomic<int64_t> evaluations_{0};
  std::map<PlanPoint, PlanCost> known_;  // by price()
  // By what is cut for tensor and expert parallelism.
  std::map<std::string, TensorParallelism> tensor_;
  std::map<PlanPoint, std::string> unknown_;  // of points with such a reason
  std::mutex samples_mutex_;
  std::map<std::array<int64_t, 6>, std::unique_ptr<Sample>> samples_;
};

}  // namespace shardplan
