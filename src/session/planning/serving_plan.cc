// SPDX-License-Identifier: Apache-2.0
// Tries every layout of an engine, and judges the best one again.
#include "session/planning/serving_plan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <tuple>
#include <utility>

#include "base/checked.h"
#include "base/parallel.h"
#include "base/text.h"
#include "base/words.h"
#include "evaluate/inference.h"
#include "evaluate/plan_judge.h"
#include "model/from_config.h"
#include "serve/serving.h"
#include "session/memory_answer.h"
#include "session/planning/question.h"
#include "session/session.h"

namespace shardplan {
namespace {

// The prompt and answer of a chat with some context.
constexpr int64_t kInputTokens = 2048;
constexpr int64_t kOutputTokens = 256;

bool check(const ServingPlanRequest& request, Diagnostics& diags) {
  if (!check_devices(request.planning, request.memory, diags)) return false;
  if (!request.engine.name) {
    return refuse_flags("`plan --mode " +
                            std::string(mode_name(request.planning.mode)) +
                            "` needs an engine",
                        "add `--engine vllm` or `--engine sglang`", diags);
  }
  return request.planning.mode == Mode::Decode ||
         refuse_flags("`plan` with an engine needs `--mode decode`",
                      "its times cover both the prompt and every token after "
                      "it",
                      diags);
}

void assume(ServingPlanRequest& request, const Manifest& manifest,
            std::vector<std::string>& assumed) {
  EngineRequest& engine = request.engine;
  if (!engine.input_tokens || !engine.output_tokens) {
    const int64_t most =
        config_positions(manifest).value_or(kInputTokens + kOutputTokens);
    if (!engine.output_tokens) {
      engine.output_tokens =
          std::min(kOutputTokens, std::max<int64_t>(most / 2, 1));
      assumed.push_back("outputs of " + count_text(*engine.output_tokens) +
                        " tokens (`--output-tokens`)");
    }
    if (!engine.input_tokens) {
      engine.input_tokens = std::min(
          kInputTokens, std::max<int64_t>(most - *engine.output_tokens, 1));
      assumed.push_back("prompts of " + count_text(*engine.input_tokens) +
                        " tokens (`--input-tokens`)");
    }
  }
  if (!request.memory.seq) {
    request.memory.seq = *engine.input_tokens + *engine.output_tokens;
  }
}

Mesh mesh_of(const EngineMesh& mesh) {
  std::vector<Axis> axes;
  for (const auto& [name, size] :
       {std::pair("pp", mesh.pp), {"dp", mesh.dp}, {"tp", mesh.tp}}) {
    if (size > 1) axes.push_back({name, size});
  }
  if (axes.empty()) axes.push_back({"tp", 1});
  return Mesh(std::move(axes));
}

// Everything that layouts have in common.
class ServingPlanner {
 public:
  static std::unique_ptr<ServingPlanner> of(const ServingPlanRequest& request,
                                            const Inputs& inputs, Host& host,
                                            Diagnostics& diags) {
    std::unique_ptr<ServingPlanner> planner(
        new ServingPlanner(request, inputs));
    const Manifest& manifest = inputs.model.manifest;
    planner->asked_ =
        asked_memory(budgeted(request.engine, request.memory), request.planning,
                     request.workload, manifest, &inputs.rules, host, diags);
    if (!planner->asked_) return nullptr;
    // With an engine, the budget ignores the device, but times depend on it.
    planner->asked_->card = measured_card(request.memory, host, diags);
    planner->device_ = device_limit(request.memory, host, diags);
    planner->models_ = served_models(request.engine, inputs.model, host, diags);
    if (planner->asked_->card == nullptr || !planner->device_ ||
        !planner->models_ || diags.cannot_run()) {
      return nullptr;
    }
    planner->passes_ = inference_passes(inputs.model, diags);
    if (!planner->passes_.untimed.empty()) {
      diags.error(Code::Usage, {},
                  "requests cannot be timed: " + planner->passes_.untimed);
      return nullptr;
    }
    return planner;
  }

