// SPDX-License-Identifier: Apache-2.0
// Diagnostic: a problem as a value, with its message, location, numbers and
// help.
//
// A function that finds a user's mistake reports it to a Diagnostics sink and
// returns an empty optional in the same expression:
//
//   if (size < 1) {
//     return diags.error(Code::InvalidMesh, where, "axis `tp` has size 0")
//         .help("give it a positive size, e.g. `tp=2`");
//   }
//
// So an empty result always means that the reason has been reported, and one
// run can report many problems. Severities come from base/codes.def, unless
// `--deny` or `--allow` changes them.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/source.h"

namespace shardplan {

enum class Severity : uint8_t { Off, Note, Warning, Error };
std::string_view severity_name(Severity severity);

enum class Code : uint16_t {
#define SP_CODE(number, enumerator, name, severity, summary) \
  enumerator = (number),
#include "base/codes.def"
#undef SP_CODE
};

struct CodeInfo {
  Code code;
  std::string_view name;  // "indivisible-dimension"
  Severity severity;      // default, without --deny or --allow
  std::string_view summary;
};

// In ascending order of number.
const std::vector<CodeInfo>& all_codes();
const CodeInfo& code_info(Code code);
std::string code_id(Code code);  // "SP203"
// Accepts "SP203", "sp203" and "indivisible-dimension".
std::optional<Code> find_code(std::string_view text);
// Returns true for SP0xx and SP105: they leave no result, hence exit 2.
bool prevents_running(Code code);

// A location with a remark. The first label is the diagnostic's main location.
struct Label {
  Span where;
  std::string text;
};

// The subject of a finding besides its parameters. Code, parameters and subject
// decide whether two runs found the same thing.
struct Subject {
  int rule = 0;  // 1-based
  int dim = -1;  // 0-based
  std::string axis;
};

// Replaces bytes [where.begin, where.end) of a user's file by `text`.
struct TextEdit {
  Span where;
  std::string text;
};

enum class FixKind : uint8_t {
  AxisSize,      // give mesh axis `axis` the size `size`
  PadDimension,  // pad dimension `dim` of the parameters to `size`
  Declare,       // pass `--declare` with `declaration`
  RuleEdit,      // apply `edits` to the rules
};
inline std::string_view fix_kind_name(FixKind kind) {
  constexpr std::array<std::string_view, 4> kNames = {
      "axis-size", "pad-dimension", "declare", "rule-edit"};
  return nth(kNames, kind);
}

// A change that removes a finding, verified by applying it.
struct Fix {
  FixKind kind = FixKind::RuleEdit;
  std::string text;  // one line, a statement without full stop
  // The change in bytes per device: of the fullest device, and of the finding's
  // parameters alone.
  int64_t bytes_per_device = 0;
  int64_t finding_bytes_per_device = 0;
  std::string axis;
  int64_t size = 0;
  int dim = -1;
  std::string declaration;  // "replicate-kv-heads"
  // PadDimension: the parameters to pad, if the finding does not name them.
  std::vector<std::string> parameters;
  // Edits of one file, ascending and disjoint. Empty for a rule edit that must
  // be made by hand: in a shipped set, or if the layout of the file does not
  // allow it.
  std::vector<TextEdit> edits;
};

struct Diagnostic {
  Code code = Code::InternalError;
  Severity severity = Severity::Error;
  std::string message;  // the problem; lower case, no full stop
  std::vector<Label> labels;
  std::vector<std::string> facts;  // the relevant values
  // Advice, as statements. If there are fixes, they replace the first
  // statement.
  std::vector<std::string> help;
  std::vector<std::string> parameters;  // every affected parameter
  std::vector<std::string> targets;     // of shardplan.yaml, if several ran
  int64_t findings = 1;                 // how many findings it represents
  // Affected bytes per device: those that every device holds, or those beyond
  // what was requested. Ranks findings of the same code; 0 if the problem costs
  // no memory.
  double bytes = 0;
  Subject subject;
  std::vector<Fix> fixes;  // the one to try first comes first
};

// The first label that has a location, else null.
const Label* main_label(const Diagnostic& diagnostic);

// Returns a text that identifies a finding without parameters among others of
// its code, even in another run with changed files and sizes: the text that it
// points at, else its message with `#` for each number.
std::string stable_subject(const Diagnostic& diagnostic);

// A reader stops after this many errors, since more would not help the user.
inline constexpr int kMaxErrors = 20;

class Diagnostics {
 public:
  // Extends the diagnostic just reported; converts to any empty optional.
  class Builder {
   public:
    explicit Builder(Diagnostic* diagnostic) : diagnostic_(diagnostic) {}
    Builder& label(Span where, std::string text) {
      diagnostic_->labels.push_back({where, std::move(text)});
      return *this;
    }
    Builder& fact(std::string text) {
      diagnostic_->facts.push_back(std::move(text));
      return *this;
    }
    Builder& help(std::string text) {
      diagnostic_->help.push_back(std::move(text));
      return *this;
    }
    // Also sets the number of findings.
    Builder& parameters(std::vector<std::string> names) {
      diagnostic_->findings = std::ssize(names);
      diagnostic_->parameters = std::move(names);
      return *this;
    }
    Builder& findings(int64_t count) {
      diagnostic_->findings = count;
      return *this;
    }
    Builder& bytes(double per_device) {
      diagnostic_->bytes = per_device;
      return *this;
    }
    Builder& about(Subject subject) {
      diagnostic_->subject = std::move(subject);
      return *this;
    }
    template <typename T>
    operator std::optional<T>() const {  // NOLINT(google-explicit-constructor)
      return std::nullopt;
    }
    operator std::nullopt_t() const {  // NOLINT(google-explicit-constructor)
      return std::nullopt;
    }

