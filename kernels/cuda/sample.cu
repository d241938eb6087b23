// Draws a token from a whole row of logits: one block of threads.
//
// Each step of a draw asks where, in descending order, a sum of the tokens'
// weights exceeds a target. No row is sorted for that: a histogram of the
// weights by the leading bits of the tokens' keys says which these are of the
// key in question, another one the bits that follow, and so on. Weights are
// integers, so their sums have no order.
#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/logit_key.cuh"
#include "kernels/cuda/ops.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / kWarpThreads;
// Of a key, that one histogram looks at.
constexpr int kDigitBits = 11;
constexpr int kBins = 1 << kDigitBits;
constexpr int kLaneBins = kBins / kWarpThreads;
// Of a weight after the point, at most: exponentials have 24 of their own.
constexpr int kMaxWeightBits = 40;

// The part of SampleArgs that the device reads.
struct Row {
  const float* logits;
  int64_t n;
  int id_bits;      // of the largest id
  int weight_bits;  // after the point; a row's sum has less than 63 in all
  const uint64_t* allowed;
  int64_t n_allowed;  // ids that `allowed` has bits for
};
struct Chain {
  double u;
  float inverse_temperature;
  int64_t top_k;
  float typical_p;
  float top_p;
  float min_p;
};

// The tokens that are left to draw from.
struct Left {
  float max = 0;            // their largest logit
  uint64_t least_key = 0;   // no token below it
  bool is_typical = false;  // nor one whose TypicalKey is below:
  uint64_t least_typical_key = 0;
  double expected = 0;  // logit, less `typical_max`
  float typical_max = 0;
  float min_p = 0;
};

struct Result {
  enum class State : int32_t { kDrawn, kNotFinite, kNoneAllowed };
  State state;
  int32_t id;
  float logit;
  int64_t rank;
};

struct Shared {
  uint64_t bins[kBins];
  uint64_t sums[kWarps];
  uint64_t before;  // what weighs more than the bin that was found
  int bin;          // or -1
};
static_assert(sizeof(Shared) <= kMaxSharedBytes);

__device__ inline float Changed(const LogitChange& change, float logit) {
  logit += change.bias;
  logit = logit > 0 ? logit / change.repetition : logit * change.repetition;
  return logit - change.penalty;
}

// exp((x - max) * inverse), as a whole number of 2^-weight_bits.
__device__ inline uint64_t WeightOf(const Row& row, float x, float max,
                                    float inverse) {
  const float unit = static_cast<float>(uint64_t{1} << row.weight_bits);
  return static_cast<uint64_t>(expf((x - max) * inverse) * unit);
}

// Larger for a surprise that is nearer to the expected one.
__device__ inline uint64_t TypicalKey(const Left& left, float x, int64_t id) {
  const double distance =
      fabs(static_cast<double>(x) - static_cast<double>(left.typical_max) -
           left.expected);
  return KeyOf(-static_cast<float>(distance), id);
}

__device__ inline bool IsLeft(const Row& row, const Left& left, float x,
                              int64_t id) {
  if (row.allowed != nullptr &&
      (id >= row.n_allowed || (row.allowed[id / 64] >> (id % 64) & 1) == 0)) {
    return false;
  }
  if (KeyOf(x, id) < left.least_key) return false;
  if (left.is_typical && TypicalKey(left, x, id) < left.least_typical_key) {
    return false;
  }
  return left.min_p == 0 || expf(x - left.max) >= left.min_p;
}

// Calls visit(logit, id) for the thread's share of what is left.
template <class Visit>
__device__ void ForLeft(const Row& row, const Left& left, const Visit& visit) {
  for (int64_t id = ThreadIndex(); id < row.n; id += kThreads) {
    const float x = row.logits[id];
    if (IsLeft(row, left, x, id)) visit(x, id);
  }
}

// The largest logit of what is left; minus infinity if nothing is.
__device__ float MaxOf(const Row& row, const Left& left, Shared& shared) {
  float max = MinusInfinity();
  ForLeft(row, left, [&](float x, int64_t) { max = fmaxf(max, x); });
  return BlockMax(max, reinterpret_cast<float*>(shared.sums));
}

// What all that is left weighs.
__device__ uint64_t TotalOf(const Row& row, const Left& left, float inverse,
                            Shared& shared) {
  uint64_t total = 0;
  ForLeft(row, left, [&](float x, int64_t) {
    total += WeightOf(row, x, left.max, inverse);
  });
  return BlockSum(total, shared.sums);
}

