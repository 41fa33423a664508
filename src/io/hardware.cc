// SPDX-License-Identifier: Apache-2.0
#include "io/hardware.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>

#include "base/checked.h"
#include "base/shipped.h"
#include "base/text.h"
#include "base/words.h"
#include "io/load.h"
#include "io/other_files.h"
#include "io/topologies.h"
#include "syntax/document.h"

namespace shardplan {
namespace {

void report_unknown(const std::string& name, Host& host, Diagnostics& diags) {
  const std::vector<std::string> known = shipped_names(kHardwareFolder);
  auto report = diags.error(Code::UnreadableFile, {},
                            "no hardware profile named " + in_backticks(name));
  std::vector<std::string> longer = known;  // "h100-sxm" for "h100"
  std::erase_if(longer, [&](const std::string& candidate) {
    return name.empty() || !candidate.starts_with(name);
  });
  if (!longer.empty()) {
    report.help("names with this prefix: " + quoted_names(longer, ", "));
  } else if (const auto near = nearest(name, known)) {
    report.help("did you mean `" + *near + "`?");
  }
  if (host.file_info(name)) {
    report.help("`./" + name + "` is read as a file");
  }
  report.help("`shardplan list hardware` shows all");
}

constexpr std::string_view kNumberForm =
    "write numbers as `{value: 80GiB, source: ID}`, and define ID in `sources`";
constexpr int64_t kMaxCount = int64_t{1} << 40U;
constexpr size_t kMaxNameLength = 64;
// The limits on points per table, and on tables of one kind.
constexpr size_t kMaxPoints = size_t{1} << 14U;
constexpr size_t kMaxTables = 64;

bool is_name(std::string_view text) {
  constexpr std::string_view kLegal =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !text.empty() && text.size() <= kMaxNameLength &&
         text.find_first_not_of(kLegal) == text.npos;
}

// Returns whether this is a plausible date like "2026-11-21".
bool is_date(std::string_view text) {
  constexpr std::string_view kForm = "dddd-dd-dd";
  if (text.size() != kForm.size()) return false;
  for (size_t i = 0; i < kForm.size(); ++i) {
    if (kForm[i] == 'd' ? !is_digit(text[i]) : text[i] != kForm[i])
      return false;
  }
  const int month = (text[5] - '0') * 10 + text[6] - '0';
  const int day = (text[8] - '0') * 10 + text[9] - '0';
  return month >= 1 && month <= 12 && day >= 1 && day <= 31;
}

// Converts a value; reports a value that it does not understand.
template <typename T>
using Convert = std::optional<T> (*)(const Node&, std::string_view,
                                     Diagnostics&);

std::optional<int64_t> to_count(const Node& node, std::string_view key,
                                Diagnostics& diags) {
  if (!require(node, NodeKind::Integer, key, diags)) return std::nullopt;
  const auto number = node.integer();
  if (number && *number >= 1 && *number <= kMaxCount) return number;
  return diags.error(
      Code::MalformedDocument, node.span(),
      in_backticks(key) + " must be from 1 to " + count_text(kMaxCount));
}

std::optional<int64_t> to_bytes(const Node& node, std::string_view key,
                                Diagnostics& diags) {
  const bool scalar = !node.is_null() && !node.is_list() && !node.is_map();
  const auto bytes = scalar ? parse_bytes(node.text()) : std::nullopt;
  if (bytes) return bytes;
  return diags
      .error(Code::MalformedDocument, node.span(),
             in_backticks(key) + " must be a positive size")
      .help(std::string(kByteSizeHelp));
}

std::optional<double> to_rate(const Node& node, std::string_view key,
                              Diagnostics& diags) {
  if (!require(node, NodeKind::Real, key, diags)) return std::nullopt;
  const auto number = node.number();
  if (number && std::isfinite(*number) && *number > 0) return number;
  return diags.error(Code::MalformedDocument, node.span(),
                     in_backticks(key) + " must be positive and finite");
}

std::optional<std::vector<int64_t>> to_extents(const Node& node,
                                               std::string_view key,
                                               Diagnostics& diags) {
  if (!require(node, NodeKind::List, key, diags)) return std::nullopt;
  std::vector<int64_t> extents;
  for (size_t i = 0; i < node.size(); ++i) {
    const auto extent = to_count(node.item(i), key, diags);
    if (!extent) return std::nullopt;
    extents.push_back(*extent);
  }
  if (!extents.empty()) return extents;
  return diags.error(Code::MalformedDocument, node.span(),
                     in_backticks(key) + " is empty");
}

const std::array<std::string, 14> kProfileKeys = {
    {"name", "title", "vendor", "generation", "sources", "devices_per_chip",
     "devices_per_host", "hbm_bytes", "hbm_usable_bytes",
     "hbm_bytes_per_second", "cache_bytes", "flops_per_second", "links",
     "measured"}};

class Reader {
 public:
  Reader(Diagnostics& diags, Tables tables) : diags_(diags), tables_(tables) {}

