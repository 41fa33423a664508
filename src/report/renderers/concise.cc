// SPDX-License-Identifier: Apache-2.0
// One line per finding, `file:line:column: error[SP101] message`, and nothing
// else: the form that editors and grep understand.
#include "report/diagnostics_text.h"
#include "report/renderers/renderers.h"

namespace shardplan {

void render_concise(const Report& report, const Style&, const TextSink& sink) {
  if (report.diagnostics != nullptr) write_concise(*report.diagnostics, sink);
}

}  // namespace shardplan
