// SPDX-License-Identifier: Apache-2.0
#include "cli/algorithm_report.h"

#include <memory>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/text.h"
#include "cli/flag_values.h"
#include "cli/schedule_chart.h"
#include "comm/collective.h"

namespace shardplan::cli {
namespace {

// A schedule of more ranks shows nothing new, and all-to-all has n n chunks.
constexpr int64_t kMostRanks = 256;

struct Question {
  const Algorithm* algorithm = nullptr;
  CollectiveKind kind = CollectiveKind::AllReduce;
  Ranks ranks;
};

std::string over_text(const Ranks& ranks) {
  return " over " + plural(ranks.count, "rank") +
         (ranks.inner > 1 ? fmt::format(", {} of them fast", ranks.inner) : "");
}

// What an algorithm of the same kind needs, for the help.
std::vector<std::string> names_that_support(CollectiveKind kind,
                                            const Ranks& ranks) {
  std::vector<std::string> names;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.supports(kind, ranks)) names.emplace_back(algorithm.name);
  }
  return names;
}

std::nullopt_t refuse(const Question& question, Diagnostics& diags) {
  const std::string kind(collective_name(question.kind));
  auto problem =
      diags.error(Code::Usage, {},
                  fmt::format("`{}` has no {}{}", question.algorithm->name,
                              kind, over_text(question.ranks)));
  if (question.ranks.inner == 1 && question.algorithm->name == "hierarchical") {
    problem.help(
        "`--inner K` says how many ranks the fast axis has: more than one, and "
        "fewer than all");
  }
  return problem.help(
      "these have: " +
      names_text(names_that_support(question.kind, question.ranks), " and "));
}

std::optional<Question> question_of(const Options& options,
                                    Diagnostics& diags) {
  Question question;
  question.algorithm = find_algorithm(*options.algorithm);
  SHARDPLAN_CHECK(question.algorithm != nullptr);
  if (!options.ranks) {
    return diags.error(Code::Usage, {}, "`--algorithm` needs `--ranks N`")
        .help(fmt::format("for example `--algorithm {} --ranks 4`",
                          question.algorithm->name));
  }
  if (*options.ranks > kMostRanks) {
    return diags
        .error(Code::Usage, {},
               fmt::format("a schedule of {} ranks is too large to show",
                           count_text(*options.ranks)))
        .help(fmt::format("up to {} can be shown; fewer show the same pattern",
                          kMostRanks));
  }
  const int64_t inner = options.inner.value_or(1);
  if (*options.ranks % inner != 0) {
    return diags
        .error(Code::Usage, {},
               fmt::format("a fast axis of {} does not divide {} ranks", inner,
                           *options.ranks))
        .help("`--inner` is the number of neighbouring ranks on the fast axis");
  }
  if (options.kind) question.kind = *find_collective(*options.kind);
  question.ranks = {static_cast<int>(*options.ranks), static_cast<int>(inner)};
  if (!question.algorithm->supports(question.kind, question.ranks)) {
    return refuse(question, diags);
  }
  return question;
}

// What bytes are counted in.
std::string_view payload_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::AllGather:
      return "the gathered array";
    case CollectiveKind::ReduceScatter:
    case CollectiveKind::AllReduce:
      return "what one rank contributes";
    case CollectiveKind::AllToAll:
    case CollectiveKind::Permute:
      return "what one rank holds";
    case CollectiveKind::Broadcast:
      break;
  }
  return "what rank 0 holds";
}

// How much is sent when all chunks are equally large, in payloads.
struct Sent {
  int64_t copies = 0;
  int64_t least_copies = 0;
  double busiest = 0;
};

Sent sent_by(const Question& question, const Schedule& schedule) {
  const bool per_rank = question.kind == CollectiveKind::AllToAll ||
                        question.kind == CollectiveKind::Permute;
  const int64_t payload =
      per_rank ? schedule.chunks / schedule.ranks : schedule.chunks;
  const auto moved =
      traffic(schedule, chunk_sizes(question.kind, schedule, payload));
  return {moved.total / payload,
          least_copies(question.kind, question.ranks.count),
          static_cast<double>(moved.busiest) / static_cast<double>(payload)};
}

