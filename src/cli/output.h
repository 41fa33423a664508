// SPDX-License-Identifier: Apache-2.0
// Where a command's answer goes: stdout or -o, in the format asked for, with
// the diagnostics in their place.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/diagnostic.h"
#include "base/host.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "report/report.h"

namespace shardplan::cli {

// How text looks on a stream: width (COLUMNS, else the terminal's, else 100),
// colour (--color, NO_COLOR, CLICOLOR_FORCE, FORCE_COLOR, TERM) and glyphs (a
// UTF-8 locale).
Style style_of(Stream stream, const Options& options, Host& host);

// Errors first, then warnings, then notes, otherwise in their order; only those
// of `least` and above.
Diagnostics arranged(const Diagnostics& diags, Severity least = Severity::Note);

// Ends a command whose answer is a report: writes it, whole or not at all, to
// -o or stdout, then what people should see on stderr. CouldNotRun, with
// nothing written, when the diagnostics say so; Findings when there are errors.
Exit finish(Context& context, Report report);

// `-o X.plan.json` without --format or --json: the answer is a plan.
bool asks_for_plan(const Options& options);

// Ends a command whose answer is some other text: `write` produces it. Exit as
// finish(), and so are the diagnostics.
using Writer = std::function<bool(const TextSink&)>;
Exit finish_with(Context& context, const Writer& write);

// Writes a file, whole or not at all; false, with the reason reported (SP001),
// when it cannot be.
bool write_file(Context& context, const std::string& path, const Writer& write);

// Says why there is no answer, on stderr, or on stdout in the formats that
// consist of diagnostics alone.
void explain_failure(const Options& options, const Diagnostics& diags,
                     Host& host);

}  // namespace shardplan::cli
