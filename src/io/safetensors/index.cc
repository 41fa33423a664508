// SPDX-License-Identifier: Apache-2.0
// The format `safetensors-index`: model.safetensors.index.json, which maps each
// tensor to its shard.
//
//   {"metadata": {"total_size": 24}, "weight_map": {"wte.weight":
//   "a.safetensors"}}
//
// An index has no shapes. They come from the shards in the same folder or, if
// there are none, from a config.json, which `total_size` then confirms.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "io/fence.h"
#include "io/formats.h"
#include "io/paths.h"
#include "io/safetensors/file.h"
#include "io/shards.h"
#include "syntax/json.h"

namespace shardplan {
namespace {

struct ShardFile {
  std::string name;  // spelled as in the index
  Span where;        // first mention
};

struct IndexEntry {
  std::string_view name;  // points into the index's text or `unescaped_names`
  uint32_t shard = 0;
  Span where;
};

struct Index {
  std::vector<ShardFile> shards;    // in order of their first mention
  std::vector<IndexEntry> entries;  // in the file's order
  std::deque<std::string>
      unescaped_names;  // names that are written with escapes
  std::optional<int64_t> total_size;
  Span total_size_where;
  Span weight_map_where;
};

// Shards are read only from the index's own folder.
bool stays_inside(std::string_view shard) {
  return !shard.empty() && shard.front() != '/' && !contains(shard, '\\') &&
         !contains(shard, ':') && !contains(shard, '\0') &&
         ("/" + std::string(shard) + "/").find("/../") == std::string::npos;
}

// Returns the value of a float that is a whole number of bytes.
std::optional<int64_t> whole_number(std::string_view text) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  double value = 0;
  const auto [end, problem] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || value < 0 || value > kExact ||
      std::trunc(value) != value) {
    return std::nullopt;
  }
  return static_cast<int64_t>(value);
}

class IndexReader {
 public:
  IndexReader(const SourceFile& source, Diagnostics& diags)
      : diags_(diags), json_(source, diags) {}

  std::optional<Index> read() {
    const bool good = json_.advance() &&
                      json_.map("the index",
                                [&](const std::string& key, Span where) {
                                  return read_key(key, where);
                                }) &&
                      json_.finish();
    if (!good || !shards_are_safe_) return std::nullopt;
    if (!index_.weight_map_where) {
      return diags_.error(Code::MalformedDocument, json_.span(),
                          "the index has no `weight_map`");
    }
    return std::move(index_);
  }

 private:
  bool read_key(const std::string& key, Span where) {
    if (key == "metadata") {
      return json_.map("`metadata`", [&](const std::string& name, Span) {
        return name == "total_size" ? read_total_size() : json_.skip();
      });
    }
    if (key == "weight_map") {
      if (index_.weight_map_where) {
        diags_.error(Code::DuplicateKey, where, "`weight_map` is given twice")
            .label(index_.weight_map_where, "first given here");
        return false;
      }
      index_.weight_map_where = where;
      return json_.map(
          "`weight_map`",
          [&](std::string_view name, Span place) {
            return take_known(name, place);
          },
          [&](const std::string& name, Span place) {
            return read_entry(name, place);
          });
    }
    diags_.report(Code::UnknownKey, Severity::Note, where,
                  "`" + key + "` is not a key of an index");
    return json_.skip();
  }

  // Some writers spell the size as a float.
  bool read_total_size() {
    int64_t size = 0;
    const bool is_float =
        json_.token() == JsonReader::Token::Number &&
        json_.text().find_first_of(".eE") != std::string_view::npos;
    const auto whole = is_float ? whole_number(json_.text()) : std::nullopt;
    if (whole) {
      size = *whole;
    } else if (!json_.size("`total_size`", size)) {
      return false;
    }
    index_.total_size = size;
    index_.total_size_where = json_.span();
    return true;
  }

