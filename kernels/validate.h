// Checks of an operation's arguments that every backend makes before it runs
// it.
#ifndef PLIMSOLL_KERNELS_VALIDATE_H_
#define PLIMSOLL_KERNELS_VALIDATE_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "base/status_macros.h"
#include "kernels/backend.h"
#include "kernels/experts.h"
#include "kernels/hadamard.h"
#include "kernels/heads.h"
#include "kernels/quant/dequantize.h"
#include "kernels/quant/kv_row.h"
#include "kernels/quant/packed_row.h"

namespace plimsoll::kernels {

// The size of the rows that are given to UploadRows.
struct RowsSize {
  int64_t row_bytes;
  int64_t n_rows;
};

// Checks the arguments of UploadRows for a backend that stores `row_multiple`
// rows together.
inline absl::StatusOr<RowsSize> ValidateRows(const WeightRows& rows,
                                             BufferView matrix,
                                             int64_t row_multiple) {
  if (!IsWeightType(rows.dtype)) {
    return absl::UnimplementedError(
        absl::StrCat("weights of type ", DTypeName(rows.dtype)));
  }
  ASSIGN_OR_RETURN(const int64_t row_bytes, RowBytes(rows.dtype, rows.cols));
  if (row_bytes == 0) return absl::InvalidArgumentError("rows of 0 columns");
  const auto size = static_cast<int64_t>(rows.bytes.size());
  const int64_t n_rows = size / row_bytes;
  const int64_t end = rows.first_row + n_rows;
  const int64_t padded =
      (rows.rows + row_multiple - 1) / row_multiple * row_multiple;
  const bool is_whole = rows.first_row % row_multiple == 0 &&
                        size % row_bytes == 0 &&
                        (n_rows % row_multiple == 0 || end == rows.rows);
  if (rows.first_row < 0 || !is_whole || end > rows.rows ||
      padded > matrix.bytes / row_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rows ", rows.first_row, " to ", end, " of ", rows.rows,
        " are not whole groups of ", row_multiple, " inside their matrix"));
  }
  return RowsSize{row_bytes, n_rows};
}

inline absl::Status Validate(const GetRowsArgs& args) {
  for (int64_t r = 0; r < args.n_rows; ++r) {
    if (args.tokens[r] < 0 || args.tokens[r] >= args.table.rows) {
      return absl::InvalidArgumentError(absl::StrCat(
          "row ", args.tokens[r], " of a table of ", args.table.rows, " rows"));
    }
  }
  return absl::OkStatus();
}

inline absl::Status ValidatePacked(int64_t dim) {
  if (dim % kActivationBlock != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rows of ", dim, " activations are not whole blocks of 32"));
  }
  return absl::OkStatus();
}

inline absl::Status Validate(const PackActivationsArgs& args) {
  return ValidatePacked(args.dim);
}

// Checks that rows or heads of `dim` elements may begin every `stride`
// elements.
inline absl::Status ValidateStride(int64_t stride, int64_t dim) {
  if (stride >= dim) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "rows of ", dim, " elements that begin every ", stride, " elements"));
}

inline absl::Status Validate(const RmsNormArgs& args) {
  RETURN_IF_ERROR(ValidateStride(args.XStride(), args.dim));
  if (args.packed == nullptr) return absl::OkStatus();
  return ValidatePacked(args.dim);
}

inline absl::Status Validate(const AddNormArgs& args) {
  RETURN_IF_ERROR(Validate(args.add));
  RETURN_IF_ERROR(Validate(args.norm));
  if (args.add.accumulate && args.norm.x == args.add.out &&
      args.norm.n_rows == args.add.n_rows && args.norm.dim == args.add.dim) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "two norms of which the second one does not read what the first adds to");
}

inline absl::Status Validate(const GatedActivationArgs& args) {
  RETURN_IF_ERROR(ValidateStride(args.GateStride(), args.dim));
  RETURN_IF_ERROR(ValidateStride(args.UpStride(), args.dim));
  if (args.packed == nullptr) return absl::OkStatus();
  return ValidatePacked(args.dim);
}

