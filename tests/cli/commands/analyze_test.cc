// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/planning.h"

namespace shardplan::cli {
namespace {

using nlohmann::json;
using testing::report_of;

TEST_CASE("analyze's summary keeps the identities of the report") {
  for (const char* policy : {"drop", "prefix", "pad", "chunk", "error"}) {
    CAPTURE(policy);
    const json summary =
        report_of({"analyze", "--on-indivisible", policy}, "fsdp=2,tp=4")
            .at("summary");
    const auto number = [&](const char* key) {
      return summary.at(key).get<double>();
    };
    const double padding = number("padding_bytes") / number("total_bytes");
    CHECK(number("efficiency") ==
          doctest::Approx(number("balance_score") /
                          (number("replication_factor") + padding)));
    const json& memory = summary.at("memory_per_device");
    CHECK(memory.at("max") >= memory.at("mean"));
    CHECK(memory.at("mean") >= memory.at("min"));
  }
}

TEST_CASE("devices differ under chunk alone, and the measures say so") {
  const json even = report_of({"analyze"}, "fsdp=2,tp=4");
  CHECK(even.at("tables").at("devices").size() == 1);
  for (const json& row : even.at("tables").at("imbalance")) {
    CHECK(row.at("value") == 0);
  }
  const json uneven =
      report_of({"analyze", "--on-indivisible", "chunk"}, "fsdp=2,tp=4");
  CHECK(uneven.at("tables").at("devices").size() > 1);
  int64_t devices = 0;
  for (const json& row : uneven.at("tables").at("devices")) {
    devices += row.at("devices").get<int64_t>();
  }
  CHECK(devices == 8);
  for (const json& row : uneven.at("tables").at("imbalance")) {
    CHECK(row.at("value") > 0);
    CHECK(row.at("value") < 1);
  }
}

TEST_CASE("groups add up to the whole") {
  const json report = report_of({"analyze"}, "fsdp=2,tp=2");
  for (const char* table : {"dtypes", "modules", "rule_bytes"}) {
    CAPTURE(table);
    int64_t bytes = 0;
    int64_t per_device = 0;
    for (const json& row : report.at("tables").at(table)) {
      bytes += row.at("bytes").get<int64_t>();
      per_device += row.at("bytes_per_device").get<int64_t>();
    }
    CHECK(bytes == report.at("summary").at("total_bytes"));
    CHECK(per_device == report.at("summary").at("memory_per_device").at("max"));
  }
}

}  // namespace
}  // namespace shardplan::cli
