// SPDX-License-Identifier: Apache-2.0
#include "io/stablehlo/sharding.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/checked.h"
#include "base/text.h"

namespace shardplan {
namespace {

// The most dimensions of one list; XLA's own limit on ranks is far lower.
constexpr size_t kMaxDims = 64;

std::string list(std::span<const int64_t> numbers) {
  std::string text = "[";
  for (size_t i = 0; i < numbers.size(); ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(numbers[i]);
  }
  return text + "]";
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
      result_.order.resize(result_.reshape.size());
      std::iota(result_.order.begin(), result_.order.end(), int64_t{0});
      if (cursor_.accept("T") && !numbers('(', ')', result_.order)) {
        return malformed();
      }
    } else if (!listed_devices()) {
      return std::nullopt;
    }
    if (!modifiers()) return std::nullopt;
    return consistent();
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
  // order.
  bool listed_devices() {
    int64_t next = 0;
    bool in_order = true;
    do {
      const auto device = cursor_.integer();
      if (!device) {
        malformed();
        return false;
      }
      in_order = in_order && *device == next;
      ++next;
    } while (cursor_.accept(","));
    if (!in_order) {
      inexpressible("devices are listed in a custom order",
                    "lower the program with a version that writes `<=[..]`");
      return false;
    }
    result_.reshape = {next};
    result_.order = {0};
    return true;
  }

  bool modifiers() {
    while (!cursor_.accept("}")) {
      if (cursor_.accept("last_tile_dim_replicate")) {
        result_.last_is_replicas = true;
      } else if (cursor_.accept("last_tile_dims")) {
        const bool is_replicated = cursor_.accept("=") && cursor_.accept("{") &&
                                   cursor_.accept("replicated") &&
                                   cursor_.accept("}");
        if (!is_replicated) {
          inexpressible("`last_tile_dims` must be `{replicated}`", "");
          return false;
        }
        result_.last_is_replicas = true;
      } else if (cursor_.accept("metadata")) {
        if (!cursor_.accept("=") || !cursor_.accept("{") ||
            !cursor_.skip_to("}") || !cursor_.accept("}")) {
          malformed();
          return false;
        }
      } else {
        malformed();
        return false;
      }
    }
    return true;
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
    bool permutation = sorted.size() == result_.reshape.size();
    for (size_t i = 0; i < sorted.size() && permutation; ++i) {
      permutation = sorted[i] == static_cast<int64_t>(i);
    }
    const bool has_replicas =
        !result_.last_is_replicas || !result_.tiles.empty();
    if (tiles && tiles == devices && permutation && has_replicas) {
      return result_;
    }
    return diags_
        .error(Code::MalformedDocument, where_,
               "a sharding's tiles and devices disagree")
        .fact("tiles " + list(result_.tiles) + ", devices " +
              list(result_.reshape) + ", order " + list(result_.order));
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
      const auto dim = static_cast<size_t>(sharding.order[at]);
      const int64_t left = sharding.reshape[dim] / used;
      if (left <= tile) {
        if (tile % left != 0) return std::nullopt;
        tile /= left;
        ++at;
        used = 1;
      } else {
        if (left % tile != 0) return std::nullopt;
        used *= tile;
        tile = 1;
        cuts.insert(before[dim] * used);
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
          .fact("tiles " + list(sharding.tiles) + " of devices " +
                list(sharding.reshape) + " in the order " +
                list(sharding.order));
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
    const auto& more = of_dim[static_cast<size_t>(dim)];
    axes.insert(axes.end(), more.begin(), more.end());
  }
  PartitionSpec spec;
  if (sharding.tiles.empty()) return spec;
  size_t at = 0;
  for (size_t dim = 0; dim < sharding.rank(); ++dim) {
    AxisNames names;
    for (int64_t parts = 1; parts < sharding.tiles[dim];
         parts *= axes[at++]->size) {
      SHARDPLAN_CHECK(at < axes.size());
      names.push_back(axes[at]->name);
    }
    spec.dims.push_back(std::move(names));
  }
  return spec;
}

namespace {

Diagnostics::Builder unexpected(const MlirCursor& cursor, std::string what,
                                Diagnostics& diags) {
  return diags.error(Code::MalformedDocument, cursor.here(), std::move(what))
      .help("a sharding is `#sdy.sharding<@mesh, [{\"axis\"}, {}]>`");
}

class ShardyParser {
 public:
  ShardyParser(MlirCursor& cursor, Diagnostics& diags)
      : cursor_(cursor), diags_(diags) {}

  std::optional<ShardySharding> sharding() {
    const uint64_t begin = cursor_.at();
    if (!cursor_.accept("#sdy.sharding") || !cursor_.accept("<")) {
      return unexpected(cursor_, "this is not a sharding of one tensor",
                        diags_);
    }
    if (!mesh() || !expect(",") || !dims()) return std::nullopt;
    while (cursor_.accept(",")) {
      if (!axes_of_no_dimension()) return std::nullopt;
    }
    if (!expect(">")) return std::nullopt;
    result_.where = cursor_.span_from(begin);
    return std::move(result_);
  }

