// SPDX-License-Identifier: Apache-2.0
#include "model/forward/rope.h"

#include <string_view>

#include "base/text.h"
#include "syntax/document.h"

namespace shardplan {
namespace {

std::optional<double> optional_number(ConfigReader& config,
                                      std::string_view key) {
  if (!config.find(key)) return std::nullopt;
  return config.positive(key, 1);
}

// Kinds that keep every frequency as it is.
bool is_plain(std::string_view kind) {
  return kind.empty() || kind == "default";
}

// `rope_scaling`, or `rope_parameters` of transformers 5.
void read_scaling(std::string_view key, ConfigReader& section, Span where,
                  RopeConfig& rope, std::optional<double>& partial,
                  Diagnostics& diags) {
  const char* kind_key = section.find("rope_type") ? "rope_type" : "type";
  const std::string kind = section.text(kind_key);
  const std::string legacy = section.text("type");
  if (!legacy.empty() && legacy != kind) {
    diags
        .report(Code::UnsupportedConfig, Severity::Note, where,
                "`rope_type` is " + in_backticks(kind) + ", `type` is " +
                    in_backticks(legacy) + ": the former is used")
        .fact("as in transformers 5; version 4 uses `type` for most models");
  }
  if (const auto theta = optional_number(section, "rope_theta")) {
    rope.theta = *theta;
  }
  if (const auto part = optional_number(section, "partial_rotary_factor")) {
    partial = part;
  }
  if (is_plain(kind)) return;
  if (kind != "linear" && kind != "llama3") {
    section
        .refuse(kind_key,
                "rope scaling " + in_backticks(kind) + " is not known")
        .fact("known: default, linear, llama3");
    return;
  }
  rope.scaling = kind;
  const auto required = [&](std::string_view name, double absent) {
    if (!section.find(name)) {
      section.refuse(name, "`" + std::string(key) + "." + std::string(name) +
                               "` is missing");
    }
    return section.positive(name, absent);
  };
  rope.factor = required("factor", 1);
  if (kind == "linear") return;
  rope.low_freq_factor = required("low_freq_factor", 1);
  rope.high_freq_factor = required("high_freq_factor", 4);
  rope.original_positions = section.size("original_max_position_embeddings");
  if (rope.high_freq_factor <= rope.low_freq_factor) {
    section.refuse("high_freq_factor",
                   "`high_freq_factor` must exceed `low_freq_factor`");
  }
}

// Their classes do not look at `partial_rotary_factor` (transformers 5), or
// fail on it (version 4, and 5 where positions are scaled).
void note_partial(double partial, const RopeConfig& rope, ConfigReader& config,
                  Diagnostics& diags) {
  if (partial == 1) return;
  if (partial > 1) {
    config.refuse("partial_rotary_factor",
                  "`partial_rotary_factor` is more than 1");
    return;
  }
  const std::string type = in_backticks(config.text("model_type"));
  if (!rope.scaling.empty()) {
    config
        .refuse("partial_rotary_factor",
                "a " + type +
                    " with `partial_rotary_factor` and rope scaling does not "
                    "run in transformers")
        .help("remove `partial_rotary_factor`");
    return;
  }
  diags
      .report(Code::UnsupportedConfig, Severity::Note, config.map().span(),
              "`partial_rotary_factor` is not used: a " + type +
                  " rotates whole heads")
      .fact("as in transformers 5; earlier versions fail on it");
}

}  // namespace

RopeConfig read_rope(ConfigReader& config, Diagnostics& diags) {
  RopeConfig rope;
  auto partial = optional_number(config, "partial_rotary_factor");
  rope.theta = optional_number(config, "rope_theta");
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    const auto value = config.find(key);
    if (!value) continue;
    const auto scaling = config.find("rope_scaling");
    if (key == "rope_parameters" && scaling && scaling->size() > 0) {
      diags
          .report(Code::UnsupportedConfig, Severity::Note, value->span(),
                  "`rope_parameters` is not used: there is a `rope_scaling`")
          .fact("as in transformers 5, which takes all of it from there");
      continue;
    }
    // Families that mix kinds of attention give each kind its own.
    const auto is_own = [](const Node& map) {
      for (size_t i = 0; i < map.size(); ++i) {
        if (map.item(i).is_map()) return true;
      }
      return false;
    };
    if (value->is_map() && is_own(*value)) {
      config.refuse(key, "`" + std::string(key) +
                             "` differs between kinds of attention, which is "
                             "not known");
      continue;
    }
    if (auto section = config.section(key)) {
      read_scaling(key, *section, value->span(), rope, partial, diags);
    }
  }
  if (partial) note_partial(*partial, rope, config, diags);
  return rope;
}

GivenAttributes rope_attributes(const RopeConfig& rope, double theta) {
  GivenAttributes attributes = {{"dim", 1.0},
                                {"theta", rope.theta.value_or(theta)}};
  if (!rope.scaling.empty()) {
    attributes.emplace_back("scaling", rope.scaling);
    attributes.emplace_back("factor", rope.factor);
  }
  if (rope.scaling == "llama3") {
    attributes.emplace_back("low_freq_factor", rope.low_freq_factor);
    attributes.emplace_back("high_freq_factor", rope.high_freq_factor);
    attributes.emplace_back("original_positions",
                            number(rope.original_positions));
  }
  return attributes;
}

}  // namespace shardplan
