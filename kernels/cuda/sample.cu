// Draws a token from a whole row of logits.
//
// Each step of a draw asks where, in descending order, a sum of the tokens'
// weights exceeds a target. No row is sorted for that: a histogram of the
// weights by the leading bits of the tokens' keys gives the leading bits of
// that key, another histogram gives the bits that follow, and so on. Weights
// are integers, so their sums do not depend on the order in which blocks add to
// them. A State passes the search's result so far from one kernel to the next.
#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/logit_key.cuh"
#include "kernels/cuda/ops.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kBlockTokens = 2048;
// One histogram looks at this many bits of a key.
constexpr int kDigitBits = 11;
constexpr int kBins = 1 << kDigitBits;
constexpr int kLaneBins = kBins / kWarpThreads;
// A weight has this many bits after the point. Exponentials have 24 of their
// own.
constexpr int kWeightBits = 40;
constexpr int64_t kMaxLogits = int64_t{1} << 22;  // in a row: sums fit 63 bits
// A block adds up weights in two parts of 32 bits, for which devices have
// atomic additions in shared memory. The lower part has the lowest kLowBits
// bits of each weight.
constexpr int kLowBits = 21;
static_assert(kBlockTokens << kLowBits <= int64_t{1} << 32);
static_assert(kWeightBits < 2 * kLowBits);
// Logits that are this far below the largest weigh nothing.
constexpr float kFarthest = 1000;

struct Result {
  enum class State : int32_t { kDrawn, kNotFinite, kNoneAllowed };
  State state;
  int32_t id;
  float logit;
  uint64_t rank;
};

// The tokens that are left to draw from.
struct Left {
  float max;           // their largest logit
  uint64_t least_key;  // no token below it
  bool is_typical;     // nor one whose TypicalKey is below:
  uint64_t least_typical_key;
  double expected;  // logit, less `typical_max`
  float typical_max;
};

// A new State is all zeros.
struct State {
  Result result;
  Left left;
  // Sums over what is left, and the largest logit as KeyOf has it.
  uint32_t n_bad;  // not finite
  uint32_t max_key;
  uint64_t total;
  uint64_t moment;  // weights times distance below `max`
  // These fields are for the search for a key.
  bool is_beyond;   // the target is not reached
  uint64_t found;   // the key's leading bits
  uint64_t target;  // sum left to reach among such keys
  uint64_t bins[kBins];
};

// The part of SampleArgs that the device reads.
struct Row {
  const float* logits;
  int64_t n;
  const uint64_t* allowed;
  int64_t n_allowed;  // ids that `allowed` has bits for
};

// What a search adds up, and in the order of which keys.
struct Measure {
  bool is_typical = false;  // TypicalKey, else KeyOf
  bool is_count = false;    // a token weighs 1, else as WeightOf says
  float inverse = 1;
  float min_p = 0;  // tokens below it are left out
};

// What a search looks for.
struct Goal {
  enum class Kind { kNth, kShare, kPoint };
  Kind kind;
  double value;  // n, from 0; of the total, to be reached; to be exceeded
};

// What a search cuts off when it is done.
enum class Cut { kNone, kTypical, kKeys, kDraw };

// Bits [begin, end) of keys. Ids have id_bits bits; higher ones are known.
struct Digit {
  int begin;
  int end;
  int id_bits;

  __device__ uint64_t Known() const {
    return end == 64 ? 0 : ~uint64_t{0} << end;
  }
  // The known high bits of ids, which follow the last digit of the logit.
  __device__ uint64_t HighIdBits() const {
    return begin == 32 ? (uint64_t{1} << 32) - (uint64_t{1} << id_bits) : 0;
  }
};

__device__ inline float Changed(const LogitChange& change, float logit) {
  logit += change.bias;
  logit = logit > 0 ? logit / change.repetition : logit * change.repetition;
  return logit - change.penalty;
}

// Converts x to a whole number of 2^-kWeightBits.
__device__ inline uint64_t Fixed(float x) {
  return static_cast<uint64_t>(x *
                               static_cast<float>(uint64_t{1} << kWeightBits));
}

__device__ inline float WeightOf(const Left& left, float x, float inverse) {
  return expf((x - left.max) * inverse);
}

// The key is larger for a surprise that is nearer to the expected one.
__device__ inline uint64_t TypicalKey(const Left& left, float x, int64_t id) {
  const double distance =
      fabs(static_cast<double>(x) - static_cast<double>(left.typical_max) -
           left.expected);
  return KeyOf(-static_cast<float>(distance), id);
}

