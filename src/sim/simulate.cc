// SPDX-License-Identifier: Apache-2.0

#include "sim/simulate.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/checked.h"
#include "base/words.h"
#include "graph/buffers.h"
#include "graph/composites.h"
#include "sim/compare.h"
#include "sim/locate.h"
#include "sim/reduction_fault.h"
#include "sim/verdict.h"

namespace shardplan {
namespace {

std::vector<Tensor> outputs_of(const Evaluation& run) {
  std::vector<Tensor> outputs;
  for (const ValueId value : run.graph->outputs) {
    outputs.push_back(whole_of(run, value));
  }
  return outputs;
}

std::vector<Tensor> outputs_of(const Program& program, const Execution& run) {
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const RegisterId number = program.outputs[i];
    const ValueId value = program.graph->outputs[i];
    outputs.push_back(assemble(program.mesh, program.registers[number].layout,
                               program.graph->values[value].shape,
                               run.registers[number]));
  }
  return outputs;
}

ReadWhole reader(ValueCache& cache, Arithmetic arithmetic) {
  return [&cache, arithmetic](ValueId value) {
    return cached_value(cache, value, element_of(arithmetic));
  };
}

class Simulator {
 public:
  Simulator(const Program& program, const ReadValue& values,
            const SimulateOptions& options)
      : program_(program), values_(values), options_(options) {}

  Simulation run() {
    const BufferCache cache;
    if (options_.values == ValueSource::Field) {
      run_in_field();
    } else {
      run_in_floats();
    }
    if (!result_.stopped) return std::move(result_);
    Simulation stopped;
    stopped.stopped = true;
    return stopped;
  }

 private:
  void report_progress(const std::string& stage) const {
    if (options_.progress) options_.progress(stage.c_str());
  }

  // Reports progress; returns false if the work is to end.
  bool begin(const char* work, int node) {
    const auto nodes = static_cast<int>(graph_.nodes.size());
    if (node < nodes) {
      const std::string text = std::string(work) + " (node " +
                               std::to_string(node + 1) + " of " +
                               std::to_string(nodes) + ")";
      if (options_.step) {
        options_.step(work, text.c_str(), done_before(node));
      } else {
        report_progress(text);
      }
    }
    result_.stopped = result_.stopped || (options_.stop && options_.stop());
    return !result_.stopped;
  }

  // Returns the share of the work that is done before a node, counted in
  // operations and in numbers of results.
  double done_before(int node) {
    if (work_before_.empty()) {
      double sum = 0;
      for (const GraphNode& each : graph_.nodes) {
        work_before_.push_back(sum);
        sum += static_cast<double>(flops_of(each)) +
               static_cast<double>(count_of(graph_.values[each.result].shape)) +
               1;
      }
      work_before_.push_back(sum);
    }
    return nth(work_before_, node) / work_before_.back();
  }

  int64_t flops_of(const GraphNode& node) const {
    std::vector<Shape> shapes;
    for (const ValueId operand : node.operands) {
      shapes.push_back(graph_.values[operand].shape);
    }
    return node.op->flops(shapes, graph_.values[node.result].shape,
                          node.attributes);
  }

  ValueCache value_cache() const {
    return {&graph_,          &lives_,
            values_,          options_.values == ValueSource::Field,
            options_.storage, options_.threads};
  }

  // Every run counts bytes of the requested types, even a run that rounds
  // nothing (sim/transfers.h).
  ExecuteOptions how(Arithmetic arithmetic) const {
    return {arithmetic, options_.threads, false, options_.storage,
            options_.reduce};
  }

  // Returns whether a register that differs could be the result of a reduction.
  bool is_whole(RegisterId number) const {
    return number && program_.registers[number].layout.partial.empty();
  }

  // Records what the runs differ in, and why.
  void judge(const Comparison& comparison, Arithmetic arithmetic) {
    result_.mismatch = comparison.found();
    if (result_.mismatch && is_whole(result_.mismatch->number)) {
      ValueCache fresh = value_cache();
      PairedRuns again(program_, lives_, fresh, how(arithmetic));
      result_.mismatch->fault = reduction_fault_of(
          again, result_.mismatch->number,
          [&](int phase) { return begin("explaining the difference", phase); });
    }
    if (!result_.mismatch && !agree_) {
      result_.mismatch =
          Divergence{graph_.outputs.at(0), 0, result_.structural_error, false};
    }
    if (!result_.mismatch) return;
    result_.bound_ratio.reset();
    std::erase_if(result_.unseen, [](const Unseen& each) {
      return each.kind == Unseen::Kind::PastBound;
    });
  }

