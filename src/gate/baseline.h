// SPDX-License-Identifier: Apache-2.0
// Baseline: the accepted findings of a project, each with a reason, so that a
// project with findings can fail only on new ones.
//
//   accepted:
//     - code: SP203
//       target: "llama[*]"                  # optional; `*` is any text
//       about: model.layers.*.k_proj.weight # optional
//       reason: 8 KV heads are replicated on tp=16, and that is meant
//
// `about` is a parameter as reports fold it, or the text that the finding
// points at (a pattern, a label). A finding about several parameters is
// accepted if all of them are.
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
  std::string target;  // "": any
  std::string about;   // "": any
  std::string reason;
  Span where;

  bool operator==(const AcceptedFinding& other) const {
    return code == other.code && target == other.target &&
           about == other.about && reason == other.reason;
  }
};

struct Baseline {
  std::vector<AcceptedFinding> accepted;
  SourcePtr source;  // owns the text that places refer to
};

// Reads a baseline. Empty, with the reason reported (SP002, SP003, SP004), if
// an entry has no reason, or a code that cannot be accepted because it prevents
// an answer.
std::optional<Baseline> read_baseline(SourcePtr source, Diagnostics& diags);

// Returns the indices of the entries that accept what the finding is about.
// Empty if it is not accepted.
std::vector<size_t> accepting_entries(const Baseline& baseline,
                                      std::string_view target,
                                      const Diagnostic& finding);

// Removes the accepted findings of one target, and counts them as allowed. Sets
// `used[i]` if entry i accepted something.
void accept(const Baseline& baseline, std::string_view target,
            Diagnostics& diags, std::vector<bool>& used);

// Warns about entries that accepted nothing (SP605).
void report_stale(const Baseline& baseline, const std::vector<bool>& used,
                  Diagnostics& diags);

// Returns the findings (warnings and errors) of targets as the text of a
// baseline.
struct TargetFindings {
  std::string target;  // "" for a run without targets
  const Diagnostics* diags = nullptr;
};
std::string baseline_text(const std::vector<TargetFindings>& findings,
                          std::string_view reason);

}  // namespace shardplan
