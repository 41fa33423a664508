// SPDX-License-Identifier: Apache-2.0
#include "model/rotary/rotations.h"

namespace shardplan {

const RopeConfig* Rotations::config_of(const std::string& kind, bool has_part) {
  const auto [found, is_new] = known_.try_emplace({kind, has_part});
  if (is_new) {
    const int64_t errors = diags_.count(Severity::Error);
    RopeConfig read = read_rope(config_, kind, has_part, diags_);
    if (diags_.count(Severity::Error) == errors) {
      found->second = std::move(read);
    }
  }
  return found->second ? &*found->second : nullptr;
}

std::optional<AttributeValues> Rotations::attributes(const ValueScope& scope,
                                                     std::string& why) {
  const auto find = [&](std::string_view name) {
    std::string unused;
    return scope.find(name, unused);
  };
  const auto number_at = [&](std::string_view name) {
    const ConfigValue* const found = find(name);
    return found != nullptr && found->is_number() ? found->as_real() : 0;
  };
  const ConfigValue* const kind = find("rope_kind");
  const double part = number_at("rotary_part");
  const RopeConfig* const rope =
      config_of(kind != nullptr ? kind->text : "", part > 0);
  if (rope == nullptr) return std::nullopt;
  RopeUse use{.theta = number_at("rope_theta"),
              .length = pass_.length,
              .is_small = is_small_};
  if (!rope->theta && use.theta == 0) {
    why = "rotary positions need `rope_theta`";
    return std::nullopt;
  }
  const ConfigValue* const head_dim = find("head_dim");
  if (head_dim == nullptr || head_dim->kind != ConfigValue::Kind::Integer) {
    why = "rotary heads need `head_dim`";
    return std::nullopt;
  }
  use.head_dim = head_dim->integer;
  if (part > 0) use.part = part;
  const ConfigValue* const interleaved = find("interleaved");
  use.interleaved = interleaved != nullptr && interleaved->integer != 0;
  return rope_attributes(*rope, use, why);
}

}  // namespace shardplan
