// SPDX-License-Identifier: Apache-2.0
#include "model/forward/experts.h"

#include <string_view>
#include <utility>
#include <vector>

namespace shardplan {
namespace {

// One kernel of all experts, or of one: gate, up and down alike.
struct Expert {
  std::string x;
  std::string at;       // of its values
  std::string weights;  // "layers.0.mlp.experts", perhaps with a number
  int64_t stack = 0;
  ValueLabels inner;  // of what is between up and down
};

class ExpertsWriter {
 public:
  ExpertsWriter(ForwardWriter& out, const ExpertsUse& use)
      : out_(out), use_(use) {}

  void run() {
    GivenAttributes places = {{"experts", number(use_.experts)}};
    if (out_.pass().capacity) {
      places.emplace_back("capacity", number(*out_.pass().capacity));
    }
    const bool separate = !has(use_.down);
    // Experts that are stacked may lie on an axis of the batch: who sends what
    // to whom follows from the weights, and no label could say both.
    const ValueLabels labels =
        separate ? ValueLabels{"", "BATCH", "", ""} : ValueLabels{};
    const std::string sent = out_.op("dispatch", {use_.x, use_.choices},
                                     use_.at + ".dispatched", places, labels);
    const std::string answers =
        separate ? one_by_one(sent)
                 : mlp({sent, use_.at, use_.modules, use_.experts, {}});
    out_.op("combine", {answers, use_.choices, use_.shares}, use_.result, {},
            {"BATCH", "LENGTH", ""});
  }

 private:
  bool has(std::string_view kernel) const {
    const std::string name = use_.modules + "." + std::string(kernel);
    return out_.has(name + ".weight") || out_.has(name);
  }

  std::string one_by_one(const std::string& sent) {
    const ForwardPass& pass = out_.pass();
    const int64_t capacity = pass.capacity.value_or(pass.length);
    const ValueLabels labels = {"BATCH", "", ""};
    std::vector<std::string> answers;
    for (int64_t e = 0; e < use_.experts && out_.good(); ++e) {
      const std::string at = use_.at + ".experts." + std::to_string(e);
      const std::string row =
          out_.op("slice", {sent}, at + ".input:row",
                  {{"dim", 0.0}, {"begin", number(e)}, {"end", number(e + 1)}});
      const std::string x = out_.op(
          "reshape", {row}, at + ".input",
          {{"shape", Shape{pass.batch, capacity, use_.hidden}}}, labels);
      const std::string weights = use_.modules + "." + std::to_string(e);
      const std::string answer =
          mlp({x, at, weights, 0, {"BATCH", "", "MLP_INTERMEDIATE"}});
      answers.push_back(
          out_.op("reshape", {answer}, answer + ":row",
                  {{"shape", Shape{1, pass.batch, capacity, use_.hidden}}}));
    }
    if (answers.size() == 1) return answers.front();
    return out_.op("concatenate", std::move(answers), use_.at + ".answers",
                   {{"dim", 0.0}});
  }

  // Answers have no labels: where the down projection leaves partial sums,
  // what is added up is what the experts have said together.
  std::string mlp(const Expert& expert) {
    const auto [gate, up] = gate_and_up(expert);
    const std::string active =
        out_.activation(use_.activation, gate, expert.at + ".active");
    const std::string mixed = out_.op("multiply", {active, up},
                                      expert.at + ".hidden", {}, expert.inner);
    return linear(expert, mixed, use_.down, use_.inner, use_.hidden, ".answer");
  }

  std::string linear(const Expert& expert, const std::string& x,
                     std::string_view kernel, int64_t in, int64_t out,
                     const char* result) {
    LinearUse use;
    use.x = x;
    use.parameter = expert.weights + "." + std::string(kernel);
    use.in = in;
    use.out = out;
    use.result = expert.at + result;
    use.stack = expert.stack;
    return out_.linear(use);
  }

  std::pair<std::string, std::string> gate_and_up(const Expert& expert) {
    const std::string gate = expert.at + ".gate";
    const std::string up = expert.at + ".up";
    // One matrix, the rows of gate before those of up (transformers 5).
    const std::string fused = expert.weights + ".gate_up_proj";
    if (out_.has(fused) || out_.has(fused + ".weight")) {
      const std::string both = linear(expert, expert.x, "gate_up_proj",
                                      use_.hidden, 2 * use_.inner, ".gate_up");
      const double middle = number(use_.inner);
      out_.op("slice", {both}, gate,
              {{"dim", -1.0}, {"begin", 0.0}, {"end", middle}});
      out_.op("slice", {both}, up,
              {{"dim", -1.0}, {"begin", middle}, {"end", 2 * middle}});
      return {gate, up};
    }
    linear(expert, expert.x, use_.gate, use_.hidden, use_.inner, ".gate");
    linear(expert, expert.x, use_.up, use_.hidden, use_.inner, ".up");
    return {gate, up};
  }

  ForwardWriter& out_;
  const ExpertsUse& use_;
};

}  // namespace

void write_experts(ForwardWriter& out, const ExpertsUse& use) {
  ExpertsWriter(out, use).run();
}

}  // namespace shardplan
