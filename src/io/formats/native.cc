// SPDX-License-Identifier: Apache-2.0
// The native manifest: {"parameters": {"path": {"shape": [..], "dtype": ..}}},
// without the wrapper, as a list of named entries, or as a nested tree.
//
// One pass from the text to the manifest's columns. Whether an object is a
// parameter is known only at its end, since `shape` may stand anywhere in it;
// what it has besides is kept until then. A flat manifest keeps the order of
// the file. Once anything is nested, every path is recorded, and the manifest
// is put in the order of the tree at the end.
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "io/document.h"
#include "io/formats/formats.h"
#include "io/json_scanner.h"
#include "io/node_tokens.h"
#include "io/tree_order.h"

namespace shardplan {
namespace {

using Token = JsonScanner::Token;

constexpr size_t kMaxErrors = 20;
constexpr std::string_view kForm =
    "a manifest maps names to objects such as {\"shape\": [1024, 256], "
    "\"dtype\": \"bf16\"}, or is a list of such objects with a `name`";

enum class Attribute : uint8_t { Shape, DType, Axes, Buffer, Name, None };

// `name` last: only entries of a list have it.
const std::array<std::string, 5>& attribute_names() {
  static const std::array<std::string, 5> kNames = {"shape", "dtype", "axes",
                                                    "buffer", "name"};
  return kNames;
}

Attribute attribute_of(std::string_view key) {
  const auto& names = attribute_names();
  const auto found = std::find(names.begin(), names.end(), key);
  return static_cast<Attribute>(found - names.begin());
}

const std::string& attribute_name(Attribute attribute) {
  return attribute_names().at(static_cast<size_t>(attribute));
}

bool is_ignored(std::string_view key) {
  return key == "__metadata__" || key == "$schema";
}

std::string_view token_kind(Token token) {
  switch (token) {
    case Token::BeginObject:
      return kind_name(NodeKind::Map);
    case Token::BeginArray:
      return kind_name(NodeKind::List);
    case Token::String:
      return kind_name(NodeKind::String);
    case Token::Number:
      return kind_name(NodeKind::Real);
    case Token::True:
    case Token::False:
      return kind_name(NodeKind::Bool);
    default:
      return kind_name(NodeKind::Null);
  }
}

std::optional<int64_t> ModelFacts::*fact_member(std::string_view name) {
  if (name == "heads") return &ModelFacts::heads;
  if (name == "kv_heads") return &ModelFacts::kv_heads;
  if (name == "head_dim") return &ModelFacts::head_dim;
  if (name == "experts") return &ModelFacts::experts;
  if (name == "layers") return &ModelFacts::layers;
  return nullptr;
}

std::string quoted(std::string_view name) {
  return "`" + printable(name) + "`";
}

// A member of an object that is no attribute of a parameter. Whether that is
// an error depends on what the object turns out to be.
struct Member {
  std::string key;
  std::string name;  // what to call it in a message
  size_t depth = 0;  // parts of its path
  Span key_where;
  Span where;
  Token token = Token::Null;
};

// What an object has of a parameter, and what else.
struct Candidate {
  std::array<Span, 5> where;  // of each attribute's key; null: absent
  Span name_where;
  std::string name;  // in a list
  std::optional<DType> dtype;
  AxisLabels axes;
  bool buffer = false;
  bool broken = false;          // and that has been reported
  size_t first_stray = 0;       // of its members, on the reader's stack
  std::optional<Member> child;  // the first object, list or null

  Span& at(Attribute attribute) {
    return where.at(static_cast<size_t>(attribute));
  }
  bool has(Attribute attribute) const {
    return static_cast<bool>(where.at(static_cast<size_t>(attribute)));
  }
  bool has_any() const {
    return std::any_of(where.begin(), where.end(),
                       [](Span span) { return static_cast<bool>(span); });
  }
};

std::string bad_dimension(Token token, std::string_view text) {
  if (token != Token::Number) {
    return "a dimension must be an integer, not " +
           std::string(token_kind(token));
  }
  if (text.front() == '-') return "a dimension is negative";
  return text.find_first_not_of("0123456789") == std::string_view::npos
             ? "a dimension does not fit 63 bits"
             : "a dimension is not a whole number";
}

// Tokens: JsonScanner or NodeTokens.
template <typename Tokens>
class NativeReader {
 public:
  NativeReader(Tokens& tokens, Diagnostics& diags)
      : tokens_(tokens), diags_(diags) {}

