// SPDX-License-Identifier: Apache-2.0
// Reads the files of name schemes.
#include <algorithm>
#include <numeric>
#include <set>

#include "base/checked.h"
#include "base/text.h"
#include "model/architecture/reading.h"
#include "model/naming/name_scheme.h"
#include "syntax/document.h"

namespace shardplan {
namespace {

using PieceKind = NamePiece::Kind;
using Stacking = std::pair<Expression, size_t>;  // as in NameRule::stack

// More dimensions than any tensor has.
constexpr int64_t kMaxDims = 8;
// Limits how many entries of `architectures` may build on one another.
constexpr size_t kMaxLike = 16;

bool is_word(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || c == '_';
  });
}

// An entry of `architectures`, before the rules of the entry in `like` are
// added.
struct Entry {
  NameRules own;
  std::string like;
  Span like_at;
};

class SchemeReader {
 public:
  explicit SchemeReader(Diagnostics& diags) : diags_(diags), reader_(diags) {}

  std::shared_ptr<const NameScheme> run(const SourcePtr& source) {
    const int64_t errors = diags_.count(Severity::Error);
    const auto document = parse_document(source, diags_);
    if (!document) return nullptr;
    const Node root = document->root();
    std::vector<std::string> keys = value_section_keys();
    keys.insert(keys.end(),
                {"scheme", "summary", "dtypes", "labels", "axes", "stacked",
                 "earlier", "names", "adds", "architectures"});
    if (!is_map(root, "a file of names", keys)) return nullptr;
    auto result = std::make_shared<NameScheme>();
    result->source = source;
    if (!root.find("scheme")) {
      reader_.refuse(root.span(), "the file has no `scheme`");
    }
    reader_.optional(root, "scheme", result->name);
    reader_.optional(root, "summary", result->summary);
    const auto dtypes = root.find("dtypes");
    if (dtypes && is_map(*dtypes, "`dtypes`", {"vectors"})) {
      read_dtype(*dtypes, "vectors", result->vectors);
    }
    if (const auto labels = root.find("labels")) read_labels(*labels, *result);
    read_axes(root, "axes", result->axes);
    read_axes(root, "stacked", result->stacked);
    if (const auto map = root.find("earlier")) read_earlier(*map, *result);
    read_values(root, true, reader_, result->values, diags_);
    read_both(root, result->all);
    const auto map = root.find("architectures");
    if (map) read_architectures(*map, *result);
    if (!map || map->size() == 0) {
      reader_.refuse(root.span(), "the file has no `architectures`");
    }
    return diags_.count(Severity::Error) == errors ? result : nullptr;
  }

 private:
  // Reports a mistake and returns false.
  bool fail(Span where, std::string message) {
    reader_.refuse(where, std::move(message));
    return false;
  }

  // Returns whether the node is a map without other keys; else reports it.
  bool is_map(const Node& node, std::string_view what,
              std::vector<std::string> keys) {
    return require(node, NodeKind::Map, what, diags_) &&
           reader_.known_keys(node, std::move(keys));
  }

  void read_labels(const Node& map, NameScheme& result) {
    if (!require(map, NodeKind::Map, "`labels`", diags_)) return;
    for (size_t i = 0; i < map.size(); ++i) {
      if (auto label = reader_.text(map.item(i), "a label")) {
        result.labels.emplace(map.key(i), *std::move(label));
      }
    }
  }

  // Reads `- {name: "*/query/kernel", axes: [embed, .., q_heads, kv]}`.
  void read_axes(const Node& root, std::string_view key,
                 std::vector<NamedAxes>& result) {
    const std::string what = in_backticks(key);
    const auto list = root.find(key);
    if (!list || !require(*list, NodeKind::List, what, diags_)) return;
    if (list->size() > kMaxNamedAxes) {
      reader_.refuse(list->span(), what + " has more than " +
                                       std::to_string(kMaxNamedAxes) +
                                       " entries");
      return;
    }
    for (size_t i = 0; i < list->size(); ++i) {
      const Node node = list->item(i);
      if (!is_map(node, "axes of an array", {"name", "axes"})) continue;
      const auto name = node.find("name");
      const auto labels = node.find("axes");
      if (!name || !labels) {
        reader_.refuse(node.span(),
                       "an entry of " + what + " needs `name` and `axes`");
        continue;
      }
      auto named = reader_.text(*name, "a name");
      NamedAxes entry;
      if (!named || !read_labels_of(*labels, entry.axes)) continue;
      entry.name = *std::move(named);
      result.push_back(std::move(entry));
    }
  }

