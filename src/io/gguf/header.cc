// SPDX-License-Identifier: Apache-2.0

#include "io/gguf/header.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <tuple>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "io/formats.h"
#include "io/gguf/gguf.h"
#include "syntax/tokens.h"

namespace shardplan {
namespace {

constexpr std::string_view kMagic = "GGUF";
// A repository has this in place of a large file that was not fetched.
constexpr std::string_view kLfsPointer = "version https://git-lfs";
constexpr uint64_t kLeastPair = 8 + 1 + 4 + 1;    // bytes
constexpr uint64_t kLeastTensor = 8 + 4 + 4 + 8;  // bytes
constexpr uint32_t kMaxDims = 4;
constexpr int64_t kDefaultAlignment = 32;

// A tensor as stored in the file.
struct StoredTensor {
  std::string_view name;
  std::array<int64_t, kMaxDims> sizes = {};  // fastest first
  uint32_t dims = 0;
  uint32_t type = 0;
  uint64_t offset = 0;
  bool sizes_fit = true;  // in 63 bits

  Shape shape() const { return {sizes.rend() - dims, sizes.rend()}; }
  bool is_alike(const StoredTensor& other) const {
    return type == other.type && dims == other.dims && sizes == other.sizes &&
           sizes_fit == other.sizes_fit;
  }
};

// The header as parsed, before its values are checked.
struct Layout {
  uint32_t version = 0;
  GgufMetadata metadata;
  std::vector<StoredTensor> tensors;
  size_t end = 0;       // end of the header
  bool cut = false;     // the bytes end within the header
  std::string problem;  // why it is malformed
  Code code = Code::MalformedDocument;
  std::string help;
};

void refuse_version(Layout& layout) {
  layout.code = Code::UnrecognizedFormat;
  const uint32_t version = layout.version;
  if (version != 0 && (version & 0xffffU) == 0) {
    layout.problem = "this GGUF file is big-endian, which is not supported";
    layout.help =
        "convert it to little-endian with llama.cpp's gguf_convert_endian.py";
    return;
  }
  layout.problem = "GGUF version " + std::to_string(version) +
                   " is not supported; versions 2 and 3 are";
  if (version == 1) {
    layout.help = "convert the model again: llama.cpp writes version 3";
  }
}

StoredTensor read_tensor(GgufCursor& cursor, Layout& layout) {
  StoredTensor tensor;
  tensor.name = cursor.text();
  const uint32_t dims = cursor.u32();
  if (dims > kMaxDims) {
    layout.problem = "tensor " + in_backticks(tensor.name.substr(0, 100)) +
                     " has " + std::to_string(dims) +
                     " dimensions; GGUF allows at most " +
                     std::to_string(kMaxDims);
    return tensor;
  }
  for (uint32_t i = 0; i < dims; ++i) {
    const uint64_t size = cursor.u64();
    const auto most = static_cast<uint64_t>(INT64_MAX);
    tensor.sizes_fit = tensor.sizes_fit && size <= most;
    tensor.sizes.at(i) = static_cast<int64_t>(std::min(size, most));
  }
  tensor.dims = dims;
  tensor.type = cursor.u32();
  tensor.offset = cursor.u64();
  return tensor;
}

// Checks a count that the file states against the length of the file.
bool check_count(uint64_t count, uint64_t least, uint64_t left,
                 std::string_view what, int64_t file_size, Layout& layout) {
  if (count <= left / least) return true;
  if (file_size < 0) {
    layout.cut = true;
    return false;
  }
  layout.problem = "the header declares " + std::to_string(count) + " " +
                   std::string(what) + ", but the file has " +
                   count_text(file_size) + " bytes";
  return false;
}

// `file_size` is negative if the bytes are only a part of the file.
Layout read_layout(std::string_view bytes, int64_t file_size) {
  Layout layout;
  GgufCursor cursor(bytes, std::min(kMagic.size(), bytes.size()));
  layout.version = cursor.u32();
  if (cursor.good() && layout.version != 2 && layout.version != 3) {
    refuse_version(layout);
    return layout;
  }
  const uint64_t tensors = cursor.u64();
  const uint64_t pairs = cursor.u64();
  layout.cut = !cursor.good();
  if (layout.cut || !check_count(pairs, kLeastPair, cursor.left(),
                                 "metadata pairs", file_size, layout)) {
    return layout;
  }
  for (uint64_t i = 0; i < pairs && cursor.good(); ++i) {
    layout.problem = layout.metadata.add(cursor);
    if (!layout.problem.empty()) return layout;
  }
  layout.cut = !cursor.good();
  if (layout.cut || !check_count(tensors, kLeastTensor, cursor.left(),
                                 "tensors", file_size, layout)) {
    return layout;
  }
  for (uint64_t i = 0; i < tensors && cursor.good(); ++i) {
    layout.tensors.push_back(read_tensor(cursor, layout));
    if (!layout.problem.empty()) return layout;
  }
  layout.cut = !cursor.good();
  layout.end = cursor.at();
  return layout;
}

std::string type_name(uint32_t number) {
  if (const auto dtype = ggml_dtype(number)) {
    return std::string(dtype_name(*dtype));
  }
  return "type " + std::to_string(number);
}

struct Place {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Caches a value per type of tensor, since a model has tensors of few types.
template <typename What>
class LastKinds {
 public:
  // Returns the value for tensors of that type and these sizes, or null.
  const What* find(const StoredTensor& tensor) const {
    for (const auto& [kind, what] : kinds_) {
      if (kind.is_alike(tensor)) return &what;
    }
    return nullptr;
  }
  const What& add(const StoredTensor& tensor, What what) {
    constexpr size_t kMax = 16;
    if (kinds_.size() < kMax) {
      return kinds_.emplace_back(tensor, std::move(what)).second;
    }
    auto& oldest = kinds_[next_++ % kMax];
    oldest = {tensor, std::move(what)};
    return oldest.second;
  }