// Checks that a soft cap is finite and not negative.
inline absl::Status ValidateCap(float soft_cap, absl::string_view what) {
  if (soft_cap >= 0 && soft_cap <= std::numeric_limits<float>::max()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(what, " soft-capped at ", soft_cap));
}

inline absl::Status Validate(std::span<const AddBiasArgs> biases) {
  if (biases.size() > kMaxBiases) {
    return absl::InvalidArgumentError(
        absl::StrCat(biases.size(), " biases, at most ", kMaxBiases));
  }
  for (const AddBiasArgs& args : biases) {
    if (args.n_rows == biases.front().n_rows) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "biases of ", biases.front().n_rows, " and of ", args.n_rows, " rows"));
  }
  return absl::OkStatus();
}

inline absl::Status Validate(const MatMulArgs& args) {
  if (args.w.cols % InfoOf(args.w.dtype).block_elems != 0 ||
      (args.packed == nullptr && args.x == nullptr)) {
    return absl::InvalidArgumentError(absl::StrCat("a product over ",
                                                   args.w.cols, " columns of ",
                                                   DTypeName(args.w.dtype)));
  }
  RETURN_IF_ERROR(ValidateCap(args.soft_cap, "outputs"));
  if (args.soft_cap > 0 && args.accumulate) {
    return absl::InvalidArgumentError("sums of outputs that are soft-capped");
  }
  if (args.top.empty()) return absl::OkStatus();
  if (args.accumulate || static_cast<int64_t>(args.top.size()) != args.n_rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "largest outputs of ", args.top.size(), " of ", args.n_rows, " rows"));
  }
  for (const TopOutputs& top : args.top) {
    if (top.k < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("the ", top.k, " largest outputs"));
    }
    for (const int32_t id : top.always) {
      if (id >= 0 && id < args.w.rows) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("output ", id, " of ", args.w.rows));
    }
  }
  return absl::OkStatus();
}

inline absl::Status Validate(const GatedMatMulArgs& args) {
  RETURN_IF_ERROR(Validate(args.gate));
  RETURN_IF_ERROR(Validate(args.up));
  const bool is_one = args.gate.packed == args.up.packed &&
                      args.gate.n_rows == args.up.n_rows &&
                      args.gate.w.cols == args.up.w.cols &&
                      args.gate.w.rows == args.up.w.rows;
  const bool adds = args.gate.accumulate || args.up.accumulate;
  const bool looks_at_few = !args.gate.top.empty() || !args.up.top.empty();
  const bool is_capped = args.gate.soft_cap != 0 || args.up.soft_cap != 0;
  if (!is_one || adds || looks_at_few || is_capped) {
    return absl::InvalidArgumentError(absl::StrCat(
        "gating ", args.gate.w.rows, " outputs by ", args.up.w.rows,
        ": not two whole products of the same activations"));
  }
  if (args.packed == nullptr) return absl::OkStatus();
  return ValidatePacked(args.gate.w.rows);
}

inline absl::Status Validate(const ExpertRows& rows) {
  if (rows.n_rows >= 0 && rows.n_used >= 1 && rows.n_used <= rows.n_experts &&
      rows.n_experts <= kMaxExperts) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(rows.n_rows, " rows for ", rows.n_used, " of ",
                   rows.n_experts, " experts, at most ", kMaxExperts));
}

inline absl::Status Validate(const RouteExpertsArgs& args) {
  RETURN_IF_ERROR(Validate(args.to));
  const Routing& routing = args.routing;
  const bool is_grouped =
      routing.n_groups >= 1 && args.to.n_experts % routing.n_groups == 0 &&
      routing.n_groups_used >= 1 && routing.n_groups_used <= routing.n_groups;
  if (is_grouped &&
      args.to.n_experts / routing.n_groups * routing.n_groups_used >=
          args.to.n_used) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(args.to.n_used, " of ", args.to.n_experts, " experts in ",
                   routing.n_groups_used, " of ", routing.n_groups, " groups"));
}

