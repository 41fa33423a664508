// SPDX-License-Identifier: Apache-2.0
#include "model/forward/forward.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "base/words.h"
#include "model/architecture/layouts.h"
#include "model/architecture/scope.h"
#include "model/forward/chosen_steps.h"
#include "model/forward/class_steps.h"
#include "model/forward/experts.h"
#include "model/forward/heads.h"
#include "model/forward/inputs.h"
#include "model/forward/modules.h"
#include "model/forward/parameter_names.h"
#include "model/rotary/rotations.h"

namespace shardplan {
namespace {

// Maximum number of operations in a pass; a layer counts as kStepsOfTurn.
constexpr int64_t kMaxOperations = 1'000'000;
constexpr int64_t kStepsOfTurn = 16;

using Names = std::vector<std::string>;
using Arguments = std::vector<std::pair<std::string, ConfigValue>>;

// The state of a call while its block is being written.
struct Frame {
  ValueScope modules_scope;  // for its modules
  const std::vector<ModuleStep>* modules = nullptr;
  std::string prefix;  // for their names
  ValueScope scope;    // for its computation
  std::string at;      // prefix for the names of its values
  std::map<std::string, std::string, std::less<>> values = {};  // graph names
  // The names that the calling block gives its results.
  std::map<std::string, std::string, std::less<>> results = {};
  std::string target = {};  // the first of these, in the graph
  // How many later steps make a value of this name: the last one gets it.
  std::map<std::string, int, std::less<>> to_come = {};
};

// A call of a block: its operands, the names of its results, its arguments.
struct BlockUse {
  Names in = {};
  Names out = {};
  std::string at = {};
  Arguments arguments = {};
  ValueLabels axes = {};
  Span where = {};
};

class ForwardWalk {
 public:
  ForwardWalk(const ForwardDefinition& model, ConfigValues& values,
              ForwardWriter& out, Diagnostics& diags)
      : model_(model),
        values_(values),
        out_(out),
        diags_(diags),
        rotations_(values.config(), out.pass(), model.is_small, diags),
        reports_{[this](Span where) { return counted(where); }, model.where(),
                 diags} {}

  void run() {
    const auto layers = values_.find("layers");
    if (layers != nullptr) out_.set_layers(layers->integer);
    const auto steps = class_steps(model_, values_, out_, diags_);
    if (steps.empty()) good_ = false;
    if (!good()) return;
    const BlockForward& first = *block_of(*steps.front())->forward;
    write_inputs(first);
    inputs_ = first.takes;
    Names results = inputs_;
    for (size_t i = 0; i < steps.size() && good(); ++i) {
      const bool is_last = i + 1 == steps.size();
      results = class_step(*steps[i], i == 0, std::move(results), is_last);
    }
    for (std::string& each : results) out_.output(std::move(each));
  }

 private:
  bool good() const { return good_ && out_.good(); }
  // Returns whether there is a value; if not, that has been reported.
  template <typename T>
  bool has(const std::optional<T>& value) {
    if (!value) good_ = false;
    return value.has_value();
  }

  Diagnostics::Builder refuse(Span where, std::string message) {
    good_ = false;
    auto problem = diags_.error(Code::UnsupportedConfig, model_.where(),
                                std::move(message));
    if (where) problem.label(where, "here");
    return problem;
  }

  // Writes the inputs of the model's first block.
  void write_inputs(const BlockForward& forward) {
    const ValueScope root{&values_, false, {}};
    for (const std::string& name : forward.takes) {
      const InputRule* const rule = model_.architecture->find_input(name);
      if (rule == nullptr) {
        refuse(forward.where, in_backticks(name) + " is not a model input");
      } else if (!write_input(*rule, root, out_)) {
        good_ = false;
      }
    }
  }

  const ModuleBlock* block_of(const ModuleStep& step) const {
    if (step.kind != ModuleStep::Kind::Block) return nullptr;
    const auto& blocks = model_.architecture->blocks;
    const auto found = blocks.find(step.what);
    return found == blocks.end() ? nullptr : &found->second;
  }

