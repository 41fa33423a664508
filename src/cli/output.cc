// SPDX-License-Identifier: Apache-2.0
// Ranks the findings, renders the report, and writes both where they belong.
#include "cli/output.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "io/fence.h"
#include "io/paths.h"
#include "report/figures/figures.h"
#include "report/runner_commands.h"

namespace shardplan::cli {
namespace {

constexpr int kDefaultWidth = 100;
constexpr int kLeastWidth = 20;

std::string variable(Host& host, const std::string& name) {
  return host.environment(name).value_or("");
}

bool is_forced(Host& host, const std::string& name) {
  const std::string value = variable(host, name);
  return !value.empty() && value != "0";
}

// `terminal` is false for a file.
bool wants_colour(bool terminal, const OutputOptions& output, Host& host) {
  if (output.colour != Colour::Auto) return output.colour == Colour::Always;
  if (!variable(host, "NO_COLOR").empty()) return false;
  if (is_forced(host, "CLICOLOR_FORCE") || is_forced(host, "FORCE_COLOR")) {
    return true;
  }
  return terminal && variable(host, "TERM") != "dumb";
}

bool has_unicode(Host& host) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string locale = lower_case(variable(host, name));
    if (locale.empty()) continue;
    return contains(locale, "utf-8") || contains(locale, "utf8");
  }
  return false;
}

int width_of(bool terminal, Host& host) {
  const std::string columns = variable(host, "COLUMNS");
  int width = 0;
  const char* end = columns.data() + columns.size();
  const auto [rest, problem] = std::from_chars(columns.data(), end, width);
  if (problem != std::errc() || rest != end || width <= 0) {
    width = terminal ? host.terminal_width().value_or(0) : 0;
  }
  return width <= 0 ? kDefaultWidth : std::max(width, kLeastWidth);
}

Style style_when(bool terminal, const OutputOptions& output, Host& host) {
  Style style;
  style.width = width_of(terminal, host);
  style.colour = wants_colour(terminal, output, host);
  style.unicode = has_unicode(host);
  style.exact = output.exact;
  style.expand = output.expand;
  return style;
}

// Returns whether the answer goes to a file, not to stdout.
bool to_file(const OutputOptions& output) {
  return output.file && *output.file != "-";
}

// Writes the whole file or nothing. Returns false, with the reason reported.
bool write_whole(Context& context, const std::string& path,
                 const Writer& write) {
  if (context.host.was_read(path)) {
    context.diags
        .error(
            Code::Usage, {},
            "`" + path + "` is an input of this run and would be overwritten")
        .help("write to another file");
    return false;
  }
  std::string why;
  std::unique_ptr<OutputFile> file = context.host.create_file(path, why);
  if (file == nullptr) {
    context.diags.error(Code::UnreadableFile, {},
                        "cannot write `" + path + "`: " + why);
    return false;
  }
  bool fine = true;
  write([&](std::string_view text) {
    fine = fine && file->write(text);
    return fine;
  });
  if (!context.host.shortened_file().empty()) return false;
  if (fine && file->commit()) return true;
  const std::string problem = file->problem();
  context.diags
      .error(Code::UnreadableFile, {},
             "cannot write all of `" + path + "`" +
                 (problem.empty() ? "" : ": " + problem))
      .fact("the partial output was discarded");
  return false;
}

// Returns false, with the reason reported, if the answer could not be written.
bool write_answer(Context& context, const Writer& write) {
  context.progress.clear();
  // run() then reports the shortened file, and nothing else.
  if (!context.host.shortened_file().empty()) return false;
  if (to_file(context.options.output))
    return write_whole(context, *context.options.output.file, write);
  write([&](std::string_view text) {
    context.began_answer = true;
    return context.host.write(Stream::Out, text);
  });
  return !report_unwritten(context.host, context.diags);
}

// Returns whether the output may end up in the log of a CI job, whose runner
// executes commands that it finds there.
bool is_for_logs(const Renderer& renderer) {
  return renderer.name == "text" || renderer.name == "markdown" ||
         renderer.name == "concise";
}

