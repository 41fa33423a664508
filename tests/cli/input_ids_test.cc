// SPDX-License-Identifier: Apache-2.0
#include "cli/input_ids.h"

#include <string>

#include <doctest/doctest.h>

#include "tests/support/memory_host.h"
#include "tests/support/messages.h"

namespace shardplan::cli {
namespace {

InputIds read(const std::string& written, Diagnostics& diags,
              const std::string& file = "") {
  testing::MemoryHost host;
  if (!file.empty()) host.files["ids.json"] = file;
  return read_input_ids(written, host, diags);
}

TEST_CASE("input ids are written out, or stand in a file") {
  Diagnostics diags;
  const InputIds two = {{1, 2, 3}, {4, 5, 6}};
  const InputIds one = {{7, 0}};
  CHECK(read("1,2,3;4,5,6", diags) == two);
  CHECK(read("7,0", diags) == one);
  CHECK(read("ids.json", diags, "[[1, 2, 3], [4, 5, 6]]") == two);
  CHECK(read("ids.json", diags, "- [1, 2, 3]\n- [4, 5, 6]\n") == two);
  CHECK(read("ids.json", diags, "[7, 0]") == one);
  CHECK(diags.all().empty());
}

TEST_CASE("input ids that are none are refused, with their place") {
  struct Row {
    std::string written;
    std::string file;
    std::string told;
  };
  for (const Row& row : std::vector<Row>{
           {"1,,3", "", "SP010 `` in --input-ids is no token"},
           {"1, 2", "", "SP010 ` 2` in --input-ids is no token"},
           {"1,2;3", "", "SP010 sequences of --input-ids differ in length"},
           {"ids.json", "[[1, 2], [3]]",
            "SP010 sequences of --input-ids differ in length"},
           {"ids.json", "[]", "SP010 --input-ids gives no tokens"},
           {"ids.json", "[[]]", "SP010 --input-ids gives no tokens"},
           {"ids.json", "[[1, x]]", "SP002 ids.json:1:6 a token is an integer"},
           {"ids.json", "[[1], 2]",
            "SP002 ids.json:1:7 input ids are a list of sequences"}}) {
    CAPTURE(row.written);
    CAPTURE(row.file);
    Diagnostics diags;
    CHECK(read(row.written, diags, row.file).empty());
    CHECK(testing::messages(diags) == row.told);
  }
  Diagnostics diags;
  CHECK(read("missing.json", diags).empty());
  CHECK(diags.count(Severity::Error) == 1);
}

}  // namespace
}  // namespace shardplan::cli
