// What the masks of JSON schemas cost, token by token, along texts that are
// given. bench/constraint_masks.py drives it and runs other packages along the
// same tokens.
//
// usage: constraint_masks_bench MODEL
//
// The first line of output has the vocabulary: each token's bytes in
// hexadecimal, empty where it is no text, and the tokens that end generation.
// Then each line of standard input is {"schema": ..., "texts": [...]}, and a
// line of times in nanoseconds of this process's CPU answers it.
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "base/json.h"
#include "bench/must.h"
#include "worker/device/model_file.h"
#include "worker/text/grammar/token_mask.h"
#include "worker/text/schema/schema_grammar.h"
#include "worker/text/tokenizer/token_index.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::worker {
namespace {

// Schemas are compiled as they are written: members stay in order.
using Json = nlohmann::ordered_json;

int64_t CpuNs() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void PrintVocabulary(const TokenIndex& index) {
  const Tokenizer& tokenizer = index.tokenizer();
  Json tokens = Json::array();
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    std::string bytes;
    if (!tokenizer.IsEnd(id)) {
      tokenizer.AppendBytes(id, RenderSpecial::kNo, bytes);
    }
    tokens.push_back(absl::BytesToHexString(bytes));
  }
  std::cout << Json{{"tokens", tokens}, {"ends", tokenizer.end_tokens()}}
            << std::endl;
}

bool MayEnd(const Tokenizer& tokenizer, std::span<const uint64_t> bits) {
  for (const int32_t id : tokenizer.end_tokens()) {
    const auto at = static_cast<size_t>(id);
    if ((bits[at / 64] >> (at % 64) & 1) != 0) return true;
  }
  return false;
}

// A stream that says `text`: the time of each mask and of going on after its
// token, and of the mask behind the last one.
Json Walk(const std::shared_ptr<const Grammar>& grammar,
          const TokenIndex& index, const std::string& text) {
  const Tokenizer& tokenizer = index.tokenizer();
  const auto ids = bench::Must(tokenizer.Encode(text, ParseSpecial::kNo));
  Json times = Json::array();
  int64_t begin = CpuNs();
  TokenMask mask(grammar, index);
  const int64_t start = CpuNs() - begin;
  bool is_accepted = true;
  for (size_t i = 0; i <= ids.size() && is_accepted; ++i) {
    begin = CpuNs();
    mask.BeginStep();
    const auto bits = mask.AllowedTokens();
    if (i < ids.size()) {
      is_accepted = bits.ok() && mask.Accept(ids[i]).ok();
    }
    times.push_back(CpuNs() - begin);
    if (i == ids.size()) is_accepted = bits.ok() && MayEnd(tokenizer, *bits);
  }
  return {{"ids", ids},
          {"start", start},
          {"times", times},
          {"accepted", is_accepted}};
}

Json Answer(const Json& request, const TokenIndex& index) {
  const std::string schema = request["schema"].dump();
  const int64_t begin = CpuNs();
  const auto grammar = CompileJsonSchema(schema);
  const int64_t compile = CpuNs() - begin;
  if (!grammar.ok()) return {{"error", grammar.status().message()}};
  Json walks = Json::array();
  for (const Json& text : request["texts"]) {
    walks.push_back(Walk(*grammar, index, text.get<std::string>()));
  }
  return {{"compile", compile}, {"walks", walks}};
}

int Main(const char* model) {
  const auto file = bench::Must(ModelFile::Open(model));
  const auto tokenizer = bench::Must(LoadTokenizer(file->header(), *file));
  const TokenIndex index(*tokenizer);
  PrintVocabulary(index);
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << Answer(Json::parse(line), index) << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace plimsoll::worker

int main(int argc, char** argv) {
  if (argc == 2) return plimsoll::worker::Main(argv[1]);
  std::fprintf(stderr, "usage: constraint_masks_bench MODEL\n");
  return 2;
}
