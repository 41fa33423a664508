// SPDX-License-Identifier: Apache-2.0
// What a plan holds, and candidates that are judged one after the other.
#include "evaluate/plan_judge.h"

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "evaluate/evaluate.h"
#include "resolve/resolve.h"
#include "tests/support/builders.h"
#include "tests/support/hf_config.h"
#include "tests/support/loaded_rules.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/placed.h"
#include "tests/support/property.h"
#include "tests/support/trained.h"

namespace shardplan {
namespace {

using testing::draw_bool;
using testing::draw_in;
using testing::draw_of;

// A model under a plan, and what is asked of it. Stays where it is made.
struct Case {
  Model model;
  AskedMemory memory;
  Plan plan;
  std::unique_ptr<PlanJudge> judge = {};

  Case(Manifest manifest, AskedMemory asked, const RuleSet& rules,
       const char* axes)
      : model(std::move(manifest)),
        memory(std::move(asked)),
        plan(testing::placed(model.manifest, rules, axes)) {
    Diagnostics diags;
    LayerCache layers;
    judge = PlanJudge::of({model, nullptr, memory}, plan, layers, diags);
    REQUIRE_MESSAGE(judge, testing::messages(diags));
  }
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  std::optional<Budget> budget(const Workload& workload) const {
    Candidate candidate;
    candidate.workload = workload;
    Diagnostics diags;
    return judge->budget(candidate, diags);
  }
};

Case drawn() {
  Manifest manifest = testing::manifest({
      {"model/layers/0/wq/kernel", "bf16[8, 8]"},
      {"model/layers/1/wq/kernel", "bf16[8, 8]"},
      {"model/layers/2/wq/kernel", "bf16[8, 8]"},
      {"lm_head/kernel", "bf16[8, 16]"},
  });
  manifest.facts.from = FactsFrom::Manifest;
  manifest.facts.layers = 3;
  manifest.facts.kv_heads = 2;
  manifest.facts.head_dim = 3;
  if (draw_bool()) manifest.facts.windows = {7, 0, 7};
  AskedMemory asked;
  BudgetOptions& options = asked.options;
  options.kv = KvRequest{draw_in<int64_t>(1, 9), draw_in<int64_t>(1, 40),
                         DType::BF16, draw_in<int64_t>(1, 5), draw_bool()};
  options.fragmentation = draw_of({0.0, 0.05, 0.333333});
  options.reserve = draw_in<int64_t>(0, 200);
  const auto room = draw_in<int64_t>(1, 20'000);
  options.limit = DeviceLimit{"test", room, room, false};
  if (draw_bool()) options.stages = Stages{"pp", {}};
  return Case(std::move(manifest), std::move(asked),
              testing::rules({{".", ""}}), "pp=3,dp=2");
}

// With `found` it fits, and with one more it does not.
void check_last(const Case& c, std::optional<int64_t> found,
                int64_t Workload::*count) {
  Workload workload = {c.memory.options.kv->batch, c.memory.options.kv->seq};
  const auto fits = [&](int64_t value) {
    workload.*count = value;
    const auto budget = c.budget(workload);
    return budget && budget->fits();
  };
  if (!found) {
    ENSURE(fits(kMaxKvCount));
    return;
  }
  if (*found > 0) ENSURE(fits(*found));
  ENSURE(!fits(*found + 1));
}

TEST_CASE("headroom: it ends where the budget itself stops to fit") {
  CHECK(holds("headroom", [] {
    const Case c = drawn();
    Diagnostics diags;
    const auto budget = c.judge->budget({}, diags);
    ENSURE(budget.has_value());
    const auto headroom = c.judge->headroom({}, *budget);
    ENSURE(headroom.has_value());
    check_last(c, headroom->batch, &Workload::batch);
    check_last(c, headroom->context, &Workload::seq);
  }));
}

TEST_CASE("headroom: states do not grow with the context") {
  Manifest manifest = testing::manifest({{"lm_head.weight", "bf16[8, 24]"}});
  CachedTensor cached;
  cached.name = "ssm";
  cached.heads = 4;
  cached.width = 6;
  cached.per = CachedTensor::Per::Sequence;
  cached.dtype = DType::F32;
  manifest.facts.layers = 2;
  manifest.facts.from = FactsFrom::Config;
  manifest.facts.state = {{{true, {cached}}}, {0, 0}};
  AskedMemory asked;
  asked.options.kv = KvRequest{.batch = 3, .seq = 100};
  asked.options.limit = DeviceLimit{"--memory", 4000, 4000};
  const Case c(std::move(manifest), std::move(asked),
               testing::rules({{".", ""}}), "tp=1");
  Diagnostics diags;
  const auto budget = c.judge->budget({}, diags);
  REQUIRE(budget);
  const auto headroom = c.judge->headroom({}, *budget);
  REQUIRE(headroom);
  CHECK_FALSE(headroom->context);  // no limit
  const int64_t of_one = 2 * 4 * 6 * 4;
  CHECK(headroom->batch == (4000 - 2 * 8 * 24) / of_one);
}

TEST_CASE("a plan is judged with its headroom") {
  Manifest manifest =
      testing::manifest({{"model/layers/0/wq/kernel", "bf16[8, 8]"}});
  manifest.facts.from = FactsFrom::Manifest;
  manifest.facts.layers = 1;
  manifest.facts.kv_heads = 2;
  manifest.facts.head_dim = 4;
  AskedMemory asked;
  asked.axes.heads = {"tp"};
  asked.options.limit = DeviceLimit{"test", 1000, 1000, false};
  const RuleSet rules = testing::rules({{".", "tp"}});
  Diagnostics diags;
  {
    const Case without(manifest, asked, rules, "tp=2");
    const auto found = without.judge->judge({}, diags);
    REQUIRE(found);
    CHECK(found->budget->classes.front().total == 64);  // half of 8 x 8 x 2
    CHECK(found->fit.headroom == 936);
    CHECK_FALSE(without.judge->headroom({}, *found->budget));
  }
  asked.options.kv = KvRequest{1, 1, DType::BF16, 1, false};
  {
    const Case with(manifest, asked, rules, "tp=2");
    Candidate candidate;
    candidate.workload = Workload{2, 10};
    const auto found = with.judge->judge(candidate, diags);
    REQUIRE(found);
    // One head, 4 + 4 elements of 2 bytes: 16 a token.
    CHECK(found->budget->classes.front().total == 64 + 2 * 10 * 16);
    const auto headroom = with.judge->headroom(candidate, *found->budget);
    REQUIRE(headroom);
    CHECK(headroom->batch == 5);     // 936 / 160
    CHECK(headroom->context == 29);  // 936 / 32
  }
  manifest.facts.head_dim = std::nullopt;
  const Case unknown(manifest, asked, rules, "tp=2");
  CHECK_FALSE(unknown.judge->judge({}, diags));
  CHECK(diags.cannot_run());
}

// Leaves that only the other optimizer has are placed by the rules, too.
TEST_CASE("another optimizer has its state where the state rules place it") {
  const Manifest manifest = testing::manifest({{"w", "f32[8, 8]"}});
  AskedMemory asked;
  asked.state_rules.emplace();
  asked.state_rules->rules = testing::rules({{"mu/", "dp"}, {".", ""}});
  const auto bytes_of = [&](Optimizer own, Optimizer judged) {
    AskedMemory memory = asked;
    memory.options.state.optimizer = own;
    const Case c(manifest, memory, testing::rules({{".", ""}}), "dp=2");
    Candidate candidate;
    candidate.state.emplace().optimizer = judged;
    Diagnostics diags;
    const auto budget = c.judge->budget(candidate, diags);
    REQUIRE_MESSAGE(budget, testing::messages(diags));
    return budget->classes.front().bytes.at(
        static_cast<size_t>(Category::OptimizerState));
  };
  const int64_t lion = bytes_of(Optimizer::Lion, Optimizer::Lion);
  CHECK(lion < 8 * 8 * 4);
  CHECK(bytes_of(Optimizer::SgdMomentum, Optimizer::Lion) == lion);
  CHECK(bytes_of(Optimizer::Lion, Optimizer::SgdMomentum) == 8 * 8 * 4);
}

Candidate drawn_candidate() {
  Candidate candidate;
  candidate.placing.mesh = testing::mesh(draw_of<std::string>(
      {"fsdp=2,tp=2", "fsdp=4,tp=1", "fsdp=1,tp=4", "dp=2,fsdp=2"}));
  if (draw_bool()) {
    RuleChange change;
    change.rule = draw_of<int>({1, 2, 3});
    change.spec = testing::spec(draw_of<std::string>({"", "fsdp"}));
    candidate.placing.rules = {change};
  }
  if (draw_bool()) {
    candidate.device =
        Device{DeviceLimit{"test", 1 << 20,
                           draw_of<int64_t>({1 << 16, 1 << 20}), false},
               draw_of<int64_t>({0, 1000}),
               {}};
  }
  if (draw_bool()) {
    candidate.workload =
        Workload{draw_of<int64_t>({4, 8}), draw_of<int64_t>({16, 24})};
  }
  if (draw_bool()) {
    StateOptions state;
    state.optimizer = draw_of({Optimizer::AdamW, Optimizer::Lion});
    state.zero = draw_of<int>({0, 1});
    if (state.zero > 0) state.zero_axes = {"fsdp"};
    candidate.state = state;
  }
  if (draw_bool()) {
    StepOptions step;
    step.microbatches = draw_of<int64_t>({1, 2});
    Diagnostics quiet;
    step.remat = *read_remat(draw_of<const char*>({"none", "full"}), quiet);
    candidate.step = step;
  }
  return candidate;
}

// What is compared of a judgement; "" for none.
std::string text_of(const std::optional<Judgement>& judged) {
  if (!judged) return "";
  std::string text = std::to_string(judged->fit.needed) + " " +
                     std::to_string(judged->fit.headroom.value_or(-1));
  for (const BudgetClass& each : judged->budget->classes) {
    text += " " + std::to_string(each.total);
  }
  for (const BracketRow& row : judged->step->bracket.rows) {
    for (const int64_t bytes : row.bytes) text += " " + std::to_string(bytes);
  }
  for (const DivisionProblem& each : judged->step->refused) text += each.text;
  return text;
}

// Calls use(groundwork, asked) for a small Llama under its shipped rules.
template <typename Use>
void with_llama(const AskedMemory& memory, const Use& use) {
  testing::MemoryHost host;
  const auto rules = testing::loaded_rules(host, "@llama");
  REQUIRE(rules->rules);
  auto synthesis = testing::synthesize(testing::kLlama);
  REQUIRE(synthesis->manifest);
  const Model model(std::move(*synthesis->manifest));
  Diagnostics diags;
  const auto step = step_model(model, {}, diags);
  REQUIRE_MESSAGE(step, testing::messages(diags));
  auto found = find_rules(model.manifest, *rules->rules, {}, diags);
  REQUIRE(found);
  const Groundwork ground = groundwork_of_rules(
      model.manifest, *rules->rules, *std::move(found), model.folding(),
      model.units(), {}, {}, Places::LeftOut);
  use(ground, Asked{model, &*rules->rules, memory, &*step});
}

// An evaluator keeps what the next candidate may share: nothing of one may be
// left in the answer to another.
TEST_CASE("candidates: one after the other they are judged as each alone") {
  AskedMemory memory;
  memory.options.state.optimizer = Optimizer::AdamW;
  memory.workload = Workload{8, 16};
  with_llama(memory, [](const Groundwork& ground, const Asked& asked) {
    std::map<std::string, int> answers;
    CHECK(holds("judgements", [&] {
      Evaluator one(ground, asked, {});
      Candidate candidate;
      std::string text;
      Diagnostics quiet;
      for (int i = 0; i < 3; ++i) {
        candidate = drawn_candidate();
        text = text_of(one.judge(candidate, quiet));
        ++answers[text];
      }
      Evaluator alone =
          draw_bool() ? one.for_thread() : Evaluator(ground, asked, {});
      ENSURE(text == text_of(alone.judge(candidate, quiet)));
    }));
    CHECK(answers.size() > 30);
    CHECK(answers[""] == 0);
  });
}

// Whoever asks what a framework refuses, before a budget or with one, is told
// the same.
TEST_CASE("an interleaved pipeline is refused by all who are asked") {
  AskedMemory memory;
  memory.options.state.optimizer = Optimizer::AdamW;
  memory.workload = Workload{24, 16};
  memory.options.stages = Stages{"pp", {}};
  with_llama(memory, [](const Groundwork& ground, const Asked& asked) {
    int refused = 0;
    int run = 0;
    CHECK(holds("one verdict", [&] {
      Candidate candidate;
      candidate.placing.mesh = testing::mesh("pp=2,fsdp=2");
      candidate.step = StepOptions{};
      candidate.step->schedule = PipelineSchedule::Interleaved;
      candidate.step->chunks = draw_of<int64_t>({1, 2, 3, 4});
      candidate.step->group = draw_of<int64_t>({0, 1, 3});
      candidate.step->microbatches = draw_of<int64_t>({1, 3, 4, 6});
      candidate.stage_layers = draw_of<std::vector<int64_t>>(
          {std::vector<int64_t>{}, {3, 3}, {2, 4}, {1, 5}});
      Evaluator evaluator(ground, asked, {});
      Diagnostics quiet;
      PlanJudge& judge = *evaluator.placed(candidate.placing).judge;
      const auto text = [](const std::vector<DivisionProblem>& problems) {
        std::string all;
        for (const DivisionProblem& each : problems) all += each.text + "; ";
        return all;
      };
      const std::string before = text(judge.refused(candidate));
      const auto judged = judge.judge(candidate, quiet);
      ENSURE(judged.has_value());
      ENSURE(before == text(judged->step->refused));
      ++(before.empty() ? run : refused);
      // Named, they may be as long as anyone likes, but not empty.
      ENSURE(before.find("layer") == std::string::npos ||
             candidate.step->chunks > 1);
      ENSURE(candidate.stage_layers != (std::vector<int64_t>{2, 4}) ||
             before.find("layer") == std::string::npos ||
             candidate.step->chunks > 3);
    }));
    CHECK(refused > 10);
    CHECK(run > 10);
  });
}

}  // namespace
}  // namespace shardplan
