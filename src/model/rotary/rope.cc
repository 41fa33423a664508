// SPDX-License-Identifier: Apache-2.0
#include "model/rotary/rope.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>

#include "base/text.h"
#include "base/words.h"
#include "model/config_classes.h"
#include "syntax/document.h"

namespace shardplan {
namespace {

constexpr std::array<std::string_view, 6> kScalings = {
    "linear", "llama3", "dynamic", "yarn", "longrope", "proportional"};

std::optional<double> optional_number(ConfigReader& config,
                                      std::string_view key) {
  if (!config.find(key)) return std::nullopt;
  return config.positive(key, 1);
}

// Returns whether a kind of scaling leaves all frequencies unchanged.
bool is_plain(std::string_view kind) {
  return kind.empty() || kind == "default";
}

// Reads `rope_scaling`, or `rope_parameters` of transformers 5, into a
// RopeConfig.
struct ScalingReader {
  std::string path;  // of the section in the config
  ConfigReader& config;
  ConfigReader& section;
  RopeConfig& rope;
  Diagnostics& diags;

  // `is_of_kind`: the section is for one kind of layers, and other kinds have
  // their own.
  void read(Span where, bool is_of_kind) {
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
      rope.part = part;
    }
    if (is_plain(kind)) return;
    if (!contains(kScalings, kind)) {
      section
          .refuse(kind_key,
                  "rope scaling " + in_backticks(kind) + " is not supported")
          .fact(
              "supported: default, linear, llama3, dynamic, yarn, longrope, "
              "proportional");
      return;
    }
    rope.scaling = kind;
    if (kind == "linear") rope.factor = required("factor");
    if (kind == "llama3") read_llama3();
    if (kind == "dynamic") read_dynamic();
    if (kind == "yarn") read_yarn(is_of_kind);
    if (kind == "longrope") read_longrope();
    if (kind == "proportional") {
      rope.factor = optional_number(section, "factor").value_or(1);
    }
  }

  std::string shown(std::string_view key) const {
    return "`" + path + "." + std::string(key) + "`";
  }

  void missing(std::string_view key) {
    section.refuse(key, shown(key) + " is missing");
  }

  double required(std::string_view key) {
    if (!section.find(key)) missing(key);
    return section.positive(key, 1);
  }

  void read_llama3() {
    rope.factor = required("factor");
    rope.low_freq_factor = required("low_freq_factor");
    if (!section.find("high_freq_factor")) missing("high_freq_factor");
    rope.high_freq_factor = section.positive("high_freq_factor", 4);
    rope.original_positions = section.size("original_max_position_embeddings");
    if (rope.high_freq_factor <= rope.low_freq_factor) {
      section.refuse("high_freq_factor",
                     "`high_freq_factor` must exceed `low_freq_factor`");
    }
  }

  // Returns `max_position_embeddings` of the config, else the default of its
  // configuration class.
  int64_t positions() {
    constexpr std::string_view kKey = "max_position_embeddings";
    if (!config.find(kKey)) {
      const auto config_class = find_config_class(config.text("model_type"));
      const auto usual = config_class != nullptr
                             ? config_class->default_of(kKey, false)
                             : std::nullopt;
      if (usual && usual->integer()) return *usual->integer();
    }
    return config.size(kKey);
  }

  void read_dynamic() {
    rope.factor = required("factor");
    rope.original_positions = positions();
  }

  // Returns the number of positions in training. The config's own key takes
  // precedence over that of the scaling, since Phi-3 has it in the config.
  int64_t trained_positions() {
    constexpr std::string_view kKey = "original_max_position_embeddings";
    if (!config.find(kKey)) {
      return section.find(kKey) ? section.size(kKey) : positions();
    }
    const int64_t own = config.size(kKey);
    if (section.find(kKey) && section.size(kKey) != own) {
      config.refuse(kKey, config.shown(kKey) + " and " + shown(kKey) +
                              " differ: which one applies depends on the "
                              "version of transformers");
    }
    return own;
  }

