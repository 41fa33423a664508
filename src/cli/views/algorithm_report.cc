// SPDX-License-Identifier: Apache-2.0
#include "cli/views/algorithm_report.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include <fmt/core.h>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "cli/flag_values.h"
#include "report/figures/shard_map.h"

namespace shardplan::cli {
namespace {

constexpr int kListWidth = 14;  // width of a list of chunks or of targets

using SentNumbers = std::vector<int64_t>;

// Chunks sent to the same rank share a line, as do targets that receive the
// same chunks.
std::vector<std::string> cell_of(const Step& step, size_t rank) {
  std::map<std::pair<int, bool>, SentNumbers> chunks_to;
  for (const Transfer& t : step) {
    if (to_size(t.source) != rank) continue;
    SentNumbers& chunks = chunks_to[{t.target, t.reduce}];
    for (int i = 0; i < t.chunk_count; ++i) chunks.push_back(t.first_chunk + i);
  }
  std::map<std::pair<SentNumbers, bool>, SentNumbers> targets_of;
  for (auto& [target, chunks] : chunks_to) {
    std::ranges::sort(chunks);
    targets_of[{chunks, target.second}].push_back(target.first);
  }
  std::vector<std::string> cell;
  for (const auto& [sent, targets] : targets_of) {
    cell.push_back(device_list_text(sent.first, kListWidth) + " → " +
                   (sent.second ? "+" : "") +
                   device_list_text(targets, kListWidth));
  }
  return cell;
}

// More ranks show the same pattern, and all-to-all has n * n chunks.
constexpr int64_t kMaxRanks = 256;

struct Question {
  const Algorithm* algorithm = nullptr;
  CollectiveKind kind = CollectiveKind::AllReduce;
  Ranks ranks;
};

std::string share_text(const Ranks& ranks) {
  return " over " + plural(ranks.count, "rank") +
         (ranks.inner > 1 ? fmt::format(", {} on the fast axis", ranks.inner)
                          : "");
}

// Returns the algorithms that support the collective, for the help text.
std::vector<std::string> names_that_support(CollectiveKind kind,
                                            const Ranks& ranks) {
  std::vector<std::string> names;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.supports(kind, ranks)) names.emplace_back(algorithm.name);
  }
  return names;
}

std::nullopt_t refuse_algorithm(const Question& question, Diagnostics& diags) {
  const std::string kind(collective_name(question.kind));
  auto problem = diags.error(
      Code::Usage, {},
      fmt::format("`{}` does not support {}{}", question.algorithm->name, kind,
                  share_text(question.ranks)));
  if (question.ranks.inner == 1 && question.algorithm->name == "hierarchical") {
    problem.help(
        "`--inner K` sets the number of ranks on the fast axis: more than one, "
        "fewer than all");
  }
  return problem.help("supported by " + quoted_names(names_that_support(
                                            question.kind, question.ranks)));
}

std::optional<Question> question_of(const ExplainRequest& request,
                                    Diagnostics& diags) {
  Question question;
  question.algorithm = find_algorithm(*request.algorithm);
  SHARDPLAN_CHECK(question.algorithm != nullptr);
  if (!request.ranks) {
    return diags.error(Code::Usage, {}, "`--algorithm` needs `--ranks N`")
        .help(fmt::format("for example `--algorithm {} --ranks 4`",
                          question.algorithm->name));
  }
  if (*request.ranks > kMaxRanks) {
    return diags
        .error(Code::Usage, {},
               fmt::format("a schedule of {} ranks is too large to show",
                           count_text(*request.ranks)))
        .help(fmt::format("up to {} can be shown; fewer show the same pattern",
                          kMaxRanks));
  }
  const int64_t inner = request.inner.value_or(1);
  if (*request.ranks % inner != 0) {
    return diags
        .error(Code::Usage, {},
               fmt::format("a fast axis of {} does not divide {} ranks", inner,
                           *request.ranks))
        .help("`--inner` is the number of neighbouring ranks on the fast axis");
  }
  if (request.kind) question.kind = *find_collective(*request.kind);
  question.ranks = {static_cast<int>(*request.ranks), static_cast<int>(inner)};
  if (!question.algorithm->supports(question.kind, question.ranks)) {
    return refuse_algorithm(question, diags);
  }
  return question;
}

// Returns what one payload is; bytes are counted in payloads.
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

// The amount sent if all chunks are equally large, in payloads.
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
      fmt::format("all ranks send {} in total", plural(sent.copies, "payload"));
  total += sent.copies == sent.least_copies
               ? ", the minimum"
               : fmt::format("; the minimum is {}", sent.least_copies);
  return {fmt::format("{}; the busiest sends {:.4g}", total, sent.busiest),
          fmt::format("a payload is {}", payload_of(question.kind))};
}

std::string legend_of(CollectiveKind kind) {
  const bool sums = kind == CollectiveKind::AllReduce ||
                    kind == CollectiveKind::ReduceScatter;
  return std::string("under each rank: chunks → destination rank") +
         (sums ? ", + where they are added" : "");
}

Table steps_table(const std::shared_ptr<const Schedule>& schedule) {
  return {"steps",
          "",
          {left("step"), left("source"), left("target"), left("first_chunk"),
           left("chunk_count"), left("reduce")},
          [schedule](const RowSink& sink) {
            int64_t number = 0;
            for (const Step& step : schedule->steps) {
              ++number;
              for (const Transfer& t : step) {
                sink(Row{Count{number}, Count{t.source}, Count{t.target},
                         Count{t.first_chunk}, Count{t.chunk_count},
                         YesNo{t.reduce}});
              }
            }
          },
          Audience::Programs};
}

}  // namespace

StepChart chart_of(const Schedule& schedule) {
  StepChart chart;
  chart.ranks = to_size(schedule.ranks);
  for (const Step& step : schedule.steps) {
    auto& row = chart.steps.emplace_back();
    for (size_t rank = 0; rank < chart.ranks; ++rank) {
      row.push_back(cell_of(step, rank));
    }
  }
  return chart;
}

std::vector<std::string> algorithm_names() { return all_names(algorithms()); }

std::vector<std::string> collective_names() {
  std::vector<std::string> names;
  for (int kind = 0; kind < kCollectiveKinds; ++kind) {
    names.emplace_back(collective_name(static_cast<CollectiveKind>(kind)));
  }
  return names;
}

std::optional<Report> algorithm_report(const ExplainRequest& request,
                                       Diagnostics& diags) {
  const auto question = question_of(request, diags);
  if (!question) return std::nullopt;
  const Ranks& ranks = question->ranks;
  const auto schedule = std::make_shared<const Schedule>(
      question->algorithm->schedule(question->kind, ranks));
  const Sent sent = sent_by(*question, *schedule);
  const std::string name(question->algorithm->name);
  const std::string kind(collective_name(question->kind));
  const auto steps = std::ssize(schedule->steps);

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
      fmt::format("{} {}{}: {}, {}", name, kind, share_text(ranks),
                  plural(steps, "step"), plural(schedule->chunks, "chunk")),
      legend_of(question->kind)};
  if (steps > 0) {
    report.figures = {{"steps", report.headline.front(),
                       [schedule] { return chart_of(*schedule); },
                       InText::Drawn}};
  }
  report.tables = {steps_table(schedule)};
  report.closing = notes_of(*question, sent);
  return report;
}

}  // namespace shardplan::cli
