// SPDX-License-Identifier: Apache-2.0
#include "cost/links.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>

#include "base/checked.h"
#include "base/words.h"

namespace shardplan {
namespace {

// --- What is assumed where nothing was measured; fitted to no step.

// The share of a link's rate that long collectives reach: 0.68 to 0.75 in the
// tables of NVLink, 0.82 on TPU v5e (scaling book: 560 us by the rate, 680
// measured), 0.88 between nodes of H100.
constexpr double kAssumedLinkShare = 0.75;
constexpr double kAssumedLinkUpper = 2;  // times the estimate
// PCIe without peer-to-peer copies goes through host memory, over all devices
// at once: an L40S among eight reaches 0.06 of its rate.
constexpr double kSharedBusUpper = 12;
// One hop of a link whose latency is not stated, by how far it reaches. NCCL's
// own model has 0.6 to 3.4 us inside a node and 2.7 to 14 between nodes.
constexpr double kAssumedNearHop = 2e-6;
constexpr double kAssumedFarHop = 5e-6;
// One hop of a ring through all ranks of many nodes: how much AutoParallel's
// start-ups on 2 to 32 nodes of H100 grow per rank (2.4 to 3 us; their common
// part is PyTorch's). Its all-reduce, a tree, grows by 5 us per level.
constexpr double kAssumedRingHop = 2.8e-6;
// A collective's own start: NCCL's smallest take 5 to 15 us on every card.
constexpr double kAssumedCollectiveStart = 5e-6;
constexpr double kAssumedStartUpper = 3;

// --- How far what was measured may be from what a run sees.

// The tables measure one collective alone, warm; beside others it is slower.
constexpr double kTableUpper = 1.3;
constexpr double kNetworkUpper = 1.5;
// For more ranks than any table has.
constexpr double kMoreRanksUpper = 1.5;

double double_of(int64_t number) { return static_cast<double>(number); }

// Returns the share of a payload that one of `count` devices or domains lacks.
double others_share(int64_t count) {
  return double_of(count - 1) / double_of(count);
}

// Returns what must come into (or leave) one of `count` equal domains of the
// ranks, in payloads. Of a sum, only the sum of the others is needed, if a
// switch or another device may add.
double least_into(CollectiveKind kind, int64_t count, int64_t ranks) {
  switch (kind) {
    case CollectiveKind::AllGather:
    case CollectiveKind::ReduceScatter:
      return others_share(count);
    case CollectiveKind::AllReduce:
    case CollectiveKind::Broadcast:
    case CollectiveKind::Permute:  // one rank's next is outside the domain
      return count > 1 ? 1 : 0;
    case CollectiveKind::AllToAll:
      return others_share(count) * double_of(ranks) / double_of(count);
  }
  return 0;
}

// Returns what algorithms without help of a switch send out of one of `count`
// domains, in payloads.
double usual_into(CollectiveKind kind, int64_t count, int64_t ranks) {
  if (kind == CollectiveKind::AllReduce) return 2 * others_share(count);
  return least_into(kind, count, ranks);
}

double hop_seconds(const HardwareProfile& card, size_t tier) {
  const auto& stated = card.links[tier].latency_seconds;
  if (stated) return stated->value;
  return tier == 0 ? kAssumedNearHop : kAssumedFarHop;
}

// One tier's part of a collective.
struct TierTime {
  double lower = 0;
  double estimate = 0;
  double upper = 0;
  Basis basis = Basis::Assumed;
  std::optional<size_t> source;
};

// Returns the first table with exactly these ranks, else the first with both
// fewer and more ranks, else the first.
const MeasuredCollective* table_of(const HardwareProfile& card,
                                   CollectiveKind kind, double ranks) {
  const MeasuredCollective* found = nullptr;
  int best = 3;
  for (const MeasuredCollective& table : card.measured.collectives) {
    if (table.kind != collective_name(kind)) continue;
    const std::vector<double>& counts = table.seconds.axes[0];
    const int rank = std::ranges::binary_search(counts, ranks)         ? 0
                     : ranks > counts.front() && ranks < counts.back() ? 1
                                                                       : 2;
    if (rank >= best) continue;
    best = rank;
    found = &table;
  }
  return found;
}

// Returns the time of a payload among ranks of the first tier, by a table.
std::optional<TierTime> table_time(const HardwareProfile& card,
                                   CollectiveKind kind, int64_t ranks,
                                   double payload) {
  // Two ranks that gather exchange halves, and each sends what it would send in
  // a permute. A broadcast is an all-gather whose parts all come from one rank.
  if (kind == CollectiveKind::Permute) {
    return table_time(card, CollectiveKind::AllGather, 2, 2 * payload);
  }
  if (kind == CollectiveKind::Broadcast) kind = CollectiveKind::AllGather;
  const MeasuredCollective* table = table_of(card, kind, double_of(ranks));
  if (table == nullptr) return std::nullopt;
  const std::vector<double>& counts = table->seconds.axes[0];
  const std::vector<double>& sizes = table->seconds.axes[1];
  Basis basis = Basis::Measured;
  const std::array<double, 2> point = {double_of(ranks), payload};
  const auto value = at_point(table->seconds, point, basis);
  if (!value) return std::nullopt;
  double upper = kTableUpper;
  // Payloads longer than any that was measured have the same rate.
  double seconds = *value * std::max(1.0, payload / sizes.back());
  const double most = counts.back();
  if (point[0] > most) {
    const auto most_ranks = static_cast<int64_t>(most);
    seconds *= usual_into(kind, ranks, ranks) /
               usual_into(kind, most_ranks, most_ranks);
    // Each further rank adds a hop.
    seconds += (point[0] - most) * hop_seconds(card, 0);
    upper *= kMoreRanksUpper;
  }
  return TierTime{0, seconds, seconds * upper, basis, table->seconds.source};
}

double steps_of(CollectiveKind kind, int64_t count) {
  switch (kind) {
    case CollectiveKind::AllReduce:  // a tree, up and down
      return 2 * std::ceil(std::log2(double_of(count)));
    case CollectiveKind::Broadcast:
      return std::ceil(std::log2(double_of(count)));
    case CollectiveKind::Permute:
      return 1;
    default:
      return double_of(count - 1);
  }
}

// --- Torus

struct TorusBytes {
  double least = 0;  // seconds that no routing beats
  double usual = 0;
  double hops = 0;
};

// Returns the time over a torus. Every axis has two links per device, which
// share the tier's rate; a line's first device has one of them. The bytes of an
// all-to-all cross the middle of an axis. The devices of one chip exchange data
// at no published cost, so they count as one place with the links of both.
TorusBytes over_torus(const LinkTier& tier, CollectiveKind kind,
                      const std::vector<TorusAxis>& axes, int64_t ranks,
                      double payload) {
  const size_t all_axes =
      std::max(tier.extents ? tier.extents->value.size() : 1, axes.size());
  const double link =
      tier.bytes_per_second.value / (2 * static_cast<double>(all_axes));
  TorusBytes time;
  int64_t chips = 1;
  // Links that a collective uses at once: the fewest that any device has along
  // the axes.
  double used = 0;
  for (const TorusAxis& axis : axes) {
    if (axis.size <= 1) continue;
    chips *= axis.size;
    const double links = axis.closed ? 2 : 1;
    used += links;
    time.hops += axis.closed ? std::ceil(double_of(axis.size) / 2)
                             : double_of(axis.size - 1);
    // Only the links of this axis connect the devices with coordinate 0 to the
    // others.
    const double rows = double_of(ranks) / double_of(axis.size);
    time.least = std::max(time.least, least_into(kind, axis.size, ranks) *
                                          payload / (rows * links * link));
    if (kind == CollectiveKind::AllToAll) {
      // Half of the bytes of either half go to the other.
      const double half =
          std::floor(double_of(axis.size) / 2) / double_of(axis.size);
      const double across = double_of(ranks) * half * (1 - half) * payload /
                            (rows * links * link);
      time.least = std::max(time.least, across);
      time.usual = std::max(time.usual, across);
    }
  }
  if (used == 0) {  // within one chip
    time.usual =
        usual_into(kind, ranks, ranks) * payload / tier.bytes_per_second.value;
    time.hops = 1;
    return time;
  }
  // Bounds one chip alone, over all the links that it may have.
  const double off_axes = 2 * static_cast<double>(all_axes - axes.size());
  const double in_chip = double_of(ranks) / double_of(chips);
  time.least = std::max(time.least, least_into(kind, chips, ranks) * payload /
                                        (in_chip * (used + off_axes) * link));
  if (kind == CollectiveKind::Permute) {
    time.usual = payload / link;
    time.hops = 1;
  } else if (kind != CollectiveKind::AllToAll) {
    time.usual = usual_into(kind, ranks, ranks) * payload / (used * link);
    if (kind == CollectiveKind::AllReduce) time.hops *= 2;
  }
  return time;
}

TierTime torus_time(const HardwareProfile& card, size_t tier,
                    CollectiveKind kind, const RankPlaces& places,
                    double payload) {
  const LinkTier& link = card.links[tier];
  const TorusBytes bytes =
      over_torus(link, kind, places.torus_axes, places.per_tier[tier], payload);
  const double start = bytes.hops * hop_seconds(card, tier);
  const double estimate =
      std::max(bytes.least, bytes.usual / kAssumedLinkShare);
  return {places.even ? bytes.least : 0, estimate + start,
          estimate * kAssumedLinkUpper +
              (start + kAssumedCollectiveStart) * kAssumedStartUpper,
          Basis::Assumed, link.bytes_per_second.source};
}

// --- Switches, meshes, rings

// Returns the time in which this tier joins the domains of the tier below.
TierTime joined_time(const HardwareProfile& card, size_t tier,
                     CollectiveKind kind, const RankPlaces& places,
                     double payload) {
  const LinkTier& link = card.links[tier];
  const int64_t domains = places.per_tier[tier];
  int64_t below = 1;
  for (size_t i = 0; i < tier; ++i) below *= places.per_tier[i];
  const int64_t ranks = below * domains;
  // Every rank of a domain uses its own links, and the collectives beside it
  // use those of others.
  double rate = link.bytes_per_second.value * double_of(below);
  TierTime time;
  time.source = link.bytes_per_second.source;
  double least = least_into(kind, domains, ranks) * payload;
  if (kind == CollectiveKind::AllReduce && link.topology != Topology::Switch &&
      tier == 0) {
    least = 2 * others_share(domains) * payload;  // no switch adds
  }
  time.lower = places.even ? least / rate : 0;
  const double usual = usual_into(kind, domains, ranks) * payload;
  // One rank of a domain sends to another domain, over one link.
  if (kind == CollectiveKind::Permute) rate = link.bytes_per_second.value;
  const auto& network = card.measured.network_bytes_per_second;
  double share = kAssumedLinkShare;
  double upper = kAssumedLinkUpper;
  if (tier > 0 && network) {
    share =
        std::min(1.0, network->value / card.links[1].bytes_per_second.value);
    upper = kNetworkUpper;
    time.basis = Basis::Interpolated;
    time.source = network->source;
  } else if (tier == 0 && link.name == "pcie") {
    upper = kSharedBusUpper;
  }
  // In a full mesh, only the links between these ranks carry anything.
  if (tier == 0 && link.topology == Topology::FullMesh && link.devices &&
      link.devices->value > domains) {
    const double peers =
        kind == CollectiveKind::Permute ? 1 : double_of(domains - 1);
    rate *= peers / double_of(link.devices->value - 1);
  }
  double hops = steps_of(kind, domains) * hop_seconds(card, tier);
  const bool is_ring = kind == CollectiveKind::AllGather ||
                       kind == CollectiveKind::ReduceScatter ||
                       kind == CollectiveKind::AllToAll;
  if (is_ring && tier > 0 && !link.latency_seconds &&
      card.links[0].topology != Topology::Torus) {
    hops = double_of(ranks - 1) * kAssumedRingHop;
  }
  const double start = kAssumedCollectiveStart + hops;
  time.estimate = usual / (rate * share) + start;
  time.upper = usual / (rate * share) * upper + start * kAssumedStartUpper;
  return time;
}

// Returns the sizes of a slice along the axes of its torus: as near to a cube
// as the extents allow, large axes last.
std::vector<int64_t> torus_shape(int64_t devices,
                                 const std::vector<int64_t>& extents) {
  std::vector<int64_t> shape(extents.size(), 1);
  // Prime factors, largest first, each go to the shortest axis that has room.
  std::vector<int64_t> primes;
  for (int64_t rest = devices, prime = 2; rest > 1;) {
    if (prime * prime > rest) prime = rest;
    if (rest % prime == 0) {
      primes.push_back(prime);
      rest /= prime;
    } else {
      ++prime;
    }
  }
  std::ranges::reverse(primes);
  for (const int64_t prime : primes) {
    size_t best = shape.size();
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] * prime > extents[i]) continue;
      if (best == shape.size() || shape[i] < shape[best]) best = i;
    }
    if (best == shape.size()) best = shape.size() - 1;
    shape[best] *= prime;
  }
  return shape;
}

