// SPDX-License-Identifier: Apache-2.0
#include "io/topologies.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "core/hardware.h"
#include "core/mesh.h"
#include "io/hardware.h"

namespace shardplan {
namespace {

// Names are ASCII, and so is everything they are compared with.
bool is_same_name(std::string_view a, std::string_view b) {
  return lower_case(a) == lower_case(b);
}

// The table entry that has a name, and the table's spelling of the name.
template <typename Entry>
struct Named {
  const Entry* entry = nullptr;
  std::string_view name;
};
template <typename Entry>
Named<Entry> find_spelled(std::span<const Entry> table, std::string_view name) {
  for (const Entry& entry : table) {
    for (const std::string_view own : entry.names) {
      if (is_same_name(own, name)) return {&entry, own};
    }
  }
  return {};
}

template <typename Entry>
void add_names(std::span<const Entry> table, std::vector<std::string>& names) {
  for (const Entry& entry : table) {
    names.insert(names.end(), entry.names.begin(), entry.names.end());
  }
}

// Reads digits without a leading zero. More than 2^40 of anything is refused,
// so a number beyond 63 bits may be read as any number above that.
std::optional<int64_t> whole_number(std::string_view text) {
  if (text.empty() || text.front() == '0' ||
      !std::ranges::all_of(text, is_digit)) {
    return std::nullopt;
  }
  return parse_integer(text).value_or(INT64_MAX);
}

// "2xv5e-256" split into 2 and "v5e-256".
struct Multiplied {
  std::optional<int64_t> times;  // nullopt if no number is written
  std::string_view name;
};
Multiplied split_times(std::string_view text) {
  const size_t end = text.find_first_not_of("0123456789");
  if (end == 0 || end == std::string_view::npos ||
      (text[end] != 'x' && text[end] != 'X')) {
    return {std::nullopt, text};
  }
  // "0x.." does not count anything; it becomes an unknown name.
  const auto times = whole_number(text.substr(0, end));
  if (!times) return {std::nullopt, text};
  return {times, text.substr(end + 1)};
}

// "v5p-128" split into "v5p" and 128.
struct Sized {
  std::string_view family;
  int64_t size = 0;
};
std::optional<Sized> split_size(std::string_view name) {
  const size_t dash = name.rfind('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto size = whole_number(name.substr(dash + 1));
  if (!size) return std::nullopt;
  return Sized{name.substr(0, dash), *size};
}

bool has_size(const TpuFamily& family, int64_t size) {
  const auto& sizes = family.sizes;
  return contains(sizes, size) || (family.step > 0 && size % family.step == 0 &&
                                   size <= family.most.value);
}

// Returns "v5p counts cores, 2 per chip", "v5e counts chips".
std::string units_text(const TpuFamily& family, std::string_view name) {
  const std::string counts = std::string(name) + " counts ";
  if (family.unit == TpuUnit::Chips) return counts + "chips";
  if (family.devices_per_chip.value == family.cores_per_chip.value) {
    return counts + "cores, each one a device";
  }
  return counts + "cores, " + std::to_string(family.cores_per_chip.value) +
         " per chip";
}

// Sets the fields that a profile determines; returns its title.
std::string use_profile(std::string_view name, NamedTopology& topology) {
  const HardwareProfile profile = shipped_hardware(name);
  topology.hardware = name;
  const auto& bytes =
      profile.hbm_usable_bytes ? profile.hbm_usable_bytes : profile.hbm_bytes;
  if (bytes) topology.device_bytes = bytes->value;
  return profile.title;
}

class TopologyReader {
 public:
  // With `suggests`, the error for an unknown name suggests similar ones.
  TopologyReader(std::string_view text, Span where, bool suggests,
                 Diagnostics& diags)
      : text_(text),
        where_(where),
        suggests_(suggests),
        diags_(diags),
        parts_(split_times(text)) {}

  std::optional<NamedTopology> read() {
    const auto machine = find_spelled(gpu_machines(), parts_.name);
    if (machine.entry != nullptr) return read_machine(machine);
    const auto plain = find_spelled(plain_accelerators(), parts_.name);
    if (plain.entry != nullptr) return read_plain(plain);
    const auto sized = split_size(parts_.name);
    if (sized) {
      const auto family = find_spelled(tpu_families(), sized->family);
      if (family.entry != nullptr) return read_slice(family, sized->size);
    }
    return report_unknown(sized ? sized->family : parts_.name);
  }

 private:
  int64_t times() const { return parts_.times.value_or(1); }

  std::string with_times(std::string_view name) const {
    return (parts_.times ? std::to_string(times()) + "x" : "") +
           std::string(name);
  }

  // Returns the topology with its name and devices, `each` times the number in
  // front. Returns nullopt, with the reason reported, beyond the limit of a
  // mesh.
  std::optional<NamedTopology> named(std::string_view name, int64_t each) {
    const auto devices = checked_mul(each, times());
    if (devices && *devices <= kMaxDevices) {
      NamedTopology topology;
      topology.name = with_times(name);
      topology.devices = *devices;
      return topology;
    }
    return diags_
        .error(Code::Usage, where_,
               "topology " + in_backticks(text_) + " has too many devices")
        .fact("more than 2^40");
  }

  std::optional<NamedTopology> read_machine(const Named<GpuMachine>& found) {
    const GpuMachine& machine = *found.entry;
    auto topology = named(found.name, machine.devices.value);
    if (!topology) return std::nullopt;
    topology->hosts = times();
    const std::string title = use_profile(machine.hardware, *topology);
    topology->meaning =
        plural(topology->devices, "device") + " (" +
        (times() > 1 ? plural(times(), "machine") + " of " +
                           std::to_string(machine.devices.value) + ", "
                     : "") +
        title + ")";
    topology->numbers = {{"devices_per_machine", machine.devices}};
    return topology;
  }

  std::optional<NamedTopology> read_plain(
      const Named<PlainAccelerator>& found) {
    if (!parts_.times) {
      return diags_
          .error(Code::Usage, where_,
                 "topology " + in_backticks(text_) + " has no device count")
          .help("write the number of devices, e.g. `8x" +
                std::string(found.name) + "`");
    }
    auto topology = named(found.name, 1);
    if (!topology) return std::nullopt;
    const std::string title = use_profile(found.entry->hardware, *topology);
    topology->meaning =
        plural(topology->devices, "device") + " (" + title + ")";
    return topology;
  }

  std::optional<NamedTopology> read_slice(const Named<TpuFamily>& found,
                                          int64_t size) {
    const TpuFamily& family = *found.entry;
    if (!has_size(family, size)) return report_size(found, size);
    const int64_t chips = family.unit == TpuUnit::Cores
                              ? size / family.cores_per_chip.value
                              : size;
    auto topology = named(std::string(found.name) + "-" + std::to_string(size),
                          chips * family.devices_per_chip.value);
    if (!topology) return std::nullopt;
    topology->slices = times();
    topology->hosts = ceil_div(chips, family.chips_per_host.value) * times();
    if (!family.hardware.empty()) use_profile(family.hardware, *topology);
    topology->meaning = plural(topology->devices, "device") +
                        (times() > 1 ? " in " + plural(times(), "slice") : "") +
                        " (" + units_text(family, found.name) + ")";
    topology->numbers = {{"cores_per_chip", family.cores_per_chip},
                         {"devices_per_chip", family.devices_per_chip},
                         {"chips_per_host", family.chips_per_host}};
    return topology;
  }

  std::optional<NamedTopology> report_size(const Named<TpuFamily>& found,
                                           int64_t size) {
    const TpuFamily& family = *found.entry;
    auto problem = diags_.error(Code::Usage, where_,
                                "unknown topology " + in_backticks(text_));
    problem.fact(units_text(family, found.name) + "; a slice has " +
                 sizes_text(family));
    // The user may have written chips although the family counts cores.
    const auto cores = checked_mul(size, family.cores_per_chip.value);
    if (family.unit == TpuUnit::Cores && cores && has_size(family, *cores)) {
      problem.help(plural(size, "chip") + (size == 1 ? " is `" : " are `") +
                   std::string(found.name) + "-" + std::to_string(*cores) +
                   "`");
    }
    return problem;
  }

  // Returns the valid form of "H100:8", "a3-highgpu-8gx4" or "v5e-256*2".
  std::optional<std::string> turned_round() const {
    const size_t end = text_.find_last_not_of("0123456789");
    if (end == std::string_view::npos || end == 0) return std::nullopt;
    const auto number = whole_number(text_.substr(end + 1));
    if (!number || !contains("xX:*", text_[end])) {
      return std::nullopt;
    }
    const std::string turned =
        std::to_string(*number) + "x" + std::string(text_.substr(0, end));
    Diagnostics ignored;
    const auto meant = TopologyReader(turned, {}, false, ignored).read();
    if (!meant) return std::nullopt;
    return meant->name;
  }

  // Returns a similar name from the tables.
  std::optional<std::string> near_name() const {
    if (const auto sized = split_size(parts_.name)) {
      std::vector<std::string> families;
      add_names(tpu_families(), families);
      const auto near = nearest(sized->family, families);
      if (near &&
          has_size(*find_spelled(tpu_families(), *near).entry, sized->size)) {
        return with_times(*near + "-" + std::to_string(sized->size));
      }
    }
    std::vector<std::string> names;
    add_names(gpu_machines(), names);
    add_names(plain_accelerators(), names);
    const auto near = nearest(parts_.name, names);
    if (!near) return std::nullopt;
    const bool needs_number =
        find_spelled(gpu_machines(), *near).entry == nullptr;
    return needs_number && !parts_.times ? "8x" + *near : with_times(*near);
  }

  // `name` has no number at its end.
  std::optional<NamedTopology> report_unknown(std::string_view name) {
    const std::string shown = "topology " + in_backticks(text_);
    for (const AmbiguousTopology& ambiguous : ambiguous_topologies()) {
      if (!is_same_name(ambiguous.name, name)) continue;
      return diags_.error(Code::Usage, where_, shown + " is ambiguous")
          .fact(std::string(ambiguous.why))
          .help(std::string(ambiguous.help));
    }
    const auto family = find_spelled(tpu_families(), name);
    if (family.entry != nullptr) {
      return diags_.error(Code::Usage, where_, shown + " has no size")
          .fact(units_text(*family.entry, family.name))
          .help("write the size of the slice, e.g. `" +
                with_times(family.name) + "-" +
                std::to_string(family.entry->example) + "`");
    }
    auto problem = diags_.error(Code::Usage, where_, "unknown " + shown);
    if (!suggests_) return problem;
    if (const auto turned = turned_round()) {
      problem.help("write the number first: `" + *turned + "`");
    } else if (const auto near = near_name()) {
      problem.help("did you mean `" + *near + "`?");
    }
    problem.help(
        "`shardplan list topologies` shows all; describe any other with "
        "`--devices` and `--hardware`");
    return problem;
  }

  std::string_view text_;
  Span where_;
  bool suggests_;
  Diagnostics& diags_;
  Multiplied parts_;
};

}  // namespace

std::string_view profile_of_accelerator(std::string_view name) {
  const auto plain = find_spelled(plain_accelerators(), name);
  return plain.entry == nullptr ? std::string_view() : plain.entry->hardware;
}

std::optional<NamedTopology> read_topology(std::string_view text, Span where,
                                           Diagnostics& diags) {
  return TopologyReader(text, where, true, diags).read();
}

std::string topology_text(const NamedTopology& topology) {
  std::string text = topology.name + ": " + topology.meaning;
  if (topology.device_bytes) {
    text += ", " + bytes_text(*topology.device_bytes) +
            (topology.devices == 1 ? "" : " each");
  }
  return text;
}

std::vector<std::string> topology_examples() {
  std::vector<std::string> names;
  for (const TpuFamily& family : tpu_families()) {
    for (const std::string_view name : family.names) {
      names.push_back(std::string(name) + "-" + std::to_string(family.example));
    }
  }
  add_names(gpu_machines(), names);
  for (const PlainAccelerator& plain : plain_accelerators()) {
    names.push_back("8x" + std::string(plain.names.front()));
  }
  return names;
}

std::string sizes_text(const TpuFamily& family) {
  const std::string text = joined_of(
      family.sizes, ", ", [](int64_t size) { return std::to_string(size); });
  if (family.step == 0) return text;
  return text + (text.empty() ? "" : " or ") + "a multiple of " +
         std::to_string(family.step) + " up to " +
         count_text(family.most.value);
}

}  // namespace shardplan
