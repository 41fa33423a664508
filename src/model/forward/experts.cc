// SPDX-License-Identifier: Apache-2.0
#include "model/forward/experts.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace shardplan {
namespace {

// The value of `gate` in architectures whose experts have no gate.
constexpr std::string_view kNoGate = "none";

// One expert, or all experts as a stack.
struct Expert {
  std::string x;
  std::string at;       // prefix for the names of its values
  std::string weights;  // "layers.0.mlp.experts", perhaps with a number
  int64_t stack = 0;
  ValueLabels inner;    // axes of the value between up and down
  int64_t number = -1;  // index of the expert; -1: a stack
};

class ExpertsWriter {
 public:
  ExpertsWriter(ForwardWriter& out, const ExpertsUse& use)
      : out_(out),
        use_(use),
        pass_(out.pass()),
        capacity_(pass_.capacity.value_or(pass_.length)) {}

  void run() {
    AttributeValues places = {{"experts", number(use_.experts)}};
    if (pass_.capacity || use_.inputs_weighed) {
      places.emplace_back("capacity", number(capacity_));
    }
    // With a capacity, the tokens that are dropped depend on the whole
    // sequence.
    AttributeValues groups;
    const int64_t parts = pass_.token_groups;
    if (parts > 1 && pass_.length % parts == 0 && !pass_.capacity) {
      groups = {{"groups", number(parts)}};
    }
    places.insert(places.end(), groups.begin(), groups.end());
    const bool separate = !has(use_.down);
    // Stacked experts may be sharded over an axis of the batch. The weights
    // then determine which device sends what, which no label can express.
    const ValueLabels labels = separate || pass_.experts_whole
                                   ? ValueLabels{"", "BATCH", "", ""}
                                   : ValueLabels{};
    std::string x = use_.x;
    std::string choices = use_.choices;
    if (use_.inputs_weighed) weigh_inputs(x, choices);
    const std::string sent = out_.op("dispatch", {x, choices},
                                     use_.at + ".dispatched", places, labels);
    const std::string answers =
        separate ? one_by_one(sent)
                 : mlp({sent, use_.at, use_.modules, use_.experts,
                        pass_.experts_whole
                            ? ValueLabels{"", "BATCH", "", "MLP_INTERMEDIATE"}
                            : ValueLabels{}});
    const ValueLabels tokens = {"BATCH", "LENGTH", ""};
    if (!use_.inputs_weighed) {
      out_.op("combine", {answers, choices, use_.shares}, use_.result, groups,
              tokens);
      return;
    }
    const std::string said =
        out_.op("combine", {answers, choices}, use_.at + ".said", groups);
    const std::string by_choice = out_.reshaped(
        said, {pass_.batch, pass_.length, *use_.inputs_weighed, use_.hidden},
        use_.at + ".said:choices");
    out_.op("sum", {by_choice}, use_.result,
            {{"dims", std::vector<int64_t>{2}}, {"keep", 0.0}}, tokens);
  }

 private:
  // Makes a token per choice, multiplied by the share of the choice.
  void weigh_inputs(std::string& x, std::string& choices) {
    const int64_t k = *use_.inputs_weighed;
    const std::string rows = out_.reshaped(
        x, {pass_.batch, pass_.length, 1, use_.hidden}, use_.at + ".tokens");
    const std::string shares =
        out_.reshaped(use_.shares, {pass_.batch, pass_.length, k, 1},
                      use_.at + ".shares:rows");
    const std::string weighed =
        out_.op("multiply", {rows, shares}, use_.at + ".weighed:choices");
    x = out_.reshaped(weighed, {pass_.batch, pass_.length * k, use_.hidden},
                      use_.at + ".weighed");
    choices = out_.reshaped(choices, {pass_.batch, pass_.length * k, 1},
                            use_.at + ".choices:rows");
  }

  bool has(const ExpertKernel& kernel) const {
    const std::string name = use_.modules + "." + kernel.name;
    return out_.has(name + kernel.weight_name) || out_.has(name);
  }