 private:
  bool expect(std::string_view text) {
    if (cursor_.accept(text)) return true;
    unexpected(cursor_, "expected `" + std::string(text) + "` here", diags_);
    return false;
  }

  bool mesh() {
    if (cursor_.accept("mesh")) {
      result_.inlined = parse_shardy_mesh(cursor_, diags_);
      return result_.inlined.has_value();
    }
    const auto name = cursor_.symbol();
    if (!name) {
      unexpected(cursor_, "expected a mesh here", diags_);
      return false;
    }
    result_.mesh_name = *name;
    return true;
  }

  bool dims() {
    if (!expect("[")) return false;
    while (!cursor_.accept("]")) {
      if (!dim()) return false;
      if (cursor_.accept("]")) break;
      if (!expect(",")) return false;
    }
    return true;
  }

  bool dim() {
    const uint64_t begin = cursor_.at();
    AxisNames axes;
    bool open = false;
    if (!expect("{")) return false;
    while (!cursor_.accept("}")) {
      if (cursor_.accept("?")) {
        open = true;
      } else if (!axis(axes)) {
        return false;
      }
      if (cursor_.accept("}")) break;
      if (!expect(",")) return false;
    }
    const Span where = cursor_.span_from(begin);
    if (cursor_.peek() == 'p') {
      result_.priorities = true;
      cursor_.word();
    }
    if (open && axes.empty())
      axes.emplace_back(kUnconstrained);
    else if (open)
      result_.open_after_axes = true;
    result_.spec.dims.push_back(std::move(axes));
    result_.dim_where.push_back(where);
    return true;
  }

  bool axis(AxisNames& axes) {
    const uint64_t begin = cursor_.at();
    auto name = cursor_.string();
    if (!name) {
      unexpected(cursor_, "expected an axis name here", diags_);
      return false;
    }
    if (cursor_.accept(":")) {
      cursor_.skip_to(",}>");
      const Span where = cursor_.span_from(begin);
      diags_
          .error(Code::Inexpressible, where,
                 "only part of axis " + in_backticks(*name) + " is used")
          .fact(in_backticks(where.text()) + " is a sub-axis")
          .help("split it into two mesh axes: only whole axes are supported");
      return false;
    }
    axes.push_back(*std::move(name));
    return true;
  }

  bool axes_of_no_dimension() {
    const Span where = cursor_.here();
    const std::string_view key = cursor_.word();
    if (key == "unreduced") {
      diags_.error(Code::Inexpressible, where, "an argument is unreduced")
          .fact("devices hold partial sums, not its values")
          .help("reduce it before passing it");
      return false;
    }
    if (key != "replicated") {
      diags_.error(Code::MalformedDocument, where,
                   in_backticks(key) + " is not part of a sharding");
      return false;
    }
    if (!expect("=") || !expect("{")) return false;
    while (!cursor_.accept("}")) {
      if (!axis(result_.replicated)) return false;
      if (cursor_.accept("}")) break;
      if (!expect(",")) return false;
    }
    return true;
  }

  MlirCursor& cursor_;
  Diagnostics& diags_;
  ShardySharding result_;
};

}  // namespace

std::optional<ShardyMesh> parse_shardy_mesh(MlirCursor& cursor,
                                            Diagnostics& diags) {
  const auto refuse = [&](std::string message) {
    return diags
        .error(Code::MalformedDocument, cursor.here(), std::move(message))
        .help("a mesh is `<[\"a\"=2, \"b\"=4]>`");
  };
  ShardyMesh mesh;
  const uint64_t begin = cursor.at();
  if (!cursor.accept("<") || !cursor.accept("[")) {
    return refuse("this is not a mesh");
  }
  while (!cursor.accept("]")) {
    const uint64_t entry = cursor.at();
    const auto name = cursor.string();
    const Span name_where = cursor.span_from(entry);
    if (!name || !cursor.accept("=")) return refuse("expected an axis here");
    const uint64_t size_at = cursor.at();
    const auto size = cursor.integer();
    if (!size) return refuse("expected an axis size here");
    mesh.axes.push_back({*name, *size, cursor.span_from(entry), name_where,
                         cursor.span_from(size_at)});
    if (cursor.accept("]")) break;
    if (!cursor.accept(",")) return refuse("expected `,` here");
  }
  if (cursor.accept(",")) {
    mesh.has_device_ids = cursor.accept("device_ids");
    if (!mesh.has_device_ids || !cursor.skip_to(">")) {
      return refuse("expected `>` here");
    }
  }
  if (!cursor.accept(">")) return refuse("expected `>` here");
  mesh.where = cursor.span_from(begin);
  return mesh;
}

std::optional<ShardySharding> parse_shardy_sharding(MlirCursor& cursor,
                                                    Diagnostics& diags) {
  return ShardyParser(cursor, diags).sharding();
}

}  // namespace shardplan
