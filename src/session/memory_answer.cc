// SPDX-License-Identifier: Apache-2.0
// Answers a request about memory: the budget, the step or the engine, and what
// would make them fit.
#include "session/memory_answer.h"

#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "evaluate/fit.h"
#include "findings/findings.h"
#include "findings/step_findings.h"
#include "session/slow_parts.h"
#include "session/suggestions.h"

namespace shardplan {
namespace {

std::string sized_axes_text(const Mesh& mesh, const AxisNames& names) {
  std::vector<Axis> axes = mesh.axes();
  std::erase_if(axes,
                [&](const Axis& axis) { return !contains(names, axis.name); });
  return axes_text(axes);
}

// Returns what is dropped out, and whether a flag or the config asks for it.
std::string dropout_text(const Dropout& dropout,
                         const std::optional<bool>& asked) {
  if (!dropout.any()) return asked ? "; no dropout" : "";
  std::vector<std::string> parts;
  for (const auto& [is_there, name] :
       {std::pair(dropout.embeddings, "embeddings"),
        {dropout.attention, "attention"},
        {dropout.mlp, "MLPs"},
        {dropout.hidden, "MLP activations"},
        {dropout.scores, "attention scores"},
        {dropout.adapters, "adapters"}}) {
    if (is_there) parts.emplace_back(name);
  }
  return "; dropout of " + joined(parts, ", ", " and ") +
         (asked ? "" : ", from the config");
}

// Describes the step. `sized` is completed for the framework that runs it.
std::string workload_text(const AskedMemory& asked, const StepOptions& sized,
                          const Steps& steps, const Mesh& mesh, DType dtype) {
  const StepOptions& step = asked.step;
  const Workload& workload = *asked.workload;
  const Steps::Pass pass = steps.pass_of(workload, step.microbatches);
  std::string text = "training step of " + plural(workload.batch, "sequence") +
                     " of " + count_text(workload.seq) + " tokens";
  if (step.microbatches > 1) {
    text += " in " + count_text(step.microbatches) + " micro-batches";
  }
  text += ": " + std::to_string(pass.sequences) + " per device at a time";
  const WorkloadAxes& axes = steps.axes();
  if (!axes.batch.empty()) {
    text += ", batch over " + sized_axes_text(mesh, axes.batch);
  }
  if (!axes.sequence.empty()) {
    text += ", tokens over " + sized_axes_text(mesh, axes.sequence);
  }
  const bool casts = asked.options.state.autocast;
  text += casts ? "; matmuls in " : "; activations in ";
  text += std::string(dtype_name(dtype)) + (casts ? " (autocast)" : "") +
          "; remat " + remat_text(step.remat) + "; " +
          (sized.segments.attention == AttentionKind::Flash
               ? "flash attention"
               : "attention scores stored");
  if (step.framework != &frameworks().front()) {
    text += "; " + std::string(step.framework->summary);
  }
  if (step.kernels == Kernels::Fused) text += "; fused kernels";
  if (sized.segments.recurrence_in_kernels) {
    text +=
        "; recurrences in dedicated kernels (mamba-ssm, "
        "flash-linear-attention): without them PyTorch holds more";
  }
  if (step.update) {
    text += "; optimizer " + std::string(nth(update_names(), *step.update));
  }
  if (step.kernels == Kernels::Eager) text += "; eager kernels";
  if (step.segments.fp8 != nullptr) {
    text += "; matmuls in fp8 (" + std::string(step.segments.fp8->name) + ")";
  }
  text += dropout_text(sized.segments.dropout, step.drops_out);
  if (step.segments.loss_tiles > 1) {
    text += "; loss in " + plural(step.segments.loss_tiles, "part");
  }
  return text;
}

// Reports a state that does not fit, with the changes that were tried.
void report_budget(const SuggestionsInput& in, const Budget& budget, Host& host,
                   Diagnostics& diags) {
  std::vector<TriedChange> tried;
  if (!budget.fits()) tried = tried_states(in.judge, budget);
  const HeldInput& held = in.judge.held();
  lint(MemoryInput{in.session.model.manifest, in.session.plan, *held.groups,
                   held.options, budget, &tried},
       diags);
  if (!budget.fits()) add_meshes(in, budget, host, diags);
}

// Reports a training step that does not fit, with the changes that were tried.
void report_bracket(const SuggestionsInput& in, const Budget& budget,
                    const MemoryBracket& bracket, Host& host,
                    Diagnostics& diags) {
  const auto& limit = budget.limit;
  if (!limit || (budget.fits() && bracket.upper() <= limit->usable)) return;
  const StepFinding finding = {*limit, bracket, tried_steps(in, bracket, host)};
  if (budget.fits()) {
    report_step(finding, diags);
  } else if (Diagnostic* found = find_over_memory(diags)) {
    for (std::string& text : found->help) {
      if (text.starts_with('`')) text = "for training state alone, " + text;
    }
    for (std::string& text : suggested_changes(finding)) {
      found->help.push_back("with activations, " + std::move(text));
    }
  }
}

std::optional<StepAnswer> answer_step(
    const SuggestionsInput& in, const Budget& budget,
    const std::vector<std::string>& calibrated, Host& host, Fit& fit,
    Diagnostics& diags) {
  const Manifest& manifest = in.session.model.manifest;
  const Mesh& mesh = in.session.plan.mesh;
  const StepModel& model = *in.asked.step;
  const AskedMemory& memory = in.asked.memory;
  auto judged = in.judge.step({}, budget, diags);
  if (!judged) return std::nullopt;
  report_divisions(judged->refused, diags);
  if (in.asked.rules == nullptr) {
    diags.report(Code::Remark, {},
                 "a saved plan has no activation specs: activations are placed "
                 "as by rules without `activations` and `partition_axis`");
  }
  StepAnswer answer;
  answer.from = model.from();
  const Steps& steps = in.judge.steps();
  if (answer.from == BracketSource::Shapes) {
    answer.left_out = in.judge.report_shapes({}, diags);
  }
  report_bracket(in, budget, judged->bracket, host, diags);
  answer.workload = workload_text(memory, in.judge.step_of({}), steps, mesh,
                                  model.activation_dtype(memory.options.state));
  if (answer.from == BracketSource::Shapes) {
    answer.workload += "; estimated from weight shapes";
  }
  answer.reserved =
      reserved_memory(judged->bracket, *memory.step.framework, mesh,
                      manifest.facts.experts.value_or(0) > 0, budget.limit);
  answer.bracket = std::move(judged->bracket);
  answer.time = std::move(judged->time);
  answer.untimed = std::move(judged->untimed);
  answer.calibrated = calibrated;
  answer.devices = mesh.devices();
  if (memory.card && memory.card->devices_per_host) {
    answer.devices_per_host =
        std::min(memory.card->devices_per_host->value, answer.devices);
  }
  if (answer.time) report_slow_parts(in, *answer.time, host, diags);
  fit = judged->fit;
  return answer;
}

std::optional<Serving> answer_serving(const MemoryQuestion& question,
                                      const Session& session,
                                      AskedMemory& asked, Host& host, Fit& fit,
                                      Diagnostics& diags) {
  const auto device = device_limit(question.memory, host, diags);
  if (!device) return std::nullopt;
  const auto models =
      served_models(question.engine, session.model, host, diags);
  if (!models) return std::nullopt;
  asked.serving =
      asked_serving(question.engine, question.memory, *models, *device);
  const Asked engine = {session.model, nullptr, asked, nullptr, &models->model};
  LayerCache unused;
  const auto judge = PlanJudge::of(engine, session.plan, unused, diags);
  auto judged = judge->judge({}, diags);
  if (!judged) return std::nullopt;
  fit = judged->fit;
  std::vector<TriedServing> tried;
  if (!fit.will_fit()) {
    tried = tried_servings({question.planning, session, engine, *judge},
                           *judged->serving);
  }
  lint(ServeInput{*judged->serving, &tried}, diags);
  return std::move(judged->serving);
}

// Times a full batch. Empty if no more sequences fit than requested, or if a
// workload fixes how many run.
std::optional<FullBatch> full_batch(const PlanJudge& judge,
                                    const MemoryAnswer& answer,
                                    const Diagnostics& like) {
  if (!answer.inference || !answer.inference->next_token) return std::nullopt;
  FullBatch full;
  Candidate candidate;
  std::optional<Serving> serving = answer.serving;
  if (serving) {
    const double most =
        std::min(serving->group_sequences(1),
                 static_cast<double>(serving->settings.sequences));
    full.sequences = static_cast<int64_t>(most) * serving->mesh.dp;
    if (judge.memory().serving->workload ||
        full.sequences <= std::exchange(serving->batch, full.sequences)) {
      return std::nullopt;
    }
  } else {
    const KvRequest& asked = *judge.memory().options.kv;
    if (!answer.headroom) return std::nullopt;
    full.sequences = answer.headroom->batch.value_or(0);
    if (full.sequences <= asked.batch) return std::nullopt;
    candidate.workload = Workload{full.sequences, asked.seq};
  }
  auto times = judge.inference(candidate, serving ? &*serving : nullptr, like);
  if (!times || !times->next_token) return std::nullopt;
  full.next_token = *std::move(times->next_token);
  return full;
}

}  // namespace

bool check_question(const MemoryQuestion& question, Diagnostics& diags) {
  const auto& [planning, memory, workload, engine] = question;
  return check_engine_request(engine, memory, planning, diags) &&
         check_memory_request(memory, planning.mode, diags) &&
         check_step_request(planning, memory, workload, diags);
}

std::optional<MemoryAnswer> answer_memory(const MemoryQuestion& question,
                                          const Session& session,
                                          Headroom headroom, Host& host,
                                          Diagnostics& diags) {
  auto memory =
      asked_memory(budgeted(question.engine, question.memory),
                   question.planning, question.workload, session.model.manifest,
                   session.rules ? &*session.rules : nullptr, host, diags);
  if (!memory) return std::nullopt;
  if (memory->options.kv) {
    // With an engine, the budget ignores the device, but times depend on it.
    memory->card = measured_card(question.memory, host, diags);
    if (diags.cannot_run()) return std::nullopt;
  }
  Fit fit;
  std::optional<Serving> serving;
  if (question.engine.name) {
    serving = answer_serving(question, session, *memory, host, fit, diags);
    if (!serving) return std::nullopt;
  }
  if (session.slices && session.slices->count() > 1) {
    memory->on_slices = true;
    memory->sliced = {{session.plan.mesh, session.slices}};
  }
  std::optional<StepModel> step;
  if (memory->workload) {
    step = step_model(session.model, memory->trained, diags);
    if (!step) return std::nullopt;
  }
  std::optional<InferencePasses> passes;
  if (memory->card && memory->options.kv) {
    passes = inference_passes(session.model, diags);
  }
  Asked asked = {session.model, session.rules ? &*session.rules : nullptr,
                 *memory,       nullptr,
                 nullptr,       passes ? &*passes : nullptr};
  LayerCache layers;
  const auto judge = PlanJudge::of(asked, session.plan, layers, diags);
  if (judge == nullptr) return std::nullopt;
  auto budget = judge->budget({}, diags);
  if (!budget) return std::nullopt;
  const SuggestionsInput in = {question.planning, session, asked, *judge};
  report_budget(in, *budget, host, diags);
  MemoryAnswer answer{judge->held().options, judge->held().kv_axes,
                      !memory->trained.empty(), *std::move(budget)};
  answer.options.state_specs = nullptr;
  answer.serving = std::move(serving);
  answer.fit = answer.serving ? fit : fit_of(answer.budget, nullptr);
  if (headroom == Headroom::Find) {
    answer.headroom = judge->headroom({}, answer.budget);
  }
  if (step) {
    asked.step = &*step;
    judge->add_step_model(*step);
    answer.step = answer_step(in, answer.budget, question.memory.calibrate,
                              host, answer.fit, diags);
    if (!answer.step) return std::nullopt;
  }
  answer.inference =
      judge->inference({}, answer.serving ? &*answer.serving : nullptr, diags);
  if (answer.inference) {
    answer.inference->calibrated = question.memory.calibrate;
  }
  if (headroom == Headroom::Find) {
    answer.full_batch = full_batch(*judge, answer, diags);
  }
  return answer;
}

}  // namespace shardplan