  std::optional<HardwareProfile> read(const Node& root) {
    if (!check_map(root, "a hardware profile", kProfileKeys))
      return std::nullopt;
    // An unknown key, which may be a misspelt required one, was fatal above.
    profile_.name = read_name(root);
    profile_.title = read_text(root, "title");
    profile_.vendor = read_text(root, "vendor");
    size_t generation = 0;  // index of its name
    if (choose(root.find("generation"), "generation", kGenerationNames,
               generation)) {
      profile_.generation = static_cast<CardGeneration>(generation + 1);
    }
    read_sources(root);
    if (!good_) return std::nullopt;  // numbers refer to sources
    read_numbers(root);
    read_flops(root);
    read_links(root);
    if (tables_ == Tables::Read) read_measured(root);
    if (!good_) return std::nullopt;
    return std::move(profile_);
  }

 private:
  Diagnostics::Builder fail(Span where, std::string message) {
    good_ = false;
    return diags_.error(Code::MalformedDocument, where, std::move(message));
  }

  bool check_kind(const Node& node, NodeKind kind, std::string_view what) {
    const bool fine = require(node, kind, what, diags_).has_value();
    good_ = good_ && fine;
    return fine;
  }

  bool check_map(const Node& node, std::string_view what,
                 std::span<const std::string> keys) {
    const bool fine = check_kind(node, NodeKind::Map, what) &&
                      reject_unknown_keys(node, keys, diags_);
    good_ = good_ && fine;
    return fine;
  }

  // Returns the value of a required key.
  std::optional<Node> need(const Node& map, std::string_view key) {
    if (auto value = map.find(key)) return value;
    return fail(map.span(), in_backticks(key) + " is missing");
  }

  // Returns "" if there is no node.
  std::string text_of(const std::optional<Node>& node, std::string_view key) {
    if (!node) return "";
    if (check_kind(*node, NodeKind::String, key) && node->text().empty()) {
      fail(node->span(), in_backticks(key) + " is empty");
    }
    return std::string(node->text());
  }

  std::string read_text(const Node& map, std::string_view key) {
    return text_of(need(map, key), key);
  }

  std::string read_name(const Node& map) {
    std::string name = read_text(map, "name");
    if (!name.empty() && !is_name(name)) {
      fail(map.find("name")->span(),
           in_backticks(name) + " is not a valid name")
          .help("use letters, digits, `.`, `_` and `-`, at most " +
                std::to_string(kMaxNameLength));
    }
    return name;
  }

  // Sets `choice`, an enumerator or an index, to that of the name that the
  // node, if there is one, has. Returns whether it did.
  template <typename Choice>
  bool choose(const std::optional<Node>& node, std::string_view key,
              std::span<const std::string_view> names, Choice& choice) {
    if (!node) return false;
    const std::string text = text_of(node, key);
    const auto found = std::ranges::find(names, text);
    if (found == names.end()) {
      fail(node->span(), in_backticks(key) + " must be one of " +
                             joined_of(names, ", ", in_backticks) + ", not " +
                             in_backticks(text));
      return false;
    }
    choice = static_cast<Choice>(found - names.begin());
    return true;
  }

  void read_sources(const Node& root) {
    const auto sources = need(root, "sources");
    if (!sources || !check_kind(*sources, NodeKind::Map, "sources")) return;
    static const std::array<std::string, 3> kKeys = {"title", "url", "read"};
    for (size_t i = 0; i < sources->size(); ++i) {
      const Node node = sources->item(i);
      Citation source;
      source.id = sources->key(i);
      if (!check_map(node, source.id, kKeys)) continue;
      source.title = read_text(node, "title");
      source.url = text_of(node.find("url"), "url");
      source.read = read_text(node, "read");
      if (!source.read.empty() && !is_date(source.read)) {
        fail(node.find("read")->span(), "`read` is not a date")
            .help("write dates like `2026-11-21`");
      }
      profile_.sources.push_back(std::move(source));
    }
  }

