// SPDX-License-Identifier: Apache-2.0
// ModuleValues: values of the modules that a policy recomputes separately
// (Megatron-LM's recompute_modules).
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include "activations/remat.h"
#include "activations/saved_values.h"
#include "base/checked.h"
#include "graph/op.h"

namespace shardplan {

class ModuleValues {
 public:
  ModuleValues(const ProgramView& view, const RematPolicy& policy)
      : view_(view),
        has_experts_(view.layer_of_segment.size()),
        is_latent_(view.layer_of_segment.size()),
        modules_(policy.modules) {
    if (modules_.empty()) return;
    for (const HeldRegister& of : view.registers) {
      if (!is_of_layer(of)) continue;
      if (view.computes(of.maker) &&
          view.op(of.maker).exchange == TokenExchange::ToExperts) {
        nth(has_experts_, of.segment) = true;
      }
      if (view.graph().values[of.value].part() == "attn.latent") {
        nth(is_latent_, of.segment) = true;
      }
    }
  }

  bool any() const { return !modules_.empty(); }
  // Returns whether `value` is one of them, in the layer that computes `of`.
  bool has_value(const HeldRegister& of, ValueId value) const {
    return is_of_layer(of) &&
           std::ranges::any_of(modules_, [&](const RecomputedModule* module) {
             return is_of(*module, of, value);
           });
  }
  bool is_of(const RecomputedModule& module, const HeldRegister& of,
             ValueId value) const {
    using Of = RecomputedModule::Of;
    const bool has_experts = nth(has_experts_, of.segment);
    const bool here = module.of == Of::Latent    ? nth(is_latent_, of.segment)
                      : module.of == Of::Experts ? has_experts
                                                 : !has_experts;
    if (!here) return false;
    const Value& made = view_.graph().values[value];
    const std::string_view part = made.part();
    const auto names = [&](std::string_view each) {
      const size_t star = each.find('*');
      if (star != std::string_view::npos) {
        return part.starts_with(each.substr(0, star)) &&
               part.ends_with(each.substr(star + 1));
      }
      return each == part || (each.ends_with('.') && part.starts_with(each)) ||
             each == made.part_and_step();
    };
    return std::ranges::any_of(module.parts, names) &&
           std::ranges::none_of(module.but, names);
  }
  bool is_of_layer(const HeldRegister& of) const {
    return of.segment >= 0 && !of.weight && !of.loaded &&
           view_.is_layer(of.segment);
  }

 private:
  const ProgramView& view_;
  std::vector<bool> has_experts_;  // per segment
  std::vector<bool> is_latent_;    // per segment
  std::vector<const RecomputedModule*> modules_;
};

}  // namespace shardplan
