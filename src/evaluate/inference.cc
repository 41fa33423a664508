// SPDX-License-Identifier: Apache-2.0
#include "evaluate/inference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "activations/segments.h"
#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "cost/inference_pass.h"
#include "cost/inference_time.h"
#include "evaluate/step.h"
#include "evaluate/stored_weights.h"
#include "resolve/resolve.h"
#include "serve/weights.h"

namespace shardplan {
namespace {

std::string first_error(const Diagnostics& diags) {
  for (const Diagnostic& each : diags.all()) {
    if (each.severity == Severity::Error) return each.message;
  }
  return "its forward pass cannot be placed";
}

// A partitioned forward pass, and the facts about it that every timing needs.
class PartitionedPass {
 public:
  // Failures of partition() leave their reason in `why`.
  PartitionedPass(const InferenceQuestion& of, const Plan& plan,
                  const RuleSet* rules, const Diagnostics& like,
                  std::string& why)
      : of_(of),
        found_(like.fresh()),
        why_(why),
        steps_(of.memory, step(), of.model.manifest, plan, rules),
        dtype_(step().activation_dtype(of.memory.options.state)),
        stored_(of.model.manifest, of.card, dtype_,
                of.memory.options.state.param_dtype) {}

  const Steps& steps() const { return steps_; }

  bool partition(const Steps::Pass& pass) {
    auto forward = steps_.forward(pass, found_);
    if (!forward) {
      why_ = first_error(found_);
      return false;
    }
    forward_.emplace(*std::move(forward));
    number_of_.clear();
    for (size_t i = 0; i < forward_->manifest.size(); ++i) {
      number_of_.emplace(forward_->manifest.name(i), i);
    }
    SegmentOptions options;
    options.attention = AttentionKind::Flash;
    view_ = view_of(forward_->program.program, options);
    list_segments(options);
    return true;
  }

  const Program& program() const { return forward_->program.program; }
  Precision precision() const { return precision_in(dtype_); }
  double element_bytes() const { return bits_of(dtype_) / 8; }
  // Returns the model with its weights as matmuls read them, before experts are
  // stacked.
  const Model& computed() const {
    return step().dequantised ? *step().dequantised : of_.model;
  }

  // A parameter of the graph's manifest, and its index in computed().
  struct Found {
    const TensorType& type;
    size_t computed = 0;
    bool stacked = false;
    StoredWeight stored;
  };
  std::optional<Found> find(const std::string& parameter) {
    const auto at = number_of_.find(parameter);
    if (at == number_of_.end()) return std::nullopt;
    const TensorType& type = forward_->manifest.type(at->second);
    const size_t computed_at = forward_->computed[at->second];
    const TensorType& one = computed().manifest.type(computed_at);
    const size_t stored_at = forward_->stored != nullptr
                                 ? (*forward_->stored)[computed_at]
                                 : computed_at;
    return Found{type, computed_at, one.shape.size() != type.shape.size(),
                 stored_.of(stored_at, one.elements())};
  }

  // Returns a pass over these tokens, without the uses of weights, and with the
  // sizes of caches that are not per-head keys and values.
  InferencePass pass_over(const RunTokens& run, DType cached) const {
    InferencePass pass = {view_, of_.card};
    pass.precision = precision();
    pass.element_bytes = element_bytes();
    pass.run = run;
    pass.kv_bits = bits_of(cached);
    const auto layers = kv_layers(of_.model.manifest.facts);
    if (!layers) return pass;
    for (const KvLayer& layer : *layers) {
      if (layer.latent > 0) pass.latent = static_cast<double>(layer.latent);
      if (!layer.recurrent) continue;
      const auto numbers = static_cast<double>(layer.heads * layer.width);
      const double bytes = static_cast<double>(
          byte_count(1, layer.dtype.value_or(of_.kv.dtype)).value_or(2));
      // A layer may store several parts; the largest one is the state proper.
      pass.state_bytes = std::max(pass.state_bytes, numbers * bytes);
    }
    return pass;
  }
  // Returns how often each segment runs on these devices, for its time.
  InferenceTimeInput timed(const Program& devices) const {
    InferenceTimeInput input = {{devices, of_.card, precision()}};
    input.counts = counts_;
    input.labels = labels_;
    return input;
  }

  // Returns the bytes that one stage sends to the next for this many tokens.
  double handed_bytes(double tokens) const {
    for (const InstructionId i : view_.instructions()) {
      if (!view_.computes(i) || !view_.op(i).is_lookup) continue;
      const Shape& shape = view_.value(view_.at(i).result).shape;
      return static_cast<double>(shape.back()) * tokens * element_bytes();
    }
    return 0;
  }

