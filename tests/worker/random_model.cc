#include "tests/worker/random_model.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "tests/worker/file_writer.h"

namespace plimsoll::testing {
namespace {

// splitmix64's numbers after `seed`, little-endian.
Bytes RandomBytes(uint64_t seed, size_t n) {
  Bytes bytes;
  bytes.reserve(n + 8);
  while (bytes.size() < n) {
    seed += 0x9E3779B97F4A7C15;
    uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    z ^= z >> 31;
    for (int i = 0; i < 8; ++i) {
      bytes.push_back(static_cast<std::byte>(z >> 8 * i));
    }
  }
  bytes.resize(n);
  return bytes;
}

template <typename T>
T Load(const Bytes& bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

struct Tensor {
  std::string name;
  DType dtype;
  uint64_t cols;
  uint64_t rows;  // 1 = a vector
  uint64_t n_matrices = 1;
};

// Weights of the matrix are about as large as 2^Gain.
int Gain(const Tensor& tensor) {
  if (tensor.name == "token_embd.weight" || tensor.name == "output.weight") {
    return -5;
  }
  const int gain = -static_cast<int>(std::bit_width(tensor.cols)) / 2;
  const bool is_score = absl::StrContains(tensor.name, "attn_q.") ||
                        absl::StrContains(tensor.name, "attn_k.");
  return is_score ? gain + 1 : gain;
}

float VectorBase(const std::string& name) {
  if (absl::EndsWith(name, ".bias")) return 0.0f;
  if (name == "output_norm.weight") return 6.0f;
  const bool is_head_norm = absl::StrContains(name, "_q_norm.") ||
                            absl::StrContains(name, "_k_norm.");
  return is_head_norm ? 1.75f : 1.0f;
}

// A number of [-1, 1) in steps of 2^-19, from 32 random bits.
double Unit(uint32_t bits) {
  return (static_cast<double>(bits >> 12) - 524'288.0) / 524'288.0;
}

// Gives the scales of quantised blocks the exponents that make weights as large
// as 2^gain.
void ShapeBlocks(DType dtype, int gain, Bytes& bytes) {
  const std::map<DType, int> below = {{DType::kQ8_0, 6}, {DType::kQ4_0, 2},
                                      {DType::kQ4_1, 2}, {DType::kQ5_0, 3},
                                      {DType::kQ5_1, 3}, {DType::kQ4_K, 8},
                                      {DType::kQ5_K, 9}, {DType::kQ6_K, 10}};
  const int exponent = 15 + gain - below.at(dtype);
  const auto step = static_cast<size_t>(InfoOf(dtype).block_bytes);
  const size_t at = dtype == DType::kQ6_K ? 208 : 0;
  for (size_t block = 0; block < bytes.size(); block += step) {
    const int random = Load<uint16_t>(bytes, block + at);
    const int d = (random & 0x03ff) | exponent << 10;
    Store(bytes, block + at, static_cast<uint16_t>(d));
    const bool is_k = dtype == DType::kQ4_K || dtype == DType::kQ5_K;
    const bool is_5 = dtype == DType::kQ5_1 || dtype == DType::kQ5_K;
    if (!is_k && dtype != DType::kQ4_1 && dtype != DType::kQ5_1) continue;
    const int half = is_5 ? 0x1000 : 0x0c00;  // the offset: half of the quants
    int m = (d + half) ^ (Load<uint16_t>(bytes, block + 2) & 0x3f);
    if (!is_k) m |= 0x8000;
    Store(bytes, block + 2, static_cast<uint16_t>(m));
  }
}

Bytes TensorBytes(const std::string& model, const Tensor& tensor) {
  const DTypeInfo& info = InfoOf(tensor.dtype);
  const uint64_t n_blocks = tensor.cols /
                            static_cast<uint64_t>(info.block_elems) *
                            tensor.rows * tensor.n_matrices;
  const std::string key = model + "/" + tensor.name;
  Bytes bytes = RandomBytes(Fnv1a(key.data(), key.size()),
                            n_blocks * static_cast<uint64_t>(info.block_bytes));
  const int gain = Gain(tensor);
  if (tensor.dtype == DType::kF32) {
    for (size_t i = 0; i < n_blocks; ++i) {
      const double unit = Unit(Load<uint32_t>(bytes, 4 * i));
      double value = std::ldexp(unit, gain);
      if (tensor.rows == 1) {
        value = static_cast<double>(VectorBase(tensor.name)) + 0.25 * unit;
      }
      if (tensor.name == "rope_freqs.weight") {
        value = 1.0 + static_cast<double>(i % 4);
      }
      Store(bytes, 4 * i, static_cast<float>(value));
    }
  } else if (tensor.dtype == DType::kF16 || tensor.dtype == DType::kBF16) {
    const bool is_half = tensor.dtype == DType::kF16;
    const int shift = is_half ? 10 : 7;
    for (size_t i = 0; i < n_blocks; ++i) {
      const int bits = Load<uint16_t>(bytes, 2 * i);
      const int exponent =
          (is_half ? 15 : 127) + gain - 3 + (bits >> shift & 3);
      Store(bytes, 2 * i,
            static_cast<uint16_t>((bits & (is_half ? 0x83ff : 0x807f)) |
                                  exponent << shift));
    }
  } else {
    ShapeBlocks(tensor.dtype, gain, bytes);
  }
  return bytes;
}

void WriteSpmVocab(const RandomModel& m, Writer& w) {
  const std::string space = "\xe2\x96\x81";
  std::vector<std::string> tokens = {
      "<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"};
  std::vector<int32_t> types = {3, 3, 3, 2, 3, 3};
  for (int b = 0; b < 256; ++b) {
    tokens.push_back(absl::StrFormat("<0x%02X>", b));
    types.push_back(6);
  }
  std::vector<float> scores(tokens.size(), 0.0f);
  tokens.push_back(space);
  for (char c = 'a'; c <= 'z'; ++c) tokens.emplace_back(1, c);
  for (char c = 'a'; c <= 'z'; ++c) tokens.push_back(space + c);
  for (const char* pair : {"th", "he", "in", "er", "an", "re", "on", "at"}) {
    tokens.emplace_back(pair);
  }
  for (size_t i = types.size(); i < tokens.size(); ++i) {
    scores.push_back(-static_cast<float>(i - types.size()));
  }
  types.resize(tokens.size(), 1);
  size_t id = tokens.size() - m.last_tokens.size();
  for (const auto& [text, type] : m.last_tokens) {
    tokens[id] = text;
    types[id++] = type;
  }
  w.Text("tokenizer.ggml.model", "llama");
  w.Texts("tokenizer.ggml.tokens", tokens);
  w.Values("tokenizer.ggml.scores", 6, scores);
  w.Values("tokenizer.ggml.token_type", 5, types);
  w.U32("tokenizer.ggml.bos_token_id", 2);
  w.U32("tokenizer.ggml.eos_token_id", 1);
  w.Bool("tokenizer.ggml.add_bos_token", true);
  w.Bool("tokenizer.ggml.add_space_prefix", false);
}

void WriteBpeVocab(Writer& w) {
  std::vector<std::string> tokens = {"<|endoftext|>", "<|im_start|>",
                                     "<|im_end|>"};
  int next = 256;
  for (int b = 0; b < 256; ++b) {
    const bool is_printable =
        (b >= 33 && b < 127) || (b >= 161 && b < 173) || b >= 174;
    const int code = is_printable ? b : next++;
    std::string text;
    if (code < 0x80) {
      text += static_cast<char>(code);
    } else {
      text += static_cast<char>(0xc0 | code >> 6);
      text += static_cast<char>(0x80 | (code & 0x3f));
    }
    tokens.push_back(text);
  }
  std::vector<std::string> merges;
  for (const char a : std::string("abcdefgh")) {
    for (const char b : std::string("stuvwxyz")) {
      merges.push_back(std::string(1, a) + " " + b);
      tokens.push_back(std::string(1, a) + b);
    }
  }
  std::vector<int32_t> types(tokens.size(), 1);
  types[0] = types[1] = types[2] = 3;
  w.Text("tokenizer.ggml.model", "gpt2");
  w.Text("tokenizer.ggml.pre", "smollm");
  w.Texts("tokenizer.ggml.tokens", tokens);
  w.Values("tokenizer.ggml.token_type", 5, types);
  w.Texts("tokenizer.ggml.merges", merges);
  w.U32("tokenizer.ggml.bos_token_id", 1);
  w.U32("tokenizer.ggml.eos_token_id", 2);
  w.Bool("tokenizer.ggml.add_bos_token", false);
}

Writer Metadata(const RandomModel& m) {
  const bool is_gemma = absl::StartsWith(m.architecture, "gemma");
  const std::string a = m.architecture + ".";
  Writer w;
  w.Text("general.architecture", m.architecture);
  w.U32(a + "block_count", m.n_layers);
  w.U32(a + "context_length", kRandomContext);
  w.U32(a + "embedding_length", m.dim);
  w.U32(a + "feed_forward_length", m.ffn_dim);
  w.U32(a + "attention.head_count", m.n_heads);
  w.U32(a + "attention.head_count_kv", m.n_kv_heads);
  w.U32(a + "attention.key_length", m.head_dim);
  w.U32(a + "attention.value_length", m.head_dim);
  w.F32(a + "attention.layer_norm_rms_epsilon", 1e-5f);
  w.F32(a + "rope.freq_base", m.architecture == "gemma3" ? 1e6f : 1e4f);
  if (!is_gemma) w.U32(a + "rope.dimension_count", m.head_dim);
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
  is_gemma ? WriteSpmVocab(m, w) : WriteBpeVocab(w);
  if (!m.chat_template.empty()) {
    w.Text("tokenizer.chat_template", m.chat_template);
  }
  return w;
}

std::vector<Tensor> Tensors(const RandomModel& m) {
  const uint64_t q = m.n_heads * m.head_dim;
  const uint64_t kv = m.n_kv_heads * m.head_dim;
  const auto type_of = [&](const std::string& role) {
    const auto it = m.types.find(role);
    return it == m.types.end() ? m.default_type : it->second;
  };
  std::vector<Tensor> tensors;
  const auto add = [&](const std::string& prefix, const std::string& role,
                       uint64_t cols, uint64_t rows) {
    tensors.push_back({prefix + role + ".weight",
                       rows == 1 ? DType::kF32 : type_of(role), cols, rows});
  };
  const auto add_experts = [&](const std::string& prefix,
                               const std::string& role, uint64_t cols,
                               uint64_t rows) {
    add(prefix, role, cols, rows);
    tensors.back().n_matrices = m.n_experts;
  };
  const auto add_bias = [&](const std::string& of, uint64_t n) {
    tensors.push_back({of + ".bias", DType::kF32, n, 1});
  };
  add("", "token_embd", m.dim, kRandomVocab);
  if (m.has_rope_freqs) add("", "rope_freqs", m.head_dim / 2, 1);
  for (uint32_t il = 0; il < m.n_layers; ++il) {
    const std::string p = absl::StrCat("blk.", il, ".");
    add(p, "attn_norm", m.dim, 1);
    add(p, "ffn_norm", m.dim, 1);
    if (m.architecture == "gemma3" || m.architecture == "qwen3" ||
        m.architecture == "qwen3moe") {
      add(p, "attn_q_norm", m.head_dim, 1);
      add(p, "attn_k_norm", m.head_dim, 1);
    }
    if (m.architecture == "qwen2" || m.architecture == "qwen2moe") {
      add_bias(p + "attn_q", q);
      add_bias(p + "attn_k", kv);
      add_bias(p + "attn_v", kv);
    }
    if (m.architecture == "gemma2" || m.architecture == "gemma3") {
      add(p, "post_attention_norm", m.dim, 1);
      add(p, "post_ffw_norm", m.dim, 1);
    }
    add(p, "attn_q", m.dim, q);
    add(p, "attn_k", m.dim, kv);
    add(p, "attn_v", m.dim, kv);
    add(p, "attn_output", q, m.dim);
    if (m.n_experts > 0) {
      add(p, "ffn_gate_inp", m.dim, m.n_experts);
      add_experts(p, "ffn_gate_exps", m.dim, m.expert_ffn_dim);
      add_experts(p, "ffn_up_exps", m.dim, m.expert_ffn_dim);
      add_experts(p, "ffn_down_exps", m.expert_ffn_dim, m.dim);
    } else {
      add(p, "ffn_gate", m.dim, m.ffn_dim);
      add(p, "ffn_up", m.dim, m.ffn_dim);
      add(p, "ffn_down", m.ffn_dim, m.dim);
    }
    if (m.shared_ffn_dim > 0) {
      add(p, "ffn_gate_inp_shexp", m.dim, 1);
      add(p, "ffn_gate_shexp", m.dim, m.shared_ffn_dim);
      add(p, "ffn_up_shexp", m.dim, m.shared_ffn_dim);
      add(p, "ffn_down_shexp", m.shared_ffn_dim, m.dim);
    }
  }
  add("", "output_norm", m.dim, 1);
  if (m.is_untied) add("", "output", m.dim, kRandomVocab);
  return tensors;
}

}  // namespace

uint64_t Fnv1a(const void* data, size_t n) {
  uint64_t hash = 0xCBF29CE484222325;
  for (size_t i = 0; i < n; ++i) {
    hash = (hash ^ static_cast<const uint8_t*>(data)[i]) * 0x100000001B3;
  }
  return hash;
}

const std::vector<RandomModel>& RandomModels() {
  static const auto* const kModels = new std::vector<RandomModel>{
      {.name = "llama_f32",
       .architecture = "llama",
       .dim = 64,
       .n_heads = 4,
       .n_kv_heads = 2,
       .head_dim = 16,
       .ffn_dim = 128,
       .n_layers = 2,
       .default_type = DType::kF32,
       .types = {},
       .pattern = {},
       .has_rope_freqs = true},
      {.name = "llama_half",
       .architecture = "llama",
       .dim = 80,
       .n_heads = 5,
       .n_kv_heads = 1,
       .head_dim = 16,
       .ffn_dim = 112,
       .n_layers = 2,
       .default_type = DType::kF16,
       .types = {{"attn_v", DType::kBF16},
                 {"ffn_down", DType::kBF16},
                 {"output", DType::kBF16}},
       .pattern = {},
       .is_untied = true},
      {.name = "llama_q4_1",
       .architecture = "llama",
       .dim = 96,
       .n_heads = 3,
       .n_kv_heads = 1,
       .head_dim = 32,
       .ffn_dim = 160,
       .n_layers = 3,
       .default_type = DType::kQ4_1,
       .types = {{"token_embd", DType::kQ8_0}},
       .pattern = {}},
      {.name = "gemma_q5_0",
       .architecture = "gemma3",
       .dim = 96,
       .n_heads = 4,
       .n_kv_heads = 1,
       .head_dim = 32,
       .ffn_dim = 160,
       .n_layers = 7,
       .default_type = DType::kQ5_0,
       .types = {{"token_embd", DType::kQ8_0}, {"attn_v", DType::kQ8_0}},
       .window = 16,
       .pattern = {}},
      {.name = "gemma_k",
       .architecture = "gemma3",
       .dim = 256,
       .n_heads = 4,
       .n_kv_heads = 2,
       .head_dim = 64,
       .ffn_dim = 512,
       .n_layers = 3,
       .default_type = DType::kQ4_K,
       .types = {{"token_embd", DType::kQ6_K},
                 {"attn_v", DType::kQ6_K},
                 {"ffn_down", DType::kQ6_K}},
       .window = 24,
       .pattern = {true, false, true},
       .rope_factor = 8.0f},
      {.name = "llama_mixed",
       .architecture = "llama",
       .dim = 256,
       .n_heads = 4,
       .n_kv_heads = 2,
       .head_dim = 64,
       .ffn_dim = 512,
       .n_layers = 2,
       .default_type = DType::kQ4_0,
       .types = {{"attn_v", DType::kQ5_K},
                 {"ffn_up", DType::kQ5_1},
                 {"ffn_down", DType::kQ5_K}},
       .pattern = {}},
  };
  return *kModels;
}

const std::vector<RandomModel>& FamilyModels() {
  static const auto* const kModels = [] {
    auto* models = new std::vector<RandomModel>;
    const auto add = [&](const char* name, const char* architecture,
                         DType type) -> RandomModel& {
      models->push_back({.name = name,
                         .architecture = architecture,
                         .dim = 96,
                         .n_heads = 4,
                         .n_kv_heads = 2,
                         .head_dim = 32,
                         .ffn_dim = 160,
                         .n_layers = 3,
                         .default_type = type,
                         .types = {{"token_embd", DType::kQ8_0}},
                         .pattern = {}});
      return models->back();
    };
    add("qwen2_q8_0", "qwen2", DType::kQ8_0);
    add("qwen3_q4_0", "qwen3", DType::kQ4_0);
    add("gemma1_q4_0", "gemma", DType::kQ4_0);
    RandomModel& gemma2 = add("gemma2_q5_0", "gemma2", DType::kQ5_0);
    gemma2.window = 16;
    gemma2.score_cap = 3;
    gemma2.logit_cap = 8;
    RandomModel& capped = add("gemma3_capped", "gemma3", DType::kQ5_0);
    capped.window = 16;
    capped.logit_cap = 8;
    RandomModel& qwen3moe = add("qwen3moe_q4_0", "qwen3moe", DType::kQ4_0);
    qwen3moe.types["ffn_gate_inp"] = DType::kF32;
    qwen3moe.types["ffn_down_exps"] = DType::kQ5_1;
    qwen3moe.n_experts = 9;
    qwen3moe.n_experts_used = 3;
    qwen3moe.expert_ffn_dim = 64;
    RandomModel& qwen2moe = add("qwen2moe_q8_0", "qwen2moe", DType::kQ8_0);
    qwen2moe.types["ffn_gate_inp"] = DType::kF32;
    qwen2moe.n_experts = 5;
    qwen2moe.n_experts_used = 2;
    qwen2moe.expert_ffn_dim = 96;
    qwen2moe.shared_ffn_dim = 160;
    return models;
  }();
  return *kModels;
}

const RandomModel& FindRandomModel(absl::string_view name) {
  for (const auto* models : {&RandomModels(), &FamilyModels()}) {
    for (const RandomModel& model : *models) {
      if (model.name == name) return model;
    }
  }
  ADD_FAILURE() << "there is no model " << name;
  return RandomModels().front();
}

RandomModel WideModel() {
  RandomModel model = FindRandomModel("llama_f32");
  model.dim = 256;
  model.head_dim = 64;
  model.ffn_dim = 1'024;
  return model;
}

Bytes RandomModelBytes(const RandomModel& model, const Spoil& spoil) {
  const std::vector<Tensor> tensors = Tensors(model);
  Writer metadata = Metadata(model);
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