  // Returns every layout of this many devices.
  std::vector<EngineMesh> layouts(int64_t devices) const {
    const bool has_experts =
        inputs_.model.manifest.facts.experts.value_or(0) > 1;
    const Engine& engine = *find_engine(*request_.engine.name);
    std::vector<EngineMesh> all;
    for (int64_t pp = 1; pp <= devices; ++pp) {
      if (devices % pp != 0) continue;
      for (int64_t tp = 1; tp <= devices / pp; ++tp) {
        if (devices / pp % tp != 0) continue;
        EngineMesh mesh = {.tp = tp, .dp = devices / pp / tp, .pp = pp};
        const bool may_deal = has_experts && mesh.tp * mesh.dp > 1;
        for (const bool deals : {false, true}) {
          if (deals ? !may_deal : request_.engine.expert_parallel && may_deal) {
            continue;
          }
          mesh.expert_parallel = deals;
          const bool may_share = engine.dp_attention && mesh.dp > 1;
          for (const bool shares : {false, true}) {
            if (shares ? !may_share
                       : request_.engine.dp_attention && may_share) {
              continue;
            }
            mesh.dp_attention = shares;
            all.push_back(mesh);
          }
        }
      }
    }
    return all;
  }

  // Judges one layout. Safe to call from several threads.
  ServingPlan judge(const EngineMesh& mesh, int64_t requests) const {
    ServingPlan plan;
    plan.mesh = mesh;
    plan.requests = requests;
    const Mesh devices = mesh_of(mesh);
    const ServingInput input = input_for(mesh, devices, requests);
    Diagnostics quiet;
    AskedMemory asked = *asked_;
    asked.serving = input;
    Candidate candidate;
    candidate.serving = input;
    // The engine shards the model itself, so no parameters are placed.
    const Plan unplaced{devices, {}, true, {}, {}, {}, {}};
    LayerCache unused;
    const auto judge = PlanJudge::of(
        {inputs_.model, nullptr, asked, nullptr, &models_->model, &passes_},
        unplaced, unused, quiet);
    const auto judged = judge->judge(candidate, quiet);
    if (!judged || !judged->serving->problems.empty()) {
      plan.reason =
          judged ? judged->serving->problems.front() : first_error(quiet);
      return plan;
    }
    const Serving& serving = *judged->serving;
    constexpr double kMost = 1 << 20;  // for a model without a cache
    plan.sequences =
        static_cast<int64_t>(std::min(serving.sequences(0), kMost));
    plan.at_once = serving.settings.sequences * mesh.dp;
    plan.weights = serving.stage().weights.total;
    plan.verdict = judged->fit.will_fit()  ? PlanVerdict::Fits
                   : judged->fit.may_fit() ? PlanVerdict::MayFit
                                           : PlanVerdict::Unfit;
    if (plan.verdict == PlanVerdict::Unfit) return plan;
    const auto times = judge->inference(candidate, &serving, quiet);
    if (!times || !times->first_token || !times->next_token) {
      plan.verdict = PlanVerdict::Illegal;
      plan.reason = times ? times->untimed : "it cannot be timed";
      return plan;
    }
    plan.first_token = times->first_token->total;
    plan.next_token = times->next_token->total;
    plan.tokens_per_second = times->next_token->tokens_per_second();
    plan.limited_by = times->next_token->limited_by;
    if (exceeds(plan.first_token, request_.max_first_token)) {
      plan.reason = "a prompt takes longer than `--max-ttft` allows";
    } else if (exceeds(plan.next_token, request_.max_next_token)) {
      plan.reason = "a token takes longer than `--max-tpot` allows";
    }
    return plan;
  }

