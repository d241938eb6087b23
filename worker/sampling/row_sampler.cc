#include "worker/sampling/row_sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/layout/memory_plan.h"
#include "worker/sampling/non_finite.h"

namespace plimsoll::worker {
namespace {

// A bias may lift this many tokens beside the candidates.
constexpr int64_t kMaxLifted = 8;

// How many of the likeliest tokens a draw needs. Above kernels::kMaxCandidates
// it needs the whole row.
int64_t CandidatesWanted(const SamplingOptions& sampling) {
  if (sampling.temperature == 0.0f) return 1;
  return sampling.top_k > 0 ? sampling.top_k
                            : std::numeric_limits<int64_t>::max();
}

// Whether min_p alone says which tokens are drawn from. They are usually few,
// and the largest logits show whether they are.
bool DrawsByMinP(const SamplingOptions& sampling) {
  return Sampler::MayDecide(sampling) && sampling.top_p >= 1.0f &&
         sampling.temperature > 0.0f;
}

// Whether the likeliest tokens decide the draw, if there are enough of them.
bool DrawsFromFirst(const SamplingOptions& sampling) {
  return CandidatesWanted(sampling) <= kernels::kMaxCandidates ||
         DrawsByMinP(sampling);
}

// Whether the draw is plain and from the model's own distribution, so that the
// sum over all tokens may decide it.
bool IsByMass(const DrawRequest& request) {
  return Sampler::IsPlain(request.sampling) && request.mask == nullptr &&
         !request.logit_bias.ChangesAnything();
}

// The smallest temperatures have no finite inverse, and all draw alike.
float InverseTemperature(float temperature) {
  return std::min(1.0f / temperature, std::numeric_limits<float>::max());
}

// How many of the row's largest logits may decide the draw.
int64_t CandidatesOf(const DrawRequest& request) {
  const int64_t n = CandidatesWanted(request.sampling);
  // If there are more candidates, enough of them are likely to be allowed, or
  // to stay above all other tokens.
  const bool is_one_of_many =
      request.mask != nullptr || request.logit_bias.ChangesAnything();
  if (n <= kernels::kMaxCandidates) {
    return is_one_of_many ? kernels::kMaxCandidates : n;
  }
  const bool may_decide =
      Sampler::MayDecide(request.sampling) || IsByMass(request);
  return may_decide ? kernels::kMaxCandidates : 1;
}

// Log-probabilities need the sum over all tokens, and a constraint may allow
// any of them.
bool RequiresAll(const DrawRequest& request, LogitsLater later) {
  if (request.top_logprobs >= 0 || request.mask != nullptr) return true;
  return CandidatesWanted(request.sampling) > kernels::kMaxCandidates &&
         !(later == LogitsLater::kPossible && DrawsByMinP(request.sampling) &&
           !request.logit_bias.ChangesAnything());
}

// Appends the tokens whose logits biases and penalties may change, those of the
// draft among them, which come before the rows that follow it.
void AppendChanged(const DrawRequest& request, std::vector<int32_t>& ids) {
  const LogitBiasOptions& bias = request.logit_bias;
  if (!bias.ChangesAnything()) return;
  for (const LogitBias& one : bias.biases) ids.push_back(one.id);
  if (request.recent == nullptr) return;
  for (const auto& [id, count] : request.recent->counts()) {
    ids.push_back(id);
  }
  ids.insert(ids.end(), request.draft.begin(), request.draft.end());
}

// The most tokens that AppendChanged may ever append for this request.
int64_t MostChangedIds(const DrawRequest& request) {
  const LogitBiasOptions& bias = request.logit_bias;
  if (!bias.ChangesAnything()) return 0;
  const int64_t n_penalties =
      request.recent != nullptr ? bias.penalty_last_tokens : 0;
  return std::ssize(bias.biases) + n_penalties + request.most_draft_tokens;
}

// The draw's index: it depends on nothing else but the seed.
uint64_t DrawIndex(const DrawRequest& request) {
  return static_cast<uint64_t>(request.n_generated);
}

}  // namespace

RowSampler::RowSampler(Model& model, kernels::Backend& backend,
                       int64_t vocab_size, int64_t n_sampled)
    : model_(model),
      backend_(backend),
      vocab_size_(vocab_size),
      n_sampled_(n_sampled),
      sampler_(backend.Device().is_host_memory ? vocab_size
                                               : kernels::kMaxCandidates) {
  const auto n_vocab = static_cast<size_t>(vocab_size);
  const auto n_rows = static_cast<size_t>(n_sampled);
  constexpr auto kMost = static_cast<size_t>(kernels::kMaxCandidates);
  required_.reserve(n_rows);
  values_.reserve(n_rows * kMost);
  ids_.reserve(n_rows * kMost);
  log_sum_exp_.reserve(n_rows);
  inverse_temperatures_.reserve(n_rows);
  masses_.reserve(n_rows);
  sorted_.reserve(kMost);
  known_ids_.reserve(kMost + kMaxLifted);
  best_.reserve(kMost + kMaxLifted);
  allowed_.reserve(kMost);
  if (backend.Device().is_host_memory) biased_.reserve(n_vocab);
}

// Tokens that nothing changes keep their order, so that the largest ones after
// the changes are among as many more as are changed. If some are allowed, all
// candidates are likely to show which.
int64_t RowSampler::CandidateBytes() const {
  static_assert(
      sizeof(values_[0]) + sizeof(ids_[0]) == planner::kCandidateBytes,
      "plans count the candidates");
  return static_cast<int64_t>(values_.capacity() * sizeof(values_[0]) +
                              ids_.capacity() * sizeof(ids_[0]));
}

std::span<const kernels::TopOutputs> RowSampler::RequiredLogits(
    std::span<const DrawRequest> requests, LogitsLater later) {
  required_.clear();
  changed_ids_.clear();
  // A device draws from rows that are whole.
  if (!backend_.Device().is_host_memory) return {};
  for (const DrawRequest& request : requests) {
    if (RequiresAll(request, later)) {
      required_.clear();
      return {};
    }
    const size_t before = changed_ids_.size();
    // Reserves for all rows and steps at once, because both may become more.
    changed_ids_.reserve(
        static_cast<size_t>(n_sampled_ * MostChangedIds(request)));
    AppendChanged(request, changed_ids_);
    const size_t n_changed = changed_ids_.size() - before;
    const int64_t n_wanted =
        std::min(CandidatesWanted(request.sampling), kernels::kMaxCandidates);
    int64_t k = n_wanted + static_cast<int64_t>(n_changed);
    if (n_changed > 0) k = std::max(k, kernels::kMaxCandidates);
    required_.push_back(
        {.k = k, .always = std::span(changed_ids_).subspan(before)});
  }
  // Appending may have moved them.
  const int32_t* begin = changed_ids_.data();
  for (kernels::TopOutputs& top : required_) {
    top.always = {begin, top.always.size()};
    begin += top.always.size();
  }
  return required_;
}

absl::Status RowSampler::Begin(std::span<const DrawRequest> requests,
                               std::span<const int32_t> rows) {
  if (requests.empty()) return absl::OkStatus();
  rows_ = rows;
  has_all_ = required_.empty();
  n_candidates_ = 1;
  bool has_masses = false;
  inverse_temperatures_.clear();
  for (const DrawRequest& request : requests) {
    n_candidates_ = std::max<int64_t>(n_candidates_, request.top_logprobs);
    n_candidates_ = std::max(n_candidates_, CandidatesOf(request));
    const bool is_by_mass = IsByMass(request);
    has_masses |= is_by_mass;
    inverse_temperatures_.push_back(
        is_by_mass ? InverseTemperature(request.sampling.temperature) : 1.0f);
  }
  n_candidates_ = std::min(n_candidates_, vocab_size_);
  const size_t n_rows = requests.size();
  values_.resize(n_rows * static_cast<size_t>(n_candidates_));
  ids_.resize(n_rows * static_cast<size_t>(n_candidates_));
  log_sum_exp_.resize(n_rows);
  masses_.resize(n_rows);
  return backend_.TopK({.logits = model_.Logits(),
                        .n_rows = static_cast<int64_t>(n_rows),
                        .n = vocab_size_,
                        .k = n_candidates_,
                        .values = values_.data(),
                        .ids = ids_.data(),
                        .log_sum_exp = log_sum_exp_.data(),
                        .inverse_temperatures =
                            has_masses ? inverse_temperatures_.data() : nullptr,
                        .masses = has_masses ? masses_.data() : nullptr});
}

absl::StatusOr<TokenOutput> RowSampler::Draw(const DrawRequest& request,
                                             int64_t row,
                                             std::vector<Candidate> buffer) {
  const auto at = static_cast<size_t>(row);
  if (std::isnan(log_sum_exp_[at])) {
    return NonFiniteLogits(
        absl::StrCat("after ", request.n_generated, " generated tokens"));
  }
  row_ = row;
  // Logits behind the required ones may be smaller than some not computed.
  const int64_t n = required_.empty()
                        ? n_candidates_
                        : std::min(n_candidates_, required_[at].k);
  sorted_.clear();
  for (int64_t i = row * n_candidates_; i < row * n_candidates_ + n; ++i) {
    sorted_.push_back(
        {values_[static_cast<size_t>(i)], ids_[static_cast<size_t>(i)]});
  }
  TokenOutput token;
  token.candidates = std::move(buffer);
  token.candidates.clear();
  ASSIGN_OR_RETURN(token.id, request.forced
                                 ? TakeForced(request, *request.forced)
                                 : DrawToken(request));
  if (request.top_logprobs >= 0) AddLogprobs(request, token);
  return token;
}

// A device reports the logit of a token that is no candidate only by a draw.
absl::StatusOr<int32_t> RowSampler::TakeForced(const DrawRequest& request,
                                               int32_t id) {
  const bool is_reported =
      request.top_logprobs >= 0 && !backend_.Device().is_host_memory;
  if (!is_reported ||
      std::ranges::find(sorted_, id, &LogitEntry::id) != sorted_.end()) {
    return id;
  }
  const auto bit = static_cast<uint32_t>(id);
  only_.assign(static_cast<size_t>(vocab_size_ + 63) / 64, 0);
  only_[bit / 64] = uint64_t{1} << (bit % 64);
  ASSIGN_OR_RETURN(
      sampled_, backend_.Sample({.logits = model_.Logits() + row_ * vocab_size_,
                                 .n = vocab_size_,
                                 .top_k = 1,
                                 .allowed = only_}));
  return id;
}

absl::StatusOr<int32_t> RowSampler::DrawToken(const DrawRequest& request) {
  if (request.mask != nullptr) request.mask->BeginStep();
  const bool is_changed = request.logit_bias.ChangesAnything();
  std::span<const LogitEntry> sorted =
      is_changed ? ChangedCandidates(request) : sorted_;
  std::optional<int32_t> id = DrawFrom(request, sorted, is_changed);
  if (id.has_value()) return *id;
  // Looking at the whole row takes longer than all else of a draw.
  if (!backend_.Device().is_host_memory) return DrawOnDevice(request);
  if (is_changed && DrawsFromFirst(request.sampling)) {
    sorted = LiftedCandidates(request);
    id = DrawFrom(request, sorted, is_changed);
    if (id.has_value()) return *id;
  }
  if (is_changed) return DrawFromChangedRow(request);
  ASSIGN_OR_RETURN(const std::span<const float> logits, AllLogits());
  return DrawFromAll(request, logits);
}

std::optional<int32_t> RowSampler::DrawFrom(const DrawRequest& request,
                                            std::span<const LogitEntry> sorted,
                                            bool is_changed) {
  if (sorted.empty()) return std::nullopt;
  if (request.mask != nullptr) return DrawAllowedFrom(request, sorted);
  const SamplingOptions& sampling = request.sampling;
  const uint64_t index = DrawIndex(request);
  if (CandidatesWanted(sampling) <= std::ssize(sorted)) {
    return sampler_.SampleSorted(sorted, sampling, index);
  }
  const auto row = static_cast<size_t>(row_);
  if (IsByMass(request)) {
    return Sampler::SamplePlain(sorted, masses_[row], sampling, index);
  }
  // Nobody knows the sum after the changes.
  if (is_changed && !DrawsByMinP(sampling)) return std::nullopt;
  return sampler_.SampleLikeliest(sorted, log_sum_exp_[row], sampling, index);
}

// The likeliest of the allowed tokens are the allowed ones of the likeliest:
// mostly a few look-ups, instead of one for every token there is.
std::optional<int32_t> RowSampler::DrawAllowedFrom(
    const DrawRequest& request, std::span<const LogitEntry> sorted) {
  const SamplingOptions& sampling = request.sampling;
  const int64_t n_wanted = CandidatesWanted(sampling);
  if (n_wanted > kernels::kMaxCandidates) return std::nullopt;
  TokenMask& mask = *request.mask;
  allowed_.clear();
  for (const LogitEntry& entry : sorted) {
    if (!mask.Allows(entry.id)) continue;
    allowed_.push_back(entry);
    if (std::ssize(allowed_) < n_wanted) continue;
    return sampler_.SampleSorted(allowed_, sampling, DrawIndex(request));
  }
  return std::nullopt;
}

std::span<const LogitEntry> RowSampler::ChangedCandidates(
    const DrawRequest& request) {
  best_.clear();
  known_ids_.clear();
  for (const LogitEntry& entry : sorted_) AddChanged(request, entry);
  return FirstOfChanged(request);
}

std::span<const LogitEntry> RowSampler::LiftedCandidates(
    const DrawRequest& request) {
  const std::span<const LogitEntry> none;
  const auto n_candidates = sorted_.size();
  for (const LogitBias& one : request.logit_bias.biases) {
    const auto candidates = std::span(known_ids_).first(n_candidates);
    if (one.bias <= 0 || std::ranges::binary_search(candidates, one.id)) {
      continue;
    }
    if (std::ssize(known_ids_) == std::ssize(sorted_) + kMaxLifted) return none;
    AddChanged(request, {RowLogits()[static_cast<size_t>(one.id)], one.id});
  }
  if (known_ids_.size() == n_candidates) return none;
  return FirstOfChanged(request);
}

void RowSampler::AddChanged(const DrawRequest& request,
                            const LogitEntry& entry) {
  known_ids_.push_back(entry.id);
  best_.push_back(
      {ChangedLogit(request.logit_bias, request.recent, entry.id, entry.logit),
       entry.id});
}

// An unknown token has at most the last candidate's logit, so after the changes
// its logit is at most `most`. Tokens above `most` are therefore in their final
// order; an equal one might come after an unknown token with a lower id. If a
// logit is not finite, the result is empty.
std::span<const LogitEntry> RowSampler::FirstOfChanged(
    const DrawRequest& request) {
  std::ranges::sort(known_ids_);
  std::ranges::sort(best_, kByLogit);
  if (!std::isfinite(best_.front().logit) ||
      !std::isfinite(best_.back().logit)) {
    return {};
  }
  if (std::ssize(best_) == vocab_size_) return best_;
  const float most = MostChanged(request.logit_bias, request.recent,
                                 sorted_.back().logit, known_ids_);
  const auto end = std::ranges::find_if_not(
      best_, [most](const LogitEntry& entry) { return entry.logit > most; });
  return {best_.begin(), end};
}

// Tokens above a candidate are candidates themselves. On a device, only a token
// that it drew from the whole row may be missing among them.
void RowSampler::AddLogprobs(const DrawRequest& request, TokenOutput& token) {
  const double lse = log_sum_exp_[static_cast<size_t>(row_)];
  const auto log_probability = [lse](float logit) {
    return static_cast<float>(static_cast<double>(logit) - lse);
  };
  float chosen = 0;
  const auto is_above = [&chosen](float other) { return other > chosen; };
  const auto found = std::ranges::find(sorted_, token.id, &LogitEntry::id);
  if (found != sorted_.end()) {
    chosen = found->logit;
    token.rank = std::ranges::count_if(sorted_, is_above, &LogitEntry::logit);
  } else if (backend_.Device().is_host_memory) {
    const std::span<const float> logits = RowLogits();
    chosen = logits[static_cast<size_t>(token.id)];
    token.rank = std::ranges::count_if(logits, is_above);
  } else {
    chosen = sampled_.logit;
    token.rank = sampled_.rank;
  }
  token.has_logprob = true;
  token.logprob = log_probability(chosen);
  const auto n =
      std::min(sorted_.size(), static_cast<size_t>(request.top_logprobs));
  token.candidates.reserve(n);
  for (const LogitEntry& entry : std::span(sorted_).first(n)) {
    token.candidates.push_back({entry.id, log_probability(entry.logit)});
  }
}

std::span<const float> RowSampler::RowLogits() const {
  return {model_.Logits() + row_ * vocab_size_,
          static_cast<size_t>(vocab_size_)};
}

absl::StatusOr<std::span<const float>> RowSampler::AllLogits() {
  const std::span<const float> logits = RowLogits();
  if (has_all_ ||
      std::ranges::find(logits, kernels::kNotComputed) == logits.end()) {
    return logits;
  }
  RETURN_IF_ERROR(model_.ComputeLogits(rows_));
  RETURN_IF_ERROR(backend_.Synchronize());
  has_all_ = true;
  return RowLogits();
}

absl::StatusOr<int32_t> RowSampler::DrawFromAll(const DrawRequest& request,
                                                std::span<const float> logits) {
  const SamplingOptions& sampling = request.sampling;
  const uint64_t index = DrawIndex(request);
  if (request.mask == nullptr) {
    return sampler_.Sample(logits, sampling, index);
  }
  ASSIGN_OR_RETURN(const auto allowed, request.mask->AllowedTokens());
  return sampler_.SampleAllowed(logits, allowed, sampling, index);
}

absl::StatusOr<int32_t> RowSampler::DrawFromChangedRow(
    const DrawRequest& request) {
  const std::span<const float> logits = RowLogits();
  biased_.assign(logits.begin(), logits.end());
  ApplyLogitBias(request.logit_bias, request.recent, biased_);
  if (CandidatesWanted(request.sampling) > kernels::kMaxCandidates) {
    return DrawFromAll(request, biased_);
  }
  const int64_t k = std::min(kernels::kMaxCandidates, vocab_size_);
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
  const std::optional<int32_t> id =
      DrawFrom(request, best_, /*is_changed=*/true);
  if (id.has_value()) return *id;
  return DrawFromAll(request, biased_);
}

absl::StatusOr<int32_t> RowSampler::DrawOnDevice(const DrawRequest& request) {
  const SamplingOptions& sampling = request.sampling;
  changes_.clear();
  changes_.reserve(static_cast<size_t>(MostChangedIds(request)));
  AppendLogitChanges(request.logit_bias, request.recent, changes_);
  std::span<const uint64_t> allowed;
  if (request.mask != nullptr) {
    ASSIGN_OR_RETURN(allowed, request.mask->AllowedTokens());
  }
  const bool is_greedy = sampling.temperature == 0.0f;
  ASSIGN_OR_RETURN(
      sampled_,
      backend_.Sample(
          {.logits = model_.Logits() + row_ * vocab_size_,
           .n = vocab_size_,
           .u = UniformAt(sampling.seed, DrawIndex(request)),
           .inverse_temperature =
               is_greedy ? 1.0f : InverseTemperature(sampling.temperature),
           .top_k = is_greedy ? 1 : sampling.top_k,
           .typical_p = sampling.typical_p,
           .top_p = sampling.top_p,
           .min_p = sampling.min_p,
           .changes = changes_,
           .allowed = allowed}));
  return sampled_.id;
}

}  // namespace plimsoll::worker