  std::optional<size_t> find_source(const Node& number, std::string_view key) {
    const auto node = number.find("source");
    if (!node) {
      return fail(number.span(), in_backticks(key) + " has no source")
          .help(std::string(kNumberForm));
    }
    const std::string id = text_of(node, "source");
    std::vector<std::string> known;
    for (size_t i = 0; i < profile_.sources.size(); ++i) {
      if (profile_.sources[i].id == id) return i;
      known.push_back(profile_.sources[i].id);
    }
    auto problem = fail(node->span(), "`sources` has no " + in_backticks(id));
    if (const auto near = nearest(id, known)) {
      problem.help("write `" + *near + "` if you meant that");
    }
    return problem;
  }

  // Returns nullopt, with nothing reported, when the key is absent.
  template <typename T>
  std::optional<Sourced<T>> read_number(const Node& map, std::string_view key,
                                        Convert<T> convert) {
    static const std::array<std::string, 4> kKeys = {"value", "source",
                                                     "estimated", "note"};
    const auto node = map.find(key);
    if (!node) return std::nullopt;
    if (!node->is_map()) {
      return fail(node->span(), in_backticks(key) + " has no source")
          .help(std::string(kNumberForm));
    }
    if (!check_map(*node, key, kKeys)) return std::nullopt;
    Sourced<T> number;
    const auto value = need(*node, "value");
    const auto converted =
        value ? convert(*value, key, diags_) : std::optional<T>();
    const auto source = find_source(*node, key);
    if (const auto estimated = node->find("estimated")) {
      check_kind(*estimated, NodeKind::Bool, "estimated");
      number.estimated = estimated->boolean().value_or(false);
    }
    number.note = text_of(node->find("note"), "note");
    if (number.estimated && number.note.empty()) {
      fail(node->span(),
           in_backticks(key) + " is estimated but has no `note` that says how");
    }
    good_ = good_ && converted && source;
    if (!converted || !source) return std::nullopt;
    number.value = *converted;
    number.source = *source;
    return number;
  }

  void read_numbers(const Node& root) {
    need(root, "devices_per_chip");
    const auto devices = read_number(root, "devices_per_chip", &to_count);
    if (devices) profile_.devices_per_chip = *devices;
    profile_.devices_per_host =
        read_number(root, "devices_per_host", &to_count);
    profile_.hbm_bytes = read_number(root, "hbm_bytes", &to_bytes);
    profile_.hbm_usable_bytes =
        read_number(root, "hbm_usable_bytes", &to_bytes);
    profile_.hbm_bytes_per_second =
        read_number(root, "hbm_bytes_per_second", &to_rate);
    profile_.cache_bytes = read_number(root, "cache_bytes", &to_bytes);
    // Catches GB written instead of GiB.
    const auto& usable = profile_.hbm_usable_bytes;
    const auto& nominal = profile_.hbm_bytes;
    if (!usable || (nominal && usable->value <= nominal->value)) return;
    auto problem = fail(root.find("hbm_usable_bytes")->span(),
                        nominal ? "`hbm_usable_bytes` exceeds `hbm_bytes`"
                                : "`hbm_usable_bytes` needs `hbm_bytes`");
    if (nominal) {
      problem.fact("usable: " + count_text(usable->value) + " of " +
                   count_text(nominal->value) + " bytes");
    }
  }

  void read_flops(const Node& root) {
    const auto flops = root.find("flops_per_second");
    if (!flops) return;
    static const std::vector<std::string> kKeys(kPrecisionNames.begin(),
                                                kPrecisionNames.end());
    if (!check_map(*flops, "flops_per_second", kKeys)) return;
    for (size_t i = 0; i < kPrecisionNames.size(); ++i) {
      auto rate = read_number(*flops, kPrecisionNames[i], &to_rate);
      if (!rate) continue;
      profile_.flops_per_second.emplace_back(static_cast<Precision>(i),
                                             *std::move(rate));
    }
  }