  void count(const Execution& run) {
    result_.flops = std::ranges::max(run.flops);
    for (CollectivePrice& priced :
         price(program_, options_.storage, options_.reduce)) {
      const auto& sent = run.sent[priced.instruction];
      MovedBytes row{std::move(priced), 0, 0};
      for (const int64_t bytes : sent) {
        row.moved += bytes;
        row.bytes_per_device = std::max(row.bytes_per_device, bytes);
      }
      check_price(row);
      // Fits: it equals `moved`, as check_price() has shown.
      result_.bytes_priced += static_cast<int64_t>(row.priced.bytes);
      result_.collectives.push_back(std::move(row));
    }
    result_.bytes_moved = run.bytes_moved();
    SHARDPLAN_CHECK(result_.bytes_moved == result_.bytes_priced);
    for (const GraphNode& node : graph_.nodes) {
      result_.unsharded_flops += flops_of(node);
    }
  }

  // Returns whether the devices choose among whole scores. Once the choice is
  // replayed, nothing else would show it.
  bool chooses_among_all(const Instruction& at) const {
    return std::ranges::all_of(at.operands, [&](RegisterId number) {
      return program_.registers[number].layout.partial.empty();
    });
  }

  // Records which faults the values of node n of the unsharded run in doubles
  // hide, and which values cannot be compared.
  void look_at_node(const PairedRuns& exact, NodeId n) {
    if (!graph_.nodes.has(n)) return;
    const GraphNode& node = graph_.nodes[n];
    std::vector<Tensor> whole;
    std::vector<NumberKinds> kinds;
    bool finite = true;
    std::vector<ValueId> values = node.operands;
    values.push_back(node.result);
    for (const ValueId v : values) {
      whole.push_back(whole_of(exact.unsharded, v));
      if (!kinds_[v]) look_at_value(node, v, whole.back());
      kinds.push_back(*kinds_[v]);
      finite = finite && !is_odd_[v];
    }
    if (!finite || depends_on_unused_experts(node, kinds.back())) return;
    if (auto found = unseen_in_node(graph_, n, whole, kinds)) {
      result_.unseen.push_back(*std::move(found));
      return;
    }
    // However it became zero, there is nothing else to compare.
    const bool compared = contains(graph_.outputs, node.result) ||
                          contains(graph_.probes, node.result);
    if (compared && result_.unseen.empty() && kinds.back().all_zero &&
        !graph_.values[node.result].is_integer()) {
      result_.unseen.push_back({Unseen::Kind::ZeroResult, node.result});
    }
  }
  // Returns whether a result is zero because experts got no token, which is
  // counted separately.
  bool depends_on_unused_experts(const GraphNode& node,
                                 const NumberKinds& kinds) {
    const bool is_so =
        reads_unused_experts(node, used_) ||
        (kinds.all_zero && std::ranges::any_of(node.operands, [&](ValueId v) {
           return unsent_.contains(v);
         }));
    if (is_so) unsent_.insert(node.result);
    return is_so;
  }
  void look_at_value(const GraphNode& node, ValueId v, const Tensor& whole) {
    const bool is_result = graph_.values[v].kind == Value::Kind::Result;
    const NumberKinds kinds = kinds_of(whole);
    kinds_[v] = kinds;
    masked_[v] =
        is_result && kinds.minus_infinite > 0 && passes_mask(node, masked_);
    const auto odd = non_finite_of(kinds, v, -1, masked_[v]);
    is_odd_[v] = odd.has_value();
    if (odd && !result_.non_finite) result_.non_finite = odd;
    if (!is_result && kinds.all_zero && !graph_.values[v].is_integer()) {
      result_.unseen.push_back({Unseen::Kind::ZeroInput, v});
    }
  }

