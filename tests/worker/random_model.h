// Writes the tiny random models of tests/testdata/make_random_models.py, byte
// for byte, so that none needs to be stored.
#ifndef PLIMSOLL_TESTS_WORKER_RANDOM_MODEL_H_
#define PLIMSOLL_TESTS_WORKER_RANDOM_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/dtype.h"

namespace plimsoll::testing {

inline constexpr int32_t kRandomVocab = 323;
inline constexpr int64_t kRandomContext = 4'096;

struct RandomModel {
  std::string name;
  std::string architecture;
  uint32_t dim, n_heads, n_kv_heads, head_dim, ffn_dim, n_layers;
  DType default_type;
  std::map<std::string, DType> types;  // by role: "attn_v", "token_embd"
  uint32_t window = 0;
  std::vector<bool> pattern;  // true = window; empty = the family's own
  float rope_factor = 0;      // 0 = none
  bool has_rope_freqs = false;
  bool is_untied = false;
  float score_cap = 0;  // 0 = the key is absent
  float logit_cap = 0;
  // Experts in every layer, if there are any, and one that all rows have.
  uint32_t n_experts = 0;
  uint32_t n_experts_used = 0;
  uint32_t expert_ffn_dim = 0;
  uint32_t shared_ffn_dim = 0;
  uint32_t expert_gating = 0;  // 0 = the key is absent
  float expert_scale = 0;      // 0 = the key is absent
  // A Gemma 4's. Layers with a window have heads of their own, the last ones
  // may have no keys, and full layers no values.
  uint32_t window_head_dim = 0;  // 0 = as in the other layers
  uint32_t window_kv_heads = 0;
  uint32_t n_shared_kv = 0;
  bool has_values = true;
  uint32_t ple_dim = 0;
  uint32_t n_streams = 0;  // a Gemma 3n's residual streams
  // A DeepSeek's. The last elements of a head's key, head_dim wide, are
  // rotated.
  uint32_t latent_rank = 0;
  uint32_t query_rank = 0;
  uint32_t rotated_dim = 0;
  uint32_t value_dim = 0;
  // What each layer is: * attends, s keeps a state, - is an FFN alone. Empty:
  // all attend. A state's heads are state_dim wide.
  std::string kinds = {};
  uint32_t state_heads = 0;
  uint32_t state_groups = 0;
  uint32_t state_dim = 0;
  bool has_mtp = false;  // a head that predicts the token after the next one
  // A Gemma's last tokens have these texts and types, instead of their own.
  std::vector<std::pair<std::string, int32_t>> last_tokens = {};
  std::string chat_template = {};  // empty = none
  std::vector<int32_t> suppressed_tokens = {};
  // Matrices of products are 2^n times as large and have scales 2^-n, if n is
  // not 0. It says the same, to the bit.
  int scale_exponent = 0;
};

// `n` ids of a random model, none of them special; of a seed, or the next ones
// that `random` gives.
std::vector<int32_t> RandomIds(int64_t n, uint32_t seed);
std::vector<int32_t> RandomIds(int64_t n, std::mt19937& random);
// `n` ids, five of them over and over: guesses are found in it.
std::vector<int32_t> RepeatingPrompt(int64_t n);

// llama_f32, llama_half, llama_q4_1, gemma_q5_0, gemma_k, llama_mixed.
const std::vector<RandomModel>& RandomModels();
// Models of further families, which have no goldens: qwen2_q8_0, qwen3_q4_0,
// gemma1_q4_0, gemma2_q5_0, gemma3_capped, qwen3moe_q4_0, qwen2moe_q8_0,
// gpt_oss_q4_0, llama_codes, gemma4_keys, gemma4_experts, gemma4_shared,
// gemma3n_q5_0, deepseek2_q8_0, deepseek2_mtp, lfm2_q8_0, qwen35_q8_0,
// qwen35_mtp, qwen3next_q8_0, granitehybrid_q8_0, nemotron_h_q8_0, llama_grids.
const std::vector<RandomModel>& FamilyModels();
// Finds a model in either list.
const RandomModel& FindRandomModel(absl::string_view name);
// Makes a model whose layers take more than an arena is rounded up to.
RandomModel WideModel();

// Changes a tensor's bytes before they are written.
using Spoil = std::function<void(const std::string& tensor,
                                 std::vector<std::byte>& bytes)>;

// The whole file.
std::vector<std::byte> RandomModelBytes(const RandomModel& model);
std::vector<std::byte> SpoiledModelBytes(const RandomModel& model,
                                         const Spoil& spoil);

// Returns the model in several files, which are named as split_files.h says.
std::vector<std::vector<std::byte>> RandomModelShards(const RandomModel& model,
                                                      int n_shards);

// The hash that random_models.json records of a file.
uint64_t Fnv1a(const void* data, size_t n);

// A file in the test's temporary folder, removed at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::vector<std::byte>& bytes);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_WORKER_RANDOM_MODEL_H_
