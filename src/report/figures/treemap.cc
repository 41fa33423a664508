// SPDX-License-Identifier: Apache-2.0
// Treemap: rectangles as large as what they stand for, inside those of their
// modules. Placed by the squarified algorithm of Bruls, Huizing and van Wijk
// (2000), which keeps rectangles near to squares.
#include <algorithm>
#include <map>
#include <memory>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "report/figures/figures.h"
#include "report/figures/svg.h"
#include "report/style.h"

namespace shardplan {
namespace {

constexpr size_t kMostLeaves = 300;
constexpr int kDepth = 3;         // of modules in text
constexpr double kHeader = 17;    // of a module's name
constexpr size_t kTextRows = 16;  // modules in text
constexpr int kLongestModule = 44;

// A module with its parts, or a leaf.
struct Node {
  std::string name;
  double bytes = 0;
  const Treemap::Leaf* leaf = nullptr;
  std::vector<std::unique_ptr<Node>> parts = {};
  std::map<std::string, Node*, std::less<>> by_name = {};
};

// Returns the module of this name in `node`, which is added if there is none.
Node& module_in(Node& node, std::string_view name) {
  const auto found = node.by_name.find(name);
  if (found != node.by_name.end()) return *found->second;
  Node& part = *node.parts.emplace_back(std::make_unique<Node>());
  part.name = name;
  node.by_name.emplace(name, &part);
  return part;
}

// Joins modules that have only one part with that part, and sorts the parts,
// the largest first.
void tidy(Node& node) {
  while (node.parts.size() == 1 && node.leaf == nullptr) {
    const std::unique_ptr<Node> only = std::move(node.parts.front());
    const bool joins = !node.name.empty() && !only->name.empty();
    node.name += (joins ? "." : "") + only->name;
    node.leaf = only->leaf;
    node.parts = std::move(only->parts);
  }
  for (const auto& part : node.parts) tidy(*part);
  std::ranges::stable_sort(node.parts, std::greater(),
                           [](const auto& part) { return part->bytes; });
}

// Returns the modules of the largest leaves, and how many leaves are left out.
struct Tree {
  Node root;
  size_t left_out = 0;
  double left_out_bytes = 0;
};
Tree tree_of(const Treemap& map) {
  std::vector<const Treemap::Leaf*> leaves;
  for (const Treemap::Leaf& leaf : map.leaves) {
    if (leaf.bytes > 0) leaves.push_back(&leaf);
  }
  Tree tree;
  if (leaves.size() > kMostLeaves) {
    std::ranges::stable_sort(leaves, std::greater(), &Treemap::Leaf::bytes);
    tree.left_out = leaves.size() - kMostLeaves;
    for (size_t i = kMostLeaves; i < leaves.size(); ++i) {
      tree.left_out_bytes += static_cast<double>(leaves[i]->bytes);
    }
    leaves.resize(kMostLeaves);
  }
  for (const Treemap::Leaf* leaf : leaves) {
    Node* node = &tree.root;
    const auto bytes = static_cast<double>(leaf->bytes);
    node->bytes += bytes;
    std::string_view rest = leaf->path;
    // A name of very many components is cut off where nothing shows it.
    for (int depth = 0; !rest.empty() && depth < 32; ++depth) {
      const size_t end = std::min(rest.find_first_of("./"), rest.size());
      node = &module_in(*node, rest.substr(0, end));
      node->bytes += bytes;
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    // Classes of the same folded name stand side by side.
    Node& own = *node->parts.emplace_back(std::make_unique<Node>());
    own.leaf = leaf;
    own.bytes = bytes;
  }
  tidy(tree.root);
  return tree;
}

struct Area {
  double x = 0, y = 0, width = 0, height = 0;
};

// Returns the largest ratio of the sides of rectangles with these sizes in a
// row along a side.
double worst_ratio(double largest, double smallest, double sum, double side) {
  const double square = side * side;
  return std::max(square * largest / (sum * sum),
                  sum * sum / (square * smallest));
}

// Divides an area between parts, which are sorted.
std::vector<Area> squarified(const std::vector<std::unique_ptr<Node>>& parts,
                             Area area) {
  double total = 0;
  for (const auto& part : parts) total += part->bytes;
  const double scale = area.width * area.height / total;
  std::vector<Area> areas;
  for (size_t first = 0; first < parts.size();) {
    const double side = std::max(1e-6, std::min(area.width, area.height));
    const double largest = parts[first]->bytes * scale;
    double sum = largest;
    size_t end = first + 1;
    while (end < parts.size()) {
      const double next = parts[end]->bytes * scale;
      const double before = parts[end - 1]->bytes * scale;
      if (worst_ratio(largest, next, sum + next, side) >
          worst_ratio(largest, before, sum, side)) {
        break;
      }
      sum += next;
      ++end;
    }
    const bool is_column = area.width >= area.height;
    const double thickness = sum / side;
    double at = is_column ? area.y : area.x;
    for (; first < end; ++first) {
      const double length = parts[first]->bytes * scale / thickness;
      areas.push_back(is_column ? Area{area.x, at, thickness, length}
                                : Area{at, area.y, length, thickness});
      at += length;
    }
    if (is_column) {
      area.x += thickness;
      area.width -= thickness;
    } else {
      area.y += thickness;
      area.height -= thickness;
    }
  }
  return areas;
}

class Drawing {
 public:
  Drawing(const Treemap& map, Svg& svg) : map_(map), svg_(svg) {}

  void draw(const Node& node, const Area& area, bool is_root) {
    if (node.leaf != nullptr) return draw_leaf(node, area);
    Area inside = area;
    const bool is_named = !is_root && !node.name.empty() && area.width > 56 &&
                          area.height > 2.4 * kHeader;
    if (is_named) {
      svg_.rect(area.x + 0.5, area.y + 0.5, std::max(0.0, area.width - 1),
                std::max(0.0, area.height - 1),
                "fill=\"none\" " + svg_.stroke(Ink::Axis), "");
      std::string header = printable(node.name);
      const std::string size = "  " + bytes_text(node.bytes);
      if (text_width(header + size) <= area.width - 10) header += size;
      svg_.text(area.x + 5, area.y + 13, "start", 12,
                fitted(header, area.width - 10));
      inside = {area.x + 2, area.y + kHeader, area.width - 4,
                area.height - kHeader - 2};
    }
    if (inside.width <= 0 || inside.height <= 0) return;
    const std::vector<Area> areas = squarified(node.parts, inside);
    for (size_t i = 0; i < areas.size(); ++i) {
      draw(*node.parts[i], areas[i], false);
    }
  }

 private:
  // Returns the attribute by which a page finds the leaf's parameters.
  std::string link_to(const Treemap::Leaf& leaf) const {
    if (svg_.is_alone()) return "";
    return " data-path=\"" + xml_text(printable(leaf.path)) + "\"";
  }

  void draw_leaf(const Node& node, const Area& area) {
    const Treemap::Leaf& leaf = *node.leaf;
    std::string tooltip = leaf.path;
    if (leaf.count > 1) tooltip += " ×" + std::to_string(leaf.count);
    tooltip += ": " + bytes_text(leaf.bytes) + ", " + map_.groups[leaf.group];
    if (!leaf.detail.empty()) tooltip += ", " + leaf.detail;
    svg_.rect(area.x + 0.5, area.y + 0.5, std::max(0.3, area.width - 1),
              std::max(0.3, area.height - 1),
              svg_.fill(leaf.group) + " fill-opacity=\"0.32\"" + link_to(leaf),
              tooltip);
    if (area.width < 34 || area.height < 18) return;
    // The last word of the path names a leaf that its modules do not.
    const size_t dot = leaf.path.find_last_of("./");
    const std::string name =
        node.name.empty() ? leaf.path.substr(dot + 1) : node.name;
    const double room = area.width - 8;
    std::string shown = printable(name);
    // `q_proj` says more of `q_proj.weight` than `q_…ight`.
    if (text_width(shown, 11) > room) {
      shown = shown.substr(0, std::max<size_t>(1, shown.rfind('.')));
    }
    svg_.text(area.x + 5, area.y + 14, "start", 11, fitted(shown, room, 11));
    const std::string size = bytes_text(leaf.bytes);
    if (area.height > 34 && text_width(size, 11) <= room) {
      svg_.text(area.x + 5, area.y + 28, "start", 11, size);
    }
  }

  const Treemap& map_;
  Svg& svg_;
};

std::vector<size_t> used_groups(const Treemap& map) {
  std::vector<size_t> used;
  for (const Treemap::Leaf& leaf : map.leaves) {
    if (leaf.bytes > 0 && !contains(used, leaf.group)) {
      used.push_back(leaf.group);
    }
  }
  std::ranges::sort(used);
  return used;
}

std::string left_out_text(const Tree& tree) {
  return "and " + plural(static_cast<int64_t>(tree.left_out), "smaller class") +
         ", " + bytes_text(tree.left_out_bytes);
}

// Adds modules with at least a hundredth of all bytes, in the order of their
// sizes.
void add_modules(const Node& node, const std::string& path, double total,
                 int depth, std::vector<std::pair<std::string, double>>& rows) {
  for (const auto& part : node.parts) {
    const std::string name =
        part->name.empty() ? path
                           : path + (path.empty() ? "" : ".") + part->name;
    if (part->bytes < total / 100) continue;
    if (part->leaf != nullptr || depth + 1 == kDepth) {
      rows.emplace_back(name, part->bytes);
    } else {
      add_modules(*part, name, total, depth + 1, rows);
    }
  }
}

}  // namespace

std::vector<std::string> lines_of(const Treemap& map, const Style& style) {
  const Tree tree = tree_of(map);
  std::vector<std::pair<std::string, double>> rows;
  add_modules(tree.root, tree.root.name, tree.root.bytes, 0, rows);
  std::ranges::stable_sort(rows, std::greater(),
                           [](const auto& row) { return row.second; });
  const size_t count =
      style.expand ? rows.size() : std::min(rows.size(), kTextRows);
  Bars bars;
  bars.parts = {""};
  double shown = 0;
  for (size_t i = 0; i < count; ++i) {
    bars.bars.push_back(
        {elide_middle(printable(rows[i].first), kLongestModule, style.unicode),
         {rows[i].second}});
    shown += rows[i].second;
  }
  const double rest = tree.root.bytes + tree.left_out_bytes - shown;
  if (rest > 0) bars.bars.push_back({"everything else", {rest}});
  return lines_of(bars, style);
}

std::string svg_of(const Treemap& map, const SvgPlace& place) {
  Svg svg(place);
  const double margin = svg.margin();
  const double width = svg.width();
  double y = svg.head(1);
  const Tree tree = tree_of(map);
  const double height = width * (width < 480 ? 1.1 : 0.62);
  if (tree.root.bytes > 0) {
    Drawing(map, svg).draw(tree.root, {margin, y, width, height}, true);
  }
  y = svg.legend(margin, y + height + 20, width, used_groups(map), map.groups);
  if (tree.left_out > 0) {
    y += 20;
    svg.text(margin, y, "start", 12, left_out_text(tree));
  }
  return std::move(svg).finished(place.width, y + (place.is_alone ? 20 : 8),
                                 bytes_text(tree.root.bytes) + " by module");
}

}  // namespace shardplan
