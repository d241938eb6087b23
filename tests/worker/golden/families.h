// The tiny models whose answers other engines agree on.
#ifndef PLIMSOLL_TESTS_WORKER_GOLDEN_FAMILIES_H_
#define PLIMSOLL_TESTS_WORKER_GOLDEN_FAMILIES_H_

#include <cstddef>
#include <vector>

#include "tests/sanitized.h"

namespace plimsoll::testing {

struct Family {
  const char* name;  // the golden's
  const char* architecture;
  bool is_emulated;  // runs on the emulated CUDA device too
};

inline constexpr Family kFamilies[] = {
    {"deepseek2", "deepseek2", true},
    {"deepseek2-yarn", "deepseek2", true},
    {"llama", "llama", false},
    {"llama31", "llama", false},
    {"gemma3", "gemma3", false},
    {"gemma3-linear", "gemma3", false},
    {"qwen2", "qwen2", true},
    {"qwen3", "qwen3", false},
    {"qwen3-q4_k", "qwen3", false},
    {"gemma", "gemma", false},
    {"gemma2", "gemma2", true},
    {"smollm3", "smollm3", true},
    {"granite", "granite", true},
    {"llama-bias", "llama", true},
    {"phi3", "phi3", true},
    {"phi3-longrope-short", "phi3", true},
    {"phi3-longrope-long", "phi3", false},
    {"glm4", "glm4", true},
    {"olmo2", "olmo2", true},
    {"olmo3", "olmo2", true},
    {"mistral3", "mistral3", true},
    {"gemma3n", "gemma3n", true},
    {"gemma4-12b", "gemma4", true},
    {"gemma4-e2b", "gemma4", true},
    {"gemma4-26b", "gemma4", true},
    {"glm4moe", "glm4moe", true},
    {"qwen3moe", "qwen3moe", true},
    {"mixtral", "llama", false},
    {"qwen2moe", "qwen2moe", true},
    {"gpt-oss", "gpt-oss", true},
    {"gpt-oss-mxfp4", "gpt-oss", false},
    {"llama4", "llama4", true},
    {"llama4-chunks", "llama4", true},
    {"granitemoe", "granitemoe", true},
    {"granitemoe-shared", "granitemoe", false},
    {"cohere2", "cohere2", true},
    {"exaone4", "exaone4", true},
    {"exaone4-windows", "exaone4", false},
    {"seed_oss", "seed_oss", true},
    {"ernie4_5", "ernie4_5", false},
    {"ernie4_5-moe", "ernie4_5-moe", true},
    {"lfm2", "lfm2", true},
    {"qwen35", "qwen35", true},
    {"qwen35moe", "qwen35moe", true},
    {"qwen3next", "qwen3next", true},
    {"granitehybrid", "granitehybrid", true},
    {"nemotron_h", "nemotron_h", true},
    {"nemotron_h_moe", "nemotron_h_moe", true},
};

inline std::vector<const char*> NamesOfFamilies(bool only_emulated) {
  std::vector<const char*> names;
  for (const Family& family : kFamilies) {
    if (family.is_emulated || !only_emulated) names.push_back(family.name);
  }
  return names;
}

// The ordinary run takes each third family.
inline std::vector<const char*> Some(std::vector<const char*> families) {
  if (kIsLong) return families;
  std::vector<const char*> some;
  for (size_t i = 0; i < families.size(); i += 3) some.push_back(families[i]);
  return some;
}

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_WORKER_GOLDEN_FAMILIES_H_
