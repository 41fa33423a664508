// SPDX-License-Identifier: Apache-2.0
// The rule dialects, one file each, in the order of io/load_rules.cc.
#pragma once

#include <string_view>

#include "base/source.h"
#include "core/rules.h"
#include "io/load.h"

namespace shardplan {

// The form of files that a program recorded and nobody edits.
inline constexpr RuleForm kRecordedForm = {
    nullptr, nullptr, "",
    "a program recorded this file: change the program's shardings, or write "
    "your own rules"};

// The advice for files that place only logical axes.
inline constexpr std::string_view kNoPatterns =
    "the file has only logical axis rules: give the parameter `axes` in a "
    "manifest";

// Completes a tensor-parallel plan over one axis that module hooks run:
// transformers' `tp_plan` and PyTorch's parallelize_module. Hooks run exactly
// the collectives that the plan's styles name. Declares the axis and appends a
// rule that replicates every parameter that no entry of the plan names.
void end_plan_of_hooks(std::string_view axis, Span where, RuleSet& rules);

extern const RuleDialect kFlax;
extern const RuleDialect kLevanter;
extern const RuleDialect kMaxText;
extern const RuleDialect kPythonRules;
// `rules`, `mesh` and `axes` in YAML or JSON; see docs/formats/rules.md.
extern const RuleDialect kYamlRules;
// See docs/formats/hf-tp-plan.md, dtensor.md and shardy.md.
extern const RuleDialect kHfTpPlan;
extern const RuleDialect kDtensor;
extern const RuleDialect kShardy;

// Shardings that another program recorded; see docs/formats/orbax.md and
// maxtext-dump.md.
extern const RuleDialect kOrbaxRules;
extern const RuleDialect kMaxtextDumpRules;

}  // namespace shardplan