  // Reads `embed_attn: [embed]`.
  void read_earlier(const Node& map, NameScheme& result) {
    if (!require(map, NodeKind::Map, "`earlier`", diags_)) return;
    for (size_t i = 0; i < map.size(); ++i) {
      const Node list = map.item(i);
      if (!require(list, NodeKind::List, "earlier labels", diags_)) continue;
      auto& labels = result.earlier[std::string(map.key(i))];
      for (size_t at = 0; at < list.size() && at < kMaxDims; ++at) {
        if (auto label = reader_.text(list.item(at), "a label")) {
          labels.push_back(*std::move(label));
        }
      }
    }
  }

  bool read_labels_of(const Node& list,
                      std::vector<std::optional<std::string>>& result) {
    if (!require(list, NodeKind::List, "`axes`", diags_)) return false;
    if (list.size() > kMaxDims) {
      return fail(list.span(), "`axes` has at most " +
                                   std::to_string(kMaxDims) + " dimensions");
    }
    for (size_t i = 0; i < list.size(); ++i) {
      const Node item = list.item(i);
      if (item.is_null()) {
        result.emplace_back();
        continue;
      }
      auto label = reader_.text(item, "a logical axis");
      if (!label) return false;
      result.emplace_back(*std::move(label));
    }
    return true;
  }

  void read_architectures(const Node& map, NameScheme& result) {
    if (!require(map, NodeKind::Map, "`architectures`", diags_)) return;
    std::map<std::string, Entry, std::less<>> entries;
    for (size_t i = 0; i < map.size(); ++i) {
      Entry& entry = entries[std::string(map.key(i))];
      const Node node = map.item(i);
      if (node.is_list()) {
        read_rules(node, entry.own);
        continue;
      }
      if (!is_map(node, "names of an architecture",
                  {"like", "names", "adds"})) {
        continue;
      }
      if (const auto like = node.find("like")) {
        reader_.optional(node, "like", entry.like);
        entry.like_at = like->span();
      }
      read_both(node, entry.own);
    }
    for (const auto& [name, entry] : entries) {
      NameRules rules = entry.own;
      const Entry* at = &entry;
      for (size_t depth = 0; !at->like.empty(); ++depth) {
        const auto other = entries.find(at->like);
        if (other == entries.end() || depth == kMaxLike) {
          reader_.refuse(at->like_at,
                         other == entries.end()
                             ? "there is no entry " + in_backticks(at->like)
                             : "entries refer to each other with `like`");
          return;
        }
        at = &other->second;
        rules.rules.insert(rules.rules.end(), at->own.rules.begin(),
                           at->own.rules.end());
        rules.added.insert(rules.added.end(), at->own.added.begin(),
                           at->own.added.end());
      }
      if (rules.rules.size() + result.all.rules.size() > kMaxNameRules) {
        reader_.refuse(map.span(), "there are too many rules")
            .fact("the limit is " +
                  count_text(static_cast<int64_t>(kMaxNameRules)));
        return;
      }
      result.architectures.emplace(name, std::move(rules));
    }
  }

  void read_both(const Node& map, NameRules& result) {
    if (const auto list = map.find("names")) read_rules(*list, result);
    if (const auto list = map.find("adds")) read_added(*list, result);
  }

  void read_rules(const Node& list, NameRules& result) {
    if (!require(list, NodeKind::List, "`names`", diags_)) return;
    for (size_t i = 0; i < list.size() && i <= kMaxNameRules; ++i) {
      const Node node = list.item(i);
      if (!require(node, NodeKind::Map, "a rule", diags_)) continue;
      if (auto rule = read_rule(node)) result.rules.push_back(*std::move(rule));
    }
  }

