// SPDX-License-Identifier: Apache-2.0
// Fix: a change that was tried and found to remove a finding, as data.
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

#include "base/source.h"

namespace shardplan {

// Bytes [where.begin, where.end) of a user's file become `text`.
struct TextEdit {
  Span where;
  std::string text;
};

enum class FixKind : uint8_t {
  AxisSize,      // give mesh axis `axis` the size `size`
  PadDimension,  // pad dimension `dim` of the parameters to `size`
  Declare,       // `--declare` what `declaration` says
  RuleEdit,      // change the rules as `edits` say
};
inline std::string_view fix_kind_name(FixKind kind) {
  constexpr std::array<std::string_view, 4> kNames = {
      "axis-size", "pad-dimension", "declare", "rule-edit"};
  return kNames.at(static_cast<size_t>(kind));
}

struct Fix {
  FixKind kind = FixKind::RuleEdit;
  std::string text;  // one line, as a statement without full stop
  // Bytes per device after it minus before: of the fullest device, and of the
  // finding's parameters alone.
  int64_t bytes_per_device = 0;
  int64_t finding_bytes_per_device = 0;
  std::string axis;
  int64_t size = 0;
  int dim = -1;
  std::string declaration;  // "replicate-kv-heads"
  // PadDimension: whose dimension, where the finding does not name them.
  std::vector<std::string> parameters;
  // Of one file, ascending and apart from one another. Empty for a rule edit
  // that has to be made by hand: in a shipped set, or where the layout of the
  // file does not allow it.
  std::vector<TextEdit> edits;
};

// Problems as values: what is wrong, where, with which numbers, and what helps.
//
// A function that meets a user's mistake reports it to a Diagnostics sink and
// returns an empty optional in the same expression:
//
//   if (size < 1) {
//     return diags.error(Code::InvalidMesh, where, "axis `tp` has size 0")
//         .help("give it a positive size, e.g. `tp=2`");
//   }
//
// So an empty result always means that the reason has been reported, and one
// run can report many problems. Severities follow base/codes.def, changed by
// `--deny` and `--allow`.

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
  Severity severity;      // unless --deny or --allow say otherwise
  std::string_view summary;
};

// In ascending order of number.
const std::vector<CodeInfo>& all_codes();
const CodeInfo& code_info(Code code);
std::string code_id(Code code);  // "SP203"
// Accepts "SP203", "sp203" and "indivisible-dimension".
std::optional<Code> find_code(std::string_view text);
// SP0xx and SP105: without them settled there is no answer, hence exit 2.
bool prevents_running(Code code);

// A place with a remark; the first label of a diagnostic is its main place.
struct Label {
  Span where;
  std::string text;
};

// What a finding is about besides its parameters; with them and the code it
// says whether two runs found the same thing.
struct Subject {
  int rule = 0;  // 1-based
  int dim = -1;  // 0-based
  std::string axis;
};

struct Diagnostic {
  Code code = Code::InternalError;
  Severity severity = Severity::Error;
  std::string message;  // what is wrong; lower case, no full stop
  std::vector<Label> labels;
  std::vector<std::string> facts;  // the values that mattered
  // What to do, as a statement. Where there are fixes, they stand in place of
  // the first.
  std::vector<std::string> help;
  std::vector<std::string> parameters;  // every parameter it is about
  std::vector<std::string> targets;     // of shardplan.yaml, where several ran
  int64_t findings = 1;                 // how many findings this one stands for
  // What it is about, in bytes per device: held by every device, or held beyond
  // what was requested. Ranks findings of one code; 0 where it costs nothing.
  double bytes = 0;
  Subject subject;
  std::vector<Fix> fixes;  // the one to try first leads
};

// The main place of a diagnostic: its first label that has one, else null.
const Label* main_label(const Diagnostic& diagnostic);

// What tells a finding without parameters from others of its code in another
// run, though files and sizes have changed: the text that it points at, else
// its message with `#` for each number.
std::string stable_subject(const Diagnostic& diagnostic);

// After so many errors a reader stops: more would help nobody.
inline constexpr int kMaxErrors = 20;

class Diagnostics {
 public:
  // Adds to the diagnostic just reported; converts to any empty optional.
  class Builder {
   public:
    explicit Builder(Diagnostic* diagnostic) : diagnostic_(diagnostic) {}
    Builder& label(Span where, std::string text);
    Builder& fact(std::string text);
    Builder& help(std::string text);
    Builder& parameters(std::vector<std::string> names);  // sets findings too
    Builder& findings(int64_t count);
    Builder& bytes(double per_device);
    Builder& about(Subject subject);
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

  // With the code's own severity, as --deny and --allow leave it.
  Builder report(Code code, Span where, std::string message);
  // With a severity of its own where the code's is not right (SP206).
  Builder report(Code code, Severity severity, Span where, std::string message);
  // Always an error, whatever --allow says.
  Builder error(Code code, Span where, std::string message);

  // Keeps a source as long as the diagnostics that may point into it: a reader
  // that fails gives back nothing that could hold it.
  void keep(SourcePtr source) { sources_.push_back(std::move(source)); }

  // The same of all sources of another.
  void keep_sources(const Diagnostics& other) {
    sources_.insert(sources_.end(), other.sources_.begin(),
                    other.sources_.end());
  }
  // All of another as they are, with the sources that they point into.
  void add_all(const Diagnostics& other) {
    keep_sources(other);
    all_.insert(all_.end(), other.all_.begin(), other.all_.end());
  }
  // Takes out those for which it is true, and counts them as allowed.
  void allow_those(const std::function<bool(const Diagnostic&)>& is_allowed);

  // As it is, whatever --deny and --allow say.
  void add(Diagnostic diagnostic) { all_.push_back(std::move(diagnostic)); }

  // `--deny CODE`, `--allow CODE`, `--deny warnings`.
  void set_severity(Code code, Severity severity) { chosen_[code] = severity; }
  void deny_warnings() { deny_warnings_ = true; }
  // What a finding of this code is reported with.
  Severity severity_of(Code code) const {
    return effective(code, code_info(code).severity);
  }
  // An empty one in which the same severities are in force.
  Diagnostics fresh() const;

  // In the order reported; those allowed are counted but not kept.
  const std::deque<Diagnostic>& all() const { return all_; }
  std::deque<Diagnostic>& all() { return all_; }
  // Findings of that severity, before grouping.
  int64_t count(Severity severity) const;
  int64_t allowed() const { return allowed_; }
  bool has_errors() const { return count(Severity::Error) > 0; }
  // True once something that prevents an answer has been reported.
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
