// SPDX-License-Identifier: Apache-2.0
#include "cli/flag_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"

namespace shardplan::cli {
namespace {

std::string must_be(const Setting& setting, const std::string& what) {
  return title_of(setting) + " must be " + what + ", not " +
         in_backticks(setting.value);
}

std::string range_text(int64_t least, int64_t most) {
  if (least == std::numeric_limits<int64_t>::min()) return "an integer";
  return "an integer from " + std::to_string(least) + " to " + count_text(most);
}

std::vector<std::string> code_words(bool deny) {
  std::vector<std::string> words;
  if (deny) words.emplace_back("warnings");
  for (const CodeInfo& info : all_codes()) {
    words.push_back(code_id(info.code));
    words.emplace_back(info.name);
  }
  return words;
}

void check_code(const std::string& word, bool deny, const Setting& setting,
                Diagnostics& diags) {
  const std::optional<Code> code = find_code(word);
  if (!code) {
    suggest(diags.error(Code::Usage, setting.where,
                        "unknown code " + in_backticks(word) + " in " +
                            title_of(setting)),
            word, code_words(deny), "`shardplan list codes` shows all codes");
  } else if (!deny &&
             (prevents_running(*code) || *code == Code::InternalError)) {
    diags.error(Code::Usage, setting.where,
                code_id(*code) + " (" + std::string(code_info(*code).name) +
                    ") cannot be allowed: it prevents any result");
  }
}

}  // namespace

std::string path_of(const Setting& setting) {
  const bool special = setting.value == "-" || setting.value.starts_with('@');
  return special ? setting.value : join_path(setting.directory, setting.value);
}

std::string title_of(const Setting& setting) {
  const std::string name(setting.flag->name);
  return setting.where ? "`" + name + "`" : "`--" + name + "`";
}

std::vector<std::string> split_list(std::string_view text, char comma) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  for (;;) {
    const size_t end = text.find(comma);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

namespace {

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

std::optional<int64_t> integer_of(const Setting& setting, int64_t least,
                                  int64_t most, Diagnostics& diags) {
  const bool tokens = setting.flag != nullptr && setting.flag->name == "seq";
  const auto value =
      tokens ? parse_tokens(setting.value) : parse_integer(setting.value);
  if (value && *value >= least && *value <= most) return value;
  return diags.error(Code::Usage, setting.where,
                     must_be(setting, range_text(least, most)));
}

bool tries_lists(std::string_view command) {
  return command == "sweep" || command == "plan";
}

std::vector<int64_t> integers_of(const Setting& setting, bool several,
                                 int64_t least, int64_t most,
                                 Diagnostics& diags) {
  std::vector<int64_t> values;
  std::vector<std::string> parts = split_list(setting.value);
  if (parts.size() < 2 || !several) parts = {setting.value};
  for (std::string& part : parts) {
    Setting one = setting;
    one.value = std::move(part);
    const auto value = integer_of(one, least, most, diags);
    if (!value) return {};
    values.push_back(*value);
  }
  return values;
}

std::optional<double> number_of(const Setting& setting, Diagnostics& diags) {
  const auto value = parse_real(setting.value);
  if (value && std::isfinite(*value) && *value >= 0) return value;
  return diags.error(Code::Usage, setting.where,
                     must_be(setting, "a non-negative number"));
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
  return diags
      .error(Code::Usage, setting.where, must_be(setting, "a positive size"))
      .help(std::string(kByteSizeHelp));
}

std::optional<DType> dtype_of(const Setting& setting, Diagnostics& diags) {
  if (const auto dtype = find_dtype(setting.value)) return dtype;
  auto problem = diags.error(Code::Usage, setting.where,
                             must_be(setting, "a dtype such as `bf16`"));
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
  const std::string_view text = setting.value;
  const size_t colon = text.find(':');
  Stages stages;
  stages.axis = text.substr(0, colon);
  bool good = is_axis_name(stages.axis);
  if (colon != text.npos) {
    for (const std::string& part : split_list(text.substr(colon + 1))) {
      const auto layers = parse_integer(part);
      good = good && layers && *layers >= 0 && *layers <= 100'000;
      stages.layers.push_back(layers.value_or(0));
    }
    good = good && !stages.layers.empty();
  }
  if (good) return stages;
  return diags.error(Code::Usage, setting.where,
                     must_be(setting,
                             "a mesh axis, optionally with the layers of each "
                             "stage: `pp` or `pp:8,8,8,6`"));
}

void append_declarations(const Setting& setting, Declarations& declarations,
                         Diagnostics& diags) {
  for (const std::string& text : split_list(setting.value)) {
    if (add_declaration(text, declarations)) continue;
    auto problem = diags.error(Code::Usage, setting.where,
                               in_backticks(text) + " in " + title_of(setting) +
                                   " is not a declaration");
    const std::vector<std::string> forms = declaration_forms();
    if (const auto near = nearest(text, forms)) {
      problem.help("did you mean `" + *near + "`?");
    }
    problem.help("valid declarations: " + quoted_names(forms) +
                 ", with M from 1 to " + count_text(kMaxPadVocab));
  }
}

void append_answer(const Setting& setting, std::vector<RuleAnswer>& answers,
                   Diagnostics& diags) {
  const size_t equals = setting.value.find('=');
  if (equals == 0 || equals == std::string::npos) {
    diags
        .error(Code::Usage, setting.where,
               must_be(setting, "a name and its value, NAME=VALUE"))
        .help("for example `--set use_expert_tensor_mode=false`");
    return;
  }
  const std::string name = setting.value.substr(0, equals);
  std::erase_if(answers,
                [&](const RuleAnswer& other) { return other.name == name; });
  answers.push_back({name, setting.value.substr(equals + 1), setting.where});
}

bool is_choice(const Setting& setting, Diagnostics& diags) {
  const std::vector<std::string> choices = setting.flag->choices();
  if (contains(choices, setting.value)) return true;
  auto problem =
      diags.error(Code::Usage, setting.where,
                  must_be(setting, "one of " + quoted_names(choices, " or ")));
  const std::string meant = setting.flag->meant != nullptr
                                ? setting.flag->meant(setting.value)
                                : std::string();
  if (!meant.empty()) {
    problem.help(meant);
  } else {
    suggest(std::move(problem), setting.value, choices);
  }
  return false;
}

void append_codes(const Setting& setting, bool deny,
                  std::vector<std::string>& codes, Diagnostics& diags) {
  for (const std::string& word : split_list(setting.value)) {
    if (!deny || word != "warnings") check_code(word, deny, setting, diags);
    codes.push_back(word);
  }
}

}  // namespace shardplan::cli
