// SPDX-License-Identifier: Apache-2.0
// NameClasses: names that differ in their numbers only, as they come.
//
// A number is what core/fold.h takes for one: a whole component of digits. A
// class keeps the texts between its numbers. Most models repeat a few classes
// in one order, so a name is first held against the texts of the class that
// came next the last time; only where these differ it is looked up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardplan {

class NameClasses {
 public:
  // The number of the name's class, dense from 0 in the order of first names.
  // REQUIRES: the name is UTF-8.
  uint32_t add(std::string_view name);

  size_t size() const { return classes_.size(); }
  // How many numbers its names have.
  size_t numbers(uint32_t number) const {
    return classes_[number].pieces - size_t{1};
  }
  // The text before the number of that index; that behind the last one, where
  // there are only as many.
  std::string_view text(uint32_t number, size_t index) const;
  // "layers.*.w"
  std::string folded_name(uint32_t number) const;

  // Calls number(index, digits) for each number of a name of the class.
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
    uint32_t next = 0;  // the class of the name that followed one of these
  };

  bool has(uint32_t number, std::string_view name) const;
  uint32_t find_or_add(std::string_view name);
  void grow();

  std::vector<Class> classes_;
  std::string texts_;                  // of all pieces
  std::vector<uint64_t> piece_begin_;  // within texts_, and where it ends
  std::vector<uint32_t> hashes_;       // of the classes
  std::vector<uint32_t> table_;        // open addressing; 0: free, else 1 more
  uint32_t last_ = 0;
};

}  // namespace shardplan