std::vector<std::string> notes_of(const Question& question, const Sent& sent) {
  std::string total =
      fmt::format("all ranks send {} in all", plural(sent.copies, "payload"));
  total += sent.copies == sent.least_copies
               ? ", the least that is possible"
               : fmt::format("; the least that is possible is {}",
                             sent.least_copies);
  return {fmt::format("{}; the busiest one sends {:.4g}", total, sent.busiest),
          fmt::format("a payload is {}", payload_of(question.kind))};
}

std::string legend_of(CollectiveKind kind) {
  const bool sums = kind == CollectiveKind::AllReduce ||
                    kind == CollectiveKind::ReduceScatter;
  return std::string("under each rank: chunks → the rank that they go to") +
         (sums ? ", + where they are added" : "");
}

Table steps_table(const std::shared_ptr<const Schedule>& schedule) {
  Table table;
  table.id = "steps";
  table.columns = {{"step", "step", Align::Right},
                   {"source", "source", Align::Right},
                   {"target", "target", Align::Right},
                   {"first_chunk", "first chunk", Align::Right},
                   {"chunk_count", "chunks", Align::Right},
                   {"reduce", "added"}};
  table.audience = Audience::Programs;
  table.rows = [schedule](const RowSink& sink) {
    for (size_t step = 0; step < schedule->steps.size(); ++step) {
      for (const Transfer& t : schedule->steps[step]) {
        sink(Row{Count{static_cast<int64_t>(step) + 1}, Count{t.source},
                 Count{t.target}, Count{t.first_chunk}, Count{t.chunk_count},
                 shardplan::Flag{t.reduce}});
      }
    }
  };
  return table;
}

}  // namespace

std::vector<std::string> algorithm_names() {
  std::vector<std::string> names;
  for (const Algorithm& algorithm : algorithms()) {
    names.emplace_back(algorithm.name);
  }
  return names;
}

std::vector<std::string> collective_names() {
  std::vector<std::string> names;
  for (int kind = 0; kind < kCollectiveKinds; ++kind) {
    names.emplace_back(collective_name(static_cast<CollectiveKind>(kind)));
  }
  return names;
}

std::optional<Report> algorithm_report(const Options& options,
                                       Diagnostics& diags) {
  const auto question = question_of(options, diags);
  if (!question) return std::nullopt;
  const Ranks& ranks = question->ranks;
  const auto schedule = std::make_shared<const Schedule>(
      question->algorithm->schedule(question->kind, ranks));
  const Sent sent = sent_by(*question, *schedule);
  const std::string name(question->algorithm->name);
  const std::string kind(collective_name(question->kind));
  const auto steps = static_cast<int64_t>(schedule->steps.size());

  Report report;
  report.command = "explain";
  report.diagnostics = &diags;
  report.summary = {{"algorithm", name},
                    {"kind", kind},
                    {"ranks", Count{ranks.count}},
                    {"inner", Count{ranks.inner}},
                    {"chunks", Count{schedule->chunks}},
                    {"steps", Count{steps}},
                    {"copies", Count{sent.copies}},
                    {"least_copies", Count{sent.least_copies}},
                    {"busiest", Ratio{sent.busiest}}};
  report.headline = {
      fmt::format("{} {}{}: {}, {}", name, kind, over_text(ranks),
                  plural(steps, "step"), plural(schedule->chunks, "chunk")),
      legend_of(question->kind)};
  if (steps > 0) {
    const bool expand = options.expand;
    report.drawing = [schedule, expand](const Style& style) {
      return draw_schedule(*schedule, style, expand);
    };
  }
  report.tables = {steps_table(schedule)};
  report.notes = notes_of(*question, sent);
  return report;
}

}  // namespace shardplan::cli
