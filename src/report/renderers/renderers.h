// SPDX-License-Identifier: Apache-2.0
// The output formats. Each is implemented in one file of this folder and listed
// in report.cc.
#pragma once

#include "report/report.h"

namespace shardplan {

void render_text(const Report&, const Style&, const TextSink&);
void render_json(const Report&, const Style&, const TextSink&);
void render_markdown(const Report&, const Style&, const TextSink&);
void render_html(const Report&, const Style&, const TextSink&);
void render_svg(const Report&, const Style&, const TextSink&);
void render_csv(const Report&, const Style&, const TextSink&);
void render_concise(const Report&, const Style&, const TextSink&);
void render_github(const Report&, const Style&, const TextSink&);
void render_sarif(const Report&, const Style&, const TextSink&);
void render_junit(const Report&, const Style&, const TextSink&);

}  // namespace shardplan