__device__ inline bool IsLeft(const Row& row, const Left& left, float min_p,
                              float x, int64_t id) {
  if (row.allowed != nullptr &&
      (id >= row.n_allowed || (row.allowed[id / 64] >> (id % 64) & 1) == 0)) {
    return false;
  }
  if (KeyOf(x, id) < left.least_key) return false;
  if (left.is_typical && TypicalKey(left, x, id) < left.least_typical_key) {
    return false;
  }
  return min_p == 0 || expf(x - left.max) >= min_p;
}

// Calls visit(logit, id) for the thread's share of the block's tokens.
template <class Visit>
__device__ void ForTokens(const Row& row, const Visit& visit) {
  const int64_t first = blockIdx.x * kBlockTokens;
  for (int64_t i = ThreadIndex(); i < kBlockTokens; i += kThreads) {
    if (first + i < row.n) visit(row.logits[first + i], first + i);
  }
}

// Calls visit(logit, id) for those of the thread's tokens that are left.
template <class Visit>
__device__ void ForLeft(const Row& row, const Left& left, float min_p,
                        const Visit& visit) {
  ForTokens(row, [&](float x, int64_t id) {
    if (IsLeft(row, left, min_p, x, id)) visit(x, id);
  });
}

__device__ inline bool HasFailed(const State& state) {
  return state.result.state != Result::State::kDrawn;
}

__global__ void CopyLogits(Row row, float* to) {
  ForTokens(row, [&](float x, int64_t id) { to[id] = x; });
}

__global__ void ChangeLogits(const LogitChange* changes, int64_t n_changes,
                             float* logits) {
  const int64_t i = GlobalIndex();
  if (i >= n_changes) return;
  float& logit = logits[changes[i].id];
  logit = Changed(changes[i], logit);
}

__global__ void FindMax(Row row, State* state) {
  auto* shared = reinterpret_cast<float*>(DynamicShared());
  float max = MinusInfinity();
  uint32_t n_bad = 0;
  ForLeft(row, state->left, /*min_p=*/0, [&](float x, int64_t) {
    max = fmaxf(max, x);
    if (!IsFinite(x)) ++n_bad;
  });
  max = BlockMax(max, shared);
  n_bad = BlockSum(n_bad, reinterpret_cast<uint32_t*>(shared));
  if (ThreadIndex() != 0) return;
  MaxAtomically(&state->max_key, static_cast<uint32_t>(KeyOf(max, 0) >> 32));
  if (n_bad > 0) AddAtomically(&state->n_bad, n_bad);
}

// Kernels that begin with no row, like this one, are one thread's work.
__global__ void SetMax(State* state) {
  if (ThreadIndex() != 0) return;
  state->left.max = LogitOf(state->max_key);
  if (state->n_bad > 0) {
    state->result.state = Result::State::kNotFinite;
  } else if (state->left.max == MinusInfinity()) {
    state->result.state = Result::State::kNoneAllowed;
  }
  state->max_key = 0;
}

__global__ void AddWeights(Row row, Measure measure, State* state) {
  if (HasFailed(*state)) return;
  auto* shared = reinterpret_cast<uint64_t*>(DynamicShared());
  const Left left = state->left;
  uint64_t total = 0;
  uint64_t moment = 0;
  ForLeft(row, left, measure.min_p, [&](float x, int64_t) {
    const float weight = WeightOf(left, x, measure.inverse);
    total += Fixed(weight);
    moment += Fixed(weight * fminf(left.max - x, kFarthest));
  });
  total = BlockSum(total, shared);
  moment = BlockSum(moment, shared);
  if (ThreadIndex() != 0) return;
  AddAtomically(&state->total, total);
  AddAtomically(&state->moment, moment);
}

// Begins a search.
__global__ void Aim(Goal goal, Measure measure, State* state) {
  if (ThreadIndex() != 0 || HasFailed(*state)) return;
  const auto total = static_cast<double>(state->total);
  const uint64_t last = state->total - 1;
  auto target = static_cast<uint64_t>(goal.value);
  if (goal.kind == Goal::Kind::kShare) {
    const auto least = static_cast<uint64_t>(ceil(goal.value * total));
    target = least > 0 ? least - 1 : 0;
  } else if (goal.kind == Goal::Kind::kPoint) {
    target = static_cast<uint64_t>(goal.value * total);
  }
  if (!measure.is_count && target > last) target = last;
  if (measure.is_typical) {
    state->left.typical_max = state->left.max;
    state->left.expected = -static_cast<double>(state->moment) / total;
  }
  state->target = target;
  state->found = 0;
  state->is_beyond = false;
  state->total = 0;
  state->moment = 0;
}

