// SPDX-License-Identifier: Apache-2.0
// shardplan_shipped FILE: parses the YAML files of rules/ and writes FILE, C++
// source that contains them as packed documents (syntax/packed_document.h).
// Only the build runs it. Exit codes: 0 written, 1 a file has an error, 2 FILE
// cannot be written.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/real_host.h"
#include "base/shipped.h"
#include "base/words.h"
#include "syntax/packed_document.h"

namespace shardplan {

std::span<const std::string_view> packed_shipped_files() { return {}; }

namespace {

// Returns a C++ string literal of arbitrary bytes. Octal escapes always have
// three digits, so the next character is never part of one.
std::string literal(std::string_view bytes) {
  constexpr size_t kPerLine = 4000;
  std::string text = "\"";
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i % kPerLine == kPerLine - 1) text += "\"\n\"";
    const auto byte = static_cast<uint8_t>(bytes[i]);
    if (byte >= ' ' && byte < 0x7F && !contains("\"\\?", bytes[i])) {
      text += bytes[i];
      continue;
    }
    text += '\\';
    for (const unsigned shift : {6U, 3U, 0U}) {
      text += static_cast<char>('0' + ((byte >> shift) & 7U));
    }
  }
  return text + '"';
}

int run(const std::string& path, Host& host) {
  std::string rows;
  for (const ShippedFile& file : shipped_files()) {
    std::string packed;
    if (file.path.ends_with(".yaml")) {
      Diagnostics diags;
      const auto document = parse_document(
          std::make_shared<const SourceFile>("rules/" + std::string(file.path),
                                             std::string(file.text)),
          diags);
      if (!document) {
        for (const Diagnostic& each : diags.all()) {
          const Span where = each.labels.front().where;
          const int64_t line = where.file->position(where.begin).line;
          host.write(Stream::Err, where.file->name() + ":" +
                                      std::to_string(line) + ": " +
                                      each.message + "\n");
        }
        return 1;
      }
      packed = pack_document(*document);
    }
    rows += "    {" + literal(packed) + ", " + std::to_string(packed.size()) +
            "},\n";
  }
  const std::string text =
      "// Made by shardplan_shipped.\n"
      "#include \"syntax/packed_document.h\"\n\n"
      "namespace shardplan {\nnamespace {\n"
      "constexpr std::string_view kFiles[] = {\n" +
      rows +
      "};\n}  // namespace\n\n"
      "std::span<const std::string_view> packed_shipped_files() {\n"
      "  return kFiles;\n}\n\n}  // namespace shardplan\n";
  std::string why;
  const auto output = host.create_file(path, why);
  if (output == nullptr || !output->write(text) || !output->commit()) {
    host.write(
        Stream::Err,
        path + ": " + (output == nullptr ? why : output->problem()) + "\n");
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace shardplan

int main(int argc, char** argv) {
  const auto host = shardplan::make_real_host();
  if (argc != 2) {
    host->write(shardplan::Stream::Err, "usage: shardplan_shipped FILE\n");
    return 2;
  }
  return shardplan::run(argv[1], *host);
}
