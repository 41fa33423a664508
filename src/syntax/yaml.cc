// SPDX-License-Identifier: Apache-2.0
// YAML, read through the events of yaml-cpp. That parser accepts much that its
// author did not mean, so this file rejects it: trailing text that it would
// ignore (`- a` and then `b: c`), further documents, aliases that contain
// themselves or expand too far, merge keys, and keys that are not text. Marks
// give the beginning of each item; its end is found in the text.
#include "syntax/yaml.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <unordered_map>
#include <vector>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "syntax/document.h"
#include "syntax/utf8.h"

namespace shardplan {
namespace {

constexpr size_t kMaxYamlDepth = 256;
constexpr int64_t kMaxExpanded = 1'000'000;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kPlain = "?";   // yaml-cpp's tag of `text`
constexpr std::string_view kQuoted = "!";  // that of `"text"` and of blocks
constexpr std::string_view kInclude = "!include";
constexpr std::string_view kCore = "tag:yaml.org,2002:";

constexpr std::string_view kDigits = "0123456789";

bool is_null_word(std::string_view text) {
  return has_word("~ null Null NULL", text);
}

// Removes leading characters in `set`, at most `most`. Returns their number.
size_t skip_any(std::string_view& text, std::string_view set,
                size_t most = std::string_view::npos) {
  const size_t count =
      std::min({text.find_first_not_of(set), text.size(), most});
  text.remove_prefix(count);
  return count;
}

bool is_integer(std::string_view text) {
  std::string_view digits = kDigits;
  if (text.starts_with("0x") || text.starts_with("0o")) {
    digits = text[1] == 'x' ? "0123456789abcdefABCDEF" : "01234567";
    text.remove_prefix(2);
  } else {
    skip_any(text, "-+", 1);
  }
  return skip_any(text, digits) > 0 && text.empty();
}

bool is_real(std::string_view text) {
  const bool is_signed = skip_any(text, "-+", 1) > 0;
  if (has_word(".inf .Inf .INF", text)) return true;
  if (has_word(".nan .NaN .NAN", text)) return !is_signed;
  size_t digits = skip_any(text, kDigits);
  if (skip_any(text, ".", 1) > 0) digits += skip_any(text, kDigits);
  if (digits == 0) return false;
  if (skip_any(text, "eE", 1) > 0) {
    skip_any(text, "-+", 1);
    if (skip_any(text, kDigits) == 0) return false;
  }
  return text.empty();
}

// Returns the kind in YAML 1.2's core schema: `yes`, `on` and `1:30` are text.
NodeKind plain_kind(std::string_view text) {
  if (text.empty() || is_null_word(text)) return NodeKind::Null;
  if (has_word("true True TRUE false False FALSE", text)) return NodeKind::Bool;
  if (is_integer(text)) return NodeKind::Integer;
  return is_real(text) ? NodeKind::Real : NodeKind::String;
}

std::string core_tag(NodeKind kind) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "null", "bool", "int", "float", "str", "seq", "map"};
  return std::string(kCore).append(nth(kNames, kind));
}

// Finds the ends of items. yaml-cpp reports only the beginnings, including
// anchor and tag.
class Places {
 public:
  explicit Places(const SourceFile& source, uint64_t base)
      : source_(source), text_(source.text()), base_(base) {}