  // Empty when something was reported, or when the tokens ended with Error,
  // which the caller reports.
  std::optional<Manifest> read(bool wrapped) {
    switch (tokens_.next()) {
      case Token::BeginObject:
        wrapped ? read_wrapper() : read_top_level();
        break;
      case Token::BeginArray:
        read_named_list();
        break;
      case Token::Error:
        return std::nullopt;
      default:
        return unrecognized(tokens_.span());
    }
    if (!stopped_ && tokens_.next() == Token::Error) return std::nullopt;
    if (!strays_.empty() && !tensor_seen_) {
      return unrecognized(strays_.front().where);
    }
    report_strays();
    if (errors_ > 0 || !put_in_order()) return std::nullopt;
    manifest_.model_name = std::move(model_name_);
    manifest_.facts = facts_;
    return std::move(manifest_);
  }

 private:
  Diagnostics::Builder error(Code code, Span where, std::string message) {
    const auto problem = diags_.error(code, where, std::move(message));
    count_error(where);
    return problem;
  }
  Diagnostics::Builder malformed(Span where, std::string message) {
    return error(Code::MalformedDocument, where, std::move(message));
  }
  void unknown_key(std::string_view key, Span where,
                   std::span<const std::string> known) {
    report_unknown_key(key, where, known, diags_);
    count_error(where);
  }
  void count_error(Span where) {
    if (++errors_ != kMaxErrors) return;
    stopped_ = true;
    diags_.report(Code::MalformedDocument, Severity::Note, where,
                  "the manifest was read no further: too many errors");
  }
  std::nullopt_t unrecognized(Span where) {
    return diags_.error(Code::UnrecognizedFormat, where, "this is no manifest")
        .fact(std::string(kForm));
  }
  void wrong_kind(std::string_view what, std::string_view expected, Span where,
                  Token token) {
    malformed(where, quoted(what) + " must be " + std::string(expected) +
                         ", not " + std::string(token_kind(token)));
  }

  bool next_key() { return !stopped_ && tokens_.next() == Token::Key; }
  bool next_item() {
    if (stopped_) return false;
    const Token token = tokens_.next();
    return token != Token::EndArray && token != Token::Error;
  }

  // Whether a key was there before, which is reported.
  bool is_repeated(const std::string& key, Span where,
                   std::map<std::string, Span>& seen) {
    const auto [first, is_new] = seen.emplace(key, where);
    if (is_new) return false;
    error(Code::DuplicateKey, where, "key " + quoted(key) + " is given twice")
        .label(first->second, "first given here");
    return true;
  }

  // The path of the node that is read.
  struct Mark {
    size_t name = 0;
    size_t path = 0;
  };
  Mark enter(std::string_view key) {
    const Mark mark = enter_part();
    name_ += key;
    append_key(path_, key);
    return mark;
  }
  Mark enter(size_t index) {
    const Mark mark = enter_part();
    name_ += std::to_string(index);
    append_index(path_, index);
    return mark;
  }
  Mark enter_part() {
    const Mark mark{name_.size(), path_.size()};
    if (depth_++ > 0) name_ += '/';
    key_begin_ = name_.size();
    return mark;
  }
  void leave(const Mark& mark) {
    --depth_;
    name_.resize(mark.name);
    path_.resize(mark.path);
  }

  void read_wrapper() {
    static const std::array<std::string, 5> kKnown = {
        "name", "parameters", "facts", "$schema", "__metadata__"};
    std::map<std::string, Span> seen;
    while (next_key()) {
      const std::string key(tokens_.text());
      const Span where = tokens_.span();
      const bool repeated = is_repeated(key, where, seen);
      const Token token = tokens_.next();
      if (token == Token::Error) return;
      if (!repeated && key == "parameters") {
        read_parameters(token);
        continue;
      }
      if (!repeated && key == "facts") {
        read_facts(token);
        continue;
      }
      if (std::find(kKnown.begin(), kKnown.end(), key) == kKnown.end()) {
        unknown_key(key, where, kKnown);
      } else if (key == "name" && token == Token::String) {
        model_name_ = tokens_.text();
      } else if (key == "name") {
        wrong_kind(key, "text", tokens_.span(), token);
      }
      tokens_.skip_value();
    }
  }