  Names class_step(const ModuleStep& step, bool is_body, Names in,
                   bool is_last) {
    const ModuleBlock& block = *block_of(step);
    const ValueScope root{&values_, false, {}};
    in.resize(std::min(in.size(), block.forward->takes.size()));
    BlockUse use{.in = std::move(in), .where = step.where};
    // After the previous step's results, a head can read the model's inputs.
    for (size_t i = use.in.size(); i < block.forward->takes.size(); ++i) {
      const std::string& name = block.forward->takes[i];
      if (!contains(inputs_, name)) break;
      use.in.push_back(name);
    }
    // The output of a model without a head is its hidden states.
    for (const std::string& name : block.forward->gives) {
      use.out.push_back(is_last && is_body ? "last_hidden_state" : name);
    }
    const auto scope = root.within(block.takes, block.shared, step.arguments);
    if (!has(scope)) return {};
    return call(block, *scope, step.name, std::move(use));
  }

  // Writes a call of a block and returns the graph names of its results.
  Names call(const ModuleBlock& block, ValueScope scope,
             const std::string& prefix, BlockUse use) {
    const BlockForward& forward = *block.forward;
    if (++depth_ > kMaxBlockDepth) {
      refuse(use.where, "blocks nest too deeply");
      return {};
    }
    Frame frame{.modules_scope = scope,
                .modules = &block.steps,
                .prefix = prefix,
                .scope = std::move(scope),
                .at = use.at};
    if (!forward_arguments(forward, use, frame.scope)) return {};
    for (size_t i = 0; i < forward.takes.size() && i < use.in.size(); ++i) {
      frame.values[forward.takes[i]] = use.in[i];
      named_.emplace(use.in[i], 1);
    }
    if (!use.out.empty()) frame.target = use.out.front();
    for (size_t i = 0; i < forward.gives.size() && i < use.out.size(); ++i) {
      frame.results[forward.gives[i]] = use.out[i];
    }
    steps(forward.steps, frame);
    --depth_;
    Names given;
    for (const std::string& name : forward.gives) {
      given.push_back(value(name, frame, forward.where));
    }
    return given;
  }

  // Adds to `scope` the arguments of a computation, which are those of the call
  // or else the defaults of the block, and the sizes of the pass.
  bool forward_arguments(const BlockForward& forward, const BlockUse& use,
                         ValueScope& scope) {
    for (const BlockArgument& each : forward.arguments) {
      std::optional<ConfigValue> found;
      if (const ConfigValue* const given = argument(use, each.name)) {
        found = *given;
      } else if (each.otherwise) {
        found = scope.value(*each.otherwise);
      } else {
        refuse(use.where, "the block needs " + in_backticks(each.name));
      }
      if (!has(found)) return false;
      scope.own.emplace_back(each.name, *std::move(found));
    }
    add_pass_sizes(out_.pass(), scope);
    const auto padding = values_.config().at("pad_token_id");
    scope.own.emplace_back(
        kPaddingToken,
        ConfigValue::of(padding ? padding->integer().value_or(-1) : -1));
    return true;
  }

  std::string value(const std::string& name, const Frame& frame, Span where) {
    const auto found = frame.values.find(name);
    if (found != frame.values.end()) return found->second;
    if (good()) {
      refuse(where, "the forward pass of architecture " +
                        in_backticks(model_.architecture->name) +
                        " has not computed " + in_backticks(name) + " yet");
    }
    return name;
  }

  Names values(Names names, const Frame& frame, Span where) {
    for (std::string& name : names) name = value(name, frame, where);
    return names;
  }

  // Returns the graph name of a value: what the calling block calls it, or
  // `name` with the prefix; "query:q_proj" for one that a later step replaces.
  std::string result(const std::string& name, std::string_view operation,
                     Frame& frame) {
    std::string full = joined_name(frame.at, name);
    const auto known = frame.results.find(name);
    if (--frame.to_come[name] > 0) {
      full += ":" + std::string(operation.substr(operation.rfind('.') + 1));
    } else if (known != frame.results.end()) {
      return frame.values[name] = known->second;
    }
    // If the name is taken, the value is named after its function's result.
    if (!named_.emplace(full, 1).second) {
      if (!frame.target.empty()) full = frame.target + ":" + name;
      const std::string plain = full;
      int& count = named_[plain];
      while (++count > 1) {
        full = plain + std::to_string(count);
        if (named_.emplace(full, 1).second) break;
      }
    }
    return frame.values[name] = std::move(full);
  }