// The part of a mesh axis that is within one domain of a torus.
struct PlacedAxis {
  int64_t size = 1;
  std::vector<TorusAxis> along;
};

std::vector<bool> closed_axes(const LinkTier& tier,
                              const std::vector<int64_t>& shape) {
  std::vector<bool> closed(shape.size(), false);
  if (!tier.wrap_multiple) return closed;
  for (size_t i = 0; i < shape.size(); ++i) {
    closed[i] = shape[i] % tier.wrap_multiple->value == 0;
  }
  if (tier.wrap == Wrap::Together) {
    closed.assign(shape.size(), !contains(closed, false));
  }
  return closed;
}

// Real tori have two or three axes; a file may state any number.
constexpr size_t kMostTorusAxes = 8;

// How devices are divided into domains of one tier.
struct Domains {
  int64_t size = 1;  // devices per domain
  // If a domain is a slice, how many slices each axis of the mesh crosses. Null
  // if the devices of a domain have consecutive numbers.
  const Slices* slices = nullptr;
};

// Returns how many devices of a domain of several hosts are used. Batch systems
// use equally many in every domain, in whole hosts: 256 devices are 64 in each
// of four racks of 72. Returns the whole domain if that would be less than half
// of it, or is impossible.
int64_t used_of_domain(const HardwareProfile& card, int64_t size,
                       int64_t mesh_devices) {
  const int64_t host =
      card.devices_per_host ? card.devices_per_host->value : size;
  constexpr int64_t kMostHosts = 1024;  // a file may state any number
  if (size >= mesh_devices || host < 1 || host >= size ||
      size / host > kMostHosts || card.links[0].topology != Topology::Switch) {
    return size;
  }
  for (int64_t part = size - size % host; 2 * part > size; part -= host) {
    if (mesh_devices % part == 0) return part;
  }
  return size;
}

