// SPDX-License-Identifier: Apache-2.0
// `shardplan plan MODEL`: what to run.
#include <cstdio>
#include "base/parallel.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "search/plan_search.h"
#include "session/memory_answer.h"
#include "session/plan_pricing.h"
#include "session/session.h"

namespace shardplan::cli {

Exit run_plan(Context& context) {
  const Options& options = context.options;
  PlanRequest planning = options.planning;
  planning.views.push_back(std::make_shared<SourceFile>("--view", "experts:ep=1"));
  auto inputs = read_inputs(planning, context.host, context.diags, context.progress);
  if (!inputs) return Exit::CouldNotRun;
  MemoryRequest memory = options.memory;
  if (memory.state.optimizer == Optimizer::None) memory.state.optimizer = Optimizer::AdamW;
  const Manifest& manifest = inputs->model.manifest;
  PlanSpace space;
  space.devices = *planning.devices;
  if (!memory.seq) memory.seq = 8192;
  if (!memory.batch) memory.batch = std::max<int64_t>((1<<22) / *memory.seq, space.devices / 8);
  space.batch = *memory.batch;
  space.seq = *memory.seq;
  space.layers = manifest.facts.layers.value_or(1);
  space.experts = manifest.facts.experts.value_or(0);
  space.ways = framework_ways(options.workload.step.framework->name);
  for (auto r : space.ways.remats) space.remats.emplace_back(r);
  for (int i = 0; i < kPlanAxes; ++i) {
    auto a = static_cast<PlanAxis>(i);
    if (a == PlanAxis::Stages && !space.ways.stages) continue;
    if (a == PlanAxis::Shards && !space.ways.shards) continue;
    if (!options.sweep.over.empty() && std::find(options.sweep.over.begin(), options.sweep.over.end(), kPlanAxisNames[i]) == options.sweep.over.end()) continue;
    space.over.push_back(a);
  }
  auto asked = asked_memory(memory, planning, options.workload, manifest, &inputs->rules, context.host, context.diags);
  if (!asked) return Exit::CouldNotRun;
  space.domain = asked->card->links.empty() ? 1 : asked->card->links[0].devices ? asked->card->links[0].devices->value : space.devices;
  auto model = step_model(inputs->model, asked->trained, context.diags);
  if (!model) return Exit::CouldNotRun;
  auto pricing = PlanPricing::of({planning, memory, *inputs, *asked, *model, space}, context.diags);
  if (!pricing) return Exit::CouldNotRun;
  SearchBudget budget;
  budget.threads = thread_count(planning.jobs);
  const char* b = getenv("LOOKS");
  if (b) budget.looks = atoll(b);
  if (getenv("EXACT")) budget.exact_looks = atoll(getenv("EXACT"));
  budget.tolerance = 0.02;
  PlanAnswer answer = search_plans(space, PlanObjective::StepTime, pricing->costs(), budget);
  printf("priced %zu looks %ld\n", answer.priced.size(), answer.looks); printf("considered %ld priced %zu worse %ld bound %.4f best %zu exhausted %d\n", answer.considered, answer.priced.size(), answer.worse, answer.lower_bound, answer.best.size(), answer.exhausted);
  for (auto& r : answer.rejected) printf("  %d %ld %s\n", int(r.verdict), r.count, r.reason.c_str());
  auto show = [&](const PricedPlan& p) {
    printf("%-40s m=%-4ld v=%ld %-5s zero=%d sp=%d ep=%ld etp=%ld  %8.3f s [unsent %.3f least %.3f] %6.1f %% mem %.1f..%.1f GiB %s  verdict %d %s\n", mesh_text(mesh_of(p.point)).c_str(), p.point.microbatches, p.point.chunks, space.remats[p.point.remat].c_str(), p.point.zero, p.point.tokens_over_tensor, p.point.experts, p.point.expert_tensor, p.cost.step.estimate, p.cost.least_of_pass, pricing->costs().least(p.point).bytes/1073741824.0, 100*p.cost.mfu, double(p.cost.least_memory)/1073741824., double(p.cost.most_memory)/1073741824., p.cost.limited_by.c_str(), int(p.cost.verdict), p.cost.reason.c_str());
  };
  for (size_t i = 0; i < answer.best.size() && i < 12; ++i) show(answer.priced[answer.best[i]]);
  if (getenv("ALL")) { printf("all\n"); for (auto& p : answer.priced) show(p); }
  return Exit::Fine;
}

}  // namespace shardplan::cli
