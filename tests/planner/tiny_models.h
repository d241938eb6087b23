// Small complete models of every architecture, for tests.
#ifndef PLIMSOLL_TESTS_PLANNER_TINY_MODELS_H_
#define PLIMSOLL_TESTS_PLANNER_TINY_MODELS_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/planner/gguf/gguf_builder.h"

namespace plimsoll::planner {

// What a test wants different from a good model. A key or tensor named in
// `skip` is left out, so that the test can add its own.
struct TinyModel {
  std::string architecture = "llama";
  uint32_t n_layers = 2;
  uint32_t model_dim = 64;
  uint32_t n_heads = 4;
  uint32_t n_kv_heads = 2;
  uint32_t head_dim = 16;
  uint32_t ffn_dim = 96;
  uint32_t vocab = 40;
  uint32_t n_ctx = 256;
  uint32_t window = 0;  // gemma3 only
  DType dtype = DType::kQ8_0;
  bool has_vocab = false;
  std::vector<std::string> skip;

  bool Skips(absl::string_view name) const {
    return std::find(skip.begin(), skip.end(), name) != skip.end();
  }
};

namespace internal {

inline void AddVocab(const TinyModel& m, GgufBuilder& b) {
  const absl::string_view p = "tokenizer.ggml.";
  if (!m.has_vocab) {
    if (!m.Skips("model")) b.Text(absl::StrCat(p, "model"), "no_vocab");
    return;
  }
  std::vector<std::string> tokens;
  for (uint32_t i = 0; i < m.vocab; ++i) tokens.push_back(absl::StrCat("t", i));
  if (!m.Skips("model")) b.Text(absl::StrCat(p, "model"), "llama");
  if (!m.Skips("tokens")) b.Strings(absl::StrCat(p, "tokens"), tokens);
  if (!m.Skips("scores")) {
    b.Array(absl::StrCat(p, "scores"), GgufType::kF32,
            std::vector<float>(m.vocab));
  }
  if (!m.Skips("token_type")) {
    b.Array(absl::StrCat(p, "token_type"), GgufType::kI32,
            std::vector<int32_t>(m.vocab, 1));
  }
  if (!m.Skips("bos_token_id")) b.U32(absl::StrCat(p, "bos_token_id"), 1);
}

inline void AddTensors(const TinyModel& m, GgufBuilder& b) {
  const auto add = [&](const std::string& name, DType dtype,
                       const std::vector<uint64_t>& ne) {
    if (!m.Skips(name)) b.Tensor(name, dtype, ne);
  };
  const uint64_t d = m.model_dim;
  const uint64_t q = uint64_t{m.n_heads} * m.head_dim;
  const uint64_t kv = uint64_t{m.n_kv_heads} * m.head_dim;
  add("token_embd.weight", m.dtype, {d, m.vocab});
  add("output_norm.weight", DType::kF32, {d});
  for (uint32_t i = 0; i < m.n_layers; ++i) {
    const std::string p = absl::StrCat("blk.", i, ".");
    add(p + "attn_norm.weight", DType::kF32, {d});
    add(p + "attn_q.weight", m.dtype, {d, q});
    add(p + "attn_k.weight", m.dtype, {d, kv});
    add(p + "attn_v.weight", m.dtype, {d, kv});
    add(p + "attn_output.weight", m.dtype, {q, d});
    add(p + "ffn_norm.weight", DType::kF32, {d});
    add(p + "ffn_gate.weight", m.dtype, {d, m.ffn_dim});
    add(p + "ffn_up.weight", m.dtype, {d, m.ffn_dim});
    add(p + "ffn_down.weight", m.dtype, {m.ffn_dim, d});
    if (m.architecture == "qwen2") {
      add(p + "attn_q.bias", DType::kF32, {q});
      add(p + "attn_k.bias", DType::kF32, {kv});
      add(p + "attn_v.bias", DType::kF32, {kv});
    }
    const bool is_gemma =
        m.architecture == "gemma3" || m.architecture == "gemma4";
    if (!is_gemma && m.architecture != "qwen3") continue;
    add(p + "attn_q_norm.weight", DType::kF32, {m.head_dim});
    add(p + "attn_k_norm.weight", DType::kF32, {m.head_dim});
    if (!is_gemma) continue;
    add(p + "post_attention_norm.weight", DType::kF32, {d});
    add(p + "post_ffw_norm.weight", DType::kF32, {d});
  }
}

}  // namespace internal

// A builder with everything of `m`; tests may add to it before Build.
inline GgufBuilder BuilderOf(const TinyModel& m) {
  GgufBuilder b;
  const auto u32 = [&](absl::string_view name, uint32_t value) {
    if (!m.Skips(name)) b.U32(absl::StrCat(m.architecture, ".", name), value);
  };
  const auto f32 = [&](absl::string_view name, float value) {
    if (!m.Skips(name)) b.F32(absl::StrCat(m.architecture, ".", name), value);
  };
  if (!m.Skips("general.architecture")) {
    b.Text("general.architecture", m.architecture);
  }
  b.Text("general.name", "tiny");
  u32("block_count", m.n_layers);
  u32("context_length", m.n_ctx);
  u32("embedding_length", m.model_dim);
  u32("feed_forward_length", m.ffn_dim);
  u32("attention.head_count", m.n_heads);
  u32("attention.head_count_kv", m.n_kv_heads);
  u32("attention.key_length", m.head_dim);
  u32("attention.value_length", m.head_dim);
  f32("attention.layer_norm_rms_epsilon", 1e-5f);
  f32("rope.freq_base", 10'000.0f);
  if (m.window > 0) u32("attention.sliding_window", m.window);
  if (m.architecture == "gemma4") u32("attention.sliding_window_pattern", 6);
  internal::AddVocab(m, b);
  internal::AddTensors(m, b);
  return b;
}

// A model that can be planned but not run: no graph reads the bias of an
// output.
inline GgufBuilder PlannedOnlyBuilder() {
  TinyModel model;
  model.architecture = "qwen2";
  GgufBuilder b = BuilderOf(model);
  b.Tensor("output.bias", DType::kF32, {model.vocab});
  return b;
}

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_TESTS_PLANNER_TINY_MODELS_H_