  void read_added(const Node& list, NameRules& result) {
    if (!require(list, NodeKind::List, "`adds`", diags_)) return;
    for (size_t i = 0; i < list.size() && i <= kMaxNameRules; ++i) {
      const Node node = list.item(i);
      if (!is_map(node, "a tensor",
                  {"name", "repeat", "shape", "dtype", "when"})) {
        continue;
      }
      const auto name = node.find("name");
      if (!name || !node.find("shape")) {
        reader_.refuse(node.span(), "a tensor needs `name` and `shape`");
        continue;
      }
      AddedTensor tensor;
      if (!read_repeat(node, tensor)) continue;
      auto made = pattern(*name, true, false);
      const bool good = made && expressions(node, "shape", tensor.shape) &&
                        reader_.optional(node, "when", tensor.when) &&
                        read_dtype(node, "dtype", tensor.dtype);
      if (!good) continue;
      tensor.name = *std::move(made);
      result.added.push_back(std::move(tensor));
    }
  }

  // Reads `{i: layers}`.
  bool read_repeat(const Node& node, AddedTensor& tensor) {
    const auto repeat = node.find("repeat");
    if (!repeat) return true;
    if (!repeat->is_map() || repeat->size() != 1 || !is_word(repeat->key(0))) {
      return fail(repeat->span(),
                  "`repeat` needs one number and its count: `{i: layers}`");
    }
    tensor.index = std::string(repeat->key(0));
    tensor.count = reader_.expression(repeat->item(0));
    return tensor.count.has_value();
  }

  std::optional<NameRule> read_rule(const Node& node) {
    if (!reader_.known_keys(
            node, {"from", "to", "of", "dims", "when", "order", "shape", "then",
                   "split", "join", "stack", "dtype", "drop", "refuse"})) {
      return std::nullopt;
    }
    NameRule rule;
    rule.where = node.span();
    const auto from = node.find("from");
    if (!from) return reader_.refuse(node.span(), "a rule needs `from`");
    if (!read_from(*from, rule) || !read_conditions(node, rule)) {
      return std::nullopt;
    }
    const int ways = static_cast<int>(node.find("to").has_value()) +
                     static_cast<int>(node.find("drop").has_value()) +
                     static_cast<int>(node.find("refuse").has_value());
    if (ways != 1) {
      return reader_.refuse(
          node.span(), "a rule needs exactly one of `to`, `drop` and `refuse`");
    }
    for (const auto& [key, member] :
         {std::pair{"drop", &NameRule::dropped},
          std::pair{"refuse", &NameRule::refused}}) {
      const auto why = node.find(key);
      if (!why) continue;
      reader_.optional(node, key, rule.*member);
      if ((rule.*member).empty()) {
        return reader_.refuse(why->span(),
                              in_backticks(key) + " must give the reason");
      }
      return rule;
    }
    if (!read_shape(node, rule) || !read_targets(node, rule) ||
        !read_stack(node, rule)) {
      return std::nullopt;
    }
    return rule;
  }

  bool read_from(const Node& node, NameRule& rule) {
    const size_t count = node.is_list() ? node.size() : 1;
    for (size_t i = 0; i < count && i <= kMaxNameRules; ++i) {
      auto one = pattern(node.is_list() ? node.item(i) : node, false, true);
      if (!one) return false;
      rule.from.push_back(*std::move(one));
    }
    return !node.is_list() || rule.from.size() > 1 ||
           fail(node.span(), "a list of joined names must have several");
  }

  bool read_conditions(const Node& node, NameRule& rule) {
    if (const auto of = node.find("of")) {
      std::vector<std::string> known;
      for (const ModuleKind& kind : module_kinds()) {
        known.emplace_back(kind.name);
        if (of->text() == kind.name) rule.of = kind.kind;
      }
      if (!rule.of) {
        return fail(of->span(), "`of` must be one of " + joined(known, ", "));
      }
    }
    return read_dimension(node, "dims", kMaxDims, rule.dims) &&
           reader_.optional(node, "when", rule.when);
  }

  bool read_shape(const Node& node, NameRule& rule) {
    if (!permutation(node, "order", rule.order) ||
        !expressions(node, "shape", rule.shape) ||
        !permutation(node, "then", rule.then) ||
        !read_dtype(node, "dtype", rule.dtype) ||
        !read_dimension(node, "split", kMaxDims - 1, rule.split) ||
        !read_dimension(node, "join", kMaxDims - 1, rule.join)) {
      return false;
    }
    return rule.join.has_value() == (rule.from.size() > 1) ||
           fail(node.span(),
                "`join` needs a list of names, and a list needs `join`");
  }

