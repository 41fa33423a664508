// SPDX-License-Identifier: Apache-2.0
#include "session/step.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>

#include "activations/kept.h"
#include "activations/step_memory.h"
#include "base/checked.h"
#include "base/text.h"
#include "core/facts.h"
#include "findings/step_findings.h"
#include "io/formats.h"
#include "model/forward/parameter_names.h"
#include "model/quantised_weight.h"
#include "model/units.h"
#include "session/fit.h"
#include "session/ways_out.h"

namespace shardplan {
namespace {

int64_t size_of(const Mesh& mesh, const AxisNames& axes) {
  int64_t size = 1;
  for (const Axis& axis : mesh.axes()) {
    if (contains(axes, axis.name)) size *= axis.size;
  }
  return size;
}

// Of the rules' table of axes, or of the default one.
AxisNames axes_of_field(const RuleSet& rules, std::string_view field) {
  Diagnostics quiet;
  auto table = rules.partition_axis;
  if (!table) table = resolve_partition_axis(default_partition_axis(), quiet);
  const auto number = find_partition_field(field);
  if (!table || !number || !(*table)[*number]) return {};
  return (*table)[*number]->axes;
}

// As asked for; else those of the rules, and all that are called so.
WorkloadAxes axes_of_workload(const MemoryRequest& memory, const RuleSet& rules,
                              const Mesh& mesh) {
  WorkloadAxes axes;
  const AxisNames batch = memory.batch_axes.empty()
                              ? axes_of_field(rules, "batch_axis")
                              : memory.batch_axes;
  AxisNames sequence = memory.sequence_axes.empty()
                           ? axes_of_field(rules, "sequence_axis")
                           : memory.sequence_axes;
  sequence.insert(sequence.end(), memory.ulysses_axes.begin(),
                  memory.ulysses_axes.end());
  for (const Axis& axis : mesh.axes()) {
    if (axis.size == 1 || (memory.stages && memory.stages->axis == axis.name)) {
      continue;
    }
    const bool asked = contains(batch, axis.name);
    const bool called = memory.batch_axes.empty() &&
                        is_gathered_axis(axis.name) &&
                        !contains(sequence, axis.name);
    if (asked || called) {
      axes.batch.push_back(axis.name);
    } else if (contains(sequence, axis.name)) {
      axes.sequence.push_back(axis.name);
    }
  }
  return axes;
}

// Rules under which values are cut as the workload is.
RuleSet rules_with(const RuleSet& rules, const WorkloadAxes& axes) {
  RuleSet changed = rules;
  Diagnostics quiet;
  if (!changed.partition_axis) {
    changed.partition_axis =
        resolve_partition_axis(default_partition_axis(), quiet);
  }
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

// Bytes of an activation's number: as weights are computed with, else as most
// of them are stored.
DType compute_dtype(const Manifest& manifest, const StateOptions& state) {
  if (state.compute_dtype) return *state.compute_dtype;
  if (state.param_dtype) return *state.param_dtype;
  std::map<DType, Int128> elements;
  for (size_t i = 0; i < manifest.size(); ++i) {
    elements[manifest.type(i).dtype] += manifest.type(i).elements();
  }
  const auto most = std::max_element(
      elements.begin(), elements.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == elements.end()) return DType::F32;
  const DType dtype = most->first;
  const bool known =
      dtype == DType::F64 || dtype == DType::F32 || dtype == DType::F16;
  // Quantised weights are multiplied with activations of 16 bits.
  return known ? dtype : DType::BF16;
}

// Of a number of the widest adapter; 0 without any.
int64_t widest_adapter(const Manifest& manifest, const BudgetInput& budget) {
  int64_t most = 0;
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (adapter_part(manifest.name(i)).empty()) continue;
    const bool trained = budget.trained.empty() || budget.trained[i];
    const TensorType type =
        stored_type(manifest.type(i), budget.options.state, trained);
    most = std::max(most, byte_count(1, type.dtype).value_or(0));
  }
  return most;
}

// Nothing where all are trained. What has no gradient, such as packed weights,
// counts as frozen where anything does.
std::vector<bool> frozen_of(const Manifest& manifest,
                            const TrainedParameters& trained) {
  std::vector<bool> frozen(trained.size());
  for (size_t i = 0; i < trained.size(); ++i) {
    frozen[i] = !trained[i] || !is_trainable(manifest.type(i).dtype);
  }
  const bool any =
      std::find(trained.begin(), trained.end(), false) != trained.end();
  return any ? frozen : std::vector<bool>{};
}

std::string axes_text(const Mesh& mesh, const AxisNames& axes) {
  std::string text;
  for (const Axis& axis : mesh.axes()) {
    if (!contains(axes, axis.name)) continue;
    text +=
        (text.empty() ? "" : ",") + axis.name + "=" + std::to_string(axis.size);
  }
  return text;
}

std::string workload_text(const StepRequest& request, const Steps& steps,
                          const StepWorkload& workload, const Mesh& mesh,
                          DType dtype) {
  const StepOptions& step = request.workload.step;
  const Steps::Pass pass = steps.pass_of(workload, step.microbatches);
  std::string text = "training step of " + plural(workload.batch, "sequence") +
                     " of " + count_text(workload.seq) + " tokens";
  if (step.microbatches > 1) {
    text += " in " + count_text(step.microbatches) + " micro-batches";
  }
  text += ": " + std::to_string(pass.sequences) + " per device at a time";
  const WorkloadAxes& axes = steps.axes();
  if (!axes.batch.empty())
    text += ", batch over " + axes_text(mesh, axes.batch);
  if (!axes.sequence.empty()) {
    text += ", tokens over " + axes_text(mesh, axes.sequence);
  }
  text += "; activations in " + std::string(dtype_name(dtype)) + "; remat " +
          remat_text(step.remat) + "; " +
          (step.segments.attention == AttentionKind::Flash
               ? "flash attention"
               : "scores of attention held");
  if (step.framework != &frameworks().front()) {
    text += "; " + std::string(step.framework->summary);
  }
  if (step.kernels == Kernels::Fused) text += "; fused kernels";
  if (step.kernels == Kernels::Eager) text += "; operation by operation";
  if (step.segments.fp8 != nullptr) {
    text += "; products in fp8 (" + std::string(step.segments.fp8->name) + ")";
  }
  if (step.segments.dropout) text += "; masks of dropout";
  if (step.segments.loss_tiles > 1) {
    text += "; loss in " + plural(step.segments.loss_tiles, "part");
  }
  return text;
}

// Whether there is no forward pass, or none of what the config asks for; what
// is wrong with a config is wrong for shapes, too.
bool may_go_by_shapes(const Diagnostics& recognised) {
  const auto& all = recognised.all();
  return std::all_of(all.begin(), all.end(), [](const Diagnostic& each) {
    return each.severity != Severity::Error ||
           each.code == Code::UnknownFamily ||
           each.code == Code::UnsupportedConfig;
  });
}

// By the config, without what it says of quantisation.
std::optional<DequantisedModel> dequantised(const Manifest& manifest,
                                            const std::vector<bool>& frozen,
                                            Diagnostics& diags) {
  const auto weight = static_cast<size_t>(quantised_weight(manifest));
  if (manifest.config == nullptr) {
    return diags
        .error(Code::UnsupportedConfig, manifest.where(weight),
               in_backticks(manifest.name(weight)) +
                   " is stored quantised, as " +
                   type_text(manifest.type(weight)) +
                   ", and what it stands for is not known without a config")
        .help("put the model's config.json beside it");
  }
  const auto plain =
      plain_manifest(*manifest.config, manifest.architecture, diags);
  if (!plain) return std::nullopt;
  return dequantised_model(manifest, *plain, frozen, diags);
}

bool is_same(const Steps::Pass& a, const Steps::Pass& b) {
  return a.pass.batch == b.pass.batch && a.pass.length == b.pass.length &&
         a.pass.target_length == b.pass.target_length;
}

// Where shapes do not tell either: why the forward pass is not known, and why
// shapes do not do.
void report_untold(const Diagnostics& recognised, const std::string& why,
                   Diagnostics& diags) {
  diags.keep_sources(recognised);
  for (Diagnostic each : recognised.all()) {
    if (each.severity == Severity::Error) {
      each.facts.push_back("what backward keeps does not follow from shapes: " +
                           why);
    }
    diags.add(std::move(each));
  }
}

constexpr std::string_view kCpuProfile = "cpu";  // rules/hardware/cpu.yaml
// Axes that are called as those of tensor parallelism are.
constexpr std::array<std::string_view, 3> kTensorNames = {"tp", "tensor",
                                                          "model"};

}  // namespace

std::string_view bracket_source_name(BracketSource from) {
  return from == BracketSource::Shapes ? "shapes" : "forward_pass";
}

bool asks_for_step(const PlanRequest& planning, const MemoryRequest& memory) {
  return planning.mode == Mode::Train && memory.batch && memory.seq;
}

bool check_step_request(const StepRequest& request, Diagnostics& diags) {
  const auto& [planning, memory, workload] = request;
  const bool trains = planning.mode == Mode::Train;
  const StepOptions& step = workload.step;
  if (workload.given && !trains) {
    diags
        .error(Code::Usage, {},
               "`--mode " + std::string(mode_name(planning.mode)) +
                   "` has no backward pass")
        .fact(
            "`--remat`, `--microbatches`, `--schedule`, `--attention`, "
            "`--kernels`, `--framework`, `--fp8`, `--dropout`, `--loss-tiles` "
            "and `--expert-factor` are about one")
        .help("leave them out, or leave out `--mode`");
    return false;
  }
  if (workload.given && !asks_for_step(planning, memory)) {
    diags
        .error(Code::Usage, {},
               "what backward keeps depends on the workload, which is not said")
        .help("add `--batch` and `--seq`, e.g. `--batch 8 --seq 8192`");
    return false;
  }
  if (!asks_for_step(planning, memory)) return true;
  if (*memory.batch < step.microbatches) {
    diags
        .error(Code::Usage, {},
               "fewer sequences than micro-batches: `--batch " +
                   std::to_string(*memory.batch) + "`, `--microbatches " +
                   std::to_string(step.microbatches) + "`")
        .help("`--batch` counts the sequences of a step over all devices");
    return false;
  }
  if (step.schedule != PipelineSchedule::OneForwardOneBackward &&
      !memory.stages) {
    diags
        .error(Code::Usage, {},
               "`--schedule` is about pipeline stages, and there are none")
        .help("add `--stages AXIS`");
    return false;
  }
  return true;
}

StepOptions StepModel::sized(StepOptions step,
                             const std::optional<std::string>& hardware) const {
  // Bytes of a number; all that are computed with have whole ones.
  step.segments.element_bytes = byte_count(1, dtype).value_or(1);
  step.segments.adapter_bytes = adapter_bytes;
  step.segments.loss = step.framework->loss;
  step.segments.softmax_in_place = step.framework->softmax_in_place;
  step.segments.native_kernels = step.framework->native_kernels;
  step.segments.silu_steps = step.framework->silu_steps;
  step.segments.gelu_steps = step.framework->gelu_steps;
  step.segments.repeats_heads = step.framework->repeats_heads;
  step.segments.weighs_in_experts = step.framework->weighs_in_experts;
  // Who names no framework and no hardware has accelerators in mind.
  const bool is_cpu = hardware == kCpuProfile;
  if (step.framework->widens_on_cpu &&
      (is_cpu || (!hardware && step.framework->is_known()))) {
    step.segments.in_float32 = {false, is_cpu, true};
  }
  if (step.kernels == Kernels::Any) step.kernels = step.framework->kernels;
  return step;
}

AxisNames step_token_axes(const MemoryRequest& memory, const RuleSet* rules,
                          const Mesh& mesh) {
  const RuleSet none;
  const RuleSet& given = rules != nullptr ? *rules : none;
  AxisNames axes = axes_of_workload(memory, given, mesh).sequence;
  const AxisNames heads = axes_of_field(given, "head_axis");
  std::erase_if(axes,
                [&](const AxisName& axis) { return contains(heads, axis); });
  return axes;
}

std::optional<StepModel> step_model(const Model& of, const BudgetInput& budget,
                                    Diagnostics& diags) {
  const Manifest& manifest = of.manifest;
  StepModel model;
  model.frozen = frozen_of(manifest, budget.trained);
  if (quantised_weight(manifest) >= 0) {
    model.dequantised = dequantised(manifest, model.frozen, diags);
    if (!model.dequantised) return std::nullopt;
  }
  const Model& computed = model.dequantised ? *model.dequantised : of;
  model.runnable = computed.forward();
  model.recognised = &computed.recognised();
  if (model.runnable != nullptr) {
    model.stacked = stacked_experts(
        computed.manifest,
        model.dequantised ? model.dequantised->frozen : model.frozen);
  }
  model.adapter_bytes = widest_adapter(manifest, budget);
  // Shapes say nothing of what adapters read.
  const bool untold =
      model.runnable == nullptr &&
      (model.adapter_bytes > 0 || !may_go_by_shapes(*model.recognised));
  if (model.runnable != nullptr || untold) computed.report_recognised(diags);
  if (untold) return std::nullopt;
  StateOptions state = budget.options.state;
  // What is frozen, and that is most, keeps its own dtype.
  if (!model.frozen.empty()) state.param_dtype.reset();
  model.dtype = compute_dtype(computed.manifest, state);
  return model;
}

Steps::Steps(const StepRequest& request, const StepModel& model,
             const Manifest& manifest, const Plan& plan, const RuleSet* rules)
    : request_(request),
      model_(model),
      manifest_(manifest),
      plan_(plan),
      rules_(rules != nullptr ? *rules : RuleSet{}),
      axes_(axes_of_workload(request.memory, rules_, plan.mesh)),
      placed_by_(rules_with(rules_, axes_)) {
  if (model_.dequantised) {
    dequantised_ =
        dequantised_plan(*model_.dequantised, manifest_, plan_, undequantised_);
  }
  if (model_.stacked && (dequantised_ || !model_.dequantised)) {
    stacked_ = stacked_plan(*model_.stacked, computed_plan());
  }
}

Steps::Pass Steps::pass_of(const StepWorkload& workload,
                           int64_t microbatches) const {
  Pass result;
  const int64_t batch = size_of(plan_.mesh, axes_.batch);
  const int64_t sequence = size_of(plan_.mesh, axes_.sequence);
  const int64_t all = ceil_div(workload.batch, microbatches);
  result.sequences = ceil_div(all, batch);
  result.tokens = ceil_div(workload.seq, sequence);
  result.pass.batch = result.sequences * batch;
  result.pass.length = result.tokens * sequence;
  if (request_.memory.source_seq) {
    result.pass.target_length = result.pass.length;
    result.pass.length =
        ceil_div(*request_.memory.source_seq, sequence) * sequence;
  }
  return result;
}

std::vector<DivisionProblem> Steps::refused(const StepWorkload& workload,
                                            const StepOptions& step) const {
  const Mesh& mesh = plan_.mesh;
  const MemoryRequest& memory = request_.memory;
  const Facts& facts = manifest_.facts;
  const AxisNames heads = axes_of_field(rules_, "head_axis");
  Divisions divisions;
  divisions.count(Divided::Batch) = workload.batch;
  divisions.count(Divided::Tokens) = workload.seq;
  divisions.count(Divided::Heads) = facts.heads.value_or(0);
  divisions.count(Divided::KvHeads) =
      facts.kv_heads.value_or(facts.heads.value_or(0));
  count_states(manifest_, divisions);
  divisions.degree(Degree::Data) = size_of(mesh, axes_.batch);
  divisions.degree(Degree::Microbatches) = step.microbatches;
  for (const Axis& axis : mesh.axes()) {
    if (contains(axes_.batch, axis.name) ||
        (memory.stages && memory.stages->axis == axis.name)) {
      continue;
    }
    const bool ulysses = contains(memory.ulysses_axes, axis.name);
    const bool tensor =
        !ulysses && (contains(heads, axis.name) ||
                     std::find(kTensorNames.begin(), kTensorNames.end(),
                               axis.name) != kTensorNames.end());
    if (tensor) divisions.degree(Degree::Tensor) *= axis.size;
    if (!contains(axes_.sequence, axis.name)) continue;
    divisions.degree(ulysses  ? Degree::Ulysses
                     : tensor ? Degree::Sequence
                              : Degree::Context) *= axis.size;
  }
  return division_problems(divisions, step.framework->name);
}

std::optional<JudgedStep> Steps::judge(const StepWorkload& workload,
                                       const BudgetOptions& how,
                                       const Budget& budget,
                                       const StepOptions& step,
                                       Diagnostics& diags) {
  auto known = bracket(workload, how, budget, step, diags);
  if (!known) return std::nullopt;
  const Fit fit = fit_of(budget, &*known);
  return JudgedStep{*std::move(known), refused(workload, step), fit};
}

std::optional<MemoryBracket> Steps::bracket(const StepWorkload& workload,
                                            const BudgetOptions& how,
                                            const Budget& budget,
                                            const StepOptions& step,
                                            Diagnostics& diags) {
  if (model_.dequantised && !dequantised_) {
    diags.add_all(undequantised_);
    return std::nullopt;
  }
  std::optional<StepLayers> layers;
  if (model_.runnable != nullptr) {
    const Pass pass = pass_of(workload, step.microbatches);
    if (!partition(pass, diags)) return std::nullopt;
    StepOptions of_program = step;
    of_program.segments.experts_apart = is_stacked_;
    if (plain_of_ != of_program.segments) {
      plain_ = segments_of(program_->program, of_program.segments, {});
      plain_of_ = of_program.segments;
    }
    if (!has_modules(of_program, diags)) return std::nullopt;
    layers = step_layers(*forward_, *program_, of_program, plain_);
    if (is_stacked_) {
      layers->layer_of = of_parts(*model_.stacked, layers->layer_of);
    }
  } else if (step.segments.fp8 != nullptr && step.segments.fp8->keeps_inputs) {
    report_untold(*model_.recognised,
                  "`--fp8` is about what single products read", diags);
    return std::nullopt;
  } else {
    ShapedLayers shaped = by_shapes(workload, step);
    if (!shaped.unknown.empty()) {
      report_untold(*model_.recognised, shaped.unknown, diags);
      return std::nullopt;
    }
    layers = std::move(shaped.layers);
  }
  layers->frozen = model_.frozen;
  if (model_.dequantised) {
    layers->layer_of =
        stored_layers(*model_.dequantised, manifest_, layers->layer_of);
  }
  StepInput input = {manifest_, plan_, budget, how, *layers};
  const Pass pass = pass_of(workload, step.microbatches);
  const int64_t sequence = size_of(plan_.mesh, axes_.sequence);
  input.tokens = Int128{pass.sequences} * (pass.pass.length / sequence);
  input.token_pairs = input.tokens * pass.pass.length;
  if (dequantised_) {
    input.dequantised = dequantised_->largest * step.segments.element_bytes;
  }
  return step_memory(input, step, diags);
}

ShapedLayers Steps::by_shapes(const StepWorkload& workload,
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

// A module that is to be computed again and is in no layer is no module.
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
                   in_backticks(module) + " that Megatron-LM computes again")
        .help("leave it out: nothing of it is kept or computed again");
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
  if (program_ && partitioned_ && is_same(*partitioned_, pass)) return true;
  plain_of_.reset();
  partitioned_ = pass;
  is_stacked_ = partition_stacked(pass, diags);
  if (is_stacked_) return true;
  program_.reset();
  forward_ =
      model_.passes->find(computed(), *model_.runnable, pass.pass, frozen());
  auto program = partition_layers(
      *forward_,
      {computed(), computed_plan(), &placed_by_,
       name_reading(request_.planning)},
      [](const Program&, const LayerCycle&) { return true; }, AlikeLayers::Once,
      diags);
  if (!program) return false;
  program_.emplace(*std::move(program));
  return true;
}