// Returns the devices per domain, at most those of the mesh. The last tier has
// no end if it states none. `slice` is the number of devices in a slice, 0
// without slices.
int64_t domain_size(const HardwareProfile& card, size_t tier, int64_t slice,
                    int64_t mesh_devices) {
  int64_t size = mesh_devices;
  if (const auto& devices = card.links[tier].devices) {
    size = std::min(size, devices->value);
    if (tier == 0) size = used_of_domain(card, size, mesh_devices);
  } else if (tier == 0 && card.devices_per_host) {
    size = std::min(size, card.devices_per_host->value);
  }
  if (slice > 0 && tier + 2 == card.links.size()) size = std::min(size, slice);
  return size;
}

// Returns how much of an axis is in one domain. Sets `even` to false if domains
// have different parts of it.
int64_t inside(const Domains& domains, int64_t mesh_devices, const Axis& axis,
               size_t index, int64_t stride, bool& even) {
  if (domains.size == mesh_devices) return axis.size;
  if (domains.slices != nullptr) {
    return axis.size / domains.slices->crossed[index];
  }
  if (domains.size <= stride) return 1;
  const bool is_whole = domains.size % stride == 0;
  const int64_t strides = domains.size / stride;
  const int64_t part = is_whole ? std::gcd(axis.size, strides) : 1;
  if (part != std::min(axis.size, strides)) even = false;
  return part;
}

