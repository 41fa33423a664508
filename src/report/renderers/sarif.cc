// SPDX-License-Identifier: Apache-2.0
// SARIF 2.1.0 for code scanning and editors: one run, a rule per code that
// occurs, and a result per finding at its line, with the edits that remove it.
//
// Source: OASIS, "Static Analysis Results Interchange Format (SARIF) Version
// 2.1.0"; section numbers are in parentheses below. tests/data/judge_sarif.py
// checks the output with the standard's schema and Microsoft's validator.
//
// A finding without a line is a result about the model's file as a whole, since
// GitHub rejects results without a file. If there is no such file, or if
// nothing could be checked, it is a notification of the tool (3.58).
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/words.h"
#include "core/fold.h"
#include "core/plan.h"
#include "report/diagnostics_text.h"
#include "report/renderers/renderers.h"
#include "report/report.h"

namespace shardplan {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSarifSchema =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/"
    "sarif-schema-2.1.0.json";
// Must change when fingerprint() changes (3.27.17).
constexpr std::string_view kFingerprint = "shardplanFinding/v1";
// Longest text, in bytes, that a result shows next to its place.
constexpr size_t kMaxSnippet = 200;
// Number of parameter names that become logical locations of a result (3.33).
// They are for people; `properties` lists all names.
constexpr size_t kMaxLogicalLocations = 20;

// Escapes braces, which would be placeholders (3.11.5), and `[text](target)`,
// which would be a link (3.11.6).
std::string sarif_text(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ']' && i + 1 < text.size() && text[i + 1] == '(') out += '\\';
    out += c;
    if (c == '{' || c == '}') out += c;
  }
  return out;
}

Json message(std::string_view text) {
  return {{"text", sarif_text(printable(text))}};
}

// Percent-encodes everything except unreserved characters and `/` (RFC 3986).
std::string uri_of(const std::string& path, const std::string& prefix) {
  std::string uri;
  for (const char c : path.starts_with("/") ? path : prefix + path) {
    if (is_digit(c) || is_letter(c) || contains("/.-_~", c)) {
      uri += c;
    } else {
      fmt::format_to(std::back_inserter(uri), "%{:02X}",
                     static_cast<unsigned char>(c));
    }
  }
  return path.starts_with("/") ? "file://" + uri : uri;
}

class SarifRun {
 public:
  explicit SarifRun(const Report& report) : report_(report) {}

  Json json() {
    Json results = Json::array();
    Json notifications = Json::array();
    bool could_run = true;
    for (const Diagnostics* all : {report_.diagnostics, report_.remarks}) {
      if (all == nullptr) continue;
      could_run = could_run && !all->cannot_run();
      for (const Diagnostic& diagnostic : all->all()) collect(diagnostic);
    }
    for (Part* part : {&results_, &notifications_}) {
      size_t next = 0;
      for (auto& [code, number] : part->numbers) number = next++;
    }
    for (const auto* found : results_.found) results.push_back(result(*found));
    for (const auto* found : notifications_.found) {
      notifications.push_back(notification(*found));
    }
    Json driver = {{"name", "shardplan"},
                   {"version", SHARDPLAN_VERSION},
                   {"semanticVersion", SHARDPLAN_VERSION},
                   {"rules", descriptors(results_.numbers)}};
    if (!notifications_.numbers.empty()) {
      driver["notifications"] = descriptors(notifications_.numbers);
    }
    Json invocation = {{"executionSuccessful", could_run}};
    if (!notifications.empty()) {
      invocation["toolExecutionNotifications"] = std::move(notifications);
    }
    return {
        {"tool", {{"driver", std::move(driver)}}},
        {"automationDetails", {{"id", "shardplan/" + report_.command + "/"}}},
        {"invocations", Json::array({std::move(invocation)})},
        {"columnKind", "unicodeCodePoints"},
        {"results", std::move(results)}};
  }

