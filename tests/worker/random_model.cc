#include "tests/worker/random_model.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/worker/file_writer.h"
#include "tests/worker/random_tensor.h"
#include "tests/worker/random_vocab.h"

namespace plimsoll::testing {
namespace {

// The heads of a layer, and whether it has keys.
struct LayerHeads {
  uint32_t dim;
  uint32_t n_kv;
  bool has_window;
  bool owns_kv;
};

LayerHeads HeadsOf(const RandomModel& m, uint32_t il) {
  const bool has_window = !m.pattern.empty() && m.pattern[il];
  const bool differs = has_window && m.window_head_dim > 0;
  return {.dim = differs ? m.window_head_dim : m.head_dim,
          .n_kv = differs ? m.window_kv_heads : m.n_kv_heads,
          .has_window = has_window,
          .owns_kv = il >= m.n_layers || il + m.n_shared_kv < m.n_layers};
}

void WriteGemma4(const RandomModel& m, Writer& w) {
  std::vector<int32_t> kv_heads;
  for (uint32_t il = 0; il < m.n_layers; ++il) {
    kv_heads.push_back(static_cast<int32_t>(HeadsOf(m, il).n_kv));
  }
  w.Values("gemma4.attention.head_count_kv", 5, kv_heads);
  w.U32("gemma4.attention.key_length_swa", m.window_head_dim);
  w.U32("gemma4.attention.value_length_swa", m.window_head_dim);
  w.U32("gemma4.attention.shared_kv_layers", m.n_shared_kv);
  w.U32("gemma4.embedding_length_per_layer_input", m.ple_dim);
}

void WriteGemma3n(const RandomModel& m, Writer& w) {
  // The first half of the layers has few gates.
  std::vector<float> deviations(m.n_layers, -HUGE_VALF);
  std::fill_n(deviations.begin(), m.n_layers / 2, 1.6448534f);
  w.Values("gemma3n.activation_sparsity_scale", 6, deviations);
  w.U32("gemma3n.altup.active_idx", 0);
  w.U32("gemma3n.altup.num_inputs", m.n_streams);
  w.U32("gemma3n.attention.shared_kv_layers", m.n_shared_kv);
  w.U32("gemma3n.embedding_length_per_layer_input", m.ple_dim);
}

// The widths of keys and values.
void WriteLatent(const RandomModel& m, Writer& w) {
  const std::string a = m.architecture + ".";
  w.U32(a + "attention.key_length", m.latent_rank + m.rotated_dim);
  w.U32(a + "attention.value_length", m.latent_rank);
  w.U32(a + "attention.key_length_mla", m.head_dim);
  w.U32(a + "attention.value_length_mla", m.value_dim);
  w.U32(a + "attention.kv_lora_rank", m.latent_rank);
  w.U32(a + "attention.q_lora_rank", m.query_rank);
  w.U32(a + "rope.dimension_count", m.rotated_dim);
}

// A list with `value` for the layers of one kind, and 0 for the others.
std::vector<int32_t> Where(const RandomModel& m, char kind, uint32_t value) {
  std::vector<int32_t> list;
  for (const char c : m.kinds) {
    list.push_back(c == kind ? static_cast<int32_t>(value) : 0);
  }
  return list;
}

// Which layers keep a state, and how wide it is.
void WriteStates(const RandomModel& m, Writer& w) {
  const std::string a = m.architecture + ".";
  w.Values(a + "attention.head_count_kv", 5, Where(m, '*', m.n_kv_heads));
  const std::vector<int32_t> flags = Where(m, 's', 1);
  w.Values(a + "attention.recurrent_layers", 7,
           std::vector<uint8_t>(flags.begin(), flags.end()));
  w.U32(a + "shortconv.l_cache", 3);
  w.U32(a + "ssm.conv_kernel", 4);
  w.U32(a + "ssm.state_size", m.state_dim);
  w.U32(a + "ssm.group_count", m.state_groups);
  w.U32(a + "ssm.time_step_rank", m.state_heads);
  w.U32(a + "ssm.inner_size", m.state_heads * m.state_dim);
}

bool HasSingleSublayers(const RandomModel& m) {
  return m.architecture == "nemotron_h";
}

Writer Metadata(const RandomModel& m) {
  const bool is_gemma = absl::StartsWith(m.architecture, "gemma");
  const bool is_latent = m.latent_rank > 0;
  const std::string a = m.architecture + ".";
  Writer w;
  w.Text("general.architecture", m.architecture);
  w.U32(a + "block_count", m.n_layers + (m.has_mtp ? 1 : 0));
  if (m.has_mtp) w.U32(a + "nextn_predict_layers", 1);
  w.U32(a + "context_length", kRandomContext);
  w.U32(a + "embedding_length", m.dim);
  if (HasSingleSublayers(m)) {
    w.Values(a + "feed_forward_length", 5, Where(m, '-', m.ffn_dim));
  } else {
    w.U32(a + "feed_forward_length", m.ffn_dim);
  }
  w.U32(a + "attention.head_count", m.n_heads);
  if (m.architecture == "gemma4") {
    WriteGemma4(m, w);
  } else if (!m.kinds.empty()) {
    WriteStates(m, w);
  } else {
    w.U32(a + "attention.head_count_kv", m.n_kv_heads);
  }
  if (m.architecture == "gemma3n") WriteGemma3n(m, w);
  if (is_latent) {
    WriteLatent(m, w);
  } else {
    w.U32(a + "attention.key_length", m.head_dim);
    w.U32(a + "attention.value_length", m.head_dim);
  }
  w.F32(a + "attention.layer_norm_rms_epsilon", 1e-5f);
  w.F32(a + "rope.freq_base", m.architecture == "gemma3" ? 1e6f : 1e4f);
  if (!is_gemma && !is_latent) w.U32(a + "rope.dimension_count", m.head_dim);
  if (m.window > 0) w.U32(a + "attention.sliding_window", m.window);
  if (m.n_experts > 0) {
    w.U32(a + "expert_count", m.n_experts);
    w.U32(a + "expert_used_count", m.n_experts_used);
    w.U32(a + "expert_feed_forward_length", m.expert_ffn_dim);
  }
  if (m.expert_gating > 0) w.U32(a + "expert_gating_func", m.expert_gating);
  if (m.expert_scale != 0) w.F32(a + "expert_weights_scale", m.expert_scale);
  if (m.shared_ffn_dim > 0) {
    w.U32(a + "expert_shared_feed_forward_length", m.shared_ffn_dim);
  }
  if (m.score_cap > 0) w.F32(a + "attn_logit_softcapping", m.score_cap);
  if (m.logit_cap > 0) w.F32(a + "final_logit_softcapping", m.logit_cap);
  if (!m.pattern.empty()) {
    w.Values(a + "attention.sliding_window_pattern", 7,
             std::vector<uint8_t>(m.pattern.begin(), m.pattern.end()));
  }
  if (m.rope_factor > 0) {
    w.Text(a + "rope.scaling.type", "linear");
    w.F32(a + "rope.scaling.factor", m.rope_factor);
  }
  is_gemma ? WriteSpmVocab(m.last_tokens, w) : WriteBpeVocab(w);
  if (!m.suppressed_tokens.empty()) {
    w.Values("tokenizer.ggml.suppress_tokens", 5, m.suppressed_tokens);
  }
  if (!m.chat_template.empty()) {
    w.Text("tokenizer.chat_template", m.chat_template);
  }
  return w;
}

class TensorList {
 public:
  explicit TensorList(const RandomModel& model) : model_(model) {}

