// SPDX-License-Identifier: Apache-2.0
#include "io/hardware.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/checked.h"
#include "base/shipped.h"
#include "base/text.h"
#include "base/words.h"
#include "io/load.h"
#include "io/other_files.h"

namespace shardplan {
namespace {

void report_unknown(const std::string& name, Host& host, Diagnostics& diags) {
  const std::vector<std::string> known = shipped_names(kHardwareFolder);
  auto report = diags.error(Code::UnreadableFile, {},
                            "no hardware profile named " + in_backticks(name));
  std::vector<std::string> longer;  // "h100" for "h100-sxm"
  for (const std::string& candidate : known) {
    if (!name.empty() && candidate.starts_with(name)) {
      longer.push_back(candidate);
    }
  }
  if (!longer.empty()) {
    report.help("names that start so: " + quoted_names(longer, ", "));
  } else if (const auto near = nearest(name, known)) {
    report.help("did you mean `" + *near + "`?");
  }
  if (host.file_info(name)) {
    report.help("`./" + std::string(name) + "` is taken as a file");
  }
  report.help("`shardplan list hardware` shows all");
}

}  // namespace

std::vector<HardwareProfile> shipped_hardware() {
  std::vector<HardwareProfile> profiles;
  Diagnostics diags;
  for (const std::string& name : shipped_names(kHardwareFolder)) {
    auto profile =
        read_hardware(find_shipped(kHardwareFolder, name, diags), diags);
    SHARDPLAN_CHECK(profile.has_value());
    profiles.push_back(*std::move(profile));
  }
  return profiles;
}

bool is_hardware_path(std::string_view name_or_path) {
  return name_or_path.find_first_of("/.") != std::string_view::npos;
}

std::optional<HardwareProfile> read_hardware(SourcePtr source,
                                             Diagnostics& diags) {
  const auto document = parse_document(std::move(source), diags);
  if (!document) return std::nullopt;
  return read_hardware_node(document->root(), diags);
}

std::optional<HardwareProfile> load_hardware(const std::string& name_or_path,
                                             Host& host, Diagnostics& diags) {
  if (is_hardware_path(name_or_path)) {
    SourcePtr file = read_source(name_or_path, kWholeFile, host, diags);
    if (file == nullptr) return std::nullopt;
    diags.keep(file);
    if (refuse_other_hardware(*file, diags)) return std::nullopt;
    return read_hardware(std::move(file), diags);
  }
  // People write L40S and H100-SXM; names of profiles are in lower case.
  SourcePtr shipped =
      find_shipped(kHardwareFolder, lower_case(name_or_path), diags);
  if (shipped != nullptr) return read_hardware(std::move(shipped), diags);
  report_unknown(name_or_path, host, diags);
  return std::nullopt;
}

namespace {

constexpr std::string_view kNumberForm =
    "a number is written `{value: 80GiB, source: ID}`, and `sources` says "
    "what ID is";
constexpr int64_t kMaxCount = int64_t{1} << 40U;
constexpr size_t kMaxNameLength = 64;

bool is_name(std::string_view text) {
  constexpr std::string_view kLegal =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !text.empty() && text.size() <= kMaxNameLength &&
         text.find_first_not_of(kLegal) == text.npos;
}

// "2026-11-21": a day that a calendar may have.
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

// How values are spelt; each reports what it does not understand.
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
      "`" + std::string(key) + "` must be from 1 to " + count_text(kMaxCount));
}

std::optional<int64_t> to_bytes(const Node& node, std::string_view key,
                                Diagnostics& diags) {
  const bool scalar = !node.is_null() && !node.is_list() && !node.is_map();
  if (scalar) {
    if (const auto bytes = parse_bytes(node.text())) return bytes;
  }
  return diags
      .error(Code::MalformedDocument, node.span(),
             "`" + std::string(key) + "` must be a positive size")
      .help(std::string(kByteSizeHelp));
}

std::optional<double> to_rate(const Node& node, std::string_view key,
                              Diagnostics& diags) {
  if (!require(node, NodeKind::Real, key, diags)) return std::nullopt;
  const auto number = node.number();
  if (number && std::isfinite(*number) && *number > 0) return number;
  return diags.error(Code::MalformedDocument, node.span(),
                     "`" + std::string(key) + "` must be above 0 and finite");
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
                     "`" + std::string(key) + "` is empty");
}

class Reader {
 public:
  explicit Reader(Diagnostics& diags) : diags_(diags) {}

