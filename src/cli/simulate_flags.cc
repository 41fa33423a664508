// SPDX-License-Identifier: Apache-2.0
#include "cli/simulate_flags.h"

#include <limits>
#include <string>

#include "base/text.h"
#include "cli/flag_values.h"

namespace shardplan::cli {
namespace {

std::vector<std::string> overlap_names() {
  return {"off", "ring", "bidirectional", "split"};
}
std::vector<std::string> value_names() { return {"random", "init", "field"}; }

// `batch=2,length=16`
void set_dims(const Setting& setting, Options& options, Diagnostics& diags) {
  for (const std::string& entry : split_list(setting.value)) {
    const size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    if (equals == std::string::npos || !is_dim_name(name)) {
      diags
          .error(Code::Usage, setting.where,
                 title_of(setting) + " takes sizes by name, not `" +
                     printable(entry) + "`")
          .help("for example `--dims batch=2,length=16`");
      continue;
    }
    Setting size = setting;
    size.value = entry.substr(equals + 1);
    if (const auto number = integer_of(size, 0, kMaxDimSize, diags)) {
      options.simulation.dims[name] = *number;
    }
  }
}

void set_overlap(const Setting& setting, Options& options, Diagnostics&) {
  const std::vector<std::string> names = overlap_names();
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == setting.value) {
      options.simulation.overlap = static_cast<Overlap>(i);
    }
  }
}

}  // namespace

const std::vector<Flag>& simulate_flags() {
  static const std::vector<Flag> kFlags = {
      {"graph", 0, Takes::File, "FILE|@NAME", "Simulation",
       "the forward pass; without it the model itself is a graph file",
       "simulate", false, true, nullptr,
       [](const Setting& s, Options& o, Diagnostics&) {
         o.simulation.graph = path_of(s);
       }},
      {"dims", 0, Takes::Text, "NAME=N,..", "Simulation",
       "sizes to use instead of the graph's own", "simulate", false, true,
       nullptr, set_dims},
      {"values", 0, Takes::Choice, "WHAT", "Simulation",
       "numbers to compute with: random (default), init as JAX draws them, or "
       "field, exact integers",
       "simulate", false, true, value_names,
       [](const Setting& s, Options& o, Diagnostics&) {
         o.simulation.values = s.value;
       }},
      {"overlap", 0, Takes::Choice, "FORM", "Simulation",
       "interleave products with the collective that feeds or drains them "
       "(default off)",
       "simulate", false, true, overlap_names, set_overlap},
      {"seed", 0, Takes::Text, "N", "Simulation",
       "seed of the numbers (default 0)", "simulate", false, true, nullptr,
       [](const Setting& s, Options& o, Diagnostics& d) {
         o.simulation.seed = integer_of(s, std::numeric_limits<int32_t>::min(),
                                        std::numeric_limits<int32_t>::max(), d)
                                 .value_or(0);
       }},
  };
  return kFlags;
}

}  // namespace shardplan::cli
