// SPDX-License-Identifier: Apache-2.0
#include "syntax/packed_document.h"

#include <cstdint>
#include <utility>

#include "base/checked.h"

namespace shardplan {
namespace {

// The place where the text of a node or key is stored.
enum class Spelled : uint8_t {
  Empty,
  AtBegin,    // at the beginning of its location in the source
  Quoted,     // one character later
  Otherwise,  // in the packed bytes: it has escapes or several lines
};
constexpr uint8_t kKinds = 8;  // of nodes; multiplier of Spelled

class Packer {
 public:
  std::string take() { return std::move(bytes_); }

  void node(const Node& node) {
    const bool many = node.is_list() || node.is_map();
    leaf(node.kind(), many ? std::string_view() : node.text(), node.span());
    if (!many) return;
    number(node.size());
    for (size_t i = 0; i < node.size(); ++i) {
      if (node.is_map()) leaf(NodeKind::String, node.key(i), node.key_span(i));
      this->node(node.item(i));
    }
  }

 private:
  void leaf(NodeKind kind, std::string_view text, const Span& where) {
    const Spelled spelled = spelled_at(text, where);
    bytes_ += static_cast<char>(static_cast<uint8_t>(kind) +
                                kKinds * static_cast<uint8_t>(spelled));
    const auto distance =
        static_cast<int64_t>(where.begin) - static_cast<int64_t>(last_);
    number(distance < 0 ? 2 * static_cast<uint64_t>(-distance) - 1
                        : 2 * static_cast<uint64_t>(distance));
    last_ = where.begin;
    number(where.end - where.begin);
    if (spelled != Spelled::Empty) number(text.size());
    if (spelled == Spelled::Otherwise) bytes_ += text;
  }

  static Spelled spelled_at(std::string_view text, const Span& where) {
    if (text.empty()) return Spelled::Empty;
    const std::string_view written = where.text();
    if (written.starts_with(text)) return Spelled::AtBegin;
    if (!written.empty() && written.substr(1).starts_with(text)) {
      return Spelled::Quoted;
    }
    return Spelled::Otherwise;
  }

  void number(uint64_t value) {
    for (; value >= 0x80; value >>= 7U) {
      bytes_ += static_cast<char>(0x80U | (value & 0x7FU));
    }
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
  uint64_t last_ = 0;
};

class Unpacker {
 public:
  Unpacker(std::string_view bytes, const SourceFile& source,
           DocumentBuilder& builder)
      : bytes_(bytes), source_(source), builder_(builder) {}

  void run() {
    node();
    SHARDPLAN_CHECK(at_ == bytes_.size());
  }

 private:
  struct Leaf {
    NodeKind kind = NodeKind::Null;
    std::string_view text;
    Span where;
  };

  void node() {
    const Leaf head = leaf();
    if (head.kind != NodeKind::List && head.kind != NodeKind::Map) {
      builder_.scalar(head.kind, head.text, head.where);
      return;
    }
    builder_.begin(head.kind, head.where.begin);
    for (uint64_t left = number(); left > 0; --left) {
      if (head.kind == NodeKind::Map) {
        const Leaf key = leaf();
        builder_.key(key.text, key.where);
      }
      node();
    }
    builder_.end(head.where.end);
  }

  Leaf leaf() {
    const uint8_t head = byte();
    Leaf result;
    result.kind = static_cast<NodeKind>(head % kKinds);
    const uint64_t distance = number();
    last_ =
        distance % 2 == 0 ? last_ + distance / 2 : last_ - (distance + 1) / 2;
    result.where = {&source_, last_, last_ + number()};
    const auto spelled = static_cast<Spelled>(head / kKinds);
    if (spelled == Spelled::Empty) return result;
    const uint64_t size = number();
    if (spelled == Spelled::Otherwise) {
      SHARDPLAN_CHECK(size <= bytes_.size() - at_);
      result.text = bytes_.substr(at_, size);
      at_ += size;
    } else {
      const uint64_t skipped = spelled == Spelled::Quoted ? 1 : 0;
      result.text = source_.text().substr(last_ + skipped, size);
    }
    return result;
  }

  uint8_t byte() {
    SHARDPLAN_CHECK(at_ < bytes_.size());
    return static_cast<uint8_t>(bytes_[at_++]);
  }

  uint64_t number() {
    uint64_t value = 0;
    for (uint32_t shift = 0;; shift += 7) {
      const uint8_t next = byte();
      value |= static_cast<uint64_t>(next & 0x7FU) << shift;
      if (next < 0x80) return value;
    }
  }

  std::string_view bytes_;
  size_t at_ = 0;
  const SourceFile& source_;
  DocumentBuilder& builder_;
  uint64_t last_ = 0;
};

}  // namespace

std::string pack_document(const Document& document) {
  Packer packer;
  packer.node(document.root());
  return packer.take();
}

Document unpack_document(std::string_view packed, SourcePtr source) {
  Diagnostics none;
  const SourceFile& file = *source;
  DocumentBuilder builder(std::move(source), none);
  Unpacker(packed, file, builder).run();
  auto document = builder.finish();
  SHARDPLAN_CHECK(document.has_value());
  return *std::move(document);
}

}  // namespace shardplan