  void read_links(const Node& root) {
    const auto links = root.find("links");
    if (!links || !check_kind(*links, NodeKind::List, "links")) return;
    for (size_t i = 0; i < links->size(); ++i) read_link(links->item(i));
  }

  void read_link(const Node& node) {
    static const std::array<std::string, 8> kKeys = {
        "name",    "topology", "bytes_per_second", "latency_seconds", "devices",
        "extents", "wrap",     "wrap_multiple"};
    if (!check_map(node, "a link", kKeys)) return;
    LinkTier link;
    link.name = read_name(node);
    choose(need(node, "topology"), "topology", kTopologyNames, link.topology);
    need(node, "bytes_per_second");
    const auto rate = read_number(node, "bytes_per_second", &to_rate);
    if (rate) link.bytes_per_second = *rate;
    link.latency_seconds = read_number(node, "latency_seconds", &to_rate);
    link.devices = read_number(node, "devices", &to_count);
    read_torus(node, link);
    profile_.links.push_back(std::move(link));
  }

  void read_torus(const Node& node, LinkTier& link) {
    for (const char* key : {"extents", "wrap", "wrap_multiple"}) {
      const auto found = node.find(key);
      if (found && link.topology != Topology::Torus) {
        fail(found->span(), in_backticks(key) + " applies only to a torus");
      }
    }
    link.extents = read_number(node, "extents", &to_extents);
    link.wrap_multiple = read_number(node, "wrap_multiple", &to_count);
    const auto wrap = node.find("wrap");
    choose(wrap, "wrap", kWrapNames, link.wrap);
    if (wrap.has_value() != node.find("wrap_multiple").has_value()) {
      fail(node.span(), "`wrap` and `wrap_multiple` must be given together");
    }
  }

  // --- What was measured

  // Reads a list of numbers, or a string of numbers separated by blanks.
  std::vector<double> read_series(const Node& map, std::string_view key) {
    std::vector<double> numbers;
    const auto node = need(map, key);
    if (!node) return numbers;
    const auto add = [&](std::optional<double> number, const Node& at,
                         std::string_view text) {
      if (numbers.size() == kMaxPoints) {
        fail(node->span(), in_backticks(key) + " has more than " +
                               count_text(kMaxPoints) + " numbers");
      } else if (number && std::isfinite(*number) && *number >= 0) {
        numbers.push_back(*number);
      } else {
        fail(at.span(), in_backticks(key) + " has " + in_backticks(text) +
                            ", which is not a number of at least 0");
      }
    };
    if (node->is_list()) {
      for (size_t i = 0; i < node->size() && good_; ++i) {
        const Node item = node->item(i);
        const bool scalar = !item.is_list() && !item.is_map();
        add(item.number(), item, scalar ? item.text() : kind_name(item.kind()));
      }
    } else if (node->is_map() || node->is_null()) {
      fail(node->span(), in_backticks(key) +
                             " must be a list of numbers or a string of "
                             "numbers");
    } else {
      constexpr std::string_view kBlanks = " \t\r\n";
      std::string_view rest = node->text();
      while (good_) {
        rest.remove_prefix(
            std::min(rest.find_first_not_of(kBlanks), rest.size()));
        if (rest.empty()) break;
        const std::string_view word =
            rest.substr(0, rest.find_first_of(kBlanks));
        rest.remove_prefix(word.size());
        add(parse_real(word), *node, word);
      }
    }
    return numbers;
  }

  // `unit` converts a value in the file to the profile's unit.
  MeasuredGrid read_grid(const Node& node,
                         std::span<const std::string_view> axes,
                         std::string_view values, double unit) {
    MeasuredGrid grid;
    size_t points = 1;
    for (const std::string_view key : axes) {
      grid.axes.push_back(read_series(node, key));
      if (!good_) return grid;
      const std::vector<double>& axis = grid.axes.back();
      const bool ascends =
          std::ranges::adjacent_find(axis, std::greater_equal()) == axis.end();
      if (axis.empty() || axis.front() <= 0 || !ascends) {
        fail(node.find(key)->span(),
             in_backticks(key) + " must be positive and strictly increasing");
        return grid;
      }
      // At most three axes of 2^14 points each cannot overflow.
      points *= axis.size();
    }
    grid.values = read_series(node, values);
    if (good_ && grid.values.size() != points) {
      fail(node.find(values)->span(),
           in_backticks(values) + " has " + std::to_string(grid.values.size()) +
               " of " + std::to_string(points) + " values")
          .help(
              "give one for each combination of the axes, with the last axis "
              "varying fastest; write 0 where nothing was measured");
    }
    for (double& value : grid.values) value *= unit;
    grid.source = find_source(node, values).value_or(0);
    grid.note = text_of(node.find("note"), "note");
    return grid;
  }

