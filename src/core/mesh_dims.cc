// SPDX-License-Identifier: Apache-2.0
#include "core/mesh_dims.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/text.h"

namespace shardplan {
namespace {

Span trimmed(Span span) {
  const auto is_blank = [](char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
  };
  while (span.begin < span.end && is_blank(span.text().front())) ++span.begin;
  while (span.begin < span.end && is_blank(span.text().back())) --span.end;
  return span;
}

// What Python's int() takes: blanks around it, a sign, `_` between digits.
std::optional<int64_t> parse_size(Span where, Diagnostics& diags) {
  const std::string_view text = trimmed(where).text();
  std::string digits;
  bool after_digit = false;
  bool good = true;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool is_digit = c >= '0' && c <= '9';
    const bool sign = i == 0 && (c == '-' || c == '+');
    good = good && (is_digit || sign || (c == '_' && after_digit));
    if (is_digit || c == '-') digits += c;
    after_digit = is_digit;
  }
  int64_t size = 0;
  const auto [last, problem] =
      std::from_chars(digits.data(), digits.data() + digits.size(), size);
  if (good && after_digit && problem == std::errc()) return size;
  return diags
      .error(Code::InvalidMesh, where,
             "`" + printable(text) + "` is not the size of an axis")
      .help("a size is a positive integer, or -1 for the rest of `--devices`");
}

std::string names_text(const AxisNames& names) {
  std::string text;
  for (const AxisName& name : names) {
    text += (text.empty() ? "`" : ", `") + printable(name) + "`";
  }
  return text;
}

Diagnostics::Builder report_count(size_t sizes, const AxisNames& names,
                                  Span where, Diagnostics& diags) {
  auto report =
      diags.error(Code::InvalidMesh, where,
                  "there are " + std::to_string(sizes) + " sizes for " +
                      plural(static_cast<int64_t>(names.size()), "axis"));
  report.fact("the axes are " + names_text(names));
  return report;
}

// The parts of a text between commas.
std::vector<Span> split(const SourceFile& source) {
  std::vector<Span> parts;
  const std::string_view text = source.text();
  for (uint64_t begin = 0; begin <= text.size();) {
    const uint64_t end = std::min<uint64_t>(text.find(',', begin), text.size());
    parts.push_back({&source, begin, end});
    begin = end + 1;
  }
  return parts;
}

std::optional<AxisRequest> parse_named(Span part, const AxisNames& names,
                                       Diagnostics& diags) {
  const size_t colon = part.text().find(':');
  const Span name{part.file, part.begin, part.begin + colon};
  if (colon == std::string_view::npos ||
      std::find(names.begin(), names.end(), name.text()) == names.end()) {
    return diags
        .error(Code::InvalidMesh, part,
               "`" + printable(part.text().substr(0, colon)) +
                   "` is not one of the axes")
        .fact("the axes are " + names_text(names));
  }
  const Span size{part.file, part.begin + colon + 1, part.end};
  const auto number = parse_size(size, diags);
  if (!number) return std::nullopt;
  return AxisRequest{std::string(name.text()), *number, part, name, size};
}

}  // namespace

std::optional<std::vector<AxisRequest>> axes_of_dims(
    std::span<const int64_t> dims, const AxisNames& names, Span where,
    Diagnostics& diags) {
  if (dims.size() != names.size()) {
    return report_count(dims.size(), names, where, diags);
  }
  std::vector<AxisRequest> axes;
  for (size_t i = 0; i < dims.size(); ++i) {
    axes.push_back({names[i], dims[i] < 0 ? -1 : dims[i], where, where, where});
  }
  return axes;
}

std::optional<std::vector<AxisRequest>> parse_mesh_dims(
    const SourceFile& source, const AxisNames& names, Diagnostics& diags) {
  const std::vector<Span> parts = split(source);
  if (source.text().find(':') == std::string_view::npos) {
    std::vector<int64_t> sizes;
    for (const Span& part : parts) {
      const auto size = parse_size(part, diags);
      if (!size) return std::nullopt;
      sizes.push_back(*size);
    }
    return axes_of_dims(sizes, names, {&source, 0, source.text().size()},
                        diags);
  }
  if (parts.size() != names.size()) {
    return report_count(parts.size(), names, {&source, 0, source.text().size()},
                        diags);
  }
  std::vector<AxisRequest> axes;
  for (const Span& part : parts) {
    auto axis = parse_named(part, names, diags);
    if (!axis) return std::nullopt;
    axis->size = std::max<int64_t>(axis->size, -1);
    axes.push_back(*std::move(axis));
  }
  for (const AxisName& name : names) {
    const bool used =
        std::any_of(axes.begin(), axes.end(),
                    [&](const AxisRequest& a) { return a.name == name; });
    if (used) continue;
    return diags.error(Code::InvalidMesh, {&source, 0, source.text().size()},
                       "axis `" + printable(name) + "` has no size");
  }
  return axes;
}

}  // namespace shardplan