  void read_parameters(Token token) {
    tensor_seen_ = true;  // a wrapper is a manifest, whatever is in it
    if (token == Token::BeginArray) {
      read_named_list();
    } else if (token == Token::BeginObject) {
      Candidate group;
      while (next_key()) {
        const Span where = tokens_.span();
        const Mark mark = enter(tokens_.text());
        tokens_.next();
        read_child(group, where);
        leave(mark);
      }
    } else {
      wrong_kind("parameters", "a map or a list", tokens_.span(), token);
    }
  }

  void read_facts(Token token) {
    if (token != Token::BeginObject) {
      wrong_kind("facts", "a map", tokens_.span(), token);
      tokens_.skip_value();
      return;
    }
    facts_.from = FactsFrom::Manifest;
    std::map<std::string, Span> seen;
    while (next_key()) {
      const std::string name(tokens_.text());
      const Span where = tokens_.span();
      const bool repeated = is_repeated(name, where, seen);
      if (tokens_.next() == Token::Error) return;
      if (!repeated) read_fact(name, where);
      tokens_.skip_value();
    }
  }

  void read_fact(const std::string& name, Span where) {
    if (!tokens_.integer() || *tokens_.integer() < 1) {
      malformed(tokens_.span(),
                "fact " + quoted(name) + " must be a positive integer");
    } else if (const auto member = fact_member(name)) {
      facts_.*member = tokens_.integer();
    } else {
      diags_
          .report(Code::UnknownKey, Severity::Warning, where,
                  "fact " + quoted(name) + " is not used")
          .fact(
              "known facts: `heads`, `kv_heads`, `head_dim`, `experts`, "
              "`layers`");
    }
  }

  // Without a wrapper all keys are parameters or groups, but for a few.
  void read_top_level() {
    Candidate group;
    std::map<std::string, Span> seen;
    while (next_key()) {
      const Span where = tokens_.span();
      const bool ignored = is_ignored(tokens_.text());
      const bool may_be_title = tokens_.text() == "name";
      const Mark mark = enter(tokens_.text());
      const Token token = tokens_.next();
      if (ignored) {
        tokens_.skip_value();
      } else if (may_be_title && token == Token::String) {
        is_repeated("name", where, seen);
        model_name_ = tokens_.text();
      } else {
        read_child(group, where);
      }
      leave(mark);
    }
  }

  void read_named_list() {
    while (next_item()) {
      if (tokens_.token() == Token::BeginObject) {
        read_object(tokens_.span(), /*in_list=*/true);
      } else {
        add_stray_item(tokens_.span());
        tokens_.skip_value();
      }
    }
  }

  void add_stray_item(Span where) {
    if (strays_.size() == kMaxErrors) return;
    strays_.push_back(
        {"", "an item of the list", depth_ + 1, where, where, tokens_.token()});
  }

  // A member that is no attribute; the path is already its own.
  void read_child(Candidate& parent, Span key) {
    const Token token = tokens_.token();
    if (token == Token::Error) return;
    const bool scalar = token != Token::BeginObject &&
                        token != Token::BeginArray && token != Token::Null;
    if (scalar ? strays_.size() < kMaxErrors : !parent.child) {
      Member member{name_.substr(key_begin_), quoted(name_), depth_, key,
                    tokens_.span(),           token};
      if (scalar) strays_.push_back(std::move(member));
      if (!scalar) parent.child = std::move(member);
    }
    if (token == Token::BeginObject) read_object(key, /*in_list=*/false);
    if (token == Token::BeginArray) read_positional_list(key);
    if (token == Token::Null) record(TreeEntry::Kind::Group, 0, key);
  }

  void read_positional_list(Span key) {
    become_nested();
    record(TreeEntry::Kind::Group, 0, key);
    Candidate group;
    for (size_t index = 0; next_item(); ++index) {
      const Mark mark = enter(index);
      read_child(group, tokens_.span());
      leave(mark);
    }
  }

