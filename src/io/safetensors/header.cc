// SPDX-License-Identifier: Apache-2.0
// Reads the header of a safetensors file (io/safetensors/file.h).
#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/text.h"
#include "io/formats.h"
#include "io/load.h"
#include "io/safetensors/file.h"
#include "syntax/json.h"

namespace shardplan {
namespace {

constexpr int64_t kLengthBytes = 8;

constexpr int64_t kLfsPointerBytes = 512;

// Returns N, or the largest integer when N is larger.
int64_t header_length(std::string_view head) {
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i-- > 0;) {
    length = (length << 8U) | static_cast<unsigned char>(head[i]);
  }
  return static_cast<int64_t>(std::min<uint64_t>(length, INT64_MAX));
}

// The header of a file as Bytes of its own, so that spans count from its first
// character.
class HeaderBytes : public Bytes {
 public:
  HeaderBytes(SourcePtr file, size_t length)
      : file_(std::move(file)), length_(length) {}
  std::string_view view() const override {
    return file_->text().substr(kLengthBytes, length_);
  }
  void release_before(uint64_t offset) const override {
    file_->release_before(kLengthBytes + std::min<uint64_t>(offset, length_));
  }

 private:
  SourcePtr file_;
  size_t length_;
};

// Positions within a header have 32 bits, since each tensor stores two.
static_assert(kMaxSafetensorsHeader <= UINT32_MAX);
struct DataRange {
  int64_t begin = 0;
  int64_t end = 0;
  // The range of the name in quotes, as written in the header.
  uint32_t name_begin = 0;
  uint32_t name_end = 0;

  auto operator<=>(const DataRange&) const = default;
};

// Bytes of a header that are read before the pages that hold them are released.
constexpr uint64_t kWindow = uint64_t{4} << 20;

// The part of a tensor's entry that has been read.
struct TensorEntry {
  bool has_dtype = false, has_shape = false, has_offsets = false;
  std::string dtype;
  Span dtype_where, shape_where, offsets_where;
  Shape shape;
  std::vector<int64_t> offsets;
  bool has_unknown_key = false;

  // Clears the entry, but not its allocated memory.
  void clear() {
    has_dtype = has_shape = has_offsets = has_unknown_key = false;
    shape.clear();
    offsets.clear();
  }
};

// The start of an entry that was read before. A header has tensors of few
// types, written alike, so only the offsets of an entry with the same start are
// parsed.
struct KnownEntry {
  std::string begin;  // `{"dtype":"F32","shape":[2,3],"data_offsets":[`
  uint32_t type = 0;  // number of the type
  int64_t bytes = 0;
};

// The rest of such an entry: `0,24]}`.
struct KnownOffsets {
  int64_t begin = 0;
  int64_t end = 0;
  size_t length = 0;  // length of the text; 0 if it has another form
};

// Parses a JSON integer that certainly fits 63 bits; returns a negative number
// for any other text.
int64_t take_number(std::string_view text, size_t& at) {
  constexpr size_t kAlwaysFits = 18;  // digits
  const char* const begin = text.data() + at;
  const char* const end = begin + std::min(text.size() - at, kAlwaysFits + 1);
  const char* digit = begin;
  uint64_t value = 0;
  for (; digit != end && is_digit(*digit); ++digit) {
    value = value * 10 + static_cast<uint64_t>(*digit - '0');
  }
  const auto digits = static_cast<size_t>(digit - begin);
  if (digits == 0 || digits > kAlwaysFits || (*begin == '0' && digits > 1)) {
    return -1;
  }
  at += digits;
  return static_cast<int64_t>(value);
}

KnownOffsets known_offsets(std::string_view text) {
  size_t at = 0;
  const auto take = [&](char c) {
    const bool is_there = at < text.size() && text[at] == c;
    if (is_there) ++at;
    return is_there;
  };
  const auto skip_blanks = [&] {
    while (take(' ')) {
    }
  };
  KnownOffsets offsets;
  offsets.begin = take_number(text, at);
  if (offsets.begin < 0 || !take(',')) return {};
  skip_blanks();
  offsets.end = take_number(text, at);
  if (offsets.end < 0 || !take(']')) return {};
  skip_blanks();
  if (!take('}')) return {};
  offsets.length = at;
  return offsets;
}

class HeaderReader {
 public:
  HeaderReader(SourcePtr header, Manifest& into, Diagnostics& diags)
      : header_(std::move(header)),
        diags_(diags),
        scanner_(*header_),
        manifest_(into) {
    manifest_.sources.push_back(header_);
    if (manifest_.any_size() == 0) {
      manifest_.reserve_for(header_->text().size());
    }
  }

