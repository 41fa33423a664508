// SPDX-License-Identifier: Apache-2.0
#include "evaluate/step.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>

#include "activations/saved_values.h"
#include "activations/step_memory.h"
#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "core/facts.h"
#include "core/partition_axis.h"
#include "evaluate/fit.h"
#include "evaluate/stored_weights.h"
#include "evaluate/torch_class.h"
#include "model/forward/parameter_names.h"
#include "model/quant_scales.h"
#include "model/units.h"
#include "sim/activations.h"

namespace shardplan {
namespace {

// Looks `field` up in the rules' axis table, else in the default table.
AxisNames axes_of_field(const RuleSet& rules, std::string_view field) {
  Diagnostics quiet;
  auto table = rules.partition_axis;
  if (!table) table = resolve_partition_axis(default_partition_axis(), quiet);
  const auto number = find_partition_field(field);
  if (!table || !number || !(*table)[*number]) return {};
  return (*table)[*number]->axes;
}

// Returns the rules; for a saved plan, what it records of them: the declared
// axes, no tables.
RuleSet rules_of(const Plan& plan, const RuleSet* rules) {
  if (rules != nullptr) return *rules;
  RuleSet recorded;
  recorded.declared_axes = plan.declared_axes;
  return recorded;
}

bool is_stage_axis(const AskedMemory& asked, const AxisName& axis) {
  return asked.options.stages && asked.options.stages->axis == axis;
}

// Returns the requested axes, else the rules' axes; without a requested batch
// axis also every axis with the name of a data-parallel one.
WorkloadAxes axes_of_workload(const AskedMemory& asked, const RuleSet& rules,
                              const Mesh& mesh) {
  WorkloadAxes axes;
  const auto asked_or_field = [&](const AxisNames& given, const char* field) {
    return given.empty() ? axes_of_field(rules, field) : given;
  };
  const AxisNames batch = asked_or_field(asked.axes.batch, "batch_axis");
  AxisNames sequence = asked_or_field(asked.axes.sequence, "sequence_axis");
  sequence.insert(sequence.end(), asked.ulysses_axes.begin(),
                  asked.ulysses_axes.end());
  for (const Axis& axis : mesh.axes()) {
    if (axis.size == 1 || is_stage_axis(asked, axis.name)) continue;
    const bool given = contains(batch, axis.name);
    const bool called = asked.axes.batch.empty() &&
                        is_gathered_axis(axis.name) &&
                        !contains(sequence, axis.name);
    if (given || called) {
      axes.batch.push_back(axis.name);
    } else if (contains(sequence, axis.name)) {
      axes.sequence.push_back(axis.name);
    }
  }
  return axes;
}

// Returns the rules with tables that shard values as the workload is sharded.
RuleSet rules_with(const RuleSet& rules, const WorkloadAxes& axes,
                   const AskedMemory& asked, const Mesh& mesh) {
  AxisNames known = axes.batch;
  known.insert(known.end(), axes.sequence.begin(), axes.sequence.end());
  if (asked.options.stages) known.push_back(asked.options.stages->axis);
  RuleSet changed = with_assumed_axes(rules, mesh, known);
  const auto set = [&](std::string_view field, const AxisNames& names) {
    const auto number = find_partition_field(field);
    if (!changed.partition_axis || !number) return;
    (*changed.partition_axis)[*number] = AxisValue{names, names.size() != 1};
  };
  set("batch_axis", axes.batch);
  set("sequence_axis", axes.sequence);
  set("query_sequence_axis", axes.sequence);
  return changed;
}

std::vector<std::pair<TensorType, bool>> adapters_of(
    const Manifest& manifest, const TrainedParameters& trained) {
  std::vector<std::pair<TensorType, bool>> adapters;
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (adapter_part(manifest.name(i)).empty()) continue;
    std::pair one(manifest.type(i), trained.empty() || trained[i]);
    // The bytes per element follow from the dtype alone.
    one.first.shape = {};
    if (!contains(adapters, one)) adapters.push_back(std::move(one));
  }
  return adapters;
}

bool has_stack_adapters(const Manifest& manifest) {
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (is_stack_adapter(manifest.name(i))) return true;
  }
  return false;
}

