// Byte-level BPE: bytes appear in token texts as printable code points.
#include "worker/text/tokenizer/tokenizer_bpe.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/gguf/gguf_arrays.h"
#include "worker/text/tokenizer/piece_cache.h"
#include "worker/text/tokenizer/text_merge.h"
#include "worker/text/utf8.h"

namespace plimsoll::worker {
namespace {

// GPT-2's mapping: printable Latin-1 bytes stand for themselves, the other 68
// are U+0100 and up in their order.
constexpr uint32_t kFirstShifted = 0x100;
constexpr size_t kMappedCodePoints = kFirstShifted + 68;

constexpr bool StandsForItself(uint32_t byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) ||
         (byte >= 174 && byte <= 255);
}

constexpr std::array<uint16_t, 256> CodePointsOfBytes() {
  std::array<uint16_t, 256> code_points = {};
  uint32_t shifted = kFirstShifted;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    code_points[byte] =
        static_cast<uint16_t>(StandsForItself(byte) ? byte : shifted++);
  }
  return code_points;
}

constexpr std::array<int16_t, kMappedCodePoints> BytesOfCodePoints() {
  std::array<int16_t, kMappedCodePoints> bytes = {};
  for (int16_t& byte : bytes) byte = -1;
  const std::array<uint16_t, 256> code_points = CodePointsOfBytes();
  for (uint32_t byte = 0; byte < 256; ++byte) {
    bytes[code_points[byte]] = static_cast<int16_t>(byte);
  }
  return bytes;
}

constexpr std::array<uint16_t, 256> kCodePointOfByte = CodePointsOfBytes();
constexpr std::array<int16_t, kMappedCodePoints> kByteOfCodePoint =
    BytesOfCodePoints();

// Appends the code point that stands for `byte`, all below U+0800.
void AppendMapped(size_t byte, std::string& out) {
  const uint32_t code_point = kCodePointOfByte[byte];
  if (code_point < 0x80) {
    out.push_back(static_cast<char>(code_point));
    return;
  }
  out.push_back(static_cast<char>(0xC0 | (code_point >> 6)));
  out.push_back(static_cast<char>(0x80 | (code_point & 0x3F)));
}