// Places mesh axes as JAX's create_device_mesh does: from the last axis on,
// each gets whole axes of the torus whose product is its size. An axis for
// which there are none gets parts of axes, which are lines.
void lay_out(const LinkTier& tier, int64_t devices_per_chip,
             std::vector<PlacedAxis>& axes) {
  int64_t devices = 1;
  for (const PlacedAxis& axis : axes) devices *= axis.size;
  std::vector<int64_t> extents =
      tier.extents ? tier.extents->value : std::vector<int64_t>{devices};
  const int64_t chips = std::max<int64_t>(1, devices / devices_per_chip);
  std::vector<int64_t> shape = torus_shape(chips, extents);
  std::vector<bool> closed = closed_axes(tier, shape);
  const size_t in_chip = shape.size();
  if (devices_per_chip > 1 && devices % devices_per_chip == 0) {
    shape.push_back(devices_per_chip);
    closed.push_back(false);
  }
  std::vector<int64_t> left = shape;
  for (size_t at = axes.size(); at-- > 0;) {
    PlacedAxis& axis = axes[at];
    if (axis.size <= 1) continue;
    // The subset of whole, unused torus axes with this product, preferring many
    // axes, then those of a chip.
    size_t best = 0;
    const size_t searched = std::min(shape.size(), kMostTorusAxes);
    for (size_t set = 1; set < size_t{1} << searched; ++set) {
      int64_t product = 1;
      for (size_t i = 0; i < searched; ++i) {
        if ((set >> i & 1U) == 0) continue;
        product *= left[i] == shape[i] && shape[i] > 1 ? shape[i] : 0;
      }
      if (product == axis.size && std::popcount(set) >= std::popcount(best)) {
        best = set;
      }
    }
    int64_t rest = axis.size;
    for (size_t i = 0; i < shape.size() && rest > 1; ++i) {
      if (best != 0 && (best >> i & 1U) == 0) continue;
      const int64_t part = std::gcd(rest, left[i]);
      if (part <= 1) continue;
      if (i != in_chip) {
        axis.along.push_back({part, closed[i] && part == shape[i]});
      }
      left[i] /= part;
      rest /= part;
    }
    // The torus has no axis of this size, so the rest is a line.
    if (rest > 1) axis.along.push_back({rest, false});
  }
}