  void Add(const std::string& prefix, const std::string& role, uint64_t cols,
           uint64_t rows) {
    const auto it = model_.types.find(role);
    const DType type =
        it == model_.types.end() ? model_.default_type : it->second;
    tensors_.push_back({prefix + role + ".weight",
                        rows == 1 ? DType::kF32 : type, cols, rows});
    if (rows == 1 || role == "token_embd") return;
    tensors_.back().scale_exponent = model_.scale_exponent;
  }
  void AddMany(const std::string& prefix, const std::string& role,
               uint64_t cols, uint64_t rows, uint64_t n) {
    Add(prefix, role, cols, rows);
    tensors_.back().n_matrices = n;
  }
  void AddExperts(const std::string& prefix, const std::string& role,
                  uint64_t cols, uint64_t rows) {
    AddMany(prefix, role, cols, rows, model_.n_experts);
  }
  void AddVector(const std::string& name, uint64_t n) {
    tensors_.push_back({name, DType::kF32, n, 1});
  }
  void AddBias(const std::string& of, uint64_t n) {
    AddVector(of + ".bias", n);
  }
  // A bias of each expert.
  void AddBiases(const std::string& of, uint64_t n) {
    tensors_.push_back({of + ".bias", DType::kF32, n, model_.n_experts});
  }
  // `n` vectors, one after the other.
  void AddVectors(const std::string& name, uint64_t cols, uint64_t n) {
    tensors_.push_back({name, DType::kF32, cols, n});
  }
  void AddSinks(const std::string& prefix) {
    Add(prefix, "attn_sinks", model_.n_heads, 1);
    tensors_.back().base = 2;
  }
  void AddHeadNorm(const std::string& prefix, const std::string& role,
                   uint64_t dim) {
    Add(prefix, role, dim, 1);
    // Its scores are not divided by the root of a head's width.
    if (model_.architecture == "gemma3n" || model_.architecture == "gemma4") {
      tensors_.back().base = 0.75f;
    }
  }
  std::vector<Tensor> Take() {
    AddScales();
    return std::move(tensors_);
  }

