// SPDX-License-Identifier: Apache-2.0
// The flags that nearly every command takes: where its answer goes and how it
// looks, what is a finding, which settings are read, what may be allocated.
#include <string>
#include <string_view>
#include <vector>

#include "cli/flag_values.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "report/report.h"

namespace shardplan::cli {
namespace {

constexpr std::string_view kReading =
    "check resolve analyze sweep simulate export inspect diff";
constexpr std::string_view kJudging =
    "check resolve analyze sweep simulate export inspect diff gate";
constexpr std::string_view kFolding =
    "check resolve analyze sweep simulate inspect diff gate explain";
constexpr std::string_view kReporting =
    "check resolve analyze sweep simulate inspect diff gate list explain";
constexpr std::string_view kWriting =
    "check resolve analyze sweep simulate export inspect diff gate list "
    "explain";
constexpr std::string_view kEvery =
    "check resolve analyze sweep simulate export inspect diff gate list "
    "explain completion";

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const Renderer& renderer : renderers())
    names.emplace_back(renderer.name);
  return names;
}

std::vector<std::string> colour_names() { return {"auto", "always", "never"}; }

void set_colour(const Setting& setting, Options& options, Diagnostics&) {
  options.output.colour = setting.value == "always"  ? Colour::Always
                          : setting.value == "never" ? Colour::Never
                                                     : Colour::Auto;
}

void set_format(const Setting& setting, Options& options, Diagnostics&) {
  options.output.format = setting.value.empty() ? "json" : setting.value;
  options.output.format_was_given = true;
}

}  // namespace

const std::vector<Flag>& general_flags() {
  static const std::vector<Flag> kFlags = {
      {"max-memory", 0, Takes::Text, "SIZE", "Inputs",
       "what shardplan itself may allocate (default three quarters of the "
       "machine's memory)",
       kEvery, false, true, nullptr,
       [](const Setting& s, Options& o, Diagnostics& d) {
         o.run.max_memory = bytes_of(s, d);
       }},
      {"config", 0, Takes::File, "FILE", "Inputs",
       "settings to use instead of the nearest shardplan.yaml", kReading, false,
       false, nullptr,
       [](const Setting& s, Options& o, Diagnostics&) {
         o.run.config = s.value;
       }},
      {"isolated", 0, Takes::Nothing, "", "Inputs", "read no shardplan.yaml",
       kReading, false, false, nullptr,
       [](const Setting&, Options& o, Diagnostics&) { o.run.isolated = true; }},
      {"format", 0, Takes::Choice, "FORMAT", "Output",
       "how to write the answer (default text)", kReporting, false, true,
       format_names, set_format},
      {"json", 0, Takes::Nothing, "", "Output", "short for --format json",
       kReporting, false, true, nullptr, set_format},
      {"output", 'o', Takes::File, "FILE", "Output",
       "write there, whole or not at all", kWriting, false, false, nullptr,
       [](const Setting& s, Options& o, Diagnostics&) {
         o.output.file = path_of(s);
       }},
      {"expand", 0, Takes::Nothing, "", "Output",
       "leave nothing out: every layer, device or step by itself", kFolding,
       false, true, nullptr,
       [](const Setting&, Options& o, Diagnostics&) {
         o.output.expand = true;
       }},
      {"exact", 0, Takes::Nothing, "", "Output",
       "raw numbers instead of 29.3 MiB", kReporting, false, true, nullptr,
       [](const Setting&, Options& o, Diagnostics&) { o.output.exact = true; }},
      {"color", 0, Takes::Choice, "WHEN", "Output",
       "colours (default auto: on a terminal)", kEvery, false, true,
       colour_names, set_colour},
      {"quiet", 'q', Takes::Nothing, "", "Output",
       "show errors only, and no progress", kJudging, false, true, nullptr,
       [](const Setting&, Options& o, Diagnostics&) { o.output.quiet = true; }},
      {"verbose", 'v', Takes::Nothing, "", "Output",
       "say which configuration was read", kReading, false, true, nullptr,
       [](const Setting&, Options& o, Diagnostics&) {
         o.output.verbose = true;
       }},
      {"no-progress", 0, Takes::Nothing, "", "Output",
       "no status line on the terminal", kJudging, false, true, nullptr,
       [](const Setting&, Options& o, Diagnostics&) {
         o.output.progress = false;
       }},
      {"deny", 0, Takes::Text, "CODE|warnings", "Diagnostics",
       "make it an error; may repeat", kJudging, true, true, nullptr,
       [](const Setting& s, Options& o, Diagnostics& d) {
         append_codes(s, true, o.run.deny, d);
       }},
      {"allow", 0, Takes::Text, "CODE", "Diagnostics", "ignore it; may repeat",
       kJudging, true, true, nullptr,
       [](const Setting& s, Options& o, Diagnostics& d) {
         append_codes(s, false, o.run.allow, d);
       }},
      {"exit-zero", 0, Takes::Nothing, "", "Diagnostics",
       "exit with 0 where findings would give 1", kJudging, false, true,
       nullptr,
       [](const Setting&, Options& o, Diagnostics&) {
         o.run.exit_zero = true;
       }},
  };
  return kFlags;
}

}  // namespace shardplan::cli