  bool read() {
    if (!read_entries()) return false;
    if (ranges_complete_) check_ranges();
    note_unknown_keys();
    return errors_ == 0;
  }

  // REQUIRES: read().
  int64_t data_bytes() const { return data_bytes_; }
  // Returns the begin offsets per parameter, then per buffer.
  std::vector<int64_t> take_begins() {
    begins_.insert(begins_.end(), buffer_begins_.begin(), buffer_begins_.end());
    return std::move(begins_);
  }

 private:
  void fail(Span where, std::string message) {
    ++errors_;
    diags_.error(Code::MalformedDocument, where, std::move(message));
  }

  // Returns false if an error ended the reading.
  bool read_entries() {
    using Token = JsonScanner::Token;
    scanner_.next();  // the `{` that checked_header_length() has seen
    while (scanner_.next() == Token::Key) {
      if (take_known()) continue;
      const std::string name(scanner_.text());
      const Span where = scanner_.span();
      scanner_.next();
      const uint64_t begin = scanner_.span().begin;
      if (!scanner_.skip_value()) break;
      JsonReader json(*header_, diags_, begin, scanner_.span().end);
      if (!json.advance()) return false;
      const bool good = name == "__metadata__" ? read_metadata(where, json)
                                               : read_tensor(name, where, json);
      if (!good || errors_ >= kMaxErrors) return false;
    }
    if (scanner_.token() != Token::Error) scanner_.next();
    if (scanner_.token() != Token::Error) return true;
    scanner_.report(diags_);
    return false;
  }

  bool read_metadata(Span key, JsonReader& json) {
    if (std::exchange(has_metadata_, true)) {
      ++errors_;
      diags_.error(Code::DuplicateKey, key, "`__metadata__` is given twice");
    }
    if (json.token() == JsonReader::Token::Null) return true;
    std::set<std::string> keys;
    return json.map("`__metadata__`", [&](const std::string& name, Span where) {
      if (!keys.insert(name).second) {
        ++errors_;
        diags_.error(Code::DuplicateKey, where,
                     "`" + name + "` is given twice in `__metadata__`");
      }
      std::string value;
      return json.string("an entry of `__metadata__`", value);
    });
  }

  bool read_tensor(const std::string& name, Span where, JsonReader& json) {
    Span entry = json.span();
    tensor_.clear();
    if (!json.map("`" + name + "`", [&](const std::string& key, Span place) {
          return read_tensor_key(key, place, json);
        })) {
      return false;
    }
    for (const auto& [present, key] :
         {std::pair(tensor_.has_dtype, "dtype"),
          std::pair(tensor_.has_shape, "shape"),
          std::pair(tensor_.has_offsets, "data_offsets")}) {
      if (!present) {
        ranges_complete_ = false;
        fail(where, "`" + name + "` has no `" + key + "`");
        return true;
      }
    }
    entry.end = json.span().end;
    if (add(name, where)) remember(entry);
    return true;
  }

