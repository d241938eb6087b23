// Any tables: a tokenizer or an error; and a tokenizer keeps its promises.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/layout/memory_plan.h"
#include "tests/worker/text/tokenizer/gguf_fixture.h"

namespace plimsoll::worker {
namespace {

void Check(const Tokenizer& tokenizer, const std::string& text) {
  for (const bool parse_special : {false, true}) {
    const auto ids =
        tokenizer.EncodeWithBos(text, ParseSpecialIf(parse_special));
    PLIMSOLL_CHECK(ids.ok(), "any bytes are accepted");
    std::string back;
    for (const int32_t id : *ids) {
      PLIMSOLL_CHECK(id >= 0 && id < tokenizer.vocab_size(), "ids are valid");
      tokenizer.AppendBytes(id, RenderSpecial::kYes, back);
      (void)tokenizer.IsEnd(id);
    }
    (void)tokenizer.Decode(*ids, RenderSpecialIf(parse_special));
  }
  const auto plain = tokenizer.Encode(text, ParseSpecial::kNo);
  PLIMSOLL_CHECK(plain.ok(), "any bytes are accepted");
  for (const int32_t id : *plain) {
    PLIMSOLL_CHECK(tokenizer.Type(id) != TokenType::kControl,
                   "control text stays text");
  }
}

}  // namespace
}  // namespace plimsoll::worker

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using plimsoll::worker::GgufFixture;
  FuzzedDataProvider input(data, size);
  GgufFixture fixture;
  plimsoll::planner::VocabShape shape;
  shape.model = input.PickValueInArray({"llama", "gpt2", "gemma4"});
  fixture.String("tokenizer.ggml.model", shape.model);
  fixture.String("tokenizer.ggml.pre",
                 input.PickValueInArray({"gpt-2", "smollm", "default"}));
  for (const char* name : {"bos", "eos", "eot", "unknown", "fim_pad"}) {
    if (!input.ConsumeBool()) continue;
    fixture.U32(absl::StrCat("tokenizer.ggml.", name, "_token_id"),
                input.ConsumeIntegralInRange<uint32_t>(0, 40));
  }
  if (input.ConsumeBool()) {
    fixture.Bool("tokenizer.ggml.add_bos_token", input.ConsumeBool());
  }
  if (input.ConsumeBool()) {
    fixture.Bool("tokenizer.ggml.add_space_prefix", input.ConsumeBool());
  }
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<float> scores;
  for (size_t n = input.ConsumeIntegralInRange<size_t>(0, 40); n > 0; --n) {
    tokens.push_back(input.ConsumeRandomLengthString(12));
    types.push_back(input.ConsumeIntegralInRange<int32_t>(0, 7));
    scores.push_back(
        static_cast<float>(input.ConsumeIntegralInRange<int>(-4, 4)));
    shape.token_bytes += static_cast<int64_t>(tokens.back().size());
  }
  std::vector<std::string> merges;
  for (size_t n = input.ConsumeIntegralInRange<size_t>(0, 20); n > 0; --n) {
    if (tokens.empty() || input.ConsumeBool()) {
      merges.push_back(input.ConsumeRandomLengthString(12));
    } else {
      const size_t left = input.ConsumeIntegral<uint8_t>() % tokens.size();
      const size_t right = input.ConsumeIntegral<uint8_t>() % tokens.size();
      merges.push_back(absl::StrCat(tokens[left], " ", tokens[right]));
    }
  }
  shape.n_tokens = static_cast<int64_t>(tokens.size());
  shape.n_merges = static_cast<int64_t>(merges.size());
  fixture.Strings("tokenizer.ggml.tokens", tokens)
      .I32s("tokenizer.ggml.token_type", types)
      .F32s("tokenizer.ggml.scores", scores)
      .Strings("tokenizer.ggml.merges", merges);
  const auto tokenizer = fixture.Load();
  if (!tokenizer.ok()) return 0;
  PLIMSOLL_CHECK(
      (*tokenizer)->MemoryBytes() <= plimsoll::planner::VocabBytes(shape),
      "tables stay within the plan");
  plimsoll::worker::Check(**tokenizer, input.ConsumeRemainingBytesAsString());
  return 0;
}
