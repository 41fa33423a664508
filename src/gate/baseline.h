// SPDX-License-Identifier: Apache-2.0
// Baseline: findings that are accepted, each with a reason, so that a project
// with findings can fail on new ones alone.
//
//   accepted:
//     - code: SP203
//       target: "llama[*]"                  # optional; `*` is any text
//       about: model.layers.*.k_proj.weight # optional
//       reason: 8 KV heads are replicated on tp=16, and that is meant
//
// `about` is a parameter as reports fold it, or the text that the finding
// points at (a pattern, a label). A finding about several parameters is
// accepted when all of them are.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"

namespace shardplan {

struct AcceptedFinding {
  Code code = Code::InternalError;
  std::string target;  // "" is any
  std::string about;   // "" is any
  std::string reason;
  Span where;

  bool operator==(const AcceptedFinding& other) const {
    return code == other.code && target == other.target &&
           about == other.about && reason == other.reason;
  }
};

struct Baseline {
  std::vector<AcceptedFinding> accepted;
  SourcePtr source;  // keeps places alive
};

// Empty, with the reason reported (SP002, SP003, SP004): an entry without a
// reason, or one whose code cannot be accepted, since it prevents an answer.
std::optional<Baseline> read_baseline(SourcePtr source, Diagnostics& diags);

// The number of the entry that accepts it; -1 for none. A finding whose
// parameters different entries accept has the first of these.
int accepting_entry(const Baseline& baseline, std::string_view target,
                    const Diagnostic& finding);

// Takes what is accepted out of the findings of one target, and counts it as
// allowed; `used[i]` becomes true where entry i accepted something.
void accept(const Baseline& baseline, std::string_view target,
            Diagnostics& diags, std::vector<bool>& used);

// Warns of entries that accepted nothing (SP605).
void report_stale(const Baseline& baseline, const std::vector<bool>& used,
                  Diagnostics& diags);

// The findings (warnings and errors) of targets as the text of a baseline.
struct TargetFindings {
  std::string target;  // "" of a run without targets
  const Diagnostics* diags = nullptr;
};
std::string baseline_text(const std::vector<TargetFindings>& findings,
                          std::string_view reason);

}  // namespace shardplan