  // Records the same for what the devices compute in doubles.
  void look_at_devices(const PairedRuns& exact, const Instruction& at,
                       const DeviceTensors& made) {
    const Register& of = program_.registers[at.result];
    const ValueId v = of.value;
    // Consequences of zeros that were found are not examined again.
    const bool zero = kinds_[v] && kinds_[v]->all_zero;
    const bool is_known =
        zero && (!result_.unseen.empty() || unsent_.contains(v));
    if (is_odd_[v] || is_known) return;
    std::optional<Unseen> found;
    if (!zero) {
      if (of.layout.partial.empty() && first_odd(at, made)) agree_ = false;
      found = unseen_shards(program_, at, made);
    }
    if (!found && at.kind == Instruction::Kind::Compute) {
      found = unseen_parts(program_, at, made, whole_of(exact.unsharded, v));
    }
    if (found) result_.unseen.push_back(*std::move(found));
  }
  // Returns the first device whose part has numbers that are not finite. A mask
  // may hide all of one part of a maximum.
  std::optional<NonFinite> first_odd(const Instruction& at,
                                     const DeviceTensors& made) const {
    // Values that are only moved were examined where they were computed.
    if (at.kind != Instruction::Kind::Compute && !reduces(at)) {
      return std::nullopt;
    }
    const Register& of = program_.registers[at.result];
    const bool masked =
        masked_[of.value] || of.layout.reduction == Reduction::Max;
    for (size_t d = 0; d < made.size(); ++d) {
      if (auto odd = non_finite_of(kinds_of(made[d]), of.value,
                                   static_cast<int64_t>(d), masked)) {
        return odd;
      }
    }
    return std::nullopt;
  }

  // Records what is finite in doubles, but not in working precision.
  void look_for_overflow(const PairedRuns& working, NodeId n) {
    if (!graph_.nodes.has(n)) return;
    const GraphNode& node = graph_.nodes[n];
    std::vector<ValueId> values = node.operands;
    values.push_back(node.result);
    for (const ValueId v : values) {
      const bool is_result = graph_.values[v].kind == Value::Kind::Result;
      if (result_.overflow || is_odd_[v] || (is_result && v != node.result)) {
        continue;
      }
      result_.overflow = non_finite_of(kinds_of(whole_of(working.unsharded, v)),
                                       v, -1, masked_[v]);
    }
  }
  void look_for_overflow(const Instruction& at, const DeviceTensors& made) {
    if (!result_.sharded_overflow &&
        !is_odd_[program_.registers[at.result].value]) {
      result_.sharded_overflow = first_odd(at, made);
    }
  }

  // Records the errors of a probe at its first register without partial sums.
  void probe(const Instruction& at, const DeviceTensors& made,
             const PairedRuns& exact, const PairedRuns& working) {
    const Register& of = program_.registers[at.result];
    const ValueId v = of.value;
    if (!contains(graph_.probes, v) || !of.layout.partial.empty() ||
        probed_.contains(v)) {
      return;
    }
    const Tensor y64 = whole_of(exact.unsharded, v);
    const Tensor whole =
        assemble(program_.mesh, of.layout, graph_.values[v].shape, made);
    probed_[v] = {v, relative_error(y64, whole_of(working.unsharded, v)),
                  relative_error(y64, whole)};
  }

  void bound(NodeId node, const PairedRuns& working) {
    if (!bounded_ || !graph_.nodes.has(node)) return;
    if (!graph_.nodes[node].op->is_product) return;
    const std::optional<double> ratio = bound_ratio_of(
        program_, node,
        [&](ValueId value) { return whole_of(working.unsharded, value); },
        options_);
    bounded_ = ratio.has_value();
    if (!ratio) return;
    result_.bound_ratio = std::max(result_.bound_ratio.value_or(0), *ratio);
    if (!(*ratio > 1)) return;
    result_.unseen.push_back(
        {Unseen::Kind::PastBound, graph_.nodes[node].result, {}, {}, *ratio});
  }

  // Counts the tokens that a node sends to experts, and those that find no
  // room.
  void count_routed(NodeId n, const Evaluation& unsharded) {
    if (!graph_.nodes.has(n)) return;
    const GraphNode& node = graph_.nodes[n];
    if (node.op->exchange != TokenExchange::ToExperts) return;
    const Shape& made = graph_.values[node.result].shape;
    const int64_t groups = integer_of(node.attributes, "groups", 1);
    const Tensor choices =
        in_groups_of_tokens(whole_of(unsharded, node.operands[1]), groups);
    result_.routed += choices.elements();
    // [experts, .., capacity, features]
    result_.dropped +=
        count_dropped(choices, made[0], made[made.size() - 2] / groups);
    std::vector<bool> used(to_size(made[0]));
    for (const double choice : values_of(choices)) {
      if (choice >= 0 && choice < static_cast<double>(made[0])) {
        used[static_cast<size_t>(choice)] = true;
      }
    }
    const auto unused = std::count(used.begin(), used.end(), false);
    if (unused == 0) return;
    result_.unused_experts.push_back({node.result, unused, made[0]});
    used_[node.result] = std::move(used);
  }

