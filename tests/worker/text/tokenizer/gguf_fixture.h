// Writes small GGUF headers in memory, for tests of what reads them.
#ifndef PLIMSOLL_TESTS_WORKER_TEXT_TOKENIZER_GGUF_FIXTURE_H_
#define PLIMSOLL_TESTS_WORKER_TEXT_TOKENIZER_GGUF_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/gguf/gguf_reader.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::worker {

// A header with metadata only. Calls chain.
class GgufFixture {
 public:
  GgufFixture& String(absl::string_view key, absl::string_view value) {
    Begin(key, planner::GgufType::kString);
    AddString(value);
    return *this;
  }
  GgufFixture& U32(absl::string_view key, uint32_t value) {
    Begin(key, planner::GgufType::kU32);
    Add(value);
    return *this;
  }
  GgufFixture& Bool(absl::string_view key, bool value) {
    Begin(key, planner::GgufType::kBool);
    Add(static_cast<uint8_t>(value));
    return *this;
  }
  GgufFixture& Strings(absl::string_view key,
                       const std::vector<std::string>& values) {
    BeginArray(key, planner::GgufType::kString, values.size());
    for (const std::string& value : values) AddString(value);
    return *this;
  }
  GgufFixture& I32s(absl::string_view key, const std::vector<int32_t>& values) {
    BeginArray(key, planner::GgufType::kI32, values.size());
    for (const int32_t value : values) Add(value);
    return *this;
  }
  GgufFixture& F32s(absl::string_view key, const std::vector<float>& values) {
    BeginArray(key, planner::GgufType::kF32, values.size());
    for (const float value : values) Add(value);
    return *this;
  }

  std::vector<std::byte> Bytes() const {
    GgufFixture file;
    file.body_.append("GGUF");
    file.Add(uint32_t{3});
    file.Add(uint64_t{0});
    file.Add(n_);
    file.body_ += body_;
    std::vector<std::byte> bytes(file.body_.size());
    std::memcpy(bytes.data(), file.body_.data(), bytes.size());
    return bytes;
  }

  absl::StatusOr<planner::GgufHeader> Header() const {
    const std::vector<std::byte> bytes = Bytes();
    planner::MemorySource source(bytes);
    return planner::ReadGgufHeader(source);
  }

  absl::StatusOr<std::unique_ptr<Tokenizer>> Load() const {
    const std::vector<std::byte> bytes = Bytes();
    planner::MemorySource source(bytes);
    absl::StatusOr<planner::GgufHeader> header =
        planner::ReadGgufHeader(source);
    if (!header.ok()) return header.status();
    return LoadTokenizer(*header, source);
  }

 private:
  template <typename T>
  void Add(T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    body_.append(bytes, sizeof(T));
  }
  void AddString(absl::string_view value) {
    Add(static_cast<uint64_t>(value.size()));
    body_.append(value.data(), value.size());
  }
  void Begin(absl::string_view key, planner::GgufType type) {
    ++n_;
    AddString(key);
    Add(static_cast<uint32_t>(type));
  }
  void BeginArray(absl::string_view key, planner::GgufType type, size_t n) {
    Begin(key, planner::GgufType::kArray);
    Add(static_cast<uint32_t>(type));
    Add(static_cast<uint64_t>(n));
  }

  uint64_t n_ = 0;
  std::string body_;
};

// One token of a fixture's vocabulary.
struct FixtureToken {
  std::string text;
  TokenType type = TokenType::kNormal;
  float score = 0;
};

// A vocabulary as the file's three arrays.
inline GgufFixture& AddVocab(GgufFixture& fixture,
                             const std::vector<FixtureToken>& tokens) {
  std::vector<std::string> texts;
  std::vector<int32_t> types;
  std::vector<float> scores;
  for (const FixtureToken& token : tokens) {
    texts.push_back(token.text);
    types.push_back(static_cast<int32_t>(token.type));
    scores.push_back(token.score);
  }
  return fixture.Strings("tokenizer.ggml.tokens", texts)
      .I32s("tokenizer.ggml.token_type", types)
      .F32s("tokenizer.ggml.scores", scores);
}

// A vocabulary that byte pair encoding uses as gpt-2 does, with `merges` such
// as "a b".
inline GgufFixture& AddBpeVocab(GgufFixture& fixture,
                                const std::vector<FixtureToken>& tokens,
                                const std::vector<std::string>& merges) {
  return AddVocab(fixture, tokens)
      .String("tokenizer.ggml.model", "gpt2")
      .String("tokenizer.ggml.pre", "gpt-2")
      .Strings("tokenizer.ggml.merges", merges);
}
inline GgufFixture& AddBpeVocab(GgufFixture& fixture,
                                const std::vector<FixtureToken>& tokens) {
  return AddBpeVocab(fixture, tokens, {});
}

// The text of the code point that byte-level BPE writes for `byte`.
inline std::string MappedByteText(int byte) {
  int shifted = 256;
  for (int b = 0; b < 256; ++b) {
    const bool itself =
        (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174);
    const int code_point = itself ? b : shifted++;
    if (b != byte) continue;
    if (code_point < 128) return std::string(1, static_cast<char>(code_point));
    return {static_cast<char>(0xC0 | (code_point >> 6)),
            static_cast<char>(0x80 | (code_point & 63))};
  }
  return "";
}

// A byte-level vocabulary: ids 0 to 255 are the bytes, then `more`.
inline std::vector<FixtureToken> ByteLevelVocab(
    std::vector<FixtureToken> more) {
  std::vector<FixtureToken> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back({MappedByteText(byte)});
  }
  for (FixtureToken& token : more) tokens.push_back(std::move(token));
  return tokens;
}

// A tokenizer of all bytes (ids 0-255) and of `more` tokens. The last of these
// ends replies.
inline std::unique_ptr<Tokenizer> ByteTokenizer(
    const std::vector<FixtureToken>& more) {
  const std::vector<FixtureToken> vocab = ByteLevelVocab(more);
  GgufFixture fixture;
  auto tokenizer = AddBpeVocab(fixture, vocab)
                       .U32("tokenizer.ggml.eos_token_id",
                            static_cast<uint32_t>(vocab.size()) - 1)
                       .Load();
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_TESTS_WORKER_TEXT_TOKENIZER_GGUF_FIXTURE_H_
