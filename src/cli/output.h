// SPDX-License-Identifier: Apache-2.0
// Writes a command's answer to stdout or to the file of -o in the requested
// format, and the diagnostics where that format shows them.
#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/host.h"
#include "cli/commands.h"
#include "report/diagnostics_text.h"
#include "report/report.h"

namespace shardplan::cli {

enum class Colour : uint8_t { Auto, Always, Never };

struct OutputOptions {
  std::string format = "text";
  bool format_was_given = false;    // else `-o x.plan.json` is a plan
  std::optional<std::string> file;  // -o
  Colour colour = Colour::Auto;
  bool expand = false;
  bool exact = false;
  bool quiet = false;
  bool verbose = false;
  bool progress = true;
};

// A figure of the report that is asked for by itself.
struct PlotRequest {
  std::string figure;               // "": the first
  std::optional<std::string> file;  // not set: drawn in the answer
};

// Appends items to a part of a report.
template <typename Item>
void append(std::vector<Item>& to, std::vector<Item> items) {
  to.insert(to.end(), std::make_move_iterator(items.begin()),
            std::make_move_iterator(items.end()));
}

// Returns how text looks on a stream: width (COLUMNS, else the terminal's
// width, else 100), colour (--color, NO_COLOR, CLICOLOR_FORCE, FORCE_COLOR,
// TERM) and glyphs (Unicode in a UTF-8 locale).
Style style_of(Stream stream, const OutputOptions& output, Host& host);

// Orders the findings: errors, then warnings, then notes. Codes about reading
// files keep their order; other codes are ranked by the bytes that their
// largest finding costs, and the findings of one code by the bytes that each
// costs. The causes of an SP304 finding come before it.
std::vector<const Diagnostic*> ranked(const Diagnostics& diags);
// Returns the diagnostics of severity `least` and above in that order.
Diagnostics arranged(const Diagnostics& diags, Severity least = Severity::Note);

// Ends a command whose answer is a report: writes the figures of --plot, then
// the whole report or nothing to -o or stdout, then the diagnostics for people to stderr. Acts as
// finish_incomplete() if an error prevents running; returns Findings if there
// are errors, or if `is_finding`, and CouldNotRun if there is no report, which
// means that the reason is reported. Sets the report's command and diagnostics.
Exit finish(Context& context, std::optional<Report> report,
            bool is_finding = false);

// Returns whether the answer is a plan: `-o X.plan.json` without --format or
// --json.
bool asks_for_plan(const OutputOptions& output);

// Sets the format of a report that goes to a file: the requested format, else
// the one that the file's extension selects, else text if there is no
// extension. An unknown extension is an error.
void settle_format(OutputOptions& output, Diagnostics& diags);

// Ends a command whose answer is some other text, which `write` produces. Exit
// code and diagnostics are those of finish().
using Writer = std::function<bool(const TextSink&)>;
Exit finish_with(Context& context, const Writer& write);
Exit finish_text(Context& context, std::string_view text);

// Returns whether some of the answer could not be written to standard output,
// and reports the reason (SP001). A closed pipe is not a failure: its reader
// has seen enough.
bool report_unwritten(Host& host, Diagnostics& diags);

// Returns whether a file was truncated while it was read, and reports it
// (SP001).
bool report_shortened(Host& host, Diagnostics& diags);

// Writes the whole file or nothing. Returns false, with the reason reported
// (SP001), if it cannot be written.
bool write_file(Context& context, const std::string& path,
                std::string_view text);
// Ends a command that has only part of its answer and an error that explains
// why: returns CouldNotRun, and writes the incomplete report only in JSON and
// SARIF.
Exit finish_incomplete(Context& context, Report report);

// Ends a command whose answer is valid although part of the request could not
// run: acts as finish(), but returns CouldNotRun and lists the reasons with the
// other findings.
Exit finish_in_part(Context& context, Report report);

// Reports why there is no answer: on stdout if the format can represent
// diagnostics and no answer has begun there, else on stderr.
void explain_failure(const Options& options, const Diagnostics& diags,
                     bool began_answer, Host& host);

// Does the same for a command that ended with CouldNotRun, unless the reason
// was already reported. Throws InternalError if there is no reason to report,
// which is a bug in shardplan.
void explain_no_answer(const Context& context);

}  // namespace shardplan::cli