  Span at(uint64_t begin, uint64_t end) const { return {&source_, begin, end}; }
  Span character(uint64_t begin) const {
    if (begin >= text_.size()) return at(text_.size(), text_.size());
    return at(begin, begin + std::max<size_t>(1, utf8_length(text_, begin)));
  }
  uint64_t offset(const YAML::Mark& mark) const {
    if (mark.is_null()) return base_;
    return std::min<uint64_t>(base_ + static_cast<uint64_t>(mark.pos),
                              text_.size());
  }
  void release_before(uint64_t offset) const { source_.release_before(offset); }
  // Returns the position after `&anchor` and `!tag`.
  uint64_t value(const YAML::Mark& mark) const {
    uint64_t at = offset(mark);
    while (at < text_.size() && (text_[at] == '&' || text_[at] == '!')) {
      while (at < text_.size() && !is_blank(text_[at])) ++at;
      at = skip_blanks(at);
    }
    return at;
  }
  char character_at(uint64_t at) const {
    return at < text_.size() ? text_[at] : '\0';
  }
  Span word(uint64_t begin) const {
    const size_t end = text_.find_first_of(" \t\r\n,[]{}", begin);
    return at(begin, std::min(end, text_.size()));
  }
  Span scalar(uint64_t begin, const std::string& value, bool plain) const {
    const char c = character_at(begin);
    if (!plain && (c == '"' || c == '\'')) return quoted(begin, c);
    if (!plain) return character(begin);  // a block: its `|` or `>`
    if (text_.substr(begin, value.size()) == value) {
      return at(begin, begin + value.size());
    }
    const size_t line_end = std::min(text_.find('\n', begin), text_.size());
    return at(begin, line_end);
  }
  // Returns the position after the closing bracket of a list or map whose last
  // item ends at `at`.
  uint64_t close(uint64_t at, char bracket) const {
    while (true) {
      const uint64_t next = skip_blanks(at);
      if (character_at(next) == bracket) return next + 1;
      if (character_at(next) != ',' && character_at(next) != ':') return at;
      at = next + 1;
    }
  }

 private:
  uint64_t skip_blanks(uint64_t at) const {
    while (at < text_.size()) {
      if (text_[at] == '#') {
        at = std::min(text_.find('\n', at), text_.size());
      } else if (is_blank(text_[at])) {
        ++at;
      } else {
        break;
      }
    }
    return at;
  }
  // yaml-cpp accepts the end of the text in place of a missing quote.
  Span quoted(uint64_t begin, char quote) const {
    for (uint64_t end = begin + 1; end < text_.size(); ++end) {
      if (text_[end] == '\\' && quote == '"') {
        ++end;
      } else if (text_[end] == quote) {
        if (quote == '"' || character_at(end + 1) != quote) {
          return at(begin, end + 1);
        }
        ++end;
      }
    }
    throw SyntaxError{"a quoted string is not closed", character(begin), ""};
  }

  const SourceFile& source_;
  std::string_view text_;
  uint64_t base_;
};