  // Advances both pairs of runs, phase by phase; returns false if stopped.
  bool advance_floats(ValueCache& cache, PairedRuns& exact, PairedRuns& working,
                      Comparison& comparison) {
    for (int s = 0; s < lives_.phases; ++s) {
      if (!begin("running", s)) return false;
      const NodeId n(s);
      advance_unsharded(exact, s);
      look_at_node(exact, n);
      count_routed(n, exact.unsharded);
      exact.sharded.advance(s, [&](const Instruction& at, DeviceTensors& made) {
        look_at_devices(exact, at, made);
        comparison.look(exact, at, made);
        if (!is_decision(program_, at)) return;
        agree_ = agree_ && chooses_among_all(at);
        const ValueId value = program_.registers[at.result].value;
        replay(program_, at, whole_of(exact.unsharded, value), made);
      });
      release_doubles(cache, s);
      advance_unsharded(working, s);
      if (graph_.nodes.has(n) && graph_.nodes[n].op->is_decision) {
        const ValueId result = graph_.nodes[n].result;
        working.unsharded.results[result] =
            converted(exact.unsharded.results[result], Element::F32);
      }
      look_for_overflow(working, n);
      working.sharded.advance(
          s, [&](const Instruction& at, DeviceTensors& made) {
            look_for_overflow(at, made);
            comparison.look_working(exact, working, at, made);
            const ValueId value = program_.registers[at.result].value;
            if (is_decision(program_, at)) {
              result_.decision_flips +=
                  replay(program_, at, whole_of(exact.unsharded, value), made);
            }
            probe(at, made, exact, working);
          });
      comparison.end_phase();
      bound(n, working);
      if (s + 1 == lives_.phases) break;
      release_results(exact, s);
      release_results(working, s);
      release_values(cache, s);
    }
    return true;
  }

  // Records if the outputs have no elements, so that nothing is compared.
  void look_at_outputs(const std::vector<Tensor>& outputs) {
    const bool empty = std::ranges::all_of(
        outputs, [](const Tensor& each) { return each.elements() == 0; });
    if (empty && !graph_.outputs.empty()) {
      result_.unseen.push_back(
          {Unseen::Kind::NoNumbers, graph_.outputs.front()});
    }
  }

  void run_in_floats() {
    ValueCache cache = value_cache();
    Comparison comparison(program_);
    {
      PairedRuns exact(program_, lives_, cache, how(Arithmetic::F64));
      PairedRuns working(program_, lives_, cache, how(Arithmetic::F32));
      if (!advance_floats(cache, exact, working, comparison)) return;
      report_progress("comparing");
      result_.exact_unsharded = outputs_of(exact.unsharded);
      const std::vector<Tensor>& y64 = result_.exact_unsharded;
      look_at_outputs(y64);
      const Execution run64 = exact.sharded.finish();
      const Execution run32 = working.sharded.finish();
      result_.exact_sharded = outputs_of(program_, run64);
      result_.structural_error = structural_error(y64, result_.exact_sharded);
      result_.unsharded = outputs_of(working.unsharded);
      result_.sharded = outputs_of(program_, run32);
      result_.error_amplification =
          error_amplification(y64, result_.unsharded, result_.sharded);
      count(run32);
      agree_ = agree_ && result_.structural_error <= kMismatch;
    }
    for (const ValueId value : graph_.probes) {
      const auto found = probed_.find(value);
      if (found != probed_.end()) result_.probes.push_back(found->second);
    }
    if (!bounded_) result_.bound_ratio.reset();
    judge(comparison, Arithmetic::F64);
  }

