// Where the two real models are, if they are.
#ifndef PLIMSOLL_TESTS_WORKER_GOLDEN_REAL_MODELS_H_
#define PLIMSOLL_TESTS_WORKER_GOLDEN_REAL_MODELS_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/sanitized.h"

namespace plimsoll::testing {

inline constexpr const char* kSmolLm = "SmolLM2-135M-Instruct.Q4_1.gguf";
inline constexpr const char* kGemma = "gemma-3-270m-q4_k_m.gguf";
// Returns the models of a test that takes long: in the ordinary run this is the
// smaller one alone.
inline std::vector<const char*> RealModelsOfLongTests() {
  if (kIsLong) return {kSmolLm, kGemma};
  return {kSmolLm};
}
// A test's name of one of them.
inline std::string NameOfModel(
    const ::testing::TestParamInfo<const char*>& test) {
  return test.param == std::string(kGemma) ? "gemma3_270m" : "smollm2_135m";
}
inline std::string ModelPath(const std::string& name) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string base =
      cache != nullptr && *cache != '\0'
          ? std::string(cache)
          : std::string(home != nullptr ? home : "") + "/.cache";
  return base + "/plimsoll/models/" + name;
}

inline bool Exists(const std::string& path) {
  return std::ifstream(path).good();
}

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_WORKER_GOLDEN_REAL_MODELS_H_