 private:
  std::vector<std::pair<StoredTensor, What>> kinds_;
  size_t next_ = 0;
};

// Writes one line per tensor: `blk.0.attn_q.weight q4_k[4096, 4096]`. Names are
// escaped here, not when they are shown, because a name with a line break would
// occupy two lines.
std::string listing_of(const Layout& layout, std::vector<Place>& names) {
  std::string text;
  text.reserve(layout.end);
  names.reserve(layout.tensors.size());
  LastKinds<std::string> endings;
  for (const StoredTensor& tensor : layout.tensors) {
    const uint64_t begin = text.size();
    if (is_plain_ascii(tensor.name)) {
      text += tensor.name;
    } else {
      text += printable(tensor.name);
    }
    names.push_back({begin, text.size()});
    const std::string* ending = endings.find(tensor);
    if (ending == nullptr) {
      ending = &endings.add(tensor, " " + type_name(tensor.type) +
                                        shape_text(tensor.shape()) + "\n");
    }
    text += *ending;
  }
  return text;
}

struct DataRange {
  int64_t begin = 0;
  int64_t end = 0;
  Span name;
};

class TensorReader {
 public:
  TensorReader(const Layout& layout, const std::string& file, Manifest& into,
               Diagnostics& diags)
      : layout_(layout), errors_(diags, "the header"), manifest_(into) {
    std::vector<Place> places;
    const auto listing =
        std::make_shared<SourceFile>(file, listing_of(layout, places));
    diags.add_source(listing);
    manifest_.sources.push_back(listing);
    if (manifest_.any_size() == 0) {
      manifest_.reserve_for(listing->text().size());
    }
    names_.reserve(places.size());
    ranges_.reserve(places.size());
    for (const Place& place : places) {
      names_.push_back({listing.get(), place.begin, place.end});
    }
  }

  bool read() {
    read_alignment();
    for (size_t i = 0; i < names_.size() && !errors_.stopped(); ++i) {
      add(layout_.tensors[i], names_[i]);
    }
    check_ranges();
    return errors_.errors() == 0;
  }
  // REQUIRES: read(). Where the data begins in the file, and its size in bytes.
  int64_t data_begin() const {
    const auto end = static_cast<int64_t>(layout_.end);
    return ceil_div(end, alignment_) * alignment_;
  }
  int64_t data_bytes() const { return data_bytes_; }