bool Steps::partition_stacked(const Pass& pass, Diagnostics& diags) {
  program_.reset();
  if (!stacked_) return false;
  const StackedExperts& model = *model_.stacked;
  ForwardPass as_stacks = pass.pass;
  as_stacks.experts_whole = true;
  forward_ = model_.passes->find(model.manifest, *model_.runnable, as_stacks,
                                 model.frozen);
  Diagnostics quiet;
  auto program = partition_layers(
      *forward_,
      {model.manifest, *stacked_, &placed_by_, name_reading(request_.planning)},
      [](const Program&, const LayerCycle&) { return true; }, AlikeLayers::Once,
      quiet);
  if (!program) return false;
  diags.add_all(quiet);
  program_.emplace(*std::move(program));
  return true;
}

// What is answered, and what is not: a bracket from shapes.
void report_by_shapes(const Manifest& manifest, const ShapedLayers& shaped,
                      AttentionKind attention, Diagnostics& diags) {
  auto note = diags.report(Code::UnknownFamily, Severity::Note, {},
                           "the forward pass of this " +
                               in_backticks(manifest.model_type) +
                               " is not known: what its layers hold is worked "
                               "out from the shapes of "
                               "their weights");
  note.fact("the bracket is wider than one of a forward pass would be");
  if (shaped.holds_scores && attention == AttentionKind::Flash) {
    note.fact(
        "positions are added to scores of attention, so these are counted as "
        "held");
  }
  for (const std::string& each : shaped.left_out) {
    note.fact("a step of the layers of text alone: what " + each +
              " keep is not counted");
  }
}