  // Returns the ratio of the model's positions to those in training.
  double stretch() {
    return static_cast<double>(positions()) /
           static_cast<double>(std::max<int64_t>(1, rope.original_positions));
  }

  double number_or_default(std::string_view key, double usual) {
    const auto value = section.find(key);
    const bool is_zero = value && value->number() == 0.0;
    return is_zero ? usual : section.positive(key, usual);
  }

  // Reads the scaling of Peng et al., "YaRN", 2023.
  void read_yarn(bool is_of_kind) {
    rope.original_positions = trained_positions();
    if (!section.at("factor")) missing("factor");
    rope.factor =
        section.find("factor") ? section.positive("factor", 1) : stretch();
    rope.beta_fast = number_or_default("beta_fast", rope.beta_fast);
    rope.beta_slow = number_or_default("beta_slow", rope.beta_slow);
    rope.truncate = section.flag("truncate", true);
    if (is_of_kind && !rope.truncate) {
      section.refuse(
          "truncate",
          shown("truncate") + " is false, which transformers ignores there");
    }
    const auto scale = [&](double by) {
      return rope.factor <= 1 ? 1 : 0.1 * by * std::log(rope.factor) + 1;
    };
    const double numerator = number_or_default("mscale", 0);
    const double denominator = number_or_default("mscale_all_dim", 0);
    rope.amplitude = numerator != 0 && denominator != 0
                         ? scale(numerator) / scale(denominator)
                         : scale(1);
    rope.amplitude =
        optional_number(section, "attention_factor").value_or(rope.amplitude);
  }

  std::vector<double> factors(std::string_view key) {
    std::vector<double> all;
    const auto list = section.find(key);
    if (!list) {
      missing(key);
      return all;
    }
    if (!list->is_list()) {
      section.ill_typed(key, *list, "a list");
      return all;
    }
    for (size_t i = 0; i < list->size(); ++i) {
      const auto number = list->item(i).number();
      if (!number || !(*number > 0)) {
        section.refuse(key, shown(key) + " must hold only numbers above 0");
        return all;
      }
      all.push_back(*number);
    }
    return all;
  }

