// SPDX-License-Identifier: Apache-2.0
// Reads and completes a request for a training plan.
#include "session/planning/question.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/parallel.h"
#include "base/text.h"
#include "base/words.h"
#include "core/views.h"
#include "io/load.h"
#include "io/spec_node.h"
#include "memory/stages.h"
#include "model/from_config.h"
#include "resolve/match.h"
#include "session/memory_answer.h"

namespace shardplan {
namespace {

// Defaults of a step: four million tokens, as models of this kind are trained
// with (Llama 3 405B: 4 to 16 million), and with many devices at least one
// sequence for every eight.
constexpr int64_t kStepTokens = int64_t{1} << 22U;
constexpr int64_t kDevicesPerSequence = 8;
constexpr int64_t kMostTokens = 8192;

// The number of evaluations after which branches within 2 % of the best are
// skipped, and the number after which the search ends: a few seconds on two
// cores. With experts, an evaluation takes three times as long.
constexpr int64_t kExactLooks = 1000;
constexpr int64_t kLooks = 1800;
constexpr double kTolerance = 0.02;

bool names_axis(const RuleSet& rules, std::string_view axis) {
  return contains(rules.declared_axes, axis) || is_named_in_rules(rules, axis);
}

// Declares the axes of the search, as `--axes` would. Some of its meshes lack
// axes that rules name, or have replicas (dp), which rules need not name.
void declare_plan_axes(PlanRequest& planning, RuleSet& rules) {
  for (size_t i = 0; i < kPlanAxes; ++i) {
    const AxisName axis(kPlanAxisNames[i]);
    const bool may_be = static_cast<PlanAxis>(i) == PlanAxis::Replicas ||
                        names_axis(rules, kPlanAxisNames[i]);
    if (!may_be || contains(rules.declared_axes, axis)) continue;
    rules.declared_axes.push_back(axis);
    planning.axes.push_back(axis);
  }
}

bool check(const PlannerRequest& request, Diagnostics& diags) {
  if (!check_devices(request.planning, request.memory, diags)) return false;
  if (request.planning.mode == Mode::Train) return true;
  return refuse_flags("`plan` searches training plans, but `--mode " +
                          std::string(mode_name(request.planning.mode)) +
                          "` is given",
                      "add `--engine vllm` to search serving plans", diags);
}

// Fills in what the request leaves open, and states each assumption.
void assume(PlannerRequest& request, const Manifest& manifest,
            std::vector<std::string>& assumed) {
  MemoryRequest& memory = request.memory;
  if (memory.state.optimizer == Optimizer::None &&
      memory.state.groups.empty()) {
    memory.state.optimizer = Optimizer::AdamW;
    assumed.emplace_back("AdamW (`--optimizer`)");
  }
  if (!memory.seq) {
    memory.seq = kMostTokens;
    if (const auto most = config_positions(manifest)) {
      memory.seq = std::min(*memory.seq, *most);
    }
    assumed.push_back("sequences of " + count_text(*memory.seq) +
                      " tokens (`--seq`)");
  }
  if (!memory.batch) {
    int64_t batch = std::max<int64_t>(kStepTokens / *memory.seq, 1);
    while (batch * kDevicesPerSequence < *request.planning.devices) batch *= 2;
    memory.batch = batch;
    assumed.push_back(plural(batch, "sequence") + " per step (`--batch`)");
  }
  for (const std::string& what : request.offloads) {
    assumed.push_back(what +
                      " in host memory, since nothing fits otherwise "
                      "(`--offload " +
                      what + "`)");
  }
  if (!request.workload.step.framework->is_known()) {
    assumed.emplace_back("any framework (`--framework`)");
  }
}

// Returns the number of devices that the fastest link connects.
int64_t domain_of(const HardwareProfile& card, int64_t devices) {
  if (card.links.empty() || !card.links.front().devices) return devices;
  return card.links.front().devices->value;
}

std::optional<PlanAxis> find_axis(std::string_view name) {
  const auto found = std::ranges::find(kPlanAxisNames, name);
  if (found == std::end(kPlanAxisNames)) return std::nullopt;
  return static_cast<PlanAxis>(found - std::begin(kPlanAxisNames));
}

std::string axis_names() {
  return quoted_names(std::vector<std::string>(std::begin(kPlanAxisNames),
                                               std::end(kPlanAxisNames)));
}

// Returns how many layers take as long as the head. Per token, a matrix
// multiplies by each of its elements once (of experts, those that the token is
// routed to), and attention by the keys and values of the sequence, half of
// which precede the token.
double head_in_layers(const Manifest& manifest, int64_t seq) {
  const Facts& facts = manifest.facts;
  const LayerGroups groups =
      layer_groups(manifest, std::vector<uint32_t>(manifest.size(), 0));
  std::map<std::pair<uint32_t, uint32_t>, int64_t> alike;
  for (size_t i = 0; i < manifest.size(); ++i) {
    ++alike[{groups.group_of[i], manifest.name_class(i)}];
  }
  const int64_t experts = facts.experts.value_or(0);
  const double routed =
      experts > 1 ? static_cast<double>(facts.experts_per_token.value_or(1)) /
                        static_cast<double>(experts)
                  : 1;
  double in_layers = static_cast<double>(seq);
  for (const auto& count : {facts.layers, facts.heads, facts.head_dim}) {
    in_layers *= static_cast<double>(count.value_or(0));
  }
  double head = 0;
  double embedding = 0;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const TensorType& type = manifest.type(i);
    if (type.shape.size() < 2) continue;
    const LayerGroup& group = groups.groups[groups.group_of[i]];
    const auto numbers = static_cast<double>(type.elements());
    const bool is_expert =
        experts > 1 &&
        (contains(type.shape, experts) ||
         alike[{groups.group_of[i], manifest.name_class(i)}] == experts);
    if (group.stack >= 0) {
      in_layers += numbers * (is_expert ? routed : 1);
    } else if (group.place == GroupPlace::Head) {
      head += numbers;
    } else if (group.is_token_embedding) {
      embedding += numbers;
    }
  }
  if (in_layers == 0) return 0;
  return (head > 0 ? head : embedding) *
         static_cast<double>(facts.layers.value_or(1)) / in_layers;
}

std::optional<PlanSpace> space_of(const PlannerRequest& request,
                                  const Inputs& inputs,
                                  const AskedMemory& asked,
                                  Diagnostics& diags) {
  const Facts& facts = inputs.model.manifest.facts;
  PlanSpace space;
  space.devices = *request.planning.devices;
  space.domain = domain_of(*asked.card, space.devices);
  space.batch = *request.memory.batch;
  space.seq = *request.memory.seq;
  space.layers = facts.layers.value_or(1);
  space.head = head_in_layers(inputs.model.manifest, space.seq);
  space.features = framework_features(request.workload.step.framework->name);
  space.microbatches = request.microbatches;
  space.remats = request.remats;
  if (space.remats.empty()) {
    for (const std::string_view name : space.features.remats) {
      space.remats.emplace_back(name);
    }
  }
  // Rules for experts in a view of their own place whole experts.
  const auto has_view = [](const auto& rule) {
    return rule.view == kExpertView;
  };
  if (std::ranges::any_of(inputs.rules.rules, has_view) ||
      std::ranges::any_of(inputs.rules.logical_rules, has_view)) {
    space.experts = facts.experts.value_or(0);
  }
  for (const AxisName& axis : request.over) {
    if (find_axis(axis)) continue;
    return diags
        .error(Code::Usage, {},
               "`--over` names axis " + in_backticks(axis) +
                   ", which `plan` does not have")
        .help("its axes are " + axis_names());
  }
  for (size_t i = 0; i < kPlanAxes; ++i) {
    const auto axis = static_cast<PlanAxis>(i);
    const std::string_view name = kPlanAxisNames[i];
    const bool is_asked =
        request.over.empty() || contains(request.over, AxisName(name));
    const bool is_there =
        axis == PlanAxis::Stages     ? space.features.stages && facts.layers
        : axis == PlanAxis::Replicas ? true
        : axis == PlanAxis::Shards
            ? space.features.shards && names_axis(inputs.rules, name)
            : names_axis(inputs.rules, name);
    if (is_asked && is_there) space.over.push_back(axis);
  }
  if (request.fixed_mesh != nullptr) {
    space.fixed = point_of(request.fixed_mesh, request.planning, diags);
    if (!space.fixed) return std::nullopt;
  }
  return space;
}

// Returns a pattern for all parameters whose names differ from this one only in
// numbers; "" if no parameter has the name.
std::string pattern_of_kind(std::string_view name, const Manifest& manifest) {
  bool is_there = false;
  for (size_t i = 0; i < manifest.size() && !is_there; ++i) {
    is_there = manifest.name(i) == name;
  }
  if (!is_there) return "";
  std::string pattern = "^";
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find_first_of("./", begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    pattern += parse_integer(part) ? "\\d+" : escape_pattern(part);
    if (end < name.size()) pattern += escape_pattern(name.substr(end, 1));
    begin = end + 1;
  }
  return pattern + "$";
}

}  // namespace