  bool read_tensor_key(const std::string& key, Span where, JsonReader& json) {
    const auto first = [&](bool& seen) {
      if (!std::exchange(seen, true)) return true;
      diags_.error(Code::DuplicateKey, where, "`" + key + "` is given twice");
      return false;
    };
    const auto read_sizes = [&](std::string_view what, std::string_view item,
                                std::vector<int64_t>& sizes, Span& place) {
      place = json.span();
      const bool good = json.list(
          what, [&] { return json.size(item, sizes.emplace_back()); });
      place.end = json.span().end;
      return good;
    };
    if (key == "dtype") {
      tensor_.dtype_where = json.span();
      return first(tensor_.has_dtype) && json.string("`dtype`", tensor_.dtype);
    }
    if (key == "shape") {
      return first(tensor_.has_shape) &&
             read_sizes("`shape`", "an entry of `shape`", tensor_.shape,
                        tensor_.shape_where);
    }
    if (key == "data_offsets") {
      return first(tensor_.has_offsets) &&
             read_sizes("`data_offsets`", "an entry of `data_offsets`",
                        tensor_.offsets, tensor_.offsets_where);
    }
    tensor_.has_unknown_key = true;
    if (unknown_keys_++ == 0) unknown_key_ = where;
    return json.skip();
  }

  const DataRange& add_range(int64_t begin, int64_t end, Span name) {
    return ranges_.emplace_back(DataRange{begin, end,
                                          static_cast<uint32_t>(name.begin),
                                          static_cast<uint32_t>(name.end)});
  }

  // Called after a key. Adds the tensor if its entry starts like a known one;
  // returns false if the value must be parsed as a whole, even to report an
  // error.
  bool take_known() {
    if (known_.empty() || scanner_.text() == "__metadata__") return false;
    const std::string_view ahead = scanner_.ahead();
    for (const KnownEntry& known : known_) {
      if (!ahead.starts_with(known.begin)) continue;
      const KnownOffsets offsets =
          known_offsets(ahead.substr(known.begin.size()));
      const std::string_view name = scanner_.text();
      const Span where = scanner_.span();
      if (offsets.length == 0 || offsets.end - offsets.begin != known.bytes ||
          is_known_buffer(name, manifest_.types()[known.type])) {
        return false;
      }
      release_before(where);
      if (!manifest_.add_numbered(name, known.type, where)) return false;
      add_range(offsets.begin, offsets.end, where);
      begins_.push_back(offsets.begin);
      scanner_.skip_known(known.begin.size() + offsets.length);
      return true;
    }
    return false;
  }

  // Remembers the start of the last entry, which added a tensor.
  void remember(Span entry) {
    constexpr uint64_t kLongest = 256;
    constexpr size_t kMax = 16;
    const Span offsets = tensor_.offsets_where;
    const std::string_view behind =
        Span{header_.get(), offsets.end, entry.end}.text();
    if (tensor_.has_unknown_key || entry.end - entry.begin > kLongest ||
        behind.find_first_not_of(" ") + 1 != behind.size()) {
      return;
    }
    const Span begin{header_.get(), entry.begin, offsets.begin + 1};
    KnownEntry known{std::string(begin.text()),
                     manifest_.type_number(manifest_.size() - 1),
                     type_.bytes()};
    if (known_.size() < kMax) {
      known_.push_back(std::move(known));
    } else {
      known_[next_known_++ % kMax] = std::move(known);
    }
  }

  void release_before(Span where) {
    if (where.begin - released_ <= kWindow) return;
    released_ = where.begin;
    header_->release_before(released_);
  }

  std::optional<DType> dtype_of(const std::string& text) {
    if (text != last_dtype_text_) {
      last_dtype_text_ = text;
      last_dtype_ = find_dtype(text);
      // Only GGUF has block types.
      if (last_dtype_ && dtype_block(*last_dtype_).elements > 1) {
        last_dtype_.reset();
      }
    }
    return last_dtype_;
  }

