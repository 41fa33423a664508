// SPDX-License-Identifier: Apache-2.0
// Where a command's answer goes: stdout or -o, in the format asked for, with
// the diagnostics in their place.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "cli/commands.h"
#include "report/diagnostics_text.h"
#include "report/report.h"
#include "report/svg_plot.h"

namespace shardplan::cli {

enum class Colour : uint8_t { Auto, Always, Never };

struct OutputOptions {
  std::string format = "text";
  bool format_was_given = false;    // decides what `-o x.plan.json` writes
  std::optional<std::string> file;  // -o
  Colour colour = Colour::Auto;
  bool expand = false;
  bool exact = false;
  bool quiet = false;
  bool verbose = false;
  bool progress = true;
};

// How text looks on a stream: width (COLUMNS, else the terminal's, else 100),
// colour (--color, NO_COLOR, CLICOLOR_FORCE, FORCE_COLOR, TERM) and glyphs (a
// UTF-8 locale).
Style style_of(Stream stream, const OutputOptions& output, Host& host);

// Errors first, then warnings, then notes. What readers of files say keeps its
// order; other codes are ranked by what their largest finding costs, and the
// findings of a code by what each costs. What cost the sharding that SP304 is
// about comes before it.
std::vector<const Diagnostic*> ranked(const Diagnostics& diags);
// Those of `least` and above, so ordered.
Diagnostics arranged(const Diagnostics& diags, Severity least = Severity::Note);

// Ends a command whose answer is a report: writes it, whole or not at all, to
// -o or stdout, then what people should see on stderr. As finish_incomplete()
// when the diagnostics say so; Findings when there are errors.
Exit finish(Context& context, Report report);

// `-o X.plan.json` without --format or --json: the answer is a plan.
bool asks_for_plan(const OutputOptions& output);

// The format of a report that goes to a file: the one that is asked for, else
// that of the file's ending; text where the name has none. An ending of no
// format is an error.
void settle_format(OutputOptions& output, Diagnostics& diags);

// Ends a command whose answer is some other text: `write` produces it. Exit as
// finish(), and so are the diagnostics.
using Writer = std::function<bool(const TextSink&)>;
Exit finish_with(Context& context, const Writer& write);

// False, with the reason reported (SP001), when not all that was written to
// standard output got there. A closed pipe is not a failure: whoever reads it
// has seen enough.
bool report_unwritten(Host& host, Diagnostics& diags);

// True, and reported (SP001), when a file became shorter while it was read.
bool report_shortened(Host& host, Diagnostics& diags);

// Writes a file, whole or not at all; false, with the reason reported (SP001),
// when it cannot be.
bool write_file(Context& context, const std::string& path, const Writer& write);
// To --plot. REQUIRES: it is given.
bool write_plot(Context& context, const Plot& plot);

// Ends a command that has some of its answer, and a reason why there is no
// more: as CouldNotRun, with what there is of the report in JSON and SARIF.
Exit finish_incomplete(Context& context, Report report);

// Ends a command whose answer holds though some of what was asked for could not
// run: as finish(), but then CouldNotRun, with the reasons among the rest.
Exit finish_in_part(Context& context, Report report);

// Says why there is no answer: on stdout where the format has a place for
// diagnostics and no answer has begun there, else on stderr.
void explain_failure(const Options& options, const Diagnostics& diags,
                     bool began_answer, Host& host);

// The same of a command that ended with CouldNotRun, unless it has been said.
// That there is no reason to say is a bug of ours: it throws InternalError.
void explain_no_answer(const Context& context);

}  // namespace shardplan::cli
