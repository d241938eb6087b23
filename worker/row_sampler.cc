#include "worker/row_sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::worker {
namespace {

// Candidates that a draw needs, from the most likely one on; beyond
// kernels::kMaxCandidates the whole row.
int64_t CandidatesWanted(const SamplingOptions& sampling) {
  if (sampling.temperature == 0.0f) return 1;
  return sampling.top_k > 0 ? sampling.top_k
                            : std::numeric_limits<int64_t>::max();
}

// Whether min_p alone says which tokens are drawn from. As a rule there are
// few, and whether there are is seen by the largest logits.
bool DrawsByMinP(const GenerateOptions& wanted) {
  return Sampler::MayDecide(wanted.sampling) && wanted.sampling.top_p >= 1.0f &&
         wanted.sampling.temperature > 0.0f &&
         !wanted.logit_bias.ChangesAnything();
}

// Log-probabilities need the sum over all tokens, and a constraint may allow
// any of them.
bool LooksAtAll(const Sequence& sequence, bool keeps_rows) {
  const GenerateOptions& wanted = sequence.options();
  if (wanted.top_logprobs >= 0 || sequence.mask() != nullptr) return true;
  return CandidatesWanted(wanted.sampling) > kernels::kMaxCandidates &&
         !(keeps_rows && DrawsByMinP(wanted));
}

// Appends the tokens whose logits biases and penalties may change, those of the
// draft among them, which come before the rows that follow it.
void AppendChanged(const Sequence& sequence, std::vector<int32_t>& ids) {
  const LogitBiasOptions& bias = sequence.options().logit_bias;
  if (!bias.ChangesAnything()) return;
  for (const LogitBias& one : bias.biases) ids.push_back(one.id);
  if (sequence.recent() == nullptr) return;
  for (const auto& [id, count] : sequence.recent()->counts()) {
    ids.push_back(id);
  }
  ids.insert(ids.end(), sequence.draft().begin(), sequence.draft().end());
}

// The draw's index: it depends on nothing else but the seed.
uint64_t DrawIndex(const Sequence& sequence) {
  return static_cast<uint64_t>(sequence.n_generated());
}

}  // namespace

// Tokens that nothing changes keep their order, so that the largest ones after
// the changes are among as many more as are changed.
std::span<const kernels::TopOutputs> RowSampler::LookedAt(
    std::span<const Sequence* const> sequences, bool keeps_rows) {
  looked_at_.clear();
  changed_ids_.clear();
  for (const Sequence* sequence : sequences) {
    if (LooksAtAll(*sequence, keeps_rows)) {
      looked_at_.clear();
      return {};
    }
    const size_t before = changed_ids_.size();
    AppendChanged(*sequence, changed_ids_);
    const size_t n_changed = changed_ids_.size() - before;
    const int64_t n_wanted =
        std::min(CandidatesWanted(sequence->options().sampling),
                 kernels::kMaxCandidates);
    looked_at_.push_back({.k = n_wanted + static_cast<int64_t>(n_changed),
                          .always = std::span(changed_ids_).subspan(before)});
  }
  // Appending may have moved them.
  const int32_t* begin = changed_ids_.data();
  for (kernels::TopOutputs& top : looked_at_) {
    top.always = {begin, top.always.size()};
    begin += top.always.size();
  }
  return looked_at_;
}