  void run_in_field() {
    Comparison comparison(program_);
    {
      ValueCache cache = value_cache();
      PairedRuns runs(program_, lives_, cache, how(Arithmetic::Field));
      for (int s = 0; s < lives_.phases; ++s) {
        if (!begin("running", s)) return;
        advance_unsharded(runs, s);
        count_routed(NodeId(s), runs.unsharded);
        runs.sharded.advance(s,
                             [&](const Instruction& at, DeviceTensors& made) {
                               comparison.look(runs, at, made);
                               if (!is_decision(program_, at)) return;
                               agree_ = agree_ && chooses_among_all(at);
                             });
        comparison.end_phase();
        if (s + 1 == lives_.phases) break;
        release_results(runs, s);
        release_values(cache, s);
      }
      count(runs.sharded.finish());
    }
    judge(comparison, Arithmetic::Field);
    if (result_.mismatch) {
      result_.structural_error = 1;
      return;
    }
    for (const NodeId n : graph_.nodes.ids()) {
      if (result_.mismatch) break;
      if (!begin("checking each operation on its own", n.number)) return;
      const int trials = trials_of(graph_.nodes[n]);
      for (int trial = 0; trial < trials && !result_.mismatch; ++trial) {
        check_alone(n, trial);
      }
    }
  }

  // Returns how often to check an operation. Most faulty operations differ as
  // polynomials, and once is enough. A choice among a part equals that among
  // all with a probability of at most 1/2 per row, so it is repeated until the
  // probability is one in a million.
  int trials_of(const GraphNode& node) const {
    constexpr int64_t kRows = 20;
    if (!node.op->is_decision) return 1;
    const Shape& shape = graph_.values[node.result].shape;
    const int64_t elements = element_count(shape).value_or(0);
    if (shape.empty() || elements == 0) return 1;
    return static_cast<int>(ceil_div(kRows, elements / shape.back()));
  }

  void check_alone(NodeId node, int trial) {
    const Isolated one = isolate(program_, node, options_.partition);
    const Graph& graph = *one.graph;
    const Lifetimes lives = lifetimes_of(one.program);
    const ValueCache drawn{
        &graph,
        &lives,
        [&](ValueId value, Element) {
          return random_value(graph.values[value], ValueSource::Field,
                              options_.seed + node.number + 1 +
                                  trial * static_cast<int>(graph_.nodes.size()),
                              static_cast<uint32_t>(one.operands[value].number),
                              options_.threads);
        },
        true,
        Storage::F32,
        options_.threads};
    ValueCache cache = drawn;
    PairedRuns runs(one.program, lives, cache, how(Arithmetic::Field));
    const auto parted = first_divergence(runs);
    if (!parted) return;
    result_.structural_error = 1;
    const GraphNode& whole = graph_.nodes[node];
    result_.mismatch = Divergence{whole.result, parted->device, 1, true};
    if (!parted->number) return;
    ValueCache fresh = drawn;
    PairedRuns again(one.program, lives, fresh, how(Arithmetic::Field));
    result_.mismatch->fault = reduction_fault_of(again, parted->number);
    auto& fault = result_.mismatch->fault;
    if (fault && fault->operand) {
      fault->operand = one.operands[fault->operand];
    }
  }

  const Program& program_;
  const Graph& graph_ = *program_.graph;
  const ReadValue& values_;
  const SimulateOptions& options_;
  const Lifetimes lives_ = lifetimes_of(program_);
  Simulation result_;
  // By value, in the unsharded run in doubles: what numbers there are, whether
  // their -inf come from a mask, and whether some are not finite by mistake.
  PerValue<std::optional<NumberKinds>> kinds_ =
      PerValue<std::optional<NumberKinds>>(graph_.values.size());
  PerValue<bool> masked_ = PerValue<bool>(graph_.values.size());
  PerValue<bool> is_odd_ = PerValue<bool>(graph_.values.size());
  std::map<ValueId, ProbeError> probed_;
  // By value that is sent to experts: which experts got tokens, if some did
  // not.
  std::map<ValueId, std::vector<bool>> used_;
  std::set<ValueId> unsent_;  // zero because experts got no token
  bool bounded_ = true;       // every product so far has a bound
  bool agree_ = true;
  std::vector<double> work_before_;  // by node, then the total; lazily filled
};

}  // namespace

void check_price(const MovedBytes& row) {
  if (row.moved == row.priced.bytes) return;
  throw InternalError("a collective (" +
                      std::string(collective_name(row.priced.kind)) + ", " +
                      row.priced.algorithm + ") moved " +
                      std::to_string(row.moved) + " bytes and is priced as " +
                      std::to_string(static_cast<int64_t>(row.priced.bytes)));
}