// Adds the lines and rings of the axes for which `is_taken` holds.
template <typename IsTaken>
void place_on_torus(const HardwareProfile& card, const Domains& domains,
                    int64_t mesh_devices, const std::vector<Axis>& all,
                    const IsTaken& is_taken, RankPlaces& places) {
  std::vector<PlacedAxis> axes(all.size());
  int64_t stride = mesh_devices;
  bool even = true;  // unused: other axes do not matter
  for (size_t at = 0; at < all.size(); ++at) {
    stride /= all[at].size;
    axes[at].size = inside(domains, mesh_devices, all[at], at, stride, even);
  }
  lay_out(card.links[0], card.devices_per_chip.value, axes);
  for (size_t at = 0; at < all.size(); ++at) {
    if (!is_taken(all[at])) continue;
    places.torus_axes.insert(places.torus_axes.end(), axes[at].along.begin(),
                             axes[at].along.end());
  }
}

}  // namespace

std::optional<RankPlaces> places_of(const HardwareProfile& card,
                                    const Mesh& mesh, const AxisNames& axes,
                                    const Slices* slices) {
  const auto view = mesh.view_of(axes);
  SHARDPLAN_CHECK(view.has_value());
  const std::vector<Axis>& all = mesh.axes_of(*view);
  const auto is_taken = [&](const Axis& axis) {
    return contains(axes, axis.name);
  };
  RankPlaces places;
  for (const Axis& axis : all) {
    if (is_taken(axis)) places.ranks *= axis.size;
  }
  const int64_t slice_count = slices != nullptr ? slices->count() : 1;
  const int64_t slice = slice_count > 1 ? mesh.devices() / slice_count : 0;
  const bool is_sliced =
      slice > 0 && view->empty() && slices->crossed.size() == all.size();
  places.per_tier.reserve(card.links.size());
  Domains domains;
  int64_t before = 1;  // ranks in one domain of the tier before
  for (size_t tier = 0; tier < card.links.size(); ++tier) {
    domains.size =
        std::max(domains.size, domain_size(card, tier, slice, mesh.devices()));
    domains.slices = is_sliced && domains.size == slice ? slices : nullptr;
    int64_t ranks = 1;
    int64_t stride = mesh.devices();
    for (size_t at = 0; at < all.size(); ++at) {
      stride /= all[at].size;
      if (!is_taken(all[at])) continue;
      ranks *=
          inside(domains, mesh.devices(), all[at], at, stride, places.even);
    }
    // A smaller domain may hold more of an axis than a larger one counts.
    if (ranks % before != 0) {
      places.even = false;
      ranks = before;
    }
    places.per_tier.push_back(ranks / before);
    before = ranks;
    if (tier == 0 && card.links[0].topology == Topology::Torus) {
      place_on_torus(card, domains, mesh.devices(), all, is_taken, places);
    }
  }
  if (before != places.ranks) return std::nullopt;
  return places;
}

