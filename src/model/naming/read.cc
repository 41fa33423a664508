// SPDX-License-Identifier: Apache-2.0
// Reads the files of name schemes.
#include <algorithm>
#include <numeric>
#include <set>

#include "base/text.h"
#include "model/architecture/reading.h"
#include "model/naming/name_scheme.h"
#include "syntax/document.h"

namespace shardplan {
namespace {

using PieceKind = NamePiece::Kind;

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
    const auto root =
        require(document->root(), NodeKind::Map, "a file of names", diags_);
    std::vector<std::string> keys = value_section_keys();
    keys.insert(keys.end(),
                {"scheme", "summary", "dtypes", "labels", "axes", "stacked",
                 "earlier", "names", "adds", "architectures"});
    if (!root || !reader_.known_keys(*root, keys)) return nullptr;
    auto result = std::make_shared<NameScheme>();
    result->source = source;
    if (!root->find("scheme")) {
      reader_.refuse(root->span(), "the file has no `scheme`");
    }
    reader_.optional(*root, "scheme", result->name);
    reader_.optional(*root, "summary", result->summary);
    if (const auto dtypes = root->find("dtypes")) read_dtypes(*dtypes, *result);
    if (const auto labels = root->find("labels")) read_labels(*labels, *result);
    for (const auto& [key, axes] :
         {std::pair{"axes", &NameScheme::axes},
          std::pair{"stacked", &NameScheme::stacked}}) {
      const auto list = root->find(key);
      if (list) read_axes(*list, key, (*result).*axes);
    }
    if (const auto map = root->find("earlier")) read_earlier(*map, *result);
    read_values(*root, true, reader_, result->values, diags_);
    if (const auto list = root->find("names")) read_rules(*list, result->all);
    if (const auto list = root->find("adds")) read_added(*list, result->all);
    if (const auto map = root->find("architectures")) {
      read_architectures(*map, *result);
    }
    const auto map = root->find("architectures");
    if (!map || map->size() == 0) {
      reader_.refuse(root->span(), "the file has no `architectures`");
    }
    return diags_.count(Severity::Error) == errors ? result : nullptr;
  }

