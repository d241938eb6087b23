// Small models of any architecture, for tests of their layers and tensors.
#ifndef PLIMSOLL_TESTS_PLANNER_MODEL_SMALL_MODELS_H_
#define PLIMSOLL_TESTS_PLANNER_MODEL_SMALL_MODELS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/status/statusor.h"
#include "planner/gguf/header_numbers.h"
#include "planner/model/architectures.h"
#include "planner/model/model_shape.h"

namespace plimsoll::planner {

// Sets what layers that keep a state need. The third and the last of six layers
// attend; of a Nemotron-H, the second and the fifth are FFNs.
inline void AddStates(const Architecture& architecture,
                      HeaderNumbers& numbers) {
  if (architecture.recurrent_layers == RecurrentRule::kInterval) {
    numbers.List("attention.recurrent_layers", GgufType::kBool,
                 {1, 1, 0, 1, 1, 0});
  } else {
    numbers.List("attention.head_count_kv", GgufType::kI32, {0, 0, 2, 0, 0, 2});
  }
  if (architecture.has_single_sublayers) {
    numbers.List("feed_forward_length", GgufType::kI32, {0, 96, 0, 0, 96, 0});
  }
  numbers.Int("shortconv.l_cache", 3)
      .Int("ssm.conv_kernel", 4)
      .Int("ssm.state_size", 16)
      .Int("ssm.group_count", 2)
      .Int("ssm.time_step_rank", 4)
      .Int("ssm.inner_size", 64);
}

// Six layers of any architecture.
inline HeaderNumbers Small(const std::string& architecture) {
  HeaderNumbers numbers(architecture);
  numbers.Int("context_length", 4'096)
      .Int("embedding_length", 64)
      .Int("block_count", 6)
      .Int("feed_forward_length", 96)
      .Int("attention.head_count", 4)
      .Int("attention.head_count_kv", 2)
      .Int("attention.key_length", 32)
      .Int("attention.value_length", 32)
      .Int("vocab_size", 100);
  if (architecture == "deepseek2") {
    numbers.Int("attention.head_count_kv", 1)
        .Int("attention.kv_lora_rank", 32)
        .Int("attention.key_length", 48)
        .Int("attention.key_length_mla", 40)
        .Int("attention.value_length_mla", 24)
        .Int("rope.dimension_count", 16);
  }
  const Architecture* const known = FindArchitecture(architecture);
  if (known != nullptr && known->recurrent_layers != RecurrentRule::kNone) {
    AddStates(*known, numbers);
  }
  return numbers;
}

inline absl::StatusOr<ModelShape> ShapeOf(HeaderNumbers numbers) {
  GgufHeader& header = numbers.header();
  const absl::Status added =
      AddTensors(header, {DType::kQ8_0, DType::kQ8_0, DType::kQ4_0}, true);
  if (!added.ok()) return added;
  return ShapeFromGguf(header);
}

inline bool HasTensor(const ModelShape& shape, const std::string& name) {
  return std::any_of(shape.weights.begin(), shape.weights.end(),
                     [&](const auto& tensor) { return tensor.name == name; });
}

inline void ExpectInvalid(const HeaderNumbers& numbers,
                          const std::string& words) {
  const auto shape = ShapeOf(numbers);
  EXPECT_TRUE(absl::IsInvalidArgument(shape.status())) << shape.status();
  EXPECT_THAT(std::string(shape.status().message()),
              ::testing::HasSubstr(words));
}

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_TESTS_PLANNER_MODEL_SMALL_MODELS_H_
