// SPDX-License-Identifier: Apache-2.0
// The format `native`: {"parameters": {"path": {"shape": [..], "dtype": ..}}}
// and its shorter forms, in JSON, which is streamed, or YAML.
#include "io/native/manifest.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "io/formats.h"
#include "io/native/tensor_entry.h"
#include "syntax/document.h"
#include "syntax/json.h"

namespace shardplan {
namespace {

using Token = JsonScanner::Token;

// Bytes that are read before the pages that hold them are released. A page that
// is needed again costs time, so only large files release pages.
constexpr uint64_t kWindow = uint64_t{32} << 20U;

constexpr std::string_view kForm =
    "a manifest maps names to objects such as {\"shape\": [1024, 256], "
    "\"dtype\": \"bf16\"}, or is a list of such objects with a `name`";

bool is_ignored(std::string_view key) {
  return key == "__metadata__" || key == "$schema";
}

// Returns "`layers`, `heads`, ...".
std::string known_facts() {
  return quoted_names(all_names(kFactFields), ", ") + ", `windows`";
}

class NativeReader {
 public:
  NativeReader(TokenSource tokens, Diagnostics& diags)
      : tokens_(std::move(tokens)), errors_(diags, "the manifest") {}

  // Returns nullopt when something was reported, or when the tokens ended with
  // Error, which the caller reports.
  std::optional<Manifest> read(bool wrapped) {
    const Token first = tokens_.next();
    if (const SourceFile* file = tokens_.span().file) {
      manifest_.reserve_for(file->text().size());
    }
    if (first == Token::Error) return std::nullopt;
    if (first == Token::BeginArray) {
      read_named_list();
    } else if (first == Token::BeginObject) {
      wrapped ? read_wrapper() : read_members(/*at_top=*/true);
    } else {
      return unrecognized(tokens_.span());
    }
    if (!errors_.stopped() && tokens_.next() == Token::Error) {
      return std::nullopt;
    }
    if (!strays_.empty() && !wrapped && !attributes_.seen_any()) {
      return unrecognized(strays_.front().where);
    }
    report_strays();
    if (errors_.errors() > 0 || !put_in_order()) return std::nullopt;
    manifest_.model_name = std::move(model_name_);
    manifest_.facts = facts_;
    return std::move(manifest_);
  }

 private:
  std::nullopt_t unrecognized(Span where) {
    return errors_.diags()
        .error(Code::UnrecognizedFormat, where, "this is not a manifest")
        .fact(std::string(kForm));
  }
  bool next_key() { return !errors_.stopped() && tokens_.next() == Token::Key; }
  bool next_item() { return attributes_.next_item(); }

  // Returns whether a key occurs for the second time, and reports it.
  bool is_repeated(const std::string& key, Span where,
                   std::map<std::string, Span>& seen) {
    const auto [first, is_new] = seen.emplace(key, where);
    if (is_new) return false;
    errors_
        .error(Code::DuplicateKey, where,
               "key " + in_backticks(key) + " is given twice")
        .label(first->second, "first given here");
    return true;
  }

  // The lengths of `name_` and `path_` outside the current node.
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
      if (!contains(kKnown, key)) {
        errors_.unknown_key(key, where, kKnown);
      } else if (key == "name" && token == Token::String) {
        model_name_ = tokens_.text();
      } else if (key == "name") {
        attributes_.report_kind(key, "a string", tokens_.span(), token);
      }
      tokens_.skip_value();
    }
  }

  void read_parameters(Token token) {
    if (token == Token::BeginArray) {
      read_named_list();
    } else if (token == Token::BeginObject) {
      read_members(/*at_top=*/false);
    } else {
      attributes_.report_kind("parameters", "a map or a list", tokens_.span(),
                              token);
    }
  }

  void read_facts(Token token) {
    if (token != Token::BeginObject) {
      attributes_.report_kind("facts", "a map", tokens_.span(), token);
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
      if (!repeated && name == "windows" &&
          tokens_.token() == Token::BeginArray) {
        read_windows();
        continue;
      }
      if (!repeated) read_fact(name, where);
      tokens_.skip_value();
    }
  }

  void read_windows() {
    while (next_item()) {
      const std::optional<int64_t> window = tokens_.integer();
      if (window && *window >= 0) {
        facts_.windows.push_back(*window);
      } else {
        errors_.malformed(tokens_.span(),
                          "an item of `windows` must be a number of tokens, or "
                          "0 for no limit");
      }
      tokens_.skip_value();
    }
  }