// Adds the keys whose earlier digits were found to the histogram of one digit.
__global__ void FillBins(Row row, Measure measure, Digit digit, State* state) {
  if (HasFailed(*state) || state->is_beyond) return;
  auto* low = reinterpret_cast<uint32_t*>(DynamicShared());
  auto* high = low + kBins;
  const Left left = state->left;
  const uint64_t found = state->found;
  const uint64_t known = digit.Known();
  const int mask = (1 << (digit.end - digit.begin)) - 1;
  for (int i = ThreadIndex(); i < 2 * kBins; i += kThreads) low[i] = 0;
  __syncthreads();
  ForLeft(row, left, measure.min_p, [&](float x, int64_t id) {
    const uint64_t key =
        measure.is_typical ? TypicalKey(left, x, id) : KeyOf(x, id);
    if (((key ^ found) & known) != 0) return;
    const uint64_t weight =
        measure.is_count ? 1 : Fixed(WeightOf(left, x, measure.inverse));
    const int bin = static_cast<int>(key >> digit.begin) & mask;
    AddAtomically(&low[bin],
                  static_cast<uint32_t>(weight) & ((1u << kLowBits) - 1));
    const auto upper = static_cast<uint32_t>(weight >> kLowBits);
    if (upper != 0) AddAtomically(&high[bin], upper);
  });
  __syncthreads();
  for (int i = ThreadIndex(); i < kBins; i += kThreads) {
    const uint64_t sum = low[i] + (uint64_t{high[i]} << kLowBits);
    if (sum != 0) AddAtomically(&state->bins[i], sum);
  }
}

// Finds the bin, from the last one down, at which the sum exceeds `target`. One
// warp does this; its lanes have consecutive bins, and the lane that has the
// bin calls take(bin, sum before). Returns whether there is one.
template <class Take>
__device__ bool FindBin(const uint64_t* bins, uint64_t target,
                        const Take& take) {
  const int lane = LaneIndex();
  const int first = kBins - 1 - lane * kLaneBins;
  uint64_t own = 0;
  for (int i = 0; i < kLaneBins; ++i) own += bins[first - i];
  uint64_t until = own;  // with the lanes before
  for (int step = 1; step < kWarpThreads; step *= 2) {
    const uint64_t other =
        __shfl_sync(kFullWarp, until, lane < step ? 0 : lane - step);
    if (lane >= step) until += other;
  }
  const uint64_t total = __shfl_sync(kFullWarp, until, kWarpThreads - 1);
  uint64_t before = until - own;
  if (target >= before && target < until) {
    int bin = first;
    while (target - before >= bins[bin]) before += bins[bin--];
    take(bin, before);
  }
  return target < total;
}

// Takes a digit of the key that is searched for and clears the histogram. After
// the last digit it does what the search was for.
__global__ void TakeDigit(Digit digit, Cut cut, State* state) {
  if (HasFailed(*state)) return;
  auto* bins = reinterpret_cast<uint64_t*>(DynamicShared());
  for (int i = ThreadIndex(); i < kBins; i += kThreads) {
    bins[i] = state->bins[i];
    state->bins[i] = 0;
  }
  __syncthreads();
  if (WarpIndex() != 0) return;
  if (!state->is_beyond) {
    const bool is_reached =
        FindBin(bins, state->target, [&](int bin, uint64_t before) {
          state->found |= static_cast<uint64_t>(bin) << digit.begin;
          state->found |= digit.HighIdBits();
          state->target -= before;
        });
    if (!is_reached && LaneIndex() == 0) state->is_beyond = true;
  }
  __syncwarp();
  if (LaneIndex() != 0) return;
  const uint64_t key = state->is_beyond ? 0 : state->found;
  switch (cut) {
    case Cut::kNone:
      return;
    case Cut::kTypical:
      state->left.is_typical = true;
      state->left.least_typical_key = key;
      return;
    case Cut::kKeys:
      state->left.least_key = key;
      return;
    case Cut::kDraw:
      state->result.id = IdOf(key);
  }
}

// Finishes the result; `row` is as it was before the changes.
__global__ void RankToken(Row row, State* state) {
  if (HasFailed(*state)) return;
  auto* shared = reinterpret_cast<uint64_t*>(DynamicShared());
  const float logit = row.logits[state->result.id];
  uint64_t n_larger = 0;
  ForTokens(row, [&](float x, int64_t) { n_larger += x > logit ? 1 : 0; });
  n_larger = BlockSum(n_larger, shared);
  if (ThreadIndex() != 0) return;
  AddAtomically(&state->result.rank, n_larger);
  if (blockIdx.x == 0) state->result.logit = logit;
}

int64_t Blocks(const Row& row) {
  return (row.n + kBlockTokens - 1) / kBlockTokens;
}

