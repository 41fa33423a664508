// SPDX-License-Identifier: Apache-2.0
// The head of an HTML report: its answer in a sentence that anybody
// understands, and its main numbers. Both come from the summary, whose keys
// have the same meaning in every command.
#pragma once

#include <string>
#include <vector>

#include "report/report.h"

namespace shardplan {

// A sentence of the answer: "Fits: a device needs at most 72.4 GiB and has 79.1
// GiB."
struct Answer {
  std::string text;
  Tone tone = Tone::Plain;
};
std::vector<Answer> answers_of(const Report& report);

// A number with its name: {"step time", "5.32 s", "2.27 s to 18.2 s"}.
struct KeyNumber {
  std::string name;
  std::string value;
  std::string range = {};  // "" unless the value is an estimate
};
std::vector<KeyNumber> key_numbers_of(const Report& report, const Style& style);

}  // namespace shardplan