 private:
  void read_alignment() {
    const std::string key = "general.alignment";
    const auto value = layout_.metadata.integer(key);
    if (!value) return;
    constexpr int64_t kMax = int64_t{1} << 31;
    if (*value > 0 && *value <= kMax && (*value & (*value - 1)) == 0) {
      alignment_ = *value;
      return;
    }
    errors_.malformed(
        empty_span_in(manifest_.sources.back()->name(), errors_.diags()),
        "`" + key + "` is " + std::to_string(*value) +
            ", but must be a power of two");
  }

  std::optional<DType> dtype_of(const StoredTensor& tensor, Span name) {
    const std::optional<DType> dtype = ggml_dtype(tensor.type);
    if (dtype) return dtype;
    const std::string number = std::to_string(tensor.type);
    if (const auto refused = refused_ggml_type(tensor.type)) {
      errors_.error(Code::UnknownDtype, name,
                    text_of(name) + " has ggml type " + number + ", " +
                        std::string(refused->name) + ", " +
                        std::string(refused->why));
    } else {
      errors_.error(Code::UnknownDtype, name,
                    text_of(name) + " has ggml type " + number +
                        ", which ggml does not define");
    }
    return std::nullopt;
  }

  void add(const StoredTensor& tensor, Span name) {
    if (!is_plain_ascii(tensor.name) && !is_valid_utf8(tensor.name)) {
      errors_.malformed(name, "the name " + text_of(name) + " is not UTF-8");
      return;
    }
    if (const uint32_t* known = known_.find(tensor)) {
      const TensorType& type = manifest_.types()[*known];
      if (is_known_buffer(tensor.name, type)
              ? manifest_.add(tensor.name, type, name, true)
              : manifest_.add_numbered(tensor.name, *known, name)) {
        return add_range(tensor, type, name);
      }
      return report_too_large(name);
    }
    add_new(tensor, name);
  }

  // Adds a tensor of a type that is not in the cache.
  void add_new(const StoredTensor& tensor, Span name) {
    const std::optional<DType> dtype = dtype_of(tensor, name);
    if (!dtype) return;
    const TensorType type{*dtype, tensor.shape()};
    const DTypeBlock block = dtype_block(*dtype);
    const int64_t row = type.shape.empty() ? 1 : type.shape.back();
    if (row % block.elements != 0) {
      errors_.malformed(name, text_of(name) + " is " + type_text(type) +
                                  ", but a row of " +
                                  std::string(dtype_name(*dtype)) +
                                  " must have a multiple of " +
                                  std::to_string(block.elements) + " elements");
      return;
    }
    const bool buffer = is_known_buffer(tensor.name, type);
    if (!tensor.sizes_fit || !manifest_.add(tensor.name, type, name, buffer)) {
      return report_too_large(name);
    }
    if (!buffer) {
      known_.add(tensor, manifest_.type_number(manifest_.size() - 1));
    }
    add_range(tensor, type, name);
  }

  void report_too_large(Span name) {
    errors_.malformed(
        name, "with " + text_of(name) + " the tensors exceed 2^63 bytes");
  }

  void add_range(const StoredTensor& tensor, const TensorType& type,
                 Span name) {
    const auto alignment = static_cast<uint64_t>(alignment_);
    if (tensor.offset % alignment != 0) {
      errors_.malformed(name, text_of(name) + " begins at byte " +
                                  std::to_string(tensor.offset) +
                                  " of the data, which is not a multiple of " +
                                  std::to_string(alignment_));
      return;
    }
    constexpr int64_t kMax = std::numeric_limits<int64_t>::max() / 2;
    const int64_t bytes = type.bytes();
    if (tensor.offset > static_cast<uint64_t>(kMax) || bytes > kMax) {
      errors_.malformed(name, text_of(name) + " ends after byte 2^62");
      return;
    }
    const auto begin = static_cast<int64_t>(tensor.offset);
    ranges_.push_back({begin, begin + bytes, name});
  }

