// SPDX-License-Identifier: Apache-2.0
// Columns that bring their cells: what stands in a column is said where the
// column is named, so that neither can move without the other.
#pragma once

#include <functional>
#include <vector>

#include "report/report.h"

namespace shardplan::cli {

// `Subject` is what a row is about.
template <typename Subject>
struct ColumnOf {
  Column column;
  std::function<Cell(const Subject&)> cell;
};

template <typename Subject>
using ColumnsOf = std::vector<ColumnOf<Subject>>;

template <typename Subject>
std::vector<Column> columns_of(const ColumnsOf<Subject>& columns) {
  std::vector<Column> all;
  for (const ColumnOf<Subject>& each : columns) all.push_back(each.column);
  return all;
}

template <typename Subject>
Row row_of(const ColumnsOf<Subject>& columns, const Subject& subject) {
  Row row;
  for (const ColumnOf<Subject>& each : columns) {
    row.push_back(each.cell(subject));
  }
  return row;
}

}  // namespace shardplan::cli
