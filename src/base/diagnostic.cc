// SPDX-License-Identifier: Apache-2.0
#include "base/diagnostic.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"

namespace shardplan {

std::string_view severity_name(Severity severity) {
  static constexpr std::array<std::string_view, 4> kNames = {
      "off", "note", "warning", "error"};
  return nth(kNames, severity);
}

const std::vector<CodeInfo>& all_codes() {
  static const std::vector<CodeInfo> kCodes = {
#define SP_CODE(number, enumerator, name, severity, summary) \
  {Code::enumerator, name, Severity::severity, summary},
#include "base/codes.def"
#undef SP_CODE
  };
  return kCodes;
}

const CodeInfo& code_info(Code code) {
  const std::vector<CodeInfo>& codes = all_codes();
  const auto found = std::ranges::find(codes, code, &CodeInfo::code);
  SHARDPLAN_CHECK(found != codes.end());
  return *found;
}

std::string code_id(Code code) {
  return fmt::format("SP{:03}", static_cast<int>(code));
}

std::optional<Code> find_code(std::string_view text) {
  const std::string lower = lower_case(text);
  for (const CodeInfo& info : all_codes()) {
    if (lower == lower_case(code_id(info.code)) || text == info.name) {
      return info.code;
    }
  }
  return std::nullopt;
}

bool prevents_running(Code code) {
  return (static_cast<int>(code) < 100 && code != Code::Remark) ||
         code == Code::UnsupportedPattern;
}

const Label* main_label(const Diagnostic& diagnostic) {
  const auto found = std::ranges::find_if(
      diagnostic.labels, [](const Label& label) { return bool{label.where}; });
  return found == diagnostic.labels.end() ? nullptr : &*found;
}

Diagnostics::Builder suggest(Diagnostics::Builder report, std::string_view word,
                             std::span<const std::string> known,
                             std::string otherwise) {
  if (const auto near = nearest(word, known)) {
    report.help("did you mean " + in_backticks(*near) + "?");
  } else if (!otherwise.empty()) {
    report.help(std::move(otherwise));
  }
  return report;
}

std::string stable_subject(const Diagnostic& diagnostic) {
  const Label* label = main_label(diagnostic);
  return label != nullptr ? std::string(label->where.text())
                          : without_numbers(diagnostic.message);
}

Severity Diagnostics::effective(Code code, Severity severity) const {
  if (const auto chosen = chosen_.find(code); chosen != chosen_.end()) {
    severity = chosen->second;
  }
  if (deny_warnings_ && severity == Severity::Warning) return Severity::Error;
  return severity;
}

Diagnostics Diagnostics::fresh() const {
  Diagnostics result;
  result.chosen_ = chosen_;
  result.deny_warnings_ = deny_warnings_;
  return result;
}

Diagnostics::Builder Diagnostics::report(Code code, Span where,
                                         std::string message) {
  return report(code, code_info(code).severity, where, std::move(message));
}

Diagnostics::Builder Diagnostics::report(Code code, Severity severity,
                                         Span where, std::string message) {
  severity = effective(code, severity);
  if (severity == Severity::Off) {
    if (chosen_.contains(code)) ++allowed_;
    discarded_ = {};
    return Builder(&discarded_);
  }
  const Builder reported = error(code, where, std::move(message));
  all_.back().severity = severity;
  return reported;
}

Diagnostics::Builder Diagnostics::error(Code code, Span where,
                                        std::string message) {
  Diagnostic& diagnostic = all_.emplace_back();
  diagnostic.code = code;
  diagnostic.message = std::move(message);
  if (where) diagnostic.labels.push_back({where, ""});
  return Builder(&diagnostic);
}

void Diagnostics::allow_those(
    const std::function<bool(const Diagnostic&)>& is_allowed) {
  allowed_ += static_cast<int64_t>(std::erase_if(all_, is_allowed));
}

int64_t Diagnostics::count(Severity severity) const {
  int64_t total = 0;
  for (const Diagnostic& diagnostic : all_) {
    if (diagnostic.severity == severity) total += diagnostic.findings;
  }
  return total;
}

bool Diagnostics::cannot_run() const {
  return std::ranges::any_of(all_, [](const Diagnostic& d) {
    return d.severity == Severity::Error && prevents_running(d.code);
  });
}

}  // namespace shardplan