std::string places_text(const HardwareProfile& card, const RankPlaces& places) {
  std::string text;
  int64_t below = 1;
  for (size_t i = 0; i < places.per_tier.size(); ++i) {
    const int64_t count = places.per_tier[i];
    if (count == 1) continue;
    const std::string& name = card.links[i].name;
    std::string part;
    if (text.empty() && below == 1 && count == places.ranks) {
      part = name + (i == 0 ? " inside " : " between ") +
             std::to_string(count) + " devices";
      if (i > 0 || places.torus_axes.empty()) return part;
      const auto shape_of = [](const TorusAxis& axis) {
        return std::to_string(axis.size) + (axis.closed ? " ring" : " line");
      };
      return part + " (" + joined_of(places.torus_axes, " x ", shape_of) + ")";
    }
    part = std::to_string(count) +
           (i == 0 ? " ranks each over " : " domains over ") + name;
    text = text.empty() ? part : part + ", " + text;
    below *= count;
  }
  return text.empty() ? "one device" : text;
}

std::optional<PricedTime> collective_time(const HardwareProfile& card,
                                          CollectiveKind kind,
                                          const RankPlaces& places,
                                          double payload) {
  if (places.ranks <= 1 || payload <= 0) return PricedTime{};
  if (places.per_tier.size() > card.links.size()) return std::nullopt;
  PricedTime sum;
  double slowest = 0;
  double all = 0;
  int64_t ranks = 1;
  for (size_t i = 0; i < places.per_tier.size(); ++i) {
    const int64_t count = places.per_tier[i];
    ranks *= count;
    if (count <= 1) continue;
    // A tier carries the part of an all-to-all that stays within its domains.
    const double part =
        kind == CollectiveKind::AllToAll
            ? payload * double_of(ranks) / double_of(places.ranks)
            : payload;
    const bool is_torus = i == 0 && card.links[0].topology == Topology::Torus;
    TierTime time = is_torus ? torus_time(card, i, kind, places, part)
                             : joined_time(card, i, kind, places, part);
    if (i == 0 && !is_torus) {
      if (auto table = table_time(card, kind, count, part)) {
        table->lower = time.lower;
        time = *table;
      }
    }
    sum.seconds.lower = std::max(sum.seconds.lower, time.lower);
    sum.seconds.upper += time.upper;
    sum.basis = std::max(sum.basis, time.basis);
    if (time.estimate > slowest) {
      slowest = time.estimate;
      sum.source = time.source;
    }
    all += time.estimate;
  }
  // Tiers work at the same time, one chunk behind each other.
  sum.seconds.estimate =
      std::max(sum.seconds.lower, slowest + (all - slowest) / 4);
  sum.seconds.upper = std::max(sum.seconds.upper, sum.seconds.estimate);
  return sum;
}

}  // namespace shardplan
