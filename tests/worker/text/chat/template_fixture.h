// A chat template with a vocabulary of bytes and of control tokens.
#ifndef PLIMSOLL_TESTS_WORKER_TEXT_CHAT_TEMPLATE_FIXTURE_H_
#define PLIMSOLL_TESTS_WORKER_TEXT_CHAT_TEMPLATE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/worker/text/tokenizer/gguf_fixture.h"
#include "worker/text/chat/model_template.h"

namespace plimsoll::worker {

// Ids 0 to 255 are the bytes, then come `controls`. The first is BOS, the
// second ends a reply.
struct TemplateVocab {
  std::vector<std::string> controls;
  std::vector<std::string> merges = {};  // pairs such as "a b"
  bool adds_bos = false;
};

struct TemplateFixture {
  TemplateFixture(absl::string_view source, const TemplateVocab& vocab) {
    const auto& [controls, merges, adds_bos] = vocab;
    std::vector<FixtureToken> tokens;
    tokens.reserve(controls.size() + merges.size());
    for (const std::string& text : controls) {
      tokens.push_back({text, TokenType::kControl});
    }
    for (std::string pair : merges) {
      pair.erase(pair.find(' '), 1);
      tokens.push_back({std::move(pair)});
    }
    GgufFixture fixture;
    AddBpeVocab(fixture, ByteLevelVocab(std::move(tokens)), merges)
        .U32("tokenizer.ggml.bos_token_id", 256)
        .U32("tokenizer.ggml.eos_token_id", 257)
        .Bool("tokenizer.ggml.add_bos_token", adds_bos)
        .String("tokenizer.chat_template", source);
    auto loaded = fixture.Load();
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    if (loaded.ok()) tokenizer = *std::move(loaded);
    auto parsed = ModelTemplate::Load(*fixture.Header());
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    if (parsed.ok()) program = *std::move(parsed);
  }

  std::unique_ptr<Tokenizer> tokenizer;
  std::shared_ptr<const ModelTemplate> program;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_TESTS_WORKER_TEXT_CHAT_TEMPLATE_FIXTURE_H_
