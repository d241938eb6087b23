// A test of one engine over a tiny random model.
#ifndef PLIMSOLL_TESTS_WORKER_ENGINE_ENGINE_FIXTURE_H_
#define PLIMSOLL_TESTS_WORKER_ENGINE_ENGINE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
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

using Sinks = std::vector<std::shared_ptr<CollectSink>>;

class EngineFixture : public ::testing::Test {
 protected:
  // Loads an engine in place of the one before.
  void Load(const RandomModel& model, const EngineSetup& setup) {
    LoadBytes(RandomModelBytes(model), setup);
  }
  void LoadBytes(const std::vector<std::byte>& bytes,
                 const EngineSetup& setup) {
    engine_.reset();
    file_.emplace(bytes);
    auto engine = LoadEngine(file_->path(), setup);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }
  void Load(const char* model, const EngineSetup& setup) {
    Load(FindRandomModel(model), setup);
  }

  // To a sink for each, which takes everything.
  Sinks SubmitAll(const std::vector<worker::GenerateOptions>& requests) {
    Sinks sinks;
    for (const worker::GenerateOptions& request : requests) {
      sinks.push_back(std::make_shared<CollectSink>());
      const absl::Status status = engine_->Submit(request, sinks.back());
      EXPECT_TRUE(status.ok()) << status;
    }
    return sinks;
  }
  // Waits for the streams, and expects of each what its request gave `alone`.
  void ExpectAsAlone(const Sinks& sinks, const std::vector<Generated>& alone) {
    ASSERT_EQ(sinks.size(), alone.size());
    for (size_t i = 0; i < sinks.size(); ++i) {
      const Generated got = sinks[i]->Await();
      EXPECT_TRUE(SameBits(got, alone[i])) << i;
      EXPECT_EQ(got.text, alone[i].text);
      EXPECT_EQ(got.prompt_logprobs, alone[i].prompt_logprobs);
      EXPECT_EQ(got.info.n_generated, alone[i].info.n_generated);
      EXPECT_EQ(got.info.n_prompt, alone[i].info.n_prompt);
    }
  }

  std::optional<TemporaryFile> file_;
  std::unique_ptr<worker::Engine> engine_;
};

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_WORKER_ENGINE_ENGINE_FIXTURE_H_
