// SPDX-License-Identifier: Apache-2.0
// The first figure of a report as an SVG file.
#include "report/figures/figures.h"
#include "report/renderers/renderers.h"

namespace shardplan {

void render_svg(const Report& report, const Style&, const TextSink& sink) {
  if (report.figures.empty()) {  // cli refuses to write such a file
    sink(svg_of(ChangeList{}, {.title = report.command}));
    return;
  }
  const Figure& figure = report.figures.front();
  sink(svg_of(figure.make(), {.title = figure.title}));
}

}  // namespace shardplan
