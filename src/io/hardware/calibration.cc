// SPDX-License-Identifier: Apache-2.0
// Turns a user's measurements into the tables of a profile, just as
// scripts/measured-tables makes the shipped tables from rows of the same kinds.
#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

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
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
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
      Block& before = blocks.back();
      const double both = before.count + last.count;
      before.mean =
          (before.mean * before.count + last.mean * last.count) / both;
      before.count = both;
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

  // Returns the source of a table that was made from these files.
  size_t source_of(const std::set<std::string>& files) {
    const std::string title =
        joined(std::vector<std::string>(files.begin(), files.end()), ", ") +
        " (--calibrate)";
    for (size_t i = 0; i < card_.sources.size(); ++i) {
      if (card_.sources[i].title == title) return i;
    }
    const std::string id =
        "calibration-" + std::to_string(card_.sources.size() + 1);
    card_.sources.push_back({id, title, "", ""});
    return card_.sources.size() - 1;
  }

  void check_stated_rate(const Runs& runs, double rate, double stated,
                         const std::string& key, std::string_view unit) {
    if (rate <= stated) return;
    fail(runs.where,
         "this rate exceeds `" + key + "` of the profile `" + card_.name + "`")
        .fact("measured " + short_rate(rate) + std::string(unit) + ", stated " +
              short_rate(stated) + std::string(unit))
        .help(
            "check the units: seconds per run, and bytes read plus bytes "
            "written")
        .help("if the rate is right, raise `" + key +
              "` in a copy of the profile: lower bounds depend on it");
  }
  static std::string short_rate(double rate) {
    return count_text(std::llround(rate / 1e9)) + " G";
  }

  void add_products() {
    std::vector<MeasuredProducts> made;
    for (const auto& of : samples_.products) {
      const auto name = kPrecisionNames.at(static_cast<size_t>(of.first));
      const auto stated = std::ranges::find_if(
          card_.flops_per_second,
          [&](const auto& each) { return each.first == of.first; });
      if (stated == card_.flops_per_second.end()) {
        remark(plural(std::ssize(of.second), "product") + " in " +
               std::string(name) + ": the profile `" + card_.name +
               "` has no `flops_per_second." + std::string(name) + "`");
        continue;
      }
      MeasuredProducts table;
      table.precision = of.first;
      table.calibrated = true;
      if (!make_grid(of.second, stated->second.value, std::string(name),
                     table.rate)) {
        continue;
      }
      made.push_back(std::move(table));
    }
    auto& tables = card_.measured.products;
    tables.insert(tables.begin(), made.begin(), made.end());
  }

  bool make_grid(const std::map<std::array<int64_t, 3>, Runs>& products,
                 double peak, const std::string& name, MeasuredGrid& grid) {
    std::array<std::set<int64_t>, 3> sizes;
    for (const auto& each : products) {
      for (size_t i = 0; i < 3; ++i) sizes.at(i).insert(each.first.at(i));
    }
    size_t points = 1;
    for (const auto& axis : sizes) {
      // The product stops growing long before it could overflow.
      points = points > kMaxGridPoints ? points : points * axis.size();
      grid.axes.emplace_back(axis.begin(), axis.end());
    }
    const Runs& first = products.begin()->second;
    if (points > kMaxGridPoints || 2 * products.size() < points) {
      fail(first.where, "the products in " + name + " do not form a grid")
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
    for (const auto& each : products) {
      const std::array<int64_t, 3>& shape = each.first;
      const Runs& runs = each.second;
      double flops = 2;
      size_t index = 0;
      for (size_t i = 0; i < 3; ++i) {
        flops *= static_cast<double>(shape.at(i));
        index = index * sizes.at(i).size() +
                static_cast<size_t>(std::distance(
                    sizes.at(i).begin(), sizes.at(i).find(shape.at(i))));
      }
      const double rate = flops / median(runs.seconds);
      if (rate > peak) fine = false;
      check_stated_rate(runs, rate, peak, "flops_per_second." + name, "FLOP/s");
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
    const double start = samples_.kernel_starts.seconds.empty()
                             ? (card_.measured.kernel_seconds
                                    ? card_.measured.kernel_seconds->value
                                    : 0)
                             : median(samples_.kernel_starts.seconds);
    for (const auto& each : samples_.copies) {
      if (each.first < kLeastCopied) {
        ++small;
        continue;
      }
      const double seconds = median(each.second.seconds) - start;
      if (seconds <= 0) {
        fail(each.second.where, "a copy takes less time than a kernel start, " +
                                    seconds_text(start));
        return;
      }
      grid.axes[0].push_back(static_cast<double>(each.first));
      grid.values.push_back(static_cast<double>(each.first) / seconds);
      files.insert(each.second.where.file->name());
      last = &each.second;
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
    for (const auto& each : samples_.host_copies) {
      rates[each.first.first] =
          static_cast<double>(each.first.second) / median(each.second.seconds);
      files.insert(each.second.where.file->name());
    }
    if (rates.empty()) return;
    double slowest = rates.begin()->second;
    for (const auto& rate : rates) slowest = std::min(slowest, rate.second);
    card_.measured.host_bytes_per_second =
        Sourced<double>{slowest, source_of(files), false, ""};
  }

  void add_number(const Runs& runs, std::optional<Sourced<double>>& number) {
    if (runs.seconds.empty()) return;
    number = Sourced<double>{median(runs.seconds),
                             source_of({runs.where.file->name()}), false, ""};
  }

  // Returns whether all ranks are within one domain of the fastest link.
  bool is_inside(const RankCount& count) const {
    if (count.hosts == 1) return true;
    if (card_.links.empty() || !card_.links[0].devices) return false;
    const int64_t domain = card_.links[0].devices->value;
    const int64_t host =
        card_.devices_per_host ? card_.devices_per_host->value : domain;
    return domain > host && count.ranks <= domain;
  }

  using Series = std::map<int64_t, Runs>;

  void add_collectives() {
    std::vector<MeasuredCollective> made;
    std::vector<double> rates;
    std::set<std::string> rate_files;
    for (const auto& of_kind : samples_.collectives) {
      std::map<int64_t, const Series*> inside;
      for (const auto& of_ranks : of_kind.second) {
        const RankCount& count = of_ranks.first;
        if (count.ranks < 2) {
          remark(of_kind.first + " on one rank, which transfers nothing");
        } else if (is_inside(count)) {
          inside[count.ranks] = &of_ranks.second;
        } else {
          add_rate(of_kind.first, count, of_ranks.second, rates, rate_files);
        }
      }
      if (!inside.empty()) add_table(of_kind.first, inside, made);
    }
    auto& tables = card_.measured.collectives;
    tables.insert(tables.begin(), made.begin(), made.end());
    if (!rates.empty()) {
      card_.measured.network_bytes_per_second =
          Sourced<double>{median(rates), source_of(rate_files), false, ""};
    }
  }

  // Adds a device's rate: bytes that leave its machine, per rank and second.
  void add_rate(const std::string& kind, const RankCount& count,
                const Series& series, std::vector<double>& rates,
                std::set<std::string>& files) {
    const auto& [bytes, runs] = *series.rbegin();
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
      rates.push_back(leaves * static_cast<double>(bytes) /
                      (below * median(runs.seconds)));
      files.insert(runs.where.file->name());
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
  void add_table(const std::string& kind,
                 const std::map<int64_t, const Series*>& inside,
                 std::vector<MeasuredCollective>& made) {
    int64_t least = 0;
    int64_t most = kMaxGridBytes;
    std::set<int64_t> sizes;
    std::set<std::string> files;
    for (const auto& of_ranks : inside) {
      const Series& series = *of_ranks.second;
      least = std::max(least, series.begin()->first);
      most = std::min(most, series.rbegin()->first);
      for (const auto& each : series) {
        sizes.insert(each.first);
        files.insert(each.second.where.file->name());
      }
    }
    const Runs& first = inside.begin()->second->begin()->second;
    const size_t before = sizes.size();
    std::erase_if(sizes,
                  [&](int64_t size) { return size < least || size > most; });
    if (sizes.empty() || sizes.size() * inside.size() > kMaxGridPoints) {
      fail(first.where, sizes.empty() ? kind +
                                            " runs on different numbers of "
                                            "ranks have no sizes in common"
                                      : kind + " has too many sizes")
          .help("run nccl-tests with the same `-b`, `-e` and `-f` each time");
      return;
    }
    if (sizes.size() < before) {
      remark(plural(static_cast<int64_t>(before - sizes.size()), "size") +
             " of " + kind + " outside " + bytes_text(least) + " to " +
             bytes_text(most) +
             ", which were not measured for every number of ranks");
    }
    MeasuredCollective table;
    table.kind = kind;
    table.seconds.axes.resize(2);
    table.seconds.axes[1].assign(sizes.begin(), sizes.end());
    for (const auto& of_ranks : inside) {
      table.seconds.axes[0].push_back(static_cast<double>(of_ranks.first));
      std::vector<double> seconds;
      for (const auto& each : *of_ranks.second) {
        seconds.push_back(median(each.second.seconds));
      }
      seconds = ascending(seconds);
      std::vector<std::pair<double, double>> series;
      for (const auto& each : *of_ranks.second) {
        series.emplace_back(static_cast<double>(each.first),
                            seconds[series.size()]);
      }
      for (const int64_t size : sizes) {
        table.seconds.values.push_back(
            between(series, static_cast<double>(size)));
      }
    }
    table.seconds.source = source_of(files);
    made.push_back(std::move(table));
  }

  static constexpr int64_t kMaxGridBytes = int64_t{1} << 62U;

  const Samples& samples_;
  HardwareProfile& card_;
  Diagnostics& diags_;
  bool good_ = true;
};

}  // namespace

bool calibrate(std::span<const std::string> files, HardwareProfile& card,
               Host& host, Diagnostics& diags) {
  Samples samples;
  bool fine = true;
  for (const std::string& path : files) {
    const SourcePtr file = read_source(path, kWholeFile, host, diags);
    if (file != nullptr) diags.add_source(file);
    fine = file != nullptr && read_samples(*file, samples, diags) && fine;
  }
  return fine && Calibration(samples, card, diags).apply();
}

}  // namespace shardplan