std::string flags_text(const std::vector<PlanFlag>& flags) {
  return joined_of(flags, " ", [](const PlanFlag& flag) {
    return "--" + flag.name + (flag.value.empty() ? "" : " " + flag.value);
  });
}

std::optional<FlaggedSpec> read_flagged_spec(const SourcePtr& text,
                                             const Manifest& manifest,
                                             Diagnostics& diags) {
  const std::string_view all = text->text();
  const std::string said = in_backticks(text->name() + " " + std::string(all));
  const size_t equals = std::min(all.find('='), all.size());
  auto spec = read_spec_text(text->name(),
                             all.substr(std::min(equals + 1, all.size())));
  if (!spec || equals == 0) {
    return diags
        .error(Code::Usage, {}, said + " is not of the form PARAMETER=SPEC")
        .help("write it like `" + text->name() +
              " 'lm_head=P(tp, fsdp)'`, with None for an unsharded dimension");
  }
  FlaggedSpec flagged;
  flagged.rule.pattern = pattern_of_kind(all.substr(0, equals), manifest);
  if (flagged.rule.pattern.empty()) {
    flagged.rule.pattern = all.substr(0, equals);
  }
  flagged.rule.spec = *std::move(spec);
  RuleSet rules;
  rules.rules.push_back(flagged.rule);
  const auto matcher =
      Matcher::compile(rules, manifest.names_are_plain(), diags);
  if (!matcher) return std::nullopt;
  std::vector<int> found;
  for (size_t i = 0; i < manifest.size(); ++i) {
    matcher->find(manifest.name(i), found);
    if (!found.empty()) flagged.parameters.push_back(i);
  }
  if (flagged.parameters.empty()) {
    return diags.error(Code::Usage, {}, said + " matches no parameter")
        .help("`shardplan inspect` lists the parameters of a model");
  }
  for (const size_t i : flagged.parameters) {
    const Shape& shape = manifest.type(i).shape;
    if (flagged.rule.spec.dims.size() <= shape.size()) continue;
    return diags
        .error(Code::Usage, {},
               said + " has " +
                   plural(std::ssize(flagged.rule.spec.dims), "entry") +
                   ", but " + in_backticks(manifest.name(i)) + " has " +
                   plural(std::ssize(shape), "dimension"))
        .help("give one entry for each dimension");
  }
  return flagged;
}