  // The names of shards differ in a number of fixed width. So most values have
  // been read before, and are as long as the previous one.
  bool take_known(std::string_view name, Span where) {
    const std::string_view quoted =
        json_.ahead().substr(0, last_spelling_.first.size());
    if (quoted.empty()) return false;
    if (quoted != last_spelling_.first) {
      const auto known = shard_by_spelling_.find(quoted);
      if (known == shard_by_spelling_.end()) return false;
      last_spelling_ = *known;
    }
    add_entry(name, where, last_spelling_.second);
    json_.skip_known(quoted.size());
    return true;
  }

  bool read_entry(const std::string& name, Span where) {
    if (!json_.string("the shard of `" + name + "`", shard_)) return false;
    last_spelling_ = {json_.span().text(), shard_number(shard_)};
    shard_by_spelling_.insert(last_spelling_);
    add_entry(name, where, last_spelling_.second);
    return true;
  }

  void add_entry(std::string_view name, Span where, uint32_t shard) {
    std::string_view quoted = where.text();
    quoted = quoted.substr(1, quoted.size() - 2);
    if (quoted.data() != name.data() && quoted != name) {
      quoted = index_.unescaped_names.emplace_back(name);
    }
    index_.entries.push_back({quoted, shard, where});
  }

  uint32_t shard_number(const std::string& shard) {
    const auto next = static_cast<uint32_t>(index_.shards.size());
    const auto [known, is_new] = shard_numbers_.emplace(shard, next);
    if (!is_new) return known->second;
    index_.shards.push_back({shard, json_.span()});
    if (!stays_inside(shard)) {
      shards_are_safe_ = false;
      diags_
          .error(Code::InconsistentCheckpoint, json_.span(),
                 "shard `" + shard + "` is not inside the index's folder")
          .fact("shards are read only from the index's folder");
    }
    return next;
  }

  Diagnostics& diags_;
  JsonReader json_;
  Index index_;
  std::unordered_map<std::string, uint32_t> shard_numbers_;
  // Quoted shard names as the index spells them.
  std::unordered_map<std::string_view, uint32_t> shard_by_spelling_;
  std::pair<std::string_view, uint32_t> last_spelling_;
  std::string shard_;  // reused
  bool shards_are_safe_ = true;
};

bool check_names(const Index& index, Diagnostics& diags) {
  std::unordered_map<std::string_view, Span> first;
  first.reserve(index.entries.size());
  for (const IndexEntry& entry : index.entries) {
    const auto [known, is_new] = first.emplace(entry.name, entry.where);
    if (is_new) continue;
    diags
        .error(Code::DuplicateKey, entry.where,
               in_backticks(entry.name) + " is given twice")
        .label(known->second, "first given here");
    return false;
  }
  return true;
}

// Finds the tensors of a shard by name, mostly in the order of the shard.
class ShardNames {
 public:
  ShardNames(const Manifest& manifest, const Shard& shard)
      : manifest_(&manifest), shard_(&shard) {}

  // Returns the number of a tensor in the manifest; nullopt if there is none.
  std::optional<size_t> find(std::string_view name) {
    const size_t count = shard_->parameters + shard_->buffers;
    if (next_ == count || manifest_->any_name(number(next_)) != name) {
      if (numbers_.empty()) number_all();
      const auto found = numbers_.find(name);
      if (found == numbers_.end()) return std::nullopt;
      next_ = found->second;
    }
    return number(next_++);
  }

 private:
  size_t number(size_t i) const {
    return i < shard_->parameters ? shard_->first_parameter + i
                                  : manifest_->size() + shard_->first_buffer +
                                        (i - shard_->parameters);
  }
  void number_all() {
    const size_t count = shard_->parameters + shard_->buffers;
    numbers_.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      numbers_.emplace(manifest_->any_name(number(i)), i);
    }
  }

  const Manifest* manifest_;
  const Shard* shard_;
  size_t next_ = 0;
  std::unordered_map<std::string_view, size_t> numbers_;
};

