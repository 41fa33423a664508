// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/simulate/forward.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/diagnostic.h"
#include "base/source.h"
#include "cli/commands/simulate/model.h"
#include "gate/rule_changes.h"
#include "model/forward/inputs.h"
#include "session/plan_request.h"
#include "sim/forward_collectives.h"

namespace shardplan::cli {
namespace {

// Returns the first error as a reason.
std::string reason_in(const Diagnostics& diags) {
  for (const Diagnostic& diagnostic : diags.all()) {
    if (diagnostic.severity == Severity::Error) return diagnostic.message;
  }
  return "its forward pass cannot be partitioned";
}

struct Numbers {
  Storage storage = Storage::F32;
  const char* name = "f32";
};

// Returns the dtype that most weights have. If it has fewer than 16 bits,
// activations are BF16.
Numbers sent_numbers(const Manifest& manifest) {
  std::map<DType, double> elements;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const TensorType& type = manifest.type(i);
    elements[type.dtype] += static_cast<double>(type.elements());
  }
  const auto most = std::ranges::max_element(
      elements,
      [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == elements.end() || !is_narrower(most->first, DType::F32)) {
    return {};
  }
  if (most->first == DType::F16) return {Storage::F16, "f16"};
  return {Storage::BF16, "bf16"};
}

ForwardPass pass_of(const CheckedTarget& target) {
  const Session& session = *target.session;
  const MemoryRequest& memory = target.options.memory;
  const Mode mode = target.options.planning.mode;
  ForwardPass pass = default_pass(
      mode, session.rules ? &*session.rules : nullptr, session.plan.mesh);
  if (memory.batch) pass.batch = *memory.batch;
  if (memory.seq) pass.length = *memory.seq;
  if (mode == Mode::Decode) pass.length = 1;
  return pass;
}

// Returns the forward pass of one side, not yet partitioned; empty if none is
// known.
std::optional<ForwardGraphs> side_model(const CheckedTarget& target) {
  const Model& model = target.session->model;
  if (model.forward() == nullptr) return std::nullopt;
  return forward_graphs(model.manifest, *model.forward(), pass_of(target));
}

// Returns the text of a config; null if there is none.
const SourceFile* config_text(const Manifest& manifest) {
  return manifest.config == nullptr ? nullptr : &manifest.config->source();
}

// Returns whether two files have the same text; null means no file.
bool is_same_text(const SourceFile* a, const SourceFile* b) {
  return a == nullptr || b == nullptr ? a == b : a->text() == b->text();
}

bool are_same_texts(const std::vector<SourcePtr>& a,
                    const std::vector<SourcePtr>& b) {
  return std::ranges::equal(a, b,
                            [](const SourcePtr& one, const SourcePtr& other) {
                              return is_same_text(one.get(), other.get());
                            });
}

bool is_same_architecture(const Architecture* a, const Architecture* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return are_same_texts(a->sources, b->sources);
}

// Returns whether both sides have the same model, run on the same tokens.
bool is_same_model(const CheckedTarget& before, const CheckedTarget& after) {
  const Manifest& a = before.session->model.manifest;
  const Manifest& b = after.session->model.manifest;
  if (a.config_unread || b.config_unread || a.size() != b.size() ||
      (a.sources.empty() && a.config == nullptr) ||
      !is_same_text(config_text(a), config_text(b)) ||
      !is_same_architecture(a.architecture.get(), b.architecture.get()) ||
      !are_same_texts(a.sources, b.sources)) {
    return false;
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (a.name(i) != b.name(i) || a.type(i) != b.type(i)) return false;
  }
  const ForwardPass before_pass = pass_of(before);
  const ForwardPass after_pass = pass_of(after);
  return before_pass.batch == after_pass.batch &&
         before_pass.length == after_pass.length;
}

// Returns whether the rules agree about activations and the meaning of names.
bool are_values_placed_alike(const RuleSet& a, const RuleSet& b) {
  return a.declared_axes == b.declared_axes &&
         a.logical_reading == b.logical_reading &&
         a.architecture_labels == b.architecture_labels &&
         a.partition_axis == b.partition_axis &&
         std::ranges::equal(
             a.logical_rules, b.logical_rules,
             [](const LogicalRule& one, const LogicalRule& other) {
               return one.name == other.name && one.axes == other.axes;
             }) &&
         std::ranges::equal(a.activations, b.activations,
                            [](const Rule& one, const Rule& other) {
                              return one.pattern == other.pattern &&
                                     one.spec == other.spec;
                            });
}

// Returns whether everything is placed in the same way on both sides.
//
// REQUIRES: the model is the same.
bool is_placed_alike(const CheckedTarget& before, const CheckedTarget& after) {
  const Session& a = *before.session;
  const Session& b = *after.session;
  const PlanRequest& was = before.options.planning;
  const PlanRequest& is = after.options.planning;
  if (a.plan.mesh != b.plan.mesh ||
      a.rules.has_value() != b.rules.has_value() || was.mode != is.mode ||
      was.fallback != is.fallback || was.flax != is.flax) {
    return false;
  }
  // The collectives of hooks follow from the plan's styles, not from
  // placements.
  if (a.plan.run_as != b.plan.run_as ||
      (a.plan.run_as == RunAs::Hooks && a.plan.rules != b.plan.rules)) {
    return false;
  }
  for (size_t i = 0; i < a.model.manifest.size(); ++i) {
    const Placement& one = a.plan.of(i);
    const Placement& other = b.plan.of(i);
    if (one.spec != other.spec || one.stored_dims != other.stored_dims) {
      return false;
    }
  }
  return !a.rules || are_values_placed_alike(*a.rules, *b.rules);
}

struct SideAnswer {
  std::optional<ForwardCollectives> found;  // empty: see `why`
  std::string why;
  std::string over;   // "2x16 tokens in bf16"
  std::string doubt;  // values not sharded as requested
};

// Returns the first message about a value that is not sharded as requested.
// Dimensions that are not divisible are no reason for doubt, since every
// program replicates them.
std::string doubt_in(const Diagnostics& diags) {
  std::string text;
  for (const Diagnostic& diagnostic : diags.all()) {
    const bool is_said = diagnostic.severity >= Severity::Warning ||
                         diagnostic.code == Code::NotAsHooks;
    if (!is_said || diagnostic.code == Code::UnusedActivationRule ||
        diagnostic.code == Code::IndivisibleDimension) {
      continue;
    }
    if (!text.empty()) return text + ", and others";
    text = diagnostic.message;
  }
  return text;
}

// `side` may be that of the other side if the model is the same.
SideAnswer answer_of(const CheckedTarget& target,
                     std::optional<ForwardGraphs>& side) {
  SideAnswer answer;
  if (!side) {
    answer.why = reason_in(target.session->model.recognised());
    return answer;
  }
  const Session& session = *target.session;
  const Numbers numbers = sent_numbers(session.model.manifest);
  const ForwardPass& pass = side->pass;
  answer.over = reads_tokens(side->model)
                    ? std::to_string(pass.batch) + "x" +
                          std::to_string(pass.length) + " tokens"
                    : "a batch of " + std::to_string(pass.batch);
  answer.over += std::string(" in ") + numbers.name;
  Diagnostics diags;
  answer.found = forward_collectives(
      *side,
      {session.model.manifest, session.plan,
       session.rules ? &*session.rules : nullptr,
       name_reading(target.options.planning), numbers.storage},
      diags);
  (answer.found ? answer.doubt : answer.why) =
      answer.found ? doubt_in(diags) : reason_in(diags);
  return answer;
}

}  // namespace

ComparedCollectives compare_collectives(const CheckedTarget& before,
                                        const CheckedTarget& after) {
  const bool is_same = is_same_model(before, after);
  if (is_same && is_placed_alike(before, after)) {
    return {{CollectiveCoverage::How::Same, "", ""}, {}};
  }
  std::optional<ForwardGraphs> model = side_model(before);
  const SideAnswer was = answer_of(before, model);
  std::optional<ForwardGraphs> other;
  if (!is_same) other = side_model(after);
  const SideAnswer is = answer_of(after, is_same ? model : other);
  if (was.found && is.found) {
    ComparedCollectives compared;
    compared.coverage = {
        CollectiveCoverage::How::Compared,
        was.over == is.over ? is.over : was.over + " → " + is.over,
        is.doubt.empty() ? was.doubt : is.doubt};
    compared.changes =
        collective_changes(after.name, {*before.session, was.found->uses},
                           {*after.session, is.found->uses});
    return compared;
  }
  std::string why = is.found ? was.why : is.why;
  if (was.why != is.why) {
    why = std::string(is.found ? "on the base side, " : "on the head side, ") +
          why;
  }
  return {{CollectiveCoverage::How::Unknown, std::move(why), {}}, {}};
}

}  // namespace shardplan::cli