  // Checks that no tensor, sorted by offset, begins before the previous one
  // ends.
  void check_ranges() {
    const auto is_before = [](const DataRange& a, const DataRange& b) {
      return std::tuple(a.begin, a.end, a.name.begin) <
             std::tuple(b.begin, b.end, b.name.begin);
    };
    if (!std::ranges::is_sorted(ranges_, is_before)) {
      std::ranges::sort(ranges_, is_before);
    }
    const DataRange* last = nullptr;
    int64_t unused = 0;
    Span after_unused;
    for (const DataRange& range : ranges_) {
      if (errors_.stopped()) return;
      if (range.begin < data_bytes_ && range.name.text() == last->name.text()) {
        errors_
            .error(Code::DuplicateKey, range.name,
                   text_of(range.name) + " is given twice")
            .label(last->name, "first given here");
      } else if (range.begin < data_bytes_) {
        errors_
            .malformed(range.name, "the data of " + text_of(range.name) +
                                       " overlaps that of " +
                                       text_of(last->name))
            .label(last->name, "this one ends at byte " + count_text(last->end))
            .fact(text_of(range.name) + " begins at byte " +
                  count_text(range.begin));
      } else if (range.begin - data_bytes_ >= alignment_) {
        if (unused == 0) after_unused = range.name;
        unused += range.begin - data_bytes_;
      }
      if (range.end > data_bytes_ || last == nullptr) last = &range;
      data_bytes_ = std::max(data_bytes_, range.end);
    }
    if (unused == 0 || errors_.errors() > 0) return;
    errors_.diags()
        .report(
            Code::MalformedDocument, Severity::Warning, after_unused,
            count_text(unused) + " bytes between tensors belong to no tensor")
        .fact("the first gap is before " + text_of(after_unused))
        .fact("llama.cpp rejects such a file");
  }

  static std::string text_of(Span name) {
    return "`" + std::string(name.text()) + "`";
  }