 private:
  void AddScales() {
    for (size_t i = 0, n = tensors_.size(); i < n; ++i) {
      const Tensor product = tensors_[i];
      if (product.scale_exponent == 0) continue;
      AddVector(absl::StrReplaceAll(product.name, {{".weight", ".scale"}}),
                product.n_matrices);
      tensors_.back().scale_exponent = -product.scale_exponent;
    }
  }

  const RandomModel& model_;
  std::vector<Tensor> tensors_;
};

// Gemma 4 has gate and up in one tensor, and a dense FFN beside the experts.
void AddExpertTensors(const RandomModel& m, const std::string& p,
                      TensorList& list) {
  list.Add(p, "ffn_gate_inp", m.dim, m.n_experts);
  list.AddExperts(p, "ffn_down_exps", m.expert_ffn_dim, m.dim);
  if (m.architecture != "gemma4") {
    list.AddExperts(p, "ffn_gate_exps", m.dim, m.expert_ffn_dim);
    list.AddExperts(p, "ffn_up_exps", m.dim, m.expert_ffn_dim);
    if (m.architecture != "gpt-oss") return;
    list.AddBias(p + "ffn_gate_inp", m.n_experts);
    list.AddBiases(p + "ffn_gate_exps", m.expert_ffn_dim);
    list.AddBiases(p + "ffn_up_exps", m.expert_ffn_dim);
    list.AddBiases(p + "ffn_down_exps", m.dim);
    return;
  }
  list.AddExperts(p, "ffn_gate_up_exps", m.dim, 2 * m.expert_ffn_dim);
  list.AddVector(p + "ffn_gate_inp.scale", m.dim);
  list.AddVector(p + "ffn_down_exps.scale", m.n_experts);
  list.Add(p, "pre_ffw_norm_2", m.dim, 1);
  list.Add(p, "post_ffw_norm_1", m.dim, 1);
  list.Add(p, "post_ffw_norm_2", m.dim, 1);
}

// The tensors of a layer that has several residual streams, and of its branch
// beside attention.
void AddStreamTensors(const RandomModel& m, const std::string& p,
                      TensorList& list) {
  constexpr uint64_t kBranchRank = 64;
  list.Add(p, "altup_correct_coef", m.n_streams, m.n_streams);
  list.Add(p, "altup_correct_scale", m.dim, 1);
  list.Add(p, "altup_predict_coef", m.n_streams, m.n_streams * m.n_streams);
  list.Add(p, "altup_router", m.dim, m.n_streams);
  list.Add(p, "altup_router_norm", m.dim, 1);
  list.Add(p, "laurel_l", m.dim, kBranchRank);
  list.Add(p, "laurel_r", kBranchRank, m.dim);
  list.Add(p, "laurel_post_norm", m.dim, 1);
}

void AddLatentTensors(const RandomModel& m, const std::string& p,
                      TensorList& list) {
  list.Add(p, "attn_q_a", m.dim, m.query_rank);
  list.Add(p, "attn_q_a_norm", m.query_rank, 1);
  list.Add(p, "attn_q_b", m.query_rank, uint64_t{m.n_heads} * m.head_dim);
  list.Add(p, "attn_kv_a_mqa", m.dim, m.latent_rank + m.rotated_dim);
  list.Add(p, "attn_kv_a_norm", m.latent_rank, 1);
  list.AddMany(p, "attn_k_b", m.head_dim - m.rotated_dim, m.latent_rank,
               m.n_heads);
  list.AddMany(p, "attn_v_b", m.latent_rank, m.value_dim, m.n_heads);
  list.Add(p, "attn_output", uint64_t{m.n_heads} * m.value_dim, m.dim);
}

void AddMamba2Tensors(const RandomModel& m, const std::string& p,
                      TensorList& list) {
  const uint64_t inner = uint64_t{m.state_heads} * m.state_dim;
  const uint64_t channels = inner + 2 * uint64_t{m.state_groups} * m.state_dim;
  list.Add(p, "ssm_in", m.dim, inner + channels + m.state_heads);
  list.AddVectors(p + "ssm_conv1d.weight", 4, channels);
  list.AddBias(p + "ssm_conv1d", channels);
  list.AddBias(p + "ssm_dt", m.state_heads);
  list.AddVectors(p + "ssm_a", 1, m.state_heads);
  list.AddVectors(p + "ssm_d", 1, m.state_heads);
  list.AddVectors(p + "ssm_norm.weight", inner / m.state_groups,
                  m.state_groups);
  list.Add(p, "ssm_out", inner, m.dim);
}

void AddDeltaNetTensors(const RandomModel& m, const std::string& p,
                        TensorList& list) {
  const uint64_t inner = uint64_t{m.state_heads} * m.state_dim;
  const uint64_t channels = inner + 2 * uint64_t{m.state_groups} * m.state_dim;
  list.Add(p, "attn_qkv", m.dim, channels);
  list.Add(p, "attn_gate", m.dim, inner);
  list.AddVectors(p + "ssm_conv1d.weight", 4, channels);
  list.AddBias(p + "ssm_dt", m.state_heads);
  list.AddVector(p + "ssm_a", m.state_heads);
  if (m.architecture == "qwen3next") {
    list.Add(p, "ssm_ba", m.dim, 2 * uint64_t{m.state_heads});
  } else {
    list.Add(p, "ssm_alpha", m.dim, m.state_heads);
    list.Add(p, "ssm_beta", m.dim, m.state_heads);
  }
  list.Add(p, "ssm_norm", m.state_dim, 1);
  list.Add(p, "ssm_out", inner, m.dim);
}

// The tensors of a layer that keeps a state.
void AddStateTensors(const RandomModel& m, const std::string& p,
                     TensorList& list) {
  if (m.architecture == "granitehybrid" || m.architecture == "nemotron_h") {
    AddMamba2Tensors(m, p, list);
  } else if (m.architecture == "lfm2") {
    list.AddVectors(p + "shortconv.conv.weight", 3, m.dim);
    list.Add(p, "shortconv.in_proj", m.dim, 3 * uint64_t{m.dim});
    list.Add(p, "shortconv.out_proj", m.dim, m.dim);
  } else {
    AddDeltaNetTensors(m, p, list);
  }
}

bool IsQwenWithStates(const RandomModel& m) {
  return m.architecture == "qwen35" || m.architecture == "qwen3next";
}

// Queries, keys and values, and the output of attention.
void AddHeadTensors(const RandomModel& m, uint32_t il, const std::string& p,
                    TensorList& list) {
  const LayerHeads heads = HeadsOf(m, il);
  const uint64_t q = uint64_t{m.n_heads} * heads.dim;
  const uint64_t kv = uint64_t{heads.n_kv} * heads.dim;
  list.Add(p, "attn_q", m.dim, IsQwenWithStates(m) ? 2 * q : q);
  if (heads.owns_kv) list.Add(p, "attn_k", m.dim, kv);
  if (heads.owns_kv && (heads.has_window || m.has_values)) {
    list.Add(p, "attn_v", m.dim, kv);
  }
  list.Add(p, "attn_output", q, m.dim);
}

// The tensors of the FFN.
void AddFfnTensors(const RandomModel& m, const std::string& p,
                   TensorList& list) {
  if (m.n_experts > 0) AddExpertTensors(m, p, list);
  if (m.n_experts == 0 || m.architecture == "gemma4") {
    if (!HasSingleSublayers(m)) list.Add(p, "ffn_gate", m.dim, m.ffn_dim);
    list.Add(p, "ffn_up", m.dim, m.ffn_dim);
    list.Add(p, "ffn_down", m.ffn_dim, m.dim);
  }
  if (m.shared_ffn_dim == 0) return;
  list.Add(p, "ffn_gate_inp_shexp", m.dim, 1);
  list.Add(p, "ffn_gate_shexp", m.dim, m.shared_ffn_dim);
  list.Add(p, "ffn_up_shexp", m.dim, m.shared_ffn_dim);
  list.Add(p, "ffn_down_shexp", m.shared_ffn_dim, m.dim);
}

void AddLayerTensors(const RandomModel& m, uint32_t il, TensorList& list) {
  const LayerHeads heads = HeadsOf(m, il);
  const uint64_t q = uint64_t{m.n_heads} * heads.dim;
  const uint64_t kv = uint64_t{heads.n_kv} * heads.dim;
  const bool is_gemma4 = m.architecture == "gemma4";
  const std::string p = absl::StrCat("blk.", il, ".");
  const bool is_gpt_oss = m.architecture == "gpt-oss";
  const char kind = il < m.kinds.size() ? m.kinds[il] : '*';
  list.Add(p, "attn_norm", m.dim, 1);
  if (!HasSingleSublayers(m)) {
    const bool is_after = is_gpt_oss || IsQwenWithStates(m);
    list.Add(p, is_after ? "post_attention_norm" : "ffn_norm", m.dim, 1);
  }
  const bool is_gemma3n = m.architecture == "gemma3n";
  const bool norms_heads =
      is_gemma3n || is_gemma4 || m.architecture == "gemma3" ||
      m.architecture == "qwen3" || m.architecture == "qwen3moe" ||
      m.architecture == "lfm2" || IsQwenWithStates(m);
  if (norms_heads && kind == '*') {
    list.AddHeadNorm(p, "attn_q_norm", heads.dim);
    if (heads.owns_kv) list.AddHeadNorm(p, "attn_k_norm", heads.dim);
  }
  if (is_gpt_oss) {
    list.AddBias(p + "attn_output", m.dim);
    list.AddSinks(p);
  }
  if (is_gpt_oss || m.architecture == "qwen2" || m.architecture == "qwen2moe") {
    list.AddBias(p + "attn_q", q);
    list.AddBias(p + "attn_k", kv);
    list.AddBias(p + "attn_v", kv);
  }
  if (is_gemma3n || is_gemma4 || m.architecture == "gemma2" ||
      m.architecture == "gemma3") {
    list.Add(p, "post_attention_norm", m.dim, 1);
    list.Add(p, "post_ffw_norm", m.dim, 1);
  }
  if (is_gemma4) list.Add(p, "layer_output_scale", 1, 1);
  if (kind == 's') {
    AddStateTensors(m, p, list);
  } else if (m.latent_rank > 0) {
    AddLatentTensors(m, p, list);
  } else if (kind == '*') {
    AddHeadTensors(m, il, p, list);
  }
  if (!HasSingleSublayers(m) || kind == '-') AddFfnTensors(m, p, list);
  if (is_gemma3n) AddStreamTensors(m, p, list);
  if (m.ple_dim == 0) return;
  list.Add(p, "inp_gate", m.dim, m.ple_dim);
  list.Add(p, "proj", m.ple_dim, m.dim);
  list.Add(p, "post_norm", m.dim, 1);
}

// The tensors of the MTP head, the block after the layers.
void AddMtpTensors(const RandomModel& m, TensorList& list) {
  AddLayerTensors(m, m.n_layers, list);
  const std::string p = absl::StrCat("blk.", m.n_layers, ".nextn.");
  list.Add(p, "eh_proj", 2 * uint64_t{m.dim}, m.dim);
  for (const char* norm : {"enorm", "hnorm", "shared_head_norm"}) {
    list.Add(p, norm, m.dim, 1);
  }
}

std::vector<Tensor> Tensors(const RandomModel& m) {
  TensorList list(m);
  list.Add("", "token_embd", m.dim, kRandomVocab);
  if (m.has_rope_freqs) list.Add("", "rope_freqs", m.head_dim / 2, 1);
  if (m.ple_dim > 0) {
    const uint64_t all = uint64_t{m.ple_dim} * m.n_layers;
    list.Add("", "per_layer_token_embd", all, kRandomVocab);
    list.Add("", "per_layer_model_proj", m.dim, all);
    list.Add("", "per_layer_proj_norm", m.ple_dim, 1);
  }
  if (m.n_streams > 0) {
    list.AddMany("", "altup_proj", m.dim, m.dim, m.n_streams - 1);
    list.AddMany("", "altup_unembd_proj", m.dim, m.dim, m.n_streams - 1);
  }
  for (uint32_t il = 0; il < m.n_layers; ++il) AddLayerTensors(m, il, list);
  if (m.has_mtp) AddMtpTensors(m, list);
  list.Add("", m.architecture == "lfm2" ? "token_embd_norm" : "output_norm",
           m.dim, 1);
  if (m.is_untied) list.Add("", "output", m.dim, kRandomVocab);
  return list.Take();
}

// A file of these tensors.
Bytes FileBytes(const RandomModel& model, Writer metadata,
                const std::vector<Tensor>& tensors, const Spoil& spoil) {
  Writer data;
  Writer file;
  for (const char c : std::string("GGUF")) file.Raw(c);
  file.Raw(uint32_t{3});
  file.Raw(static_cast<uint64_t>(tensors.size()));
  file.Raw(metadata.n_values());
  file.Append(metadata.bytes());
  for (const Tensor& tensor : tensors) {
    file.String(tensor.name);
    const bool is_matrix = tensor.rows > 1;
    const bool is_many = tensor.n_matrices > 1;
    file.Raw(uint32_t{1} + (is_matrix ? 1u : 0u) + (is_many ? 1u : 0u));
    file.Raw(tensor.cols);
    if (is_matrix) file.Raw(tensor.rows);
    if (is_many) file.Raw(tensor.n_matrices);
    file.Raw(static_cast<uint32_t>(tensor.dtype));
    file.Raw(static_cast<uint64_t>(data.bytes().size()));
    Bytes bytes = TensorBytes(model.name, tensor);
    if (spoil) spoil(tensor.name, bytes);
    data.Append(bytes);
    data.Pad();
  }
  file.Pad();
  file.Append(data.bytes());
  return file.bytes();
}

}  // namespace

uint64_t Fnv1a(const void* data, size_t n) {
  uint64_t hash = 0xCBF29CE484222325;
  for (size_t i = 0; i < n; ++i) {
    hash = (hash ^ static_cast<const uint8_t*>(data)[i]) * 0x100000001B3;
  }
  return hash;
}

Bytes RandomModelBytes(const RandomModel& model) {
  return SpoiledModelBytes(model, nullptr);
}

Bytes SpoiledModelBytes(const RandomModel& model, const Spoil& spoil) {
  return FileBytes(model, Metadata(model), Tensors(model), spoil);
}

std::vector<Bytes> RandomModelShards(const RandomModel& model, int n_shards) {
  const std::vector<Tensor> all = Tensors(model);
  std::vector<Bytes> parts;
  for (int i = 0; i < n_shards; ++i) {
    Writer metadata = i == 0 ? Metadata(model) : Writer();
    metadata.U32("split.no", static_cast<uint32_t>(i));
    metadata.U32("split.count", static_cast<uint32_t>(n_shards));
    metadata.U32("split.tensors.count", static_cast<uint32_t>(all.size()));
    const auto begin = [&](int part) {
      return all.begin() + std::ssize(all) * part / n_shards;
    };
    parts.push_back(
        FileBytes(model, std::move(metadata), {begin(i), begin(i + 1)}, {}));
  }
  return parts;
}

std::vector<int32_t> RepeatingPrompt(int64_t n) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < n; ++i) {
    ids.push_back(30 + static_cast<int32_t>(i % 5));
  }
  return ids;
}

std::vector<int32_t> RandomIds(int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  return RandomIds(n, random);
}

std::vector<int32_t> RandomIds(int64_t n, std::mt19937& random) {
  constexpr int32_t kFirst = 6;  // tokens before it are special in a Gemma
  std::vector<int32_t> ids(static_cast<size_t>(n));
  for (int32_t& id : ids) {
    id = kFirst + static_cast<int32_t>(random() % (kRandomVocab - kFirst));
  }
  return ids;
}

TemporaryFile::TemporaryFile(const Bytes& bytes) {
  static std::atomic<int> next{0};
  path_ = absl::StrCat(::testing::TempDir(), "plimsoll_", getpid(), "_",
                       next.fetch_add(1), ".gguf");
  std::ofstream out(path_, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  EXPECT_TRUE(out.good());
}

TemporaryFile::~TemporaryFile() { std::remove(path_.c_str()); }

}  // namespace plimsoll::testing
