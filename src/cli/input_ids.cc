// SPDX-License-Identifier: Apache-2.0
#include "cli/input_ids.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "base/text.h"
#include "cli/flag_values.h"
#include "io/document.h"
#include "io/load.h"

namespace shardplan::cli {
namespace {

std::optional<int64_t> number_in(std::string_view text) {
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data(), end, number);
  if (problem != std::errc() || rest != end) return std::nullopt;
  return number;
}

InputIds from_text(const std::string& text, Diagnostics& diags) {
  InputIds ids;
  for (const std::string& sequence : split_list(text, ';')) {
    std::vector<int64_t>& row = ids.emplace_back();
    for (const std::string& entry : split_list(sequence)) {
      const auto number = number_in(entry);
      if (!number) {
        diags
            .error(Code::Usage, {},
                   "`" + printable(entry) + "` in --input-ids is no token")
            .help("for example `--input-ids 1,2,3;4,5,6`, without blanks");
        return {};
      }
      row.push_back(*number);
    }
  }
  return ids;
}

std::optional<std::vector<int64_t>> sequence_of(const Node& list,
                                                Diagnostics& diags) {
  std::vector<int64_t> row;
  for (size_t i = 0; i < list.size(); ++i) {
    const auto number = list.item(i).integer();
    if (!number) {
      return diags.error(Code::MalformedDocument, list.item(i).span(),
                         "a token is an integer");
    }
    row.push_back(*number);
  }
  return row;
}

InputIds from_file(const std::string& path, Host& host, Diagnostics& diags) {
  SourcePtr source =
      read_source(path, static_cast<int64_t>(kMaxDocumentBytes), host, diags);
  if (source == nullptr) return {};
  const auto document = parse_document(std::move(source), diags);
  if (!document) return {};
  const Node root = document->root();
  const bool flat = root.size() > 0 && !root.item(0).is_list();
  InputIds ids;
  for (size_t i = 0; i < (flat ? 1 : root.size()); ++i) {
    const Node list = flat ? root : root.item(i);
    if (!list.is_list()) {
      diags
          .error(Code::MalformedDocument, list.span(),
                 "input ids are a list of sequences")
          .help("for example [[1, 2, 3], [4, 5, 6]]");
      return {};
    }
    const auto row = sequence_of(list, diags);
    if (!row) return {};
    ids.push_back(*row);
  }
  return ids;
}

}  // namespace

bool is_written_out(const std::string& text) {
  return text.find_first_not_of("0123456789,; -") == std::string::npos;
}

InputIds read_input_ids(const std::string& written, Host& host,
                        Diagnostics& diags) {
  const int64_t errors = diags.count(Severity::Error);
  InputIds ids = is_written_out(written) ? from_text(written, diags)
                                         : from_file(written, host, diags);
  if (diags.count(Severity::Error) > errors) return {};
  if (ids.empty() || ids.front().empty()) {
    diags.error(Code::Usage, {}, "--input-ids gives no tokens");
    return {};
  }
  for (const std::vector<int64_t>& row : ids) {
    if (row.size() == ids.front().size()) continue;
    diags.error(Code::Usage, {}, "sequences of --input-ids differ in length")
        .fact("the first has " +
              plural(static_cast<int64_t>(ids.front().size()), "token") +
              ", another " + plural(static_cast<int64_t>(row.size()), "token"))
        .help("a batch is rectangular: cut or pad the sequences");
    return {};
  }
  return ids;
}

}  // namespace shardplan::cli
