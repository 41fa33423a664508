// SPDX-License-Identifier: Apache-2.0
// PythonObject: a value of a Python module, as its statements create, share and
// change it.
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

// Why a value is unknown. Reported only if a table depends on it.
struct PythonProblem {
  Span where;
  std::string message;
  std::string help = {};
  std::vector<std::string> facts = {};
  bool is_warning = false;  // severity of a remark
};

struct PythonObject;

struct PythonItem {
  PythonObject* value = nullptr;
  std::string keyword;  // as PythonValue::keyword
};

// One object of Python. Names for the same list share it.
struct PythonObject {
  PythonKind kind = PythonKind::Name;
  std::string text;
  Span where;
  std::vector<PythonItem> items;
  size_t condition_begin = 0;
  size_t condition_end = 0;
  // The value is not evaluated; `items` are the objects that it may be or
  // contain.
  bool is_opaque = false;
  // Opaque, and an expression that is made of the items: `[f(r) for r in
  // RULES]`.
  bool is_derived = false;
  bool is_literal = false;  // opaque, and one of PythonProgram's literals
  // Logical times of the object's creation and of its last change.
  int64_t created = 0;
  int64_t changed = 0;
  // First bytes of the sequences whose items were added to this one.
  std::vector<size_t> absorbed;
  std::optional<PythonProblem> problem;
  std::optional<PythonProblem> change;  // that a statement may make

  // Returns whether it is a name from another module, which is not read; `text`
  // is then `module.NAME`.
  bool is_import() const {
    return is_opaque && items.empty() && contains(text, '.');
  }
  bool is_sequence() const {
    return !is_opaque &&
           (kind == PythonKind::Tuple || kind == PythonKind::List);
  }
  // Returns whether it is made of its items: a sequence, a choice or a sum.
  bool is_made_of_items() const {
    return is_sequence() || (!is_opaque && (kind == PythonKind::Choice ||
                                            kind == PythonKind::Sum));
  }
  // Returns whether it may be, or contain, a table.
  bool is_tracked() const {
    return is_opaque ? is_literal || !items.empty()
                     : is_made_of_items() || kind == PythonKind::Call;
  }
};

// Owns the objects of one module, which may refer to each other in cycles.
class PythonObjects {
 public:
  PythonObject* make(PythonKind kind, std::string text, Span where) {
    PythonObject& object = all_.emplace_back();
    object.kind = kind;
    object.text = std::move(text);
    object.where = where;
    object.created = object.changed = ++moment_;
    return &object;
  }
  void touch(PythonObject& object) { object.changed = ++moment_; }
  int64_t now() const { return moment_; }
  // Beyond this number tracing stops, since even a small file can double a list
  // many times.
  static constexpr size_t kMost = size_t{1} << 20U;
  // Counts copied items. Returns false beyond the limit.
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