bool check_devices(const PlanRequest& planning, const MemoryRequest& memory,
                   Diagnostics& diags) {
  if (!planning.devices) {
    return refuse_flags(
        "`plan` needs a number of devices",
        "add `--devices`, for example `--devices 64`, or `--topology`", diags);
  }
  if (!memory.hardware) {
    return refuse_flags("`plan` needs to know the devices",
                        "add `--hardware`, for example `--hardware h100-sxm`",
                        diags);
  }
  if (planning.slices.value_or(1) == 1) return true;
  return refuse_flags("`plan` does not support several slices",
                      "`sweep --mesh` compares meshes with explicit slices",
                      diags);
}

std::optional<Mesh> mesh_of_all(const SourcePtr& text,
                                const PlanRequest& planning,
                                Diagnostics& diags) {
  auto written = written_mesh(text, planning, {}, diags);
  if (!written) return std::nullopt;
  const int64_t devices = written->mesh.devices();
  if (devices == *planning.devices) return std::move(written->mesh);
  return diags
      .error(Code::Usage, {},
             in_backticks(text->name() + " " + std::string(text->text())) +
                 " has " + plural(devices, "device") +
                 ", but the plan is for " + count_text(*planning.devices))
      .help("give sizes whose product is " + std::to_string(*planning.devices));
}

