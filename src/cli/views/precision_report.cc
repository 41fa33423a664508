// SPDX-License-Identifier: Apache-2.0
#include "cli/views/precision_report.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "cli/views/columns.h"

namespace shardplan::cli {
namespace {

// Rows for people: more are read in the plot.
constexpr size_t kMostRows = 12;

// Three digits, however small: a table of ratios would show 0.001.
std::string number_text(double number) {
  if (std::isnan(number)) return "not finite";
  return std::isfinite(number) ? fmt::format("{:.3g}", number) : "infinite";
}

Cell cell(double number, bool for_people) {
  if (for_people) return number_text(number);
  return std::isfinite(number) ? Cell(Ratio{number}) : Cell();
}

// As error_amplification(): 0/0 is 1.
double amplification_of(const ProbeError& probe) {
  return probe.sharded == probe.unsharded ? 1 : probe.sharded / probe.unsharded;
}

// Of what is not finite, more than of anything else.
double error_of(const ProbeError& probe) {
  return std::isnan(probe.sharded) ? std::numeric_limits<double>::infinity()
                                   : probe.sharded;
}

const std::string& name_of(const Graph& graph, const ProbeError& probe) {
  return graph.values[static_cast<size_t>(probe.value)].name;
}

const ProbeError* last_probe(const Variant& variant) {
  const auto& probes = variant.outcome.probes;
  return probes.empty() ? nullptr : &probes.back();
}

// What a layer adds to the error of the sharded run, on average.
std::optional<double> growth_of(const Simulation& outcome) {
  const auto& probes = outcome.probes;
  if (probes.size() < 2) return std::nullopt;
  return (probes.back().sharded - probes.front().sharded) /
         static_cast<double>(probes.size() - 1);
}

// About `kMostRows` of `count`, evenly apart, with the first and the last.
std::vector<size_t> chosen_rows(size_t count, bool all) {
  std::vector<size_t> rows;
  const size_t most = all ? count : std::min(count, kMostRows);
  for (size_t i = 0; i < most; ++i) {
    rows.push_back(most == count ? i : i * (count - 1) / (most - 1));
  }
  return rows;
}

Table errors_table(const Graph& graph, const Simulation& outcome,
                   bool for_people, bool expand) {
  Table table;
  table.id = "error_by_layer";
  table.title = "Error by layer";
  const ColumnsOf<ProbeError> columns = {
      {{"value", "value", Align::Left, true},
       [&graph](const ProbeError& probe) { return name_of(graph, probe); }},
      {{"unsharded", "unsharded", Align::Right},
       [for_people](const ProbeError& probe) {
         return cell(probe.unsharded, for_people);
       }},
      {{"sharded", "sharded", Align::Right},
       [for_people](const ProbeError& probe) {
         return cell(probe.sharded, for_people);
       }},
      {{"amplification", "ratio", Align::Right},
       [for_people](const ProbeError& probe) {
         return cell(amplification_of(probe), for_people);
       }},
  };
  table.columns = columns_of(columns);
  table.audience = for_people ? Audience::People : Audience::Programs;
  std::vector<Row> rows;
  for (const size_t i :
       chosen_rows(outcome.probes.size(), expand || !for_people)) {
    rows.push_back(row_of(columns, outcome.probes[i]));
  }
  table.rows = rows_of(std::move(rows));
  return table;
}

Table variants_table(std::span<const Variant> variants, bool for_people) {
  Table table;
  table.id = "precision";
  table.title = "Precision at the last layer";
  // Of the last probe; without any the cell is empty.
  const auto of_last = [for_people](double (*number)(const ProbeError&)) {
    return [for_people, number](const Variant& variant) {
      const ProbeError* last = last_probe(variant);
      return last == nullptr ? Cell() : cell(number(*last), for_people);
    };
  };
  const ColumnsOf<Variant> columns = {
      {{"mesh", "mesh"}, [](const Variant& v) { return MeshCell{v.mesh}; }},
      {{"algorithm", "algorithm"},
       [](const Variant& v) { return v.algorithm; }},
      {{"dtype", "kept in"},
       [](const Variant& v) { return std::string(storage_name(v.storage)); }},
      {{"reduce_dtype", "summed in"},
       [](const Variant& v) { return std::string(storage_name(v.reduce)); }},
      {{"unsharded", "unsharded", Align::Right},
       of_last([](const ProbeError& probe) { return probe.unsharded; })},
      {{"sharded", "sharded", Align::Right},
       of_last([](const ProbeError& probe) { return probe.sharded; })},
      {{"amplification", "ratio", Align::Right}, of_last(amplification_of)},
      {{"growth_per_layer", "per layer", Align::Right},
       [for_people](const Variant& v) {
         const std::optional<double> growth = growth_of(v.outcome);
         return growth ? cell(*growth, for_people) : Cell();
       }},
  };
  table.columns = columns_of(columns);
  table.audience = for_people ? Audience::People : Audience::Programs;
  std::vector<Row> rows;
  for (const Variant& variant : variants) {
    rows.push_back(row_of(columns, variant));
  }
  table.rows = rows_of(std::move(rows));
  return table;
}

template <typename Part>
bool differ(std::span<const Variant> variants, const Part& part) {
  return std::any_of(variants.begin(), variants.end(), [&](const Variant& v) {
    return part(v) != part(variants[0]);
  });
}

// What tells a variant from the others: "tp=16, ring, summed in bf16".
std::string variant_name(std::span<const Variant> variants,
                         const Variant& variant) {
  const auto mesh = [](const Variant& v) { return mesh_text(v.mesh); };
  const auto algorithm = [](const Variant& v) { return v.algorithm; };
  const auto storage = [](const Variant& v) { return storage_name(v.storage); };
  const auto reduce = [](const Variant& v) { return storage_name(v.reduce); };
  std::vector<std::string> parts;
  if (differ(variants, mesh)) parts.push_back(mesh(variant));
  if (differ(variants, algorithm)) parts.push_back(algorithm(variant));
  if (differ(variants, storage)) {
    parts.push_back(fmt::format("kept in {}", storage(variant)));
  }
  if (differ(variants, reduce)) {
    parts.push_back(fmt::format("summed in {}", reduce(variant)));
  }
  return parts.empty() ? "sharded" : fmt::format("{}", fmt::join(parts, ", "));
}

// Names without the words that they all begin and end with: `layers/9/out` and
// `layers/10/out` are 9 and 10.
std::vector<std::string> short_names(const std::vector<std::string>& names) {
  if (names.size() < 2) return names;
  std::string_view prefix = names[0];
  std::string_view suffix = names[0];
  for (const std::string& name : names) {
    const auto ahead =
        std::mismatch(prefix.begin(), prefix.end(), name.begin(), name.end());
    prefix =
        prefix.substr(0, static_cast<size_t>(ahead.first - prefix.begin()));
    const auto behind = std::mismatch(suffix.rbegin(), suffix.rend(),
                                      name.rbegin(), name.rend());
    suffix = suffix.substr(suffix.size() -
                           static_cast<size_t>(behind.first - suffix.rbegin()));
  }
  // Words stay whole.
  const auto joins = [](char c) { return c == '.' || c == '/' || c == '_'; };
  while (!prefix.empty() && !joins(prefix.back())) prefix.remove_suffix(1);
  while (!suffix.empty() && !joins(suffix.front())) suffix.remove_prefix(1);
  std::vector<std::string> result;
  for (const std::string& name : names) {
    // Equal names, or one that ends where the others go on.
    if (name.size() <= prefix.size() + suffix.size()) return names;
    result.push_back(name.substr(prefix.size(),
                                 name.size() - prefix.size() - suffix.size()));
  }
  return result;
}

PlotSeries series_of(std::string name, const Simulation& outcome,
                     double ProbeError::*which) {
  PlotSeries series{std::move(name), {}};
  for (const ProbeError& probe : outcome.probes) {
    series.points.push_back(probe.*which);
  }
  return series;
}

}  // namespace

std::vector<Table> error_tables(const Graph& graph, const Simulation& outcome,
                                bool expand) {
  if (outcome.probes.empty()) return {};
  return {errors_table(graph, outcome, true, expand),
          errors_table(graph, outcome, false, expand)};
}

std::vector<Table> precision_tables(std::span<const Variant> variants) {
  if (std::none_of(variants.begin(), variants.end(), last_probe)) return {};
  return {variants_table(variants, true), variants_table(variants, false)};
}

std::string precision_line(const Graph& graph,
                           std::span<const Variant> variants) {
  const Variant* least = nullptr;
  const Variant* most = nullptr;
  for (const Variant& variant : variants) {
    const ProbeError* last = last_probe(variant);
    if (last == nullptr) continue;
    if (least == nullptr || error_of(*last) < error_of(*last_probe(*least))) {
      least = &variant;
    }
    if (most == nullptr || error_of(*last) > error_of(*last_probe(*most))) {
      most = &variant;
    }
  }
  if (most == nullptr) return "";
  const ProbeError& last = *last_probe(*most);
  const auto text = [&](const Variant& variant) {
    const ProbeError& probe = *last_probe(variant);
    if (std::isnan(probe.sharded)) return number_text(probe.sharded);
    return fmt::format("{} ({} times)", number_text(probe.sharded),
                       number_text(amplification_of(probe)));
  };
  std::string line = fmt::format("error at `{}`: {} unsharded, {} sharded",
                                 name_of(graph, last),
                                 number_text(last.unsharded), text(*most));
  if (most == least) return line;
  return line + fmt::format(" with {}; least {} with {}",
                            variant_name(variants, *most), text(*least),
                            variant_name(variants, *least));
}

Plot error_plot(const Graph& graph, std::span<const Variant> variants) {
  Plot plot;
  plot.title = "Error by layer of " + graph.name;
  plot.y_title = "relative error";
  std::vector<std::string> names;
  for (const ProbeError& probe : variants[0].outcome.probes) {
    names.push_back(name_of(graph, probe));
  }
  plot.x_labels = short_names(names);
  const bool numbered = std::all_of(
      plot.x_labels.begin(), plot.x_labels.end(), [](const std::string& label) {
        return label.find_first_not_of("0123456789") == std::string::npos;
      });
  plot.x_title = numbered ? "layer" : "value";
  std::vector<Storage> seen;
  for (const Variant& variant : variants) {
    if (std::find(seen.begin(), seen.end(), variant.storage) != seen.end()) {
      continue;
    }
    seen.push_back(variant.storage);
    std::string name = "unsharded";
    if (differ(variants, [](const Variant& v) { return v.storage; })) {
      name += fmt::format(", kept in {}", storage_name(variant.storage));
    }
    plot.series.push_back(
        series_of(std::move(name), variant.outcome, &ProbeError::unsharded));
  }
  for (const Variant& variant : variants) {
    plot.series.push_back(series_of(variant_name(variants, variant),
                                    variant.outcome, &ProbeError::sharded));
  }
  return plot;
}

}  // namespace shardplan::cli