// Sorts the tensors of the shards into the order of the index. Tensors that no
// entry names follow in the order of the shards.
bool arrange(const Index& index, const std::vector<Shard>& shards,
             Manifest& manifest, Diagnostics& diags) {
  std::vector<ShardNames> names;
  for (const Shard& shard : shards) names.emplace_back(manifest, shard);
  std::vector<Manifest::Selected> order;
  order.reserve(manifest.any_size());
  std::vector<bool> used(manifest.any_size());
  std::vector<std::string> lacking;
  Span lacking_where;  // the first
  bool twice = false;
  for (const IndexEntry& entry : index.entries) {
    const auto number = names[entry.shard].find(entry.name);
    if (!number) {
      if (lacking.empty()) lacking_where = entry.where;
      lacking.emplace_back(entry.name);
      continue;
    }
    order.push_back({*number, *number >= manifest.size()});
    twice = twice || used[*number];
    used[*number] = true;
  }
  const bool all_used = order.size() == manifest.any_size();
  // If every tensor is used exactly once, equal names can only be in two
  // shards; check_distinct() finds those for all formats.
  const bool once_each = lacking.empty() && all_used && !twice;
  if (!once_each &&
      !(check_names(index, diags) && check_distinct(manifest, diags))) {
    return false;
  }
  if (!lacking.empty()) {
    diags
        .error(Code::InconsistentCheckpoint, lacking_where,
               plural(std::ssize(lacking), "tensor") +
                   " missing from the shard that the index names: " +
                   some_names(lacking))
        .parameters(lacking);
    return false;
  }
  std::vector<std::string> others;
  Span first;
  for (const Shard& shard : shards) {
    if (all_used) break;
    const auto add_others = [&](size_t begin, size_t count, bool buffer) {
      for (size_t i = begin; i < begin + count; ++i) {
        if (used[i]) continue;
        if (others.empty()) first = manifest.any_where(i);
        others.emplace_back(manifest.any_name(i));
        order.push_back({i, buffer});
      }
    };
    add_others(shard.first_parameter, shard.parameters, false);
    add_others(manifest.size() + shard.first_buffer, shard.buffers, true);
  }
  manifest.select(order);
  if (all_used) return true;
  const auto count = std::ssize(others);
  diags
      .report(Code::InconsistentCheckpoint, Severity::Warning, first,
              plural(count, "tensor") +
                  " in the shards, but not in the index: " + some_names(others))
      .fact("they are included, after the others")
      .parameters(others);
  return true;
}

std::string size_mismatch(int64_t said, int64_t real, std::string_view whose) {
  return "`total_size` is " + count_text(said) + ", but the tensors of the " +
         std::string(whose) + " total " + count_text(real) + " bytes";
}

std::optional<Manifest> read_with_shards(const ManifestSource& source,
                                         const Index& index, Host& host,
                                         Diagnostics& diags) {
  std::vector<std::string> paths;
  for (const ShardFile& shard : index.shards) {
    paths.push_back(path_relative_to(source.path, shard.name, host));
  }
  Manifest manifest;
  manifest.sources.push_back(source.file);
  manifest.reserve_for(source.file->text().size());
  const auto shards = read_shards(paths, host, manifest, diags);
  if (!shards || !arrange(index, *shards, manifest, diags)) return std::nullopt;
  remark_absent(*shards, manifest);
  const std::optional<int64_t> bytes = tensor_bytes(manifest);
  if (index.total_size && index.total_size != bytes) {
    diags.report(
        Code::InconsistentCheckpoint, Severity::Warning, index.total_size_where,
        size_mismatch(*index.total_size, bytes.value_or(INT64_MAX), "shards"));
  }
  return manifest;
}

// The names that are only in the index, or only implied by the config.
struct NameDifference {
  std::vector<std::string> only_index, only_config;
  bool all_differ = true;  // no name is in both
};