  std::string one_by_one(const std::string& sent) {
    const ValueLabels labels = {"BATCH", "", ""};
    std::vector<std::string> answers;
    for (int64_t e = 0; e < use_.experts && out_.good(); ++e) {
      const std::string at = use_.at + ".experts." + std::to_string(e);
      const std::string row = out_.sliced(sent, 0, e, e + 1, at + ".input:row");
      const std::string x = out_.reshaped(
          row, {pass_.batch, capacity_, use_.hidden}, at + ".input", labels);
      const std::string weights = use_.modules + "." + std::to_string(e);
      const std::string answer =
          mlp({x, at, weights, 0, {"BATCH", "", "MLP_INTERMEDIATE"}, e});
      answers.push_back(out_.reshaped(
          answer, {1, pass_.batch, capacity_, use_.hidden}, answer + ":row"));
    }
    if (answers.size() == 1) return answers.front();
    return out_.op("concatenate", std::move(answers), use_.at + ".answers",
                   {{"dim", 0.0}});
  }

  // The outputs of experts have no labels: if the down projection leaves
  // partial sums, they are reduced after the outputs are combined.
  std::string mlp(const Expert& expert) {
    const std::string gate = expert.at + ".gate";
    const std::string up = expert.at + ".up";
    const std::string mixed = expert.at + ".hidden";
    if (!use_.gated) {
      linear(expert, expert.x, use_.up, use_.hidden, use_.inner, up);
      out_.activation(use_.activation, up, mixed, expert.inner);
    } else {
      write_gate_and_up(expert, gate, up);
      if (use_.mix) {
        use_.mix(gate, up, expert.at, mixed);
      } else {
        const std::string active =
            out_.activation(use_.activation, gate, expert.at + ".active");
        out_.op("multiply", {active, up}, mixed, {}, expert.inner);
      }
    }
    return linear(expert, mixed, use_.down, use_.inner, use_.hidden,
                  expert.at + ".answer");
  }

  std::string linear(const Expert& expert, const std::string& x,
                     const ExpertKernel& kernel, int64_t in, int64_t out,
                     const std::string& result) {
    return out_.linear({.x = x,
                        .parameter = expert.weights + "." + kernel.name,
                        .in = in,
                        .out = out,
                        .result = result,
                        .biased = kernel.biased,
                        .conv1d = kernel.inputs_first,
                        .stack = expert.stack,
                        .weight_name = kernel.weight_name,
                        .bias_name = kernel.bias_name,
                        .lora = lora_of(expert, kernel, out)});
  }

  // Returns the adapters of the stack that contains a kernel. If both stacks
  // have adapters, those of gate and up are inside those of down. Otherwise
  // shapes decide which stack they belong to: those of the manifest, which may
  // be larger than the shapes in the graph.
  std::optional<StackLora> lora_of(const Expert& expert,
                                   const ExpertKernel& kernel,
                                   int64_t out) const {
    const bool is_down = &kernel == &use_.down;
    const std::string inner = use_.modules + ".base_layer";
    StackLora lora;
    lora.module = is_down || !out_.has(inner + kLoraIn) ? use_.modules : inner;
    const auto ranks = out_.shape_of(lora.module + kLoraIn);
    const auto rows = out_.shape_of(lora.module + kLoraOut);
    auto stored =
        out_.matrix_of(expert.weights + "." + kernel.name, kernel.weight_name);
    if (!ranks || !rows || !stored) return std::nullopt;
    if (kernel.inputs_first) std::swap(stored->first, stored->second);
    const bool is_half = use_.gated && !is_down && &kernel != &use_.both;
    const int64_t halves = is_half ? 2 : 1;
    if (ranks->size() != 2 || rows->size() != 2 ||
        ranks->back() != stored->second ||
        rows->front() != halves * stored->first) {
      return std::nullopt;
    }
    lora.experts = use_.experts;
    lora.expert = expert.number;
    lora.rows = halves * out;
    lora.first_row = &kernel == &use_.up && is_half ? out : 0;
    return lora;
  }