  void read_object(Span where, bool in_list) {
    Candidate candidate;
    candidate.first_stray = strays_.size();
    while (next_key()) {
      const Span key = tokens_.span();
      const Attribute attribute = attribute_of(tokens_.text());
      if (attribute == Attribute::None ||
          (attribute == Attribute::Name && !in_list)) {
        const Mark mark = enter(tokens_.text());
        tokens_.next();
        read_child(candidate, key);
        leave(mark);
      } else if (tokens_.next(); !read_attribute(attribute, key, candidate)) {
        const Mark mark = enter(attribute_name(attribute));
        read_child(candidate, key);
        leave(mark);
      }
    }
    if (stopped_ || tokens_.token() == Token::Error) return;
    if (!in_list) {
      finish_object(candidate, where);
    } else if (candidate.has(Attribute::Name)) {
      name_ = candidate.name;
      finish_object(candidate, candidate.name_where);
      name_.clear();
    } else if (candidate.has_any()) {
      malformed(where, "an entry of the list has no `name`");
    } else {
      add_stray_item(where);
    }
  }

  static bool suits(Attribute attribute, Token token) {
    switch (attribute) {
      case Attribute::Shape:
        return token == Token::BeginArray;
      case Attribute::Axes:
        return token == Token::BeginArray || token == Token::Null;
      case Attribute::Buffer:
        return token == Token::True || token == Token::False;
      default:
        return token == Token::String;
    }
  }

  // False when the value is not of the attribute's kind.
  bool read_attribute(Attribute attribute, Span key, Candidate& candidate) {
    const Token token = tokens_.token();
    if (!suits(attribute, token)) return false;
    if (candidate.has(attribute)) {
      candidate.broken = true;
      error(Code::DuplicateKey, key,
            "key `" + attribute_name(attribute) + "` is given twice")
          .label(candidate.at(attribute), "first given here");
      tokens_.skip_value();
      return true;
    }
    candidate.at(attribute) = key;
    tensor_seen_ = true;
    if (attribute == Attribute::Shape) read_shape(candidate);
    if (attribute == Attribute::DType) read_dtype(candidate);
    if (attribute == Attribute::Axes) read_axes(candidate);
    if (attribute == Attribute::Buffer) candidate.buffer = token == Token::True;
    if (attribute == Attribute::Name) {
      candidate.name = tokens_.text();
      candidate.name_where = tokens_.span();
    }
    return true;
  }

  void read_shape(Candidate& candidate) {
    type_.shape.clear();
    while (next_item()) {
      const std::optional<int64_t> size = tokens_.integer();
      if (size && *size >= 0) {
        type_.shape.push_back(*size);
        continue;
      }
      candidate.broken = true;
      malformed(tokens_.span(), bad_dimension(tokens_.token(), tokens_.text()));
      tokens_.skip_value();
    }
  }

  void read_dtype(Candidate& candidate) {
    if (tokens_.text() != last_dtype_text_) {
      last_dtype_text_ = tokens_.text();
      last_dtype_ = find_dtype(last_dtype_text_);
    }
    candidate.dtype = last_dtype_;
    if (last_dtype_) return;
    candidate.broken = true;
    auto problem = error(Code::UnknownDtype, tokens_.span(),
                         quoted(last_dtype_text_) + " is not a dtype");
    const std::string near = nearest_dtype(last_dtype_text_);
    if (!near.empty()) {
      problem.help("write `" + near + "` if that is what was meant");
    }
  }

  void read_axes(Candidate& candidate) {
    if (tokens_.token() == Token::Null) {
      candidate.at(Attribute::Axes) = {};
      return;
    }
    while (next_item()) {
      if (tokens_.token() == Token::String) {
        candidate.axes.emplace_back(std::string(tokens_.text()));
      } else if (tokens_.token() == Token::Null) {
        candidate.axes.emplace_back(std::nullopt);
      } else {
        candidate.broken = true;
        malformed(tokens_.span(),
                  "an entry of `axes` must be a name or null, not " +
                      std::string(token_kind(tokens_.token())));
        tokens_.skip_value();
      }
    }
  }