  bool counted(Span where, int64_t steps = 1) {
    operations_ += steps;
    if (operations_ <= kMaxOperations) return true;
    refuse(where, "the forward pass has too many operations");
    return false;
  }

  void steps(const std::vector<ForwardStep>& list, Frame& frame) {
    ChosenSteps chosen;
    frame.to_come.clear();
    if (!choose_steps(list, frame.scope, reports_, chosen)) good_ = false;
    for (const ForwardStep* one : chosen.steps) {
      for (const std::string& name : one->out) ++frame.to_come[name];
    }
    for (const ForwardStep* one : chosen.steps) {
      if (!good()) return;
      step(*one, frame);
    }
  }

  void step(const ForwardStep& one, Frame& frame) {
    using Kind = ForwardStep::Kind;
    switch (one.kind) {
      case Kind::Op:
        return operation(one, frame);
      case Kind::Apply:
        return apply(one, frame);
      case Kind::Weight:
        return weight(one, frame);
      case Kind::Unembed:
        return unembed(one, frame);
      case Kind::Activation:
        return activation(one, frame);
      case Kind::Rotate:
        return rotate(one, frame);
      case Kind::Heads:
        return heads(one, frame);
      case Kind::Experts:
        return experts(one, frame);
      case Kind::Same:
        --frame.to_come[one.out.front()];
        frame.values[one.out.front()] = value(one.in.front(), frame, one.where);
        return;
      case Kind::Repeat:
        return repeat(one, frame);
      case Kind::Require:
      case Kind::Note:
      case Kind::Switch:
        return;  // choose_steps() removes these
    }
  }

  // Returns the axes of the result of a step, which has `rank` dimensions.
  ValueLabels axes(const ForwardStep& one, size_t rank,
                   const ValueScope& scope) {
    if (one.layout.empty()) return one.axes;
    std::string why;
    const ConfigValue* const kv_heads = scope.find("kv_heads", why);
    return layout_axes(*find_layout(one.layout), rank,
                       kv_heads == nullptr ? 0 : kv_heads->integer);
  }

  // The result is exact for dimensions, which are below 2^53.
  std::optional<double> real(const Expression& expression,
                             const ValueScope& scope) {
    const auto found = scope.value(expression);
    if (!has(found)) return std::nullopt;
    if (found->is_number()) return found->as_real();
    if (found->kind == ConfigValue::Kind::Flag) {
      return static_cast<double>(found->integer);
    }
    refuse(expression.where, in_backticks(expression.text) + " is " +
                                 std::string(value_kind_name(found->kind)) +
                                 ", not a number");
    return std::nullopt;
  }

  void operation(const ForwardStep& one, Frame& frame) {
    AttributeValues attributes;
    for (const ForwardAttribute& each : one.attributes) {
      if (each.is_list) {
        std::vector<int64_t> sizes;
        for (const Expression& expression : each.values) {
          const auto size = frame.scope.integer(expression, -kMaxDim, kMaxDim);
          if (!has(size)) return;
          sizes.push_back(*size);
        }
        attributes.emplace_back(each.name, std::move(sizes));
      } else if (each.values.empty()) {
        attributes.emplace_back(each.name, each.text);
      } else {
        const auto number = real(each.values.front(), frame.scope);
        if (!number) return;
        attributes.emplace_back(each.name, *number);
      }
    }
    Names operands = values(one.in, frame, one.where);
    // In graph files, only `split` has several results.
    if (one.out.size() != 1) {
      refuse(one.where, "an operation must have exactly one result here");
      return;
    }
    const size_t rank = out_.rank_of(one.what, operands, attributes);
    out_.op(one.what, std::move(operands),
            result(one.out.front(), one.what, frame), std::move(attributes),
            axes(one, rank, frame.scope));
  }

