// SPDX-License-Identifier: Apache-2.0
#include "io/python_text.h"

#include "base/text.h"
#include "io/text_escape.h"

namespace shardplan {
namespace {

bool is_plain_text(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (!is_printable(decode_utf8(text, at))) return false;
  }
  return true;
}

// A raw string keeps its backslashes, so it cannot hold its own quote, nor end
// with an odd number of backslashes.
bool fits_raw(std::string_view text) {
  const size_t last = text.find_last_not_of('\\');
  const size_t trailing =
      text.size() - (last == std::string_view::npos ? 0 : last + 1);
  return text.find('"') == std::string_view::npos && trailing % 2 == 0 &&
         is_plain_text(text);
}

std::string escaped(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t code = decode_utf8(text, at);
    if (code == U'\n' || code == U'\t') {
      out += code == U'\n' ? "\\n" : "\\t";
      continue;
    }
    const std::string escape = text_escape(code);
    out += escape.empty() ? text.substr(begin, at - begin) : escape;
  }
  return out;
}

}  // namespace

std::string python_string(std::string_view text) {
  if (text.find('\\') != std::string_view::npos && fits_raw(text)) {
    return "r\"" + std::string(text) + "\"";
  }
  return "\"" + escaped(text) + "\"";
}

std::string python_names(const AxisNames& names) {
  std::string text = "(";
  for (const AxisName& name : names) {
    if (text.size() > 1) text += ", ";
    text += python_string(name);
  }
  return text + (names.size() == 1 ? ",)" : ")");
}

std::string python_axes(const AxisNames& axes) {
  if (axes.empty()) return "None";
  if (axes.size() == 1) return python_string(axes.front());
  return python_names(axes);
}

std::string python_spec(const PartitionSpec& spec) {
  std::string text = "PartitionSpec(";
  for (size_t i = 0; i < spec.dims.size(); ++i) {
    if (i > 0) text += ", ";
    text += python_axes(spec.dims[i]);
  }
  return text + ")";
}

}  // namespace shardplan
