#include "kernels/cpu/read_bandwidth.h"

#include <array>
#include <atomic>
#include <cstddef>

namespace plimsoll::kernels {
namespace {

// Loads that do not wait for each other, enough to keep a core's line buffers
// full.
constexpr size_t kLanes = 16;
// A piece is as long as some rows of a matrix.
constexpr int64_t kPieceWords = 8'192;

uint64_t ReadPiece(std::span<const uint64_t> words) {
  std::array<uint64_t, kLanes> lanes = {};
  size_t i = 0;
  for (; i + kLanes <= words.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] ^= words[i + lane];
  }
  uint64_t all = 0;
  for (; i < words.size(); ++i) all ^= words[i];
  for (const uint64_t lane : lanes) all ^= lane;
  return all;
}

}  // namespace

uint64_t ReadAll(std::span<const uint64_t> words, ThreadPool& pool) {
  std::atomic<uint64_t> all = 0;
  pool.ParallelFor(
      static_cast<int64_t>(words.size()), kPieceWords,
      [&](int64_t begin, int64_t end, int /*thread*/) {
        all ^= ReadPiece(words.subspan(static_cast<size_t>(begin),
                                       static_cast<size_t>(end - begin)));
      });
  return all;
}

}  // namespace plimsoll::kernels