  // Adds the values that the arguments of a step have in `scope`.
  bool add_arguments(const ForwardStep& one, const ValueScope& scope,
                     Arguments& arguments) {
    for (const auto& [name, expression] : one.arguments) {
      auto found = scope.value(expression);
      if (!has(found)) return false;
      arguments.emplace_back(name, *std::move(found));
    }
    return true;
  }

  void apply(const ForwardStep& one, Frame& frame) {
    BlockUse use{.in = values(one.in, frame, one.where),
                 .at = joined_name(frame.at, one.as),
                 .axes = axes(one, 0, frame.scope),
                 .where = one.where};
    if (!add_arguments(one, frame.scope, use.arguments)) return;
    for (const std::string& name : one.out) {
      use.out.push_back(result(name, one.what, frame));
    }
    if (!good()) return;
    const auto module =
        find_module(*frame.modules, frame.modules_scope, one.what, good_);
    Names given;
    if (module) {
      given = apply_module(*module, frame.prefix, std::move(use));
    } else if (good()) {
      given = apply_function(one, frame.scope, std::move(use));
    }
    // The result of a block may be one of its operands.
    for (size_t i = 0; i < given.size() && i < one.out.size(); ++i) {
      frame.values[one.out[i]] = given[i];
    }
  }

  // Writes a call of a block without modules.
  Names apply_function(const ForwardStep& one, const ValueScope& caller,
                       BlockUse use) {
    const auto& blocks = model_.architecture->blocks;
    const auto block = blocks.find(one.what);
    if (block == blocks.end() || !block->second.forward ||
        !block->second.steps.empty()) {
      refuse(one.where, "the block has no module " + in_backticks(one.what) +
                            " in this model");
      return {};
    }
    auto scope =
        caller.within(block->second.takes, block->second.shared, one.arguments);
    if (!has(scope)) return {};
    return call(block->second, *std::move(scope), "", std::move(use));
  }

  Names apply_module(const FoundModule& module, const std::string& prefix,
                     BlockUse use) {
    const ModuleStep& step = *module.step;
    const std::string name = joined_name(prefix, step.name);
    if (step.kind != ModuleStep::Kind::Block) {
      if (use.in.size() != 1 || use.out.size() != 1) {
        refuse(use.where, "a module reads and returns exactly one value");
        return {};
      }
      const std::string problem =
          write_module(out_, module.scope,
                       {step, without_outer_modules(name), use.in.front(),
                        use.out.front(), use.axes, argument(use, "epsilon")});
      if (!problem.empty()) refuse(use.where, problem);
      return use.out;
    }
    const ModuleBlock& block = *block_of(step);
    const auto scope =
        module.scope.within(block.takes, block.shared, step.arguments);
    if (!has(scope)) return {};
    if (block.forward) return call(block, *scope, name, std::move(use));
    // The block only passes its arguments to another one.
    if (block.steps.size() == 1 && !block.steps.front().when) {
      return apply_module({&block.steps.front(), *scope}, name, std::move(use));
    }
    refuse(use.where,
           "block " + in_backticks(step.what) + " has no forward pass");
    return {};
  }

  const ConfigValue* argument(const BlockUse& use, std::string_view name) {
    const auto found = std::ranges::find_if(
        use.arguments, [&](const auto& each) { return each.first == name; });
    return found == use.arguments.end() ? nullptr : &found->second;
  }

  void weight(const ForwardStep& one, Frame& frame) {
    --frame.to_come[one.out.front()];
    Names modules = {one.what};
    modules.insert(modules.end(), one.otherwise.begin(), one.otherwise.end());
    for (size_t i = 0; i < modules.size() && good(); ++i) {
      const bool is_last = i + 1 == modules.size();
      if (weight_of(modules[i], is_last, one, frame)) return;
    }
  }

  // Returns false if the weight is not stored and another one may be.
  bool weight_of(const std::string& which, bool is_last, const ForwardStep& one,
                 Frame& frame) {
    const auto module =
        find_module(*frame.modules, frame.modules_scope, which, good_);
    if (!module && repeated_weight(which, one, frame)) return true;
    if (!module) {
      refuse(one.where, "the block has no module " + in_backticks(which));
      return false;
    }
    auto shape = module_shape(*module->step, module->scope);
    if (!has(shape)) return false;
    const std::string name =
        weight_name(*module->step, joined_name(frame.prefix, which));
    if (!is_last && !out_.has(name)) return false;
    frame.values[one.out.front()] = out_.parameter(name, *shape);
    return true;
  }

