// SPDX-License-Identifier: Apache-2.0
// The native manifest: {"parameters": {"path": {"shape": [..], "dtype": ..}}}
// and its shorter forms, in JSON, which is streamed, or YAML.
#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>

#include "io/document.h"
#include "io/formats/formats.h"
#include "io/json_scanner.h"
#include "io/native_reader.h"
#include "io/node_tokens.h"
#include "io/token_source.h"

namespace shardplan {
namespace {

// JSON begins with a bracket and then a string, or with empty brackets; YAML's
// flow style mostly does not.
bool looks_like_json(std::string_view text) {
  const size_t first = text.find_first_not_of("{[ \t\r\n");
  return first > 0 && text.find_first_of("{[") < first &&
         (first == std::string_view::npos || text[first] == '"' ||
          text[first] == ']' || text[first] == '}');
}

// Most manifests without a wrapper are told by a search alone, without a second
// pass over their tokens. An escape may hide the word.
bool may_have_wrapper(std::string_view text) {
  static constexpr std::string_view kWord = "parameters";
  const std::boyer_moore_horspool_searcher search(kWord.begin(), kWord.end());
  return std::search(text.begin(), text.end(), search) != text.end() ||
         text.find("\\u") != std::string_view::npos;
}

std::optional<Manifest> read_json(const SourceFile& source,
                                  Diagnostics& diags) {
  const bool wrapped = may_have_wrapper(source.text()) && [&] {
    JsonScanner ahead(source);
    return has_wrapper(TokenSource(ahead));
  }();
  JsonScanner scanner(source);
  auto manifest = read_native(TokenSource(scanner), wrapped, diags);
  if (scanner.token() == JsonScanner::Token::Error) scanner.report(diags);
  return manifest;
}

std::optional<Manifest> read_tree(const SourcePtr& source, Diagnostics& diags) {
  const auto document = parse_document(source, diags);
  if (!document) return std::nullopt;
  NodeTokens tokens(*document);
  NodeTokens ahead(*document);
  const bool wrapped = has_wrapper(TokenSource(ahead));
  return read_native(TokenSource(tokens), wrapped, diags);
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
