// SPDX-License-Identifier: Apache-2.0
// ErrorLimit: several errors in one run, but not a million.
//
// A reader reports through it and stops once stopped() is true; a note at the
// place of the last error says so.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/diagnostic.h"
#include "io/document.h"

namespace shardplan {

class ErrorLimit {
 public:
  static constexpr size_t kMaxErrors = 20;

  // `what` is read: "the manifest".
  ErrorLimit(Diagnostics& diags, std::string_view what)
      : diags_(diags), what_(what) {}

  bool stopped() const { return errors_ >= kMaxErrors; }
  size_t errors() const { return errors_; }
  Diagnostics& diags() { return diags_; }

  Diagnostics::Builder error(Code code, Span where, std::string message) {
    const auto problem = diags_.error(code, where, std::move(message));
    count(where);
    return problem;
  }
  Diagnostics::Builder malformed(Span where, std::string message) {
    return error(Code::MalformedDocument, where, std::move(message));
  }
  void unknown_key(std::string_view key, Span where,
                   std::span<const std::string> known) {
    report_unknown_key(key, where, known, diags_);
    count(where);
  }

 private:
  void count(Span where) {
    if (++errors_ != kMaxErrors) return;
    diags_.report(Code::MalformedDocument, Severity::Note, where,
                  what_ + " was read no further: too many errors");
  }

  Diagnostics& diags_;
  std::string what_;
  size_t errors_ = 0;
};

}  // namespace shardplan