 private:
  const StepModel& step() const { return *of_.passes.step; }

  // Counts how often each segment occurs; a partitioned layer may represent
  // several.
  void list_segments(const SegmentOptions& options) {
    const auto segments = segments_of(program(), options, {});
    counts_.assign(segments.size(), 0);
    labels_.clear();
    std::optional<size_t> first;
    for (size_t s = 0; s < segments.size(); ++s) {
      labels_.push_back(segments[s].is_layer ? folded_name(segments[s].label)
                                             : segments[s].label);
      if (segments[s].is_layer && !first) first = s;
      if (!segments[s].is_layer || !forward_->program.cycle) counts_[s] = 1;
    }
    if (!forward_->program.cycle || !first) return;
    for (int64_t layer = 0; layer < forward_->layers; ++layer) {
      const auto own = layer_for(*forward_->program.cycle, layer);
      counts_[*first + to_size(own)] += 1;
    }
  }

  const InferenceQuestion& of_;
  Diagnostics found_;  // problems here are not part of the report
  std::string& why_;
  Steps steps_;
  DType dtype_;  // of activations
  StoredWeights stored_;
  std::optional<Steps::Forward> forward_;
  std::unordered_map<std::string, size_t> number_of_;
  ProgramView view_;
  std::vector<double> counts_;
  std::vector<std::string> labels_;
};

std::string workload_text(double sequences, int64_t tokens, bool decodes) {
  const auto count = static_cast<int64_t>(sequences);
  return decodes ? "one token for each of " + plural(count, "sequence") +
                       " with " + count_text(tokens) + " cached tokens"
                 : plural(count, "prompt") + " of " + count_text(tokens) +
                       " tokens";
}

// --- As an engine does it.

// An engine's layout of a model: how it shards each weight, derived from the
// dimension labels of the architecture.
class EngineCuts {
 public:
  EngineCuts(const Serving& serving, const Model& computed)
      : serving_(serving),
        served_(served_weights(computed)),
        computed_(computed) {}

  bool is_known() const { return served_.has_value(); }
  bool shares_experts() const {
    const EngineMesh& mesh = serving_.mesh;
    return mesh.dp > 1 &&
           (serving_.engine->experts_over_dp || mesh.dp_attention);
  }
  AxisNames axes(bool over_groups) const {
    AxisNames axes;
    if (over_groups && serving_.mesh.dp > 1) axes.emplace_back("dp");
    if (serving_.mesh.tp > 1) axes.emplace_back("tp");
    return axes;
  }

  WeightUse of(const PartitionedPass::Found& found,
               const std::string& parameter) const {
    WeightUse use = {found.stored.bits, found.stored.precision};
    const Folding& folding = *served_->folding;
    const uint32_t number = folding.class_of[found.computed];
    const ParameterClass& c = folding.classes[number];
    const std::string& name = folding.folded_names[c.folded];
    const bool expert = is_expert_name(name);
    const Shape& shape = computed_.manifest.type(found.computed).shape;
    if (found.stacked) use.cuts.push_back(cut_of_experts());
    // SGLang's data-parallel attention replicates vocabulary tables other than
    // the head on every rank.
    if (contains(parameter, "embed") && serving_.mesh.dp_attention &&
        serving_.mesh.dp > 1) {
      return use;
    }
    for (const auto& dims :
         served_parameter(*served_->kinds[number], shape, expert,
                          served_->grouped_experts)) {
      double size = 0;
      double held = 0;
      WeightCut cut;
      for (const ServedDim& dim : dims) {
        const int64_t degree = degree_of(dim.role, serving_.layout);
        size += static_cast<double>(dim.size);
        held += static_cast<double>(
            held_elements(dim, degree, serving_.engine->vocab_multiple));
        describe(dim.role, degree, use, cut);
      }
      if (held > 0) cut.parts = std::max(size / held, 1.0);
      use.cuts.push_back(std::move(cut));
    }
    return use;
  }