  void read_fact(const std::string& name, Span where) {
    if (name == "windows") {
      attributes_.report_kind(name, "a list", tokens_.span(), tokens_.token());
    } else if (!tokens_.integer() || *tokens_.integer() < 1) {
      errors_.malformed(tokens_.span(), "fact " + in_backticks(name) +
                                            " must be a positive integer");
    } else if (const FactField* const fact = find_named(kFactFields, name)) {
      facts_.*fact->member = tokens_.integer();
    } else {
      errors_.diags()
          .report(Code::UnknownKey, Severity::Warning, where,
                  "fact " + in_backticks(name) + " is not used")
          .fact("known facts: " + known_facts());
    }
  }

  // Reads a map of parameters and groups. At the top, without a wrapper, a few
  // keys are neither.
  void read_members(bool at_top) {
    TensorEntry group;
    std::map<std::string, Span> seen;
    while (next_key()) {
      const Span where = tokens_.span();
      const bool ignored = at_top && is_ignored(tokens_.text());
      const bool may_be_title = at_top && tokens_.text() == "name";
      if (!ignored && take_known(depth_ + 1, tokens_.text(), where)) continue;
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

  // Reads a member that is not an attribute; `path_` already includes it.
  void read_child(TensorEntry& parent, Span key) {
    const Token token = tokens_.token();
    if (token == Token::Error) return;
    const bool scalar = token != Token::BeginObject &&
                        token != Token::BeginArray && token != Token::Null;
    if (scalar ? strays_.size() < kMaxErrors : !parent.child) {
      Member member{name_.substr(key_begin_),
                    in_backticks(name_),
                    depth_,
                    key,
                    tokens_.span(),
                    token};
      if (scalar) {
        strays_.push_back(std::move(member));
      } else {
        parent.child = std::move(member);
      }
    }
    if (token == Token::BeginObject) read_object(key, /*in_list=*/false);
    if (token == Token::BeginArray) read_positional_list(key);
    if (token == Token::Null) record(TreeEntry::Kind::Group, 0, key);
  }

  void read_positional_list(Span key) {
    become_nested();
    record(TreeEntry::Kind::Group, 0, key);
    TensorEntry group;
    for (size_t index = 0; next_item(); ++index) {
      const Mark mark = enter(index);
      read_child(group, tokens_.span());
      leave(mark);
    }
  }

  void read_object(Span where, bool in_list) {
    TensorEntry entry;
    entry.first_stray = strays_.size();
    const Span begin = tokens_.span();
    const size_t tensors = manifest_.size();
    while (next_key()) {
      const Span key = tokens_.span();
      const Attribute attribute = attribute_of(tokens_.text());
      if (attribute == Attribute::None ||
          (attribute == Attribute::Name && !in_list)) {
        const Mark mark = enter(tokens_.text());
        // The first child is always read, in case this object is a tensor.
        if (!entry.child || !take_known(depth_, name_, key)) {
          tokens_.next();
          read_child(entry, key);
        }
        leave(mark);
      } else if (tokens_.next(); !attributes_.read(attribute, key, entry)) {
        const Mark mark = enter(attribute_name(attribute));
        read_child(entry, key);
        leave(mark);
      }
    }
    if (errors_.stopped() || tokens_.token() == Token::Error) return;
    if (!in_list) {
      finish_object(entry, where);
      if (manifest_.size() == tensors + 1 && entry.has(Attribute::Sizes)) {
        remember(entry, begin);
      }
    } else if (entry.has(Attribute::Name)) {
      name_ = entry.name;
      finish_object(entry, entry.name_where);
      name_.clear();
    } else if (entry.has_any()) {
      errors_.malformed(where, "an entry of the list has no `name`");
    } else {
      add_stray_item(where);
    }
  }

  // An object that was read as a tensor. A manifest has tensors of few types,
  // written alike, so an object with the same bytes is not parsed again.
  struct Known {
    std::string text;
    size_t depth = 0;
    uint32_t type = 0;
  };

  // Remembers the object just read, from `begin` on, which added a tensor.
  void remember(const TensorEntry& entry, Span begin) {
    constexpr size_t kLongest = 256;
    constexpr size_t kMax = 8;
    if (tokens_.scanner() == nullptr || entry.has(Attribute::Axes) ||
        entry.child) {
      return;
    }
    begin.end = tokens_.span().end;
    if (begin.end - begin.begin > kLongest) return;
    Known known{std::string(begin.text()), depth_,
                manifest_.type_number(manifest_.size() - 1)};
    if (known_.size() < kMax) {
      known_.push_back(std::move(known));
    } else {
      known_[next_known_++ % kMax] = std::move(known);
    }
  }

  // Called after a key. Adds the tensor if the value has the bytes of a known
  // object at `depth`; returns false if the value must be parsed. `path_` may
  // still be that of the enclosing object, unless paths are recorded.
  bool take_known(size_t depth, std::string_view name, Span where) {
    JsonScanner* scanner = tokens_.scanner();
    if (scanner == nullptr || known_.empty() || (depth != depth_ && nested_)) {
      return false;
    }
    const std::string_view ahead = scanner->ahead();
    for (const Known& known : known_) {
      if (known.depth != depth || !ahead.starts_with(known.text)) continue;
      add_known(name, known.type, where);
      scanner->skip_known(known.text.size());
      return true;
    }
    return false;
  }

  void add_known(std::string_view name, uint32_t type, Span where) {
    release_before(where);
    if (depth_ > 1) become_nested();
    const size_t index = manifest_.size();
    if (!manifest_.add_numbered(name, type, where)) {
      return too_large(name, manifest_.types()[type], where);
    }
    if (nested_) record(TreeEntry::Kind::Parameter, index, where);
  }

  void too_large(std::string_view name, const TensorType& type, Span where) {
    errors_
        .malformed(where, "with " + in_backticks(name) +
                              " the manifest exceeds 2^63 bytes")
        .fact("shape: " + shape_text(type.shape));
  }

  // Releases text before `where`, which only error messages need again.
  void release_before(Span where) {
    if (tokens_.scanner() == nullptr || where.begin - released_ < kWindow)
      return;
    released_ = where.begin;
    where.file->release_before(released_);
  }

  void finish_object(const TensorEntry& entry, Span where) {
    if (entry.has(Attribute::Sizes)) {
      finish_tensor(entry, where);
    } else if (entry.has_any()) {
      if (has_wrong_attribute(entry)) return;
      errors_.malformed(where,
                        "parameter " + in_backticks(name_) + " has no `shape`");
    } else {
      become_nested();
      record(TreeEntry::Kind::Group, 0, where);
    }
  }

  // Reports members of a parameter that are not attributes, and drops the
  // strays below them.
  bool has_wrong_attribute(const TensorEntry& entry) {
    bool found = entry.child.has_value();
    for (size_t i = entry.first_stray; i < strays_.size(); ++i) {
      if (strays_[i].depth != depth_ + 1) continue;
      found = true;
      attributes_.report(strays_[i]);
    }
    strays_.resize(std::min(strays_.size(), entry.first_stray));
    if (entry.child) attributes_.report(*entry.child);
    return found;
  }

  void finish_tensor(const TensorEntry& entry, Span where) {
    if (has_wrong_attribute(entry)) return;
    if (!entry.has(Attribute::Type)) {
      errors_.malformed(where,
                        "parameter " + in_backticks(name_) + " has no `dtype`");
      return;
    }
    if (entry.broken || !attributes_.axes_fit(entry, name_)) return;
    type_.shape = attributes_.shape();
    type_.dtype = *entry.dtype;
    release_before(where);
    if (depth_ > 1) become_nested();
    const bool buffer = entry.buffer;
    const size_t index = buffer ? manifest_.buffers().size() : manifest_.size();
    if (!manifest_.add(name_, type_, where, buffer)) {
      return too_large(name_, type_, where);
    }
    if (!buffer && entry.has(Attribute::Axes)) {
      manifest_.set_axes(index, entry.axes);
    }
    if (!nested_) return;
    record(buffer ? TreeEntry::Kind::Buffer : TreeEntry::Kind::Parameter, index,
           where);
  }

  void report_strays() {
    for (const Member& stray : strays_) {
      if (errors_.stopped()) return;
      errors_
          .malformed(
              stray.where,
              stray.name + " is neither a parameter nor a group of parameters")
          .fact(std::string(kForm));
    }
  }

  void record(TreeEntry::Kind kind, size_t index, Span where) {
    entries_.push_back({path_, kind, static_cast<uint32_t>(index), where});
  }

  // Starts recording paths; until now every tensor was at the top level.
  void become_nested() {
    if (nested_) return;
    nested_ = true;
    record_all();
  }
  void record_all() {
    for (size_t i = 0; i < manifest_.any_size(); ++i) {
      const bool buffer = i >= manifest_.size();
      std::string path;
      append_key(path, manifest_.any_name(i));
      entries_.push_back(
          {std::move(path),
           buffer ? TreeEntry::Kind::Buffer : TreeEntry::Kind::Parameter,
           static_cast<uint32_t>(buffer ? i - manifest_.size() : i),
           manifest_.any_where(i)});
    }
  }

  // load_manifest() finds two flat tensors with the same name.
  bool put_in_order() {
    if (entries_.empty()) return true;
    if (!nested_) record_all();  // a null may have a tensor's name
    if (!sort_entries(entries_, errors_.diags())) return false;
    if (nested_) manifest_ = reordered(manifest_, entries_);
    return true;
  }

  TokenSource tokens_;
  ErrorLimit errors_;
  AttributeReader attributes_{tokens_, errors_};
  Manifest manifest_;
  std::string model_name_;
  Facts facts_;
  // Scalars in place of tensors and groups, at most kMaxErrors.
  std::vector<Member> strays_;

  std::string name_;
  std::string path_;
  size_t depth_ = 0;
  size_t key_begin_ = 0;  // start of the last part of `name_`
  bool nested_ = false;
  std::vector<TreeEntry> entries_;  // nodes of a nested tree, and nulls

  TensorType type_;  // reused
  std::vector<Known> known_;
  size_t next_known_ = 0;
  uint64_t released_ = 0;  // bytes of the text released so far
};

// The format, read as JSON or as a tree.

// Returns whether the text starts like JSON: a bracket and then a string, or
// empty brackets. YAML's flow style rarely does.
bool looks_like_json(std::string_view text) {
  const size_t first = text.find_first_not_of("{[ \t\r\n");
  return first > 0 && text.find_first_of("{[") < first &&
         (first == std::string_view::npos || text[first] == '"' ||
          text[first] == ']' || text[first] == '}');
}

// This search recognises most manifests without a wrapper, and saves a second
// pass over their tokens. An escape may hide the word. memmem is several times
// as fast as string_view::find.
bool may_have_wrapper(std::string_view text) {
  constexpr std::string_view kWord = "parameters";
  return memmem(text.data(), text.size(), kWord.data(), kWord.size()) !=
             nullptr ||
         contains(text, "\\u");
}

std::optional<Manifest> read_json(const SourceFile& source,
                                  Diagnostics& diags) {
  const bool wrapped = may_have_wrapper(source.text()) && [&] {
    JsonScanner ahead(source);
    return has_wrapper(TokenSource(ahead));
  }();
  if (source.text().size() >= kWindow)
    source.release_before(source.text().size());
  JsonScanner scanner(source);
  auto manifest = read_native(TokenSource(scanner), wrapped, diags);
  if (scanner.token() == JsonScanner::Token::Error) scanner.report(diags);
  return manifest;
}

std::optional<Manifest> read_tree(const SourcePtr& source, Diagnostics& diags) {
  const auto document = parse_document(source, diags);
  if (!document) return std::nullopt;
  const bool wrapped = has_wrapper(TokenSource(*document));
  return read_native(TokenSource(*document), wrapped, diags);
}

// Accepts any text that no other format claims; this format is tried last.
bool recognize(std::string_view head) {
  if (contains(head, '\0')) return false;
  const auto names = {"\"weight_map\"", "\"model_type\"", "\"architectures\"",
                      "\"shardplan.plan/"};
  return std::ranges::none_of(
      names, [&](std::string_view name) { return contains(head, name); });
}

std::optional<Manifest> read(const ManifestSource& model, Host& /*host*/,
                             Diagnostics& diags) {
  diags.add_source(model.file);
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

bool has_wrapper(TokenSource tokens) {
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
    if (attribute == Attribute::Type) return first != Token::String;
    if (attribute == Attribute::Sizes) return first != Token::BeginArray;
    return true;
  }
  return false;
}

std::optional<Manifest> read_native(TokenSource tokens, bool wrapped,
                                    Diagnostics& diags) {
  return NativeReader(std::move(tokens), diags).read(wrapped);
}

}  // namespace shardplan