  // A rate above the peak means a wrong unit or a wrong peak.
  void check_peak(const Node& where, double rate, std::string_view key,
                  std::optional<double> peak) {
    if (good_ && (!peak || rate > *peak)) {
      fail(where.span(),
           (peak ? "this exceeds " : "this needs ") + in_backticks(key))
          .help(in_backticks(key) +
                " is a peak that no run exceeds; check both units");
    }
  }

  void check_flops(const Node& where, const MeasuredGrid& grid,
                   Precision precision) {
    std::optional<double> peak;
    for (const auto& [of, rate] : profile_.flops_per_second) {
      if (of == precision) peak = rate.value;
    }
    if (!good_) return;
    check_peak(
        where, *std::ranges::max_element(grid.values),
        "flops_per_second." + std::string(nth(kPrecisionNames, precision)),
        peak);
  }

  // Calls `read` for each table of one kind.
  template <typename Read>
  void read_tables(const Node& measured, std::string_view key,
                   std::span<const std::string> keys, const Read& read) {
    const auto list = measured.find(key);
    if (!list || !check_kind(*list, NodeKind::List, key)) return;
    if (list->size() > kMaxTables) {
      fail(list->span(), in_backticks(key) + " has more than " +
                             count_text(kMaxTables) + " tables");
      return;
    }
    for (size_t i = 0; i < list->size(); ++i) {
      const Node node = list->item(i);
      if (check_map(node, "a table", keys)) read(node);
    }
  }

  void read_products(const Node& measured) {
    static const std::array<std::string, 7> kKeys = {
        "precision", "m", "n", "k", "teraflops", "source", "note"};
    static constexpr std::array<std::string_view, 3> kAxes = {"m", "n", "k"};
    auto& tables = profile_.measured.products;
    read_tables(measured, "products", kKeys, [&](const Node& node) {
      MeasuredProducts table;
      if (!choose(need(node, "precision"), "precision", kPrecisionNames,
                  table.precision)) {
        return;
      }
      table.rate = read_grid(node, kAxes, "teraflops", 1e12);
      check_flops(node, table.rate, table.precision);
      check_once(node, tables, [&](const MeasuredProducts& other) {
        return other.precision == table.precision;
      });
      tables.push_back(std::move(table));
    });
  }

  void read_attention(const Node& measured) {
    static const std::array<std::string, 7> kKeys = {
        "kernel",    "backward", "length", "head_dim",
        "teraflops", "source",   "note"};
    static constexpr std::array<std::string_view, 2> kAxes = {"length",
                                                              "head_dim"};
    auto& tables = profile_.measured.attention;
    read_tables(measured, "attention", kKeys, [&](const Node& node) {
      MeasuredAttention table;
      table.kernel = read_text(node, "kernel");
      const auto backward = need(node, "backward");
      if (!backward || !check_kind(*backward, NodeKind::Bool, "backward")) {
        return;
      }
      table.backward = backward->boolean().value_or(false);
      table.rate = read_grid(node, kAxes, "teraflops", 1e12);
      check_flops(node, table.rate, Precision::BF16);
      check_once(node, tables, [&](const MeasuredAttention& other) {
        return other.kernel == table.kernel && other.backward == table.backward;
      });
      tables.push_back(std::move(table));
    });
  }

  void read_collectives(const Node& measured) {
    static const std::array<std::string, 6> kKeys = {
        "kind", "ranks", "bytes", "microseconds", "source", "note"};
    static constexpr std::array<std::string_view, 2> kAxes = {"ranks", "bytes"};
    auto& tables = profile_.measured.collectives;
    read_tables(measured, "collectives", kKeys, [&](const Node& node) {
      size_t kind = 0;
      if (!choose(need(node, "kind"), "kind", kMeasuredCollectives, kind)) {
        return;
      }
      MeasuredCollective table;
      table.kind = kMeasuredCollectives[kind];
      table.seconds = read_grid(node, kAxes, "microseconds", 1e-6);
      check_once(node, tables, [&](const MeasuredCollective& other) {
        return other.kind == table.kind;
      });
      tables.push_back(std::move(table));
    });
  }

