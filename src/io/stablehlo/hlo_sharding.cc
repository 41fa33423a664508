// SPDX-License-Identifier: Apache-2.0
#include "io/stablehlo/hlo_sharding.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "syntax/mlir.h"

namespace shardplan {
namespace {

// The most dimensions of one list; XLA's own limit on ranks is far lower.
constexpr size_t kMaxDims = 64;

std::string bracketed(std::span<const int64_t> numbers) {
  return "[" +
         joined_of(numbers, ",",
                   [](int64_t number) { return std::to_string(number); }) +
         "]";
}

// Returns 0, 1, .., count - 1.
std::vector<int64_t> first_numbers(size_t count) {
  std::vector<int64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), int64_t{0});
  return numbers;
}

class Parser {
 public:
  Parser(std::string_view text, Span where, Diagnostics& diags)
      : text_("sharding", std::string(text)),
        cursor_(text_),
        where_(where),
        diags_(diags) {}

  std::optional<HloSharding> sharding() {
    result_.where = where_;
    if (!cursor_.accept("{")) return malformed();
    if (cursor_.peek() == '{') {
      return inexpressible("one tensor has a tuple of shardings", "");
    }
    if (cursor_.accept("replicated")) {
      cursor_.skip_to("}");
      return cursor_.accept("}") ? std::optional(result_) : malformed();
    }
    if (cursor_.accept("maximal")) {
      return inexpressible("a tensor is on one device only",
                           "shard or replicate it over the mesh");
    }
    if (cursor_.accept("manual") || cursor_.accept("unknown") ||
        cursor_.accept("unreduced")) {
      return inexpressible("this sharding does not say where values are placed",
                           "");
    }
    if (!cursor_.accept("devices") || !cursor_.accept("=") ||
        !numbers('[', ']', result_.tiles)) {
      return malformed();
    }
    if (cursor_.accept("<=")) {
      if (!numbers('[', ']', result_.reshape)) return malformed();
      result_.order = first_numbers(result_.reshape.size());
      if (cursor_.accept("T") && !numbers('(', ')', result_.order)) {
        return malformed();
      }
    } else {
      const auto count = listed_devices();
      if (!count) return std::nullopt;
      result_.reshape = {*count};
      result_.order = {0};
    }
    return with_modifiers();
  }

 private:
  std::nullopt_t malformed() {
    return diags_
        .error(Code::MalformedDocument, where_, "this is not an XLA sharding")
        .fact("parsing stopped at byte " + std::to_string(cursor_.at()))
        .help("shardings look like `{devices=[4,2]<=[8]}` or `{replicated}`");
  }
  std::nullopt_t inexpressible(std::string message, std::string help) {
    auto report = diags_.error(Code::Inexpressible, where_, std::move(message));
    report.fact("no PartitionSpec can express " + in_backticks(text_.text()));
    if (!help.empty()) report.help(std::move(help));
    return std::nullopt;
  }

  bool numbers(char open, char close, std::vector<int64_t>& out) {
    out.clear();
    if (!cursor_.accept(std::string_view(&open, 1))) return false;
    while (!cursor_.accept(std::string_view(&close, 1))) {
      const auto number = cursor_.integer();
      if (!number || out.size() == kMaxDims) return false;
      out.push_back(*number);
      if (cursor_.peek() != close && !cursor_.accept(",")) return false;
    }
    return true;
  }

  // Reads the form before iota tile assignments, which is equivalent if in
  // order. Returns the number of devices.
  std::optional<int64_t> listed_devices() {
    int64_t next = 0;
    bool in_order = true;
    do {
      const auto device = cursor_.integer();
      if (!device) return malformed();
      in_order = in_order && *device == next;
      ++next;
    } while (cursor_.accept(","));
    if (in_order) return next;
    return inexpressible(
        "devices are listed in a custom order",
        "lower the program with a version that writes `<=[..]`");
  }

  std::optional<HloSharding> with_modifiers() {
    while (!cursor_.accept("}")) {
      if (cursor_.accept("last_tile_dim_replicate")) {
        result_.last_is_replicas = true;
      } else if (cursor_.accept("last_tile_dims")) {
        const bool is_replicated = cursor_.accept("=") && cursor_.accept("{") &&
                                   cursor_.accept("replicated") &&
                                   cursor_.accept("}");
        if (!is_replicated) {
          return inexpressible("`last_tile_dims` must be `{replicated}`", "");
        }
        result_.last_is_replicas = true;
      } else if (!cursor_.accept("metadata") || !cursor_.accept("=") ||
                 !cursor_.accept("{") || !cursor_.skip_to("}") ||
                 !cursor_.accept("}")) {
        return malformed();
      }
    }
    return consistent();
  }

  static std::optional<int64_t> product(std::span<const int64_t> numbers) {
    int64_t all = 1;
    for (const int64_t number : numbers) {
      const auto next = checked_mul(all, number);
      if (number < 1 || !next || *next > kMaxDevices) return std::nullopt;
      all = *next;
    }
    return all;
  }

