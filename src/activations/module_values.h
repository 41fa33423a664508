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
      const auto segment = static_cast<size_t>(of.segment);
      if (view.computes(of.maker) &&
          view.op(of.maker).exchange == TokenExchange::ToExperts) {
        has_experts_[segment] = true;
      }
      if (view.graph().values[of.value].part() == "attn.latent") {
        is_latent_[segment] = true;
      }
    }
  }

  bool any() const { return !modules_.empty(); }
  bool has(RegisterId reg) const {
    return has_value(view_.reg(reg), view_.reg(reg).value);
  }
  // Returns whether `value` is one of them, in the layer that computes `of`.
  bool has_value(const HeldRegister& of, ValueId value) const {
    return is_of_layer(of) && std::any_of(modules_.begin(), modules_.end(),
                                          [&](const RecomputedModule* module) {
                                            return is_of(*module, of, value);
                                          });
  }
  bool is_of(const RecomputedModule& module, const HeldRegister& of,
             ValueId value) const {
    using Of = RecomputedModule::Of;
    const auto segment = static_cast<size_t>(of.segment);
    const bool here = module.of == Of::Latent    ? is_latent_[segment]
                      : module.of == Of::Experts ? has_experts_[segment]
                                                 : !has_experts_[segment];
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
    return std::any_of(module.parts.begin(), module.parts.end(), names) &&
           std::none_of(module.but.begin(), module.but.end(), names);
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