absl::Status RowSampler::Begin(std::span<const Sequence* const> sequences,
                               std::span<const int32_t> rows) {
  if (sequences.empty()) return absl::OkStatus();
  rows_ = rows;
  has_all_ = looked_at_.empty();
  n_candidates_ = 1;
  for (const Sequence* sequence : sequences) {
    const GenerateOptions& wanted = sequence->options();
    n_candidates_ = std::max<int64_t>(n_candidates_, wanted.top_logprobs);
    const int64_t n = CandidatesWanted(wanted.sampling);
    if (n <= kernels::kMaxCandidates) {
      n_candidates_ = std::max(n_candidates_, n);
      // Of more of them enough are likely to be allowed.
      if (sequence->mask() != nullptr) n_candidates_ = kernels::kMaxCandidates;
    } else if (Sampler::MayDecide(wanted.sampling)) {
      n_candidates_ = kernels::kMaxCandidates;
    }
  }
  n_candidates_ = std::min(n_candidates_, vocab_size_);
  host_row_ = -1;
  const size_t n_rows = sequences.size();
  values_.resize(n_rows * static_cast<size_t>(n_candidates_));
  ids_.resize(n_rows * static_cast<size_t>(n_candidates_));
  log_sum_exp_.resize(n_rows);
  return backend_.TopK({.logits = model_.Logits(),
                        .n_rows = static_cast<int64_t>(n_rows),
                        .n = vocab_size_,
                        .k = n_candidates_,
                        .values = values_.data(),
                        .ids = ids_.data(),
                        .log_sum_exp = log_sum_exp_.data()});
}

absl::StatusOr<TokenOutput> RowSampler::Draw(const Sequence& sequence,
                                             int64_t row) {
  const double lse = log_sum_exp_[static_cast<size_t>(row)];
  if (std::isnan(lse)) {
    return absl::InternalError(
        absl::StrCat("non-finite logits after ", sequence.n_generated(),
                     " generated tokens; the model's weights are damaged"));
  }
  const GenerateOptions& wanted = sequence.options();
  row_ = row;
  sorted_.clear();
  for (int64_t i = 0; i < n_candidates_; ++i) {
    const auto at = static_cast<size_t>(row * n_candidates_ + i);
    sorted_.push_back({values_[at], ids_[at]});
  }
  TokenOutput token;
  if (wanted.logit_bias.ChangesAnything()) {
    ASSIGN_OR_RETURN(token.id, DrawBiased(sequence));
  } else {
    ASSIGN_OR_RETURN(token.id, DrawPlain(sequence));
  }
  if (wanted.top_logprobs < 0) return token;
  ASSIGN_OR_RETURN(const std::span<const float> logits, RowLogits());
  token.has_logprob = true;
  const auto log_probability = [lse](float logit) {
    return static_cast<float>(static_cast<double>(logit) - lse);
  };
  const float chosen = logits[static_cast<size_t>(token.id)];
  token.logprob = log_probability(chosen);
  token.rank = std::count_if(logits.begin(), logits.end(),
                             [chosen](float other) { return other > chosen; });
  const auto n = std::min<size_t>(sorted_.size(),
                                  static_cast<size_t>(wanted.top_logprobs));
  for (size_t i = 0; i < n; ++i) {
    token.candidates.push_back(
        {sorted_[i].id, log_probability(sorted_[i].logit)});
  }
  return token;
}

absl::StatusOr<std::span<const float>> RowSampler::RowLogits() {
  const auto n = static_cast<size_t>(vocab_size_);
  const float* const device = model_.Logits() + row_ * vocab_size_;
  if (backend_.Device().is_host_memory) return std::span(device, n);
  if (host_row_ == row_) return std::span<const float>(host_logits_);
  host_logits_.resize(n);
  // The copy is from it: nothing writes there.
  auto* const bytes =
      const_cast<std::byte*>(reinterpret_cast<const std::byte*>(device));
  RETURN_IF_ERROR(
      backend_.Download({bytes, vocab_size_ * int64_t{sizeof(float)}},
                        std::as_writable_bytes(std::span(host_logits_))));
  host_row_ = row_;
  return std::span<const float>(host_logits_);
}

absl::StatusOr<std::span<const float>> RowSampler::AllLogits() {
  ASSIGN_OR_RETURN(const std::span<const float> logits, RowLogits());
  if (has_all_ ||
      std::ranges::find(logits, kernels::kNotComputed) == logits.end()) {
    return logits;
  }
  RETURN_IF_ERROR(model_.ComputeLogits(rows_));
  RETURN_IF_ERROR(backend_.Synchronize());
  has_all_ = true;
  host_row_ = -1;
  return RowLogits();
}