// Returns whether shapes may replace the forward pass: none is known, or the
// config asks for one that is not supported. Any other config error also
// affects shapes.
bool may_go_by_shapes(const Diagnostics& recognised) {
  return std::ranges::all_of(recognised.all(), [](const Diagnostic& each) {
    return each.severity != Severity::Error ||
           each.code == Code::UnknownFamily ||
           each.code == Code::UnsupportedConfig;
  });
}

// Returns the model that the config describes without its quantisation.
std::optional<DequantisedModel> dequantised(const Model& of,
                                            const std::vector<bool>& frozen,
                                            Diagnostics& diags) {
  const Manifest& manifest = of.manifest;
  if (manifest.config == nullptr) {
    const size_t weight = to_size(quantised_weight(manifest));
    return diags
        .error(Code::UnsupportedConfig, manifest.where(weight),
               in_backticks(manifest.name(weight)) +
                   " is stored quantised, as " +
                   type_text(manifest.type(weight)) +
                   ", and needs a config to be interpreted")
        .help("put the model's config.json next to it");
  }
  const Model* const plain = of.unquantised(diags);
  if (plain == nullptr) return std::nullopt;
  return dequantised_model(manifest, plain->manifest, frozen, diags);
}

// Reports why the forward pass is unknown, and why shapes are not enough.
void report_unknown(const Diagnostics& recognised, const std::string& why,
                    Diagnostics& diags) {
  diags.add_sources(recognised);
  for (Diagnostic each : recognised.all()) {
    if (each.severity == Severity::Error) {
      each.facts.push_back("shapes do not determine what backward keeps: " +
                           why);
    }
    diags.add(std::move(each));
  }
}

}  // namespace

DType most_stored_dtype(const Manifest& manifest) {
  std::map<DType, Int128> elements;
  for (size_t i = 0; i < manifest.size(); ++i) {
    elements[manifest.type(i).dtype] += manifest.type(i).elements();
  }
  const auto most = std::ranges::max_element(
      elements, {}, &decltype(elements)::value_type::second);
  if (most == elements.end()) return DType::F32;
  const DType dtype = most->first;
  const bool known =
      dtype == DType::F64 || dtype == DType::F32 || dtype == DType::F16;
  // Matmuls with quantised weights use 16-bit activations.
  return known ? dtype : DType::BF16;
}

std::string_view bracket_source_name(BracketSource from) {
  return from == BracketSource::Shapes ? "shapes" : "forward_pass";
}

DType StepModel::activation_dtype(const StateOptions& state) const {
  if (state.autocast) return state.compute_dtype.value_or(DType::BF16);
  if (state.compute_dtype) return *state.compute_dtype;
  // Frozen parameters are the majority, and keep their own dtype.
  if (state.param_dtype && frozen.empty()) return *state.param_dtype;
  return most_stored;
}

StepOptions StepModel::sized(StepOptions step, const StateOptions& state,
                             const std::optional<std::string>& hardware,
                             bool has_stages) const {
  const FrameworkDef& framework = *step.framework;
  SegmentOptions& how = step.segments;
  // Bytes per element, which is a whole number for every dtype that computes.
  how.element_bytes = byte_count(1, activation_dtype(state)).value_or(1);
  how.adapter_bytes = 0;
  for (const auto& [type, is_trained] : adapters) {
    const DType dtype = stored_type(type, state, is_trained).dtype;
    how.adapter_bytes =
        std::max(how.adapter_bytes, byte_count(1, dtype).value_or(0));
  }
  how.autocast = state.autocast;
  if (step.drops_out.value_or(false)) {
    how.dropout = {.embeddings = true,
                   .attention = true,
                   .mlp = true,
                   .scores = true,
                   .adapters = true};
  }
  how.loss = framework.loss;
  how.softmax_in_place = framework.softmax_in_place;
  how.native_kernels = framework.native_kernels;
  how.silu_steps = framework.silu_steps;
  how.gelu_steps = framework.gelu_steps;
  how.repeats_heads = framework.repeats_heads;
  how.weighs_in_experts = framework.weighs_in_experts;
  // A request without hardware means an accelerator.
  const bool is_cpu = hardware == "cpu";  // rules/hardware/cpu.yaml
  if (framework.widens_on_cpu && is_cpu) {
    how.in_float32 = {framework.is_known(), true, true};
  }
  // Shapes do not show what autocast leaves in float32.
  if (state.autocast && runnable == nullptr) how.in_float32[2] = true;
  if (step.kernels == Kernels::Any) step.kernels = framework.kernels;
  if (framework.stacks_gradients && step.kernels == Kernels::Eager &&
      runnable != nullptr && !has_stages) {
    how.is_eager = runs_known_operations(*runnable);
    how.norms_read_copies = true;
    how.norms_round_first = true;
    how.kernels_repeat_heads = is_cpu;
    how.softmax_in_float32 = true;
    how.saves_all_named = false;
  }
  if (framework.runs_classes && runnable != nullptr && !has_stages) {
    run_torch_class(*runnable, is_cpu, step);
  }
  return step;
}

