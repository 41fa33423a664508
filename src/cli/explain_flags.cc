// SPDX-License-Identifier: Apache-2.0
#include "cli/explain_flags.h"

#include <memory>

#include "cli/algorithm_report.h"
#include "cli/flag_values.h"
#include "core/mesh.h"

namespace shardplan::cli {

const std::vector<Flag>& explain_flags() {
  static const std::vector<Flag> kFlags = {
      {"matmul", 0, Takes::Text, "SPECS", "Inputs",
       "describe a product of matrices instead: \"P(dp, None) @ P(None, tp)\"",
       "explain", false, false, nullptr,
       [](const Setting& s, Options& o, Diagnostics&) {
         o.matmul = std::make_shared<SourceFile>("--matmul", s.value);
       }},
      {"algorithm", 0, Takes::Choice, "NAME", "Inputs",
       "of collectives: whose schedule to draw over --ranks (explain), or to "
       "run "
       "where it can (simulate)",
       "explain simulate", false, true, algorithm_names,
       [](const Setting& s, Options& o, Diagnostics&) {
         o.algorithm = s.value;
       }},
      {"ranks", 0, Takes::Text, "N", "Inputs",
       "how many ranks the schedule has", "explain", false, false, nullptr,
       [](const Setting& s, Options& o, Diagnostics& d) {
         o.ranks = integer_of(s, 1, kMaxDevices, d);
       }},
      {"kind", 0, Takes::Choice, "COLLECTIVE", "Inputs",
       "what the schedule does (default all-reduce)", "explain", false, false,
       collective_names,
       [](const Setting& s, Options& o, Diagnostics&) { o.kind = s.value; }},
      {"inner", 0, Takes::Text, "K", "Inputs",
       "how many neighbouring ranks the fast axis has, for hierarchical",
       "explain", false, false, nullptr,
       [](const Setting& s, Options& o, Diagnostics& d) {
         o.inner = integer_of(s, 1, kMaxDevices, d);
       }},
  };
  return kFlags;
}

}  // namespace shardplan::cli