NameDifference difference_of(const Index& index, const Manifest& manifest) {
  std::unordered_map<std::string_view, bool> implied;  // seen in the index?
  for (size_t i = 0; i < manifest.any_size(); ++i) {
    implied.emplace(manifest.any_name(i), false);
  }
  NameDifference result;
  for (const IndexEntry& entry : index.entries) {
    const auto found = implied.find(entry.name);
    if (found == implied.end()) {
      result.only_index.emplace_back(entry.name);
    } else {
      found->second = true;
      result.all_differ = false;
    }
  }
  for (size_t i = 0; i < manifest.any_size(); ++i) {
    if (!implied.at(manifest.any_name(i))) {
      result.only_config.emplace_back(manifest.any_name(i));
    }
  }
  return result;
}

// Drops the tensors with these names.
void drop_tensors(const std::vector<std::string>& names, Manifest& manifest) {
  const std::set<std::string_view> dropped(names.begin(), names.end());
  std::vector<Manifest::Selected> rest;
  for (size_t i = 0; i < manifest.any_size(); ++i) {
    if (dropped.contains(manifest.any_name(i))) continue;
    rest.push_back({i, i >= manifest.size()});
  }
  manifest.select(rest);
}

// Returns whether this is a buffer that earlier versions of transformers saved
// and no config implies: causal masks, positions. Without a shard only the name
// shows this.
bool is_called_buffer(std::string_view name) {
  constexpr std::string_view kEnds[] = {".attn.bias",
                                        ".attn.masked_bias",
                                        ".attention.bias",
                                        ".attention.masked_bias",
                                        ".attn.causal_mask",
                                        ".attn.scale_attn",
                                        ".position_ids",
                                        ".rotary_emb.inv_freq",
                                        ".attention.rotary_emb.inv_freq"};
  return std::ranges::any_of(
      kEnds, [&](std::string_view end) { return name.ends_with(end); });
}

// Removes such buffers from the names that only the index has, and adds a
// remark about them.
void remove_buffers(std::vector<std::string>& only_index, Manifest& manifest) {
  const auto first = std::ranges::find_if(only_index, is_called_buffer);
  if (first == only_index.end()) return;
  manifest.remarks.push_back(
      plural(std::ranges::count_if(only_index, is_called_buffer), "tensor") +
      " in the index, such as " + in_backticks(*first) +
      ": masks and positions from older versions, which are buffers, not "
      "parameters");
  std::erase_if(only_index, is_called_buffer);
}

// Reduces the manifest to the tensors that both the index and the config name.
// A tensor that only the index names has no shape; a warning reports that it is
// left out. A tensor that only the config implies is not in the checkpoint; the
// total size must confirm that.
bool settle_names(const Index& index, Manifest& manifest, Diagnostics& diags) {
  NameDifference names = difference_of(index, manifest);
  remove_buffers(names.only_index, manifest);
  if (names.only_index.empty() && names.only_config.empty()) return true;
  const auto say = [&](Diagnostics::Builder& report) {
    if (!names.only_index.empty()) {
      report.fact("only in the index: " + some_names(names.only_index));
    }
    if (!names.only_config.empty()) {
      report.fact("only implied by the config: " +
                  some_names(names.only_config));
    }
    report.help("put the shards beside the index to settle this");
  };
  Manifest common = manifest;
  if (!names.only_config.empty()) drop_tensors(names.only_config, common);
  const std::optional<int64_t> bytes = tensor_bytes(common);
  const int64_t said = index.total_size.value_or(0);
  const bool confirmed =
      names.only_config.empty() || (names.only_index.empty() && said == bytes);
  if (names.all_differ || !confirmed || !bytes) {
    auto report =
        diags.error(Code::InconsistentCheckpoint, index.weight_map_where,
                    "the index and the config.json beside it name different "
                    "tensors");
    say(report);
    return false;
  }
  manifest = std::move(common);
  const bool index_lacks = names.only_index.empty();
  const std::vector<std::string>& differing =
      index_lacks ? names.only_config : names.only_index;
  const std::string count = plural(std::ssize(differing), "tensor");
  const std::string they = differing.size() == 1 ? "it is" : "they are";
  auto report = diags.report(
      Code::InconsistentCheckpoint, Severity::Warning, index.weight_map_where,
      index_lacks
          ? "the index lacks " + count +
                " that the config.json beside it implies: " + they + " left out"
          : "the index names " + count +
                " that the config.json beside it does not imply: " + they +
                " excluded from all totals");
  if (index_lacks) {
    report.fact("`total_size` matches without them");
  } else if (said > *bytes) {
    report.fact("`total_size` leaves " + bytes_text(said - *bytes) +
                " for them");
  }
  say(report);
  return true;
}