  bool read_targets(const Node& node, NameRule& rule) {
    const Node to = *node.find("to");
    const auto& pieces = rule.from.front().pieces;
    const bool has_any = std::ranges::find(pieces, PieceKind::Any,
                                           &NamePiece::kind) != pieces.end();
    if (to.is_list() != rule.split.has_value()) {
      return fail(to.span(),
                  "`to` must be a list if there is a `split`, and only then");
    }
    if (!to.is_list()) {
      auto name = pattern(to, true, has_any);
      if (!name) return false;
      rule.to.push_back({*std::move(name), {}, {}, {}});
      return true;
    }
    for (size_t i = 0; i < to.size() && i <= kMaxNameRules; ++i) {
      const Node part = to.item(i);
      if (!is_map(part, "a part of a split",
                  {"name", "size", "order", "shape"})) {
        return false;
      }
      const auto name = part.find("name");
      if (!name || !part.find("size")) {
        return fail(part.span(), "a part of a split needs `name` and `size`");
      }
      NamedTarget target;
      auto made = pattern(*name, true, has_any);
      if (!made || !reader_.optional(part, "size", target.size) ||
          !permutation(part, "order", target.order) ||
          !expressions(part, "shape", target.shape)) {
        return false;
      }
      target.name = *std::move(made);
      rule.to.push_back(std::move(target));
    }
    return rule.to.size() > 1 || fail(to.span(), "a split needs several parts");
  }

  bool read_stack(const Node& node, NameRule& rule) {
    const std::set<std::string_view> captured = numbers_of(rule.from.front());
    for (const NamePattern& other : rule.from) {
      if (numbers_of(other) == captured) continue;
      return fail(other.where, "joined names must have the same numbers");
    }
    if (const auto stack = node.find("stack")) {
      if (!require(*stack, NodeKind::Map, "`stack`", diags_)) return false;
      for (size_t i = 0; i < stack->size(); ++i) {
        const auto at = dimension(stack->item(i), kMaxDims - 1);
        std::string why;
        auto what = parse_expression(stack->key(i), stack->key_span(i), why);
        if (!at) return false;
        const bool of_numbers =
            what && std::ranges::any_of(captured, [&](std::string_view number) {
              return what->mentions(number);
            });
        if (!of_numbers) {
          return fail(stack->key_span(i), in_backticks(stack->key(i)) +
                                              " is not a number of the names");
        }
        rule.stack.emplace_back(*std::move(what), *at);
      }
      std::ranges::sort(rule.stack, {}, &Stacking::second);
      const auto twice =
          std::ranges::adjacent_find(rule.stack, {}, &Stacking::second);
      if (twice != rule.stack.end()) {
        return fail(stack->span(), "two numbers become the same dimension");
      }
    }
    // An unused number would give several tensors the same name.
    for (const std::string_view number : captured) {
      const bool stacked = std::ranges::any_of(
          rule.stack,
          [&](const auto& each) { return each.first.mentions(number); });
      const bool named = std::ranges::all_of(rule.to, [&](const auto& target) {
        return std::ranges::any_of(
            target.name.pieces, [&](const NamePiece& piece) {
              return piece.value && piece.value->mentions(number);
            });
      });
      if (stacked || named) continue;
      return fail(rule.where,
                  in_backticks(number) + " is neither in `to` nor in `stack`");
    }
    return true;
  }

  static std::set<std::string_view> numbers_of(const NamePattern& pattern) {
    std::set<std::string_view> names;
    for (const NamePiece& piece : pattern.pieces) {
      if (piece.kind == PieceKind::Number) names.insert(piece.text);
    }
    return names;
  }

