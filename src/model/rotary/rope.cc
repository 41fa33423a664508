// SPDX-License-Identifier: Apache-2.0
#include "model/rotary/rope.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>

#include "base/text.h"
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
class ScalingReader {
 public:
  ScalingReader(std::string path, ConfigReader& config, ConfigReader& section,
                RopeConfig& rope, Diagnostics& diags)
      : path_(std::move(path)),
        config_(config),
        section_(section),
        rope_(rope),
        diags_(diags) {}

  // `is_of_kind`: the section is for one kind of layers, and other kinds have
  // their own.
  void read(Span where, bool is_of_kind) {
    const char* kind_key = section_.find("rope_type") ? "rope_type" : "type";
    const std::string kind = section_.text(kind_key);
    const std::string legacy = section_.text("type");
    if (!legacy.empty() && legacy != kind) {
      diags_
          .report(Code::UnsupportedConfig, Severity::Note, where,
                  "`rope_type` is " + in_backticks(kind) + ", `type` is " +
                      in_backticks(legacy) + ": the former is used")
          .fact("as in transformers 5; version 4 uses `type` for most models");
    }
    if (const auto theta = optional_number(section_, "rope_theta")) {
      rope_.theta = *theta;
    }
    if (const auto part = optional_number(section_, "partial_rotary_factor")) {
      rope_.part = part;
    }
    if (is_plain(kind)) return;
    if (std::find(kScalings.begin(), kScalings.end(), kind) ==
        kScalings.end()) {
      section_
          .refuse(kind_key,
                  "rope scaling " + in_backticks(kind) + " is not supported")
          .fact(
              "supported: default, linear, llama3, dynamic, yarn, longrope, "
              "proportional");
      return;
    }
    rope_.scaling = kind;
    if (kind == "linear") rope_.factor = required("factor");
    if (kind == "llama3") read_llama3();
    if (kind == "dynamic") read_dynamic();
    if (kind == "yarn") read_yarn(is_of_kind);
    if (kind == "longrope") read_longrope();
    if (kind == "proportional") {
      rope_.factor = optional_number(section_, "factor").value_or(1);
    }
  }

 private:
  void missing(std::string_view name) {
    section_.refuse(name,
                    "`" + path_ + "." + std::string(name) + "` is missing");
  }

  double required(std::string_view name) {
    if (!section_.find(name)) missing(name);
    return section_.positive(name, 1);
  }

  void read_llama3() {
    rope_.factor = required("factor");
    rope_.low_freq_factor = required("low_freq_factor");
    if (!section_.find("high_freq_factor")) missing("high_freq_factor");
    rope_.high_freq_factor = section_.positive("high_freq_factor", 4);
    rope_.original_positions =
        section_.size("original_max_position_embeddings");
    if (rope_.high_freq_factor <= rope_.low_freq_factor) {
      section_.refuse("high_freq_factor",
                      "`high_freq_factor` must exceed `low_freq_factor`");
    }
  }

  // Returns `max_position_embeddings` of the config, else the default of its
  // configuration class.
  int64_t positions() {
    constexpr std::string_view kKey = "max_position_embeddings";
    if (!config_.find(kKey)) {
      const auto config_class = find_config_class(config_.text("model_type"));
      const auto usual = config_class != nullptr
                             ? config_class->default_of(kKey, false)
                             : std::nullopt;
      if (usual && usual->integer()) return *usual->integer();
    }
    return config_.size(kKey);
  }

  void read_dynamic() {
    rope_.factor = required("factor");
    rope_.original_positions = positions();
  }

  // Returns the number of positions in training. The config's own key takes
  // precedence over that of the scaling, since Phi-3 has it in the config.
  int64_t trained_positions() {
    constexpr std::string_view kKey = "original_max_position_embeddings";
    if (!config_.find(kKey)) {
      return section_.find(kKey) ? section_.size(kKey) : positions();
    }
    const int64_t own = config_.size(kKey);
    if (section_.find(kKey) && section_.size(kKey) != own) {
      config_.refuse(kKey, config_.shown(kKey) + " and `" + path_ + "." +
                               std::string(kKey) +
                               "` differ: which one applies depends on the "
                               "version of transformers");
    }
    return own;
  }

  // Returns the ratio of the model's positions to those in training.
  double stretch() {
    return static_cast<double>(positions()) /
           static_cast<double>(std::max<int64_t>(1, rope_.original_positions));
  }

  double number_or_default(std::string_view key, double usual) {
    const auto value = section_.find(key);
    const bool is_zero = value && value->number() == 0.0;
    return is_zero ? usual : section_.positive(key, usual);
  }

