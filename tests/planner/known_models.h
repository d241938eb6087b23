// Published models without their files: their numbers as a header has them.
#ifndef PLIMSOLL_TESTS_PLANNER_KNOWN_MODELS_H_
#define PLIMSOLL_TESTS_PLANNER_KNOWN_MODELS_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "planner/gguf_reader.h"
#include "planner/model_shape.h"

namespace plimsoll::planner {

class HeaderNumbers {
 public:
  explicit HeaderNumbers(const std::string& architecture)
      : prefix_(architecture + ".") {
    header_.alignment = 32;
    Text("general.architecture", architecture);
    Text("tokenizer.ggml.model", "no_vocab");
    header_.metadata[prefix_ + "attention.layer_norm_rms_epsilon"] = {
        GgufType::kF32, 1e-6};
  }

  HeaderNumbers& Int(const std::string& key, uint64_t value) {
    header_.metadata[prefix_ + key] = {GgufType::kU32, value};
    return *this;
  }
  HeaderNumbers& List(const std::string& key, GgufType type,
                      const std::vector<double>& values) {
    const auto n = static_cast<int64_t>(values.size());
    header_.metadata[prefix_ + key] = {GgufType::kArray,
                                       GgufArray{type, n, 0, 0, values}};
    return *this;
  }
  HeaderNumbers& Text(const std::string& key, const std::string& value) {
    header_.metadata[key] = {GgufType::kString, value};
    return *this;
  }
  GgufHeader& header() { return header_; }

  // With tensors of these types.
  ModelShape Shape(DType dtype, DType embedding, bool tied_output) {
    GgufHeader header = header_;
    EXPECT_TRUE(
        AddTensors(header, {dtype, embedding, dtype}, tied_output).ok());
    const auto shape = ShapeFromGguf(header);
    EXPECT_TRUE(shape.ok()) << shape.status();
    return shape.ok() ? *shape : ModelShape{};
  }

 private:
  std::string prefix_;
  GgufHeader header_ = {};
};

// Gemma 4 12B. Source: MODELS.md 3.7.
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

// Qwen3-8B. Source: MODELS.md 3.3.
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

inline ModelShape Gemma4() {
  return Gemma4Numbers().Shape(DType::kQ4_0, DType::kQ6_K, true);
}
inline ModelShape Qwen3() {
  return Qwen3Numbers().Shape(DType::kQ4_K, DType::kQ6_K, false);
}

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_TESTS_PLANNER_KNOWN_MODELS_H_
