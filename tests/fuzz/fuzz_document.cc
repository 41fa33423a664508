// SPDX-License-Identifier: Apache-2.0
// JSON and YAML documents: every node reached has its place inside the text.
#include "syntax/document.h"
#include "tests/fuzz/fuzz.h"

namespace shardplan::fuzz {
namespace {

// Aliases share nodes, so a small file may stand for many: look at some.
void visit(const Node& node, size_t length, int& budget) {
  if (--budget < 0) return;
  require(node.span().begin <= node.span().end, "a span runs forwards");
  require(node.span().end <= length, "a span ends within the text");
  for (size_t i = 0; i < node.size(); ++i) visit(node.item(i), length, budget);
}

}  // namespace
}  // namespace shardplan::fuzz

FUZZ_TARGET(document) {
  using namespace shardplan;
  Diagnostics diags;
  auto source = std::make_shared<SourceFile>(
      "document", std::string(fuzz::text_of(data, size)));
  const std::optional<Document> document = parse_document(source, diags);
  fuzz::require(document.has_value() != diags.has_errors(),
                "no document without a reason, and none with one");
  int budget = 10000;
  if (document) fuzz::visit(document->root(), size, budget);
  return 0;
}