// Returns "bf16 for 291 tensors, f32 for 2".
std::string assumed_dtypes(const Manifest& manifest) {
  std::map<DType, int64_t> counts;
  for (size_t i = 0; i < manifest.size(); ++i) ++counts[manifest.type(i).dtype];
  std::string text;
  for (const auto& [dtype, count] : counts) {
    text += (text.empty() ? "" : ", ") + std::string(dtype_name(dtype)) +
            " for " +
            (text.empty() ? plural(count, "tensor") : count_text(count));
  }
  return text;
}

bool check_implied_size(const Index& index, Manifest& manifest,
                        Diagnostics& diags) {
  if (index.total_size.value_or(0) == 0) {
    manifest.remarks.emplace_back(
        "the index has no `total_size`, so the sizes that the config implies "
        "could not be checked");
    return true;
  }
  const std::optional<int64_t> bytes = tensor_bytes(manifest);
  if (bytes == index.total_size) return true;
  // The size of tensors that only the index names is unknown.
  const bool has_more = index.entries.size() > manifest.any_size();
  if (has_more && bytes && *bytes < *index.total_size) return true;
  auto report = diags.error(
      Code::InconsistentCheckpoint, index.total_size_where,
      size_mismatch(*index.total_size, bytes.value_or(INT64_MAX), "config"));
  report.fact("the config says " + assumed_dtypes(manifest));
  for (const DType dtype : {DType::F32, DType::BF16}) {
    const auto size = byte_count(manifest.total_elements(), dtype);
    if (size != index.total_size) continue;
    report.fact("it matches all parameters in " +
                std::string(dtype_name(dtype)));
    report.help("correct `torch_dtype` in the config");
  }
  report.help("put the shards beside the index to settle this");
  return false;
}

// Adds rotary frequencies, which transformers before 4.32 saved and no config
// implies. They are buffers of half a head; the total size shows their dtype.
bool add_frequencies(const Index& index, Manifest& manifest) {
  constexpr std::string_view kFrequencies = ".rotary_emb.inv_freq";
  std::vector<const IndexEntry*> entries;
  for (const IndexEntry& entry : index.entries) {
    if (entry.name.ends_with(kFrequencies)) entries.push_back(&entry);
  }
  const std::optional<int64_t> head = manifest.facts.head_dim;
  if (entries.empty() || !head || *head < 2) return true;
  const auto count = std::ssize(entries);
  TensorType type{DType::F32, {*head / 2}};
  const int64_t beside =
      index.total_size.value_or(0) - tensor_bytes(manifest).value_or(0);
  for (const DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    const DType of_weights =
        manifest.size() > 0 ? manifest.type(0).dtype : DType::F32;
    const bool half = dtype != DType::F32;
    if (half && dtype != of_weights) continue;
    if (beside == count * (*head / 2) * (half ? 2 : 4)) type.dtype = dtype;
  }
  for (const IndexEntry* entry : entries) {
    if (!manifest.add(entry->name, type, entry->where, true)) return false;
  }
  manifest.remarks.push_back(
      plural(count, "tensor") + " `*" + std::string(kFrequencies) +
      "` in the index: rotary frequencies, not parameters");
  return true;
}