  // Writes the weights of repeated modules as one; false if there are none.
  bool repeated_weight(const std::string& which, const ForwardStep& one,
                       Frame& frame) {
    const auto found = find_repeated(*frame.modules, which);
    if (!found) return false;
    const auto count =
        frame.modules_scope.integer(*found->repeat->count, 1, kMaxCount);
    if (!count) good_ = false;
    if (!count || !counted(one.where, *count)) return true;
    std::string& name = frame.values[one.out.front()];
    name = write_repeated(out_, *found, frame.modules_scope, frame.prefix,
                          *count, joined_name(frame.at, one.out.front()));
    if (name.empty()) good_ = false;
    return true;
  }

  void unembed(const ForwardStep& one, Frame& frame) {
    const auto table =
        frame.scope.of_kind(*one.argument("unembed"), ConfigValue::Kind::Text);
    if (!has(table)) return;
    const std::string x = value(one.in.front(), frame, one.where);
    const auto shape = table_shape(table->text);
    if (!shape) {
      refuse(one.where, "there is no embedding " + in_backticks(table->text));
      return;
    }
    const std::string name = without_outer_modules(table->text) + ".weight";
    out_.times_rows(x, out_.parameter(name, *shape),
                    result(one.out.front(), "unembed", frame),
                    axes(one, 3, frame.scope));
  }

  // Returns the shape of an embedding in the block of the first step.
  std::optional<Shape> table_shape(const std::string& table) {
    const ModuleStep& body = model_.model_class->steps.front();
    const ModuleBlock* const block = block_of(body);
    if (block == nullptr) return std::nullopt;
    const ValueScope root{&values_, false, {}};
    const auto scope = root.within(block->takes, block->shared, body.arguments);
    if (!scope) return std::nullopt;
    const auto module = find_module(block->steps, *scope, table, good_);
    if (!module || module->step->kind != ModuleStep::Kind::Embedding) {
      return std::nullopt;
    }
    return module_shape(*module->step, module->scope);
  }

  void activation(const ForwardStep& one, Frame& frame) {
    const auto name = frame.scope.of_kind(*one.argument("activation"),
                                          ConfigValue::Kind::Text);
    if (!has(name)) return;
    const std::string x = value(one.in.front(), frame, one.where);
    out_.activation(name->text, x, result(one.out.front(), name->text, frame),
                    axes(one, 3, frame.scope));
  }

  void rotate(const ForwardStep& one, Frame& frame) {
    std::string why;
    auto attributes = rotations_.attributes(frame.scope, why);
    if (!attributes) {
      good_ = false;
      if (!why.empty()) refuse(one.where, why);
      return;
    }
    const std::string x = value(one.in.front(), frame, one.where);
    const size_t rank = out_.rank_of("rope", {x}, {});
    out_.op("rope", {x}, result(one.out.front(), "rotate", frame),
            *std::move(attributes), axes(one, rank, frame.scope));
  }

  void heads(const ForwardStep& one, Frame& frame) {
    const Names in = values(one.in, frame, one.where);
    ValueScope scope = frame.scope;
    if (!add_arguments(one, frame.scope, scope.own)) return;
    const auto sizes = head_sizes(scope);
    if (!sizes) {
      refuse(one.where, in_backticks(one.what) +
                            " needs `heads`, `kv_heads` and `head_dim`");
      return;
    }
    const size_t rank = one.what == "query_heads" ? query_rank(*sizes) : 0;
    write_heads(out_, one.what, *sizes, in,
                result(one.out.front(), one.what, frame),
                axes(one, rank, scope));
  }