  std::optional<HloSharding> consistent() {
    const auto tiles = product(result_.tiles);
    const auto devices = product(result_.reshape);
    std::vector<int64_t> sorted = result_.order;
    std::ranges::sort(sorted);
    const bool permutation = sorted == first_numbers(result_.reshape.size());
    const bool has_replicas =
        !result_.last_is_replicas || !result_.tiles.empty();
    if (tiles && tiles == devices && permutation && has_replicas) {
      return result_;
    }
    return diags_
        .error(Code::MalformedDocument, where_,
               "a sharding's tiles and devices disagree")
        .fact("tiles " + bracketed(result_.tiles) + ", devices " +
              bracketed(result_.reshape) + ", order " +
              bracketed(result_.order));
  }

  SourceFile text_;
  MlirCursor cursor_;
  Span where_;
  Diagnostics& diags_;
  HloSharding result_;
};

// Returns where a sharding splits the row-major order of devices, as products
// of the sizes of leading axes; nullopt if a tile is not a whole part of a
// dimension.
std::optional<std::set<int64_t>> cuts_of(const HloSharding& sharding) {
  std::set<int64_t> cuts = {1};
  std::vector<int64_t> before;  // parts before each dimension
  int64_t all = 1;
  for (const int64_t size : sharding.reshape) {
    before.push_back(all);
    all *= size;
    cuts.insert(all);
  }
  size_t at = 0;     // index in `order`
  int64_t used = 1;  // parts of that dimension
  for (int64_t tile : sharding.tiles) {
    while (tile > 1) {
      const int64_t dim = sharding.order[at];
      const int64_t left = nth(sharding.reshape, dim) / used;
      if (left <= tile) {
        if (tile % left != 0) return std::nullopt;
        tile /= left;
        ++at;
        used = 1;
      } else {
        if (left % tile != 0) return std::nullopt;
        used *= tile;
        tile = 1;
        cuts.insert(nth(before, dim) * used);
      }
    }
  }
  return cuts;
}

}  // namespace

int64_t HloSharding::devices() const {
  return std::accumulate(tiles.begin(), tiles.end(), int64_t{1},
                         std::multiplies<>());
}

std::optional<HloSharding> parse_hlo_sharding(std::string_view text, Span where,
                                              Diagnostics& diags) {
  return Parser(text, where, diags).sharding();
}

std::optional<std::vector<int64_t>> axis_sizes_of(
    std::span<const HloSharding> shardings, Diagnostics& diags) {
  std::set<int64_t> cuts;
  const HloSharding* first = nullptr;
  for (const HloSharding& sharding : shardings) {
    if (sharding.tiles.empty()) continue;
    if (first != nullptr && first->devices() != sharding.devices()) {
      return diags
          .error(Code::Inexpressible, sharding.where,
                 "shardings cover different numbers of devices")
          .label(first->where, "covers " + std::to_string(first->devices()))
          .fact("this one covers " + std::to_string(sharding.devices()));
    }
    if (first == nullptr) first = &sharding;
    const auto found = cuts_of(sharding);
    if (!found) {
      return diags
          .error(Code::Inexpressible, sharding.where,
                 "tiles do not correspond to mesh axes")
          .fact("tiles " + bracketed(sharding.tiles) + " of devices " +
                bracketed(sharding.reshape) + " in the order " +
                bracketed(sharding.order));
    }
    cuts.insert(found->begin(), found->end());
    // Checked one by one, so that the error shows the sharding at fault.
    int64_t last = 1;
    for (const int64_t cut : cuts) {
      if (cut % last != 0) {
        return diags
            .error(Code::Inexpressible, sharding.where,
                   "no mesh fits both this sharding and the earlier ones")
            .fact("it needs leading axes of " + std::to_string(last) +
                  " and of " + std::to_string(cut) + " devices; " +
                  std::to_string(cut) + " mod " + std::to_string(last) + " = " +
                  std::to_string(cut % last));
      }
      last = cut;
    }
  }
  std::vector<int64_t> sizes;
  int64_t last = 1;
  for (const int64_t cut : cuts) {
    if (cut > 1) sizes.push_back(cut / last);
    last = cut;
  }
  return sizes;
}

PartitionSpec spec_of(const HloSharding& sharding, std::span<const Axis> mesh) {
  // The axes in the order in which the tiles use them.
  std::vector<std::vector<const Axis*>> of_dim;
  size_t next = 0;
  for (const int64_t size : sharding.reshape) {
    of_dim.emplace_back();
    for (int64_t parts = 1; parts < size; parts *= mesh[next++].size) {
      SHARDPLAN_CHECK(next < mesh.size());
      of_dim.back().push_back(&mesh[next]);
    }
  }
  std::vector<const Axis*> axes;
  for (const int64_t dim : sharding.order) {
    const auto& more = nth(of_dim, dim);
    axes.insert(axes.end(), more.begin(), more.end());
  }
  PartitionSpec spec;
  if (sharding.tiles.empty()) return spec;
  size_t at = 0;
  for (size_t dim = 0; dim < sharding.rank(); ++dim) {
    AxisNames& names = spec.dims.emplace_back();
    for (int64_t parts = 1; parts < sharding.tiles[dim];
         parts *= axes[at++]->size) {
      SHARDPLAN_CHECK(at < axes.size());
      names.push_back(axes[at]->name);
    }
  }
  return spec;
}

}  // namespace shardplan
