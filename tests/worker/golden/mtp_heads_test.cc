// MTP heads of tiny models, against what another computation says: the
// log-probabilities of every row of a prompt, and of guesses after it. Skipped
// visibly where the shared data or numpy is not there.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/worker/golden/family_models.h"
#include "tests/worker/json.h"
#include "worker/device/model_file.h"
#include "worker/engine/engine_options.h"
#include "worker/engine/loader.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::Json;
using ::plimsoll::testing::ReadJson;
using ::plimsoll::testing::TestPython;

constexpr double kMostError = 0.003;
constexpr int64_t kSlot = 0;

// The natural logarithm of each token's probability.
std::vector<double> LogProbs(std::span<const float> logits) {
  const auto largest = static_cast<double>(*std::ranges::max_element(logits));
  double sum = 0;
  for (const float logit : logits) {
    sum += std::exp(static_cast<double>(logit) - largest);
  }
  std::vector<double> logprobs;
  for (const float logit : logits) {
    logprobs.push_back(static_cast<double>(logit) - largest - std::log(sum));
  }
  return logprobs;
}

class MtpHeadsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string why = plimsoll::testing::WhyNoFamilyModels();
    if (!why.empty()) GTEST_SKIP() << why;
    const std::string json =
        absl::StrCat("tests/testdata/mtp/", GetParam(), ".json");
    const auto golden = ReadJson(json);
    ASSERT_TRUE(golden.has_value()) << json;
    golden_ = *golden;
    path_ = absl::StrCat(::testing::TempDir(), "plimsoll_mtp_", getpid(), "_",
                         GetParam(), ".gguf");
    const std::string command = absl::StrCat(
        TestPython(), " tests/testdata/mtp/mtp_models.py --params ", json, " '",
        path_, "'");
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }
  void TearDown() override { std::remove(path_.c_str()); }

  void Load() {
    auto opened = ModelFile::Open(path_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    file_ = *std::move(opened);
    planner::LoadOptions load;
    load.n_ctx = golden_.at("n_ctx").get<int64_t>();
    // Each row of the prompts is sampled, which takes that many logits.
    load.n_slots = 4;
    load.n_draft = planner::LoadOptions::kMaxDraftTokens;
    load.draft_source = planner::DraftSource::kMtp;
    load.k_type = load.v_type = DType::kF32;
    const auto plan = planner::Layout(file_->shape(), {load},
                                      LocalCpu().Profile(), int64_t{1} << 40);
    ASSERT_TRUE(plan.ok()) << plan.status();
    options_.precision = Precision::kExact;
    const LoadFence fence = [](const LoadProgress&) {
      return absl::OkStatus();
    };
    auto loaded = EngineLoader(*file_, options_, fence)
                      .Load({{nullptr, 0, file_->shape().n_layers, *plan}});
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    loaded_.emplace(*std::move(loaded));
    cache().Begin(kSlot, /*prefix_tokens=*/0);
  }

  KvCache& cache() { return *loaded_->cache; }

  // Rows of consecutive tokens of one sequence, of which the last `n_sampled`
  // are sampled.
  static StepBatch Rows(std::span<const int32_t> tokens, int64_t position,
                        size_t n_sampled) {
    StepBatch batch;
    batch.tokens.assign(tokens.begin(), tokens.end());
    for (size_t row = 0; row < tokens.size(); ++row) {
      batch.positions.push_back(position + static_cast<int64_t>(row));
      batch.model_rows.push_back(static_cast<int32_t>(row));
      if (row + n_sampled >= tokens.size()) {
        batch.sampled_rows.push_back(static_cast<int32_t>(row));
      }
    }
    batch.prefix_positions = batch.positions;
    batch.sequences = {{.slot = kSlot,
                        .first_row = 0,
                        .n_rows = std::ssize(batch.tokens),
                        .first_position = position,
                        .is_prompt = true}};
    batch.keeps_all_rows = true;
    return batch;
  }

  // What `model` makes of the i-th sampled row of its last step.
  std::vector<double> LogProbsOf(const Model& model, size_t i) const {
    const auto n = static_cast<size_t>(loaded_->shape.vocab_size);
    return LogProbs({model.Logits() + i * n, n});
  }

  void ExpectTop(const std::vector<double>& logprobs, const Json& top) {
    for (const Json& candidate : top) {
      const double got = logprobs[candidate.at(0).get<size_t>()];
      const auto wanted = candidate.at(1).get<double>();
      worst_ = std::max(worst_, std::abs(got - wanted));
      EXPECT_NEAR(got, wanted, kMostError);
      ++n_values_;
    }
    const auto first = static_cast<size_t>(std::ranges::max_element(logprobs) -
                                           logprobs.begin());
    EXPECT_EQ(first, top.at(0).at(0).get<size_t>());
  }

  // Computes a prompt in chunks of `chunk` rows, and then guesses.
  void ExpectCase(const Json& wanted, size_t chunk) {
    auto ids = wanted.at("prompt_ids").get<std::vector<int32_t>>();
    const size_t n_prompt = ids.size();
    ids.push_back(wanted.at("next").at(0).get<int32_t>());
    size_t n_rows = 0;  // rows of the last chunk
    for (size_t begin = 0; begin < n_prompt; begin += n_rows) {
      n_rows = std::min(chunk, n_prompt - begin);
      const auto position = static_cast<int64_t>(begin);
      const std::span<const int32_t> rest = std::span(ids).subspan(begin);
      ASSERT_TRUE(
          cache().Extend(kSlot, position + static_cast<int64_t>(n_rows)).ok());
      ASSERT_TRUE(
          loaded_->model->Step(Rows(rest.first(n_rows), position, 1)).ok());
      if (begin + n_rows == n_prompt) {
        const std::vector<double> next = LogProbsOf(*loaded_->model, 0);
        EXPECT_NEAR(next[static_cast<size_t>(ids.back())],
                    wanted.at("next").at(1).get<double>(), kMostError);
      }
      ASSERT_TRUE(
          loaded_->mtp->Step(Rows(rest.subspan(1, n_rows), position, n_rows))
              .ok());
      for (size_t row = 0; row < n_rows && begin + row + 1 < n_prompt; ++row) {
        SCOPED_TRACE(begin + row);
        ExpectTop(LogProbsOf(*loaded_->mtp, row),
                  wanted.at("rows").at(begin + row));
      }
    }
    ExpectChain(wanted.at("chain"), static_cast<int64_t>(n_prompt), n_rows - 1);
  }

  // The head has just computed the prompt's last row, which was its sampled row
  // number `last`.
  void ExpectChain(const Json& chain, int64_t position, size_t last) {
    ExpectTop(LogProbsOf(*loaded_->mtp, last), chain.at(0).at("top"));
    for (size_t i = 1; i < chain.size(); ++i) {
      SCOPED_TRACE(absl::StrCat("guess ", i));
      const int32_t token = chain.at(i - 1).at("id").get<int32_t>();
      StepBatch batch = Rows({&token, 1}, position, 1);
      batch.model_rows = {static_cast<int32_t>(i == 1 ? last : 0)};
      ASSERT_TRUE(cache().Extend(kSlot, ++position).ok());
      ASSERT_TRUE(loaded_->mtp->Step(batch).ok());
      ExpectTop(LogProbsOf(*loaded_->mtp, 0), chain.at(i).at("top"));
    }
  }

  std::string path_;
  Json golden_;
  std::unique_ptr<ModelFile> file_;
  EngineOptions options_;
  std::optional<EngineResources> loaded_;
  double worst_ = 0;
  int n_values_ = 0;
};

TEST_P(MtpHeadsTest, SayWhatAnotherComputationSays) {
  for (const size_t chunk : {512, 7}) {
    for (const Json& wanted : golden_.at("cases")) {
      SCOPED_TRACE(absl::StrCat(wanted.at("prompt_ids").size(), " by ", chunk));
      Load();
      if (HasFatalFailure()) return;
      ExpectCase(wanted, chunk);
    }
  }
  std::printf("[ head     ] %s: %d log-probabilities, worst error %.6f\n",
              GetParam(), n_values_, worst_);
}

INSTANTIATE_TEST_SUITE_P(All, MtpHeadsTest,
                         ::testing::Values("qwen35", "qwen35moe", "qwen3next",
                                           "glm4moe", "glm4moe-own",
                                           "deepseek2"),
                         plimsoll::testing::NameOfFamily);

}  // namespace
}  // namespace plimsoll::worker
