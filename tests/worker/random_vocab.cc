#include "tests/worker/random_vocab.h"

#include "absl/strings/str_format.h"

namespace plimsoll::testing {

void WriteSpmVocab(const std::vector<VocabToken>& last_tokens, Writer& w) {
  const std::string space = "\xe2\x96\x81";
  std::vector<std::string> tokens = {
      "<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"};
  std::vector<int32_t> types = {3, 3, 3, 2, 3, 3};
  for (int b = 0; b < 256; ++b) {
    tokens.push_back(absl::StrFormat("<0x%02X>", b));
    types.push_back(6);
  }
  std::vector<float> scores(tokens.size(), 0.0f);
  tokens.push_back(space);
  for (char c = 'a'; c <= 'z'; ++c) tokens.emplace_back(1, c);
  for (char c = 'a'; c <= 'z'; ++c) tokens.push_back(space + c);
  for (const char* pair : {"th", "he", "in", "er", "an", "re", "on", "at"}) {
    tokens.emplace_back(pair);
  }
  for (size_t i = types.size(); i < tokens.size(); ++i) {
    scores.push_back(-static_cast<float>(i - types.size()));
  }
  types.resize(tokens.size(), 1);
  size_t id = tokens.size() - last_tokens.size();
  for (const auto& [text, type] : last_tokens) {
    tokens[id] = text;
    types[id++] = type;
  }
  w.Text("tokenizer.ggml.model", "llama");
  w.Texts("tokenizer.ggml.tokens", tokens);
  w.Values("tokenizer.ggml.scores", 6, scores);
  w.Values("tokenizer.ggml.token_type", 5, types);
  w.U32("tokenizer.ggml.bos_token_id", 2);
  w.U32("tokenizer.ggml.eos_token_id", 1);
  w.Bool("tokenizer.ggml.add_bos_token", true);
  w.Bool("tokenizer.ggml.add_space_prefix", false);
}

void WriteBpeVocab(Writer& w) {
  std::vector<std::string> tokens = {"<|endoftext|>", "<|im_start|>",
                                     "<|im_end|>"};
  int next = 256;
  for (int b = 0; b < 256; ++b) {
    const bool is_printable =
        (b >= 33 && b < 127) || (b >= 161 && b < 173) || b >= 174;
    const int code = is_printable ? b : next++;
    std::string text;
    if (code < 0x80) {
      text += static_cast<char>(code);
    } else {
      text += static_cast<char>(0xc0 | code >> 6);
      text += static_cast<char>(0x80 | (code & 0x3f));
    }
    tokens.push_back(text);
  }
  std::vector<std::string> merges;
  for (const char a : std::string("abcdefgh")) {
    for (const char b : std::string("stuvwxyz")) {
      merges.push_back(std::string(1, a) + " " + b);
      tokens.push_back(std::string(1, a) + b);
    }
  }
  std::vector<int32_t> types(tokens.size(), 1);
  types[0] = types[1] = types[2] = 3;
  w.Text("tokenizer.ggml.model", "gpt2");
  w.Text("tokenizer.ggml.pre", "smollm");
  w.Texts("tokenizer.ggml.tokens", tokens);
  w.Values("tokenizer.ggml.token_type", 5, types);
  w.Texts("tokenizer.ggml.merges", merges);
  w.U32("tokenizer.ggml.bos_token_id", 1);
  w.U32("tokenizer.ggml.eos_token_id", 2);
  w.Bool("tokenizer.ggml.add_bos_token", false);
}

}  // namespace plimsoll::testing