bool render_guarded(const Renderer& renderer, const Report& report,
                    const Style& style, const TextSink& sink) {
  if (!is_for_logs(renderer)) {
    renderer.render(report, style, sink);
    return true;
  }
  LineGuard guard(sink);
  renderer.render(report, style,
                  [&](std::string_view text) { return guard.write(text); });
  return guard.finish();
}

void write_to_stderr(const Diagnostics& diags, const OutputOptions& output,
                     Host& host) {
  const TextSink sink = [&](std::string_view text) {
    return host.write(Stream::Err, text);
  };
  LineGuard guard(sink);
  write_diagnostics(diags, style_of(Stream::Err, output, host),
                    [&](std::string_view text) { return guard.write(text); });
  guard.finish();
}

bool write_step_summary(Context& context, const Report& report) {
  const std::string path = variable(context.host, "GITHUB_STEP_SUMMARY");
  const Renderer* markdown = find_renderer("markdown");
  if (path.empty() || markdown == nullptr) return true;
  std::string text;
  markdown->render(report, Style{}, [&](std::string_view piece) {
    text += piece;
    return true;
  });
  std::string why = "it is an input of this run";
  if (!context.host.was_read(path) &&
      context.host.append_file(path, text, why)) {
    return true;
  }
  context.diags.error(Code::UnreadableFile, {},
                      "cannot write `" + path + "`: " + why);
  return false;
}

// Returns what people see of them, in that order.
Diagnostics shown_of(const Diagnostics& diags, const OutputOptions& output) {
  return arranged(diags, output.quiet ? Severity::Error : Severity::Note);
}

// Shows diagnostics after an answer on stdout. A blank line separates the two
// if both go to a terminal.
void show_diagnostics(Context& context, const Diagnostics& diags) {
  const Diagnostics shown = shown_of(diags, context.options.output);
  if (shown.all().empty()) return;
  if (!to_file(context.options.output) &&
      context.host.is_terminal(Stream::Out) &&
      context.host.is_terminal(Stream::Err)) {
    context.host.write(Stream::Err, "\n");
  }
  write_to_stderr(shown, context.options.output, context.host);
}

bool is_note(const Diagnostic& each) {
  return each.code == Code::Remark && each.severity == Severity::Note;
}

// Moves notes to the report's lines if the format shows such lines; else leaves
// them among the findings.
void place_notes(const Renderer& renderer, Diagnostics& shown, Report& report) {
  std::vector<std::string> own = std::exchange(report.notes, {});
  if (!renderer.has_notes) {
    for (std::string& note : own) {
      Diagnostic& found = shown.all().emplace_back();
      found.code = Code::Remark;
      found.severity = Severity::Note;
      found.message = std::move(note);
    }
    return;
  }
  for (const Diagnostic& each : shown.all()) {
    if (!is_note(each)) continue;
    report.notes.push_back(
        each.message +
        (each.targets.empty() ? "" : " (" + some_names(each.targets) + ")"));
  }
  std::erase_if(shown.all(), is_note);
  report.notes.insert(report.notes.end(), own.begin(), own.end());
}

// Removes the report's notes if they are allowed, and turns them into findings
// if they are denied.
void judge_notes(Report& report, Diagnostics& diags) {
  if (diags.severity_of(Code::Remark) == Severity::Note) return;
  for (std::string& note : report.notes) {
    diags.report(Code::Remark, {}, std::move(note));
  }
  report.notes.clear();
}

// Returns false if the report could not be written.
bool render_to_stdout(const Report& report, const OutputOptions& output,
                      Host& host) {
  render_guarded(
      *find_renderer(output.format), report,
      style_of(Stream::Out, output, host),
      [&](std::string_view text) { return host.write(Stream::Out, text); });
  return host.write_problem(Stream::Out).empty();
}

// Returns the file that represents a model: the file itself, or the best-known
// file of a model's folder.
std::string file_of_model(const std::string& path, Host& host) {
  const auto info = path.empty() ? std::nullopt : host.file_info(path);
  if (!info) return "";
  if (!info->directory) return path;
  for (const char* name :
       {"config.json", "model.safetensors.index.json", "model.safetensors"}) {
    const std::string file = path_in(path, name, host);
    if (host.file_info(file)) return file;
  }
  return "";
}

