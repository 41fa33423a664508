// SPDX-License-Identifier: Apache-2.0
// Ids: indices of things of one kind, such as the values of a graph or the
// instructions of a program, as types that do not convert into one another. The
// ids of a graph's values and nodes are defined here as well.
//
// An id is an index into a list, from 0. A default id refers to nothing and
// converts to false.
#pragma once

#include <compare>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

namespace shardplan {

// `Kind` only distinguishes the types and need not be defined.
template <typename Kind>
struct Id {
  int number = -1;

  constexpr Id() = default;
  constexpr explicit Id(int index) : number(index) {}
  constexpr explicit Id(size_t index) : number(static_cast<int>(index)) {}

  constexpr explicit operator bool() const { return number >= 0; }
  constexpr size_t index() const { return static_cast<size_t>(number); }
  constexpr auto operator<=>(const Id&) const = default;
};

// A range of consecutive ids.
template <typename Key>
struct IdRange {
  struct Iterator {
    using iterator_category = std::input_iterator_tag;
    using value_type = Key;
    using difference_type = ptrdiff_t;
    using pointer = const Key*;
    using reference = Key;

    int number = 0;
    Key operator*() const { return Key(number); }
    Iterator& operator++() {
      ++number;
      return *this;
    }
    bool operator==(const Iterator&) const = default;
  };

  int first = 0;
  int past_last = 0;
  Iterator begin() const { return {first}; }
  Iterator end() const { return {past_last}; }
};

// A vector that is indexed by ids only.
template <typename Key, typename T>
class IdVector : private std::vector<T> {
  using Items = std::vector<T>;

 public:
  using typename Items::const_iterator;
  using typename Items::const_reference;
  using typename Items::iterator;
  using typename Items::reference;
  using typename Items::value_type;

  IdVector() = default;
  explicit IdVector(size_t count, const T& item = T()) : Items(count, item) {}
  IdVector(std::initializer_list<T> items) : Items(items) {}
  explicit IdVector(Items items) : Items(std::move(items)) {}

  using Items::assign;
  using Items::back;
  using Items::begin;
  using Items::clear;
  using Items::data;
  using Items::emplace_back;
  using Items::empty;
  using Items::end;
  using Items::erase;
  using Items::front;
  using Items::insert;
  using Items::rbegin;
  using Items::rend;
  using Items::reserve;
  using Items::resize;
  using Items::size;

  reference operator[](Key key) { return Items::operator[](key.index()); }
  const_reference operator[](Key key) const {
    return Items::operator[](key.index());
  }
  Key push_back(T item) {
    Items::push_back(std::move(item));
    return Key(size() - 1);
  }
  IdRange<Key> ids(Key first = Key(0)) const {
    return {first.number, static_cast<int>(size())};
  }
  // Returns the id of an item. REQUIRES: `item` is an element of this vector.
  Key id_of(const T& item) const {
    return Key(static_cast<int>(&item - data()));
  }
  bool has(Key key) const { return key && key.index() < size(); }
  const Items& items() const { return *this; }
  friend bool operator==(const IdVector& a, const IdVector& b) {
    return a.items() == b.items();
  }
};

using ValueId = Id<struct Value>;
using NodeId = Id<struct GraphNode>;
template <typename T>
using PerValue = IdVector<ValueId, T>;
template <typename T>
using PerNode = IdVector<NodeId, T>;

}  // namespace shardplan
