// SPDX-License-Identifier: Apache-2.0
#include "report/labels.h"

#include <algorithm>

namespace shardplan {

Place place_of(Span where) {
  const Position begin = where.file->position(where.begin);
  const std::string_view line = where.file->line(begin.line);
  const auto line_begin =
      static_cast<uint64_t>(line.data() - where.file->text().data());
  const uint64_t end = std::clamp(
      where.end, where.begin, std::max(where.begin, line_begin + line.size()));
  return {begin.line, begin.column, where.file->position(end).column};
}

bool is_flag(const SourceFile& file) { return file.name().starts_with("--"); }

const Label* main_label(const Diagnostic& diagnostic) {
  const auto found =
      std::find_if(diagnostic.labels.begin(), diagnostic.labels.end(),
                   [](const Label& label) { return bool{label.where}; });
  return found == diagnostic.labels.end() ? nullptr : &*found;
}

}  // namespace shardplan