   private:
    Diagnostic* diagnostic_;
  };

  // Reports with the severity of the code, as changed by --deny and --allow.
  Builder report(Code code, Span where, std::string message);
  // Reports with a default severity other than the code's (SP206).
  Builder report(Code code, Severity severity, Span where, std::string message);
  // Always reports an error, regardless of --allow.
  Builder error(Code code, Span where, std::string message);

  // Keeps a source alive as long as the diagnostics that may point into it. A
  // reader that fails returns nothing that could own the source.
  void add_source(SourcePtr source) { sources_.push_back(std::move(source)); }

  // Keeps all sources of another Diagnostics alive.
  void add_sources(const Diagnostics& other) {
    sources_.insert(sources_.end(), other.sources_.begin(),
                    other.sources_.end());
  }
  // Adds all diagnostics of another unchanged, with the sources that they point
  // into.
  void add_all(const Diagnostics& other) {
    add_sources(other);
    all_.insert(all_.end(), other.all_.begin(), other.all_.end());
  }
  // Removes the diagnostics for which `is_allowed` is true, and counts them as
  // allowed.
  void allow_those(const std::function<bool(const Diagnostic&)>& is_allowed);

  // Adds a diagnostic unchanged, regardless of --deny and --allow.
  void add(Diagnostic diagnostic) { all_.push_back(std::move(diagnostic)); }

  // Implement `--deny CODE`, `--allow CODE` and `--deny warnings`.
  void set_severity(Code code, Severity severity) { chosen_[code] = severity; }
  void deny_warnings() { deny_warnings_ = true; }
  // Returns the severity that findings of this code are reported with.
  Severity severity_of(Code code) const {
    return effective(code, code_info(code).severity);
  }
  // Returns an empty Diagnostics with the same severities.
  Diagnostics fresh() const;

  // In the order reported. Allowed diagnostics are counted but not stored.
  const std::deque<Diagnostic>& all() const { return all_; }
  std::deque<Diagnostic>& all() { return all_; }
  // The findings of that severity, before grouping.
  int64_t count(Severity severity) const;
  int64_t allowed() const { return allowed_; }
  bool has_errors() const { return count(Severity::Error) > 0; }
  // Returns whether a problem that prevents a result has been reported.
  bool cannot_run() const;

 private:
  Severity effective(Code code, Severity severity) const;

  std::deque<Diagnostic> all_;  // a deque: Builders point into it
  Diagnostic discarded_;
  std::map<Code, Severity> chosen_;
  std::vector<SourcePtr> sources_;
  bool deny_warnings_ = false;
  int64_t allowed_ = 0;
};

}  // namespace shardplan