  void finish_object(const Candidate& candidate, Span where) {
    if (candidate.has(Attribute::Shape)) {
      finish_tensor(candidate, where);
    } else if (candidate.has_any()) {
      if (has_wrong_attribute(candidate)) return;
      malformed(where, "parameter " + quoted(name_) + " has no `shape`");
    } else {
      become_nested();
      record(TreeEntry::Kind::Group, 0, where);
    }
  }

  // Reports members of a parameter that are none of its attributes, and forgets
  // what was odd below them.
  bool has_wrong_attribute(const Candidate& candidate) {
    bool found = candidate.child.has_value();
    for (size_t i = candidate.first_stray; i < strays_.size(); ++i) {
      if (strays_[i].depth != depth_ + 1) continue;
      found = true;
      report_member(strays_[i]);
    }
    strays_.resize(std::min(strays_.size(), candidate.first_stray));
    if (candidate.child) report_member(*candidate.child);
    return found;
  }

  void report_member(const Member& member) {
    static constexpr std::array<std::string_view, 4> kKinds = {
        "a list", "text", "a list", "true or false"};
    const auto attribute = static_cast<size_t>(attribute_of(member.key));
    if (attribute < kKinds.size()) {
      wrong_kind(member.key, kKinds.at(attribute), member.where, member.token);
    } else {
      unknown_key(member.key, member.key_where,
                  std::span(attribute_names()).first(kKinds.size()));
    }
  }

  void finish_tensor(const Candidate& candidate, Span where) {
    if (has_wrong_attribute(candidate)) return;
    if (!candidate.has(Attribute::DType)) {
      malformed(where, "parameter " + quoted(name_) + " has no `dtype`");
      return;
    }
    if (candidate.broken) return;
    if (candidate.has(Attribute::Axes) &&
        candidate.axes.size() != type_.shape.size()) {
      malformed(
          candidate.where.at(static_cast<size_t>(Attribute::Axes)),
          "`axes` of " + quoted(name_) + " names " +
              plural(static_cast<int64_t>(candidate.axes.size()), "dimension") +
              ", but the shape has " + std::to_string(type_.shape.size()));
      return;
    }
    type_.dtype = *candidate.dtype;
    add_tensor(candidate, where);
  }

  void add_tensor(const Candidate& candidate, Span where) {
    if (depth_ > 1) become_nested();
    const bool buffer = candidate.buffer;
    const size_t index = buffer ? manifest_.buffers().size() : manifest_.size();
    if (!manifest_.add(name_, type_, where, buffer)) {
      malformed(where, "with " + quoted(name_) +
                           " the size of the manifest does not fit 63 bits")
          .fact("shape: " + shape_text(type_.shape));
      return;
    }
    if (!buffer && candidate.has(Attribute::Axes)) {
      manifest_.set_axes(index, candidate.axes);
    }
    if (!nested_) return;
    record(buffer ? TreeEntry::Kind::Buffer : TreeEntry::Kind::Parameter, index,
           where);
  }

  void report_strays() {
    for (const Member& stray : strays_) {
      if (stopped_) return;
      malformed(stray.where,
                stray.name + " is neither a parameter nor a group of them")
          .fact(std::string(kForm));
    }
  }

  void record(TreeEntry::Kind kind, size_t index, Span where) {
    entries_.push_back({path_, kind, static_cast<uint32_t>(index), where});
  }

  // Until now every tensor stood at the top.
  void become_nested() {
    if (nested_) return;
    nested_ = true;
    record_all();
  }
  void record_all() {
    for (size_t i = 0; i < manifest_.size(); ++i) {
      std::string path;
      append_key(path, manifest_.name(i));
      entries_.push_back({std::move(path), TreeEntry::Kind::Parameter,
                          static_cast<uint32_t>(i), manifest_.where(i)});
    }
    for (size_t i = 0; i < manifest_.buffers().size(); ++i) {
      const Manifest::Buffer& buffer = manifest_.buffers()[i];
      std::string path;
      append_key(path, buffer.name);
      entries_.push_back({std::move(path), TreeEntry::Kind::Buffer,
                          static_cast<uint32_t>(i), buffer.where});
    }
  }

  // Two flat tensors of one name are found by load_manifest.
  bool put_in_order() {
    if (entries_.empty()) return true;
    if (!nested_) record_all();  // a null may bear the name of a tensor
    if (!sort_entries(entries_, diags_)) return false;
    if (nested_) manifest_ = reordered(manifest_, entries_);
    return true;
  }

