// SPDX-License-Identifier: Apache-2.0

#include "core/plan.h"

#include <array>
#include <cstddef>

#include <openssl/sha.h>

#include "base/checked.h"
#include "base/plain_json.h"
#include "base/text.h"

namespace shardplan {
namespace {

struct PolicyName {
  OnIndivisible policy;
  std::string_view name;
};
constexpr std::array<PolicyName, 6> kPolicies = {{
    {OnIndivisible::Drop, "drop"},
    {OnIndivisible::Prefix, "prefix"},
    {OnIndivisible::Pad, "pad"},
    {OnIndivisible::Chunk, "chunk"},
    {OnIndivisible::Rows, "rows"},
    {OnIndivisible::Error, "error"},
}};

void append_axes(std::string& out, const AxisNames& axes) {
  if (axes.empty()) {
    out += "null";
  } else if (axes.size() == 1) {
    append_json_string(out, axes.front());
  } else {
    out += '[';
    for (size_t i = 0; i < axes.size(); ++i) {
      if (i > 0) out += ',';
      append_json_string(out, axes[i]);
    }
    out += ']';
  }
}

// Appends `[2,3]`.
void append_shape(std::string& out, const Shape& shape) {
  out += '[';
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(shape[i]);
  }
  out += ']';
}

// Returns the text after a parameter's name: `,"bf16",[2,3],["tp",null]]`.
std::string canonical_tail(const Placement& placement) {
  std::string out = ",";
  append_json_string(out, dtype_name(placement.type.dtype));
  out += ',';
  append_shape(out, placement.type.shape);
  out += ",[";
  for (size_t i = 0; i < placement.spec.dims.size(); ++i) {
    if (i > 0) out += ',';
    append_axes(out, placement.spec.dims[i]);
  }
  return out + "]]";
}

// Returns `,"stored":[["w",[4,8]]]`, or nothing.
std::string canonical_stored(const Manifest& manifest, const Plan& plan) {
  std::string out;
  if (!plan.declarations.any()) return out;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const Shape shape = stored_shape(plan.of(i));
    if (shape == plan.of(i).type.shape) continue;
    out += out.empty() ? ",\"stored\":[[" : ",[";
    append_json_string(out, manifest.name(i));
    out += ',';
    append_shape(out, shape);
    out += ']';
  }
  return out.empty() ? out : out + "]";
}

// Appends `[["ep",8],["edp",4]]`.
void append_sizes(std::string& out, const std::vector<Axis>& axes) {
  out += '[';
  for (size_t i = 0; i < axes.size(); ++i) {
    out += i > 0 ? ",[" : "[";
    append_json_string(out, axes[i].name);
    out += "," + std::to_string(axes[i].size) + "]";
  }
  out += ']';
}

// Returns the views that are used,
// `,"views":[["experts",[["ep",8],["edp",4]]]]`, or nothing.
std::string canonical_views(const Plan& plan) {
  std::string out;
  for (const MeshView& view : plan.mesh.views()) {
    if (std::ranges::none_of(plan.placements, [&](const Placement& placement) {
          return placement.view == view.name;
        })) {
      continue;
    }
    out += out.empty() ? ",\"views\":[[" : ",[";
    append_json_string(out, view.name);
    out += ',';
    append_sizes(out, view.axes);
    out += ']';
  }
  return out.empty() ? out : out + "]";
}

// Returns `,"dealt":[["experts.0.w1","ep",8]]`, or nothing.
std::string canonical_dealt(const Manifest& manifest, const Plan& plan) {
  std::string out;
  if (std::ranges::none_of(plan.placements, [](const Placement& placement) {
        return placement.dealt.has_value();
      })) {
    return out;
  }
  for (size_t i = 0; i < manifest.size(); ++i) {
    const auto& dealt = plan.of(i).dealt;
    if (!dealt) continue;
    out += out.empty() ? ",\"dealt\":[[" : ",[";
    append_json_string(out, manifest.name(i));
    out += ',';
    append_json_string(out, dealt->axis);
    out += "," + std::to_string(dealt->experts) + "]";
  }
  return out.empty() ? out : out + "]";
}

