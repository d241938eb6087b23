// Cuts text into the pieces that byte-level BPE merges within.
#ifndef PLIMSOLL_WORKER_TEXT_TOKENIZER_PRETOKENIZER_H_
#define PLIMSOLL_WORKER_TEXT_TOKENIZER_PRETOKENIZER_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/text/tokenizer/char_classes.h"

namespace plimsoll::worker {

// Hand-written scanners for the regular expressions of the known
// pre-tokenizers. Each makes one pass over any text. Immutable after Create, so
// thread-safe. Any bytes are accepted: a run of ill-formed UTF-8 is a piece of
// its own.
class PreTokenizer {
 public:
  // Facts of the tokenizer that follow from the pre-tokenizer and not from the
  // file.
  struct Traits {
    bool whole_pieces_first;  // a piece that is a token is not merged
    bool add_bos;             // default of tokenizer.ggml.add_bos_token
  };
  // The expression that cuts the text; see the .cc for each.
  enum class Rule { kGpt2, kEachDigitGpt2, kLlama3, kQwen2 };

  // `name` is the GGUF key tokenizer.ggml.pre: "gpt-2", "smollm", "llama-bpe",
  // "qwen2" or another name of one of them.
  // Errors: kUnimplemented naming a pre-tokenizer that we do not know.
  static absl::StatusOr<PreTokenizer> Create(absl::string_view name);

  // The length in bytes of the first piece of `text`, which is not empty. The
  // pieces of a text follow one another, and none depends on what comes before
  // it.
  size_t FirstPiece(absl::string_view text) const;

  const Traits& traits() const { return traits_; }

 private:
  // What a text begins with.
  struct Front {
    // kEnd: the text ends here, or what follows is cut off.
    enum class Kind { kOther, kLetter, kNumber, kSpace, kEnd };
    Kind kind;
    size_t bytes;
  };

  PreTokenizer(const CharClasses& classes, Rule rule, const Traits& traits)
      : classes_(&classes), rule_(rule), traits_(traits) {}

  Front ReadFront(absl::string_view text, size_t at) const;
  // The end of the run of `kind` that contains `at`.
  size_t SkipRun(absl::string_view text, size_t at, Front::Kind kind) const;
  // The first piece of a text that begins with white space which belongs to no
  // word.
  size_t SpacePiece(absl::string_view text, bool lines_first) const;
  // The first piece of a text that begins with a well-formed code point.
  size_t Gpt2Piece(absl::string_view text, Front first) const;
  size_t Llama3Piece(absl::string_view text, Front first) const;

  const CharClasses* classes_;
  Rule rule_;
  Traits traits_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_TOKENIZER_PRETOKENIZER_H_
