// SPDX-License-Identifier: Apache-2.0
// Reports to render in tests, and what a renderer makes of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "report/report.h"

namespace shardplan {

inline std::string rendered(const Report& report, std::string_view format,
                            const Style& style = {}) {
  std::string text;
  find_renderer(format)->render(report, style, [&](std::string_view piece) {
    text += piece;
    return true;
  });
  return text;
}

inline std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

// The bytes of `word` in a source. REQUIRES: it is there.
inline Span span_of(const SourceFile& file, std::string_view word) {
  const size_t begin = file.text().find(word);
  return {&file, begin, begin + word.size()};
}

// Two parameters of a small model, with a table that only people see and one
// that only programs see.
inline Report sample_report() {
  using S = std::string;
  Report report;
  report.command = "resolve";
  report.summary = {{"tensors", Count{2}},
                    {"mesh", MeshCell{Mesh({{"fsdp", 4}, {"tp", 2}})}},
                    {"memory_per_device", MemoryRange{96, 64, 80.5}},
                    {"balance_score", Ratio{0.75}}};
  report.headline = {"tiny: 2 parameters", "mesh fsdp=4,tp=2: 8 devices"};
  const std::vector<Column> columns = {
      {"parameter", "parameter", Align::Left, true},
      {"spec", "spec"},
      {"bytes_per_device", "per device", Align::Right},
      {"rule", "rule", Align::Right}};
  const std::vector<Row> rows = {
      {S("layers/*/mlp/up_proj/kernel"), PartitionSpec{{{}, {"fsdp", "tp"}}},
       ByteSize{32769024}, Count{1}},
      {S("norm"), PartitionSpec{}, ByteSize{4096}, std::monostate{}}};
  Table people{"placements", "", columns, rows_of(rows)};
  people.audience = Audience::People;
  people.footer = Row{{}, {}, ByteSize{32773120}, {}};
  Table programs{"placements", "", columns, rows_of({rows[1]})};
  programs.audience = Audience::Programs;
  Table memory{"memory",
               "Memory per device",
               {{"what", ""}, {"bytes", "", Align::Right}, {"share", ""}},
               rows_of({{S("weights"), ByteSize{512}, Bar{0.5}},
                        {S("gradients"), ByteSize{1024}, Bar{1}}})};
  memory.show_header = false;
  Table none{
      "corrections", "Corrections", {{"parameter", "parameter"}}, rows_of({})};
  report.tables = {people, programs, memory, none};
  report.notes = {"1 dimension is not divisible by its axes"};
  report.next_step = "`shardplan explain SP203` describes a code";
  return report;
}

}  // namespace shardplan
