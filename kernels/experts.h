// The operations of experts: networks of which a router gives each row a few.
#ifndef PLIMSOLL_KERNELS_EXPERTS_H_
#define PLIMSOLL_KERNELS_EXPERTS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/tensor_view.h"

namespace plimsoll::kernels {

inline constexpr int64_t kMaxExperts = 4'096;

// The least sum by which the weights of a row's experts are divided.
inline constexpr float kLeastWeightSum = 0x1p-14f;

// One matrix of each expert, or of each head (heads.h), all of the same type
// and size, each stored by itself (UploadRows). They lie one after another, and
// so do their scales.
struct ExpertMatrices {
  WeightMatrix first = {};
  int64_t matrix_bytes = 0;  // from one expert's matrix to the next one's

  WeightMatrix Of(int64_t expert) const {
    WeightMatrix w = first;
    w.data += expert * matrix_bytes;
    if (w.scale != nullptr) w.scale += expert;
    return w;
  }
};

// Which experts the rows of a step have, and which rows each expert has. A row
// has a place in the group of each of its experts. Groups lie one after another
// in the order of the experts, and their rows in the order of the step. The
// arrays are device memory.
struct ExpertRows {
  int64_t n_rows = 0;
  int64_t n_experts = 0;       // at most kMaxExperts
  int64_t n_used = 0;          // experts of a row
  int32_t* experts = nullptr;  // [n_rows, n_used], in the order of the choice
  float* weights = nullptr;    // [n_rows, n_used]
  int32_t* places = nullptr;   // [n_rows, n_used]
  int32_t* rows = nullptr;     // [n_rows * n_used], the row at each place
  int32_t* begins = nullptr;   // [n_experts + 1], the first place of a group

  constexpr int64_t NumPlaces() const { return n_rows * n_used; }
};

// The weight of the row at `place` for the expert there. The host must be able
// to read the arrays.
inline float WeightAt(const ExpertRows& rows, int64_t place) {
  int64_t i = rows.rows[place] * rows.n_used;
  while (rows.places[i] != place) ++i;
  return rows.weights[i];
}

// The bytes that the arrays of such rows take, and the arrays in `data`.
constexpr int64_t ExpertRowsBytes(int64_t n_rows, int64_t n_experts,
                                  int64_t n_used) {
  return n_rows * n_used * 16 + (n_experts + 1) * 4;
}
inline ExpertRows ExpertRowsAt(std::byte* data, int64_t n_rows,
                               int64_t n_experts, int64_t n_used) {
  const int64_t n = n_rows * n_used;
  auto* const ints = reinterpret_cast<int32_t*>(data);
  return {.n_rows = n_rows,
          .n_experts = n_experts,
          .n_used = n_used,
          .experts = ints,
          .weights = reinterpret_cast<float*>(data) + n,
          .places = ints + 2 * n,
          .rows = ints + 3 * n,
          .begins = ints + 4 * n};
}

// How a router's logits become scores.
enum class RouterGate {
  kSoftmax,          // over all experts
  kSigmoid,          // each score by itself
  kSoftmaxOfChosen,  // scores are logits; the softmax is over a row's experts
};

// How the scores of a row become weights.
struct Routing {
  RouterGate gate = RouterGate::kSoftmax;
  // Weights are divided by their sum, at least by kLeastWeightSum.
  bool is_normalized = false;
  float scale = 1;  // multiplies the weights at the end
  // Groups of as many experts each. Only experts of a row's best n_groups_used
  // groups are chosen. A group is as good as its two best experts, added, or,
  // with groups_by_best, as its best one.
  int64_t n_groups = 1;
  int64_t n_groups_used = 1;
  bool groups_by_best = false;
};

// Chooses the experts with the largest scores for each row, equal ones by
// ascending index. An expert's weight is its score. A logit that is not a
// number makes weights that are none.
struct RouteExpertsArgs {
  const float* logits;  // [n_rows, n_experts]
  ExpertRows to;        // its arrays are written
  Routing routing = {};
  // [n_experts] or nullptr: added to scores for the choice, not for the weight.
  const float* choice_bias = nullptr;
};

// The gated half of each expert's network: at every place,
// out = activation(gate x) * up x, where x is the row at the place. An expert's
// bias is added to a product before it is activated.
struct GatedExpertMatMulArgs {
  ExpertRows rows;
  ExpertMatrices gate;
  ExpertMatrices up;        // as many outputs and columns as gate
  const float* x;           // [n_rows, cols]
  const std::byte* packed;  // x packed, or nullptr, as in MatMulArgs
  Activation activation;
  std::byte* gathered;  // scratch: cols floats for each place
  float* out;           // [places, outputs]
  float* up_out;        // scratch, like out
  // If not null, it gets the result packed, group by group. May be `packed`.
  std::byte* packed_out = nullptr;
  // False if the result is only read where it is packed, not in `out`.
  bool keeps_floats = true;
  const float* gate_bias = nullptr;  // [n_experts, outputs] or nullptr
  const float* up_bias = nullptr;
  // x is the row times its weight for the expert: the products are multiplied
  // by it, before any bias is added.
  bool weights_inputs = false;
};

// The last product of each expert's network and the sum over a row's experts:
// out[r] is the sum over i < n_used of weights[r][i] * (w x[places[r][i]] +
// bias of expert experts[r][i]), added up in the order of i; if `accumulate`,
// it begins with out[r]. Without `weights_outputs` the weights count as 1.
struct ExpertSumMatMulArgs {
  ExpertRows rows;
  ExpertMatrices w;
  const float* x;           // [places, w.cols]
  const std::byte* packed;  // as GatedExpertMatMul returns it, or nullptr
  float* products;          // scratch: w.rows floats for each place
  float* out;               // [n_rows, w.rows]
  bool accumulate;
  const float* bias = nullptr;  // [n_experts, w.rows] or nullptr
  bool weights_outputs = true;
};

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_EXPERTS_H_