// Finds the bin, from the last one down, at which the sum exceeds `target`. By
// one warp; the lanes have consecutive bins.
__device__ void FindBin(uint64_t target, Shared& shared) {
  const int lane = LaneIndex();
  const int first = kBins - 1 - lane * kLaneBins;
  uint64_t own = 0;
  for (int i = 0; i < kLaneBins; ++i) own += shared.bins[first - i];
  uint64_t before = own;  // and then those of the lanes before
  for (int step = 1; step < kWarpThreads; step *= 2) {
    const uint64_t other =
        __shfl_sync(kFullWarp, before, lane < step ? 0 : lane - step);
    if (lane >= step) before += other;
  }
  before -= own;
  if (target < before || target - before >= own) return;
  int bin = first;
  while (target - before >= shared.bins[bin]) before += shared.bins[bin--];
  shared.bin = bin;
  shared.before = before;
}

// The key, of what is left in descending order of keys, at which the sum of
// weights exceeds `target`; 0 if all together do not.
template <class Key, class Weight>
__device__ uint64_t Select(const Row& row, const Left& left, uint64_t target,
                           Shared& shared, const Key& key_of,
                           const Weight& weight_of) {
  uint64_t found = 0;  // bits from `end` on
  int end = 64;
  while (true) {
    // Ids are less than 2^id_bits: the bits above of their part are known.
    if (end == 32) {
      found |= (uint64_t{1} << 32) - (uint64_t{1} << row.id_bits);
      end = row.id_bits;
    }
    if (end == 0) return found;
    const int least = end > 32 ? 32 : 0;
    const int begin = end - kDigitBits > least ? end - kDigitBits : least;
    const uint64_t known = end == 64 ? 0 : ~uint64_t{0} << end;
    const int mask = (1 << (end - begin)) - 1;
    __syncthreads();
    for (int i = ThreadIndex(); i < kBins; i += kThreads) shared.bins[i] = 0;
    if (ThreadIndex() == 0) shared.bin = -1;
    __syncthreads();
    ForLeft(row, left, [&](float x, int64_t id) {
      const uint64_t key = key_of(x, id);
      if (((key ^ found) & known) != 0) return;
      AddAtomically(&shared.bins[static_cast<int>(key >> begin) & mask],
                    weight_of(x));
    });
    __syncthreads();
    if (WarpIndex() == 0) FindBin(target, shared);
    __syncthreads();
    if (shared.bin < 0) return 0;
    found |= static_cast<uint64_t>(shared.bin) << begin;
    target -= shared.before;
    end = begin;
  }
}

// The target at which a sum first reaches `share` of `total`.
__device__ inline uint64_t TargetOf(double share, uint64_t total) {
  const auto least =
      static_cast<uint64_t>(ceil(share * static_cast<double>(total)));
  return (least < 1 ? 1 : least < total ? least : total) - 1;
}

// Keeps the tokens whose surprise is nearest to the expected one.
__device__ void KeepTypical(const Row& row, float typical_p, Shared& shared,
                            Left& left) {
  const auto weight = [&](float x) {
    return WeightOf(row, x, left.max, /*inverse=*/1.0f);
  };
  const uint64_t total = TotalOf(row, left, /*inverse=*/1.0f, shared);
  double moment = 0;
  ForLeft(row, left, [&](float x, int64_t) {
    moment += static_cast<double>(weight(x)) *
              (static_cast<double>(x) - static_cast<double>(left.max));
  });
  moment = BlockSum(moment, reinterpret_cast<double*>(shared.sums));
  left.typical_max = left.max;
  left.expected = moment / static_cast<double>(total);
  left.least_typical_key = Select(
      row, left, TargetOf(static_cast<double>(typical_p), total), shared,
      [&](float x, int64_t id) { return TypicalKey(left, x, id); }, weight);
  left.is_typical = true;
  left.max = MaxOf(row, left, shared);
}

// Whether all of what is left is finite; for every thread the same.
__device__ bool AreFinite(const Row& row, const Left& left, Shared& shared) {
  uint64_t n_bad = 0;
  ForLeft(row, left, [&](float x, int64_t) { n_bad += IsFinite(x) ? 0 : 1; });
  return BlockSum(n_bad, shared.sums) == 0;
}