  std::optional<HardwareProfile> read(const Node& root) {
    static const std::array<std::string, 11> kKeys = {"name",
                                                      "title",
                                                      "vendor",
                                                      "sources",
                                                      "devices_per_chip",
                                                      "devices_per_host",
                                                      "hbm_bytes",
                                                      "hbm_usable_bytes",
                                                      "hbm_bytes_per_second",
                                                      "flops_per_second",
                                                      "links"};
    if (!check_map(root, "a hardware profile", kKeys)) return std::nullopt;
    // An unknown key may be a misspelt one that is then missing, too.
    profile_.name = read_name(root);
    profile_.title = read_text(root, "title");
    profile_.vendor = read_text(root, "vendor");
    read_sources(root);
    if (!good_) return std::nullopt;  // numbers refer to sources
    read_numbers(root);
    read_flops(root);
    read_links(root);
    if (!good_) return std::nullopt;
    return std::move(profile_);
  }

 private:
  Diagnostics::Builder fail(Span where, std::string message) {
    good_ = false;
    return diags_.error(Code::MalformedDocument, where, std::move(message));
  }

  bool check_map(const Node& node, std::string_view what,
                 std::span<const std::string> keys) {
    const bool fine = require(node, NodeKind::Map, what, diags_) &&
                      reject_unknown_keys(node, keys, diags_);
    good_ = good_ && fine;
    return fine;
  }

  // The value of a key that must be there.
  std::optional<Node> need(const Node& map, std::string_view key) {
    if (auto value = map.find(key)) return value;
    return fail(map.span(), "there is no `" + std::string(key) + "`");
  }

  std::string text_of(const Node& node, std::string_view key) {
    if (!require(node, NodeKind::String, key, diags_)) {
      good_ = false;
    } else if (node.text().empty()) {
      fail(node.span(), "`" + std::string(key) + "` is empty");
    }
    return std::string(node.text());
  }

  std::string read_text(const Node& map, std::string_view key) {
    const auto node = need(map, key);
    return node ? text_of(*node, key) : "";
  }

  std::string read_optional_text(const Node& map, std::string_view key) {
    const auto node = map.find(key);
    return node ? text_of(*node, key) : "";
  }

  std::string read_name(const Node& map) {
    std::string name = read_text(map, "name");
    if (!name.empty() && !is_name(name)) {
      fail(map.find("name")->span(), in_backticks(name) + " is not a name")
          .help("names have letters, digits, `.`, `_` and `-`, at most " +
                std::to_string(kMaxNameLength));
    }
    return name;
  }

  template <size_t size>
  std::optional<size_t> read_choice(
      const Node& node, std::string_view key,
      const std::array<std::string_view, size>& names) {
    const std::string text = text_of(node, key);
    const auto found = std::ranges::find(names, text);
    if (found != names.end()) return static_cast<size_t>(found - names.begin());
    std::string all;
    for (std::string_view name : names) {
      all += (all.empty() ? "`" : ", `") + std::string(name) + "`";
    }
    return fail(node.span(), "`" + std::string(key) + "` must be one of " +
                                 all + ", not " + in_backticks(text));
  }

  void read_sources(const Node& root) {
    const auto sources = need(root, "sources");
    if (!sources) return;
    if (!require(*sources, NodeKind::Map, "sources", diags_)) {
      good_ = false;
      return;
    }
    static const std::array<std::string, 3> kKeys = {"title", "url", "read"};
    for (size_t i = 0; i < sources->size(); ++i) {
      const Node node = sources->item(i);
      Citation source;
      source.id = sources->key(i);
      if (!check_map(node, source.id, kKeys)) continue;
      source.title = read_text(node, "title");
      source.url = read_optional_text(node, "url");
      source.read = read_text(node, "read");
      if (!source.read.empty() && !is_date(source.read)) {
        fail(node.find("read")->span(), "`read` is not a date")
            .help("dates are written like `2026-11-21`");
      }
      profile_.sources.push_back(std::move(source));
    }
  }

  std::optional<size_t> find_source(const Node& number, std::string_view key) {
    const auto node = number.find("source");
    if (!node) {
      return fail(number.span(), "`" + std::string(key) + "` has no source")
          .help(std::string(kNumberForm));
    }
    const std::string id = text_of(*node, "source");
    std::vector<std::string> known;
    for (size_t i = 0; i < profile_.sources.size(); ++i) {
      if (profile_.sources[i].id == id) return i;
      known.push_back(profile_.sources[i].id);
    }
    auto problem = fail(node->span(), "`sources` has no " + in_backticks(id));
    if (const auto near = nearest(id, known)) {
      problem.help("write `" + *near + "` if that is what was meant");
    }
    return problem;
  }