// Returns the working directory relative to the checkout of a GitHub workflow.
std::string repository_prefix(Host& host) {
  const std::string named = variable(host, "GITHUB_WORKSPACE");
  const auto root = named.empty() ? std::nullopt : host.real_path(named);
  const auto here = host.real_path(host.working_directory());
  if (!root || !here || !here->starts_with(*root + "/")) return "";
  return here->substr(root->size() + 1) + "/";
}

// Adds the command, the diagnostics to show, and the file names that formats
// for code review need.
void complete(Report& report, const Diagnostics& shown, const Options& options,
              Host& host) {
  report.command = options.command;
  report.diagnostics = &shown;
  if (report.main_file.empty()) {
    report.main_file = file_of_model(options.planning.model, host);
  }
  const std::string& format = options.output.format;
  if (format != "github" && format != "sarif") return;
  report.repository_prefix = repository_prefix(host);
  if (!report.is_there) {
    report.is_there = [&host](const std::string& path) {
      return host.file_info(path).has_value();
    };
  }
}

// A failure is printed as text if the format follows from a file's extension.
bool is_format_of_stdout(const OutputOptions& output) {
  return !output.file || output.format_was_given;
}

Exit exit_of(const Diagnostics& diags) {
  return diags.has_errors() ? Exit::Findings : Exit::Fine;
}

// Returns whether findings of the code must precede the SP304 finding that they
// cause.
bool can_cost_sharding(Code code) {
  return code == Code::IndivisibleDimension || code == Code::SmallParameter;
}

// Returns the indices of all diagnostics in the order of ranked(): severity;
// then codes about reading files, unsorted; then codes by what their largest
// finding costs, ties as reported; then the findings of one code by what each
// costs.
std::vector<size_t> ranking(const Diagnostics& diags) {
  struct Findings {
    size_t first = 0;
    Severity severity = Severity::Off;  // the highest of them
    double bytes = 0;                   // of the largest
  };
  std::map<Code, Findings> findings;
  std::vector<size_t> order;
  for (const Diagnostic& each : diags.all()) {
    Findings& of_code =
        findings.try_emplace(each.code, Findings{order.size()}).first->second;
    of_code.severity = std::max(of_code.severity, each.severity);
    of_code.bytes = std::max(of_code.bytes, each.bytes);
    order.push_back(order.size());
  }
  // SP304 comes right after its causes, which have at least its severity.
  if (const auto found = findings.find(Code::ShardingLost);
      found != findings.end()) {
    Findings& lost = found->second;
    lost.bytes = 0;
    for (auto& [code, cause] : findings) {
      if (!can_cost_sharding(code)) continue;
      cause.severity = std::max(cause.severity, lost.severity);
      lost.bytes = std::max(lost.bytes, cause.bytes);
    }
  }
  std::ranges::stable_sort(order, {}, [&](size_t i) {
    const Diagnostic& each = diags.all()[i];
    const auto severity = static_cast<int>(each.severity);
    if (static_cast<int>(each.code) < 100) {
      return std::tuple(-severity, false, 0.0, false, size_t{0}, 0, 0.0);
    }
    const Findings& of_code = findings.at(each.code);
    return std::tuple(-static_cast<int>(of_code.severity), true, -of_code.bytes,
                      each.code == Code::ShardingLost, of_code.first, -severity,
                      -each.bytes);
  });
  return order;
}

// The diagnostics in the order of ranked(). The names of parameters are moved
// here from the diagnostics and moved back on destruction instead of copied:
// the finding about a catch-all names a whole model.
class BorrowingView {
 public:
  explicit BorrowingView(Diagnostics& diags) {
    for (const size_t i : ranking(diags)) {
      Diagnostic& each = diags.all()[i];
      std::vector<std::string> names = std::exchange(each.parameters, {});
      shown_.add(each);
      if (names.empty()) continue;
      owners_.push_back(&each);
      shown_.all().back().parameters = std::move(names);
    }
  }
  BorrowingView(const BorrowingView&) = delete;
  BorrowingView& operator=(const BorrowingView&) = delete;
  ~BorrowingView() {
    size_t owner = 0;
    for (Diagnostic& each : shown_.all()) {
      if (each.parameters.empty()) continue;
      owners_[owner++]->parameters = std::move(each.parameters);
    }
  }
  // REQUIRES: only diagnostics that name no parameter are removed.
  Diagnostics& shown() { return shown_; }

