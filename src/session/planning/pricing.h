// SPDX-License-Identifier: Apache-2.0
// PlanPricing: the costs of the points of a PlanSpace. Each point is judged as
// any other command would judge it (evaluate/evaluate.h).
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

// A spec that no plan may give to these parameters.
struct ForbiddenSpec {
  std::string text;                // as the user wrote it
  std::vector<size_t> parameters;  // indices into the manifest
  PartitionSpec spec;
};

// Everything that it refers to must outlive the pricing.
struct PricingInput {
  const PlanRequest& planning;
  const MemoryRequest& memory;  // with a batch and a sequence length
  const Inputs& inputs;         // with the rules of all views
  const AskedMemory& asked;     // without stages, ZeRO and token axes
  const StepModel& step;
  const PlanSpace& space;
  const std::vector<ForbiddenSpec>& forbidden;
};

class PlanPricing {
 public:
  ~PlanPricing();
  // Prepares the pricing. Null, with the reason reported: a remat policy is
  // invalid, the rules cannot be matched, or the profile lacks what a step's
  // time needs.
  static std::unique_ptr<PlanPricing> of(const PricingInput& input,
                                         Diagnostics& diags);

  // Prices a point. Safe to call from several threads.
  PlanCost price(const PlanPoint& point);
  std::optional<PlanCost> refused(const PlanPoint& shape);
  LeastCost least(const PlanPoint& point);
  PlanCosts costs();
  // Returns why it is unknown whether the framework can run the tensor
  // parallelism of a priced point; "" if it is known.
  std::string unknown_of(const PlanPoint& point);

 private:
  // Points that share rules and options. Points differ in variant by whether
  // they have stages, tokens over tensor parallelism, sequence parallelism, and
  // a view of experts.
  struct Variant {
    struct Idle {
      PlanPoint program;  // of its last point
      std::unique_ptr<Evaluator> evaluator;
    };
    RuleSet rules;
    AskedMemory memory;
    std::unique_ptr<const Groundwork> ground;  // null: see `why`
    std::unique_ptr<const Asked> asked;
    std::vector<Idle> idle;  // the longest idle first
    std::string why;
  };
  class Lease;

  explicit PlanPricing(const PricingInput& input);
  struct Priced {
    PlanCost cost;
    double computed = 0;  // see StepTime
    double unsent = 0;
    std::vector<Sending> sends;
  };
  Priced priced(const PlanPoint& point);
  double beside(const PlanPoint& priced, const PlanPoint& other);
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
  // Bytes of the whole model on one device: replicated with the weights
  // (parameters and gradients), sharded by ZeRO (master weights and optimizer
  // state), and saved for backward per sequence.
  struct Held {
    double copied = 0;
    double shared = 0;
    double kept = 0;
  };
  std::optional<Held> held_by(const PlanPoint& point, Diagnostics& diags);
  // A few devices with the whole model, and bounds of their passes if others
  // share the work perfectly.
  struct Sample;
  LeastPass sampled(const PlanPoint& point, SharedWork shared,
                    int64_t sequences, size_t remat);
  // Returns devices with the pass's tensor and expert parallelism, and
  // `sequence` of those that a sequence is sharded over.
  static PlanPoint sample_of(const PlanPoint& pass, int64_t sequence);
  // Returns how many devices share the work of one that has so many sequences
  // and the whole model.
  SharedWork shared_work(const PlanPoint& pass, int64_t sequences) const;
  // Returns the collectives that such devices wait for; empty: all.
  AxisNames waits_of(const PlanPoint& pass) const;
  // Returns such a bound on the seconds of a step, if `parts` devices share
  // what is waited for. `kept`: see bytes_of().
  double bounded(const PlanPoint& pass, const LeastPass& least, double parts,
                 double kept) const;
  double gathering(const PlanPoint& pass, double kept) const;
  int64_t sampled_parts(const PlanPoint& pass) const;
  LeastCost waiting(const PlanPoint& pass);
  LeastCost closest(const PlanPoint& pass);
  // Returns the bytes per sequence that all layers save for backward, over all
  // devices that share it.
  double kept(const PlanPoint& pass);
  double kept_on(const PlanPoint& pass);  // the fullest stage, in flight
  // Returns a lower bound on the bytes of the fullest device. `kept` is such a
  // bound on what the fullest stage saves for micro-batches in flight.
  double bytes_of(const PlanPoint& point, double kept) const;
  int64_t most_sequences(const PlanPoint& pass) const;

  PricingInput in_;
  std::mutex mutex_;
  std::array<std::unique_ptr<Variant>, 16> variants_;
  std::vector<Remat> remats_;
  // Indexed by recompute policy; written before the search begins.
  std::vector<Held> held_;
  // Bytes of all layers in the dtype in which they are gathered.
  double layer_weights_ = 0;
  double trained_ = 0;  // parameters
  // Bytes saved per sequence, keyed by tensor parallelism, whether tokens are
  // sharded over it, and recompute policy.
  std::mutex kept_mutex_;
  std::map<std::tuple<int64_t, bool, size_t>, double> kept_in_parts_;
  std::atomic<int64_t> evaluations_{0};
  std::map<PlanPoint, Priced> known_;
  // Results by tensor_key().
  std::map<std::string, TensorParallelism> tensor_;
  std::map<PlanPoint, std::string> unknown_;  // reasons by point
  std::mutex samples_mutex_;
  std::map<std::array<int64_t, 6>, std::unique_ptr<Sample>> samples_;
};

}  // namespace shardplan