  // Empty, with nothing reported, when the key is not there.
  template <typename T>
  std::optional<Sourced<T>> read_number(const Node& map, std::string_view key,
                                        Convert<T> convert) {
    static const std::array<std::string, 4> kKeys = {"value", "source",
                                                     "estimated", "note"};
    const auto node = map.find(key);
    if (!node) return std::nullopt;
    if (!node->is_map()) {
      return fail(node->span(), "`" + std::string(key) + "` has no source")
          .help(std::string(kNumberForm));
    }
    if (!check_map(*node, key, kKeys)) return std::nullopt;
    Sourced<T> number;
    const auto value = need(*node, "value");
    const auto converted =
        value ? convert(*value, key, diags_) : std::optional<T>();
    const auto source = find_source(*node, key);
    if (const auto estimated = node->find("estimated")) {
      if (!require(*estimated, NodeKind::Bool, "estimated", diags_)) {
        good_ = false;
      }
      number.estimated = estimated->boolean().value_or(false);
    }
    number.note = read_optional_text(*node, "note");
    if (number.estimated && number.note.empty()) {
      fail(node->span(), "`" + std::string(key) +
                             "` is estimated without a `note` that says how");
    }
    good_ = good_ && converted && source;
    if (!converted || !source) return std::nullopt;
    number.value = *converted;
    number.source = *source;
    return number;
  }

  void read_numbers(const Node& root) {
    if (need(root, "devices_per_chip")) {
      const auto devices = read_number(root, "devices_per_chip", &to_count);
      if (devices) profile_.devices_per_chip = *devices;
    }
    profile_.devices_per_host =
        read_number(root, "devices_per_host", &to_count);
    profile_.hbm_bytes = read_number(root, "hbm_bytes", &to_bytes);
    profile_.hbm_usable_bytes =
        read_number(root, "hbm_usable_bytes", &to_bytes);
    profile_.hbm_bytes_per_second =
        read_number(root, "hbm_bytes_per_second", &to_rate);
    check_usable(root);
  }

  // Catches GB written for GiB.
  void check_usable(const Node& root) {
    const auto& usable = profile_.hbm_usable_bytes;
    const auto& nominal = profile_.hbm_bytes;
    if (!usable || (nominal && usable->value <= nominal->value)) return;
    auto problem = fail(root.find("hbm_usable_bytes")->span(),
                        nominal ? "more is usable than there is"
                                : "`hbm_usable_bytes` needs `hbm_bytes`");
    if (nominal) {
      problem.fact("usable " + count_text(usable->value) + " of " +
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
    if (!links) return;
    if (!require(*links, NodeKind::List, "links", diags_)) {
      good_ = false;
      return;
    }
    for (size_t i = 0; i < links->size(); ++i) read_link(links->item(i));
  }

  void read_link(const Node& node) {
    static const std::array<std::string, 8> kKeys = {
        "name",    "topology", "bytes_per_second", "latency_seconds", "devices",
        "extents", "wrap",     "wrap_multiple"};
    if (!check_map(node, "a link", kKeys)) return;
    LinkTier link;
    link.name = read_name(node);
    if (const auto topology = need(node, "topology")) {
      const auto choice = read_choice(*topology, "topology", kTopologyNames);
      if (choice) link.topology = static_cast<Topology>(*choice);
    }
    if (need(node, "bytes_per_second")) {
      const auto rate = read_number(node, "bytes_per_second", &to_rate);
      if (rate) link.bytes_per_second = *rate;
    }
    link.latency_seconds = read_number(node, "latency_seconds", &to_rate);
    link.devices = read_number(node, "devices", &to_count);
    read_torus(node, link);
    profile_.links.push_back(std::move(link));
  }

  void read_torus(const Node& node, LinkTier& link) {
    for (const char* key : {"extents", "wrap", "wrap_multiple"}) {
      const auto found = node.find(key);
      if (found && link.topology != Topology::Torus) {
        fail(found->span(), "`" + std::string(key) + "` is for a torus");
      }
    }
    link.extents = read_number(node, "extents", &to_extents);
    link.wrap_multiple = read_number(node, "wrap_multiple", &to_count);
    const auto wrap = node.find("wrap");
    if (wrap) {
      const auto choice = read_choice(*wrap, "wrap", kWrapNames);
      if (choice) link.wrap = static_cast<Wrap>(*choice);
    }
    if (wrap.has_value() != node.find("wrap_multiple").has_value()) {
      fail(node.span(), "`wrap` and `wrap_multiple` go together");
    }
  }

  Diagnostics& diags_;
  HardwareProfile profile_;
  bool good_ = true;
};

}  // namespace

std::optional<HardwareProfile> read_hardware_node(const Node& root,
                                                  Diagnostics& diags) {
  return Reader(diags).read(root);
}

}  // namespace shardplan