// Appends the bytes that the code points of `text` stand for. Code points
// outside the mapping, as some of ASCII, and ill-formed bytes stand for
// themselves.
void AppendUnmapped(absl::string_view text, std::string& out) {
  while (!text.empty()) {
    if (static_cast<unsigned char>(text[0]) < 0x80) {
      out.push_back(text[0]);
      text.remove_prefix(1);
      continue;
    }
    const Utf8Front front = ReadUtf8Front(text);
    const auto bytes = static_cast<size_t>(front.bytes);
    size_t code_point = kMappedCodePoints;
    if (front.kind == Utf8Kind::kWhole && bytes == 2) {
      code_point = (static_cast<size_t>(text[0] & 0x1F) << 6) |
                   static_cast<size_t>(text[1] & 0x3F);
    }
    const int byte =
        code_point < kMappedCodePoints ? kByteOfCodePoint[code_point] : -1;
    if (byte >= 0) {
      out.push_back(static_cast<char>(byte));
    } else {
      out.append(text.data(), bytes);
    }
    text.remove_prefix(bytes);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> BpeTokenizer::Load(
    const planner::GgufHeader& header, planner::ByteSource& source) {
  const auto key = header.String("tokenizer.ggml.pre");
  if (!key.ok()) return key.status();
  const std::optional<std::string>& pre = *key;
  if (!pre) {
    return absl::UnimplementedError(
        "tokenizer.ggml.pre is missing: which pre-tokenizer the model was "
        "trained with cannot be guessed; convert the model again with a "
        "converter that writes it");
  }
  ASSIGN_OR_RETURN(PreTokenizer pretokenizer, PreTokenizer::Create(*pre));
  ASSIGN_OR_RETURN(VocabTable vocab,
                   VocabTable::Load(header, source, VocabTable::Scores::kNone));
  ASSIGN_OR_RETURN(SpecialTokens special, SpecialTokens::Build(vocab));
  const TokenRoleDefaults defaults = {.bos = 11,
                                      .eos = 11,
                                      .unknown = -1,
                                      .add_bos = pretokenizer.family().add_bos,
                                      .only_control = true};
  ASSIGN_OR_RETURN(TokenRoles roles, ReadTokenRoles(header, vocab, defaults));
  ASSIGN_OR_RETURN(MergeTable merges, MergeTable::Load(header, source, vocab));
  return std::unique_ptr<Tokenizer>(
      new BpeTokenizer({std::move(vocab), std::move(special), std::move(roles)},
                       pretokenizer, std::move(merges)));
}

BpeTokenizer::BpeTokenizer(Tables tables, PreTokenizer pretokenizer,
                           MergeTable merges)
    : Tokenizer(std::move(tables)),
      pretokenizer_(pretokenizer),
      merges_(std::move(merges)) {
  for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    std::string mapped;
    AppendMapped(byte, mapped);
    const int32_t id = vocab_.Find(mapped);
    byte_ids_[byte] = id >= 0 && !vocab_.IsControl(id) ? id : -1;
  }
  std::string bytes;
  SetSpans(
      [&](int32_t id) {
        // A special token stands for its own text, another one for the bytes
        // that its code points stand for.
        const absl::string_view text = vocab_.Text(id);
        const TokenType type = vocab_.Type(id);
        if (vocab_.IsControl(id) || type == TokenType::kUserDefined) {
          return static_cast<int64_t>(text.size());
        }
        bytes.clear();
        AppendUnmapped(text, bytes);
        return static_cast<int64_t>(bytes.size());
      },
      [this](size_t byte) { return byte_ids_[byte] >= 0; });
  right_filter_.Reset(merges_.n_slots() / 2);
  std::string left_bytes;
  std::string right_bytes;
  merges_.ForEach([&](int32_t left, int32_t right) {
    left_bytes.clear();
    right_bytes.clear();
    AppendUnmapped(vocab_.Text(left), left_bytes);
    AppendUnmapped(vocab_.Text(right), right_bytes);
    joined_.Add(left_bytes.back(), right_bytes.front());
    if (right_bytes.size() < 2) return;
    right_lengths_.Add(right_bytes);
    right_filter_.Add(HashEnds(right_bytes));
  });
}

class BpeTokenizer::Rules {
 public:
  explicit Rules(const BpeTokenizer& tokenizer) : tokenizer_(tokenizer) {}

  MergeSymbol First(absl::string_view text, size_t begin) const {
    const auto byte = static_cast<unsigned char>(text[begin]);
    return {static_cast<uint32_t>(begin), 1, tokenizer_.byte_ids_[byte]};
  }

  std::optional<MergeRule> Find(absl::string_view, const MergeSymbol& left,
                                const MergeSymbol& right) const {
    if (left.id < 0 || right.id < 0) return std::nullopt;
    return tokenizer_.merges_.Find(left.id, right.id);
  }

  void ListAcross(absl::string_view text, const MergeSymbol& symbol,
                  std::vector<AcrossRule>& out) {
    out.clear();
    if (symbol.id < 0) return;
    const auto add = [&](int32_t right, size_t bytes) {
      if (right < 0) return;
      const auto rule = tokenizer_.merges_.Find(symbol.id, right);
      if (rule) out.push_back({rule->rank, bytes});
    };
    const size_t begin = size_t{symbol.begin} + symbol.bytes;
    if (begin == text.size()) return;
    add(First(text, begin).id, 1);
    const absl::string_view rest = text.substr(begin);
    if (rest.size() < 2) return;
    const size_t most =
        std::min(rest.size(), tokenizer_.right_lengths_.Most(rest));
    mapped_.clear();
    size_t n_mapped = 0;
    for (size_t bytes = 2; bytes <= most; ++bytes) {
      const uint64_t hash = HashEnds(rest.substr(0, bytes));
      if (!tokenizer_.right_filter_.MayHave(hash)) continue;
      for (; n_mapped < bytes; ++n_mapped) {
        AppendMapped(static_cast<unsigned char>(rest[n_mapped]), mapped_);
      }
      add(tokenizer_.vocab_.Find(mapped_), bytes);
    }
  }

 private:
  const BpeTokenizer& tokenizer_;
  std::string mapped_;
};

struct BpeTokenizer::Scratch {
  Scratch(const BpeTokenizer& tokenizer, size_t text_bytes,
          StopCounter& stop_check)
      : cache(text_bytes), rules(tokenizer), stop(stop_check) {}

  PieceCache cache;
  Rules rules;
  TextMerger merger;
  std::string mapped;
  StopCounter& stop;
};

absl::Status BpeTokenizer::EncodeTo(absl::string_view text, bool parse_special,
                                    StopCounter& stop,
                                    std::vector<int32_t>& ids) const {
  Scratch scratch(*this, text.size(), stop);
  ASSIGN_OR_RETURN(const std::vector<TextFragment> fragments,
                   special_.Split(vocab_, text, parse_special, stop));
  for (const TextFragment& fragment : fragments) {
    if (fragment.id != TextFragment::kRaw) {
      ids.push_back(fragment.id);
      continue;
    }
    absl::string_view rest = text.substr(fragment.begin, fragment.bytes);
    while (!rest.empty()) {
      const size_t bytes = pretokenizer_.FirstPiece(rest);
      RETURN_IF_ERROR(stop.Spend(static_cast<int64_t>(bytes)));
      RETURN_IF_ERROR(EncodePiece(rest.substr(0, bytes), scratch, ids));
      rest.remove_prefix(bytes);
    }
  }
  return absl::OkStatus();
}

int32_t BpeTokenizer::FindWhole(absl::string_view piece,
                                std::string& mapped) const {
  // Mapping makes no text shorter.
  if (static_cast<int64_t>(piece.size()) > vocab_.longest_token_bytes()) {
    return -1;
  }
  mapped.clear();
  for (const char c : piece)
    AppendMapped(static_cast<unsigned char>(c), mapped);
  const int32_t id = vocab_.Find(mapped);
  return id >= 0 && !vocab_.IsControl(id) ? id : -1;
}

absl::Status BpeTokenizer::EncodePiece(absl::string_view piece,
                                       Scratch& scratch,
                                       std::vector<int32_t>& ids) const {
  if (piece.size() == 1) {
    const int32_t id = byte_ids_[static_cast<unsigned char>(piece[0])];
    if (id >= 0) ids.push_back(id);
    return absl::OkStatus();
  }
  return scratch.cache.Append(piece, PieceCache::Kind::kPiece, ids, [&] {
    return EncodeFragments(piece, scratch, ids);
  });
}

absl::Status BpeTokenizer::EncodeFragments(absl::string_view piece,
                                           Scratch& scratch,
                                           std::vector<int32_t>& ids) const {
  const int32_t whole = pretokenizer_.family().whole_pieces_first
                            ? FindWhole(piece, scratch.mapped)
                            : -1;
  if (whole >= 0) {
    ids.push_back(whole);
    return absl::OkStatus();
  }
  size_t begin = 0;
  for (size_t i = 1; i < piece.size(); ++i) {
    if (joined_.Has(piece[i - 1], piece[i])) continue;
    RETURN_IF_ERROR(scratch.stop.Spend(static_cast<int64_t>(i - begin)));
    RETURN_IF_ERROR(
        EncodeFragment(piece.substr(begin, i - begin), scratch, ids));
    begin = i;
  }
  return EncodeFragment(piece.substr(begin), scratch, ids);
}

absl::Status BpeTokenizer::EncodeFragment(absl::string_view fragment,
                                          Scratch& scratch,
                                          std::vector<int32_t>& ids) const {
  const auto append = [&](const MergeSymbol& symbol) {
    if (symbol.id < 0) return;
    if (!vocab_.IsControl(symbol.id)) {
      ids.push_back(symbol.id);
      return;
    }
    // User text must not become a control token by merging.
    for (const char c : fragment.substr(symbol.begin, symbol.bytes)) {
      ids.push_back(byte_ids_[static_cast<unsigned char>(c)]);
    }
  };
  return scratch.cache.Append(fragment, PieceCache::Kind::kFragment, ids, [&] {
    return scratch.merger.Run(fragment, scratch.rules, scratch.stop, append);
  });
}

void BpeTokenizer::AppendNormal(absl::string_view text,
                                std::string& out) const {
  AppendUnmapped(text, out);
}

int64_t BpeTokenizer::MemoryBytes() const {
  return TableBytes() + merges_.MemoryBytes() +
         static_cast<int64_t>(sizeof(byte_ids_) + sizeof(joined_) +
                              sizeof(right_lengths_)) +
         right_filter_.MemoryBytes();
}

}  // namespace plimsoll::worker
