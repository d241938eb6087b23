// Reference: every place by itself, with the operations of a dense network.
#include <algorithm>
#include <vector>

#include "base/status_macros.h"
#include "kernels/quant/packed_row.h"
#include "kernels/reference/ops.h"

namespace plimsoll::kernels::reference {
namespace {

// Calls call(expert, place) for every place.
template <class Call>
absl::Status ForEachPlace(const ExpertRows& rows, const Call& call) {
  for (int64_t e = 0; e < rows.n_experts; ++e) {
    for (int64_t p = rows.begins[e]; p < rows.begins[e + 1]; ++p) {
      RETURN_IF_ERROR(call(e, p));
    }
  }
  return absl::OkStatus();
}

// A matrix, and all rows of its inputs and of its outputs.
struct AllRows {
  WeightMatrix w;
  const float* x;
  const std::byte* packed;
  float* out;
};

// The product of row `row` of the inputs as row `place` of the outputs.
MatMulArgs ProductOf(const AllRows& all, int64_t row, int64_t place) {
  const int64_t cols = all.w.cols;
  return {.w = all.w,
          .x = all.x + row * cols,
          .packed = all.packed == nullptr
                        ? nullptr
                        : all.packed + row * PackedRowBytes(cols),
          .out = all.out + place * all.w.rows,
          .n_rows = 1,
          .accumulate = false};
}

// Multiplies row `place` of the outputs by the row's weight for the expert.
void WeightRow(const ExpertRows& rows, int64_t dim, float* out, int64_t place) {
  const float weight = WeightAt(rows, place);
  ScaleRows({out + place * dim, &weight, 1, dim});
}

// Adds the expert's bias, if there are biases, to row `place` of the outputs.
void AddBiasAt(const float* biases, int64_t expert, int64_t dim, float* out,
               int64_t place) {
  if (biases == nullptr) return;
  AddBias({biases + expert * dim, out + place * dim, 1, dim});
}

}  // namespace

absl::Status GatedExpertMatMul(const GatedExpertMatMulArgs& args) {
  const int64_t n_places = args.rows.NumPlaces();
  const int64_t dim = args.gate.first.rows;
  RETURN_IF_ERROR(ForEachPlace(args.rows, [&](int64_t e, int64_t p) {
    const int64_t row = args.rows.rows[p];
    RETURN_IF_ERROR(MatMul(
        ProductOf({args.gate.Of(e), args.x, args.packed, args.out}, row, p)));
    if (args.weights_inputs) WeightRow(args.rows, dim, args.out, p);
    AddBiasAt(args.gate_bias, e, dim, args.out, p);
    RETURN_IF_ERROR(MatMul(
        ProductOf({args.up.Of(e), args.x, args.packed, args.up_out}, row, p)));
    if (args.weights_inputs) WeightRow(args.rows, dim, args.up_out, p);
    AddBiasAt(args.up_bias, e, dim, args.up_out, p);
    return absl::OkStatus();
  }));
  GatedActivation({.gate = args.out,
                   .up = args.up_out,
                   .out = args.out,
                   .n_rows = n_places,
                   .dim = dim,
                   .activation = args.activation});
  if (args.packed_out != nullptr) {
    PackActivations({args.out, n_places, dim, args.packed_out});
  }
  return absl::OkStatus();
}

absl::Status ExpertSumMatMul(const ExpertSumMatMulArgs& args) {
  const int64_t dim = args.w.first.rows;
  RETURN_IF_ERROR(ForEachPlace(args.rows, [&](int64_t e, int64_t p) {
    RETURN_IF_ERROR(MatMul(
        ProductOf({args.w.Of(e), args.x, args.packed, args.products}, p, p)));
    AddBiasAt(args.bias, e, dim, args.products, p);
    return absl::OkStatus();
  }));
  for (int64_t r = 0; r < args.rows.n_rows; ++r) {
    for (int64_t c = 0; c < dim; ++c) {
      float& out = args.out[r * dim + c];
      double sum = args.accumulate ? out : 0;
      for (int64_t i = r * args.rows.n_used; i < (r + 1) * args.rows.n_used;
           ++i) {
        const double weight =
            args.weights_outputs ? args.rows.weights[i] : 1.0f;
        sum += weight * args.products[args.rows.places[i] * dim + c];
      }
      out = static_cast<float>(sum);
    }
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::kernels::reference