 private:
  WeightCut cut_of_experts() const {
    WeightCut cut;
    const int64_t degree = degree_of(DimRole::Experts, serving_.layout);
    cut.parts = static_cast<double>(degree);
    if (degree > 1) cut.axes = axes(shares_experts());
    return cut;
  }
  void describe(DimRole role, int64_t degree, WeightUse& use,
                WeightCut& cut) const {
    const bool is_dense =
        serving_.layout.has_view("dense") &&
        (role == DimRole::Dense || role == DimRole::Vocabulary);
    switch (role) {
      case DimRole::Heads:
      case DimRole::KvHeads:
      case DimRole::StateGroups:
        use.attention = true;
        if (degree > 1) cut.axes = axes(false);
        return;
      case DimRole::Vocabulary:
        use.vocabulary = true;
        [[fallthrough]];
      case DimRole::Dense:
        use.all_groups = is_dense;
        if (degree > 1) cut.axes = axes(is_dense);
        return;
      case DimRole::Width:
      case DimRole::Experts:
        use.all_groups = shares_experts();
        if (degree > 1) cut.axes = axes(shares_experts());
        return;
      case DimRole::Whole:
        return;
    }
  }

  const Serving& serving_;
  std::optional<ServedWeights> served_;
  const Model& computed_;
};

// Tokens in the program that is partitioned once and priced for any token
// count.
constexpr int64_t kProgramTokens = 16;

class EngineTimer {
 public:
  EngineTimer(const InferenceQuestion& of, const Serving& serving,
              PartitionedPass& model, const EngineCuts& cuts, std::string& why)
      : of_(of),
        serving_(serving),
        model_(model),
        cuts_(cuts),
        why_(why),
        devices_{Mesh(serving.layout.axes()), model.program().graph},
        places_(of.card, devices_, nullptr) {}

  std::optional<StageTimes> pass(const RunTokens& run) {
    InferencePass pass = model_.pass_over(run, serving_.kv_dtype);
    pass.program_tokens = static_cast<double>(kProgramTokens);
    pass.weight = [&](const std::string& name) {
      const auto found = model_.find(name);
      return found ? cuts_.of(*found, name) : WeightUse();
    };
    if (cuts_.shares_experts()) {
      pass.expert_groups = static_cast<double>(serving_.mesh.dp);
      pass.expert_axes = cuts_.axes(true);
    }
    const auto segments = price_inference(pass, why_);
    if (segments.empty()) return std::nullopt;
    InferenceTimeInput input = model_.timed(devices_);
    input.launches = of_.eager() ? Launches::Each : Launches::Hidden;
    input.sums_in_kernels = true;
    const double overhead = serving_.engine->pass_overhead;
    input.overhead = {0, overhead, kSlowestOverhead};
    if (serving_.mesh.pp > 1) {
      input.stage_axis = {"pp"};
      input.stages = static_cast<double>(serving_.mesh.pp);
      input.handed_bytes = model_.handed_bytes(run.tokens());
    }
    return inference_times(input, segments, places_, why_);
  }

  StepTime composed(const StageTimes& times, double tokens) {
    TimedRun run = {devices_, of_.card, model_.precision()};
    run.tokens = static_cast<int64_t>(tokens);
    return composed_time(run, {}, times, places_);
  }

 private:
  // Seconds that releases without asynchronous scheduling spend between passes:
  // vLLM 0.5 spent most of a 25-millisecond step outside the GPU.
  static constexpr double kSlowestOverhead = 1e-2;