class Handler : public YAML::EventHandler {
 public:
  Handler(const Places& places, DocumentBuilder& builder, Includes includes)
      : places_(places), builder_(builder), includes_(includes) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) {
      refuse(places_.character(places_.offset(mark)),
             "text follows the end of the document",
             "indent text that belongs to the value above; a file holds one "
             "document");
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const Span word = places_.word(places_.value(mark));
    if (is_null_word(word.text())) {
      scalar(NodeKind::Null, std::string(word.text()), word, anchor);
    } else {  // nothing was written; the mark is that of the next item
      scalar(NodeKind::Null, "", places_.at(last_end_, last_end_), anchor);
    }
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag,
                YAML::anchor_t anchor, const std::string& value) override {
    const uint64_t begin = places_.value(mark);
    const char first = places_.character_at(begin);
    const bool plain =
        tag == kPlain || (tag != kQuoted && first != '"' && first != '\'' &&
                          first != '|' && first != '>');
    const Span where = value.empty() && plain
                           ? places_.at(begin, begin)
                           : places_.scalar(begin, value, plain);
    if (tag == kInclude && includes_ == Includes::AsText) {
      scalar(NodeKind::String, std::string(kInclude) + " " + value,
             places_.at(places_.offset(mark), where.end), anchor);
      return;
    }
    NodeKind kind = plain ? plain_kind(value) : NodeKind::String;
    if (tag != kPlain && tag != kQuoted) kind = tagged(tag, kind, value, mark);
    scalar(kind, value, where, anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const Span where = places_.word(places_.offset(mark));
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      refuse(where, "an alias refers to a value that contains it");
    }
    const Anchor& target = found->second;
    aliased_ += target.nodes;
    if (aliased_ > kMaxExpanded) {
      refuse(where, "aliases expand to more than 1,000,000 nodes");
    }
    last_end_ = where.end;
    nodes_ += target.nodes;
    if (builder_.wants_key()) {
      if (target.height > 0) refuse_key(where);
      put_key(builder_.kind(target.node), builder_.text(target.node), where);
      return;
    }
    grow(target.height, where);
    builder_.attach(target.node);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag,
                       YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    begin(NodeKind::List, mark, tag, anchor, style == YAML::EmitterStyle::Flow);
  }
  void OnSequenceEnd() override { end(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag,
                  YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    // The parser has its own copy of the text.
    constexpr uint64_t kWindow = uint64_t{1} << 18U;
    if (const uint64_t at = places_.offset(mark); at >= released_ + kWindow) {
      released_ = at;
      places_.release_before(at);
    }
    begin(NodeKind::Map, mark, tag, anchor, style == YAML::EmitterStyle::Flow);
  }
  void OnMapEnd() override { end(); }

 private:
  struct Anchor {
    uint32_t node = 0;
    int64_t nodes = 1;  // with aliases expanded
    size_t height = 0;  // levels of lists and maps
  };
  struct Open {
    YAML::anchor_t anchor = YAML::NullAnchor;
    int64_t nodes_before = 0;
    size_t height = 1;
    char bracket = '\0';  // the closing bracket, in flow style
  };

  // Stops the parser from within one of its events.
  [[noreturn]] static void refuse(Span where, std::string message,
                                  std::string help = "") {
    throw SyntaxError{std::move(message), where, std::move(help)};
  }
  [[noreturn]] static void refuse_key(Span where) {
    refuse(where, "a key must be a string");
  }

  void put_key(NodeKind kind, std::string_view text, Span where) {
    if (kind == NodeKind::Null) refuse_key(where);
    if (text == "<<" && where.text() == "<<") {
      refuse(where, "merge keys (`<<`) are not supported",
             "write the keys out, or quote `\"<<\"` if it is a name");
    }
    builder_.key(text, where);
  }

  void scalar(NodeKind kind, std::string_view text, Span where,
              YAML::anchor_t anchor) {
    last_end_ = std::max(last_end_, where.end);
    ++nodes_;
    if (builder_.wants_key()) {
      if (anchor != YAML::NullAnchor) {
        anchors_[anchor] = {builder_.detached(NodeKind::String, text, where)};
      }
      put_key(kind, text, where);
      return;
    }
    grow(0, where);
    const uint32_t node = builder_.scalar(kind, text, where);
    if (anchor != YAML::NullAnchor) anchors_[anchor] = {node};
  }

  // Returns the kind of a scalar with an explicit tag.
  NodeKind tagged(const std::string& tag, NodeKind plain,
                  const std::string& value, const YAML::Mark& mark) const {
    static constexpr std::array<NodeKind, 5> kScalars = {
        NodeKind::Null, NodeKind::Bool, NodeKind::Integer, NodeKind::Real,
        NodeKind::String};
    for (const NodeKind kind : kScalars) {
      if (tag != core_tag(kind)) continue;
      const NodeKind own =
          plain == NodeKind::String ? plain_kind(value) : plain;
      const bool widened = kind == NodeKind::Real && own == NodeKind::Integer;
      if (kind == NodeKind::String || kind == own || widened) return kind;
    }
    refuse_tag(tag, mark);
  }

  [[noreturn]] void refuse_tag(const std::string& tag,
                               const YAML::Mark& mark) const {
    const bool core = tag.starts_with(kCore);
    refuse(places_.word(places_.offset(mark)),
           "tag " + in_backticks(core ? "!!" + tag.substr(kCore.size()) : tag) +
               " does not match its value",
           "remove the tag; only standard YAML tags, such as `!!str`, are "
           "supported");
  }

  void begin(NodeKind kind, const YAML::Mark& mark, const std::string& tag,
             YAML::anchor_t anchor, bool flow) {
    const uint64_t offset = places_.value(mark);
    if (builder_.wants_key()) refuse_key(places_.character(offset));
    if (tag != kPlain && tag != kQuoted && !tag.empty() &&
        tag != core_tag(kind)) {
      refuse_tag(tag, mark);
    }
    const char c = places_.character_at(offset);
    const char bracket = !flow ? '\0' : c == '[' ? ']' : c == '{' ? '}' : '\0';
    grow(1, places_.character(offset));
    open_.push_back({anchor, nodes_++, 1, bracket});
    builder_.begin(kind, offset);
    last_end_ = std::max(last_end_, offset + (bracket == '\0' ? 0 : 1));
  }

  void end() {
    const Open done = open_.back();
    open_.pop_back();
    if (done.bracket != '\0') {
      last_end_ = places_.close(last_end_, done.bracket);
    }
    const uint32_t node = builder_.end(last_end_);
    if (done.anchor != YAML::NullAnchor) {
      anchors_[done.anchor] = {node, nodes_ - done.nodes_before, done.height};
    }
    if (!open_.empty()) {
      open_.back().height = std::max(open_.back().height, done.height + 1);
    }
  }

  // Checks the depth of a value with this height inside the open lists and
  // maps.
  void grow(size_t height, Span where) {
    if (open_.size() + height > kMaxYamlDepth) {
      refuse(where, "values are nested deeper than 256 levels");
    }
    if (!open_.empty()) {
      open_.back().height = std::max(open_.back().height, height + 1);
    }
  }

  const Places& places_;
  uint64_t released_ = 0;  // text before it has been released
  DocumentBuilder& builder_;
  Includes includes_;
  int documents_ = 0;
  uint64_t last_end_ = 0;  // end of the last item
  std::vector<Open> open_;
  std::unordered_map<YAML::anchor_t, Anchor> anchors_;  // complete nodes only
  int64_t nodes_ = 0;                                   // with aliases expanded
  int64_t aliased_ = 0;  // those that come from aliases
};

