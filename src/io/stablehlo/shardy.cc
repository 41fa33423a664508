// SPDX-License-Identifier: Apache-2.0
#include "io/stablehlo/shardy.h"

#include <string_view>
#include <utility>

#include "base/text.h"

namespace shardplan {
namespace {

class ShardyParser {
 public:
  ShardyParser(MlirCursor& cursor, Diagnostics& diags)
      : cursor_(cursor), diags_(diags) {}

  std::optional<ShardySharding> sharding() {
    const uint64_t begin = cursor_.at();
    if (!cursor_.accept("#sdy.sharding") || !cursor_.accept("<")) {
      fail("this is not a sharding of one tensor");
      return std::nullopt;
    }
    if (!mesh() || !expect(",") || !list("[", "]", [&] { return dim(); })) {
      return std::nullopt;
    }
    while (cursor_.accept(",")) {
      if (!axes_of_no_dimension()) return std::nullopt;
    }
    if (!expect(">")) return std::nullopt;
    result_.where = cursor_.span_from(begin);
    return std::move(result_);
  }

 private:
  bool fail(std::string what) {
    diags_.error(Code::MalformedDocument, cursor_.here(), std::move(what))
        .help("a sharding is `#sdy.sharding<@mesh, [{\"axis\"}, {}]>`");
    return false;
  }

  bool expect(std::string_view text) {
    return cursor_.accept(text) ||
           fail("expected `" + std::string(text) + "` here");
  }

  bool mesh() {
    if (cursor_.accept("mesh")) {
      result_.inlined = parse_shardy_mesh(cursor_, diags_);
      return result_.inlined.has_value();
    }
    const auto name = cursor_.symbol();
    if (!name) return fail("expected a mesh here");
    result_.mesh_name = *name;
    return true;
  }

  // Reads a list with commas; `item` reads one item.
  template <typename Item>
  bool list(std::string_view open, std::string_view close, Item item) {
    if (!expect(open)) return false;
    while (!cursor_.accept(close)) {
      if (!item()) return false;
      if (cursor_.accept(close)) break;
      if (!expect(",")) return false;
    }
    return true;
  }

  bool dim() {
    const uint64_t begin = cursor_.at();
    AxisNames axes;
    bool open = false;
    if (!list("{", "}", [&] {
          const bool is_open = cursor_.accept("?");
          open = open || is_open;
          return is_open || axis(axes);
        })) {
      return false;
    }
    const Span where = cursor_.span_from(begin);
    if (cursor_.peek() == 'p') {
      result_.priorities = true;
      cursor_.word();
    }
    result_.open_after_axes =
        result_.open_after_axes || (open && !axes.empty());
    if (open && axes.empty()) axes.emplace_back(kUnconstrained);
    result_.spec.dims.push_back(std::move(axes));
    result_.dim_where.push_back(where);
    return true;
  }

  bool axis(AxisNames& axes) {
    const uint64_t begin = cursor_.at();
    auto name = cursor_.string();
    if (!name) return fail("expected an axis name here");
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
    return expect("=") &&
           list("{", "}", [&] { return axis(result_.replicated); });
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