  // Adds a tensor whose entry is complete. Returns whether it was added as a
  // parameter, without any error.
  bool add(const std::string& name, Span where) {
    release_before(where);
    const std::vector<int64_t>& offsets = tensor_.offsets;
    if (offsets.size() != 2 || offsets[0] > offsets[1]) {
      ranges_complete_ = false;
      fail(tensor_.offsets_where,
           "`data_offsets` must be [begin, end] with begin <= end");
      return false;
    }
    const DataRange& range = add_range(offsets[0], offsets[1], where);
    const std::optional<DType> dtype = dtype_of(tensor_.dtype);
    if (!dtype) {
      ++errors_;
      auto report = diags_.error(Code::UnknownDtype, tensor_.dtype_where,
                                 "unknown dtype `" + tensor_.dtype + "`");
      const std::string near = nearest_dtype(tensor_.dtype);
      if (!near.empty()) report.help("did you mean `" + near + "`?");
      return false;
    }
    type_.dtype = *dtype;
    type_.shape = tensor_.shape;
    const bool buffer = is_known_buffer(name, type_);
    if (!manifest_.add(name, type_, where, buffer)) {
      fail(tensor_.shape_where,
           "with `" + name + "` the tensors exceed 2^63 bytes");
      return false;
    }
    (buffer ? buffer_begins_ : begins_).push_back(range.begin);
    const int64_t bytes = type_.bytes();
    if (range.end - range.begin == bytes) return !buffer;
    fail(tensor_.offsets_where, tensor_text(range) + " is " + type_text(type_) +
                                    " and needs " + count_text(bytes) +
                                    " bytes, but its offsets span " +
                                    count_text(range.end - range.begin));
    return false;
  }

  // Checks that each tensor, sorted by offset, begins where the previous one
  // ends.
  void check_ranges() {
    if (!std::ranges::is_sorted(ranges_)) std::ranges::sort(ranges_);
    const DataRange* last = nullptr;
    for (const DataRange& range : ranges_) {
      if (errors_ >= kMaxErrors) return;
      if (range.begin > data_bytes_) {
        fail(name_of(range), "bytes " + count_text(data_bytes_) + " to " +
                                 count_text(range.begin) + " before " +
                                 tensor_text(range) + " belong to no tensor");
      } else if (range.begin < data_bytes_ &&
                 name_of(range).text() == name_of(*last).text()) {
        ++errors_;
        diags_
            .error(Code::DuplicateKey, name_of(range),
                   tensor_text(range) + " is given twice")
            .label(name_of(*last), "first given here");
      } else if (range.begin < data_bytes_) {
        ++errors_;
        diags_
            .error(Code::MalformedDocument, name_of(range),
                   "the data of " + tensor_text(range) + " overlaps that of " +
                       tensor_text(*last))
            .label(name_of(*last),
                   "this one ends at byte " + count_text(last->end))
            .fact(tensor_text(range) + " begins at byte " +
                  count_text(range.begin));
      }
      if (range.end > data_bytes_ || last == nullptr) last = &range;
      data_bytes_ = std::max(data_bytes_, range.end);
    }
  }

  void note_unknown_keys() {
    if (unknown_keys_ == 0) return;
    diags_
        .report(Code::UnknownKey, Severity::Note, unknown_key_,
                std::string(unknown_key_.text()) +
                    " is not a key of a safetensors header")
        .fact(unknown_keys_ == 1
                  ? "it was ignored"
                  : count_text(unknown_keys_) + " such entries were ignored");
  }

  Span name_of(const DataRange& range) const {
    return {header_.get(), range.name_begin, range.name_end};
  }
  std::string tensor_text(const DataRange& range) const {
    const std::string_view quoted = name_of(range).text();
    return "`" + std::string(quoted.substr(1, quoted.size() - 2)) + "`";
  }