  // Reads the scaling of Ding et al., "LongRoPE", 2024.
  void read_longrope() {
    rope.original_positions = trained_positions();
    rope.short_factor = factors("short_factor");
    rope.long_factor = factors("long_factor");
    rope.short_amplitude = optional_number(section, "short_mscale");
    const bool has_long = section.find("long_mscale").has_value();
    if (rope.short_amplitude.has_value() != has_long) {
      missing(has_long ? "short_mscale" : "long_mscale");
    }
    const double ratio = stretch();
    rope.factor = optional_number(section, "factor").value_or(ratio);
    if (rope.factor > 1) {
      rope.amplitude = std::sqrt(
          1 + std::log(rope.factor) /
                  std::log(static_cast<double>(rope.original_positions)));
    }
    if (section.find("attention_factor")) {
      rope.amplitude = section.positive("attention_factor", 1);
    } else if (section.find("factor") && rope.factor != ratio) {
      diags
          .report(Code::UnsupportedConfig, Severity::Note, section.map().span(),
                  shown("factor") +
                      " is used, though it is not the ratio of "
                      "`max_position_embeddings` to the training length")
          .fact("as in transformers 5; version 4 uses the ratio");
    }
  }
};

// Reports a `partial_rotary_factor` in the config of a model that rotates whole
// heads. transformers 5 ignores it there; version 4, and version 5 if positions
// are scaled, fail on it.
void note_partial(double partial, const RopeConfig& rope, ConfigReader& config,
                  Diagnostics& diags) {
  if (partial == 1) return;
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

// Returns the frequencies of the pairs of `rotated` values, in radians per
// position.
std::vector<double> frequencies(double theta, int64_t rotated) {
  std::vector<double> all;
  for (int64_t i = 0; i < rotated; i += 2) {
    all.push_back(std::pow(theta, -number(i) / number(rotated)));
  }
  return all;
}

// Returns the base of the frequencies, which grows with sequences that are
// longer than the config's positions.
double dynamic_theta(const RopeConfig& rope, double theta, int64_t rotated,
                     int64_t length) {
  const double dims = number(rotated);
  const double longer = number(std::max(length, rope.original_positions)) /
                        number(rope.original_positions);
  return theta *
         std::pow(rope.factor * longer - (rope.factor - 1), dims / (dims - 2));
}

// Leaves high frequencies unchanged, divides low ones by `factor`, and
// interpolates linearly in between.
std::vector<double> yarn_frequencies(const RopeConfig& rope, double theta,
                                     int64_t rotated) {
  // Returns the index of the pair that makes `turns` full turns within the
  // original positions; it need not be an integer.
  const auto dim_of = [&](double turns) {
    return number(rotated) *
           std::log(number(rope.original_positions) /
                    (turns * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
  };
  double low = dim_of(rope.beta_fast);
  double high = dim_of(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, number(rotated - 1));
  if (low == high) high += 0.001;
  std::vector<double> all = frequencies(theta, rotated);
  for (size_t i = 0; i < all.size(); ++i) {
    const double ramp =
        std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    all[i] = all[i] / rope.factor * ramp + all[i] * (1 - ramp);
  }
  return all;
}

}  // namespace

RopeConfig read_rope(ConfigReader& config, std::string_view kind, bool has_part,
                     Diagnostics& diags) {
  RopeConfig rope;
  const bool has_own_keys = kind.empty() || kind == "full_attention";
  const auto own_part = has_part
                            ? std::nullopt
                            : optional_number(config, "partial_rotary_factor");
  if (has_own_keys) rope.theta = optional_number(config, "rope_theta");
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    const auto value = config.find(key);
    if (!value) continue;
    const auto scaling = config.find("rope_scaling");
    if (key == "rope_parameters" && scaling && scaling->size() > 0) {
      diags
          .report(
              Code::UnsupportedConfig, Severity::Note, value->span(),
              "`rope_parameters` is not used, since there is a `rope_scaling`")
          .fact("as in transformers 5, which then reads only `rope_scaling`");
      continue;
    }
    // Families that mix kinds of attention have a nested map for each kind.
    bool has_kinds = false;
    for (size_t i = 0; value->is_map() && i < value->size(); ++i) {
      has_kinds |= value->item(i).is_map();
    }
    if (has_kinds && kind.empty()) {
      config.refuse(
          key,
          "`" + std::string(key) +
              "` differs between kinds of attention, which is not supported");
    } else if (has_kinds) {
      auto kinds = config.section(key);
      if (auto own = kinds ? kinds->section(kind) : std::nullopt) {
        const std::string path = std::string(key) + "." + std::string(kind);
        ScalingReader{path, config, *own, rope, diags}.read(value->span(),
                                                            true);
      }
    } else if (has_own_keys) {
      if (auto section = config.section(key)) {
        ScalingReader{std::string(key), config, *section, rope, diags}.read(
            value->span(), false);
      }
    }
  }
  const auto part = rope.part ? rope.part : own_part;
  if (part && *part > 1) {
    config.refuse("partial_rotary_factor",
                  "`partial_rotary_factor` is more than 1");
  } else if (part && !has_part && rope.scaling != "proportional") {
    note_partial(*part, rope, config, diags);
    rope.part.reset();
  }
  return rope;
}

std::optional<AttributeValues> rope_attributes(const RopeConfig& rope,
                                               const RopeUse& use,
                                               std::string& why) {
  const auto fail = [&](std::string reason) {
    why = std::move(reason);
    return std::nullopt;
  };
  const double theta = rope.theta.value_or(use.theta);
  AttributeValues attributes = {{"dim", 1.0}};
  if (use.interleaved) attributes.emplace_back("interleaved", 1.0);
  const bool is_long = use.length > rope.original_positions;
  if (is_long && rope.short_amplitude) {
    return fail(
        "more tokens than in training: versions of transformers differ in "
        "whether `long_factor` goes with `long_mscale`");
  }
  const double amplitude = rope.short_amplitude.value_or(rope.amplitude);
  if (amplitude != 1) attributes.emplace_back("amplitude", amplitude);
  const double part = rope.part.value_or(use.part);
  const bool is_proportional = rope.scaling == "proportional";
  const auto rotated = is_proportional
                           ? use.head_dim
                           : static_cast<int64_t>(number(use.head_dim) * part);
  if (rotated < 1) {
    return fail("no part of a head of " + std::to_string(use.head_dim) +
                " is rotated");
  }
  const bool is_odd = rotated % 2 != 0;
  const bool has_other =
      is_proportional || rope.scaling == "yarn" || rope.scaling == "longrope";
  if (!is_odd && !has_other && rope.scaling != "dynamic") {
    attributes.emplace_back("theta", theta);
    if (rotated != use.head_dim) {
      attributes.emplace_back("rotary_dim", number(rotated));
    }
    if (rope.scaling.empty()) return attributes;
    attributes.emplace_back("scaling", rope.scaling);
    attributes.emplace_back("factor", rope.factor);
    if (rope.scaling == "linear") return attributes;
    attributes.emplace_back("low_freq_factor", rope.low_freq_factor);
    attributes.emplace_back("high_freq_factor", rope.high_freq_factor);
    attributes.emplace_back("original_positions",
                            number(rope.original_positions));
    return attributes;
  }
  std::vector<double> all = frequencies(theta, rotated);
  if (rope.scaling == "linear") {
    for (double& each : all) each /= rope.factor;
  } else if (rope.scaling == "dynamic") {
    // With 2 rotated values, transformers divides by 0 in the exponent.
    const double longer =
        rotated > 2 ? dynamic_theta(rope, theta, rotated, use.length) : NAN;
    all = std::isfinite(longer) ? frequencies(longer, rotated)
                                : std::vector<double>{NAN};
  } else if (rope.scaling == "yarn" && !is_odd) {
    all = yarn_frequencies(rope, theta, rotated);
  } else if (rope.scaling == "longrope") {
    const auto& by = is_long ? rope.long_factor : rope.short_factor;
    if (by.size() < all.size() || (by.size() > all.size() && !use.is_small)) {
      return fail("longrope has " + std::to_string(by.size()) +
                  " factors for " + std::to_string(all.size()) +
                  " frequencies");
    }
    for (size_t i = 0; i < all.size(); ++i) all[i] /= by[i];
  } else if (is_proportional) {
    // Pairs that are not rotated get frequency 0, so that the halves of a pair
    // stay half a head apart.
    const double turned = std::floor(number(use.head_dim) * part / 2);
    for (size_t i = 0; i < all.size(); ++i) {
      all[i] = static_cast<double>(i) < turned ? all[i] / rope.factor : 0;
    }
  } else if (!rope.scaling.empty()) {
    return fail("rope scaling " + in_backticks(rope.scaling) + " of " +
                std::to_string(rotated) + " values, an odd number");
  }
  if (!std::ranges::all_of(all,
                           [](double each) { return std::isfinite(each); })) {
    return fail("rope scaling " + in_backticks(rope.scaling) + " of " +
                std::to_string(rotated) + " values has no finite frequencies");
  }
  if (2 * std::ssize(all) > use.head_dim) {
    return fail("a head of " + std::to_string(use.head_dim) +
                " cannot be rotated: pairs need an even size");
  }
  attributes.emplace_back("frequencies", std::move(all));
  return attributes;
}

}  // namespace shardplan
