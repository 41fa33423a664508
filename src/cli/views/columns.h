// SPDX-License-Identifier: Apache-2.0
// Columns that contain the function for their cells, and the condition under
// which a table has them. A column and its contents are defined in one place,
// so neither can be reordered without the other, and the same list serves the
// table for people and the table for programs.
#pragma once

#include <functional>
#include <numeric>
#include <ranges>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "report/report.h"

namespace shardplan::cli {

// A column and the function that computes its cell from the row's `Subject`.
template <typename Subject>
struct ColumnOf {
  Column column;
  std::function<Cell(const Subject&)> cell;
  bool shown = true;  // whether the table has the column
};

template <typename Subject>
using ColumnsOf = std::vector<ColumnOf<Subject>>;

template <typename Subject>
std::vector<Column> columns_of(const ColumnsOf<Subject>& columns) {
  std::vector<Column> all;
  for (const ColumnOf<Subject>& each : columns) {
    if (each.shown) all.push_back(each.column);
  }
  return all;
}

template <typename Subject>
Row row_of(const ColumnsOf<Subject>& columns, const Subject& subject) {
  Row row;
  for (const ColumnOf<Subject>& each : columns) {
    if (each.shown) row.push_back(each.cell(subject));
  }
  return row;
}

inline Audience audience_of(bool for_people) {
  return for_people ? Audience::People : Audience::Programs;
}

// Returns 0, 1, .., count - 1, for tables whose subjects are indices.
inline std::vector<size_t> numbers_below(size_t count) {
  std::vector<size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), size_t{0});
  return numbers;
}

// Returns a table with one row per subject, in order.
template <typename Subjects,
          typename Subject = std::ranges::range_value_t<Subjects>>
Table table_of(std::string id, std::string title, const Subjects& subjects,
               const std::type_identity_t<ColumnsOf<Subject>>& columns,
               Audience audience = Audience::Everyone) {
  std::vector<Row> rows;
  for (const Subject& each : subjects) rows.push_back(row_of(columns, each));
  return {std::move(id), std::move(title), columns_of(columns),
          rows_of(std::move(rows)), audience};
}

}  // namespace shardplan::cli
