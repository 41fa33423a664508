// SPDX-License-Identifier: Apache-2.0
#include "base/json_text.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <rapidcheck.h>

namespace shardplan {
namespace {

std::string spelled(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

TEST_CASE("a string escapes only what JSON demands") {
  CHECK(spelled("") == R"("")");
  CHECK(spelled("a/b \u00e9") == "\"a/b \u00e9\"");
  CHECK(spelled("\"\\") == R"("\"\\")");
  CHECK(spelled("\b\t\n\f\r") == R"("\b\t\n\f\r")");
  CHECK(spelled("\v\x1b") == R"("\u000b\u001b")");
  CHECK(spelled(std::string_view("\0", 1)) == R"("\u0000")");
}

TEST_CASE("another parser reads back what was written") {
  CHECK(rc::check("parse(spelled(x)) = x", [] {
    std::string text;
    for (const auto code : *rc::gen::arbitrary<std::vector<uint8_t>>()) {
      text += static_cast<char>(code & 0x7fU);
    }
    RC_ASSERT(nlohmann::json::parse(spelled(text)).get<std::string>() == text);
  }));
}

}  // namespace
}  // namespace shardplan