Verdict verdict_of(const Simulation& outcome) {
  if (outcome.mismatch || (outcome.hooked && outcome.hooked->fault)) {
    return Verdict::Mismatch;
  }
  return outcome.non_finite || !outcome.unseen.empty() ? Verdict::Inconclusive
                                                       : Verdict::Ok;
}

Simulation simulate(const Program& program, const ReadValue& values,
                    const SimulateOptions& options) {
  return Simulator(program, values, options).run();
}

Tensor as_stored(const Value& value, const Tensor& tensor,
                 const StorageTypes& precision, int threads) {
  if (precision.arithmetic != Arithmetic::F32 || value.integers_below > 0 ||
      precision.storage == Storage::F32) {
    return tensor;
  }
  // Never write to what a file or the caller holds.
  Tensor own = copy(tensor);
  round_to(own, precision.storage, threads);
  return own;
}

Tensor cached_value(ValueCache& cache, ValueId v, Element element) {
  cache.singles.resize(cache.graph->values.size());
  cache.doubles.resize(cache.graph->values.size());
  Tensor& place = element == Element::F32 ? cache.singles[v] : cache.doubles[v];
  if (place.storage != nullptr) return place;
  const bool makes_single = !cache.exact && element == Element::F64;
  if (!makes_single && cache.singles[v].storage == nullptr &&
      cache.doubles[v].storage == nullptr) {
    cache.present.push_back(v);
  }
  if (cache.exact) {
    place = cache.read(v, Element::F64);
  } else if (element == Element::F32) {
    place = as_stored(cache.graph->values[v], cache.read(v, element),
                      {Arithmetic::F32, cache.storage}, cache.threads);
  } else {
    place = converted(cached_value(cache, v, Element::F32), Element::F64,
                      cache.threads);
  }
  return place;
}

void release_doubles(ValueCache& cache, int phase) {
  if (cache.exact) return;
  for (const ValueId v : cache.present) {
    if (cache.graph->values[v].kind != Value::Kind::Input &&
        !is_needed_soon(cache.lives->needed[v], phase)) {
      cache.doubles[v] = {};
    }
  }
}

void release_values(ValueCache& cache, int phase) {
  std::erase_if(cache.present, [&](ValueId v) {
    const std::vector<int>& needed = cache.lives->needed[v];
    const bool keep = cache.graph->values[v].kind == Value::Kind::Input
                          ? is_needed_later(needed, phase)
                          : is_needed_soon(needed, phase);
    if (keep) return false;
    cache.singles[v] = {};
    cache.doubles[v] = {};
    return true;
  });
}

PairedRuns::PairedRuns(const Program& of, const Lifetimes& of_values,
                       ValueCache& values, const ExecuteOptions& how)
    : program(of),
      lives(of_values),
      cache(values),
      options(how),
      unsharded{of.graph, reader(values, how.arithmetic), how.arithmetic,
                how.threads},
      sharded(of, of_values, reader(values, how.arithmetic), how) {}

void advance_unsharded(PairedRuns& runs, int phase) {
  const Graph& graph = *runs.program.graph;
  const NodeId n(phase);
  if (!graph.nodes.has(n)) return;
  evaluate_node(runs.unsharded, n);
  const ValueId result = graph.nodes[n].result;
  if (graph.values[result].is_integer() ||
      runs.options.storage == Storage::F32) {
    return;
  }
  std::vector<Tensor> operands;
  for (const ValueId operand : graph.nodes[n].operands) {
    operands.push_back(whole_of(runs.unsharded, operand));
  }
  const Tensor made = std::exchange(runs.unsharded.results[result], {});
  runs.unsharded.results[result] =
      stored_result(made, operands, runs.options.arithmetic,
                    runs.options.storage, runs.options.threads);
}

void release_results(PairedRuns& runs, int phase) {
  const PerNode<GraphNode>& nodes = runs.program.graph->nodes;
  for (; nodes.has(runs.seen) && runs.seen.number <= phase;
       ++runs.seen.number) {
    runs.present.push_back(nodes[runs.seen].result);
  }
  PerValue<Tensor>& results = runs.unsharded.results;
  std::erase_if(runs.present, [&](ValueId v) {
    if (is_needed_later(runs.lives.needed[v], phase)) return false;
    results[v] = {};
    return true;
  });
}

}  // namespace shardplan
