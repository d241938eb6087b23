// A test of one engine over a tiny random model.
#ifndef PLIMSOLL_TESTS_WORKER_CORE_ENGINE_FIXTURE_H_
#define PLIMSOLL_TESTS_WORKER_CORE_ENGINE_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>

#include "tests/worker/core/engine_harness.h"
#include "tests/worker/core/random_model.h"
#include "worker/engine.h"

namespace plimsoll::testing {

class EngineFixture : public ::testing::Test {
 protected:
  // In place of the engine there was.
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

#endif  // PLIMSOLL_TESTS_WORKER_CORE_ENGINE_FIXTURE_H_