std::vector<bool> frozen_of(const Manifest& manifest,
                            const TrainedParameters& trained) {
  if (!contains(trained, false)) return {};
  std::vector<bool> frozen(trained.size());
  for (size_t i = 0; i < trained.size(); ++i) {
    frozen[i] = !trained[i] || !is_trainable(manifest.type(i).dtype);
  }
  return frozen;
}

std::optional<StepModel> step_model(const Model& of,
                                    const TrainedParameters& trained,
                                    Diagnostics& diags) {
  StepModel model;
  model.frozen = frozen_of(of.manifest, trained);
  if (quantised_weight(of.manifest) >= 0) {
    model.dequantised = dequantised(of, model.frozen, diags);
    if (!model.dequantised) return std::nullopt;
  }
  model.adapters = adapters_of(of.manifest, trained);
  const Model& computed = model.dequantised ? *model.dequantised : of;
  model.runnable = computed.forward();
  model.recognised = &computed.recognised();
  if (model.runnable != nullptr) {
    // Adapters of stacks cover all experts at once.
    const bool has_stacks =
        !model.adapters.empty() && has_stack_adapters(computed.manifest);
    model.stacked = stacked_experts(
        computed.manifest,
        model.dequantised ? model.dequantised->frozen : model.frozen,
        has_stacks ? 2 : kFewestStacked);
  }
  // Shapes do not show what adapters read.
  const bool unknown =
      model.runnable == nullptr &&
      (!model.adapters.empty() || !may_go_by_shapes(*model.recognised));
  if (model.runnable != nullptr || unknown) computed.report_recognised(diags);
  if (unknown) return std::nullopt;
  model.most_stored = most_stored_dtype(computed.manifest);
  return model;
}

AxisNames step_token_axes(const AskedMemory& asked, const RuleSet* rules,
                          const Mesh& mesh) {
  const RuleSet none;
  const RuleSet& given = rules != nullptr ? *rules : none;
  AxisNames axes = axes_of_workload(asked, given, mesh).sequence;
  const AxisNames heads = axes_of_field(given, "head_axis");
  erase_if(axes, [&](const AxisName& axis) { return contains(heads, axis); });
  return axes;
}

Steps::Steps(const AskedMemory& asked, const StepModel& model,
             const Manifest& manifest, const Plan& plan, const RuleSet* rules)
    : asked_(asked),
      model_(model),
      manifest_(manifest),
      plan_(plan),
      rules_(rules_of(plan, rules)),
      axes_(axes_of_workload(asked, rules_, plan.mesh)),
      placed_by_(rules_with(rules_, axes_, asked, plan.mesh)) {
  if (model_.dequantised) {
    dequantised_ =
        dequantised_plan(*model_.dequantised, manifest_, plan_, undequantised_);
  }
  if (model_.stacked && (dequantised_ || !model_.dequantised)) {
    stacked_ = stacked_plan(*model_.stacked, computed_plan());
  }
}

Steps::Pass Steps::pass_of(const Workload& workload,
                           int64_t microbatches) const {
  Pass result;
  const int64_t batch = shard_count(plan_.mesh, axes_.batch);
  const int64_t sequence = shard_count(plan_.mesh, axes_.sequence);
  const int64_t all = ceil_div(workload.batch, microbatches);
  result.sequences = ceil_div(all, batch);
  result.tokens = ceil_div(workload.seq, sequence);
  result.pass.batch = result.sequences * batch;
  result.pass.length = result.tokens * sequence;
  if (!plan_.mesh.views().empty()) result.pass.token_groups = sequence;
  if (asked_.source_seq) {
    result.pass.target_length = result.pass.length;
    result.pass.length = ceil_div(*asked_.source_seq, sequence) * sequence;
  }
  return result;
}