  template <typename Table, typename Same>
  void check_once(const Node& node, const std::vector<Table>& tables,
                  const Same& same) {
    if (std::ranges::any_of(tables, same)) {
      fail(node.span(), "an earlier table already covers this");
    }
  }

  void read_measured(const Node& root) {
    const auto node = root.find("measured");
    if (!node) return;
    using Number = std::optional<Sourced<double>> MeasuredTables::*;
    static constexpr std::pair<std::string_view, Number> kNumbers[] = {
        {"sustained", &MeasuredTables::sustained},
        {"kernel_seconds", &MeasuredTables::kernel_seconds},
        {"eager_launch_seconds", &MeasuredTables::eager_launch_seconds},
        {"host_bytes_per_second", &MeasuredTables::host_bytes_per_second},
        {"network_bytes_per_second",
         &MeasuredTables::network_bytes_per_second}};
    std::vector<std::string> keys = {"products", "attention", "memory",
                                     "collectives"};
    for (const auto& number : kNumbers) keys.emplace_back(number.first);
    if (!check_map(*node, "measured", keys)) return;
    read_products(*node);
    read_attention(*node);
    read_collectives(*node);
    MeasuredTables& measured = profile_.measured;
    if (const auto memory = node->find("memory")) {
      static const std::array<std::string, 4> kMemoryKeys = {
          "bytes", "gigabytes_per_second", "source", "note"};
      static constexpr std::array<std::string_view, 1> kAxes = {"bytes"};
      if (check_map(*memory, "memory", kMemoryKeys)) {
        measured.memory =
            read_grid(*memory, kAxes, "gigabytes_per_second", 1e9);
        const auto& peak = profile_.hbm_bytes_per_second;
        if (good_) {
          check_peak(*memory, measured.memory->values.back(),
                     "hbm_bytes_per_second",
                     peak ? std::optional(peak->value) : std::nullopt);
        }
      }
    }
    for (const auto& [key, number] : kNumbers) {
      measured.*number = read_number(*node, key, &to_rate);
    }
  }

  Diagnostics& diags_;
  Tables tables_;
  HardwareProfile profile_;
  bool good_ = true;
};

}  // namespace

HardwareProfile shipped_hardware(std::string_view name) {
  Diagnostics diags;
  auto profile =
      read_hardware(find_shipped(kHardwareFolder, name, diags), diags);
  SHARDPLAN_CHECK(profile.has_value());
  return *std::move(profile);
}

std::vector<HardwareProfile> shipped_hardware() {
  std::vector<HardwareProfile> profiles;
  for (const std::string& name : shipped_names(kHardwareFolder)) {
    profiles.push_back(shipped_hardware(name));
  }
  return profiles;
}

bool is_hardware_path(std::string_view name_or_path) {
  return name_or_path.find_first_of("/.") != std::string_view::npos;
}

std::optional<HardwareProfile> read_hardware(SourcePtr source,
                                             Diagnostics& diags,
                                             Tables tables) {
  const auto document = parse_document(std::move(source), diags);
  if (!document) return std::nullopt;
  return Reader(diags, tables).read(document->root());
}

std::optional<HardwareProfile> load_hardware(const std::string& name_or_path,
                                             Host& host, Diagnostics& diags,
                                             Tables tables) {
  if (is_hardware_path(name_or_path)) {
    SourcePtr file = read_source(name_or_path, kWholeFile, host, diags);
    if (file == nullptr) return std::nullopt;
    if (refuse_other_hardware(*file, diags)) return std::nullopt;
    return read_hardware(std::move(file), diags, tables);
  }
  // People write L40S and H100; profile names are in lower case.
  const std::string meant(profile_of_accelerator(name_or_path));
  SourcePtr shipped = find_shipped(
      kHardwareFolder, meant.empty() ? lower_case(name_or_path) : meant, diags);
  if (shipped != nullptr) {
    return read_hardware(std::move(shipped), diags, tables);
  }
  report_unknown(name_or_path, host, diags);
  return std::nullopt;
}

}  // namespace shardplan
