// SPDX-License-Identifier: Apache-2.0
#include "io/shardy_sharding.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace shardplan {
namespace {

Diagnostics::Builder unexpected(const MlirCursor& cursor, std::string what,
                                Diagnostics& diags) {
  return diags.error(Code::MalformedDocument, cursor.here(), std::move(what))
      .help("a sharding is `#sdy.sharding<@mesh, [{\"axis\"}, {}]>`");
}

class Parser {
 public:
  Parser(MlirCursor& cursor, Diagnostics& diags)
      : cursor_(cursor), diags_(diags) {}

  std::optional<ShardySharding> sharding() {
    const uint64_t begin = cursor_.at();
    if (!cursor_.accept("#sdy.sharding") || !cursor_.accept("<")) {
      return unexpected(cursor_, "this is no sharding of one tensor", diags_);
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
    unexpected(cursor_, "`" + std::string(text) + "` is missing here", diags_);
    return false;
  }

  bool mesh() {
    if (cursor_.accept("mesh")) {
      result_.inlined = parse_shardy_mesh(cursor_, diags_);
      return result_.inlined.has_value();
    }
    const auto name = cursor_.symbol();
    if (!name) {
      unexpected(cursor_, "a mesh is missing here", diags_);
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
      result_.open_beside_axes = true;
    result_.spec.dims.push_back(std::move(axes));
    result_.dim_where.push_back(where);
    return true;
  }

  bool axis(AxisNames& axes) {
    const uint64_t begin = cursor_.at();
    auto name = cursor_.string();
    if (!name) {
      unexpected(cursor_, "the name of an axis is missing here", diags_);
      return false;
    }
    if (cursor_.accept(":")) {
      cursor_.skip_to(",}>");
      const Span where = cursor_.span_from(begin);
      diags_
          .error(Code::Inexpressible, where,
                 "a part of axis `" + printable(*name) + "` is used")
          .fact("`" + printable(where.text()) + "` is a sub-axis")
          .help(
              "only whole axes can be named here: split the axis into two in "
              "the mesh");
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
          .fact("devices hold summands of it, not its values")
          .help("reduce it before it is passed");
      return false;
    }
    if (key != "replicated") {
      diags_.error(Code::MalformedDocument, where,
                   "`" + printable(key) + "` is no part of a sharding");
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

bool ShardyMesh::is_like(const ShardyMesh& other) const {
  return std::equal(axes.begin(), axes.end(), other.axes.begin(),
                    other.axes.end(),
                    [](const AxisRequest& a, const AxisRequest& b) {
                      return a.name == b.name && a.size == b.size;
                    });
}

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
    return refuse("this is no mesh");
  }
  while (!cursor.accept("]")) {
    const uint64_t entry = cursor.at();
    const auto name = cursor.string();
    const Span name_where = cursor.span_from(entry);
    if (!name || !cursor.accept("=")) return refuse("an axis is missing here");
    const uint64_t size_at = cursor.at();
    const auto size = cursor.integer();
    if (!size) return refuse("the size of an axis is missing here");
    mesh.axes.push_back({*name, *size, cursor.span_from(entry), name_where,
                         cursor.span_from(size_at)});
    if (cursor.accept("]")) break;
    if (!cursor.accept(",")) return refuse("`,` is missing here");
  }
  if (cursor.accept(",")) {
    mesh.has_device_ids = cursor.accept("device_ids");
    if (!mesh.has_device_ids || !cursor.skip_to(">")) {
      return refuse("`>` is missing here");
    }
  }
  if (!cursor.accept(">")) return refuse("`>` is missing here");
  mesh.where = cursor.span_from(begin);
  return mesh;
}

std::optional<ShardySharding> parse_shardy_sharding(MlirCursor& cursor,
                                                    Diagnostics& diags) {
  return Parser(cursor, diags).sharding();
}

}  // namespace shardplan
