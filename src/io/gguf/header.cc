// SPDX-License-Identifier: Apache-2.0
#include "io/gguf/header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <tuple>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "io/formats.h"
#include "io/gguf/facts.h"
#include "syntax/tokens.h"

namespace shardplan {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint64_t kLeastPair = 8 + 1 + 4 + 1;    // bytes
constexpr uint64_t kLeastTensor = 8 + 4 + 4 + 8;  // bytes
constexpr uint32_t kMaxDims = 4;
constexpr int64_t kDefaultAlignment = 32;

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
  // Checks a count that the file states against the length of the file.
  const auto has_room = [&](uint64_t count, uint64_t least,
                            const std::string& what) {
    if (cursor.good() && count <= cursor.left() / least) return true;
    layout.cut = !cursor.good() || file_size < 0;
    if (!layout.cut) {
      layout.problem = "the header declares " + std::to_string(count) + " " +
                       what + ", but the file has " + count_text(file_size) +
                       " bytes";
    }
    return false;
  };
  if (!has_room(pairs, kLeastPair, "metadata pairs")) return layout;
  for (uint64_t i = 0; i < pairs && cursor.good(); ++i) {
    layout.problem = layout.metadata.add(cursor);
    if (!layout.problem.empty()) return layout;
  }
  if (!has_room(tensors, kLeastTensor, "tensors")) return layout;
  for (uint64_t i = 0; i < tensors && cursor.good(); ++i) {
    layout.tensors.push_back(read_tensor(cursor, layout));
    if (!layout.problem.empty()) return layout;
  }
  layout.cut = !cursor.good();
  layout.end = cursor.at();
  return layout;
}

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
// occupy two lines. `names` become the names' places in the text.
std::string listing_of(const Layout& layout, std::vector<Span>& names) {
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
    names.push_back({nullptr, begin, text.size()});
    const std::string* ending = endings.find(tensor);
    if (ending == nullptr) {
      const auto dtype = ggml_dtype(tensor.type);
      const std::string type = dtype ? std::string(dtype_name(*dtype))
                                     : "type " + std::to_string(tensor.type);
      ending =
          &endings.add(tensor, " " + type + shape_text(tensor.shape()) + "\n");
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
    const auto listing =
        std::make_shared<SourceFile>(file, listing_of(layout, names_));
    diags.add_source(listing);
    manifest_.sources.push_back(listing);
    if (manifest_.any_size() == 0) {
      manifest_.reserve_for(listing->text().size());
    }
    for (Span& name : names_) name.file = listing.get();
    ranges_.reserve(names_.size());
  }

  bool read() {
    read_alignment();
    for (size_t i = 0; i < names_.size() && !errors_.stopped(); ++i) {
      add(layout_.tensors[i], names_[i]);
    }
    check_ranges();
    return errors_.errors() == 0;
  }
  // Returns whether a file of that size has the data. It may end with its last
  // tensor or with the padding after it. REQUIRES: read().
  bool has_data(int64_t file_size) const {
    const auto end = static_cast<int64_t>(layout_.end);
    const int64_t data_begin = ceil_div(end, alignment_) * alignment_;
    return file_size - data_begin >= data_bytes_;
  }

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
    if (const auto dtype = ggml_dtype(tensor.type)) return dtype;
    const auto refused = refused_ggml_type(tensor.type);
    return errors_.error(
        Code::UnknownDtype, name,
        text_of(name) + " has ggml type " + std::to_string(tensor.type) + ", " +
            (refused
                 ? std::string(refused->name) + ", " + std::string(refused->why)
                 : "which ggml does not define"));
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
    std::ranges::sort(ranges_, {}, [](const DataRange& range) {
      return std::tuple(range.begin, range.end, range.name.begin);
    });
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

  static std::string text_of(Span name) { return in_backticks(name.text()); }

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
  Facts facts = gguf_facts(layout.metadata, into.remarks);
  const auto name = layout.metadata.text("general.name");
  if (is_first) {
    into.facts = std::move(facts);
    if (name && is_valid_utf8(*name)) into.model_name = *name;
  }
  return GgufHeader{std::move(layout.metadata), !reader.has_data(file_size)};
}

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

}  // namespace shardplan
