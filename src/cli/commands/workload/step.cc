// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/workload/step.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>

#include "activations/shapes.h"
#include "activations/step_memory.h"
#include "base/checked.h"
#include "base/text.h"
#include "cli/commands/workload/request.h"
#include "core/facts.h"
#include "findings/step_findings.h"
#include "io/hf_config/facts.h"
#include "io/load.h"
#include "model/forward/inputs.h"
#include "model/forward/parameter_names.h"
#include "model/forward/recognise.h"
#include "model/units.h"
#include "sim/repeated_layers.h"

namespace shardplan::cli {
namespace {

// Those of the mesh that cut the batch and the tokens of a sequence.
struct WorkloadAxes {
  AxisNames batch;
  AxisNames sequence;
};

int64_t size_of(const Mesh& mesh, const AxisNames& axes) {
  int64_t size = 1;
  for (const Axis& axis : mesh.axes()) {
    if (contains(axes, axis.name)) size *= axis.size;
  }
  return size;
}

// As asked for; else those of the rules, and all that are called so.
WorkloadAxes axes_of_workload(const Options& options, const RuleSet& rules,
                              const Mesh& mesh) {
  WorkloadAxes axes;
  const MemoryRequest& memory = options.memory;
  Diagnostics quiet;
  auto table = rules.partition_axis;
  if (!table) table = resolve_partition_axis(default_partition_axis(), quiet);
  const auto of_table = [&](std::string_view field) -> AxisNames {
    const auto number = find_partition_field(field);
    if (!table || !number || !(*table)[*number]) return {};
    return (*table)[*number]->axes;
  };
  const AxisNames batch =
      memory.batch_axes.empty() ? of_table("batch_axis") : memory.batch_axes;
  const AxisNames sequence = memory.sequence_axes.empty()
                                 ? of_table("sequence_axis")
                                 : memory.sequence_axes;
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
int64_t adapter_bytes(const Manifest& manifest, const BudgetInput& budget) {
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

// What the forward pass of one micro-batch is run on, on all devices.
struct StepPass {
  ForwardPass pass;
  int64_t sequences = 0;  // on the fullest device, of a micro-batch
  bool uneven = false;
};

StepPass pass_of(const Options& options, const WorkloadAxes& axes,
                 const Mesh& mesh, int64_t microbatches) {
  StepPass result;
  const int64_t batch = size_of(mesh, axes.batch);
  const int64_t sequence = size_of(mesh, axes.sequence);
  const int64_t all = ceil_div(*options.memory.batch, microbatches);
  result.sequences = ceil_div(all, batch);
  result.uneven =
      result.sequences * batch * microbatches != *options.memory.batch;
  result.pass.batch = result.sequences * batch;
  result.pass.length = ceil_div(*options.memory.seq, sequence) * sequence;
  if (options.memory.source_seq) {
    result.pass.target_length = result.pass.length;
    result.pass.length =
        ceil_div(*options.memory.source_seq, sequence) * sequence;
  }
  return result;
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

// What a model is known by: its forward pass, or its shapes alone.
struct TrainedModel {
  std::optional<RunnableModel> runnable;
  std::optional<int64_t> experts_per_token;
};

// A step under one set of options. What is common to several is made once.
class Stepper {
 public:
  Stepper(const Options& options, const Session& session,
          const BudgetInput& budget, TrainedModel model)
      : options_(options),
        frozen_(frozen_of(session.manifest, budget.trained)),
        session_(session),
        rules_(session.rules ? *session.rules : RuleSet{}),
        axes_(axes_of_workload(options, rules_, session.plan.mesh)),
        placed_by_(rules_with(rules_, axes_)),
        model_(std::move(model)) {}

  const WorkloadAxes& axes() const { return axes_; }

  std::optional<MemoryBracket> bracket(const BudgetOptions& how,
                                       const Budget& budget,
                                       const StepOptions& step,
                                       Diagnostics& diags) {
    std::optional<StepLayers> layers;
    if (model_.runnable) {
      if (!program_ || step.microbatches != microbatches_) {
        if (!partition(step.microbatches, diags)) return std::nullopt;
      }
      layers = step_layers(*forward_, *program_, step);
    } else {
      ShapedModel shaped = by_shapes(step);
      if (!shaped.unknown.empty()) return std::nullopt;
      layers = std::move(shaped.layers);
      layers->frozen = frozen_;
    }
    return step_memory({session_.manifest, session_.plan, budget, how, *layers,
                        token_pairs(step.microbatches)},
                       step, diags);
  }

  ShapedModel by_shapes(const StepOptions& step) const {
    const Mesh& mesh = session_.plan.mesh;
    const StepPass pass = pass_of(options_, axes_, mesh, step.microbatches);
    ShapedWorkload workload;
    workload.sequences = pass.sequences;
    workload.source_length = pass.pass.length;
    workload.length = pass.pass.target_length.value_or(pass.pass.length);
    workload.batch = axes_.batch;
    workload.sequence = axes_.sequence;
    for (const Axis& axis : mesh.axes()) {
      if (is_gathered_axis(axis.name)) workload.gathered.push_back(axis.name);
    }
    workload.experts_per_token = model_.experts_per_token;
    workload.frozen = frozen_;
    return layers_by_shapes(session_.manifest, session_.plan, workload, step);
  }

 private:
  Int128 token_pairs(int64_t microbatches) const {
    const StepPass pass =
        pass_of(options_, axes_, session_.plan.mesh, microbatches);
    const int64_t sequence = size_of(session_.plan.mesh, axes_.sequence);
    return Int128{pass.sequences} * pass.pass.length *
           (pass.pass.length / sequence);
  }

  bool partition(int64_t microbatches, Diagnostics& diags) {
    program_.reset();
    microbatches_ = microbatches;
    const StepPass pass =
        pass_of(options_, axes_, session_.plan.mesh, microbatches);
    forward_.emplace(
        forward_model(session_.manifest, *model_.runnable, pass.pass, frozen_));
    auto program = partition_layers(
        *forward_,
        {session_.manifest, session_.plan, &placed_by_,
         name_reading(options_.planning)},
        [](const Program&, const LayerCycle&) { return true; },
        AlikeLayers::Once, diags);
    if (!program) return false;
    program_.emplace(*std::move(program));
    return true;
  }

  const Options& options_;
  std::vector<bool> frozen_;  // per parameter; empty: none
  const Session& session_;
  RuleSet rules_;
  WorkloadAxes axes_;
  RuleSet placed_by_;
  TrainedModel model_;
  std::optional<ForwardModel> forward_;  // the program refers to its graph
  std::optional<RepeatedProgram> program_;
  int64_t microbatches_ = 0;
};

// Changes of one thing that may make it fit, the smallest first.
struct Change {
  std::string flags;
  std::function<void(StepOptions&, BudgetOptions&)> make;
};

std::vector<Change> changes_of(const Options& options, const Session& session,
                               const BudgetAnswer& budget,
                               const MemoryBracket& bracket,
                               const WorkloadAxes& axes) {
  std::vector<Change> changes;
  const StepOptions& step = options.workload.step;
  const int64_t logits = bracket.rows[kCategories + 1].bytes[1];
  if (step.segments.loss_tiles == 1 && logits > bracket.estimate() / 20) {
    changes.push_back({"--loss-tiles 8", [](StepOptions& s, BudgetOptions&) {
                         s.segments.loss_tiles = 8;
                       }});
  }
  if (step.segments.attention == AttentionKind::Scores) {
    changes.push_back({"--attention flash", [](StepOptions& s, BudgetOptions&) {
                         s.segments.attention = AttentionKind::Flash;
                       }});
  }
  const int64_t shards = size_of(session.plan.mesh, axes.batch);
  const int64_t sequences =
      ceil_div(ceil_div(*options.memory.batch, step.microbatches), shards);
  // Twice as many parts, and so on to one sequence at a time.
  for (int64_t more = 2 * step.microbatches;
       more <= kMostMicrobatches && more < 2 * sequences * step.microbatches;
       more *= 2) {
    changes.push_back(
        {"--microbatches " + std::to_string(more),
         [more](StepOptions& s, BudgetOptions&) { s.microbatches = more; }});
  }
  for (const char* name : {"block", "full"}) {
    const RematPolicy* policy = find_remat_policy(name);
    if (step.remat.policy != nullptr && !step.remat.is_none() &&
        (step.remat.policy->name == "full" || step.remat.policy == policy)) {
      continue;
    }
    changes.push_back({std::string("--remat ") + name,
                       [policy](StepOptions& s, BudgetOptions&) {
                         s.remat = {};
                         s.remat.policy = policy;
                       }});
  }
  const StateOptions& state = budget.input.options.state;
  const int most = state.zero_style == ZeroStyle::Megatron ? 1 : 3;
  if (state.optimizer != Optimizer::None && !axes.batch.empty()) {
    for (int stage = state.zero + 1; stage <= most; ++stage) {
      const AxisNames names =
          state.zero_axes.empty() ? axes.batch : state.zero_axes;
      std::string flags = "--zero " + std::to_string(stage);
      if (state.zero_axes.empty())
        flags += " --zero-axes " + joined(names, ",");
      changes.push_back({flags, [stage, names](StepOptions&, BudgetOptions& b) {
                           b.state.zero = stage;
                           b.state.zero_axes = names;
                         }});
    }
  }
  return changes;
}

std::vector<TriedStep> tried(const Options& options, const Session& session,
                             const BudgetAnswer& budget,
                             const MemoryBracket& bracket, Stepper& stepper) {
  std::vector<TriedStep> outcomes;
  bool parts_fit = false;
  for (const Change& change :
       changes_of(options, session, budget, bracket, stepper.axes())) {
    StepOptions step = options.workload.step;
    BudgetOptions how = budget.input.options;
    change.make(step, how);
    Diagnostics quiet;
    const auto changed = make_budget(session.manifest, session.plan,
                                     budget.input.groups, how, quiet);
    if (!changed) continue;
    // Of more and more parts the fewest that fit.
    const bool in_parts =
        step.microbatches != options.workload.step.microbatches;
    if (in_parts && parts_fit) continue;
    const auto with = stepper.bracket(how, *changed, step, quiet);
    if (with) {
      parts_fit =
          in_parts && with->upper() <= budget.input.options.limit->usable;
      outcomes.push_back(
          {change.flags, with->lower(), with->estimate(), with->upper()});
    }
  }
  return outcomes;
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

std::string workload_text(const Options& options, const Session& session,
                          const WorkloadAxes& axes, DType dtype) {
  const StepOptions& step = options.workload.step;
  const Mesh& mesh = session.plan.mesh;
  const StepPass pass = pass_of(options, axes, mesh, step.microbatches);
  std::string text = "training step of " +
                     plural(*options.memory.batch, "sequence") + " of " +
                     count_text(*options.memory.seq) + " tokens";
  if (step.microbatches > 1) {
    text += " in " + count_text(step.microbatches) + " micro-batches";
  }
  text += ": " + std::to_string(pass.sequences) + " per device at a time";
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
  if (step.segments.dropout) text += "; masks of dropout";
  if (step.segments.loss_tiles > 1) {
    text += "; loss in " + plural(step.segments.loss_tiles, "part");
  }
  return text;
}

// By its forward pass, where one is known; else by shapes. What recognising it
// said is left in `recognised` for when shapes do not tell either.
std::optional<TrainedModel> recognise_trained(const Options& options,
                                              const Session& session,
                                              Host& host,
                                              Diagnostics& recognised,
                                              Diagnostics& diags) {
  const PlanRequest& request = options.planning;
  auto config = find_config(request.model, host, diags);
  if (!config) return std::nullopt;
  std::shared_ptr<const Architecture> architecture;
  if (request.reading.architecture) {
    architecture =
        load_architecture(*request.reading.architecture, host, diags);
    if (architecture == nullptr) return std::nullopt;
  }
  TrainedModel model;
  if (*config != nullptr) model.experts_per_token = experts_per_token(**config);
  model.runnable = recognise_model(session.manifest, *std::move(config),
                                   std::move(architecture), recognised);
  return model;
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

// What is answered, and what is not: a bracket from shapes.
void report_by_shapes(const Manifest& manifest, const ShapedModel& shaped,
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

// Where shapes do not tell either: why the forward pass is not known, and why
// shapes do not do.
void report_untold(const Diagnostics& recognised, const std::string& why,
                   Diagnostics& diags) {
  for (Diagnostic each : recognised.all()) {
    if (each.severity == Severity::Error) {
      each.facts.push_back("what backward keeps does not follow from shapes: " +
                           why);
    }
    diags.add(std::move(each));
  }
}

}  // namespace

bool asks_for_step(const Options& options) {
  return options.planning.mode == Mode::Train && options.memory.batch &&
         options.memory.seq;
}

bool check_step_request(const Options& options, Diagnostics& diags) {
  const bool trains = options.planning.mode == Mode::Train;
  const StepOptions& step = options.workload.step;
  if (options.workload.given && !trains) {
    diags
        .error(Code::Usage, {},
               "`--mode " + std::string(mode_name(options.planning.mode)) +
                   "` has no backward pass")
        .fact(
            "`--remat`, `--microbatches`, `--schedule`, `--attention`, "
            "`--kernels`, `--framework`, `--dropout`, `--loss-tiles` and "
            "`--expert-factor` are about one")
        .help("leave them out, or leave out `--mode`");
    return false;
  }
  if (options.workload.given && !asks_for_step(options)) {
    diags
        .error(Code::Usage, {},
               "what backward keeps depends on the workload, which is not said")
        .help("add `--batch` and `--seq`, e.g. `--batch 8 --seq 8192`");
    return false;
  }
  if (!asks_for_step(options)) return true;
  if (*options.memory.batch < step.microbatches) {
    diags
        .error(Code::Usage, {},
               "fewer sequences than micro-batches: `--batch " +
                   std::to_string(*options.memory.batch) +
                   "`, `--microbatches " + std::to_string(step.microbatches) +
                   "`")
        .help("`--batch` counts the sequences of a step over all devices");
    return false;
  }
  if (step.schedule != PipelineSchedule::OneForwardOneBackward &&
      !options.memory.stages) {
    diags
        .error(Code::Usage, {},
               "`--schedule` is about pipeline stages, and there are none")
        .help("add `--stages AXIS`");
    return false;
  }
  return true;
}

std::optional<StepAnswer> answer_step(const Options& options,
                                      const Session& session,
                                      const BudgetAnswer& budget, Host& host,
                                      Diagnostics& diags) {
  Diagnostics recognised;
  auto model = recognise_trained(options, session, host, recognised, diags);
  if (!model) return std::nullopt;
  const bool by_shapes = !model->runnable;
  const int64_t adapted = adapter_bytes(session.manifest, budget.input);
  // Shapes say nothing of what adapters read.
  if (by_shapes && (adapted > 0 || !may_go_by_shapes(recognised))) {
    for (const Diagnostic& each : recognised.all()) diags.add(each);
    return std::nullopt;
  }
  Stepper stepper(options, session, budget.input, *std::move(model));
  StateOptions state = budget.input.options.state;
  // What is frozen, and that is most, keeps its own dtype.
  if (budget.budget.frozen.parameters > 0) state.param_dtype.reset();
  const DType dtype = compute_dtype(session.manifest, state);
  // Bytes of a number; all that are computed with have whole ones.
  Options asked = options;
  asked.workload.step.segments.element_bytes = byte_count(1, dtype).value_or(1);
  asked.workload.step.segments.adapter_bytes = adapted;
  StepOptions& how = asked.workload.step;
  how.segments.loss = how.framework->loss;
  how.segments.softmax_in_place = how.framework->softmax_in_place;
  if (how.kernels == Kernels::Any) how.kernels = how.framework->kernels;
  StepAnswer answer;
  if (by_shapes) {
    const ShapedModel shaped = stepper.by_shapes(asked.workload.step);
    if (!shaped.unknown.empty()) {
      report_untold(recognised, shaped.unknown, diags);
      return std::nullopt;
    }
    report_by_shapes(session.manifest, shaped,
                     asked.workload.step.segments.attention, diags);
    answer.left_out = shaped.left_out;
  } else {
    for (const Diagnostic& each : recognised.all()) diags.add(each);
  }
  auto bracket = stepper.bracket(budget.input.options, budget.budget,
                                 asked.workload.step, diags);
  if (!bracket) return std::nullopt;
  const auto& limit = budget.input.options.limit;
  if (limit && budget.budget.fits() && bracket->upper() > limit->usable) {
    report_step(
        {*limit, *bracket, tried(asked, session, budget, *bracket, stepper)},
        diags);
  }
  answer.workload = workload_text(options, session, stepper.axes(), dtype);
  if (by_shapes) answer.workload += "; from the shapes of weights";
  const StepPass pass = pass_of(options, stepper.axes(), session.plan.mesh,
                                options.workload.step.microbatches);
  if (pass.uneven) {
    answer.notes.push_back(
        plural(*options.memory.batch, "sequence") +
        " are not as many on every device and in every micro-batch; the "
        "fullest has " +
        plural(pass.sequences, "sequence") + " at a time");
  }
  answer.bracket = *std::move(bracket);
  return answer;
}

namespace {

Cell bytes_cell(int64_t bytes) { return ByteSize{bytes}; }

Table bracket_table(const MemoryBracket& bracket, bool for_people) {
  Table table;
  table.id = for_people ? "memory_bracket_for_people" : "memory_bracket";
  table.title = "A training step, on the fullest device";
  table.columns = {{"category", for_people ? "" : "category"},
                   {"lower", "at least", Align::Right},
                   {"estimate", "estimate", Align::Right},
                   {"upper", "at most", Align::Right}};
  table.audience = for_people ? Audience::People : Audience::Programs;
  table.rows = [&bracket, for_people](const RowSink& sink) {
    for (const BracketRow& row : bracket.rows) {
      if (for_people && row.bytes[2] == 0) continue;
      sink(Row{for_people ? row.title : row.category, bytes_cell(row.bytes[0]),
               bytes_cell(row.bytes[1]), bytes_cell(row.bytes[2])});
    }
  };
  if (for_people) {
    table.footer =
        Row{std::string("total"), bytes_cell(bracket.lower()),
            bytes_cell(bracket.estimate()), bytes_cell(bracket.upper())};
  }
  return table;
}

Table alive_table(const MemoryBracket& bracket) {
  Table table;
  table.id = "alive";
  table.title =
      "Alive at the fullest moment, by the estimate: " + bracket.moment +
      (bracket.device.empty() ? "" : " on " + bracket.device);
  table.columns = {{"value", "value", Align::Left, true},
                   {"from", "from"},
                   {"bytes_per_device", "per device", Align::Right}};
  table.rows = [&bracket](const RowSink& sink) {
    for (const AliveRow& row : bracket.alive) {
      sink(Row{row.value, std::string(row.saved ? "forward" : "backward"),
               bytes_cell(row.bytes)});
    }
  };
  return table;
}

Table stages_table(const MemoryBracket& bracket) {
  Table table;
  table.id = "stage_brackets";
  table.title = "A training step, stage by stage";
  table.columns = {{"stage", "stage", Align::Right},
                   {"class", "class"},
                   {"lower", "at least", Align::Right},
                   {"estimate", "estimate", Align::Right},
                   {"upper", "at most", Align::Right}};
  table.rows = [&bracket](const RowSink& sink) {
    for (const StageBracket& row : bracket.stages) {
      sink(Row{Count{row.stage}, row.device, bytes_cell(row.total[0]),
               bytes_cell(row.total[1]), bytes_cell(row.total[2])});
    }
  };
  return table;
}

std::string fit_text(const MemoryBracket& bracket, const DeviceLimit& limit) {
  const std::string of = bytes_text(static_cast<double>(limit.usable));
  if (bracket.upper() <= limit.usable) {
    return "fits " + of + ": " +
           bytes_text(static_cast<double>(limit.usable - bracket.upper())) +
           " are left at the most";
  }
  if (bracket.lower() > limit.usable) return "does not fit " + of;
  return "may not fit " + of + ": the bracket is on both sides of it";
}

}  // namespace

std::vector<std::pair<std::string, Cell>> step_summary(
    const StepAnswer& answer) {
  const MemoryBracket& of = answer.bracket;
  std::vector<std::pair<std::string, Cell>> summary = {
      {"memory_bracket", ByteBracket{of.lower(), of.estimate(), of.upper()}}};
  if (of.offloads) {
    summary.emplace_back("host_bracket",
                         ByteBracket{of.host[0], of.host[1], of.host[2]});
  }
  return summary;
}

void add_step(const StepAnswer& answer, const Budget& budget, Report& report) {
  const MemoryBracket& bracket = answer.bracket;
  for (auto& entry : step_summary(answer)) {
    report.summary.push_back(std::move(entry));
  }
  report.tables.push_back(bracket_table(bracket, true));
  report.tables.push_back(bracket_table(bracket, false));
  if (bracket.stages.size() > 1) {
    report.tables.push_back(stages_table(bracket));
  }
  report.tables.push_back(alive_table(bracket));
  report.notes.push_back(answer.workload);
  if (bracket.offloads) {
    report.notes.push_back(
        "in host memory, for each device: at least " +
        bytes_text(static_cast<double>(bracket.host[0])) + ", estimate " +
        bytes_text(static_cast<double>(bracket.host[1])) + ", at most " +
        bytes_text(static_cast<double>(bracket.host[2])));
  }
  if (budget.limit) {
    report.notes.push_back(fit_text(bracket, *budget.limit) +
                           (answer.left_out.empty() ? "" : ", of text alone"));
  }
  for (const std::string& note : answer.notes) report.notes.push_back(note);
}

}  // namespace shardplan::cli
