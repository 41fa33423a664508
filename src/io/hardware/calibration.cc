// SPDX-License-Identifier: Apache-2.0
// Turns a user's measurements into the tables of a profile, just as
// scripts/measured-tables makes the shipped tables from rows of the same kinds.
#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "io/hardware.h"
#include "io/hardware/samples.h"
#include "io/load.h"

namespace shardplan {
namespace {

// Smaller copies fit in caches.
constexpr int64_t kLeastCopied = 100'000'000;
// Smaller payloads do not show the rate between machines.
constexpr int64_t kLeastSent = int64_t{64} << 20U;
constexpr size_t kMaxGridPoints = size_t{1} << 14U;

double median(std::vector<double> values) {
  SHARDPLAN_CHECK(!values.empty());
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// Returns the non-decreasing series with the least change of the logarithms
// (isotonic regression): a series that falls is noise.
std::vector<double> ascending(const std::vector<double>& values) {
  struct Block {
    double mean = 0;
    double count = 0;
  };
  std::vector<Block> blocks;
  for (const double value : values) {
    blocks.push_back({std::log(value), 1});
    while (blocks.size() > 1 &&
           blocks[blocks.size() - 2].mean > blocks.back().mean) {
      const Block last = blocks.back();
      blocks.pop_back();
      Block& block = blocks.back();
      const double both = block.count + last.count;
      block = {(block.mean * block.count + last.mean * last.count) / both,
               both};
    }
  }
  std::vector<double> result;
  for (const Block& block : blocks) {
    result.insert(result.end(), static_cast<size_t>(block.count),
                  std::exp(block.mean));
  }
  return result;
}

class Calibration {
 public:
  Calibration(const Samples& samples, HardwareProfile& card, Diagnostics& diags)
      : samples_(samples), card_(card), diags_(diags) {}

  bool apply() {
    add_products();
    add_copies();
    add_host_copies();
    add_number(samples_.kernel_starts, card_.measured.kernel_seconds);
    add_number(samples_.launches, card_.measured.eager_launch_seconds);
    add_collectives();
    return good_;
  }

 private:
  Diagnostics::Builder fail(Span where, std::string message) {
    good_ = false;
    return diags_.error(Code::MalformedDocument, where, std::move(message));
  }
  void remark(const std::string& text) {
    diags_.report(Code::Remark, {}, "not used for calibration: " + text);
  }

  Sourced<double> number_from(const std::set<std::string>& files,
                              double value) {
    return {value, source_of(files), false, ""};
  }
  // Returns the source of a table that was made from these files.
  size_t source_of(const std::set<std::string>& files) {
    const std::string title =
        joined(std::vector<std::string>(files.begin(), files.end()), ", ") +
        " (--calibrate)";
    for (size_t i = 0; i < card_.sources.size(); ++i) {
      if (card_.sources[i].title == title) return i;
    }
    const size_t added = card_.sources.size();
    card_.sources.push_back(
        {"calibration-" + std::to_string(added + 1), title, "", ""});
    return added;
  }

  // Returns whether the rate does not exceed the one that the profile states.
  bool check_stated_rate(const Runs& runs, double rate, double stated,
                         const std::string& key, const std::string& unit) {
    if (rate <= stated) return true;
    fail(runs.where,
         "this rate exceeds `" + key + "` of the profile `" + card_.name + "`")
        .fact("measured " + short_rate(rate) + unit + ", stated " +
              short_rate(stated) + unit)
        .help(
            "check the units: seconds per run, and bytes read plus bytes "
            "written")
        .help("if the rate is right, raise `" + key +
              "` in a copy of the profile: lower bounds depend on it");
    return false;
  }
  static std::string short_rate(double rate) {
    return count_text(std::llround(rate / 1e9)) + " G";
  }

  void add_products() {
    std::vector<MeasuredProducts> made;
    for (const auto& [precision, products] : samples_.products) {
      const std::string name(nth(kPrecisionNames, precision));
      std::optional<double> peak;
      for (const auto& [of, rate] : card_.flops_per_second) {
        if (of == precision) peak = rate.value;
      }
      if (!peak) {
        remark(plural(std::ssize(products), "product") + " in " + name +
               ": the profile `" + card_.name + "` has no `flops_per_second." +
               name + "`");
        continue;
      }
      MeasuredProducts table;
      table.precision = precision;
      table.calibrated = true;
      if (make_grid(products, *peak, name, table.rate)) {
        made.push_back(std::move(table));
      }
    }
    auto& tables = card_.measured.products;
    tables.insert(tables.begin(), made.begin(), made.end());
  }

  bool make_grid(const std::map<std::array<int64_t, 3>, Runs>& products,
                 double peak, const std::string& name, MeasuredGrid& grid) {
    std::array<std::set<int64_t>, 3> sizes;
    for (const auto& [shape, runs] : products) {
      for (size_t i = 0; i < 3; ++i) sizes.at(i).insert(shape.at(i));
    }
    size_t points = 1;
    for (const auto& axis : sizes) {
      // The product stops growing long before it could overflow.
      points = points > kMaxGridPoints ? points : points * axis.size();
      grid.axes.emplace_back(axis.begin(), axis.end());
    }
    if (points > kMaxGridPoints || 2 * products.size() < points) {
      fail(products.begin()->second.where,
           "the products in " + name + " do not form a grid")
          .fact(count_text(std::ssize(products)) + " products for " +
                joined_of(sizes, " x ",
                          [](const auto& axis) {
                            return std::to_string(axis.size());
                          }) +
                " sizes of m, n and k")
          .help(
              "measure a few sizes with at least half of their combinations, "
              "at most " +
              count_text(static_cast<int64_t>(kMaxGridPoints)) +
              ": rates in between are interpolated");
      return false;
    }
    std::set<std::string> files;
    grid.values.assign(points, 0);
    bool fine = true;
    for (const auto& [shape, runs] : products) {
      double flops = 2;
      size_t index = 0;
      for (size_t i = 0; i < 3; ++i) {
        flops *= static_cast<double>(shape.at(i));
        const std::set<int64_t>& axis = sizes.at(i);
        index = index * axis.size() +
                to_size(std::distance(axis.begin(), axis.find(shape.at(i))));
      }
      const double rate = flops / median(runs.seconds);
      fine = check_stated_rate(runs, rate, peak, "flops_per_second." + name,
                               "FLOP/s") &&
             fine;
      grid.values[index] = rate;
      files.insert(runs.where.file->name());
    }
    grid.source = source_of(files);
    return fine;
  }

  void add_copies() {
    MeasuredGrid grid;
    grid.axes.resize(1);
    std::set<std::string> files;
    int64_t small = 0;
    const Runs* last = nullptr;
    double start = 0;
    if (!samples_.kernel_starts.seconds.empty()) {
      start = median(samples_.kernel_starts.seconds);
    } else if (card_.measured.kernel_seconds) {
      start = card_.measured.kernel_seconds->value;
    }
    for (const auto& [bytes, runs] : samples_.copies) {
      if (bytes < kLeastCopied) {
        ++small;
        continue;
      }
      const double seconds = median(runs.seconds) - start;
      if (seconds <= 0) {
        fail(runs.where, "a copy takes less time than a kernel start, " +
                             seconds_text(start));
        return;
      }
      grid.axes[0].push_back(static_cast<double>(bytes));
      grid.values.push_back(static_cast<double>(bytes) / seconds);
      files.insert(runs.where.file->name());
      last = &runs;
    }
    if (small > 0) {
      remark(plural(small, "size") + " of copies below " +
             bytes_text(kLeastCopied) + ", which fit in caches");
    }
    if (last == nullptr) return;
    if (card_.hbm_bytes_per_second) {
      check_stated_rate(*last, grid.values.back(),
                        card_.hbm_bytes_per_second->value,
                        "hbm_bytes_per_second", "B/s");
    }
    grid.source = source_of(files);
    card_.measured.memory = std::move(grid);
  }

  // Uses the slower direction of the largest copy.
  void add_host_copies() {
    std::map<std::string, double> rates;
    std::set<std::string> files;
    for (const auto& [copy, runs] : samples_.host_copies) {
      rates[copy.first] =
          static_cast<double>(copy.second) / median(runs.seconds);
      files.insert(runs.where.file->name());
    }
    if (rates.empty()) return;
    double slowest = rates.begin()->second;
    for (const auto& rate : rates) slowest = std::min(slowest, rate.second);
    card_.measured.host_bytes_per_second = number_from(files, slowest);
  }

  void add_number(const Runs& runs, std::optional<Sourced<double>>& number) {
    if (runs.seconds.empty()) return;
    number = number_from({runs.where.file->name()}, median(runs.seconds));
  }

  // Returns whether all ranks are within one domain of the fastest link.
  bool is_inside(const RankCount& count) const {
    if (count.hosts == 1) return true;
    if (card_.links.empty() || !card_.links[0].devices) return false;
    const int64_t domain = card_.links[0].devices->value;
    return card_.devices_per_host && domain > card_.devices_per_host->value &&
           count.ranks <= domain;
  }

  void add_collectives() {
    std::vector<MeasuredCollective> made;
    for (const auto& [kind, by_count] : samples_.collectives) {
      std::map<int64_t, const std::map<int64_t, Runs>*> inside;
      for (const auto& [count, series] : by_count) {
        if (count.ranks < 2) {
          remark(kind + " on one rank, which transfers nothing");
        } else if (is_inside(count)) {
          inside[count.ranks] = &series;
        } else {
          add_rate(kind, count, *series.rbegin());
        }
      }
      if (!inside.empty()) add_table(kind, inside, made);
    }
    auto& tables = card_.measured.collectives;
    tables.insert(tables.begin(), made.begin(), made.end());
    if (!network_rates_.empty()) {
      card_.measured.network_bytes_per_second =
          number_from(network_files_, median(network_rates_));
    }
  }

  // Adds a device's rate: bytes that leave its machine, per rank and second.
  void add_rate(const std::string& kind, const RankCount& count,
                const std::pair<const int64_t, Runs>& largest) {
    const auto& [bytes, runs] = largest;
    const std::string what = kind + " of " + plural(count.ranks, "rank") +
                             " on " + plural(count.hosts, "machine");
    if (bytes < kLeastSent) {
      remark(what + ": payloads below " + bytes_text(kLeastSent) +
             " do not show the network rate");
    } else if (count.ranks % count.hosts != 0) {
      remark(what + ": machines have different numbers of ranks");
    } else if (card_.links.size() < 2) {
      remark(what + ": the profile `" + card_.name +
             "` has no link between machines");
    } else {
      const auto hosts = static_cast<double>(count.hosts);
      const double below = static_cast<double>(count.ranks) / hosts;
      double leaves = (hosts - 1) / hosts;
      if (kind == "all-reduce") leaves *= 2;
      if (kind == "all-to-all") leaves *= below;
      network_rates_.push_back(leaves * static_cast<double>(bytes) /
                               (below * median(runs.seconds)));
      network_files_.insert(runs.where.file->name());
    }
  }

  // Interpolates the seconds of a payload between two that were measured.
  static double between(const std::vector<std::pair<double, double>>& series,
                        double bytes) {
    const auto above = std::ranges::find_if(
        series, [&](const auto& each) { return each.first >= bytes; });
    SHARDPLAN_CHECK(above != series.end());
    if (above->first == bytes) return above->second;
    SHARDPLAN_CHECK(above != series.begin());
    const auto& below = *(above - 1);
    const double share =
        std::log(bytes / below.first) / std::log(above->first / below.first);
    return std::exp((1 - share) * std::log(below.second) +
                    share * std::log(above->second));
  }

  // Tabulates the sizes that are within the measured range of every rank count.
  void add_table(
      const std::string& kind,
      const std::map<int64_t, const std::map<int64_t, Runs>*>& inside,
      std::vector<MeasuredCollective>& made) {
    int64_t least = 0;
    int64_t most = INT64_MAX;
    std::set<int64_t> sizes;
    std::set<std::string> files;
    for (const auto& [ranks, series] : inside) {
      least = std::max(least, series->begin()->first);
      most = std::min(most, series->rbegin()->first);
      for (const auto& [size, runs] : *series) {
        sizes.insert(size);
        files.insert(runs.where.file->name());
      }
    }
    const size_t unused = std::erase_if(
        sizes, [&](int64_t size) { return size < least || size > most; });
    if (sizes.empty() || sizes.size() * inside.size() > kMaxGridPoints) {
      fail(inside.begin()->second->begin()->second.where,
           sizes.empty() ? kind +
                               " runs on different numbers of "
                               "ranks have no sizes in common"
                         : kind + " has too many sizes")
          .help("run nccl-tests with the same `-b`, `-e` and `-f` each time");
      return;
    }
    if (unused > 0) {
      remark(plural(static_cast<int64_t>(unused), "size") + " of " + kind +
             " outside " + bytes_text(least) + " to " + bytes_text(most) +
             ", which were not measured for every number of ranks");
    }
    MeasuredCollective table;
    table.kind = kind;
    table.seconds.axes.resize(2);
    table.seconds.axes[1].assign(sizes.begin(), sizes.end());
    for (const auto& [ranks, series] : inside) {
      table.seconds.axes[0].push_back(static_cast<double>(ranks));
      std::vector<double> seconds;
      for (const auto& [size, runs] : *series) {
        seconds.push_back(median(runs.seconds));
      }
      seconds = ascending(seconds);
      std::vector<std::pair<double, double>> points;
      for (const auto& [size, runs] : *series) {
        points.emplace_back(static_cast<double>(size), seconds[points.size()]);
      }
      for (const int64_t size : sizes) {
        table.seconds.values.push_back(
            between(points, static_cast<double>(size)));
      }
    }
    table.seconds.source = source_of(files);
    made.push_back(std::move(table));
  }

  const Samples& samples_;
  HardwareProfile& card_;
  Diagnostics& diags_;
  std::vector<double> network_rates_;
  std::set<std::string> network_files_;
  bool good_ = true;
};

}  // namespace

bool calibrate(std::span<const std::string> files, HardwareProfile& card,
               Host& host, Diagnostics& diags) {
  Samples samples;
  bool fine = true;
  for (const std::string& path : files) {
    const SourcePtr file = read_source(path, kWholeFile, host, diags);
    fine = file != nullptr && read_samples(*file, samples, diags) && fine;
  }
  return fine && Calibration(samples, card, diags).apply();
}

}  // namespace shardplan
