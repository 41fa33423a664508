// SPDX-License-Identifier: Apache-2.0
#include "cli/flag_values.h"

#include <cmath>
#include <limits>
#include <memory>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"

namespace shardplan::cli {
namespace {

std::string range_text(int64_t least, int64_t most) {
  if (least == std::numeric_limits<int64_t>::min()) return "an integer";
  return "an integer from " + std::to_string(least) + " to " + count_text(most);
}

void check_code(const std::string& word, bool deny, const Setting& setting,
                Diagnostics& diags) {
  const std::optional<Code> code = find_code(word);
  if (!code) {
    std::vector<std::string> known = code_words();
    if (deny) known.insert(known.begin(), "warnings");
    suggest(diags.error(Code::Usage, setting.where,
                        "unknown code " + in_backticks(word) + " in " +
                            title_of(setting)),
            word, known, "`shardplan list codes` shows all codes");
  } else if (!deny &&
             (prevents_running(*code) || *code == Code::InternalError)) {
    diags.error(Code::Usage, setting.where,
                code_id(*code) + " (" + std::string(code_info(*code).name) +
                    ") cannot be allowed: it prevents any result");
  }
}

// Reads "32k" as 32,768 and "1M" as 1,048,576, as people write context lengths.
std::optional<int64_t> parse_tokens(std::string_view text) {
  if (text.empty()) return std::nullopt;
  int64_t unit = 1;
  if (text.back() == 'k' || text.back() == 'K') unit = 1 << 10;
  if (text.back() == 'm' || text.back() == 'M') unit = 1 << 20;
  if (unit > 1) text.remove_suffix(1);
  const auto value = parse_integer(text);
  return value ? checked_mul(*value, unit) : std::nullopt;
}

}  // namespace

std::string title_of(const Setting& setting) {
  return (setting.where ? "`" : "`--") + std::string(setting.flag->name) + "`";
}

Setting with_value(Setting setting, std::string_view value) {
  setting.value = value;
  return setting;
}

Diagnostics::Builder must_be(const Setting& setting, const std::string& what,
                             Diagnostics& diags) {
  return diags.error(Code::Usage, setting.where,
                     title_of(setting) + " must be " + what + ", not " +
                         in_backticks(setting.value));
}

std::string path_of(const Setting& setting) {
  const bool special = setting.value == "-" || setting.value.starts_with('@');
  return special ? setting.value : join_path(setting.directory, setting.value);
}

PlotRequest plot_of(const Setting& setting) {
  const std::string_view value = setting.value;
  const size_t end = std::min(
      value.find_first_not_of("abcdefghijklmnopqrstuvwxyz-"), value.size());
  PlotRequest request;
  if (end == value.size() && end > 0) {
    request.figure = value;
    return request;
  }
  Setting file = setting;
  if (end > 0 && value[end] == '=') {
    request.figure = value.substr(0, end);
    file.value.erase(0, end + 1);
  }
  request.file = path_of(file);
  return request;
}

SourcePtr source_of(const Setting& setting) {
  const std::string name(setting.flag->name);
  return std::make_shared<SourceFile>(
      setting.where ? setting.where.file->name() + " (" + name + ")"
                    : "--" + name,
      setting.value);
}

std::vector<std::string> split_list(std::string_view text, char comma) {
  std::vector<std::string> parts;
  for (bool more = !text.empty(); more;) {
    more = contains(text, comma);
    parts.emplace_back(next_part(text, comma));
  }
  return parts;
}

std::optional<int64_t> integer_of(const Setting& setting, int64_t least,
                                  int64_t most, Diagnostics& diags) {
  const auto value = setting.flag->name == "seq" ? parse_tokens(setting.value)
                                                 : parse_integer(setting.value);
  if (value && *value >= least && *value <= most) return value;
  return must_be(setting, range_text(least, most), diags);
}

std::vector<int64_t> integers_of(const Setting& setting, bool several,
                                 int64_t least, int64_t most,
                                 Diagnostics& diags) {
  std::vector<int64_t> values;
  for (const std::string& part :
       several ? split_list(setting.value) : std::vector{setting.value}) {
    const auto value =
        integer_of(with_value(setting, part), least, most, diags);
    if (!value) return {};
    values.push_back(*value);
  }
  return values;
}

std::optional<double> number_of(const Setting& setting, Diagnostics& diags) {
  const auto value = parse_real(setting.value);
  if (value && std::isfinite(*value) && *value >= 0) return value;
  return must_be(setting, "a non-negative number", diags);
}

std::optional<int64_t> bytes_of(const Setting& setting, Diagnostics& diags) {
  const auto bytes = parse_bytes(setting.value);
  // `--memory 80` is a mistake: nobody means a device of 80 bytes.
  if (bytes && setting.flag->name == "memory" &&
      !is_letter(setting.value.back())) {
    return diags
        .error(Code::Usage, setting.where,
               in_backticks(setting.value) + " in " + title_of(setting) +
                   " has no unit")
        .help("write `" + setting.value + "GiB`, or `" + setting.value +
              "B` for bytes; " + std::string(kByteSizeHelp));
  }
  if (bytes) return bytes;
  return must_be(setting, "a positive size", diags)
      .help(std::string(kByteSizeHelp));
}

std::optional<DType> dtype_of(const Setting& setting, Diagnostics& diags) {
  if (const auto dtype = find_dtype(setting.value)) return dtype;
  auto problem = must_be(setting, "a dtype such as `bf16`", diags);
  const std::string near = nearest_dtype(setting.value);
  if (!near.empty()) problem.help("did you mean `" + near + "`?");
  return problem;
}

AxisNames axes_of(const Setting& setting, Diagnostics& diags) {
  const std::vector<std::string> axes = split_list(setting.value);
  for (const std::string& axis : axes) {
    if (is_axis_name(axis)) continue;
    diags
        .error(Code::Usage, setting.where,
               in_backticks(axis) + " is not an axis name, in " +
                   title_of(setting))
        .help("use letters, digits and `_`, without spaces, e.g. `dp,fsdp,tp`");
  }
  return {axes.begin(), axes.end()};
}

std::optional<Stages> stages_of(const Setting& setting, Diagnostics& diags) {
  std::string_view layers = setting.value;
  Stages stages;
  stages.axis = next_part(layers, ':');
  for (const std::string& part : split_list(layers)) {
    stages.layers.push_back(parse_integer(part).value_or(-1));
  }
  const bool has_layers = contains(setting.value, ':');
  if (is_axis_name(stages.axis) && has_layers != stages.layers.empty() &&
      std::ranges::all_of(stages.layers, [](int64_t count) {
        return count >= 0 && count <= 100'000;
      })) {
    return stages;
  }
  return must_be(setting,
                 "a mesh axis, optionally with the layers of each stage: `pp` "
                 "or `pp:8,8,8,6`",
                 diags);
}

void append_declarations(const Setting& setting, Declarations& declarations,
                         Diagnostics& diags) {
  for (const std::string& text : split_list(setting.value)) {
    if (add_declaration(text, declarations)) continue;
    const std::vector<std::string> forms = declaration_forms();
    suggest(diags.error(Code::Usage, setting.where,
                        in_backticks(text) + " in " + title_of(setting) +
                            " is not a declaration"),
            text, forms)
        .help("valid declarations: " + quoted_names(forms) +
              ", with M from 1 to " + count_text(kMaxPadVocab));
  }
}

std::vector<std::string> as_choices(std::span<const std::string_view> names) {
  return {names.begin(), names.end()};
}

bool is_choice(const Setting& setting, Diagnostics& diags) {
  const std::vector<std::string> choices = setting.flag->choices();
  if (contains(choices, setting.value)) return true;
  auto problem =
      must_be(setting, "one of " + quoted_names(choices, " or "), diags);
  const std::string meant = setting.flag->meant != nullptr
                                ? setting.flag->meant(setting.value)
                                : std::string();
  if (!meant.empty()) {
    problem.help(meant);
  } else {
    suggest(problem, setting.value, choices);
  }
  return false;
}

std::vector<std::string> code_words() {
  std::vector<std::string> words;
  for (const CodeInfo& info : all_codes()) {
    words.push_back(code_id(info.code));
    words.emplace_back(info.name);
  }
  return words;
}

void append_codes(const Setting& setting, bool deny,
                  std::vector<std::string>& codes, Diagnostics& diags) {
  for (const std::string& word : split_list(setting.value)) {
    if (!deny || word != "warnings") check_code(word, deny, setting, diags);
    codes.push_back(word);
  }
}

}  // namespace shardplan::cli