inline absl::Status Validate(const GatedExpertMatMulArgs& args) {
  RETURN_IF_ERROR(Validate(args.rows));
  for (const ExpertMatrices* w : {&args.gate, &args.up}) {
    RETURN_IF_ERROR(Validate(MatMulArgs{.w = w->first,
                                        .x = args.x,
                                        .packed = args.packed,
                                        .out = args.out,
                                        .n_rows = args.rows.NumPlaces(),
                                        .accumulate = false}));
  }
  if (args.gate.first.rows != args.up.first.rows ||
      args.gate.first.cols != args.up.first.cols) {
    return absl::InvalidArgumentError(
        absl::StrCat("experts that gate ", args.gate.first.rows, " outputs by ",
                     args.up.first.rows));
  }
  if (args.packed_out == nullptr) return absl::OkStatus();
  return ValidatePacked(args.gate.first.rows);
}

inline absl::Status Validate(const ExpertSumMatMulArgs& args) {
  RETURN_IF_ERROR(Validate(args.rows));
  return Validate(MatMulArgs{.w = args.w.first,
                             .x = args.x,
                             .packed = args.packed,
                             .out = args.products,
                             .n_rows = args.rows.NumPlaces(),
                             .accumulate = false});
}

inline absl::Status Validate(const RopeAnglesArgs& args) {
  if (args.n_rot < 0 || args.n_rot % 2 != 0 || args.n_rot > kMaxHeadDim) {
    return absl::InvalidArgumentError(
        absl::StrCat("angles for ", args.n_rot, " elements"));
  }
  if (!(args.ramp.begin <= args.ramp.end)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "angles scaled from pair ", args.ramp.begin, " to ", args.ramp.end));
  }
  return absl::OkStatus();
}

inline absl::Status ValidateRotation(int64_t n_rot, int64_t head_dim) {
  if (n_rot < 0 || n_rot % 2 != 0 || n_rot > head_dim) {
    return absl::InvalidArgumentError(
        absl::StrCat("rotating ", n_rot, " of ", head_dim, " elements"));
  }
  return absl::OkStatus();
}

inline absl::Status Validate(const RopeArgs& args) {
  RETURN_IF_ERROR(ValidateStride(args.XStride(), args.head_dim));
  RETURN_IF_ERROR(ValidateStride(args.OutStride(), args.head_dim));
  return ValidateRotation(args.n_rot, args.head_dim);
}

inline absl::Status Validate(const HeadMatMulArgs& args) {
  RETURN_IF_ERROR(ValidateStride(args.x_stride, args.w.first.cols));
  RETURN_IF_ERROR(ValidateStride(args.out_stride, args.w.first.rows));
  return Validate(MatMulArgs{.w = args.w.first,
                             .x = args.x,
                             .packed = nullptr,
                             .out = args.out,
                             .n_rows = args.n_rows,
                             .accumulate = false});
}

inline absl::Status Validate(const ScaleRowsArgs& args) {
  for (int64_t r = 0; r < args.n_rows; ++r) {
    if (std::isfinite(args.factors[r])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("row ", r, " times ", args.factors[r]));
  }
  return absl::OkStatus();
}

inline absl::Status Validate(const CutRowsArgs& args) {
  if (std::isfinite(args.deviations)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("rows cut at ", args.deviations, " deviations"));
}

inline absl::Status Validate(const MixRowsArgs& args) {
  const auto is_within = [](int64_t n) { return n >= 1 && n <= kMaxMixed; };
  if (is_within(args.n_in) && is_within(args.n_out)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(args.n_in, " arrays mixed into ", args.n_out,
                   ", each at least one and at most ", kMaxMixed));
}

inline absl::Status Validate(const HadamardArgs& args) {
  const int64_t width = args.width;
  if (width >= kKvBlock && width <= kMaxHeadDim && (width & (width - 1)) == 0 &&
      args.dim >= 0 && args.dim % width == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("rows of ", args.dim, " in transforms of ", width));
}

// Checks that `n` keys or values side by side can be stored as `dtype`.
inline absl::Status ValidateKv(DType dtype, int64_t n) {
  if (!IsKvType(dtype)) {
    return absl::UnimplementedError(
        absl::StrCat("a KV cache of type ", DTypeName(dtype)));
  }
  if (n % InfoOf(dtype).block_elems != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        n, " keys or values are not whole blocks of ", DTypeName(dtype)));
  }
  return absl::OkStatus();
}

