// The random models that tests choose among.
#include <gtest/gtest.h>

#include "tests/worker/random_model.h"

namespace plimsoll::testing {
namespace {

using Models = std::vector<RandomModel>;

RandomModel LlamaF32() {
  return {.name = "llama_f32",
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
          .has_rope_freqs = true};
}

RandomModel LlamaHalf() {
  return {.name = "llama_half",
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
          .is_untied = true};
}

RandomModel LlamaQ41() {
  return {.name = "llama_q4_1",
          .architecture = "llama",
          .dim = 96,
          .n_heads = 3,
          .n_kv_heads = 1,
          .head_dim = 32,
          .ffn_dim = 160,
          .n_layers = 3,
          .default_type = DType::kQ4_1,
          .types = {{"token_embd", DType::kQ8_0}},
          .pattern = {}};
}

RandomModel GemmaQ50() {
  return {.name = "gemma_q5_0",
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
          .pattern = {}};
}

RandomModel GemmaK() {
  return {.name = "gemma_k",
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
          .rope_factor = 8.0f};
}

RandomModel LlamaMixed() {
  return {.name = "llama_mixed",
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
          .pattern = {}};
}

// Adds a model of three layers that attend, which the caller may change until
// it adds the next one.
RandomModel& Add(Models& models, const char* name, const char* architecture,
                 DType type) {
  models.push_back({.name = name,
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
  return models.back();
}

void AddDense(Models& models) {
  Add(models, "qwen2_q8_0", "qwen2", DType::kQ8_0);
  Add(models, "qwen3_q4_0", "qwen3", DType::kQ4_0);
  Add(models, "gemma1_q4_0", "gemma", DType::kQ4_0);
  RandomModel& gemma2 = Add(models, "gemma2_q5_0", "gemma2", DType::kQ5_0);
  gemma2.window = 16;
  gemma2.score_cap = 3;
  gemma2.logit_cap = 8;
  RandomModel& capped = Add(models, "gemma3_capped", "gemma3", DType::kQ5_0);
  capped.window = 16;
  capped.logit_cap = 8;
}

void AddQwenExperts(Models& models) {
  RandomModel& qwen3moe =
      Add(models, "qwen3moe_q4_0", "qwen3moe", DType::kQ4_0);
  qwen3moe.types["ffn_gate_inp"] = DType::kF32;
  qwen3moe.types["ffn_down_exps"] = DType::kQ5_1;
  qwen3moe.n_experts = 9;
  qwen3moe.n_experts_used = 3;
  qwen3moe.expert_ffn_dim = 64;
  RandomModel& qwen2moe =
      Add(models, "qwen2moe_q8_0", "qwen2moe", DType::kQ8_0);
  qwen2moe.types["ffn_gate_inp"] = DType::kF32;
  qwen2moe.n_experts = 5;
  qwen2moe.n_experts_used = 2;
  qwen2moe.expert_ffn_dim = 96;
  qwen2moe.shared_ffn_dim = 160;
}

// Types of weights that are codes of values.
void AddLlamaCodes(Models& models) {
  RandomModel& codes = Add(models, "llama_codes", "llama", DType::kQ2_K);
  codes.dim = 256;
  codes.head_dim = 64;
  codes.ffn_dim = 512;
  codes.types = {{"token_embd", DType::kQ3_K},   {"attn_q", DType::kIq4Nl},
                 {"attn_k", DType::kNvfp4},      {"attn_v", DType::kMxfp4},
                 {"attn_output", DType::kIq4Xs}, {"ffn_gate", DType::kTq1_0},
                 {"ffn_down", DType::kQ3_K}};
}

void AddGptOss(Models& models) {
  RandomModel& gpt_oss = Add(models, "gpt_oss_q4_0", "gpt-oss", DType::kQ4_0);
  gpt_oss.types["ffn_gate_inp"] = DType::kF32;
  gpt_oss.types["ffn_down_exps"] = DType::kQ8_0;
  gpt_oss.window = 16;
  gpt_oss.n_experts = 6;
  gpt_oss.n_experts_used = 2;
  gpt_oss.expert_ffn_dim = 64;
}

void AddDeepSeek(Models& models) {
  for (const char* name : {"deepseek2_q8_0", "deepseek2_mtp"}) {
    RandomModel& deepseek2 = Add(models, name, "deepseek2", DType::kQ8_0);
    deepseek2.n_kv_heads = 1;
    deepseek2.head_dim = 64;
    deepseek2.latent_rank = 64;
    deepseek2.query_rank = 64;
    deepseek2.rotated_dim = 32;
    deepseek2.value_dim = 32;
    deepseek2.has_mtp = deepseek2.name == "deepseek2_mtp";
  }
}

void AddRecurrent(Models& models) {
  const auto add_recurrent = [&](const char* name, const char* architecture,
                                 const char* kinds) -> RandomModel& {
    RandomModel& model = Add(models, name, architecture, DType::kQ8_0);
    model.kinds = kinds;
    model.n_layers = static_cast<uint32_t>(model.kinds.size());
    model.state_heads = 4;
    model.state_groups = 2;
    model.state_dim = 32;
    return model;
  };
  add_recurrent("lfm2_q8_0", "lfm2", "s*s");
  add_recurrent("qwen35_q8_0", "qwen35", "s*s");
  RandomModel& qwen35_mtp = add_recurrent("qwen35_mtp", "qwen35", "s*s");
  qwen35_mtp.is_untied = true;
  qwen35_mtp.has_mtp = true;
  qwen35_mtp.types["eh_proj"] = DType::kF32;
  RandomModel& qwen3next = add_recurrent("qwen3next_q8_0", "qwen3next", "ss*");
  qwen3next.types["ffn_gate_inp"] = DType::kF32;
  qwen3next.n_experts = 5;
  qwen3next.n_experts_used = 2;
  qwen3next.expert_ffn_dim = 96;
  qwen3next.shared_ffn_dim = 160;
  add_recurrent("granitehybrid_q8_0", "granitehybrid", "s*s");
  add_recurrent("nemotron_h_q8_0", "nemotron_h", "s-*s");
}

// The three forms of Gemma 4.
void AddGemma4(Models& models) {
  const auto add_gemma4 = [&](const char* name, DType type) -> RandomModel& {
    RandomModel& model = Add(models, name, "gemma4", type);
    model.head_dim = 64;
    model.window_head_dim = 32;
    model.window = 16;
    model.has_rope_freqs = true;
    model.logit_cap = 8;
    return model;
  };
  RandomModel& keys = add_gemma4("gemma4_keys", DType::kQ4_0);
  keys.n_kv_heads = 1;
  keys.window_kv_heads = 2;
  keys.pattern = {true, false, false};
  keys.has_values = false;
  RandomModel& beside = add_gemma4("gemma4_experts", DType::kQ4_0);
  beside.n_kv_heads = 1;
  beside.window_kv_heads = 2;
  beside.pattern = {true, false, false};
  beside.has_values = false;
  beside.types["ffn_gate_inp"] = DType::kF32;
  beside.n_experts = 6;
  beside.n_experts_used = 2;
  beside.expert_ffn_dim = 64;
  RandomModel& shared = add_gemma4("gemma4_shared", DType::kQ5_0);
  shared.n_kv_heads = 1;
  shared.window_kv_heads = 1;
  shared.n_layers = 6;
  shared.pattern = {true, true, false, true, true, false};
  shared.n_shared_kv = 3;
  shared.ple_dim = 32;
}

void AddGemma3n(Models& models) {
  RandomModel& streams = Add(models, "gemma3n_q5_0", "gemma3n", DType::kQ5_0);
  streams.types["altup_correct_coef"] = DType::kF32;
  streams.types["altup_predict_coef"] = DType::kF32;
  streams.types["altup_router"] = DType::kF16;
  streams.types["altup_unembd_proj"] = DType::kF16;
  streams.types["laurel_r"] = DType::kBF16;
  streams.n_layers = 6;
  streams.window = 16;
  streams.pattern = {true, true, false, true, true, false};
  streams.n_shared_kv = 3;
  streams.ple_dim = 32;
  streams.n_streams = 4;
  streams.logit_cap = 8;
}

// Types of weights that are points of a grid.
void AddLlamaGrids(Models& models) {
  RandomModel& grids = Add(models, "llama_grids", "llama", DType::kIq2Xxs);
  grids.dim = 256;
  grids.head_dim = 64;
  grids.ffn_dim = 512;
  grids.types = {{"token_embd", DType::kQ5_K},    {"attn_q", DType::kIq2Xs},
                 {"attn_k", DType::kIq2S},        {"attn_v", DType::kIq3S},
                 {"attn_output", DType::kIq3Xxs}, {"ffn_gate", DType::kIq1S},
                 {"ffn_up", DType::kIq1M},        {"ffn_down", DType::kTq2_0}};
}

}  // namespace

const std::vector<RandomModel>& RandomModels() {
  static const auto* const kModels = new Models{
      LlamaF32(), LlamaHalf(), LlamaQ41(), GemmaQ50(), GemmaK(), LlamaMixed()};
  return *kModels;
}

const std::vector<RandomModel>& FamilyModels() {
  static const auto* const kModels = [] {
    auto* models = new Models;
    for (const auto add :
         {AddDense, AddQwenExperts, AddLlamaCodes, AddGptOss, AddDeepSeek,
          AddRecurrent, AddGemma4, AddGemma3n, AddLlamaGrids}) {
      add(*models);
    }
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

}  // namespace plimsoll::testing