std::optional<StepAnswer> answer_step(const StepRequest& request,
                                      const Session& session,
                                      const BudgetAnswer& budget, Host& host,
                                      Diagnostics& diags) {
  const auto model = step_model(session.model, budget.input, diags);
  if (!model) return std::nullopt;
  const StepWorkload workload = {*request.memory.batch, *request.memory.seq};
  const StepOptions step =
      model->sized(request.workload.step, request.memory.hardware);
  Steps steps(request, *model, session.model.manifest, session.plan,
              session.rules ? &*session.rules : nullptr);
  auto judged =
      steps.judge(workload, budget.input.options, budget.budget, step, diags);
  if (!judged) return std::nullopt;
  report_divisions(judged->refused, diags);
  const MemoryBracket& bracket = judged->bracket;
  StepAnswer answer;
  answer.from = model->from();
  if (answer.from == BracketSource::Shapes) {
    const ShapedLayers shaped = steps.by_shapes(workload, step);
    report_by_shapes(session.model.manifest, shaped, step.segments.attention,
                     diags);
    answer.left_out = shaped.left_out;
  }
  const auto& limit = budget.input.options.limit;
  if (limit && (!budget.budget.fits() || bracket.upper() > limit->usable)) {
    const StepFinding finding = {
        *limit, bracket,
        tried_steps({request, session, budget, *model, bracket}, steps, host)};
    if (budget.budget.fits()) {
      report_step(finding, diags);
    } else if (Diagnostic* found = find_over_memory(diags)) {
      for (std::string& text : found->help) {
        if (text.starts_with('`')) text = "for the state alone, " + text;
      }
      for (std::string& text : ways_out(finding)) {
        found->help.push_back("with activations, " + std::move(text));
      }
    }
  }
  const Mesh& mesh = session.plan.mesh;
  answer.workload = workload_text(request, steps, workload, mesh, model->dtype);
  if (answer.from == BracketSource::Shapes) {
    answer.workload += "; from the shapes of weights";
  }
  answer.reserved = reserved_memory(
      bracket, *step.framework, mesh,
      session.model.manifest.facts.experts.value_or(0) > 0, limit);
  answer.bracket = std::move(judged->bracket);
  return answer;
}

}  // namespace shardplan