const AxisNames& axes_of(const Placement& placement, size_t dim) {
  static const AxisNames kNone;
  return dim < placement.spec.dims.size() ? placement.spec.dims[dim] : kNone;
}

}  // namespace

std::string_view policy_name(OnIndivisible policy) {
  const PolicyName& entry = nth(kPolicies, policy);
  SHARDPLAN_CHECK(entry.policy == policy);
  return entry.name;
}

std::vector<std::string> on_indivisible_names() {
  std::vector<std::string> names;
  for (const PolicyName& entry : kPolicies) names.emplace_back(entry.name);
  return names;
}

std::optional<OnIndivisible> find_policy(std::string_view name) {
  for (const PolicyName& entry : kPolicies) {
    if (entry.name == name) return entry.policy;
  }
  return std::nullopt;
}

Shape stored_shape(const Placement& placement) {
  Shape shape = placement.type.shape;
  for (const StoredDim& stored : placement.stored_dims) {
    nth(shape, stored.dim) = stored.size;
  }
  return shape;
}

int64_t rank_of_expert(const ExpertPlacement& dealt, int64_t expert) {
  return static_cast<int64_t>(Int128{expert} * dealt.size / dealt.experts);
}

int64_t count_on_rank(const ExpertPlacement& dealt, int64_t count,
                      int64_t rank) {
  if (dealt.rank >= 0) return rank == dealt.rank ? count : 0;
  // Rank r has the experts from ceil(r E / size) up to the first of rank r + 1.
  const auto begin = [&](Int128 of) {
    return (of * dealt.experts + dealt.size - 1) / dealt.size;
  };
  return static_cast<int64_t>(count / dealt.experts *
                              (begin(Int128{rank} + 1) - begin(rank)));
}

int64_t max_on_rank(const ExpertPlacement& dealt, int64_t count) {
  if (dealt.rank >= 0) return count;
  return count / dealt.experts * ceil_div(dealt.experts, dealt.size);
}

Int128 part_on_rank(const std::optional<ExpertPlacement>& dealt,
                    Int128 amount) {
  if (!dealt) return amount;
  if (dealt->rank >= 0) return amount / dealt->size;
  return amount * ceil_div(dealt->experts, dealt->size) / dealt->experts;
}

bool is_even(const ExpertPlacement& dealt) {
  return dealt.rank < 0 && dealt.experts % dealt.size == 0;
}

void measure(Placement& placement, const Mesh& mesh, OnIndivisible policy) {
  placement.shards = shard_count(mesh, placement.spec);
  placement.replicas = mesh.devices() / placement.shards;
  if (placement.dealt) placement.replicas /= placement.dealt->size;
  placement.view.clear();
  if (!mesh.views().empty()) {
    AxisNames axes = axes_in(placement.spec);
    if (placement.dealt) axes.push_back(placement.dealt->axis);
    // After correction, all axes of a spec belong to one view.
    placement.view = mesh.view_of(axes).value_or("");
  }
  placement.local_shape = local_shape({&mesh, placement.spec, cut_of(policy)},
                                      stored_shape(placement));
  placement.bytes_per_device =
      TensorType{placement.type.dtype, placement.local_shape}.bytes();
}

