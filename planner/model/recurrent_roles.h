// The tensors of layers that keep a state, for the architectures that have
// them.
#ifndef PLIMSOLL_PLANNER_MODEL_RECURRENT_ROLES_H_
#define PLIMSOLL_PLANNER_MODEL_RECURRENT_ROLES_H_

#include <algorithm>
#include <array>
#include <cstddef>

#include "planner/model/tensor_role.h"

namespace plimsoll::planner {

// The roles of two lists.
template <size_t n, size_t m>
constexpr std::array<TensorRole, n + m> JoinRoles(
    const std::array<TensorRole, n>& first,
    const std::array<TensorRole, m>& second) {
  std::array<TensorRole, n + m> roles = {};
  std::ranges::copy(second, std::ranges::copy(first, roles.begin()).out);
  return roles;
}

// The tensors of a gated delta net, without those that make the two numbers of
// each head.
inline constexpr auto kDeltaNetTensors = std::to_array<TensorRole>({
    {"attn_qkv.weight", When::kRecurrent, Presence::kRequired,
     MatrixOf(Dim::kModel, Dim::kChannels)},
    {"attn_gate.weight", When::kRecurrent, Presence::kRequired,
     MatrixOf(Dim::kModel, Dim::kInner)},
    {"ssm_conv1d.weight", When::kRecurrent, Presence::kRequired,
     VectorsOf(Dim::kTaps, Dim::kChannels)},
    {"ssm_dt.bias", When::kRecurrent, Presence::kRequired,
     VectorOf(Dim::kStateHeads)},
    {"ssm_a", When::kRecurrent, Presence::kRequired,
     VectorOf(Dim::kStateHeads)},
    {"ssm_norm.weight", When::kRecurrent, Presence::kRequired,
     VectorOf(Dim::kStateHead)},
    {"ssm_out.weight", When::kRecurrent, Presence::kRequired,
     MatrixOf(Dim::kInner, Dim::kModel)},
});

// A delta net of Qwen 3.5 makes the two numbers of each head by two products.
inline constexpr auto kQwen35Tensors =
    JoinRoles(kDeltaNetTensors,
              std::to_array<TensorRole>({
                  {"ssm_alpha.weight", When::kRecurrent, Presence::kRequired,
                   MatrixOf(Dim::kModel, Dim::kStateHeads)},
                  {"ssm_beta.weight", When::kRecurrent, Presence::kRequired,
                   MatrixOf(Dim::kModel, Dim::kStateHeads)},
              }));

// A Mamba 2 layer has these.
inline constexpr auto kMamba2Tensors = std::to_array<TensorRole>({
    {"ssm_in.weight", When::kRecurrent, Presence::kRequired,
     MatrixOf(Dim::kModel, Dim::kStateProduct)},
    {"ssm_conv1d.weight", When::kRecurrent, Presence::kRequired,
     VectorsOf(Dim::kTaps, Dim::kChannels)},
    {"ssm_conv1d.bias", When::kRecurrent, Presence::kRequired,
     VectorOf(Dim::kChannels)},
    {"ssm_dt.bias", When::kRecurrent, Presence::kRequired,
     VectorOf(Dim::kStateHeads)},
    {"ssm_a", When::kRecurrent, Presence::kRequired,
     VectorsOf(Dim::kOne, Dim::kStateHeads)},
    {"ssm_d", When::kRecurrent, Presence::kRequired,
     VectorsOf(Dim::kOne, Dim::kStateHeads)},
    {"ssm_norm.weight", When::kRecurrent, Presence::kRequired,
     VectorsOf(Dim::kGroupInner, Dim::kGroups)},
    {"ssm_out.weight", When::kRecurrent, Presence::kRequired,
     MatrixOf(Dim::kInner, Dim::kModel)},
});

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_MODEL_RECURRENT_ROLES_H_
