// Checks of the arguments of operations with states (recurrent.h).
#ifndef PLIMSOLL_KERNELS_VALIDATE_RECURRENT_H_
#define PLIMSOLL_KERNELS_VALIDATE_RECURRENT_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/recurrent.h"
#include "kernels/validate.h"

namespace plimsoll::kernels {

// Checks that a step of `n_rows` rows reads and writes states that there are,
// of `floats` floats each.
inline absl::Status Validate(const StepStates& states, int64_t n_rows,
                             int64_t floats) {
  if (states.n_states > 1 && states.stride < floats) {
    return absl::InvalidArgumentError(absl::StrCat("states of ", floats,
                                                   " floats that begin every ",
                                                   states.stride, " floats"));
  }
  const auto is_state = [&states](int32_t index) {
    return index == kNoState || (index >= 0 && index < states.n_states);
  };
  for (int64_t s = 0; s < states.n_segments; ++s) {
    const StateSegment& segment = states.segments[s];
    if (segment.first_row < 0 || segment.n_rows < 0 ||
        segment.first_row > n_rows - segment.n_rows) {
      return absl::InvalidArgumentError(
          absl::StrCat(segment.n_rows, " rows of a sequence from row ",
                       segment.first_row, " of ", n_rows, " on"));
    }
    if (is_state(segment.source)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "a sequence from state ", segment.source, " of ", states.n_states));
  }
  for (int64_t r = 0; r < n_rows; ++r) {
    if (is_state(states.destinations[r])) continue;
    return absl::InvalidArgumentError(absl::StrCat("row ", r, " to state ",
                                                   states.destinations[r],
                                                   " of ", states.n_states));
  }
  return absl::OkStatus();
}

inline absl::Status Validate(const CausalConvArgs& args) {
  if (args.width < 1 || args.width > kMaxConvWidth) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a convolution over ", args.width, " rows, at most ", kMaxConvWidth));
  }
  RETURN_IF_ERROR(ValidateStride(args.stride, args.channels));
  return Validate(args.states, args.n_rows, args.StateFloats());
}

inline absl::Status Validate(const StateScanArgs& args) {
  if (args.key_dim < 1 || args.key_dim > kMaxStateKeyDim ||
      args.value_dim < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("states of ", args.key_dim, " by ", args.value_dim,
                     ", keys of at most ", kMaxStateKeyDim));
  }
  if (args.n_heads < 1 || args.n_key_heads < 1 ||
      args.n_heads % args.n_key_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        args.n_heads, " heads over ", args.n_key_heads, " key heads"));
  }
  RETURN_IF_ERROR(ValidateStride(args.stride, args.n_key_heads * args.key_dim));
  RETURN_IF_ERROR(ValidateStride(args.stride, args.n_heads * args.value_dim));
  RETURN_IF_ERROR(
      ValidateStride(args.gate_group_stride, args.n_heads / args.n_key_heads));
  RETURN_IF_ERROR(
      ValidateStride(args.gate_stride, args.GateAt(0, args.n_heads - 1) + 1));
  return Validate(args.states, args.n_rows, args.StateFloats());
}

inline absl::Status Validate(const GatedNormArgs& args) {
  RETURN_IF_ERROR(ValidateStride(args.gate_stride, args.RowFloats()));
  if (args.packed == nullptr) return absl::OkStatus();
  return ValidatePacked(args.dim);
}

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_VALIDATE_RECURRENT_H_
