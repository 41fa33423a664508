// SPDX-License-Identifier: Apache-2.0
// Values of a Python module as its statements make, share and change them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/source.h"
#include "base/words.h"
#include "syntax/python.h"

namespace shardplan {

// Why a value is not known, which is reported only where a table depends on it.
struct PythonProblem {
  Span where;
  std::string message;
  std::vector<std::string> facts;
  std::string help;
  bool is_warning = false;  // of a remark
};

struct PythonObject;

struct PythonItem {
  PythonObject* value = nullptr;
  std::string keyword;  // as PythonValue::keyword
};

// One object of Python: names that stand for the same list share it.
struct PythonObject {
  PythonKind kind = PythonKind::Name;
  std::string text;
  Span where;
  std::vector<PythonItem> items;
  size_t condition_begin = 0;
  size_t condition_end = 0;
  // What is not evaluated; `items` are then the objects that it may be or hold.
  bool is_opaque = false;
  // Opaque, and written as what is made of the items: `[f(r) for r in RULES]`.
  bool is_derived = false;
  bool is_literal = false;  // opaque, and one of those asked about
  // Moments of the run: when it was made, and when it was changed last.
  int64_t made = 0;
  int64_t changed = 0;
  // First bytes of sequences whose items were put into this one.
  std::vector<size_t> absorbed;
  std::optional<PythonProblem> problem;
  std::optional<PythonProblem> change;  // that a statement may make

  // A name of another module, which is not read: `text` is `module.NAME`.
  bool is_import() const {
    return is_opaque && items.empty() && contains(text, '.');
  }
  bool is_sequence() const {
    return !is_opaque &&
           (kind == PythonKind::Tuple || kind == PythonKind::List);
  }
  // Whether it may stand for a table, or hold one.
  bool is_tracked() const {
    return is_opaque ? is_literal || !items.empty()
                     : kind == PythonKind::Tuple || kind == PythonKind::List ||
                           kind == PythonKind::Choice ||
                           kind == PythonKind::Sum || kind == PythonKind::Call;
  }
};

// Owns the objects of one run, which may hold each other in circles.
class PythonObjects {
 public:
  PythonObject* make(PythonKind kind, std::string text, Span where) {
    PythonObject& object = all_.emplace_back();
    object.kind = kind;
    object.text = std::move(text);
    object.where = where;
    object.made = object.changed = ++moment_;
    return &object;
  }
  void touch(PythonObject& object) { object.changed = ++moment_; }
  int64_t now() const { return moment_; }
  // Beyond this nothing more is followed: a small file can double a list often.
  static constexpr size_t kMost = size_t{1} << 20U;
  // Counts items that are copied; false beyond the limit.
  bool spend(size_t items) {
    spent_ += items;
    return spent_ + all_.size() <= kMost;
  }

 private:
  std::deque<PythonObject> all_;
  int64_t moment_ = 0;
  size_t spent_ = 0;
};

}  // namespace shardplan
