// Small models of any architecture, for tests of their layers and tensors.
#ifndef PLIMSOLL_TESTS_PLANNER_MODEL_SMALL_MODELS_H_
#define PLIMSOLL_TESTS_PLANNER_MODEL_SMALL_MODELS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/status/statusor.h"
#include "planner/gguf/header_numbers.h"
#include "planner/model/model_shape.h"

namespace plimsoll::planner {

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
