// SPDX-License-Identifier: Apache-2.0
#include "core/manifest.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "base/checked.h"
#include "base/plain_json.h"
#include "base/text.h"
#include "core/fold.h"

namespace shardplan {
namespace {

uint64_t hash_of(const TensorType& type) {
  uint64_t hash = static_cast<uint64_t>(type.dtype) + 0x9e3779b97f4a7c15U;
  for (const int64_t size : type.shape) {
    hash = (hash ^ static_cast<uint64_t>(size)) * 0xff51afd7ed558ccdU;
    hash ^= hash >> 32U;
  }
  return hash ^ type.shape.size();
}

bool is_plain(std::string_view name) {
  return plain_json(name) == name.size() ||
         std::ranges::all_of(name, [](char c) { return c >= ' ' && c <= '~'; });
}

// Returns the length in bytes of the common prefix of two names. Compares eight
// bytes at a time.
size_t common_begin(std::string_view a, std::string_view b) {
  const size_t both = std::min(a.size(), b.size());
  size_t at = 0;
  uint64_t of_a = 0;
  uint64_t of_b = 0;
  for (; at + sizeof of_a <= both; at += sizeof of_a) {
    std::memcpy(&of_a, a.data() + at, sizeof of_a);
    std::memcpy(&of_b, b.data() + at, sizeof of_b);
    if (of_a == of_b) continue;
    return at + static_cast<size_t>(std::countr_zero(of_a ^ of_b)) / 8;
  }
  while (at < both && a[at] == b[at]) ++at;
  return at;
}

// The first difference between two names of one class: whether `b` has the
// larger number, and whether it has the larger byte. Both are false for equal
// names.
struct Rise {
  bool in_number = false;
  bool in_text = false;
};
Rise rise(std::string_view a, std::string_view b) {
  const size_t at = common_begin(a, b);
  if (at == a.size() && at == b.size()) return {};
  const auto digits = [at](std::string_view name) {
    size_t end = at;
    while (end < name.size() && is_digit(name[end])) ++end;
    return end;
  };
  const size_t a_end = digits(a);
  const size_t b_end = digits(b);
  const auto byte = [at](std::string_view name) {
    return at == name.size() ? -1 : static_cast<unsigned char>(name[at]);
  };
  const bool in_text = byte(a) < byte(b);
  // If they differ within a number, they share the number's first digits.
  return {a_end != b_end ? a_end < b_end : in_text, in_text};
}

const ParameterKind* kind_of(const Manifest& manifest, size_t index) {
  if (manifest.kinds == nullptr) return nullptr;
  const auto found = manifest.kinds->find(
      {folded_name(manifest.name(index)), manifest.type(index).shape});
  return found == manifest.kinds->end() ? nullptr : &found->second;
}

}  // namespace

std::optional<uint32_t> Manifest::find_type(const TensorType& type,
                                            uint64_t hash) const {
  const auto [begin, end] = types_by_hash_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (types_[it->second] == type) return it->second;
  }
  return std::nullopt;
}

std::optional<Manifest::Size> Manifest::size_of(const TensorType& type) {
  const std::optional<int64_t> elements = element_count(type.shape);
  if (!elements) return std::nullopt;
  const std::optional<int64_t> bytes = byte_count(*elements, type.dtype);
  if (!bytes) return std::nullopt;
  return Size{*elements, *bytes};
}

void Manifest::reserve_for(uint64_t text_bytes) {
  // Names are about half of a manifest, and an entry has at least 50 bytes.
  reserve(text_bytes / 2, text_bytes / 50);
}

void Manifest::reserve(size_t name_bytes, size_t tensors) {
  names_.reserve(name_bytes);
  name_end_.reserve(tensors);
  type_of_.reserve(tensors);
  name_class_.reserve(tensors);
  where_begin_.reserve(tensors);
  where_length_.reserve(tensors);
}

bool Manifest::count(const Size& size, bool buffer) {
  int64_t& element_sum = buffer ? buffer_elements_ : total_elements_;
  int64_t& byte_sum = buffer ? buffer_bytes_ : total_bytes_;
  const std::optional<int64_t> all_elements =
      checked_add(element_sum, size.elements);
  const std::optional<int64_t> all_bytes = checked_add(byte_sum, size.bytes);
  if (!all_elements || !all_bytes) return false;
  element_sum = *all_elements;
  byte_sum = *all_bytes;
  return true;
}

