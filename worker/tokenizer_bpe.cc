// Byte-level BPE: bytes appear in token texts as printable code points.
#include "worker/tokenizer_bpe.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/utf8.h"

namespace plimsoll::worker {
namespace {

constexpr absl::string_view kMergesKey = "tokenizer.ggml.merges";

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

// The text of the code point that stands for `byte`, all below U+0800.
std::string MappedByte(size_t byte) {
  const uint32_t code_point = kCodePointOfByte[byte];
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xC0 | (code_point >> 6)),
          static_cast<char>(0x80 | (code_point & 0x3F))};
}

// Appends the bytes that the code points of `text` stand for. Code points
// outside the mapping and ill-formed bytes stand for themselves.
void AppendUnmapped(absl::string_view text, std::string& out) {
  while (!text.empty()) {
    const Utf8Front front = ReadUtf8Front(text);
    const auto bytes = static_cast<size_t>(front.bytes);
    size_t code_point = kMappedCodePoints;
    if (front.kind == Utf8Kind::kWhole && bytes == 1) {
      code_point = static_cast<unsigned char>(text[0]);
    } else if (front.kind == Utf8Kind::kWhole && bytes == 2) {
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

size_t HashPair(int32_t left, int32_t right) {
  return absl::Hash<std::pair<int32_t, int32_t>>{}({left, right});
}

}  // namespace

absl::StatusOr<MergeTable> MergeTable::Load(const planner::GgufHeader& header,
                                            planner::ByteSource& source,
                                            const VocabTable& vocab) {
  ASSIGN_OR_RETURN(const planner::GgufArray* array, header.Array(kMergesKey));
  if (array == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(kMergesKey, " is missing"));
  }
  if (array->n > kMaxMerges) {
    return absl::InvalidArgumentError(absl::StrCat(
        kMergesKey, " has ", array->n, " merges, more than ", kMaxMerges));
  }
  MergeTable table;
  const auto n_merges = static_cast<size_t>(std::max<int64_t>(array->n, 1));
  table.slots_.resize(std::bit_ceil(2 * n_merges));
  RETURN_IF_ERROR(
      NameKey(kMergesKey,
              planner::ForEachString(
                  source, *array, [&](int64_t rank, absl::string_view merge) {
                    return table.Add(rank, merge, vocab);
                  })));
  return table;
}

absl::Status MergeTable::Add(int64_t rank, absl::string_view merge,
                             const VocabTable& vocab) {
  const auto error = [rank](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat(kMergesKey, "[", rank, "] ", what));
  };
  if (static_cast<int64_t>(merge.size()) > kMaxMergeBytes) {
    return error("is longer than two tokens");
  }
  // A token may begin with a space, so the first byte never separates.
  const size_t space = merge.find(' ', 1);
  if (space == absl::string_view::npos) return error("has no space");
  const int32_t left = vocab.Find(merge.substr(0, space));
  const int32_t right = vocab.Find(merge.substr(space + 1));
  const int32_t joined =
      vocab.Find(absl::StrCat(merge.substr(0, space), merge.substr(space + 1)));
  if (left < 0 || right < 0 || joined < 0) {
    return error("names a token that is not in tokenizer.ggml.tokens");
  }
  const size_t mask = slots_.size() - 1;
  size_t i = HashPair(left, right) & mask;
  while (slots_[i].left >= 0) {
    if (slots_[i].left == left && slots_[i].right == right) {
      return absl::OkStatus();
    }
    i = (i + 1) & mask;
  }
  slots_[i] = {left, right, {static_cast<uint32_t>(rank), joined}};
  return absl::OkStatus();
}

std::optional<MergeRule> MergeTable::Find(int32_t left, int32_t right) const {
  const size_t mask = slots_.size() - 1;
  size_t i = HashPair(left, right) & mask;
  while (slots_[i].left >= 0) {
    const Slot& slot = slots_[i];
    if (slot.left == left && slot.right == right) return slot.rule;
    i = (i + 1) & mask;
  }
  return std::nullopt;
}

