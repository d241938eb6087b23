// Remembers the token ids of short pieces of a text while it is tokenised.
#ifndef PLIMSOLL_WORKER_TEXT_TOKENIZER_PIECE_CACHE_H_
#define PLIMSOLL_WORKER_TEXT_TOKENIZER_PIECE_CACHE_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace plimsoll::worker {

// Each piece has one place, and a later piece replaces an earlier one there. So
// the size is fixed and entries never move. Scratch of one Encode call; not
// thread-safe.
class PieceCache {
 public:
  static constexpr size_t kMaxPieceBytes = 16;
  static constexpr size_t kMaxIds = 5;
  static constexpr size_t kMaxEntries = 8'192;  // 40 bytes each

  // Makes room for the pieces of a text of `text_bytes` bytes.
  explicit PieceCache(size_t text_bytes)
      : entries_(std::clamp(std::bit_ceil(text_bytes / 8 + 1), size_t{16},
                            kMaxEntries)) {}

  // The ids of a piece and of a fragment with the same text may differ.
  enum class Kind : uint32_t { kPiece, kFragment };

  // Appends the ids of the piece, from the cache or by encode(). The ids of a
  // short piece are remembered. Pieces that differ only in `kind` are different
  // pieces.
  // Errors: those of encode().
  template <typename Encode>
  absl::Status Append(absl::string_view piece, Kind kind,
                      std::vector<int32_t>& ids, const Encode& encode) {
    if (piece.size() > kMaxPieceBytes) return encode();
    const Key key = KeyOf(piece, kind);
    Entry& entry = entries_[PlaceOf(key)];
    if (entry.key == key) {
      ids.insert(ids.end(), entry.ids.begin(), entry.ids.begin() + entry.n_ids);
      return absl::OkStatus();
    }
    const size_t n_before = ids.size();
    RETURN_IF_ERROR(encode());
    Remember(key, std::span<const int32_t>(ids).subspan(n_before));
    return absl::OkStatus();
  }

 private:
  // The key of a short piece.
  struct Key {
    uint64_t low;
    uint64_t high;
    uint32_t tag;  // its length and kind; never 0
    friend bool operator==(const Key&, const Key&) = default;
  };

  static Key KeyOf(absl::string_view piece, Kind kind) {
    const size_t n = piece.size();
    Key key = {0, 0,
               static_cast<uint32_t>(2 * n + 2) + static_cast<uint32_t>(kind)};
    if (n >= 8) {
      // Takes both halves of the piece, which may overlap.
      std::memcpy(&key.low, piece.data(), 8);
      std::memcpy(&key.high, piece.data() + n - 8, 8);
    } else if (n >= 4) {
      std::memcpy(&key.low, piece.data(), 4);
      std::memcpy(&key.high, piece.data() + n - 4, 4);
    } else {
      std::memcpy(&key.low, piece.data(), n);
    }
    return key;
  }

  void Remember(const Key& key, std::span<const int32_t> ids) {
    if (ids.size() > kMaxIds) return;
    Entry& entry = entries_[PlaceOf(key)];
    entry.key = key;
    entry.n_ids = static_cast<uint8_t>(ids.size());
    std::copy(ids.begin(), ids.end(), entry.ids.begin());
  }

  struct Entry {
    Key key = {0, 0, 0};
    uint8_t n_ids = 0;
    std::array<int32_t, kMaxIds> ids = {};
  };

  size_t PlaceOf(const Key& key) const {
    constexpr uint64_t kMix = 0x9E3779B97F4A7C15;
    uint64_t mixed = (key.low ^ std::rotl(key.high, 29) ^ key.tag) * kMix;
    mixed ^= mixed >> 32;
    return static_cast<size_t>((mixed * kMix) >> 40) & (entries_.size() - 1);
  }

  std::vector<Entry> entries_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_TOKENIZER_PIECE_CACHE_H_