void Manifest::append(std::string_view name, uint32_t type, uint32_t name_class,
                      Span where) {
  if (source_from_.empty() || source_from_.back().second != where.file) {
    source_from_.emplace_back(this->size(), where.file);
  }
  names_ += name;
  name_end_.push_back(names_.size());
  type_of_.push_back(type);
  name_class_.push_back(name_class);
  where_begin_.push_back(where.begin);
  where_length_.push_back(static_cast<uint32_t>(
      std::min<uint64_t>(where.end - where.begin, UINT32_MAX)));
}

bool Manifest::add(std::string_view name, const TensorType& type, Span where,
                   bool buffer) {
  const uint64_t hash = hash_of(type);
  const std::optional<uint32_t> known = find_type(type, hash);
  const std::optional<Size> sizes = known ? type_sizes_[*known] : size_of(type);
  if (!sizes || !count(*sizes, buffer)) return false;
  if (buffer) {
    buffers_.push_back({std::string(name), type, where});
    return true;
  }
  const uint32_t number = known ? *known : add_type(type, hash, *sizes);
  plain_ = plain_ && is_plain(name);
  append(name, number, name_classes_.add(name), where);
  return true;
}

bool Manifest::add_numbered(std::string_view name, uint32_t type, Span where) {
  if (!count(type_sizes_[type], false)) return false;
  plain_ = plain_ && is_plain(name);
  append(name, type, name_classes_.add(name), where);
  return true;
}

uint32_t Manifest::add_type(const TensorType& type, uint64_t hash,
                            const Size& size) {
  const auto number = static_cast<uint32_t>(types_.size());
  types_.push_back(type);
  type_sizes_.push_back(size);
  types_by_hash_.emplace(hash, number);
  return number;
}

bool Manifest::select(std::span<const Selected> tensors) {
  constexpr uint32_t kNew = UINT32_MAX;
  Manifest selected;
  selected.reserve(names_.size(), tensors.size());
  std::vector<uint32_t> types(types_.size(), kNew);
  std::vector<uint32_t> classes(name_classes_.size(), kNew);
  std::vector<const SourceFile*> files;
  files.reserve(size());
  for (size_t i = 0; i < source_from_.size(); ++i) {
    const bool is_last = i + 1 == source_from_.size();
    files.resize(is_last ? size() : source_from_[i + 1].first,
                 source_from_[i].second);
  }
  for (const auto& [index, buffer] : tensors) {
    const std::string_view name = any_name(index);
    if (buffer || index >= size()) {
      if (!selected.add(name, any_type(index), any_where(index), buffer)) {
        return false;
      }
    } else {
      // Reuses the known class and type, which avoids looking them up again.
      const Size& bytes = type_sizes_[type_of_[index]];
      uint32_t& type = types[type_of_[index]];
      if (type == kNew) {
        type = selected.add_type(this->type(index), hash_of(this->type(index)),
                                 bytes);
      }
      uint32_t& name_class = classes[name_class_[index]];
      if (name_class == kNew) name_class = selected.name_classes_.add(name);
      if (!selected.count(bytes, false)) return false;
      selected.plain_ = selected.plain_ && (plain_ || is_plain(name));
      const uint64_t begin = where_begin_[index];
      selected.append(name, type, name_class,
                      {files[index], begin, begin + where_length_[index]});
    }
    if (buffer) continue;
    if (const AxisLabels* const labels = axes(index)) {
      selected.set_axes(selected.size() - 1, *labels);
    }
  }
  static_cast<ManifestHead&>(selected) =
      std::move(static_cast<ManifestHead&>(*this));
  *this = std::move(selected);
  return true;
}

Span Manifest::where(size_t index) const {
  const auto after = std::ranges::upper_bound(
      source_from_, index, {}, &decltype(source_from_)::value_type::first);
  const SourceFile* file = std::prev(after)->second;
  const uint64_t begin = where_begin_[index];
  return {file, begin, begin + where_length_[index]};
}

const AxisLabels* Manifest::axes(size_t index) const {
  const auto found = axes_.find(index);
  return found == axes_.end() ? nullptr : &found->second;
}