std::vector<DivisionProblem> Steps::refused(const Workload& workload,
                                            const StepOptions& step,
                                            const StagePlan* stages) const {
  const Mesh& mesh = plan_.mesh;
  const Facts& facts = manifest_.facts;
  const AxisNames heads = axes_of_field(rules_, "head_axis");
  Divisions divisions;
  divisions.count(Divided::Batch) = workload.batch;
  divisions.count(Divided::Tokens) = workload.seq;
  divisions.count(Divided::Heads) = facts.heads.value_or(0);
  divisions.count(Divided::KvHeads) =
      facts.kv_heads.value_or(facts.heads.value_or(0));
  count_states(manifest_, divisions);
  divisions.degree(Degree::Data) = shard_count(mesh, axes_.batch);
  divisions.degree(Degree::Microbatches) = step.microbatches;
  for (const Axis& axis : mesh.axes()) {
    if (contains(axes_.batch, axis.name) || is_stage_axis(asked_, axis.name)) {
      continue;
    }
    const bool ulysses = contains(asked_.ulysses_axes, axis.name);
    const bool tensor =
        !ulysses && (contains(heads, axis.name) || is_tensor_axis(axis.name));
    if (tensor) divisions.degree(Degree::Tensor) *= axis.size;
    if (!contains(axes_.sequence, axis.name)) continue;
    divisions.degree(ulysses  ? Degree::Ulysses
                     : tensor ? Degree::Sequence
                              : Degree::Context) *= axis.size;
  }
  if (stages != nullptr && step.schedule == PipelineSchedule::Interleaved) {
    const int64_t group = step.group_with(stages->stages);
    divisions.degree(Degree::Stages) = stages->stages;
    divisions.degree(Degree::Chunks) = step.chunks;
    divisions.degree(Degree::Group) = group;
    divisions.count(Divided::Group) = group;
    divisions.count(Divided::Microbatches) = step.microbatches;
    count_stage_layers(stages->layers_of_stages(), step.chunks, stages->named,
                       divisions);
  }
  return division_problems(divisions, step.framework->name);
}

bool Steps::has_plan(Diagnostics& diags) const {
  if (!model_.dequantised || dequantised_) return true;
  diags.add_all(undequantised_);
  return false;
}

StepOptions Steps::of_program(StepOptions step) const {
  step.segments.experts_one_by_one = is_stacked_;
  return step;
}

std::optional<StepLayers> Steps::layers_of(const Workload& workload,
                                           const StepOptions& step,
                                           Diagnostics& diags) {
  const Pass pass = pass_of(workload, step.microbatches);
  if (!partition(pass, diags)) return std::nullopt;
  const StepOptions own = of_program(step);
  if (plain_of_ != own.segments) {
    plain_ = segments_of(program_->program, own.segments, {});
    plain_of_ = own.segments;
  }
  if (!has_modules(own, diags)) return std::nullopt;
  std::optional<StepLayers> layers =
      step_layers(*forward_, *program_, own, plain_);
  if (is_stacked_) {
    layers->layer_of = of_parts(*model_.stacked, layers->layer_of);
  }
  return layers;
}

StepTimeInput Steps::timed(const StepInput& input, const Workload& workload,
                           const HardwareProfile& card) const {
  StepTimeInput timed = {{program_->program, card}, input};
  timed.precision = precision_in(model_.activation_dtype(input.options.state));
  timed.tokens = workload.batch * workload.seq;
  timed.hide = asked_.hide;
  return timed;
}

std::optional<LeastPass> Steps::least_pass(
    const Workload& workload, const BudgetOptions& how, const Budget& budget,
    const StepOptions& step, const SharedWork& shared,
    const HardwareProfile& card, Diagnostics& diags) {
  if (!has_plan(diags)) return std::nullopt;
  const auto layers = layers_of(workload, step, diags);
  if (!layers) return std::nullopt;
  const StepInput input = {manifest_, plan_, budget, how, *layers};
  StepTimeInput bounded = timed(input, workload, card);
  bounded.shared = shared;
  std::string why;
  return shardplan::least_pass(bounded, of_program(step), why);
}

