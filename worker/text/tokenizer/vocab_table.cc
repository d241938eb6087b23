// Flat vocabulary tables, read from a GGUF file in one pass each.
#include "worker/text/tokenizer/vocab_table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/gguf/gguf_arrays.h"

namespace plimsoll::worker {
namespace {

constexpr uint32_t kFree = UINT32_MAX;
constexpr absl::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr absl::string_view kTypesKey = "tokenizer.ggml.token_type";
constexpr absl::string_view kScoresKey = "tokenizer.ggml.scores";

// absl::Hash is salted, so a file cannot aim at collisions.
size_t HashText(absl::string_view text) {
  return absl::Hash<absl::string_view>{}(text);
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

absl::Status CheckLength(absl::string_view key, const planner::GgufArray& array,
                         int32_t n_tokens) {
  if (array.n >= n_tokens) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(key, " has ", array.n, " values for ", n_tokens, " tokens"));
}

}  // namespace

absl::Status NameKey(absl::string_view key, const absl::Status& status) {
  if (status.ok() || absl::StrContains(status.message(), key)) return status;
  return absl::Status(status.code(), absl::StrCat(key, ": ", status.message()));
}

int ParseByteToken(absl::string_view text) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') {
    return -1;
  }
  const int high = HexDigit(text[3]);
  const int low = HexDigit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

std::array<int32_t, 256> ByteTokenIds(const VocabTable& vocab) {
  std::array<int32_t, 256> ids;
  ids.fill(-1);
  for (int32_t id = 0; id < vocab.size(); ++id) {
    if (vocab.Type(id) != TokenType::kByte) continue;
    const int byte = ParseByteToken(vocab.Text(id));
    if (byte < 0) continue;
    int32_t& first = ids[static_cast<size_t>(byte)];
    if (first < 0) first = id;
  }
  return ids;
}

absl::StatusOr<VocabTable> VocabTable::Load(const planner::GgufHeader& header,
                                            planner::ByteSource& source,
                                            Scores scores) {
  VocabTable table;
  RETURN_IF_ERROR(table.LoadTexts(header, source));
  RETURN_IF_ERROR(table.LoadTypes(header, source));
  if (scores == Scores::kRead)
    RETURN_IF_ERROR(table.LoadScores(header, source));
  table.BuildIndex();
  return table;
}

absl::Status VocabTable::LoadTexts(const planner::GgufHeader& header,
                                   planner::ByteSource& source) {
  ASSIGN_OR_RETURN(const planner::GgufArray* array, header.Array(kTokensKey));
  if (array == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(kTokensKey, " is missing"));
  }
  if (array->n < 1 || array->n > kMaxTokens) {
    return absl::InvalidArgumentError(absl::StrCat(
        kTokensKey, " has ", array->n, " tokens, not 1 to ", kMaxTokens));
  }
  if (array->bytes > kMaxTableBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(kTokensKey, " has ", array->bytes, " bytes, more than ",
                     kMaxTableBytes));
  }
  const int64_t length_bytes = 8 * array->n;  // a u64 before each string
  texts_.reserve(
      static_cast<size_t>(std::max<int64_t>(array->bytes - length_bytes, 0)));
  ends_.reserve(static_cast<size_t>(array->n) + 1);
  ends_.push_back(0);
  return NameKey(
      kTokensKey,
      planner::ForEachString(
          source, *array, [this](int64_t id, absl::string_view text) {
            const auto bytes = static_cast<int64_t>(text.size());
            if (bytes > kMaxTokenBytes) {
              return absl::InvalidArgumentError(
                  absl::StrCat(kTokensKey, "[", id, "] has ", bytes,
                               " bytes, more than ", kMaxTokenBytes));
            }
            longest_token_bytes_ = std::max(longest_token_bytes_, bytes);
            texts_.insert(texts_.end(), text.begin(), text.end());
            ends_.push_back(static_cast<uint32_t>(texts_.size()));
            return absl::OkStatus();
          }));
}

absl::Status VocabTable::LoadTypes(const planner::GgufHeader& header,
                                   planner::ByteSource& source) {
  const size_t n_tokens = ends_.size() - 1;
  types_.assign(n_tokens, static_cast<uint8_t>(TokenType::kNormal));
  ASSIGN_OR_RETURN(const planner::GgufArray* array, header.Array(kTypesKey));
  if (array == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(CheckLength(kTypesKey, *array, size()));
  const auto read = planner::ReadInt32s(source, *array);
  if (!read.ok()) return NameKey(kTypesKey, read.status());
  const std::vector<int32_t>& values = *read;
  for (size_t i = 0; i < n_tokens; ++i) {
    int32_t value = values[i];
    // 0 is "undefined": a token that stands for no text, like an unused one.
    if (value == 0) value = static_cast<int32_t>(TokenType::kUnused);
    if (value < 1 || value > static_cast<int32_t>(TokenType::kByte)) {
      return absl::InvalidArgumentError(
          absl::StrCat(kTypesKey, "[", i, "] is ", value, ", not 0 to 6"));
    }
    types_[i] = static_cast<uint8_t>(value);
    if (value == static_cast<int32_t>(TokenType::kByte) &&
        ParseByteToken(Text(static_cast<int32_t>(i))) < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          kTokensKey, "[", i, "] is a byte token but not of the form <0xHH>"));
    }
  }
  return absl::OkStatus();
}

absl::Status VocabTable::LoadScores(const planner::GgufHeader& header,
                                    planner::ByteSource& source) {
  ASSIGN_OR_RETURN(const planner::GgufArray* array, header.Array(kScoresKey));
  if (array == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(kScoresKey, " is missing"));
  }
  RETURN_IF_ERROR(CheckLength(kScoresKey, *array, size()));
  auto read = planner::ReadFloats(source, *array);
  if (!read.ok()) return NameKey(kScoresKey, read.status());
  scores_ = *std::move(read);
  scores_.resize(types_.size());
  scores_.shrink_to_fit();
  for (size_t i = 0; i < scores_.size(); ++i) {
    if (std::isnan(scores_[i])) {
      return absl::InvalidArgumentError(
          absl::StrCat(kScoresKey, "[", i, "] is not a number"));
    }
  }
  return absl::OkStatus();
}

void VocabTable::BuildIndex() {
  index_.assign(std::bit_ceil(2 * types_.size()), kFree);
  const size_t mask = index_.size() - 1;
  for (int32_t id = 0; id < size(); ++id) {
    const absl::string_view text = Text(id);
    if (text.empty()) continue;
    size_t slot = HashText(text) & mask;
    while (index_[slot] != kFree &&
           Text(static_cast<int32_t>(index_[slot])) != text) {
      slot = (slot + 1) & mask;
    }
    if (index_[slot] == kFree) index_[slot] = static_cast<uint32_t>(id);
  }
}

int32_t VocabTable::Find(absl::string_view text) const {
  if (text.empty()) return -1;
  const size_t mask = index_.size() - 1;
  size_t slot = HashText(text) & mask;
  while (index_[slot] != kFree) {
    const auto id = static_cast<int32_t>(index_[slot]);
    if (Text(id) == text) return id;
    slot = (slot + 1) & mask;
  }
  return -1;
}

int64_t VocabTable::MemoryBytes() const {
  return static_cast<int64_t>(
      sizeof(*this) + texts_.capacity() + ends_.capacity() * sizeof(uint32_t) +
      types_.capacity() + scores_.capacity() * sizeof(float) +
      index_.capacity() * sizeof(uint32_t));
}

}  // namespace plimsoll::worker
