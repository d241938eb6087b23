// Published models without their files: their numbers as a header has them.
#ifndef PLIMSOLL_TESTS_PLANNER_KNOWN_MODELS_H_
#define PLIMSOLL_TESTS_PLANNER_KNOWN_MODELS_H_

#include <gtest/gtest.h>

#include <vector>

#include "planner/gguf/header_numbers.h"
#include "planner/model/model_shape.h"

namespace plimsoll::planner {

// The shape of a header's numbers with tensors of these types.
inline ModelShape ShapeWith(HeaderNumbers numbers, DType dtype, DType embedding,
                            bool tied_output) {
  EXPECT_TRUE(
      AddTensors(numbers.header(), {dtype, embedding, dtype}, tied_output)
          .ok());
  const auto shape = ShapeFromGguf(numbers.header());
  EXPECT_TRUE(shape.ok()) << shape.status();
  return shape.ok() ? *shape : ModelShape{};
}

// Gemma 4 12B, with the numbers of its GGUF file.
inline HeaderNumbers Gemma4Numbers() {
  constexpr int kLayers = 48;
  std::vector<double> slides;
  std::vector<double> kv_heads;
  for (int il = 0; il < kLayers; ++il) {
    slides.push_back(il % 6 == 5 ? 0 : 1);
    kv_heads.push_back(il % 6 == 5 ? 1 : 8);
  }
  HeaderNumbers numbers("gemma4");
  numbers.Int("context_length", 262'144)
      .Int("embedding_length", 3'840)
      .Int("block_count", kLayers)
      .Int("feed_forward_length", 15'360)
      .Int("attention.head_count", 16)
      .List("attention.head_count_kv", GgufType::kU32, kv_heads)
      .Int("attention.key_length", 512)
      .Int("attention.value_length", 512)
      .Int("attention.key_length_swa", 256)
      .Int("attention.value_length_swa", 256)
      .Int("attention.sliding_window", 1'024)
      .List("attention.sliding_window_pattern", GgufType::kBool, slides)
      .Int("vocab_size", 262'144);
  return numbers;
}

// Qwen3-8B, with the numbers of its GGUF file.
inline HeaderNumbers Qwen3Numbers() {
  HeaderNumbers numbers("qwen3");
  numbers.Int("context_length", 40'960)
      .Int("embedding_length", 4'096)
      .Int("block_count", 36)
      .Int("feed_forward_length", 12'288)
      .Int("attention.head_count", 32)
      .Int("attention.head_count_kv", 8)
      .Int("attention.key_length", 128)
      .Int("attention.value_length", 128)
      .Int("vocab_size", 151'936);
  return numbers;
}

// What the models of DeepSeek have in common.
inline HeaderNumbers DeepseekNumbers() {
  HeaderNumbers numbers("deepseek2");
  numbers.Int("context_length", 163'840)
      .Int("attention.head_count_kv", 1)
      .Int("attention.kv_lora_rank", 512)
      .Int("attention.key_length", 576)
      .Int("attention.value_length", 512)
      .Int("attention.key_length_mla", 192)
      .Int("attention.value_length_mla", 128)
      .Int("rope.dimension_count", 64);
  return numbers;
}

// DeepSeek V3, with the numbers of its GGUF file.
inline HeaderNumbers DeepseekV3Numbers() {
  HeaderNumbers numbers = DeepseekNumbers();
  numbers.Int("embedding_length", 7'168)
      .Int("block_count", 61)
      .Int("feed_forward_length", 18'432)
      .Int("leading_dense_block_count", 3)
      .Int("attention.head_count", 128)
      .Int("attention.q_lora_rank", 1'536)
      .Int("expert_count", 256)
      .Int("expert_used_count", 8)
      .Int("expert_shared_count", 1)
      .Int("expert_feed_forward_length", 2'048)
      .Int("vocab_size", 129'280);
  return numbers;
}

// DeepSeek V2 Lite, with the numbers of its GGUF file.
inline HeaderNumbers DeepseekV2LiteNumbers() {
  HeaderNumbers numbers = DeepseekNumbers();
  numbers.Int("embedding_length", 2'048)
      .Int("block_count", 27)
      .Int("feed_forward_length", 10'944)
      .Int("leading_dense_block_count", 1)
      .Int("attention.head_count", 16)
      .Int("expert_count", 64)
      .Int("expert_used_count", 6)
      .Int("expert_shared_count", 2)
      .Int("expert_feed_forward_length", 1'408)
      .Int("vocab_size", 102'400);
  return numbers;
}

inline ModelShape Gemma4() {
  return ShapeWith(Gemma4Numbers(), DType::kQ4_0, DType::kQ6_K, true);
}
inline ModelShape Qwen3() {
  return ShapeWith(Qwen3Numbers(), DType::kQ4_K, DType::kQ6_K, false);
}

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_TESTS_PLANNER_KNOWN_MODELS_H_