std::optional<JudgedStep> Steps::judge(
    const Workload& workload, const BudgetOptions& how, const Budget& budget,
    const StepOptions& step, const HardwareProfile* card, Diagnostics& diags) {
  if (!has_plan(diags)) return std::nullopt;
  std::optional<StepLayers> layers;
  if (model_.runnable != nullptr) {
    layers = layers_of(workload, step, diags);
    if (!layers) return std::nullopt;
  } else if (step.segments.fp8 != nullptr && step.segments.fp8->saves_inputs) {
    report_unknown(*model_.recognised,
                   "`--fp8` depends on what each matmul reads", diags);
    return std::nullopt;
  } else {
    ShapedLayers shaped = by_shapes(workload, step);
    if (!shaped.unknown.empty()) {
      report_unknown(*model_.recognised, shaped.unknown, diags);
      return std::nullopt;
    }
    layers = std::move(shaped.layers);
  }
  layers->frozen = model_.frozen;
  std::vector<Int128> saved_dequantised;
  if (dequantised_ && model_.dequantised->saves_dequantised) {
    for (size_t i = 0; i < layers->layer_of.size(); ++i) {
      if (layers->layer_of[i] < 0) continue;
      const size_t layer = to_size(layers->layer_of[i]);
      if (layer >= saved_dequantised.size())
        saved_dequantised.resize(layer + 1);
      saved_dequantised[layer] +=
          dequantised_->numbers[i] * step.segments.element_bytes;
    }
  }
  if (model_.dequantised) {
    layers->layer_of =
        stored_layers(*model_.dequantised, manifest_, layers->layer_of);
  }
  StepInput input = {manifest_, plan_, budget, how, *layers};
  const Pass pass = pass_of(workload, step.microbatches);
  const int64_t sequence = shard_count(plan_.mesh, axes_.sequence);
  input.tokens = Int128{pass.sequences} * (pass.pass.length / sequence);
  input.token_pairs = input.tokens * pass.pass.length;
  if (dequantised_) {
    input.dequantised = dequantised_->largest * step.segments.element_bytes;
    input.saved_dequantised = std::move(saved_dequantised);
  }
  auto bracket = step_memory(input, step, diags);
  if (!bracket) return std::nullopt;
  JudgedStep judged;
  judged.bracket = *std::move(bracket);
  judged.fit = fit_of(budget, &judged.bracket);
  judged.refused =
      refused(workload, step, budget.stages ? &*budget.stages : nullptr);
  if (card == nullptr) return judged;
  if (model_.runnable == nullptr) {
    judged.untimed = std::string(kPassUntimed);
    return judged;
  }
  StepTimeInput timed = this->timed(input, workload, *card);
  if (asked_.on_slices) {
    const auto& axes = plan_.mesh.axes();
    const auto known = std::ranges::find_if(
        asked_.sliced,
        [&](const SlicedMesh& sliced) { return sliced.mesh.axes() == axes; });
    if (known == asked_.sliced.end() || timed.program.mesh.axes() != axes) {
      judged.untimed = std::string(kSlicesUntimed);
      return judged;
    }
    timed.slices = &*known->slices;
  }
  judged.time = step_time(timed, of_program(step), judged.untimed);
  return judged;
}

std::optional<Steps::Forward> Steps::forward(const Pass& pass,
                                             Diagnostics& diags) {
  if (!has_plan(diags)) return std::nullopt;
  if (!partition(pass, diags)) return std::nullopt;
  Forward result = {*program_,
                    is_stacked_ ? model_.stacked->manifest : computed(),
                    forward_->layers};
  result.computed.resize(result.manifest.size());
  for (size_t i = 0; i < result.computed.size(); ++i) {
    result.computed[i] = is_stacked_ ? model_.stacked->first[i] : i;
  }
  if (model_.dequantised) result.stored = &model_.dequantised->stored;
  return result;
}