  void experts(const ForwardStep& one, Frame& frame) {
    auto use =
        read_experts(one, frame.scope, *frame.modules, frame.modules_scope);
    const Names in = values(one.in, frame, one.where);
    if (!use) good_ = false;
    if (!good()) return;
    use->modules = without_outer_modules(joined_name(frame.prefix, one.what));
    use->at = frame.at;
    use->x = in[0];
    use->choices = in[1];
    use->shares = in[2];
    use->result = result(one.out.front(), "experts", frame);
    if (!one.mix.empty()) {
      use->mix = [&](const std::string& gate, const std::string& up,
                     const std::string& at, const std::string& mixed) {
        ForwardStep function;
        function.what = one.mix;
        apply_function(function, frame.scope,
                       {{gate, up}, {mixed}, at, {}, {}, one.where});
      };
    }
    write_experts(out_, *use);
  }

  void repeat(const ForwardStep& one, Frame& frame) {
    const auto modules =
        std::ranges::find_if(*frame.modules, [&](const ModuleStep& each) {
          return each.kind == ModuleStep::Kind::Repeat && each.name == one.what;
        });
    if (modules == frame.modules->end()) {
      refuse(one.where,
             "the block has no repeated module " + in_backticks(one.what));
      return;
    }
    const auto all =
        frame.modules_scope.integer(*modules->count, 0, kMaxModelLayers);
    if (!has(all)) return;
    const int64_t count = layers_run(out_.pass(), *all);
    std::string newest = value(one.first, frame, one.where);
    for (int64_t i = 0; i < count && good(); ++i) {
      if (!counted(one.where, kStepsOfTurn)) return;
      Frame layer = frame;
      layer.results.clear();
      layer.modules = &modules->steps;
      layer.prefix = joined_name(
          frame.prefix, numbered_name(modules->name, modules->index, i));
      layer.at =
          joined_name(frame.at, numbered_name(one.as, modules->index, i));
      layer.modules_scope.own.emplace_back(modules->index, ConfigValue::of(i));
      layer.scope.own.emplace_back(modules->index, ConfigValue::of(i));
      layer.values[one.carried] = newest;
      const std::string last = i + 1 == count ? one.last : "";
      const std::string& made = one.steps.back().out.front();
      if (!last.empty()) layer.results[made] = last;
      out_.in_layer(layer.at, i, last, [&] { steps(one.steps, layer); });
      newest = value(made, layer, one.where);
      out_.probe(newest);
    }
    frame.values[one.carried] = newest;
  }

  const ForwardDefinition& model_;
  ConfigValues& values_;
  ForwardWriter& out_;
  Diagnostics& diags_;
  Names inputs_;  // the inputs of the first block
  // By name in the graph: how many values are called that and a number.
  std::unordered_map<std::string, int> named_;
  Rotations rotations_;
  StepReports reports_;
  int64_t operations_ = 0;
  int depth_ = 0;
  bool good_ = true;
};

std::optional<GraphDescription> written(const ForwardDefinition& model,
                                        const ForwardInput& input,
                                        Diagnostics& diags) {
  const int64_t errors = diags.count(Severity::Error);
  OpenValues open(model, diags);
  if (!open.values.read_all(true)) return std::nullopt;
  ForwardWriter out(input, model.architecture->name, model.where(),
                    model.architecture->other_names, diags);
  ForwardWalk(model, open.values, out, diags).run();
  if (diags.count(Severity::Error) != errors) return std::nullopt;
  return out.finish();
}

}  // namespace

std::optional<GraphDescription> write_forward(const ForwardDefinition& model,
                                              const ForwardInput& input,
                                              Diagnostics& diags) {
  // Messages may point into the config when the model is gone.
  if (model.has_config) {
    diags.add_source(model.config->shared_source());
    return written(model, input, diags);
  }
  // Without a config, there is no text that messages could point to.
  Diagnostics own = diags.fresh();
  auto description = written(model, input, own);
  diags.add_sources(own);
  for (Diagnostic& each : own.all()) {
    std::erase_if(each.labels, [&](const Label& label) {
      return label.where.file == model.config->root().span().file;
    });
    diags.add(std::move(each));
  }
  return description;
}

int64_t layers_run(const ForwardPass& pass, int64_t layers) {
  return pass.layers ? std::clamp<int64_t>(*pass.layers, 0, layers) : layers;
}

}  // namespace shardplan
