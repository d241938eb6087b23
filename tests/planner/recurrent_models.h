// Published models with layers that keep a state, without their files: the
// numbers of their config.json, as a header has them.
#ifndef PLIMSOLL_TESTS_PLANNER_RECURRENT_MODELS_H_
#define PLIMSOLL_TESTS_PLANNER_RECURRENT_MODELS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "planner/gguf/header_numbers.h"

namespace plimsoll::planner {

// The widths of a Mamba 2 layer or of a delta net, whose convolutions have 4
// taps in all of these models.
struct StateNumbers {
  uint64_t n_heads, head_dim, state_dim, n_groups;
};

inline void AddStateNumbers(const StateNumbers& n, HeaderNumbers& numbers) {
  numbers.Int("ssm.conv_kernel", 4)
      .Int("ssm.state_size", n.state_dim)
      .Int("ssm.group_count", n.n_groups)
      .Int("ssm.time_step_rank", n.n_heads)
      .Int("ssm.inner_size", n.n_heads * n.head_dim);
}

inline void AddAttention(uint64_t n_heads, uint64_t head_dim,
                         HeaderNumbers& numbers) {
  numbers.Int("attention.head_count", n_heads)
      .Int("attention.key_length", head_dim)
      .Int("attention.value_length", head_dim);
}

// A list with `value` where `kinds` has `kind`, and 0 elsewhere.
inline std::vector<double> Where(absl::string_view kinds, char kind,
                                 double value) {
  std::vector<double> list;
  for (const char c : kinds) list.push_back(c == kind ? value : 0);
  return list;
}

// LFM2 1.2B: * attends.
inline HeaderNumbers Lfm2Numbers() {
  HeaderNumbers numbers("lfm2");
  numbers.Int("context_length", 128'000)
      .Int("embedding_length", 2'048)
      .Int("block_count", 16)
      .Int("feed_forward_length", 8'192)
      .Int("attention.head_count", 32)
      .List("attention.head_count_kv", GgufType::kI32,
            Where("cc*cc*cc*c*c*c*c", '*', 8))
      .Int("shortconv.l_cache", 3)
      .Int("vocab_size", 65'536);
  return numbers;
}

// Qwen3-Next-80B-A3B.
inline HeaderNumbers Qwen3NextNumbers() {
  HeaderNumbers numbers("qwen3next");
  numbers.Int("context_length", 262'144)
      .Int("embedding_length", 2'048)
      .Int("block_count", 48)
      .Int("feed_forward_length", 5'120)
      .Int("attention.head_count_kv", 2)
      .Int("rope.dimension_count", 64)
      .Int("full_attention_interval", 4)
      .Int("expert_count", 512)
      .Int("expert_used_count", 10)
      .Int("expert_feed_forward_length", 512)
      .Int("expert_shared_feed_forward_length", 512)
      .Int("vocab_size", 151'936);
  AddAttention(16, 256, numbers);
  AddStateNumbers({32, 128, 128, 16}, numbers);
  return numbers;
}

// Granite 4.0 H, of which four of forty layers attend.
struct GraniteNumbers {
  uint64_t dim, n_heads, n_kv_heads, head_dim, ffn_dim;
  StateNumbers state;
};
inline HeaderNumbers Granite4Numbers(const GraniteNumbers& n) {
  std::vector<double> kv_heads(40);
  for (const size_t il : {5u, 15u, 25u, 35u}) {
    kv_heads[il] = static_cast<double>(n.n_kv_heads);
  }
  HeaderNumbers numbers("granitehybrid");
  numbers.Int("context_length", 131'072)
      .Int("embedding_length", n.dim)
      .Int("block_count", 40)
      .Int("feed_forward_length", n.ffn_dim)
      .List("attention.head_count_kv", GgufType::kI32, kv_heads)
      .Int("vocab_size", 100'352);
  AddAttention(n.n_heads, n.head_dim, numbers);
  AddStateNumbers(n.state, numbers);
  return numbers;
}
inline HeaderNumbers Granite4MicroNumbers() {
  return Granite4Numbers({2'048, 32, 8, 64, 8'192, {64, 64, 128, 1}});
}
inline HeaderNumbers Granite4TinyNumbers() {
  HeaderNumbers numbers =
      Granite4Numbers({1'536, 12, 4, 128, 512, {48, 64, 128, 1}});
  numbers.Int("expert_count", 64)
      .Int("expert_used_count", 6)
      .Int("expert_shared_feed_forward_length", 1'024);
  return numbers;
}
inline HeaderNumbers Granite4SmallNumbers() {
  HeaderNumbers numbers =
      Granite4Numbers({4'096, 32, 8, 128, 768, {128, 64, 128, 1}});
  numbers.Int("expert_count", 72)
      .Int("expert_used_count", 10)
      .Int("expert_shared_feed_forward_length", 1'536);
  return numbers;
}

// Nemotron-H and its successors: M is Mamba 2, * attends, - is an FFN.
struct NemotronNumbers {
  const char* architecture;
  const char* kinds;
  uint64_t dim, n_heads, n_kv_heads, ffn_dim;
  StateNumbers state;
};
inline HeaderNumbers NemotronHNumbers(const NemotronNumbers& n) {
  const absl::string_view kinds = n.kinds;
  HeaderNumbers numbers(n.architecture);
  numbers.Int("context_length", 131'072)
      .Int("embedding_length", n.dim)
      .Int("block_count", kinds.size())
      .List("feed_forward_length", GgufType::kI32,
            Where(kinds, '-', static_cast<double>(n.ffn_dim)))
      .List("attention.head_count_kv", GgufType::kI32,
            Where(kinds, '*', static_cast<double>(n.n_kv_heads)))
      .Int("vocab_size", 131'072);
  AddAttention(n.n_heads, 128, numbers);
  AddStateNumbers(n.state, numbers);
  return numbers;
}
// Nemotron-H-8B.
inline HeaderNumbers NemotronH8bNumbers() {
  return NemotronHNumbers(
      {"nemotron_h",
       "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
       4'096,
       32,
       8,
       21'504,
       {128, 64, 128, 8}});
}
// NVIDIA-Nemotron-Nano-9B-v2.
inline HeaderNumbers NemotronNano9bNumbers() {
  return NemotronHNumbers(
      {"nemotron_h",
       "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-",
       4'480,
       40,
       8,
       15'680,
       {128, 80, 128, 8}});
}
// NVIDIA-Nemotron-3-Nano-30B-A3B, whose FFNs have experts.
inline HeaderNumbers Nemotron3NanoNumbers() {
  HeaderNumbers numbers =
      NemotronHNumbers({"nemotron_h_moe",
                        "M-M-M*-M-M-M*-M-M-M*-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M-",
                        2'688,
                        32,
                        2,
                        1'856,
                        {64, 64, 128, 8}});
  numbers.Int("expert_count", 128)
      .Int("expert_used_count", 6)
      .Int("expert_shared_count", 1)
      .Int("expert_feed_forward_length", 1'856)
      .Int("expert_shared_feed_forward_length", 3'712);
  return numbers;
}

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_TESTS_PLANNER_RECURRENT_MODELS_H_