// Queues the kernels of one draw.
class Draw {
 public:
  Draw(Stream stream, const Row& row, State* state)
      : stream_(stream), row_(row), state_(state) {}

  void Max() const {
    ForRow(FindMax, row_, state_);
    Launch(SetMax, {1}, kWarpThreads, 0, stream_, state_);
  }
  // Finds the key at which the sum of weights, in descending order of keys,
  // meets the goal, and cuts there.
  void Search(const Measure& measure, const Goal& goal, Cut cut) const {
    if (!measure.is_count) ForRow(AddWeights, row_, measure, state_);
    Launch(Aim, {1}, kWarpThreads, 0, stream_, goal, measure, state_);
    const auto id_bits =
        static_cast<int>(std::bit_width(static_cast<uint64_t>(row_.n - 1)));
    for (int end = 64; end > 0;) {
      const int least = end > 32 ? 32 : 0;
      const Digit digit = {std::max(end - kDigitBits, least), end, id_bits};
      end = digit.begin == 32 ? id_bits : digit.begin;
      ForRow(FillBins, row_, measure, digit, state_);
      Launch(TakeDigit, {1}, kThreads, kBins * 8, stream_, digit,
             end > 0 ? Cut::kNone : cut, state_);
    }
  }
  // Ranks the token in the row before the changes.
  void Rank(const Row& row) const { ForRow(RankToken, row, state_); }

 private:
  template <class Kernel, class... Arguments>
  void ForRow(Kernel kernel, Arguments... arguments) const {
    Launch(kernel, {Blocks(row_)}, kThreads, kBins * 8, stream_, arguments...);
  }

  Stream stream_;
  Row row_;
  State* state_;
};

absl::StatusOr<SampledToken> TokenOf(const Result& drawn) {
  switch (drawn.state) {
    case Result::State::kDrawn:
      return SampledToken{drawn.id, drawn.logit,
                          static_cast<int64_t>(drawn.rank)};
    case Result::State::kNotFinite:
      return absl::InternalError("logits that are not finite");
    case Result::State::kNoneAllowed:
      break;
  }
  return absl::InternalError("no token is allowed");
}

}  // namespace

absl::StatusOr<SampledToken> Sample(const Context& context,
                                    const SampleArgs& args) {
  static_assert(sizeof(State) + kMaxLogits * sizeof(float) <= kScratchBytes);
  if (args.n > kMaxLogits) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a draw from ", args.n, " logits, of at most ", kMaxLogits));
  }
  const int64_t n_words = std::ssize(args.allowed);
  ASSIGN_OR_RETURN(const uint64_t* allowed,
                   context.staging->PutSpan(args.allowed));
  ASSIGN_OR_RETURN(const LogitChange* changes,
                   context.staging->PutSpan(args.changes));
  auto* state = reinterpret_cast<State*>(context.scratch);
  auto* changed = reinterpret_cast<float*>(state + 1);
  const Row given = {.logits = args.logits,
                     .n = args.n,
                     .allowed = n_words > 0 ? allowed : nullptr,
                     .n_allowed = n_words * 64};
  Row row = given;
  RETURN_IF_ERROR(ZeroDevice(context.scratch, sizeof(State), context.stream));
  if (!args.changes.empty()) {
    const int64_t n_changes = std::ssize(args.changes);
    Launch(CopyLogits, {Blocks(given)}, kThreads, 0, context.stream, given,
           changed);
    Launch(ChangeLogits, {(n_changes + kThreads - 1) / kThreads}, kThreads, 0,
           context.stream, changes, n_changes, changed);
    row.logits = changed;
  }
  const Draw draw(context.stream, row, state);
  draw.Max();
  if (args.top_k > 0) {
    draw.Search({.is_count = true},
                {Goal::Kind::kNth, static_cast<double>(args.top_k - 1)},
                Cut::kKeys);
  }
  if (args.typical_p < 1) {
    draw.Search({.is_typical = true},
                {Goal::Kind::kShare, double{args.typical_p}}, Cut::kTypical);
    draw.Max();
  }
  if (args.top_p < 1) {
    draw.Search({}, {Goal::Kind::kShare, double{args.top_p}}, Cut::kKeys);
  }
  draw.Search({.inverse = args.inverse_temperature, .min_p = args.min_p},
              {Goal::Kind::kPoint, args.u}, Cut::kDraw);
  draw.Rank(given);
  RETURN_IF_ERROR(LaunchStatus());
  RETURN_IF_ERROR(CopyToHost(context.scratch, context.results, sizeof(Result),
                             context.stream));
  RETURN_IF_ERROR(WaitForStream(context.stream));
  return TokenOf(*reinterpret_cast<const Result*>(context.results));
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