std::string fingerprint(const Manifest& manifest, const Plan& plan) {
  std::vector<std::string> tails;  // including the quote that ends the name
  tails.reserve(plan.placements.size());
  for (const Placement& placement : plan.placements) {
    tails.push_back("\"" + canonical_tail(placement));
  }
  Sha256 hash;
  std::string out = "{\"mesh\":";
  append_sizes(out, plan.mesh.axes());
  out += ",\"parameters\":[";
  constexpr size_t kFlush = 1U << 16U;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const std::string_view name = manifest.name(i);
    const std::string& tail = tails[plan.placement_of[i]];
    out += i > 0 ? std::string_view(",[\"") : std::string_view("[\"");
    if (plain_json(name) == name.size()) {
      out += name;
    } else {
      out.pop_back();
      append_json_string(out, name);
      out.pop_back();
    }
    out += tail;
    if (out.size() > kFlush) {
      hash.update(out);
      out.clear();
    }
  }
  hash.update(out + "]");
  hash.update(canonical_stored(manifest, plan) + canonical_views(plan) +
              canonical_dealt(manifest, plan) + "}");
  return hash.hex();
}

bool is_held(const Placement& placement, const Mesh& mesh, int64_t rank,
             int64_t device) {
  if (!placement.dealt) return true;
  const ExpertPlacement& dealt = *placement.dealt;
  const int64_t stride = mesh.stride(*mesh.find(dealt.axis));
  return device / stride % dealt.size == (dealt.rank < 0 ? rank : dealt.rank);
}

HeldSlice held_slice(const Placement& placement, const Mesh& mesh,
                     OnIndivisible policy, int64_t device) {
  const Shape shape = stored_shape(placement);
  HeldSlice held{mesh.coordinates(device), {}, {}};
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const AxisNames& axes = axes_of(placement, dim);
    const Cut cut = cut_of(policy);
    const Slice slice =
        dimension_slice(mesh, axes, cut, shape[dim], held.coordinates);
    // Chunks are stored without padding; even shards all have the same stored
    // size.
    const int64_t stored = cut == Cut::Chunked ? slice.end - slice.begin
                                               : placement.local_shape[dim];
    held.slices.push_back(slice);
    held.padding.push_back(stored - (slice.end - slice.begin));
  }
  return held;
}

size_t DeviceSlices::number(const std::vector<size_t>& indices) const {
  SHARDPLAN_CHECK(indices.size() == slices.size());
  size_t number = 0;
  for (size_t dim = 0; dim < indices.size(); ++dim) {
    number = number * slices[dim].size() + indices[dim];
  }
  return number;
}

DeviceSlices device_slices(const Placement& placement, const Mesh& mesh,
                           OnIndivisible policy, int64_t of_rank) {
  SHARDPLAN_CHECK(mesh.devices() <= kMaxMappedDevices);
  const size_t rank = placement.type.shape.size();
  DeviceSlices map;
  for (size_t dim = 0; dim < rank; ++dim) {
    const auto shards = to_size(shard_count(mesh, axes_of(placement, dim)));
    map.slices.emplace_back(shards);
    map.padding.emplace_back(shards);
  }
  map.devices.resize(to_size(placement.shards));
  std::vector<size_t> indices(rank);
  for (int64_t device = 0; device < mesh.devices(); ++device) {
    if (!is_held(placement, mesh, of_rank, device)) continue;
    const HeldSlice held = held_slice(placement, mesh, policy, device);
    for (size_t dim = 0; dim < rank; ++dim) {
      indices[dim] =
          to_size(shard_index(mesh, axes_of(placement, dim), held.coordinates));
      map.slices[dim][indices[dim]] = held.slices[dim];
      map.padding[dim][indices[dim]] = held.padding[dim];
    }
    map.devices[map.number(indices)].push_back(device);
  }
  return map;
}

// OpenSSL 3 deprecates the plain functions in favour of EVP, which loads
// providers at run time. That takes milliseconds for a single hash.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
struct Sha256::Context {
  SHA256_CTX state{};
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  SHA256_Init(&context_->state);
}
Sha256::~Sha256() = default;

void Sha256::update(std::string_view text) {
  SHA256_Update(&context_->state, text.data(), text.size());
}

std::string Sha256::hex() {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256_Final(digest.data(), &context_->state);
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : digest) {
    text += kHex[byte >> 4U];
    text += kHex[byte & 15U];
  }
  return text;
}
#pragma GCC diagnostic pop

}  // namespace shardplan