int64_t MergeTable::MemoryBytes() const {
  return static_cast<int64_t>(sizeof(*this) + slots_.capacity() * sizeof(Slot));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> BpeTokenizer::Load(
    const planner::GgufHeader& header, planner::ByteSource& source) {
  const auto key = header.String("tokenizer.ggml.pre");
  if (!key.ok()) return key.status();
  const std::optional<std::string>& pre = *key;
  if (!pre) {
    return absl::UnimplementedError(
        "tokenizer.ggml.pre is missing: which pre-tokenizer the model was "
        "trained with cannot be guessed");
  }
  ASSIGN_OR_RETURN(PreTokenizer pretokenizer, PreTokenizer::Create(*pre));
  ASSIGN_OR_RETURN(VocabTable vocab, VocabTable::Load(header, source, false));
  ASSIGN_OR_RETURN(SpecialTokens special, SpecialTokens::Build(vocab));
  const TokenRoleDefaults defaults = {.bos = 11,
                                      .eos = 11,
                                      .unknown = -1,
                                      .add_bos = pretokenizer.traits().add_bos,
                                      .only_control = true};
  ASSIGN_OR_RETURN(TokenRoles roles, ReadTokenRoles(header, vocab, defaults));
  ASSIGN_OR_RETURN(MergeTable merges, MergeTable::Load(header, source, vocab));
  return std::unique_ptr<Tokenizer>(
      new BpeTokenizer(std::move(vocab), std::move(special), std::move(roles),
                       std::move(pretokenizer), std::move(merges)));
}

BpeTokenizer::BpeTokenizer(VocabTable vocab, SpecialTokens special,
                           TokenRoles roles, PreTokenizer pretokenizer,
                           MergeTable merges)
    : Tokenizer(std::move(vocab), std::move(special), std::move(roles)),
      pretokenizer_(std::move(pretokenizer)),
      merges_(std::move(merges)) {
  for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    const int32_t id = vocab_.Find(MappedByte(byte));
    byte_ids_[byte] = id >= 0 && !vocab_.IsControl(id) ? id : -1;
  }
}

absl::StatusOr<std::vector<int32_t>> BpeTokenizer::Encode(
    absl::string_view text, bool parse_special) const {
  if (static_cast<int64_t>(text.size()) > kMaxTextBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a text of ", text.size(),
                                                   " bytes is longer than ",
                                                   kMaxTextBytes, " bytes"));
  }
  std::vector<int32_t> ids;
  PairMerger merger;
  for (const TextFragment& fragment :
       special_.Split(vocab_, text, parse_special)) {
    if (fragment.id != TextFragment::kRaw) {
      ids.push_back(fragment.id);
      continue;
    }
    RETURN_IF_ERROR(pretokenizer_.Split(
        text.substr(fragment.begin, fragment.bytes),
        [&](absl::string_view piece) { EncodePiece(piece, merger, ids); }));
  }
  return ids;
}

int32_t BpeTokenizer::FindWhole(absl::string_view piece) const {
  if (static_cast<int64_t>(piece.size()) > VocabTable::kMaxTokenBytes) {
    return -1;
  }
  std::string mapped;
  for (const char c : piece) {
    mapped += MappedByte(static_cast<unsigned char>(c));
  }
  const int32_t id = vocab_.Find(mapped);
  return id >= 0 && !vocab_.IsControl(id) ? id : -1;
}

void BpeTokenizer::EncodePiece(absl::string_view piece, PairMerger& merger,
                               std::vector<int32_t>& ids) const {
  if (pretokenizer_.traits().whole_pieces_first) {
    const int32_t id = FindWhole(piece);
    if (id >= 0) {
      ids.push_back(id);
      return;
    }
  }
  merger.symbols.clear();
  for (size_t i = 0; i < piece.size(); ++i) {
    const auto byte = static_cast<unsigned char>(piece[i]);
    merger.symbols.push_back({static_cast<uint32_t>(i), 1, byte_ids_[byte]});
  }
  merger.Run([this](const MergeSymbol& left,
                    const MergeSymbol& right) -> std::optional<MergeRule> {
    if (left.id < 0 || right.id < 0) return std::nullopt;
    return merges_.Find(left.id, right.id);
  });
  for (const MergeSymbol& symbol : merger.symbols) {
    if (symbol.bytes == 0 || symbol.id < 0) continue;
    if (!vocab_.IsControl(symbol.id)) {
      ids.push_back(symbol.id);
      continue;
    }
    // User text must not become a control token by merging.
    for (const char c : piece.substr(symbol.begin, symbol.bytes)) {
      ids.push_back(byte_ids_[static_cast<unsigned char>(c)]);
    }
  }
}

void BpeTokenizer::AppendNormal(absl::string_view text,
                                std::string& out) const {
  AppendUnmapped(text, out);
}

int64_t BpeTokenizer::MemoryBytes() const {
  return TableBytes() + pretokenizer_.MemoryBytes() + merges_.MemoryBytes() +
         static_cast<int64_t>(sizeof(byte_ids_));
}

}  // namespace plimsoll::worker