  // Returns the plan with the best number of requests, and how many numbers
  // were tried. Times grow with the number of requests, so bisection finds the
  // largest number that meets the limits.
  std::pair<ServingPlan, int64_t> best_of(const EngineMesh& mesh) const {
    if (request_.engine.concurrency) {
      return {judge(mesh, *request_.engine.concurrency), 1};
    }
    int64_t tried = 0;
    const auto look = [&](int64_t requests) {
      ++tried;
      return judge(mesh, requests);
    };
    ServingPlan best = look(1);
    if (!best.is_good()) return {std::move(best), tried};
    const int64_t most =
        std::max<int64_t>(std::min(best.sequences, best.at_once), 1);
    int64_t good = 1;
    int64_t bad = most + 1;
    const auto take = [&](ServingPlan plan) {
      (plan.is_good() ? good : bad) = plan.requests;
      if (plan.is_good() && plan.tokens_per_second > best.tokens_per_second) {
        best = std::move(plan);
      }
    };
    while (good < most && bad > most) take(look(std::min(2 * good, most)));
    while (bad - good > 1) take(look(good + (bad - good) / 2));
    return {std::move(best), tried};
  }

 private:
  ServingPlanner(const ServingPlanRequest& request, const Inputs& inputs)
      : request_(request), inputs_(inputs) {}

  // Returns the engine's input, which refers to `devices`, the mesh of the
  // degrees.
  ServingInput input_for(const EngineMesh& mesh, const Mesh& devices,
                         int64_t requests) const {
    ServingInput input =
        asked_serving(request_.engine, request_.memory, *models_, *device_);
    input.mesh = mesh;
    input.batch = requests;
    input.workload->concurrency = requests;
    if (mesh.pp > 1) {
      input.stages = Stages{"pp", {}};
      input.devices = &devices;
    }
    return input;
  }