 private:
  void read_dtypes(const Node& map, NameScheme& result) {
    if (!require(map, NodeKind::Map, "`dtypes`", diags_) ||
        !reader_.known_keys(map, {"vectors"})) {
      return;
    }
    if (const auto vectors = map.find("vectors")) {
      result.vectors = dtype(*vectors);
    }
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
  void read_axes(const Node& list, std::string_view key,
                 std::vector<NamedAxes>& result) {
    const std::string what = in_backticks(key);
    if (!require(list, NodeKind::List, what, diags_)) return;
    if (list.size() > kMaxNamedAxes) {
      reader_.refuse(list.span(), what + " has more than " +
                                      std::to_string(kMaxNamedAxes) +
                                      " entries");
      return;
    }
    for (size_t i = 0; i < list.size(); ++i) {
      const Node node = list.item(i);
      if (!require(node, NodeKind::Map, "axes of an array", diags_) ||
          !reader_.known_keys(node, {"name", "axes"})) {
        continue;
      }
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
      reader_.refuse(list.span(), "`axes` has at most " +
                                      std::to_string(kMaxDims) + " dimensions");
      return false;
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
      if (!require(node, NodeKind::Map, "names of an architecture", diags_) ||
          !reader_.known_keys(node, {"like", "names", "adds"})) {
        continue;
      }
      if (const auto like = node.find("like")) {
        reader_.optional(node, "like", entry.like);
        entry.like_at = like->span();
      }
      if (const auto list = node.find("names")) read_rules(*list, entry.own);
      if (const auto list = node.find("adds")) read_added(*list, entry.own);
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
      if (!require(node, NodeKind::Map, "a tensor", diags_) ||
          !reader_.known_keys(node,
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
                        read_dtype(node, tensor.dtype);
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
      reader_.refuse(repeat->span(),
                     "`repeat` needs one number and its count: `{i: layers}`");
      return false;
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
    if (!node.is_list()) {
      auto one = pattern(node, false, true);
      if (one) rule.from.push_back(*std::move(one));
      return one.has_value();
    }
    for (size_t i = 0; i < node.size() && i <= kMaxNameRules; ++i) {
      auto one = pattern(node.item(i), false, true);
      if (!one) return false;
      rule.from.push_back(*std::move(one));
    }
    if (rule.from.size() > 1) return true;
    reader_.refuse(node.span(), "a list of joined names must have several");
    return false;
  }

  bool read_conditions(const Node& node, NameRule& rule) {
    if (const auto of = node.find("of")) {
      std::vector<std::string> known;
      for (const ModuleKind& kind : module_kinds()) {
        known.emplace_back(kind.name);
        if (of->text() == kind.name) rule.of = kind.kind;
      }
      if (!rule.of) {
        reader_.refuse(of->span(),
                       "`of` must be one of " + joined(known, ", "));
        return false;
      }
    }
    if (const auto dims = node.find("dims")) {
      const auto count = dimension(*dims, kMaxDims);
      if (!count) return false;
      rule.dims = *count;
    }
    return reader_.optional(node, "when", rule.when);
  }

  bool read_shape(const Node& node, NameRule& rule) {
    if (!permutation(node, "order", rule.order) ||
        !expressions(node, "shape", rule.shape) ||
        !permutation(node, "then", rule.then) ||
        !read_dtype(node, rule.dtype)) {
      return false;
    }
    for (const auto& [key, member] : {std::pair{"split", &NameRule::split},
                                      std::pair{"join", &NameRule::join}}) {
      const auto at = node.find(key);
      if (!at) continue;
      const auto value = dimension(*at, kMaxDims - 1);
      if (!value) return false;
      rule.*member = *value;
    }
    if (rule.join.has_value() == (rule.from.size() > 1)) return true;
    reader_.refuse(node.span(),
                   "`join` needs a list of names, and a list needs `join`");
    return false;
  }

  bool read_targets(const Node& node, NameRule& rule) {
    const Node to = *node.find("to");
    const auto& any = rule.from.front().pieces;
    const bool has_any = std::ranges::any_of(any, [](const NamePiece& piece) {
      return piece.kind == PieceKind::Any;
    });
    if (to.is_list() != rule.split.has_value()) {
      reader_.refuse(
          to.span(),
          "`to` must be a list if there is a `split`, and only then");
      return false;
    }
    if (!to.is_list()) {
      auto name = pattern(to, true, has_any);
      if (!name) return false;
      rule.to.push_back({*std::move(name), {}, {}, {}});
      return true;
    }
    for (size_t i = 0; i < to.size() && i <= kMaxNameRules; ++i) {
      const Node part = to.item(i);
      if (!require(part, NodeKind::Map, "a part of a split", diags_) ||
          !reader_.known_keys(part, {"name", "size", "order", "shape"})) {
        return false;
      }
      const auto name = part.find("name");
      if (!name || !part.find("size")) {
        reader_.refuse(part.span(),
                       "a part of a split needs `name` and `size`");
        return false;
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
    if (rule.to.size() > 1) return true;
    reader_.refuse(to.span(), "a split needs several parts");
    return false;
  }

  bool read_stack(const Node& node, NameRule& rule) {
    const std::set<std::string_view> captured = numbers_of(rule.from.front());
    for (const NamePattern& other : rule.from) {
      if (numbers_of(other) == captured) continue;
      reader_.refuse(other.where, "joined names must have the same numbers");
      return false;
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
          reader_.refuse(
              stack->key_span(i),
              in_backticks(stack->key(i)) + " is not a number of the names");
          return false;
        }
        rule.stack.emplace_back(*std::move(what), *at);
      }
      std::ranges::sort(rule.stack, [](const auto& a, const auto& b) {
        return a.second < b.second;
      });
      for (size_t i = 1; i < rule.stack.size(); ++i) {
        if (rule.stack[i].second != rule.stack[i - 1].second) continue;
        reader_.refuse(stack->span(), "two numbers become the same dimension");
        return false;
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
      reader_.refuse(rule.where, in_backticks(number) +
                                     " is neither in `to` nor in `stack`");
      return false;
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
      auto piece = made ? value_piece(node, inner) : number_piece(node, inner);
      if (!piece) return std::nullopt;
      if (!made && !result.pieces.empty() &&
          result.pieces.back().kind != PieceKind::Text) {
        return reader_.refuse(node.span(),
                              "two placeholders need text between them");
      }
      for (const NamePiece& other : result.pieces) {
        if (!made && other.kind == PieceKind::Number &&
            other.text == piece->text) {
          return reader_.refuse(node.span(),
                                in_backticks(inner) + " appears twice");
        }
      }
      result.pieces.push_back(*std::move(piece));
    }
    close();
    if (!result.pieces.empty()) return result;
    return reader_.refuse(node.span(), "a name is empty");
  }

  std::optional<NamePiece> number_piece(const Node& node,
                                        const std::string& inner) {
    if (is_word(inner)) return NamePiece{PieceKind::Number, inner, {}};
    return reader_.refuse(
        node.span(), in_backticks(inner) + " is not a valid name of a number");
  }

  std::optional<NamePiece> value_piece(const Node& node,
                                       const std::string& inner) {
    std::string why;
    auto value = parse_expression(inner, node.span(), why);
    if (!value) {
      return reader_.refuse(
          node.span(),
          in_backticks(inner) + " is not a valid expression: " + why);
    }
    return NamePiece{PieceKind::Value, inner, std::move(value)};
  }

  bool expressions(const Node& map, std::string_view key,
                   std::vector<Expression>& result) {
    const auto list = map.find(key);
    if (!list) return true;
    if (!require(*list, NodeKind::List, in_backticks(key), diags_))
      return false;
    if (list->size() == 0 || list->size() > kMaxDims) {
      reader_.refuse(list->span(), in_backticks(key) + " needs 1 to " +
                                       std::to_string(kMaxDims) +
                                       " dimensions");
      return false;
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
    if (!require(*list, NodeKind::List, in_backticks(key), diags_))
      return false;
    std::set<size_t> seen;
    for (size_t i = 0; i < list->size(); ++i) {
      const auto at = dimension(list->item(i), kMaxDims - 1);
      if (!at) return false;
      result.push_back(*at);
      seen.insert(*at);
    }
    if (seen.size() == result.size() && !seen.empty() &&
        *seen.rbegin() + 1 == seen.size()) {
      return true;
    }
    reader_.refuse(list->span(), in_backticks(key) +
                                     " must name each dimension once, from 0");
    return false;
  }

  std::optional<size_t> dimension(const Node& node, int64_t most) {
    const auto value = node.integer();
    if (value && *value >= 0 && *value <= most) {
      return static_cast<size_t>(*value);
    }
    return reader_.refuse(node.span(),
                          "dimensions are 0 to " + std::to_string(most));
  }

  std::optional<DType> dtype(const Node& node) {
    const auto found = find_dtype(node.text());
    if (found) return found;
    return diags_.error(
        Code::UnknownDtype, node.span(),
        "dtype " + in_backticks(node.text()) + " is not supported");
  }

  bool read_dtype(const Node& map, std::optional<DType>& result) {
    const auto node = map.find("dtype");
    if (!node) return true;
    result = dtype(*node);
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
