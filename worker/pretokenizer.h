// Cuts text into the pieces that byte-level BPE merges within.
#ifndef PLIMSOLL_WORKER_PRETOKENIZER_H_
#define PLIMSOLL_WORKER_PRETOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace plimsoll::worker {

// Immutable after Create, so thread-safe. Any bytes are accepted: a run of
// ill-formed UTF-8 is a piece of its own.
class PreTokenizer {
 public:
  // What a file leaves unsaid about the tokenizer around the expressions.
  struct Traits {
    bool whole_pieces_first;  // a piece that is a token is not merged
    bool add_bos;             // where tokenizer.ggml.add_bos_token is absent
  };

  // `name` is the GGUF key tokenizer.ggml.pre: "gpt-2", "smollm", "llama-bpe",
  // "qwen2" or another name of one of them.
  // Errors: kUnimplemented naming a pre-tokenizer that we do not know.
  static absl::StatusOr<PreTokenizer> Create(absl::string_view name);

  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // Calls `visit` for every piece, in order; the pieces' concatenation is
  // `text`.
  // Errors: kInternal with the regex engine's code if it gives up.
  absl::Status Split(absl::string_view text,
                     const std::function<void(absl::string_view)>& visit) const;

  const Traits& traits() const { return traits_; }
  int64_t MemoryBytes() const;

 private:
  class Impl;
  PreTokenizer(std::unique_ptr<const Impl> impl, const Traits& traits);

  std::unique_ptr<const Impl> impl_;
  Traits traits_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_PRETOKENIZER_H_