// Returns whether the names of each class ascend, either by number or as texts.
// If so, no two names are equal.
bool Manifest::ascends() const {
  struct Last {
    size_t name = SIZE_MAX;
    Rise rises = {true, true};
  };
  std::vector<Last> last(name_classes_.size());
  for (size_t i = 0; i < size(); ++i) {
    Last& before = last[name_class_[i]];
    if (before.name != SIZE_MAX) {
      const Rise now = rise(name(before.name), name(i));
      before.rises.in_number &= now.in_number;
      before.rises.in_text &= now.in_text;
      if (!before.rises.in_number && !before.rises.in_text) return false;
    }
    before.name = i;
  }
  return true;
}

std::optional<Manifest::Duplicate> Manifest::find_duplicate() const {
  if (buffers_.empty() && ascends()) return std::nullopt;
  // Open addressing over indices: 8 bytes per name at half load, where a set of
  // string views would need 60.
  const size_t total = size() + buffers_.size();
  size_t capacity = 16;
  while (capacity < total * 2) capacity *= 2;
  constexpr uint32_t kFree = UINT32_MAX;
  std::vector<uint32_t> table(capacity, kFree);
  const auto hash_in_class = [this](uint32_t number, std::string_view name) {
    uint64_t hash = number + 0xcbf29ce484222325U;  // FNV-1a
    name_classes_.each_number(
        number, name, [&](size_t, std::string_view digits) {
          for (const char digit : digits) {
            hash = (hash ^ static_cast<unsigned char>(digit)) * 0x100000001b3U;
          }
          hash *= 0x100000001b3U;
        });
    return (hash ^ (hash >> 32U)) * 0xff51afd7ed558ccdU >> 20U;
  };
  // Buffers have no class, so with buffers whole names are hashed.
  const auto hash = [&](size_t i) {
    return buffers_.empty() ? hash_in_class(name_class_[i], name(i))
                            : std::hash<std::string_view>()(any_name(i));
  };
  for (size_t i = 0; i < total; ++i) {
    const std::string_view name = any_name(i);
    size_t slot = hash(i) & (capacity - 1);
    while (table[slot] != kFree) {
      if (any_name(table[slot]) == name) return Duplicate{table[slot], i};
      slot = (slot + 1) & (capacity - 1);
    }
    table[slot] = static_cast<uint32_t>(i);
  }
  return std::nullopt;
}

std::optional<size_t> find_unexplained(const Manifest& manifest) {
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (kind_of(manifest, i) == nullptr) return i;
  }
  return std::nullopt;
}

bool label_parameters(Manifest& manifest) {
  bool any = false;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const ParameterKind* const kind = kind_of(manifest, i);
    if (kind == nullptr) continue;
    AxisLabels labels;
    for (const DimKind& dim : *kind) {
      labels.push_back(dim.axis.empty() ? std::nullopt
                                        : std::optional(dim.axis));
    }
    manifest.set_axes(i, std::move(labels));
    any = true;
  }
  return any;
}

std::map<std::string, std::string> replace_old_labels(
    const std::set<std::string, std::less<>>& known, Manifest& manifest) {
  std::map<std::string, std::string> settled;
  for (const auto& [label, names] : manifest.earlier_labels) {
    if (known.contains(label)) continue;
    for (const std::string& name : names) {
      if (known.contains(name) && settled.emplace(label, name).second) break;
    }
  }
  if (settled.empty()) return settled;
  std::map<std::string, std::string> used;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const AxisLabels* const axes = manifest.axes(i);
    if (axes == nullptr) continue;
    AxisLabels labels = *axes;
    for (auto& label : labels) {
      const auto found = label ? settled.find(*label) : settled.end();
      if (found == settled.end()) continue;
      label = found->second;
      used.insert(*found);
    }
    manifest.set_axes(i, std::move(labels));
  }
  return used;
}

void report_remarks(const Manifest& manifest, Diagnostics& diags) {
  for (const std::string& remark : manifest.remarks) {
    diags.report(Code::Remark, {}, remark);
  }
  if (manifest.buffers().empty()) return;
  diags.report(Code::Remark, {},
               plural(std::ssize(manifest.buffers()), "buffer") +
                   " excluded (not parameters): " +
                   bytes_text(manifest.buffer_bytes()) + " in total");
}

}  // namespace shardplan