// The id of the token that is drawn, if the result's state says so.
__device__ void Draw(const Row& row, const Chain& chain, Shared& shared,
                     Result& result) {
  const auto key = [](float x, int64_t id) { return KeyOf(x, id); };
  Left left;
  if (!AreFinite(row, left, shared)) {
    result.state = Result::State::kNotFinite;
    return;
  }
  left.max = MaxOf(row, left, shared);
  if (left.max == MinusInfinity()) {
    result.state = Result::State::kNoneAllowed;
    return;
  }
  if (chain.top_k > 0) {
    left.least_key = Select(row, left, static_cast<uint64_t>(chain.top_k - 1),
                            shared, key, [](float) { return uint64_t{1}; });
  }
  if (chain.typical_p < 1) KeepTypical(row, chain.typical_p, shared, left);
  if (chain.top_p < 1) {
    const uint64_t total = TotalOf(row, left, /*inverse=*/1.0f, shared);
    const uint64_t target = TargetOf(static_cast<double>(chain.top_p), total);
    const uint64_t least = Select(row, left, target, shared, key, [&](float x) {
      return WeightOf(row, x, left.max, /*inverse=*/1.0f);
    });
    left.least_key = least;
  }
  left.min_p = chain.min_p;
  const uint64_t total = TotalOf(row, left, chain.inverse_temperature, shared);
  const auto target =
      static_cast<uint64_t>(chain.u * static_cast<double>(total));
  result.state = Result::State::kDrawn;
  result.id = IdOf(Select(row, left, target < total ? target : total - 1,
                          shared, key, [&](float x) {
                            return WeightOf(row, x, left.max,
                                            chain.inverse_temperature);
                          }));
}

// One block. `own` [n] holds the row's logits after the changes, if there are
// any.
__global__ void __launch_bounds__(kThreads)
    SampleRow(Row row, Chain chain, const LogitChange* changes,
              int64_t n_changes, float* own, Result* out) {
  auto& shared = *reinterpret_cast<Shared*>(DynamicShared());
  const float* logits = row.logits;
  if (n_changes > 0) {
    for (int64_t id = ThreadIndex(); id < row.n; id += kThreads) {
      own[id] = logits[id];
    }
    __syncthreads();
    for (int64_t i = ThreadIndex(); i < n_changes; i += kThreads) {
      float& logit = own[changes[i].id];
      logit = Changed(changes[i], logit);
    }
    __syncthreads();
    row.logits = own;
  }
  Result result = {};
  Draw(row, chain, shared, result);
  if (result.state == Result::State::kDrawn) {
    result.logit = logits[result.id];
    uint64_t n_larger = 0;
    for (int64_t id = ThreadIndex(); id < row.n; id += kThreads) {
      if (logits[id] > result.logit) ++n_larger;
    }
    result.rank = static_cast<int64_t>(BlockSum(n_larger, shared.sums));
  }
  if (ThreadIndex() == 0) *out = result;
}

}  // namespace

absl::StatusOr<SampledToken> Sample(const Context& context,
                                    const SampleArgs& args) {
  constexpr int64_t kMostChanged =
      (kScratchBytes - int64_t{sizeof(Result)}) / int64_t{sizeof(float)};
  if (!args.changes.empty() && args.n > kMostChanged) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "changes of a row of ", args.n, " logits, at most ", kMostChanged));
  }
  const auto bits =
      static_cast<int>(std::bit_width(static_cast<uint64_t>(args.n)));
  const int64_t n_words = std::ssize(args.allowed);
  ASSIGN_OR_RETURN(const uint64_t* allowed,
                   context.staging->PutSpan(args.allowed));
  const Row row = {.logits = args.logits,
                   .n = args.n,
                   .id_bits = static_cast<int>(
                       std::bit_width(static_cast<uint64_t>(args.n - 1))),
                   .weight_bits = std::min(kMaxWeightBits, 62 - bits),
                   .allowed = n_words > 0 ? allowed : nullptr,
                   .n_allowed = n_words * 64};
  const Chain chain = {.u = args.u,
                       .inverse_temperature = args.inverse_temperature,
                       .top_k = args.top_k,
                       .typical_p = args.typical_p,
                       .top_p = args.top_p,
                       .min_p = args.min_p};
  ASSIGN_OR_RETURN(const LogitChange* changes,
                   context.staging->PutSpan(args.changes));
  auto* result = reinterpret_cast<Result*>(context.scratch);
  auto* own = reinterpret_cast<float*>(result + 1);
  Launch(SampleRow, {1}, kThreads, sizeof(Shared), context.stream, row, chain,
         changes, std::ssize(args.changes), own, result);
  RETURN_IF_ERROR(LaunchStatus());
  RETURN_IF_ERROR(CopyToHost(context.scratch, context.results, sizeof(Result),
                             context.stream));
  RETURN_IF_ERROR(WaitForStream(context.stream));
  const Result& drawn = *reinterpret_cast<const Result*>(context.results);
  switch (drawn.state) {
    case Result::State::kDrawn:
      return SampledToken{drawn.id, drawn.logit, drawn.rank};
    case Result::State::kNotFinite:
      return absl::InternalError("logits that are not finite");
    case Result::State::kNoneAllowed:
      break;
  }
  return absl::InternalError("no token is allowed");
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