  // Reads the scaling of Peng et al., "YaRN", 2023.
  void read_yarn(bool is_of_kind) {
    rope_.original_positions = trained_positions();
    if (!section_.at("factor")) missing("factor");
    rope_.factor =
        section_.find("factor") ? section_.positive("factor", 1) : stretch();
    rope_.beta_fast = number_or_default("beta_fast", rope_.beta_fast);
    rope_.beta_slow = number_or_default("beta_slow", rope_.beta_slow);
    rope_.truncate = section_.flag("truncate", true);
    if (is_of_kind && !rope_.truncate) {
      section_.refuse(
          "truncate",
          "`" + path_ +
              ".truncate` is false, which transformers ignores there");
    }
    const auto scale = [&](double by) {
      return rope_.factor <= 1 ? 1 : 0.1 * by * std::log(rope_.factor) + 1;
    };
    const double numerator = number_or_default("mscale", 0);
    const double denominator = number_or_default("mscale_all_dim", 0);
    rope_.amplitude = numerator != 0 && denominator != 0
                          ? scale(numerator) / scale(denominator)
                          : scale(1);
    if (section_.find("attention_factor")) {
      rope_.amplitude = section_.positive("attention_factor", 1);
    }
  }

  std::vector<double> factors(std::string_view key) {
    std::vector<double> all;
    const auto list = section_.find(key);
    if (!list) {
      missing(key);
      return all;
    }
    if (!list->is_list()) {
      section_.ill_typed(key, *list, "a list");
      return all;
    }
    for (size_t i = 0; i < list->size(); ++i) {
      const auto number = list->item(i).number();
      if (!number || !(*number > 0)) {
        section_.refuse(key, "`" + path_ + "." + std::string(key) +
                                 "` must hold only numbers above 0");
        return all;
      }
      all.push_back(*number);
    }
    return all;
  }

  // Reads the scaling of Ding et al., "LongRoPE", 2024.
  void read_longrope() {
    rope_.original_positions = trained_positions();
    rope_.short_factor = factors("short_factor");
    rope_.long_factor = factors("long_factor");
    rope_.short_amplitude = optional_number(section_, "short_mscale");
    const bool has_long = section_.find("long_mscale").has_value();
    if (rope_.short_amplitude.has_value() != has_long) {
      missing(has_long ? "short_mscale" : "long_mscale");
    }
    const double ratio = stretch();
    rope_.factor =
        section_.find("factor") ? section_.positive("factor", 1) : ratio;
    if (rope_.factor > 1) {
      rope_.amplitude = std::sqrt(
          1 + std::log(rope_.factor) /
                  std::log(static_cast<double>(rope_.original_positions)));
    }
    if (section_.find("attention_factor")) {
      rope_.amplitude = section_.positive("attention_factor", 1);
    } else if (section_.find("factor") && rope_.factor != ratio) {
      diags_
          .report(Code::UnsupportedConfig, Severity::Note,
                  section_.map().span(),
                  "`" + path_ +
                      ".factor` is used, though it is not the ratio of "
                      "`max_position_embeddings` to the training length")
          .fact("as in transformers 5; version 4 uses the ratio");
    }
  }

  std::string path_;
  ConfigReader& config_;
  ConfigReader& section_;
  RopeConfig& rope_;
  Diagnostics& diags_;
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

// Computes the frequencies of the rotated pairs, in radians per position.
class Frequencies {
 public:
  Frequencies(const RopeConfig& rope, double theta, int64_t rotated)
      : rope_(rope), theta_(theta), rotated_(rotated) {}

  std::vector<double> plain(double theta) const {
    std::vector<double> all;
    for (int64_t i = 0; i < rotated_; i += 2) {
      all.push_back(std::pow(theta, -number(i) / number(rotated_)));
    }
    return all;
  }

  // Returns the base of the frequencies, which grows with sequences that are
  // longer than the config's positions.
  double dynamic_theta(int64_t length) const {
    const double dims = number(rotated_);
    const double longer = number(std::max(length, rope_.original_positions)) /
                          number(rope_.original_positions);
    return theta_ * std::pow(rope_.factor * longer - (rope_.factor - 1),
                             dims / (dims - 2));
  }

  // Leaves high frequencies unchanged, divides low ones by `factor`, and
  // interpolates linearly in between.
  std::vector<double> yarn() const {
    double low = dim_of(rope_.beta_fast);
    double high = dim_of(rope_.beta_slow);
    if (rope_.truncate) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, number(rotated_ - 1));
    if (low == high) high += 0.001;
    std::vector<double> all = plain(theta_);
    for (size_t i = 0; i < all.size(); ++i) {
      const double ramp =
          std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
      all[i] = all[i] / rope_.factor * ramp + all[i] * (1 - ramp);
    }
    return all;
  }

