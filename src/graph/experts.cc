// SPDX-License-Identifier: Apache-2.0
#include "graph/experts.h"

#include <utility>
#include <vector>

#include "base/text.h"

namespace shardplan {
namespace {

// One kernel of all experts, or of one: gate, up and down alike.
struct Expert {
  std::string x;
  std::string dims;     // letters of x
  std::string at;       // of its values
  std::string weights;  // "layers.0.mlp.experts", perhaps with a number
  int64_t stack = 0;
  Labels inner;  // of what is between up and down
};

class ExpertsWriter {
 public:
  ExpertsWriter(ModelWriter& out, const ExpertNames& names,
                int64_t intermediate, const std::string& at)
      : out_(out),
        names_(names),
        at_(at),
        hidden_(*out.config().hidden),
        inner_(intermediate),
        experts_(*out.config().experts),
        chosen_(*out.config().experts_per_token) {}

  std::string run(const std::string& x) {
    const std::string choices = route(x);
    GivenAttributes places = {{"experts", number(experts_)}};
    if (out_.input().pass.capacity) {
      places.emplace_back("capacity", number(*out_.input().pass.capacity));
    }
    const bool separate = !has("", names_.down);
    // Experts that are stacked may lie on an axis of the batch: who sends what
    // to whom follows from the weights, and no label could say both.
    const Labels labels = separate ? Labels{"", "BATCH", "", ""} : Labels{};
    const std::string sent =
        out_.op("dispatch", {x, choices}, at_ + ".dispatched", places, labels);
    const std::string answers = separate ? one_by_one(sent) : together(sent);
    return out_.op("combine", {answers, choices, at_ + ".shares"},
                   at_ + ".output", {}, {"BATCH", "LENGTH", ""});
  }

 private:
  bool has(const std::string& expert, std::string_view kernel) const {
    const std::string name =
        names_.experts + "." + expert + std::string(kernel);
    return out_.has(name + ".weight") || out_.has(name);
  }

  // The experts of every token, best first; their shares as `at`.shares.
  std::string route(const std::string& x) {
    const Labels labels = {"BATCH", "LENGTH", ""};
    const std::string logits = out_.linear(
        {x, "bs", names_.router, hidden_, experts_, at_ + ".router", labels});
    const std::string chances = out_.op("softmax", {logits}, at_ + ".chances");
    std::string choices =
        out_.op("top_k", {chances}, at_ + ".choices", {{"k", number(chosen_)}});
    const bool normalised = *out_.config().normalise_top_k;
    const std::string shares =
        out_.op("take", {chances, choices},
                at_ + (normalised ? ".shares:taken" : ".shares"));
    if (normalised) {
      const std::string sum = out_.op("sum", {shares}, at_ + ".shares:sum",
                                      {{"dims", std::vector<int64_t>{-1}}});
      out_.op("divide", {shares, sum}, at_ + ".shares");
    }
    return choices;
  }

  std::string together(const std::string& sent) {
    return mlp({sent, "ebc", at_, names_.experts, experts_, {}});
  }

  std::string one_by_one(const std::string& sent) {
    const ForwardPass& pass = out_.input().pass;
    const int64_t capacity = pass.capacity.value_or(pass.length);
    const Labels labels = {"BATCH", "", ""};
    std::vector<std::string> answers;
    for (int64_t e = 0; e < experts_ && out_.good(); ++e) {
      const std::string at = at_ + ".experts." + std::to_string(e);
      const std::string row =
          out_.op("slice", {sent}, at + ".input:row",
                  {{"dim", 0.0}, {"begin", number(e)}, {"end", number(e + 1)}});
      const std::string x =
          out_.op("reshape", {row}, at + ".input",
                  {{"shape", Shape{pass.batch, capacity, hidden_}}}, labels);
      const std::string weights = names_.experts + "." + std::to_string(e);
      const std::string answer =
          mlp({x, "bc", at, weights, 0, {"BATCH", "", "MLP_INTERMEDIATE"}});
      answers.push_back(
          out_.op("reshape", {answer}, answer + ":row",
                  {{"shape", Shape{1, pass.batch, capacity, hidden_}}}));
    }
    if (answers.size() == 1) return answers.front();
    return out_.op("concatenate", std::move(answers), at_ + ".answers",
                   {{"dim", 0.0}});
  }

  // Answers have no labels: where the down projection leaves parts of sums,
  // what is added up is what the experts have said together.
  std::string mlp(const Expert& expert) {
    const auto [gate, up] = gate_and_up(expert);
    const std::string active = out_.activation(gate, expert.at + ".active");
    const std::string mixed = out_.op("multiply", {active, up},
                                      expert.at + ".hidden", {}, expert.inner);
    return out_.linear({mixed,
                        expert.dims,
                        name(expert, names_.down),
                        inner_,
                        hidden_,
                        expert.at + ".answer",
                        {},
                        false,
                        expert.stack});
  }

  static std::string name(const Expert& expert, std::string_view kernel) {
    return expert.weights + "." + std::string(kernel);
  }

  std::pair<std::string, std::string> gate_and_up(const Expert& expert) {
    const std::string gate = expert.at + ".gate";
    const std::string up = expert.at + ".up";
    // One matrix, the rows of gate before those of up (transformers 5).
    const std::string fused = name(expert, "gate_up_proj");
    if (out_.has(fused) || out_.has(fused + ".weight")) {
      const std::string both = out_.linear({expert.x,
                                            expert.dims,
                                            fused,
                                            hidden_,
                                            2 * inner_,
                                            expert.at + ".gate_up",
                                            {},
                                            false,
                                            expert.stack});
      out_.op("slice", {both}, gate,
              {{"dim", -1.0}, {"begin", 0.0}, {"end", number(inner_)}});
      out_.op("slice", {both}, up,
              {{"dim", -1.0},
               {"begin", number(inner_)},
               {"end", number(2 * inner_)}});
      return {gate, up};
    }
    for (const auto& [kernel, result] :
         {std::pair{names_.gate, gate}, std::pair{names_.up, up}}) {
      out_.linear({expert.x,
                   expert.dims,
                   name(expert, kernel),
                   hidden_,
                   inner_,
                   result,
                   {},
                   false,
                   expert.stack});
    }
    return {gate, up};
  }

  ModelWriter& out_;
  const ExpertNames& names_;
  const std::string& at_;
  int64_t hidden_;
  int64_t inner_;
  int64_t experts_;
  int64_t chosen_;
};

}  // namespace

std::string write_experts(ModelWriter& out, const ExpertNames& names,
                          int64_t intermediate, const std::string& at,
                          const std::string& x) {
  const ModelConfig& config = out.config();
  if (!config.experts || !config.experts_per_token ||
      *config.experts_per_token > *config.experts ||
      *config.experts_per_token < 1) {
    if (out.good()) {
      out.refuse("experts that a token goes to are not from 1 to all experts")
          .fact(count_text(config.experts_per_token.value_or(0)) + " of " +
                count_text(config.experts.value_or(0)));
    }
    return x;
  }
  return ExpertsWriter(out, names, intermediate, at).run(x);
}

}  // namespace shardplan