  // Reads a name: with expressions in braces if `made`, else with numbers.
  std::optional<NamePattern> pattern(const Node& node, bool made,
                                     bool may_have_any) {
    const auto text = reader_.text(node, "a name");
    if (!text) return std::nullopt;
    NamePattern result{*text, node.span(), {}};
    std::string literal;
    const auto close = [&] {
      if (literal.empty()) return;
      result.pieces.push_back({PieceKind::Text, literal, {}});
      literal.clear();
    };
    bool any = false;
    for (size_t i = 0; i < text->size(); ++i) {
      const char c = (*text)[i];
      if (c == '*') {
        if (any || !may_have_any) {
          return reader_.refuse(
              node.span(),
              any ? "a name may have only one `*`"
                  : "`to` must have `*` if `from` does, and only then");
        }
        any = true;
        close();
        result.pieces.push_back({PieceKind::Any, "", {}});
        continue;
      }
      if (c == '}') {
        return reader_.refuse(node.span(), "`}` without `{`");
      }
      if (c != '{') {
        literal += c;
        continue;
      }
      const size_t end = text->find('}', i);
      if (end == std::string::npos) {
        return reader_.refuse(node.span(), "`{` is not closed");
      }
      const std::string inner = text->substr(i + 1, end - i - 1);
      i = end;
      close();
      NamePiece piece{made ? PieceKind::Value : PieceKind::Number, inner, {}};
      if (made) {
        std::string why;
        piece.value = parse_expression(inner, node.span(), why);
        if (!piece.value) {
          return reader_.refuse(
              node.span(),
              in_backticks(inner) + " is not a valid expression: " + why);
        }
      } else if (!is_word(inner)) {
        return reader_.refuse(
            node.span(),
            in_backticks(inner) + " is not a valid name of a number");
      }
      if (!made && !result.pieces.empty() &&
          result.pieces.back().kind != PieceKind::Text) {
        return reader_.refuse(node.span(),
                              "two placeholders need text between them");
      }
      for (const NamePiece& other : result.pieces) {
        if (!made && other.kind == PieceKind::Number && other.text == inner) {
          return reader_.refuse(node.span(),
                                in_backticks(inner) + " appears twice");
        }
      }
      result.pieces.push_back(std::move(piece));
    }
    close();
    if (!result.pieces.empty()) return result;
    return reader_.refuse(node.span(), "a name is empty");
  }

  bool expressions(const Node& map, std::string_view key,
                   std::vector<Expression>& result) {
    const auto list = map.find(key);
    if (!list) return true;
    if (!require(*list, NodeKind::List, in_backticks(key), diags_)) {
      return false;
    }
    if (list->size() == 0 || list->size() > kMaxDims) {
      return fail(list->span(), in_backticks(key) + " needs 1 to " +
                                    std::to_string(kMaxDims) + " dimensions");
    }
    for (size_t i = 0; i < list->size(); ++i) {
      auto one = reader_.expression(list->item(i));
      if (!one) return false;
      result.push_back(*std::move(one));
    }
    return true;
  }

  // Reads a permutation of 0 to n - 1.
  bool permutation(const Node& map, std::string_view key,
                   std::vector<size_t>& result) {
    const auto list = map.find(key);
    if (!list) return true;
    if (!require(*list, NodeKind::List, in_backticks(key), diags_)) {
      return false;
    }
    std::set<size_t> seen;
    for (size_t i = 0; i < list->size(); ++i) {
      const auto at = dimension(list->item(i), kMaxDims - 1);
      if (!at) return false;
      result.push_back(*at);
      seen.insert(*at);
    }
    return (seen.size() == result.size() && !seen.empty() &&
            *seen.rbegin() + 1 == seen.size()) ||
           fail(list->span(),
                in_backticks(key) + " must name each dimension once, from 0");
  }

  std::optional<size_t> dimension(const Node& node, int64_t most) {
    const auto value = node.integer();
    if (value && *value >= 0 && *value <= most) return to_size(*value);
    return reader_.refuse(node.span(),
                          "dimensions are 0 to " + std::to_string(most));
  }

  bool read_dimension(const Node& map, std::string_view key, int64_t most,
                      std::optional<size_t>& result) {
    const auto node = map.find(key);
    if (node) result = dimension(*node, most);
    return !node || result;
  }

  bool read_dtype(const Node& map, std::string_view key,
                  std::optional<DType>& result) {
    const auto node = map.find(key);
    if (!node) return true;
    result = find_dtype(node->text());
    if (!result) {
      diags_.error(Code::UnknownDtype, node->span(),
                   "dtype " + in_backticks(node->text()) + " is not supported");
    }
    return result.has_value();
  }

  Diagnostics& diags_;
  StepReader reader_;
};

}  // namespace

std::shared_ptr<const NameScheme> read_name_scheme(const SourcePtr& source,
                                                   Diagnostics& diags) {
  return SchemeReader(diags).run(source);
}

}  // namespace shardplan