ShapedLayers Steps::by_shapes(const Workload& workload,
                              const StepOptions& step) const {
  const Pass pass = pass_of(workload, step.microbatches);
  ShapedWorkload shaped;
  shaped.sequences = pass.sequences;
  shaped.source_length = pass.pass.length;
  shaped.length = pass.pass.target_length.value_or(pass.pass.length);
  shaped.batch = axes_.batch;
  shaped.sequence = axes_.sequence;
  for (const Axis& axis : plan_.mesh.axes()) {
    if (is_gathered_axis(axis.name) || contains(axes_.sequence, axis.name)) {
      shaped.gathered.push_back(axis.name);
    }
  }
  shaped.experts_per_token = manifest_.facts.experts_per_token;
  shaped.frozen = frozen();
  return layers_by_shapes(computed(), computed_plan(), shaped, step);
}

// Reports modules that are to be recomputed but that no layer has.
bool Steps::has_modules(const StepOptions& step, Diagnostics& diags) const {
  const RematPolicy* const policy = step.remat.policy;
  if (policy == nullptr || policy->modules.empty()) return true;
  const auto absent =
      absent_modules(view_of(program_->program, step.segments), *policy);
  for (const std::string_view module : absent) {
    diags
        .error(Code::Usage, {},
               "`--remat " + remat_text(step.remat) +
                   "`: no layer of this model has a module " +
                   in_backticks(module) + " that Megatron-LM recomputes")
        .help("leave it out: it has no effect here");
  }
  return absent.empty();
}

std::shared_ptr<const ForwardGraphs> WrittenPasses::find(
    const Manifest& manifest, const ForwardDefinition& model,
    const ForwardPass& pass, const std::vector<bool>& frozen) {
  const std::lock_guard lock(mutex_);
  for (const auto& each : latest_) {
    // `frozen` follows from the manifest, so it needs no comparison.
    if (each->manifest == &manifest && each->pass == pass) return each;
  }
  if (latest_.size() == kMost) latest_.erase(latest_.begin());
  latest_.push_back(std::make_shared<const ForwardGraphs>(
      forward_graphs(manifest, model, pass, frozen)));
  return latest_.back();
}

bool Steps::partition(const Pass& pass, Diagnostics& diags) {
  if (program_ && partitioned_ == pass.pass) {
    diags.add_all(found_);
    return true;
  }
  plain_of_.reset();
  partitioned_ = pass.pass;
  const size_t before = diags.all().size();
  is_stacked_ = partition_stacked(pass, diags);
  if (!is_stacked_) {
    program_.reset();
    forward_ =
        model_.passes->find(computed(), *model_.runnable, pass.pass, frozen());
    program_ = partitioned(computed(), computed_plan(), diags);
  }
  found_ = {};
  found_.add_sources(diags);
  for (size_t i = before; i < diags.all().size(); ++i) {
    found_.add(diags.all()[i]);
  }
  return program_.has_value();
}

std::optional<RepeatedProgram> Steps::partitioned(const Manifest& manifest,
                                                  const Plan& plan,
                                                  Diagnostics& diags) const {
  return partition_layers(
      *forward_, {manifest, plan, &placed_by_, asked_.names},
      [](const Program&, const LayerCycle&) { return true; }, EqualLayers::Once,
      diags);
}

bool Steps::partition_stacked(const Pass& pass, Diagnostics& diags) {
  program_.reset();
  if (!stacked_) return false;
  const StackedExperts& model = *model_.stacked;
  ForwardPass as_stacks = pass.pass;
  as_stacks.experts_whole = true;
  forward_ = model_.passes->find(model.manifest, *model_.runnable, as_stacks,
                                 model.frozen);
  Diagnostics found = diags.fresh();
  program_ = partitioned(model.manifest, *stacked_, found);
  if (program_) diags.add_all(found);
  return program_.has_value();
}

// Notes that the bracket comes from shapes, and what it leaves out.
void report_by_shapes(const Manifest& manifest, const ShapedLayers& shaped,
                      AttentionKind attention, Diagnostics& diags) {
  auto note = diags.report(
      Code::UnknownFamily, Severity::Note, {},
      "no forward pass is known for this " + in_backticks(manifest.model_type) +
          ": activation memory is estimated from weight shapes");
  note.fact("the range is wider than with a known forward pass");
  if (shaped.holds_scores && attention == AttentionKind::Flash) {
    note.fact(
        "positions are added to attention scores, so the scores are counted as "
        "stored");
  }
  for (const std::string& each : shaped.left_out) {
    note.fact("only the text layers are counted, not the activations of " +
              each);
  }
}

}  // namespace shardplan