// Finds bytes that yaml-cpp would misinterpret as another encoding or as the
// end of the text.
std::optional<SyntaxError> bad_character(const Places& places,
                                         std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    const auto c = static_cast<unsigned char>(text[at]);
    if (length == 0) {
      return SyntaxError{"the text contains bytes that are not UTF-8",
                         places.character(at), ""};
    }
    if ((c < 0x20 && !is_blank(text[at])) || c == 0x7F) {
      return SyntaxError{"the text contains a control character",
                         places.character(at), ""};
    }
    at += length;
  }
  return std::nullopt;
}

// Returns the first tab in the indentation of a line, which YAML does not
// allow.
std::optional<uint64_t> tab_of_indentation(std::string_view text, uint64_t at) {
  const size_t line = text.substr(0, at).rfind('\n') + 1;  // npos + 1 is 0
  const size_t first = text.find_first_not_of(" \t", line);
  const size_t tab = text.find('\t', line);
  return tab < first ? std::optional<uint64_t>(tab) : std::nullopt;
}

bool starts_name(char c) { return is_letter(c) || c == '_'; }

// Returns whether the word is a boolean or null of YAML 1.1 or 1.2.
bool is_reserved(std::string_view text) {
  return has_word("y yes n no on off true false null", lower_case(text));
}

}  // namespace

std::optional<SyntaxError> read_yaml(const SourceFile& source,
                                     DocumentBuilder& builder,
                                     Includes includes) {
  const std::string_view text = source.text();
  const uint64_t base =
      text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  const Places places(source, base);
  if (auto error = bad_character(places, text)) return error;
  try {
    std::istringstream stream{std::string(text.substr(base))};
    YAML::Parser parser(stream);
    Handler handler(places, builder, includes);
    // The second call finds the text that the first one ignored.
    if (parser.HandleNextDocument(handler)) parser.HandleNextDocument(handler);
  } catch (const SyntaxError& error) {
    return error;
  } catch (const YAML::Exception& problem) {
    const uint64_t at = places.offset(problem.mark);
    if (const auto tab = tab_of_indentation(text, at)) {
      return SyntaxError{"a tab is used as indentation", places.character(*tab),
                         "indent YAML with spaces"};
    }
    return SyntaxError{"malformed YAML: " + problem.msg, places.character(at),
                       ""};
  }
  return std::nullopt;
}

std::string yaml_string(std::string_view text) {
  return "\"" + escaped_text(text, false) + "\"";
}

std::string yaml_word(std::string_view text) {
  const bool plain = !text.empty() && starts_name(text.front()) &&
                     std::ranges::all_of(text, [](char c) {
                       return starts_name(c) || is_digit(c);
                     });
  return plain && !is_reserved(text) ? std::string(text) : yaml_string(text);
}

}  // namespace shardplan