 private:
  Diagnostics shown_;
  std::vector<Diagnostic*> owners_;  // the diagnostics that name parameters
};

// Writes the figures of --plot to their files, or has them drawn in the answer.
// Returns false, with the reason reported, if there is no such figure or it
// cannot be written.
bool place_figures(Context& context, const Renderer& renderer, Report& report) {
  std::vector<PlotRequest> wanted = context.options.plots;
  // An SVG file is the first figure and nothing else.
  if (renderer.name == "svg") wanted.push_back({"", std::nullopt});
  for (const PlotRequest& request : wanted) {
    const auto found =
        request.figure.empty()
            ? report.figures.begin()
            : std::ranges::find(report.figures, request.figure, &Figure::name);
    if (found == report.figures.end()) {
      std::vector<std::string> names;
      for (const Figure& figure : report.figures) names.push_back(figure.name);
      auto problem = context.diags.error(
          Code::Usage, {},
          request.figure.empty()
              ? "this report has no figure"
              : "this report has no figure " + in_backticks(request.figure));
      if (!names.empty()) problem.fact("it has " + quoted_names(names));
      return false;
    }
    if (!request.file) {
      found->in_text = InText::Titled;
      continue;
    }
    if (!write_file(context, *request.file,
                    svg_of(found->make(), {.title = found->title}))) {
      return false;
    }
  }
  return true;
}

Exit finish_whole(Context& context, Report report) {
  const Renderer* renderer = find_renderer(context.options.output.format);
  SHARDPLAN_CHECK(renderer != nullptr);
  if (!place_figures(context, *renderer, report)) return Exit::CouldNotRun;
  judge_notes(report, context.diags);
  const bool hide = context.options.output.quiet && renderer->for_people;
  BorrowingView view(context.diags);
  place_notes(*renderer, view.shown(), report);
  const Diagnostics errors =
      hide ? arranged(view.shown(), Severity::Error) : Diagnostics();
  const Diagnostics& shown = hide ? errors : view.shown();
  complete(report, shown, context.options, context.host);
  const bool terminal =
      !to_file(context.options.output) && context.host.is_terminal(Stream::Out);
  const Style style =
      style_when(terminal, context.options.output, context.host);
  const bool written = write_answer(context, [&](const TextSink& sink) {
    return render_guarded(*renderer, report, style, sink);
  });
  if (!written) return Exit::CouldNotRun;
  if (renderer->name == "github" && !write_step_summary(context, report)) {
    return Exit::CouldNotRun;
  }
  const bool among_answer =
      report.diagnostics_are_the_answer && renderer->name == "text";
  // Whoever reads the exit code has not yet opened a file.
  const bool unseen = to_file(context.options.output) &&
                      context.diags.cannot_run() && !among_answer;
  if ((renderer->for_people && !among_answer) || unseen) {
    show_diagnostics(context, shown);
  }
  return exit_of(context.diags);
}

}  // namespace

Style style_of(Stream stream, const OutputOptions& output, Host& host) {
  return style_when(host.is_terminal(stream), output, host);
}

std::vector<const Diagnostic*> ranked(const Diagnostics& diags) {
  std::vector<const Diagnostic*> order;
  for (const size_t i : ranking(diags)) order.push_back(&diags.all()[i]);
  return order;
}

Diagnostics arranged(const Diagnostics& diags, Severity least) {
  Diagnostics result;
  for (const Diagnostic* each : ranked(diags)) {
    if (each->severity >= least) result.add(*each);
  }
  return result;
}

Exit finish(Context& context, std::optional<Report> report, bool is_finding) {
  if (!report) return Exit::CouldNotRun;
  if (context.diags.cannot_run()) {
    return finish_incomplete(context, *std::move(report));
  }
  const Exit exit = finish_whole(context, *std::move(report));
  return exit == Exit::Fine && is_finding ? Exit::Findings : exit;
}

Exit finish_in_part(Context& context, Report report) {
  const Exit exit = finish_whole(context, std::move(report));
  if (!context.diags.cannot_run()) return exit;
  context.explained = context.host.shortened_file().empty() &&
                      context.host.write_problem(Stream::Out).empty();
  return Exit::CouldNotRun;
}