  static std::string first_error(const Diagnostics& diags) {
    const auto first =
        std::ranges::find(diags.all(), Severity::Error, &Diagnostic::severity);
    return first == diags.all().end() ? "it is rejected" : first->message;
  }
  static bool exceeds(const Seconds& time, const std::optional<double>& most) {
    return most && time.estimate > *most;
  }
  const ServingPlanRequest& request_;
  const Inputs& inputs_;
  std::optional<AskedMemory> asked_;
  std::optional<DeviceLimit> device_;
  std::optional<ServedModels> models_;
  InferencePasses passes_;
};

// Ranks good plans first, by their rate; then plans that fit, may fit, do not
// fit, and are illegal.
auto rank(const ServingPlan& plan) {
  return std::tuple(!plan.is_good(), static_cast<int>(plan.verdict),
                    -plan.tokens_per_second);
}

// Reads a layout from the text of a mesh. Empty, with the reason reported.
std::optional<EngineMesh> layout_of(const SourcePtr& text,
                                    const PlanRequest& planning,
                                    Diagnostics& diags) {
  const auto written = mesh_of_all(text, planning, diags);
  if (!written) return std::nullopt;
  EngineMesh mesh;
  for (const Axis& axis : written->axes()) {
    int64_t* const degree = axis.name == "tp"   ? &mesh.tp
                            : axis.name == "dp" ? &mesh.dp
                            : axis.name == "pp" ? &mesh.pp
                                                : nullptr;
    if (degree == nullptr) {
      return diags
          .error(Code::Usage, {},
                 "an engine has no axis " + in_backticks(axis.name) +
                     ", which " + in_backticks(text->name()) + " names")
          .help("its axes are `pp`, `dp`, `tp`");
    }
    *degree = axis.size;
  }
  return mesh;
}

bool has_degrees(const EngineMesh& mesh, const EngineMesh& of) {
  return mesh.pp == of.pp && mesh.dp == of.dp && mesh.tp == of.tp;
}

// Judges the best layout again, as `analyze` would judge its flags.
void confirm(const ServingPlanRequest& request, const ServingPlan& plan,
             Host& host, const Diagnostics& diags, ProgressListener& progress) {
  progress.stage("judging the plan again");
  PlanRequest planning = request.planning;
  planning.mesh = std::make_shared<SourceFile>("--mesh", mesh_text(plan.mesh));
  planning.find_fixes = false;
  MemoryRequest memory = request.memory;
  memory.batch = plan.requests;
  if (plan.mesh.pp > 1) memory.stages = Stages{"pp", {}};
  EngineRequest engine = request.engine;
  engine.concurrency = plan.requests;
  engine.expert_parallel = plan.mesh.expert_parallel;
  engine.dp_attention = plan.mesh.dp_attention;
  Diagnostics quiet = diags.fresh();
  const auto session =
      open_session(planning, budgeted(engine, memory), host, quiet, progress);
  SHARDPLAN_CHECK(session.has_value());
  const auto answer =
      answer_memory({planning, memory, request.workload, engine}, *session,
                    Headroom::Leave, host, quiet);
  SHARDPLAN_CHECK(answer && answer->fit.will_fit() && answer->inference &&
                  answer->inference->next_token);
  const double rate = answer->inference->next_token->tokens_per_second();
  SHARDPLAN_CHECK(std::abs(rate - plan.tokens_per_second) <= 1e-9 * rate);
}

}  // namespace

std::string mesh_text(const EngineMesh& mesh) {
  return axes_text(mesh_of(mesh).axes());
}

std::vector<PlanFlag> flags_of(const ServingPlanRequest& request,
                               const ServingPlan& plan) {
  std::vector<PlanFlag> flags = {{"mesh", mesh_text(plan.mesh)}};
  if (plan.mesh.pp > 1) flags.push_back({"stages", "pp"});
  flags.push_back({"mode", "decode"});
  flags.push_back({"engine", *request.engine.name});
  if (plan.mesh.expert_parallel) flags.push_back({"expert-parallel"});
  if (plan.mesh.dp_attention) flags.push_back({"dp-attention"});
  for (const auto& [name, value] :
       {std::pair{"input-tokens", *request.engine.input_tokens},
        std::pair{"output-tokens", *request.engine.output_tokens},
        std::pair{"concurrency", plan.requests}}) {
    flags.push_back({name, std::to_string(value)});
  }
  return flags;
}

std::optional<PlannedServing> plan_serving(const ServingPlanRequest& asked_for,
                                           Host& host, Diagnostics& diags,
                                           ProgressListener& progress) {
  if (!check(asked_for, diags)) return std::nullopt;
  PlannedServing planned;
  planned.request = asked_for;
  ServingPlanRequest& request = planned.request;
  const auto inputs = read_inputs(request.planning, host, diags, progress);
  if (!inputs) return std::nullopt;
  assume(request, inputs->model.manifest, planned.assumed);
  request.memory.batch = 1;
  if (!check_question(
          {request.planning, request.memory, request.workload, request.engine},
          diags)) {
    return std::nullopt;
  }
  const auto planner = ServingPlanner::of(request, *inputs, host, diags);
  if (planner == nullptr) return std::nullopt;
  std::vector<EngineMesh> layouts = planner->layouts(*request.planning.devices);
  if (request.fixed_mesh != nullptr) {
    const auto fixed = layout_of(request.fixed_mesh, request.planning, diags);
    if (!fixed) return std::nullopt;
    std::erase_if(layouts, [&](const EngineMesh& mesh) {
      return !has_degrees(mesh, *fixed);
    });
  }
  progress.stage("searching for plans");
  std::vector<std::pair<ServingPlan, int64_t>> found(layouts.size());
  parallel_for(
      std::ssize(layouts), thread_count(request.planning.jobs),
      [&](int64_t i) { nth(found, i) = planner->best_of(nth(layouts, i)); });
  for (auto& [plan, tried] : found) {
    planned.considered += tried;
    planned.layouts.push_back(std::move(plan));
  }
  std::ranges::stable_sort(planned.layouts, {}, rank);
  for (const SourcePtr& text : request.why_not) {
    const auto mesh = layout_of(text, request.planning, diags);
    if (!mesh) return std::nullopt;
    const auto own = std::ranges::find_if(
        planned.layouts,
        [&](const ServingPlan& plan) { return has_degrees(plan.mesh, *mesh); });
    if (own != planned.layouts.end()) {
      planned.why_not.push_back(*own);
      continue;
    }
    ServingPlan other;
    other.mesh = *mesh;
    other.reason = "`--fix-mesh` asks for another mesh";
    planned.why_not.push_back(std::move(other));
  }
  if (!planned.layouts.empty() && planned.layouts.front().is_good()) {
    confirm(request, planned.layouts.front(), host, diags, progress);
  }
  return planned;
}

}  // namespace shardplan