absl::StatusOr<int32_t> RowSampler::DrawPlain(const Sequence& sequence) {
  const SamplingOptions& sampling = sequence.options().sampling;
  if (sequence.mask() != nullptr) {
    return DrawAllowed(sequence, std::nullopt, sorted_);
  }
  if (CandidatesWanted(sampling) <= n_candidates_) {
    return sampler_.SampleSorted(sorted_, sampling, DrawIndex(sequence));
  }
  // Sorting the whole row, or bringing it from a device, takes longer than all
  // else of a draw.
  if (const std::optional<int32_t> id = sampler_.SampleLikeliest(
          sorted_, log_sum_exp_[static_cast<size_t>(row_)], sampling,
          DrawIndex(sequence))) {
    return *id;
  }
  ASSIGN_OR_RETURN(const std::span<const float> logits, AllLogits());
  return sampler_.Sample(logits, sampling, DrawIndex(sequence));
}

absl::StatusOr<int32_t> RowSampler::DrawAllowed(
    const Sequence& sequence, std::optional<std::span<const float>> logits,
    std::span<const LogitEntry> sorted) {
  const SamplingOptions& sampling = sequence.options().sampling;
  TokenMask& mask = *sequence.mask();
  mask.BeginStep();
  // The likeliest of the allowed tokens are the allowed ones of the likeliest:
  // mostly a few look-ups, instead of one for every token there is.
  const int64_t n_wanted = CandidatesWanted(sampling);
  if (n_wanted <= kernels::kMaxCandidates) {
    allowed_.clear();
    for (const LogitEntry& entry : sorted) {
      if (!mask.Allows(entry.id)) continue;
      allowed_.push_back(entry);
      if (static_cast<int64_t>(allowed_.size()) < n_wanted) continue;
      RETURN_IF_ERROR(mask.status());
      return sampler_.SampleSorted(allowed_, sampling, DrawIndex(sequence));
    }
  }
  ASSIGN_OR_RETURN(const auto all, mask.AllowedTokens());
  if (!logits.has_value()) {
    ASSIGN_OR_RETURN(logits, RowLogits());
  }
  return sampler_.SampleAllowed(*logits, all, sampling, DrawIndex(sequence));
}

absl::StatusOr<int32_t> RowSampler::DrawBiased(const Sequence& sequence) {
  const GenerateOptions& wanted = sequence.options();
  ASSIGN_OR_RETURN(const std::span<const float> logits, RowLogits());
  biased_.assign(logits.begin(), logits.end());
  ApplyLogitBias(wanted.logit_bias, sequence.recent(), biased_);
  const bool is_constrained = sequence.mask() != nullptr;
  int64_t k = std::min(CandidatesWanted(wanted.sampling), vocab_size_);
  // The row that was changed is the host's.
  if (k > kernels::kMaxCandidates || !backend_.Device().is_host_memory) {
    if (is_constrained) return DrawAllowed(sequence, biased_, {});
    return sampler_.Sample(biased_, wanted.sampling, DrawIndex(sequence));
  }
  if (is_constrained) k = std::min(kernels::kMaxCandidates, vocab_size_);
  std::array<float, kernels::kMaxCandidates> values = {};
  std::array<int32_t, kernels::kMaxCandidates> ids = {};
  double lse = 0;
  RETURN_IF_ERROR(backend_.TopK({.logits = biased_.data(),
                                 .n_rows = 1,
                                 .n = vocab_size_,
                                 .k = k,
                                 .values = values.data(),
                                 .ids = ids.data(),
                                 .log_sum_exp = &lse}));
  if (std::isnan(lse)) {
    return absl::InternalError("biases made logits that are not finite");
  }
  best_.clear();
  for (size_t i = 0; i < static_cast<size_t>(k); ++i) {
    best_.push_back({values.at(i), ids.at(i)});
  }
  if (is_constrained) return DrawAllowed(sequence, biased_, best_);
  return sampler_.SampleSorted(best_, wanted.sampling, DrawIndex(sequence));
}

}  // namespace plimsoll::worker