bool is_lfs_pointer(const std::string& path, Host& host) {
  std::string why;
  const auto head = host.read_file(path, std::ssize(kLfsPointer), why);
  return head != nullptr && head->view() == kLfsPointer;
}

std::optional<Manifest> read_with_config(const ManifestSource& source,
                                         const Index& index, bool pointers,
                                         Host& host, Diagnostics& diags) {
  const std::string path = path_relative_to(source.path, "config.json", host);
  if (source.path == "-" || !host.file_info(path)) {
    if (pointers) {
      return diags
          .error(
              Code::InconsistentCheckpoint, index.weight_map_where,
              "the shards beside the index are Git LFS pointers, not the files "
              "themselves")
          .fact("an index alone does not give tensor shapes")
          .help("run `git lfs pull`, or add the model's config.json");
    }
    return diags
        .error(Code::InconsistentCheckpoint, index.weight_map_where,
               "an index alone does not give tensor shapes")
        .fact("neither its " + plural(std::ssize(index.shards), "shard") +
              " nor a config.json is beside it")
        .help(
            "add the shards (their first megabytes are enough), or the "
            "model's config.json");
  }
  if (!check_names(index, diags)) return std::nullopt;
  const SourcePtr file = read_source(path, kWholeFile, host, diags);
  if (file == nullptr) return std::nullopt;
  auto document = parse_document(file, diags);
  if (!document) return std::nullopt;
  const auto config = std::make_shared<const Document>(*std::move(document));
  const auto beside = read_quantisation_file(path, *config, host, diags);
  if (!beside) return std::nullopt;
  std::optional<Manifest> manifest =
      synthesize_manifest(*config, diags, {}, *beside);
  if (!manifest || !add_frequencies(index, *manifest) ||
      !settle_names(index, *manifest, diags) ||
      !check_implied_size(index, *manifest, diags)) {
    return std::nullopt;
  }
  manifest->remarks.push_back(
      (pointers ? std::string("the shards beside the index are Git LFS "
                              "pointers (run `git lfs pull` to fetch them)")
                : std::string("no shard is beside the index")) +
      "; shapes and dtypes come from `" + path + "`");
  manifest->sources.push_back(file);
  manifest->sources.push_back(source.file);
  manifest->config = config;
  return manifest;
}

std::optional<Manifest> read_index(const ManifestSource& source, Host& host,
                                   Diagnostics& diags) {
  auto index = IndexReader(*source.file, diags).read();
  if (!index) return std::nullopt;
  std::vector<const ShardFile*> missing;
  std::vector<const ShardFile*> pointers;
  for (const ShardFile& shard : index->shards) {
    const std::string path = path_relative_to(source.path, shard.name, host);
    if (source.path == "-" || !host.file_info(path)) {
      missing.push_back(&shard);
    } else if (is_lfs_pointer(path, host)) {
      pointers.push_back(&shard);
    }
  }
  if (missing.empty() && pointers.empty()) {
    return read_with_shards(source, *index, host, diags);
  }
  if (missing.size() + pointers.size() == index->shards.size()) {
    return read_with_config(source, *index, !pointers.empty(), host, diags);
  }
  for (const ShardFile* shard : missing) {
    diags.error(Code::UnreadableFile, shard->where,
                "shard `" + shard->name + "` is not beside the index");
  }
  for (const ShardFile* shard : pointers) {
    diags
        .error(Code::UnreadableFile, shard->where,
               "shard `" + shard->name +
                   "` is a Git LFS pointer, not the file itself")
        .help("run `git lfs pull` to fetch the file");
  }
  return std::nullopt;
}

// The key `weight_map` is in the head: at most the short `metadata` precedes
// it.
bool recognize(std::string_view head) {
  const size_t first = head.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && head[first] == '{' &&
         contains(head, "\"weight_map\"");
}

}  // namespace

const ManifestFormat kSafetensorsIndex = {
    "safetensors-index",
    "an index with its shards or a config.json beside it",
    recognize,
    read_index,
    true,
};

}  // namespace shardplan
