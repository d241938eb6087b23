// Sessions over small models, for the tests of what engines promise of them.
#ifndef PLIMSOLL_TESTS_WORKER_ENGINE_SESSION_FIXTURE_H_
#define PLIMSOLL_TESTS_WORKER_ENGINE_SESSION_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/worker/engine/engine_fixture.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/random_model.h"
#include "worker/engine/engine.h"

namespace plimsoll::worker {

using Ids = std::vector<int32_t>;
using ::plimsoll::testing::RandomIds;

inline void Append(const Ids& more, Ids& ids) {
  ids.insert(ids.end(), more.begin(), more.end());
}

// An end token of every random model.
inline constexpr int32_t kEnd = 2;

inline constexpr int64_t kOpeningIds = 12;

inline ChatFrame FrameOf(int64_t n_opening) {
  return {.opening = RandomIds(n_opening, 1),
          .after_user = {kEnd, 60, 70, 61},
          .after_reply = {kEnd, 60, 70, 62}};
}

inline ChatFrame Frame() { return FrameOf(kOpeningIds); }

inline SessionOptions Chat(const std::string& id) {
  SessionOptions options;
  options.id = id;
  options.frame = Frame();
  options.roll_method = RollMethod::kShift;
  return options;
}

// Replies without control tokens: they end when they are as long as asked for.
inline GenerateOptions PlainText(Ids prompt, int64_t max_tokens) {
  GenerateOptions options =
      plimsoll::testing::Greedy(std::move(prompt), max_tokens);
  for (int32_t id = 0; id < 6; ++id) {
    options.logit_bias.biases.push_back({id, -1'000.0f});
  }
  return options;
}

inline GenerateOptions Message(const std::string& session, Ids content,
                               int64_t max_tokens) {
  GenerateOptions options = PlainText(std::move(content), max_tokens);
  options.session_id = session;
  return options;
}

class SessionTest : public plimsoll::testing::EngineFixture {
 protected:
  void Open(const SessionOptions& options) {
    const auto opened = engine_->OpenSession(options);
    ASSERT_TRUE(opened.ok()) << opened.status();
  }
  plimsoll::testing::Generated Say(const std::string& session, Ids content,
                                   int64_t max_tokens) {
    return plimsoll::testing::Generate(
        *engine_, Message(session, std::move(content), max_tokens));
  }
  SessionInfo Info(const std::string& id) {
    const auto info = engine_->GetSession(id, "");
    EXPECT_TRUE(info.ok()) << info.status();
    return info.value_or(SessionInfo{});
  }
  // Generates from the same tokens as one prompt, laid out in equal pages.
  plimsoll::testing::Generated Fresh(Ids prompt, int64_t max_tokens) {
    GenerateOptions options = PlainText(std::move(prompt), max_tokens);
    options.roll.policy = ContextPolicy::kRoll;
    options.roll.pin_tokens = static_cast<int64_t>(Frame().opening.size());
    return plimsoll::testing::Generate(*engine_, options);
  }
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_TESTS_WORKER_ENGINE_SESSION_FIXTURE_H_
