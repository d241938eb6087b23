#include "worker/graph/step_pieces.h"

#include <algorithm>

namespace plimsoll::worker {
namespace {

template <class T>
void AssignRange(const std::vector<T>& from, int64_t begin, int64_t end,
                 std::vector<T>& to) {
  to.assign(from.begin() + begin, from.begin() + end);
}

// Makes `piece` the rows [begin, end) of the batch.
void Fill(const StepBatch& batch, int64_t begin, int64_t end,
          StepBatch& piece) {
  AssignRange(batch.tokens, begin, end, piece.tokens);
  AssignRange(batch.positions, begin, end, piece.positions);
  AssignRange(batch.prefix_positions, begin, end, piece.prefix_positions);
  piece.has_rolled_prefix = batch.has_rolled_prefix;
  piece.progress = batch.progress;
  piece.sequences.clear();
  for (const SequenceRows& rows : batch.sequences) {
    const int64_t first = std::max(rows.first_row, begin);
    const int64_t last = std::min(rows.first_row + rows.n_rows, end);
    if (first >= last) continue;
    SequenceRows& part = piece.sequences.emplace_back(rows);
    part.first_row = first - begin;
    part.n_rows = last - first;
    part.first_position += first - rows.first_row;
  }
  const auto sampled_begin =
      std::ranges::lower_bound(batch.sampled_rows, begin);
  const auto sampled_end = std::ranges::lower_bound(batch.sampled_rows, end);
  piece.sampled_rows.assign(sampled_begin, sampled_end);
  for (int32_t& row : piece.sampled_rows) row -= static_cast<int32_t>(begin);
  piece.first_row = begin;
  piece.first_sampled = sampled_begin - batch.sampled_rows.begin();
  piece.top = {};
  if (!batch.top.empty()) {
    piece.top = batch.top.subspan(static_cast<size_t>(piece.first_sampled),
                                  piece.sampled_rows.size());
  }
}

}  // namespace

size_t CutStep(const StepBatch& batch, int64_t least_rows,
               std::vector<StepBatch>& pieces) {
  const auto n_rows = std::ssize(batch.tokens);
  if (batch.only_decodes || batch.keeps_all_rows || least_rows <= 0 ||
      n_rows < 2 * least_rows ||
      std::ranges::any_of(batch.sequences, [](const SequenceRows& rows) {
        return rows.n_draft > 0;
      })) {
    return 1;
  }
  const int64_t n_pieces = n_rows / least_rows;
  if (std::ssize(pieces) < n_pieces) {
    pieces.resize(static_cast<size_t>(n_pieces));
  }
  for (int64_t i = 0; i < n_pieces; ++i) {
    Fill(batch, n_rows * i / n_pieces, n_rows * (i + 1) / n_pieces,
         pieces[static_cast<size_t>(i)]);
  }
  return static_cast<size_t>(n_pieces);
}

}  // namespace plimsoll::worker