std::optional<PlanPoint> point_of(const SourcePtr& text,
                                  const PlanRequest& planning,
                                  Diagnostics& diags) {
  const auto mesh = mesh_of_all(text, planning, diags);
  if (!mesh) return std::nullopt;
  PlanPoint point;
  std::vector<PlanAxis> order;
  for (const Axis& axis : mesh->axes()) {
    const auto known = find_axis(axis.name);
    if (!known) {
      return diags
          .error(Code::Usage, {},
                 "`plan` has no axis " + in_backticks(axis.name) + ", which " +
                     in_backticks(text->name()) + " names")
          .help("its axes are " + axis_names());
    }
    point.of(*known) = axis.size;
    if (axis.size > 1) order.push_back(*known);
  }
  if (order.empty()) return point;
  point.innermost = order.back();
  std::vector<PlanAxis> sorted = order;
  std::ranges::sort(sorted);
  if (sorted.back() == point.innermost) point.innermost = PlanAxis::Tensor;
  std::erase(sorted, order.back());
  order.pop_back();
  if (sorted != order) {
    return diags
        .error(Code::Usage, {},
               "`plan` does not try the axis order of " +
                   in_backticks(text->text()))
        .fact(
            "it tries pp, dp, fsdp, sp, tp, and this order with one of them "
            "moved last")
        .help("`analyze --mesh` takes any order");
  }
  return point;
}

std::unique_ptr<PlanQuestion> plan_question(const PlannerRequest& asked_for,
                                            const Rule* first, Host& host,
                                            Diagnostics& diags,
                                            ProgressListener& progress) {
  if (!check(asked_for, diags)) return nullptr;
  PlannerRequest request = asked_for;
  // This view keeps the shipped rules for experts.
  request.planning.views = {std::make_shared<SourceFile>(
      "--view", std::string(kExpertView) + ":ep=1")};
  auto inputs = read_inputs(request.planning, host, diags, progress);
  if (!inputs) return nullptr;
  if (first != nullptr) {
    inputs->rules.rules.insert(inputs->rules.rules.begin(), *first);
  }
  declare_plan_axes(request.planning, inputs->rules);
  std::vector<std::string> assumed;
  const Manifest& manifest = inputs->model.manifest;
  assume(request, manifest, assumed);
  std::vector<ForbiddenSpec> forbidden;
  for (const SourcePtr& text : request.forbidden) {
    auto spec = read_flagged_spec(text, manifest, diags);
    if (!spec) return nullptr;
    forbidden.push_back({"`--forbid " + std::string(text->text()) + "`",
                         std::move(spec->parameters),
                         std::move(spec->rule.spec)});
  }
  const MemoryQuestion memory = {request.planning, request.memory,
                                 request.workload, EngineRequest()};
  if (!check_question(memory, diags)) return nullptr;
  auto asked = asked_memory(request.memory, request.planning, request.workload,
                            manifest, &inputs->rules, host, diags);
  if (!asked) return nullptr;
  auto step = step_model(inputs->model, asked->trained, diags);
  if (!step) return nullptr;
  auto space = space_of(request, *inputs, *asked, diags);
  if (!space) return nullptr;
  // The model shares its data with its copies, and step refers to that data.
  std::unique_ptr<PlanQuestion> question(
      new PlanQuestion{std::move(request), std::move(assumed),
                       *std::move(inputs), *std::move(asked), *std::move(step),
                       std::move(forbidden), *std::move(space), nullptr});
  question->pricing =
      PlanPricing::of(pricing_input(*question, question->space), diags);
  if (question->pricing == nullptr) return nullptr;
  return question;
}

PricingInput pricing_input(const PlanQuestion& question,
                           const PlanSpace& space) {
  return {question.request.planning,
          question.request.memory,
          question.inputs,
          question.asked,
          question.step,
          space,
          question.forbidden};
}

int threads_of(const PlanQuestion& question) {
  return thread_count(question.request.planning.jobs);
}

PlanAnswer search_for(const PlanQuestion& question, const PlanSpace& space,
                      size_t shapes) {
  SearchBudget budget;
  budget.looks = space.experts > 1 ? kLooks / 3 : kLooks;
  budget.exact_looks = kExactLooks;
  budget.tolerance = kTolerance;
  budget.threads = threads_of(question);
  return search_plans(space, question.request.objective,
                      question.pricing->costs(), budget, shapes);
}

}  // namespace shardplan