  const Layout& layout_;
  ErrorLimit errors_;
  Manifest& manifest_;
  std::vector<Span> names_;
  LastKinds<uint32_t> known_;  // type numbers in the manifest
  std::vector<DataRange> ranges_;
  int64_t alignment_ = kDefaultAlignment;
  int64_t data_bytes_ = 0;
};

}  // namespace

bool is_gguf(std::string_view head) { return head.starts_with(kMagic); }

int64_t gguf_bytes_needed(std::string_view head) {
  if (!is_gguf(head)) return 0;
  const Layout layout = read_layout(head, -1);
  if (layout.cut) return std::numeric_limits<int64_t>::max();
  return layout.problem.empty() ? static_cast<int64_t>(layout.end) : 0;
}

std::optional<GgufHeader> read_gguf_header(const SourcePtr& file,
                                           int64_t file_size, Manifest& into,
                                           Diagnostics& diags) {
  const auto refuse = [&](Code code, std::string why) {
    return diags.error(code, empty_span_in(file->name(), diags),
                       std::move(why));
  };
  if (file->text().starts_with(kLfsPointer)) {
    return refuse(Code::UnreadableFile,
                  "this is a Git LFS pointer, not the file itself")
        .help("run `git lfs pull` to fetch the file");
  }
  if (!is_gguf(file->text())) {
    return refuse(Code::MalformedDocument,
                  "a GGUF file must start with `GGUF`");
  }
  Layout layout = read_layout(file->text(), file_size);
  if (layout.cut) {
    return refuse(Code::MalformedDocument,
                  "the file ends inside its header: it has " +
                      count_text(file_size) + " bytes");
  }
  if (!layout.problem.empty()) {
    auto report = refuse(layout.code, layout.problem);
    if (!layout.help.empty()) report.help(layout.help);
    return report;
  }
  const bool is_first = into.sources.empty();
  TensorReader reader(layout, file->name(), into, diags);
  if (!reader.read()) return std::nullopt;
  GgufHeader header;
  // The file may end with its last tensor or with the padding after it.
  header.data_absent = file_size - reader.data_begin() < reader.data_bytes();
  Facts facts = gguf_facts(layout.metadata, into.remarks);
  const auto name = layout.metadata.text("general.name");
  if (is_first) {
    into.facts = std::move(facts);
    if (name && is_valid_utf8(*name)) into.model_name = *name;
  }
  header.metadata = std::move(layout.metadata);
  return header;
}

namespace {

// The values of enum ggml_type in ggml.h.
constexpr std::array<std::pair<uint32_t, DType>, 32> kTypes = {{
    {0, DType::F32},     {1, DType::F16},      {2, DType::Q4_0},
    {3, DType::Q4_1},    {6, DType::Q5_0},     {7, DType::Q5_1},
    {8, DType::Q8_0},    {9, DType::Q8_1},     {10, DType::Q2_K},
    {11, DType::Q3_K},   {12, DType::Q4_K},    {13, DType::Q5_K},
    {14, DType::Q6_K},   {15, DType::Q8_K},    {16, DType::IQ2_XXS},
    {17, DType::IQ2_XS}, {18, DType::IQ3_XXS}, {19, DType::IQ1_S},
    {20, DType::IQ4_NL}, {21, DType::IQ3_S},   {22, DType::IQ2_S},
    {23, DType::IQ4_XS}, {24, DType::I8},      {25, DType::I16},
    {26, DType::I32},    {27, DType::I64},     {28, DType::F64},
    {29, DType::IQ1_M},  {30, DType::BF16},    {34, DType::TQ1_0},
    {35, DType::TQ2_0},  {39, DType::MXFP4},
}};

constexpr std::string_view kRemoved = "which ggml has removed";
constexpr std::string_view kLater = "which this version does not support";
constexpr std::array<std::pair<uint32_t, RefusedType>, 11> kRefused = {{
    {4, {"Q4_2", kRemoved}},
    {5, {"Q4_3", kRemoved}},
    {31, {"Q4_0_4_4", kRemoved}},
    {32, {"Q4_0_4_8", kRemoved}},
    {33, {"Q4_0_8_8", kRemoved}},
    {36, {"IQ4_NL_4_4", kRemoved}},
    {37, {"IQ4_NL_4_8", kRemoved}},
    {38, {"IQ4_NL_8_8", kRemoved}},
    {40, {"NVFP4", kLater}},
    {41, {"Q1_0", kLater}},
    {42, {"Q2_0", kLater}},
}};

}  // namespace

std::optional<DType> ggml_dtype(uint32_t number) {
  for (const auto& [known, dtype] : kTypes) {
    if (known == number) return dtype;
  }
  return std::nullopt;
}

std::optional<RefusedType> refused_ggml_type(uint32_t number) {
  for (const auto& [known, type] : kRefused) {
    if (known == number) return type;
  }
  return std::nullopt;
}

namespace {

constexpr uint32_t kBool = 7;
constexpr uint32_t kText = 8;
constexpr uint32_t kArray = 9;

// Bytes of a value, by type; 0 if the size is not fixed.
constexpr std::array<uint8_t, 13> kSizes = {1, 1, 2, 2, 4, 4, 4,
                                            1, 0, 0, 8, 8, 8};
// Arrays of arrays are legal, though no known writer produces them.
constexpr int kMaxDepth = 8;

std::string unknown_type(uint32_t type) {
  return "a value of unknown type " + std::to_string(type);
}

std::string skip_value(GgufCursor& cursor, uint32_t type, int depth) {
  if (type >= kSizes.size()) return unknown_type(type);
  if (type == kText) {
    cursor.text();
    return "";
  }
  if (type != kArray) {
    cursor.skip(1, kSizes.at(type));
    return "";
  }
  const uint32_t of = cursor.u32();
  const uint64_t count = cursor.u64();
  if (!cursor.good()) return "";
  if (of >= kSizes.size()) return unknown_type(of);
  if (kSizes.at(of) != 0) {
    cursor.skip(count, kSizes.at(of));
    return "";
  }
  if (depth == kMaxDepth) return "arrays nested too deeply";
  // Every item occupies bytes, so the end of the file ends the loop.
  for (uint64_t i = 0; i < count && cursor.good(); ++i) {
    std::string why = skip_value(cursor, of, depth + 1);
    if (!why.empty()) return why;
  }
  return "";
}

std::optional<int64_t> read_integer(GgufCursor& cursor, uint32_t type) {
  switch (type) {
    case 0:
    case kBool:
      return static_cast<int64_t>(cursor.number(1));
    case 1:
      return static_cast<int8_t>(cursor.number(1));
    case 2:
      return static_cast<int64_t>(cursor.number(2));
    case 3:
      return static_cast<int16_t>(cursor.number(2));
    case 4:
      return static_cast<int64_t>(cursor.number(4));
    case 5:
      return static_cast<int32_t>(cursor.number(4));
    case 10: {
      const uint64_t value = cursor.number(8);
      if (value > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    case 11:
      return static_cast<int64_t>(cursor.number(8));
    default:
      return std::nullopt;
  }
}

}  // namespace

uint64_t GgufCursor::number(size_t size) {
  if (left() < size) {
    good_ = false;
    return 0;
  }
  static_assert(std::endian::native == std::endian::little);
  uint64_t value = 0;
  std::memcpy(&value, bytes_.data() + at_, size);
  at_ += size;
  return value;
}

std::string_view GgufCursor::text() {
  const uint64_t length = u64();
  if (left() < length) good_ = false;
  if (!good_) return "";
  const std::string_view value =
      bytes_.substr(at_, static_cast<size_t>(length));
  at_ += static_cast<size_t>(length);
  return value;
}

void GgufCursor::skip(uint64_t count, uint64_t size) {
  if (size == 0 || count > left() / size) {
    good_ = good_ && count == 0;
    return;
  }
  at_ += static_cast<size_t>(count * size);
}

std::string GgufMetadata::add(GgufCursor& cursor) {
  const std::string_view key = cursor.text();
  const uint32_t type = cursor.u32();
  if (!cursor.good()) return "";
  constexpr size_t kShown = 100;
  const std::string name = in_backticks(key.substr(0, kShown));
  if (key.empty()) return "a metadata key is empty";
  const Value value{cursor.bytes(), cursor.at(), type};
  std::string why = skip_value(cursor, type, 0);
  if (!why.empty()) return "the metadata key " + name + " has " + why;
  if (cursor.good() && !values_.emplace(std::string(key), value).second) {
    return "the metadata key " + name + " is given twice";
  }
  return "";
}

const GgufMetadata::Value* GgufMetadata::find(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::optional<int64_t> GgufMetadata::integer(const std::string& key) const {
  const Value* value = find(key);
  if (value == nullptr || value->type == kBool) return std::nullopt;
  GgufCursor cursor(value->bytes, value->at);
  return read_integer(cursor, value->type);
}

std::optional<std::vector<int64_t>> GgufMetadata::integers(
    const std::string& key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != kArray) {
    const std::optional<int64_t> single = integer(key);
    if (!single) return std::nullopt;
    return std::vector<int64_t>{*single};
  }
  GgufCursor cursor(value->bytes, value->at);
  const uint32_t of = cursor.u32();
  const uint64_t count = cursor.u64();
  std::vector<int64_t> items;
  for (uint64_t i = 0; i < count; ++i) {
    const std::optional<int64_t> item = read_integer(cursor, of);
    if (!item) return std::nullopt;
    items.push_back(*item);
  }
  return items;
}

std::optional<std::string_view> GgufMetadata::text(
    const std::string& key) const {
  const Value* value = find(key);
  if (value == nullptr || value->type != kText) return std::nullopt;
  return GgufCursor(value->bytes, value->at).text();
}

std::optional<int64_t> GgufMetadata::length(const std::string& key) const {
  const Value* value = find(key);
  if (value == nullptr || value->type != kArray) return std::nullopt;
  GgufCursor cursor(value->bytes, value->at);
  cursor.u32();
  // add() made sure that the count does not exceed the bytes of the file.
  return static_cast<int64_t>(cursor.u64());
}

}  // namespace shardplan
