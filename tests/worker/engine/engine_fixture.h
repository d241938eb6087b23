// A test of one engine over a tiny random model.
#ifndef PLIMSOLL_TESTS_WORKER_ENGINE_ENGINE_FIXTURE_H_
#define PLIMSOLL_TESTS_WORKER_ENGINE_ENGINE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/random_model.h"
#include "worker/engine/engine.h"

namespace plimsoll::testing {

// What a test of many models and KV types is given.
struct ModelAndKv {
  const char* model;
  DType kv_type;
};
inline std::string NameOfModelAndKv(
    const ::testing::TestParamInfo<ModelAndKv>& test) {
  return absl::StrCat(test.param.model, "_kv_", DTypeName(test.param.kv_type));
}

// Ids of no control token.
inline std::vector<int32_t> RandomIds(int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids(static_cast<size_t>(n));
  for (int32_t& id : ids) {
    id = 3 + static_cast<int32_t>(random() % (kRandomVocab - 3));
  }
  return ids;
}

class EngineFixture : public ::testing::Test {
 protected:
  // Loads an engine in place of the one before.
  void Load(const RandomModel& model, const EngineSetup& setup) {
    engine_.reset();
    file_.emplace(RandomModelBytes(model));
    auto engine = LoadEngine(file_->path(), setup);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }
  void Load(const char* model, const EngineSetup& setup) {
    Load(FindRandomModel(model), setup);
  }

  std::optional<TemporaryFile> file_;
  std::unique_ptr<worker::Engine> engine_;
};

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_WORKER_ENGINE_ENGINE_FIXTURE_H_
