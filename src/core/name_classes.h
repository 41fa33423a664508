// SPDX-License-Identifier: Apache-2.0
// NameClasses: classes of names that differ only in their numbers, built one
// name at a time.
//
// A number is a whole component of digits, as in core/fold.h. A class stores
// the texts between its numbers. Most models repeat a few classes in one order,
// so a name is first compared with the class that followed last time, and
// looked up only if it does not match.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardplan {

class NameClasses {
 public:
  // Returns the number of the name's class, dense from 0 in the order of first
  // names. REQUIRES: the name is UTF-8.
  uint32_t add(std::string_view name);

  size_t size() const { return classes_.size(); }
  // The count of numbers in a name of the class.
  size_t numbers(uint32_t number) const {
    return classes_[number].pieces - size_t{1};
  }
  // The text before the number with this index, or after the last number if
  // `index` is the count of numbers.
  std::string_view text(uint32_t number, size_t index) const;
  // Returns "layers.*.w".
  std::string folded_name(uint32_t number) const;

  // Calls number(index, digits) for each number in a name of the class.
  template <typename OnNumber>
  void each_number(uint32_t number, std::string_view name,
                   OnNumber on_number) const {
    size_t at = 0;
    for (size_t i = 0; i < numbers(number); ++i) {
      at += text(number, i).size();
      const size_t begin = at;
      while (at < name.size() && name[at] >= '0' && name[at] <= '9') ++at;
      on_number(i, name.substr(begin, at - begin));
    }
  }

 private:
  struct Class {
    uint32_t first_piece = 0;
    uint32_t pieces = 0;
    uint32_t next = 0;  // class of the name that last followed one of these
  };

  bool has(uint32_t number, std::string_view name) const;
  uint32_t find_or_add(std::string_view name);
  void grow();

  std::vector<Class> classes_;
  std::string texts_;                  // of all pieces
  std::vector<uint64_t> piece_begin_;  // within texts_, and the end of the last
  std::vector<uint32_t> hashes_;       // per class
  std::vector<uint32_t> table_;        // open addressing; 0: free, else class+1
  uint32_t last_ = 0;
};

}  // namespace shardplan