  const InferenceQuestion& of_;
  const Serving& serving_;
  PartitionedPass& model_;
  const EngineCuts& cuts_;
  std::string& why_;
  Program devices_;
  LinkPlaces places_;
};

Seconds total_of(const StageTimes& times) {
  return {times.of[0].front().microbatch(), times.of[1].front().microbatch(),
          times.of[2].front().microbatch()};
}

// Sets both times of an engine under a continuous workload: whenever a request
// ends, the next one begins.
void schedule(EngineTimer& timer, const Serving& serving,
              const ServedWorkload& workload, double running, double waiting,
              InferenceTimes& answer) {
  const auto groups = static_cast<double>(serving.mesh.dp);
  const auto input = static_cast<double>(workload.input);
  const auto output = static_cast<double>(workload.output);
  const RunTokens decoding = {.decoding = running,
                              .context = input + output / 2};
  const auto decode = timer.pass(decoding);
  if (!decode) return;
  // The prompt tokens of other requests that arrive per generated token of a
  // sequence. They form one prompt in some passes, or several prompts in every
  // pass.
  const auto budget = static_cast<double>(serving.settings.batched_tokens);
  const double arriving = (running - 1) * input / std::max(output, 1.0);
  const bool mixes = serving.engine->mixes_prompts;
  const double room = std::max(budget - (mixes ? running : 0), 1.0);
  const double chunk = std::min(std::max(input, arriving), room);
  RunTokens both = mixes ? decoding : RunTokens();
  both.length = std::min(chunk, input);
  both.prompts = chunk / both.length;
  both.before = chunk < input ? (input - chunk) / 2 : 0;
  const auto mixed_pass = timer.pass(both);
  if (!mixed_pass) return;
  const double often = arriving / chunk;
  const double share = mixes ? std::min(often, 1.0) : often;
  const double rest = mixes ? 1 - share : 1;
  const StageTimes token =
      summed({{*decode, {1, rest, rest}}, {*mixed_pass, {0, share, share}}});
  // The fullest group decides how long a pass takes; other groups may have one
  // request fewer.
  answer.next_token = timer.composed(
      token,
      std::min(running * groups, static_cast<double>(workload.concurrency)));

  // The first token waits for the passes of its own prompt and of the prompts
  // ahead of it.
  const double chunks = std::ceil(input / room);
  const double length = input / chunks;
  const RunTokens alone = {
      .prompts = 1, .length = length, .before = (input - length) / 2};
  const auto prefill = timer.pass(alone);
  if (!prefill) return;
  RunTokens beside = alone;
  beside.decoding = mixes ? std::max(running - 1, 0.0) : 0;
  beside.context = decoding.context;
  const auto shared = beside.decoding > 0 ? timer.pass(beside) : prefill;
  if (!shared) return;
  const double own = chunks * total_of(*shared).estimate;
  // Prompts ahead: on average a prompt in progress is half done, weighted by
  // the fraction of time in which prompts are processed.
  const double busy = std::min(
      1.0, running * own / (own + output * answer.next_token->total.estimate));
  const double ahead = std::min((running - 1) / 2, busy / 2 * (running - 1));
  // Before that, a request that waits for a slot lets others finish.
  const double turns = output * waiting / running;
  const StageTimes first =
      summed({{*prefill, {chunks, 0, 0}},
              {*shared, {0, chunks * (1 + ahead) + 0.5, chunks * running + 1}},
              {token, {0, turns, 2 * turns}}});
  answer.first_token = timer.composed(first, input);
}

// Returns the sequences that one group generates at once, at most `wanted`. The
// others wait for room in the cache or for their turn.
double running_sequences(const Serving& serving, double wanted) {
  const double cached = std::floor(serving.group_sequences(1));
  return std::min(
      {wanted, cached, static_cast<double>(serving.settings.sequences)});
}

std::optional<StepTime> time_on_plan(const InferenceQuestion& of,
                                     PartitionedPass& model,
                                     const Steps::Pass& pass, double stages,
                                     const RunTokens& run, std::string& why) {
  InferencePass priced = model.pass_over(run, of.kv.dtype);
  priced.program_sequences = static_cast<double>(pass.sequences);
  priced.program_tokens =
      static_cast<double>(pass.sequences) * static_cast<double>(pass.tokens);
  priced.weight = [&](const std::string& name) {
    const auto found = model.find(name);
    return found ? WeightUse{found->stored.bits, found->stored.precision}
                 : WeightUse();
  };
  const auto segments = price_inference(priced, why);
  if (segments.empty()) return std::nullopt;
  InferenceTimeInput input = model.timed(model.program());
  input.renames_axes = true;
  input.launches = of.eager() ? Launches::Each : Launches::Unknown;
  if (stages > 1) {
    const AxisName& axis = of.memory.options.stages->axis;
    input.stage_axis = parts_of(model.program().mesh, axis);
    input.stages = stages;
    input.handed_bytes = model.handed_bytes(run.tokens());
  }
  LinkPlaces places(of.card, model.program(), nullptr);
  const auto times = inference_times(input, segments, places, why);
  if (!times) return std::nullopt;
  input.tokens = of.kv.batch * (of.kv.prefill ? of.kv.seq : 1);
  return composed_time(input, {}, *times, places);
}

}  // namespace

InferencePasses inference_passes(const Model& model, const Diagnostics& like) {
  InferencePasses passes;
  const auto layers = kv_layers(model.manifest.facts);
  if (layers && std::ranges::any_of(*layers, [](const KvLayer& layer) {
        return layer.source != 0;
      })) {
    passes.untimed = "a decoder with cross-attention is not modelled";
    return passes;
  }
  Diagnostics found = like.fresh();  // problems here are not part of the report
  const TrainedParameters none(model.manifest.size(), false);
  passes.step = step_model(model, none, found);
  if (!passes.step) {
    passes.untimed = first_error(found);
  } else if (passes.step->runnable == nullptr) {
    passes.untimed = std::string(kPassUntimed);
  }
  return passes;
}

InferenceTimes plan_inference(const InferenceQuestion& question,
                              const Plan& plan, const RuleSet* rules,
                              const Diagnostics& like) {
  InferenceTimes answer;
  const KvRequest& asked = question.kv;
  const bool decodes = !asked.prefill;
  answer.workload =
      workload_text(static_cast<double>(asked.batch), asked.seq, decodes);
  answer.untimed = question.passes.untimed;
  if (!answer.untimed.empty()) return answer;
  PartitionedPass model(question, plan, rules, like, answer.untimed);
  const Steps& steps = model.steps();
  if (decodes && !steps.axes().sequence.empty()) {
    answer.untimed = "attention over tokens sharded over " +
                     text_of(steps.axes().sequence) +
                     " is not modelled: leave these out of `--sequence-axes`";
    return answer;
  }
  const Steps::Pass pass =
      steps.pass_of({asked.batch, decodes ? 1 : asked.seq}, 1);
  if (!model.partition(pass)) return answer;
  RunTokens run;
  const auto sequences = static_cast<double>(pass.sequences);
  if (decodes) {
    run.decoding = sequences;
    run.context = static_cast<double>(asked.seq);
  } else {
    run.prompts = sequences;
    run.length = static_cast<double>(pass.tokens);
    run.before = (static_cast<double>(asked.seq) - run.length) / 2;
  }
  const auto& stages = question.memory.options.stages;
  const double count =
      stages ? static_cast<double>(plan.mesh.size_of(stages->axis)) : 1;
  (decodes ? answer.next_token : answer.first_token) =
      time_on_plan(question, model, pass, count, run, answer.untimed);
  return answer;
}

InferenceTimes engine_inference(const InferenceQuestion& question,
                                const Serving& serving,
                                const Diagnostics& like) {
  InferenceTimes answer;
  if (!serving.uncounted.empty()) {
    answer.untimed = serving.uncounted + " is not counted";
  } else if (!serving.draft.empty()) {
    answer.untimed =
        "the acceptance rate of draft tokens is not known in advance";
  } else if (!serving.problems.empty()) {
    answer.untimed = "the engine does not start";
  } else {
    answer.untimed = question.passes.untimed;
  }
  if (!answer.untimed.empty()) return answer;
  const auto& workload = question.memory.serving->workload;
  const int64_t asked = workload ? workload->concurrency : serving.batch;
  const auto wanted = static_cast<double>(ceil_div(asked, serving.mesh.dp));
  const double running = running_sequences(serving, wanted);
  if (running < 1) {
    answer.untimed = "the cache cannot hold one sequence";
    return answer;
  }
  RuleSet whole;  // places every parameter unsharded, on one device
  whole.rules.emplace_back().pattern = ".*";
  Diagnostics quiet = like.fresh();
  const auto plan = resolve(question.model.manifest, whole, Mesh({{"tp", 1}}),
                            ResolveOptions(), quiet);
  if (!plan) {
    answer.untimed = "its forward pass cannot be placed";
    return answer;
  }
  PartitionedPass model(question, *plan, &whole, like, answer.untimed);
  Steps::Pass pass = {.sequences = 1, .tokens = kProgramTokens};
  pass.pass.batch = 1;
  pass.pass.length = kProgramTokens;
  if (!model.partition(pass)) return answer;
  const EngineCuts cuts(serving, model.computed());
  if (!cuts.is_known()) {
    answer.untimed = "dimensions of its parameters have no labels";
    return answer;
  }
  EngineTimer timer(question, serving, model, cuts, answer.untimed);
  const double all = std::min(running * static_cast<double>(serving.mesh.dp),
                              static_cast<double>(asked));
  if (workload) {
    schedule(timer, serving, *workload, running, wanted - running, answer);
    answer.workload = plural(workload->concurrency, "concurrent request") +
                      ", each with " + count_text(workload->input) +
                      " input and " + count_text(workload->output) +
                      " output tokens";
    if (running < wanted) {
      answer.workload += "; " + count_text(static_cast<int64_t>(running)) +
                         (serving.mesh.dp > 1 ? " per group" : "") +
                         " run at once, the others wait";
    }
    return answer;
  }
  const RunTokens run = {.decoding = running,
                         .context = static_cast<double>(serving.seq)};
  const auto times = timer.pass(run);
  if (!times) return answer;
  answer.next_token = timer.composed(*times, all);
  answer.workload = workload_text(all, serving.seq, true);
  return answer;
}

}  // namespace shardplan