 private:
  // Indices of the descriptors, ordered by code.
  using Numbers = std::map<Code, size_t>;
  struct Part {
    std::vector<const Diagnostic*> found;
    Numbers numbers;
  };

  // Returns the label that places the result; null: the result is about the
  // model's file.
  const Label* place(const Diagnostic& diagnostic) const {
    return place_in_file(report_, diagnostic);
  }

  void collect(const Diagnostic& diagnostic) {
    const bool has_file =
        place(diagnostic) != nullptr ||
        (!report_.main_file.empty() && !prevents_running(diagnostic.code));
    Part& part = has_file ? results_ : notifications_;
    part.found.push_back(&diagnostic);
    part.numbers.emplace(diagnostic.code, 0);
  }

  static Json descriptors(const Numbers& numbers) {
    Json all = Json::array();
    for (const auto& [code, number] : numbers) {
      const CodeInfo& info = code_info(code);
      all.push_back({{"id", code_id(code)},
                     {"name", info.name},
                     {"shortDescription", message(info.summary)},
                     // GitHub also requires it (its validator's rule GH2012).
                     {"fullDescription", message(info.summary)},
                     {"help", message("`shardplan explain " + code_id(code) +
                                      "` explains it and how to fix it.")},
                     {"defaultConfiguration",
                      {{"level", severity_name(info.severity)}}}});
      if (info.severity == Severity::Off) {
        all.back()["defaultConfiguration"] = {{"enabled", false}};
      }
    }
    return all;
  }

  Json file(const std::string& name) const {
    return {{"uri", uri_of(name, report_.repository_prefix)}};
  }

  // `snippet`: includes the text itself, if it is short.
  Json physical(const Label& label, bool snippet) const {
    const Place at = place_of(label.where);
    Json region = {{"startLine", at.line},
                   {"startColumn", at.column},
                   {"endColumn", at.end_column}};
    const std::string_view text = label.where.text();
    if (snippet && text.size() <= kMaxSnippet && !contains(text, '\n')) {
      region["snippet"] = {{"text", printable(text)}};
    }
    return {{"artifactLocation", file(label.where.file->name())},
            {"region", std::move(region)}};
  }

  Json main_location(const Diagnostic& diagnostic) const {
    Json location;
    if (const Label* label = place(diagnostic)) {
      location["physicalLocation"] = physical(*label, true);
      if (!label->text.empty()) location["message"] = message(label->text);
    } else {
      location["physicalLocation"] = {
          {"artifactLocation", file(report_.main_file)},
          {"region", {{"startLine", 1}}}};
    }
    Json names = Json::array();
    for (const std::string& name : diagnostic.parameters) {
      if (names.size() == kMaxLogicalLocations) break;
      names.push_back({{"fullyQualifiedName", printable(name)}});
    }
    if (!names.empty()) location["logicalLocations"] = std::move(names);
    return location;
  }

  // Returns a hash that identifies the finding across runs, even if lines or
  // layers were added: the code, its axis and dimension, the file, and the
  // folded parameters or else stable_subject().
  std::string fingerprint(const Diagnostic& diagnostic) const {
    const Label* label = place(diagnostic);
    Sha256 hash;
    const auto add = [&](std::string_view text) {
      hash.update(text);
      hash.update(std::string_view("\0", 1));
    };
    add(code_id(diagnostic.code));
    add(diagnostic.subject.axis);
    add(std::to_string(diagnostic.subject.dim));
    add(label != nullptr ? label->where.file->name() : report_.main_file);
    std::set<std::string> names;
    for (const std::string& name : diagnostic.parameters) {
      names.insert(folded_name(name));
    }
    for (const std::string& name : names) add(name);
    if (names.empty()) add(stable_subject(diagnostic));
    return hash.hex();
  }