  SourcePtr header_;
  Diagnostics& diags_;
  JsonScanner scanner_;  // the header, entry by entry
  Manifest& manifest_;
  TensorEntry tensor_;  // reused
  TensorType type_;     // reused
  std::string last_dtype_text_;
  std::optional<DType> last_dtype_;
  std::vector<KnownEntry> known_;
  size_t next_known_ = 0;
  std::vector<DataRange> ranges_;
  std::vector<int64_t> begins_;  // per parameter
  std::vector<int64_t> buffer_begins_;
  bool ranges_complete_ = true;  // every tensor has a range
  bool has_metadata_ = false;
  int64_t data_bytes_ = 0;
  uint64_t released_ = 0;  // bytes of the header released so far
  int errors_ = 0;
  Span unknown_key_;
  int64_t unknown_keys_ = 0;
};

// Returns the length of the header; reports why a file cannot have one.
std::optional<int64_t> checked_header_length(const SourceFile& file,
                                             int64_t file_size,
                                             Diagnostics& diags) {
  const std::string_view text = file.text();
  const auto fail = [&](Code code, std::string message) {
    return diags.error(code, empty_span_in(file.name(), diags),
                       std::move(message));
  };
  if (text.starts_with(kLfsPointer)) {
    return fail(Code::UnreadableFile,
                "this is a Git LFS pointer, not the file itself")
        .help("run `git lfs pull` to fetch the file");
  }
  if (text.size() < kLengthBytes) {
    return fail(Code::MalformedDocument,
                "a safetensors file starts with an 8-byte header length, but "
                "the file size is " +
                    count_text(file_size));
  }
  const int64_t length = header_length(text);
  if (length > kMaxSafetensorsHeader) {
    return fail(Code::MalformedDocument,
                "the first 8 bytes give a header length of " +
                    count_text(length) + " bytes; safetensors allows " +
                    count_text(kMaxSafetensorsHeader));
  }
  const int64_t end = kLengthBytes + length;
  if (end > std::ssize(text)) {
    return fail(Code::MalformedDocument,
                "the file ends inside its header: it has " +
                    count_text(file_size) + " bytes, and the header ends at " +
                    count_text(end));
  }
  if (length == 0 || text[kLengthBytes] != '{') {
    return fail(Code::MalformedDocument,
                "a safetensors header must start with `{`");
  }
  return length;
}

}  // namespace

bool is_safetensors(std::string_view head) {
  // The length is below 2^48; a text has no zero bytes there.
  return head.size() > kLengthBytes && head[6] == '\0' && head[7] == '\0' &&
         head[kLengthBytes] == '{';
}

int64_t safetensors_bytes_needed(std::string_view head) {
  if (head.starts_with(kLfsPointer.substr(0, kLengthBytes))) {
    return kLfsPointerBytes;
  }
  if (head.size() < kLengthBytes) return kLengthBytes;
  const int64_t length = header_length(head);
  return length > kMaxSafetensorsHeader ? kLengthBytes : kLengthBytes + length;
}

std::optional<SafetensorsHeader> read_safetensors_header(const SourcePtr& file,
                                                         int64_t file_size,
                                                         Manifest& into,
                                                         Diagnostics& diags) {
  const auto length = checked_header_length(*file, file_size, diags);
  if (!length) return std::nullopt;
  const auto header = std::make_shared<SourceFile>(
      file->name(), std::make_shared<HeaderBytes>(file, to_size(*length)));
  diags.add_source(header);
  HeaderReader reader(header, into, diags);
  if (!reader.read()) return std::nullopt;
  const int64_t data_begin = kLengthBytes + *length;
  const int64_t data = file_size - data_begin;
  if (data > reader.data_bytes()) {
    return diags
        .error(Code::MalformedDocument, empty_span_in(file->name(), diags),
               count_text(data - reader.data_bytes()) +
                   " bytes after the data of the last tensor")
        .fact("the tensors take " + count_text(reader.data_bytes()) +
              " bytes, but " + count_text(data) + " follow the header");
  }
  return SafetensorsHeader{data < reader.data_bytes(), data_begin,
                           reader.take_begins()};
}

std::optional<SafetensorsHeader> open_safetensors(const std::string& path,
                                                  Host& host, Manifest& into,
                                                  Diagnostics& diags) {
  const SourcePtr head = read_source(path, kLengthBytes, host, diags);
  if (head == nullptr) return std::nullopt;
  const SourcePtr file =
      read_source(path, safetensors_bytes_needed(head->text()), host, diags);
  if (file == nullptr) return std::nullopt;
  const std::optional<FileInfo> info = host.file_info(path);
  const auto size = std::max(info ? info->size : 0, std::ssize(file->text()));
  return read_safetensors_header(file, size, into, diags);
}

}  // namespace shardplan