  Tokens& tokens_;
  Diagnostics& diags_;
  Manifest manifest_;
  std::string model_name_;
  ModelFacts facts_;
  size_t errors_ = 0;
  bool stopped_ = false;
  bool tensor_seen_ = false;  // or something that was meant to be one
  // Scalars where tensors and groups are expected, at most kMaxErrors.
  std::vector<Member> strays_;

  std::string name_;
  std::string path_;
  size_t depth_ = 0;
  size_t key_begin_ = 0;  // of the last part within `name_`
  bool nested_ = false;
  std::vector<TreeEntry> entries_;  // of a nested tree, and nulls

  TensorType type_;  // of the object that is read
  std::string last_dtype_text_;
  std::optional<DType> last_dtype_;
};

// Whether the outermost map has a key `parameters` that is no parameter itself.
template <typename Tokens>
bool has_wrapper(Tokens tokens) {
  if (tokens.next() != Token::BeginObject) return false;
  while (tokens.next() == Token::Key) {
    const bool found = tokens.text() == "parameters";
    const Token value = tokens.next();
    if (!found) {
      tokens.skip_value();
      continue;
    }
    if (value != Token::BeginObject) return value == Token::BeginArray;
    if (tokens.next() != Token::Key) return true;
    const Attribute attribute = attribute_of(tokens.text());
    const Token first = tokens.next();
    if (attribute == Attribute::DType) return first != Token::String;
    if (attribute == Attribute::Shape) return first != Token::BeginArray;
    return true;
  }
  return false;
}

// JSON begins with a bracket and then a string, or with empty brackets; YAML's
// flow style mostly does not.
bool looks_like_json(std::string_view text) {
  const size_t first = text.find_first_not_of("{[ \t\r\n");
  return first > 0 && text.find_first_of("{[") < first &&
         (first == std::string_view::npos || text[first] == '"' ||
          text[first] == ']' || text[first] == '}');
}

std::optional<Manifest> read_json(const SourceFile& source,
                                  Diagnostics& diags) {
  // Most manifests without a wrapper are told by a search for the word alone.
  static constexpr std::string_view kWord = "parameters";
  const std::string_view text = source.text();
  const bool may_have_wrapper =
      std::search(text.begin(), text.end(),
                  std::boyer_moore_horspool_searcher(
                      kWord.begin(), kWord.end())) != text.end();
  JsonScanner scanner(source);
  const bool wrapped = may_have_wrapper && has_wrapper(JsonScanner(source));
  auto manifest = NativeReader<JsonScanner>(scanner, diags).read(wrapped);
  if (scanner.token() == Token::Error) scanner.report(diags);
  return manifest;
}

std::optional<Manifest> read_tree(const SourcePtr& source, Diagnostics& diags) {
  const auto document = parse_document(source, diags);
  if (!document) return std::nullopt;
  NodeTokens tokens(*document);
  const bool wrapped = has_wrapper(NodeTokens(*document));
  return NativeReader<NodeTokens>(tokens, diags).read(wrapped);
}

// The last format that is tried: what no other format claims, if it is text.
bool recognize(std::string_view head) {
  if (head.find('\0') != std::string_view::npos) return false;
  const auto names = {"\"weight_map\"", "\"model_type\"", "\"architectures\"",
                      "\"shardplan.plan/"};
  return std::none_of(names.begin(), names.end(), [&](std::string_view name) {
    return head.find(name) != std::string_view::npos;
  });
}

std::optional<Manifest> read(const ModelSource& model, Host& /*host*/,
                             Diagnostics& diags) {
  diags.keep(model.file);
  auto manifest = looks_like_json(model.file->text())
                      ? read_json(*model.file, diags)
                      : read_tree(model.file, diags);
  if (!manifest) return std::nullopt;
  manifest->title = model.path;
  manifest->format = kNative.name;
  manifest->sources.push_back(model.file);
  return manifest;
}

}  // namespace

const ManifestFormat kNative = {
    "native", "names, shapes and dtypes in JSON or YAML", recognize, read};

}  // namespace shardplan