  Json related_locations(const Diagnostic& diagnostic) const {
    Json all = Json::array();
    const Label* main = place(diagnostic);
    for (const Label& label : diagnostic.labels) {
      if (&label == main || !is_in_file(report_, label)) continue;
      Json location = {{"id", all.size() + 1},
                       {"physicalLocation", physical(label, false)}};
      if (!label.text.empty()) location["message"] = message(label.text);
      all.push_back(std::move(location));
    }
    return all;
  }

  // Returns the edits of one file per fix, ascending and not overlapping, as
  // SARIF requires of replacements (3.56).
  Json fixes_of(const Diagnostic& diagnostic) const {
    Json all = Json::array();
    for (const Fix& fix : diagnostic.fixes) {
      if (fix.edits.empty()) continue;
      Json replacements = Json::array();
      for (const TextEdit& edit : fix.edits) {
        const SourceFile& source = *edit.where.file;
        const Position begin = source.position(edit.where.begin);
        const Position end = source.position(edit.where.end);
        replacements.push_back({{"deletedRegion",
                                 {{"startLine", begin.line},
                                  {"startColumn", begin.column},
                                  {"endLine", end.line},
                                  {"endColumn", end.column}}},
                                {"insertedContent", {{"text", edit.text}}}});
      }
      const std::string& name = fix.edits.front().where.file->name();
      all.push_back(
          {{"description", message(fix.text)},
           {"artifactChanges",
            Json::array({{{"artifactLocation", file(name)},
                          {"replacements", std::move(replacements)}}})}});
    }
    return all;
  }

  Json result(const Diagnostic& diagnostic) {
    // Findings that differ only in their words are distinct findings.
    std::string identity = fingerprint(diagnostic);
    const size_t nth = ++seen_[identity];
    if (nth > 1) identity += ":" + std::to_string(nth);
    Json result = {
        {"ruleId", code_id(diagnostic.code)},
        {"ruleIndex", results_.numbers.at(diagnostic.code)},
        {"level", severity_name(diagnostic.severity)},
        {"message", {{"text", sarif_text(message_text(diagnostic))}}},
        {"locations", Json::array({main_location(diagnostic)})},
        {"partialFingerprints", {{kFingerprint, identity}}}};
    Json related = related_locations(diagnostic);
    if (!related.empty()) result["relatedLocations"] = std::move(related);
    Json fixes = fixes_of(diagnostic);
    if (!fixes.empty()) result["fixes"] = std::move(fixes);
    Json& properties = result["properties"];
    properties["findings"] = diagnostic.findings;
    if (!diagnostic.parameters.empty()) {
      properties["parameters"] = diagnostic.parameters;
    }
    if (!diagnostic.targets.empty()) properties["targets"] = diagnostic.targets;
    return result;
  }

  Json notification(const Diagnostic& diagnostic) const {
    return {{"descriptor",
             {{"id", code_id(diagnostic.code)},
              {"index", notifications_.numbers.at(diagnostic.code)}}},
            {"level", severity_name(diagnostic.severity)},
            {"message", {{"text", sarif_text(message_text(diagnostic))}}}};
  }

  const Report& report_;
  Part results_;
  Part notifications_;
  std::map<std::string, size_t> seen_;  // number of findings per fingerprint
};

}  // namespace

void render_sarif(const Report& report, const Style&, const TextSink& sink) {
  const Json log = {{"$schema", kSarifSchema},
                    {"version", "2.1.0"},
                    {"runs", Json::array({SarifRun(report).json()})}};
  // The output is ASCII only: it cannot affect a terminal, and bytes that are
  // not UTF-8 become U+FFFD.
  const std::string text =
      log.dump(2, ' ', true, Json::error_handler_t::replace);
  // `#` occurs only in strings: see append_printable_json.
  std::string safe;
  for (const char c : text) {
    if (c == '#' && safe.ends_with('#')) {
      safe += "\\u0023";
    } else {
      safe += c;
    }
  }
  sink(safe + "\n");
}

}  // namespace shardplan