inline absl::Status Validate(const StoreRowsArgs& args) {
  return ValidateKv(args.dtype, args.dim);
}

inline absl::Status Validate(const PrepareHeadsArgs& args) {
  if (args.head_dim <= 0 || args.head_dim > kMaxHeadDim) {
    return absl::InvalidArgumentError(absl::StrCat("head_dim ", args.head_dim));
  }
  RETURN_IF_ERROR(ValidateRotation(args.n_rot, args.head_dim));
  RETURN_IF_ERROR(ValidateKv(args.k_type, args.head_dim));
  RETURN_IF_ERROR(ValidateKv(args.v_type, args.head_dim));
  if (args.q_prefix != nullptr && args.prefix_angles == nullptr &&
      args.n_rot > 0) {
    return absl::InvalidArgumentError("queries for a prefix without angles");
  }
  if (args.n_places < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("keys and values stored in ", args.n_places, " places"));
  }
  return absl::OkStatus();
}

inline absl::Status Validate(const AttentionArgs& args) {
  const int64_t value_dim = args.ValueDim();
  if (args.head_dim <= 0 || args.head_dim > kMaxKeyDim ||
      args.head_dim % 16 != 0 || value_dim <= 0 ||
      value_dim > std::min(args.head_dim, kMaxHeadDim) || value_dim % 16 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("head_dim ", args.head_dim, ", value_dim ", value_dim));
  }
  RETURN_IF_ERROR(ValidateKv(args.k_type, args.head_dim));
  RETURN_IF_ERROR(ValidateKv(args.v_type, args.head_dim));
  RETURN_IF_ERROR(ValidateKv(args.v_type, value_dim));
  if (args.n_kv_heads <= 0 || args.n_heads % args.n_kv_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        args.n_heads, " heads over ", args.n_kv_heads, " KV heads"));
  }
  if (!args.is_ring && args.paged.page_tokens > kAttentionBlock) {
    return absl::InvalidArgumentError(
        absl::StrCat("pages of ", args.paged.page_tokens, " tokens"));
  }
  RETURN_IF_ERROR(ValidateCap(args.soft_cap, "scores"));
  if (args.packed == nullptr) return absl::OkStatus();
  return ValidatePacked(args.n_heads * value_dim);
}

inline absl::Status Validate(const TopKArgs& args) {
  if (args.k < 1 || args.k > kMaxCandidates || args.k > args.n) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", args.k, " largest of ", args.n, " logits"));
  }
  if ((args.inverse_temperatures == nullptr) != (args.masses == nullptr)) {
    return absl::InvalidArgumentError("temperatures and masses go together");
  }
  if (args.masses == nullptr) return absl::OkStatus();
  for (int64_t r = 0; r < args.n_rows; ++r) {
    const float inverse = args.inverse_temperatures[r];
    if (inverse > 0 && inverse <= std::numeric_limits<float>::max()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("an inverse temperature of ", inverse));
  }
  return absl::OkStatus();
}

inline absl::Status Validate(const SampleArgs& args) {
  const auto is_share = [](float value) { return value > 0 && value <= 1; };
  const bool is_draw =
      args.u >= 0 && args.u < 1 && args.inverse_temperature > 0 &&
      args.inverse_temperature <= std::numeric_limits<float>::max();
  if (args.n < 1 || args.n > std::numeric_limits<int32_t>::max() || !is_draw ||
      args.top_k < 0 || !is_share(args.typical_p) || !is_share(args.top_p) ||
      !(args.min_p >= 0 && args.min_p <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a draw from ", args.n, " logits by ", args.u,
                     " at inverse temperature ", args.inverse_temperature,
                     ", top_k ", args.top_k, ", typical_p ", args.typical_p,
                     ", top_p ", args.top_p, ", min_p ", args.min_p));
  }
  for (const LogitChange& change : args.changes) {
    if (change.id >= 0 && change.id < args.n) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("a change of logit ", change.id, " of ", args.n));
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_VALIDATE_H_