 private:
  // Returns the index of the pair that makes `turns` full turns within the
  // original positions; it need not be an integer.
  double dim_of(double turns) const {
    return number(rotated_) *
           std::log(number(rope_.original_positions) /
                    (turns * 2 * std::numbers::pi)) /
           (2 * std::log(theta_));
  }

  const RopeConfig& rope_;
  double theta_;
  int64_t rotated_;
};

// Divides every frequency by its factor. Returns false if there are too few
// factors, or too many and not `may_be_more`.
bool divide(std::vector<double>& frequencies, const std::vector<double>& by,
            bool may_be_more) {
  if (by.size() < frequencies.size() ||
      (by.size() > frequencies.size() && !may_be_more)) {
    return false;
  }
  for (size_t i = 0; i < frequencies.size(); ++i) frequencies[i] /= by[i];
  return true;
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
    const auto is_own = [](const Node& map) {
      for (size_t i = 0; i < map.size(); ++i) {
        if (map.item(i).is_map()) return true;
      }
      return false;
    };
    if (value->is_map() && is_own(*value) && !kind.empty()) {
      auto kinds = config.section(key);
      auto own = kinds ? kinds->section(kind) : std::nullopt;
      if (own) {
        const std::string path = std::string(key) + "." + std::string(kind);
        ScalingReader(path, config, *own, rope, diags)
            .read(value->span(), true);
      }
      continue;
    }
    if (value->is_map() && is_own(*value)) {
      config.refuse(
          key,
          "`" + std::string(key) +
              "` differs between kinds of attention, which is not supported");
      continue;
    }
    if (!has_own_keys) continue;
    if (auto section = config.section(key)) {
      ScalingReader(std::string(key), config, *section, rope, diags)
          .read(value->span(), false);
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
  const double theta = rope.theta.value_or(use.theta);
  AttributeValues attributes = {{"dim", 1.0}};
  if (use.interleaved) attributes.emplace_back("interleaved", 1.0);
  const bool is_long = use.length > rope.original_positions;
  if (is_long && rope.short_amplitude) {
    why =
        "more tokens than in training: versions of transformers differ in "
        "whether `long_factor` goes with `long_mscale`";
    return std::nullopt;
  }
  const double amplitude = rope.short_amplitude.value_or(rope.amplitude);
  if (amplitude != 1) attributes.emplace_back("amplitude", amplitude);
  const double part = rope.part.value_or(use.part);
  const bool is_proportional = rope.scaling == "proportional";
  const auto rotated = is_proportional
                           ? use.head_dim
                           : static_cast<int64_t>(number(use.head_dim) * part);
  if (rotated < 1) {
    why =
        "no part of a head of " + std::to_string(use.head_dim) + " is rotated";
    return std::nullopt;
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
  const Frequencies of(rope, theta, rotated);
  std::vector<double> all = of.plain(theta);
  if (rope.scaling == "linear") {
    for (double& each : all) each /= rope.factor;
  } else if (rope.scaling == "dynamic") {
    // With 2 rotated values, transformers divides by 0 in the exponent.
    const double longer = rotated > 2 ? of.dynamic_theta(use.length) : NAN;
    all = std::isfinite(longer) ? of.plain(longer) : std::vector<double>{NAN};
  } else if (rope.scaling == "yarn" && !is_odd) {
    all = of.yarn();
  } else if (rope.scaling == "longrope") {
    const auto& by = is_long ? rope.long_factor : rope.short_factor;
    if (!divide(all, by, use.is_small)) {
      why = "longrope has " + std::to_string(by.size()) + " factors for " +
            std::to_string(all.size()) + " frequencies";
      return std::nullopt;
    }
  } else if (is_proportional) {
    // Pairs that are not rotated get frequency 0, so that the halves of a pair
    // stay half a head apart.
    const auto turned =
        static_cast<size_t>(std::floor(number(use.head_dim) * part / 2));
    for (size_t i = 0; i < all.size(); ++i) {
      all[i] = i < turned ? all[i] / rope.factor : 0;
    }
  } else if (!rope.scaling.empty()) {
    why = "rope scaling " + in_backticks(rope.scaling) + " of " +
          std::to_string(rotated) + " values, an odd number";
    return std::nullopt;
  }
  for (const double each : all) {
    if (std::isfinite(each)) continue;
    why = "rope scaling " + in_backticks(rope.scaling) + " of " +
          std::to_string(rotated) + " values has no finite frequencies";
    return std::nullopt;
  }
  if (number(2 * static_cast<int64_t>(all.size())) > number(use.head_dim)) {
    why = "a head of " + std::to_string(use.head_dim) +
          " cannot be rotated: pairs need an even size";
    return std::nullopt;
  }
  attributes.emplace_back("frequencies", std::move(all));
  return attributes;
}

}  // namespace shardplan