Exit finish_incomplete(Context& context, Report report) {
  // If a file was truncated, nothing of the report is valid; run() reports it.
  const std::string& format = context.options.output.format;
  if ((format != "json" && format != "sarif") ||
      !is_format_of_stdout(context.options.output) ||
      !context.host.shortened_file().empty()) {
    return Exit::CouldNotRun;
  }
  judge_notes(report, context.diags);
  Diagnostics shown = arranged(context.diags);
  place_notes(*find_renderer(format), shown, report);
  complete(report, shown, context.options, context.host);
  context.progress.clear();
  context.began_answer = true;
  context.explained =
      render_to_stdout(report, context.options.output, context.host);
  return Exit::CouldNotRun;
}

bool asks_for_plan(const OutputOptions& output) {
  return output.file && output.file->ends_with(".plan.json") &&
         !output.format_was_given;
}

void settle_format(OutputOptions& output, Diagnostics& diags) {
  if (!output.file || output.format_was_given || asks_for_plan(output)) return;
  const std::string name = file_name_of(*output.file);
  const size_t dot = name.rfind('.');
  if (dot == 0 || dot == std::string::npos) return;
  const std::string ending = name.substr(dot + 1);
  std::vector<std::string> known;
  for (const Renderer& renderer : renderers()) {
    if (renderer.ending.empty()) continue;
    if (renderer.ending == ending) {
      output.format = renderer.name;
      return;
    }
    known.push_back("." + std::string(renderer.ending));
  }
  diags
      .error(
          Code::Usage, {},
          "no output format for the extension of " + in_backticks(*output.file))
      .fact("extensions that set the format: " + joined(known, ", "))
      .help("`--format text` writes text to any file");
}

Exit finish_text(Context& context, std::string_view text) {
  return finish_with(context, [&](const TextSink& sink) { return sink(text); });
}

Exit finish_with(Context& context, const Writer& write) {
  if (context.diags.cannot_run()) return Exit::CouldNotRun;
  if (!write_answer(context, write)) return Exit::CouldNotRun;
  show_diagnostics(context, context.diags);
  return exit_of(context.diags);
}

void explain_failure(const Options& options, const Diagnostics& diags,
                     bool began_answer, Host& host) {
  Diagnostics shown = shown_of(diags, options.output);
  // Findings about a plan that is not shown are left out.
  std::erase_if(shown.all(), [](const Diagnostic& each) {
    return !prevents_running(each.code);
  });
  const Renderer* renderer = find_renderer(options.output.format);
  if (renderer != nullptr && renderer->reports_failures && !began_answer &&
      is_format_of_stdout(options.output)) {
    Report report;
    complete(report, shown, options, host);
    report.diagnostics_are_the_answer = true;
    if (render_to_stdout(report, options.output, host)) return;
  }
  write_to_stderr(shown, options.output, host);
}

bool report_unwritten(Host& host, Diagnostics& diags) {
  const std::string why = host.write_problem(Stream::Out);
  if (why.empty()) return false;
  diags.error(Code::UnreadableFile, {},
              "cannot write to standard output: " + why);
  return true;
}

bool report_shortened(Host& host, Diagnostics& diags) {
  const std::string path = host.shortened_file();
  if (path.empty()) return false;
  diags
      .error(Code::UnreadableFile, {},
             "`" + path + "` changed while it was being read")
      .fact(
          "it was truncated, or its disk failed, so nothing read from it is "
          "valid")
      .help("run again once nothing is writing to the file");
  return true;
}

void explain_no_answer(const Context& context) {
  if (context.explained) return;
  if (context.diags.cannot_run()) {
    explain_failure(context.options, context.diags, context.began_answer,
                    context.host);
    return;
  }
  write_to_stderr(arranged(context.diags), context.options.output,
                  context.host);
  throw InternalError("`" + context.options.command +
                      "` could not run, and no error says why");
}

bool write_file(Context& context, const std::string& path,
                std::string_view text) {
  return write_whole(context, path,
                     [&](const TextSink& sink) { return sink(text); });
}

}  // namespace shardplan::cli