  void write_gate_and_up(const Expert& expert, const std::string& gate,
                         const std::string& up) {
    // Gate and up are one matrix, as in transformers 5.
    const std::string fused = expert.weights + "." + use_.both.name;
    if (!out_.has(fused) && !out_.has(fused + use_.both.weight_name)) {
      linear(expert, expert.x, use_.gate, use_.hidden, use_.inner, gate);
      linear(expert, expert.x, use_.up, use_.hidden, use_.inner, up);
      return;
    }
    const std::string both = linear(expert, expert.x, use_.both, use_.hidden,
                                    2 * use_.inner, expert.at + ".gate_up");
    if (!use_.in_turns) {
      out_.sliced(both, -1, 0, use_.inner, gate);
      out_.sliced(both, -1, use_.inner, 2 * use_.inner, up);
      return;
    }
    Shape rows = {pass_.batch, capacity_, use_.inner};
    if (expert.stack > 0) rows.insert(rows.begin(), expert.stack);
    Shape pairs = rows;
    pairs.push_back(2);
    const std::string paired = out_.reshaped(both, pairs, both + ":pairs");
    int64_t column = 0;
    for (const std::string& name : {gate, up}) {
      const std::string part =
          out_.sliced(paired, -1, column, column + 1, name + ":column");
      out_.reshaped(part, rows, name);
      ++column;
    }
  }

  ForwardWriter& out_;
  const ExpertsUse& use_;
  const ForwardPass& pass_;
  int64_t capacity_;  // tokens that an expert has room for
};

// Returns the modules that are repeated as "experts.{e}" or stacked as
// "experts"; null if there are none.
const ModuleStep* experts_of(const std::vector<ModuleStep>& modules,
                             const std::string& name) {
  for (const ModuleStep& each : modules) {
    if (each.kind != ModuleStep::Kind::Repeat) continue;
    const std::string numbered = name + ".{" + each.index + "}";
    if (each.name == (each.stacked ? name : numbered)) return &each;
  }
  return nullptr;
}

// Returns the linear layer of this name in the experts; null if they have none,
// because they consist of blocks or are stored as in other versions.
const ModuleStep* layer_of(const ModuleStep* experts, const std::string& name) {
  if (experts == nullptr) return nullptr;
  const auto layer =
      std::ranges::find_if(experts->steps, [&](const ModuleStep& each) {
        return each.kind == ModuleStep::Kind::Linear && each.name == name;
      });
  return layer == experts->steps.end() ? nullptr : &*layer;
}

}  // namespace

std::optional<ExpertsUse> read_experts(const ForwardStep& step,
                                       const ValueScope& scope,
                                       const std::vector<ModuleStep>& modules,
                                       const ValueScope& modules_scope) {
  ExpertsUse use;
  const ModuleStep* const experts = experts_of(modules, step.what);
  for (const auto& [key, kernel] :
       {std::pair{"gate", &use.gate}, std::pair{"up", &use.up},
        std::pair{"down", &use.down}, std::pair{"both", &use.both}}) {
    for (const ForwardAttribute& each : step.attributes) {
      if (each.name == key) kernel->name = each.text;
    }
    if (kernel == &use.gate && kernel->name == kNoGate) use.gated = false;
    const ModuleStep* const layer = layer_of(experts, kernel->name);
    if (layer == nullptr) continue;
    const auto biased = modules_scope.flag(layer->bias, false);
    if (!biased) return std::nullopt;
    kernel->biased = *biased;
    kernel->inputs_first = layer->inputs_first;
    kernel->weight_name = layer->weight_name;
    kernel->bias_name = layer->bias_name;
    if (kernel == &use.both) {
      use.in_turns = layer->dims.front().per.has_value();
    }
  }
  const auto count = scope.integer(*step.argument("count"), 1, kMaxCount);
  const auto inner = scope.integer(*step.argument("size"), 1, kMaxDim);
  const ConfigValue* const hidden = scope.values->find("hidden");
  if (!count || !inner || hidden == nullptr) return std::nullopt;
  use.experts = *count;
  use.inner = *inner;
  use.hidden = hidden->integer;
  if (const Expression* const name = step.argument("activation")) {
    auto text = scope.of_kind(*name, ConfigValue::Kind::Text);
    if (!text) return std::nullopt;
    use.activation = std::move(text->text);
  }
  if (const Expression* const weighed = step.argument("inputs_weighed")) {
    use.inputs_weighed = scope.integer(*weighed, 1, kMaxCount);
    if (!use.inputs_weighed) return std::nullopt;
  }
  return use;
}

void write_experts(ForwardWriter& out, const ExpertsUse& use) {
  ExpertsWriter(out, use).run();
}

}  // namespace shardplan
