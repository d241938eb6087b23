// The rules that the name of a pre-tokenizer implies.
#ifndef PLIMSOLL_WORKER_TEXT_TOKENIZER_PRETOKENIZER_RULE_H_
#define PLIMSOLL_WORKER_TEXT_TOKENIZER_PRETOKENIZER_RULE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/text/tokenizer/char_classes.h"

namespace plimsoll::worker {

// A scanner with options, which cuts text as an expression does. The .cc has
// the expression of each rule.
struct PreTokenizerRule {
  enum class Scanner { kGpt2, kWords, kDeepSeek3, kRuns };
  // Whether the endings of words, such as 'll, are cut off or joined.
  enum class Endings { kNone, kCutOff, kJoined };

  Alphabet alphabet;
  Scanner scanner;
  int max_digits = 0;                  // most digits of a piece; 0: no limit
  absl::string_view after_signs = "";  // ASCII that may follow a piece's signs
  Endings endings = Endings::kNone;
  bool cuts_ascii_digits = false;    // cuts runs of ASCII digits every three
  bool cuts_last_spaces = false;     // white space at the end of a run
  uint8_t ends = CharClasses::kCut;  // classes before which a piece ends
};

// The rule and the defaults of a name in the GGUF key tokenizer.ggml.pre.
struct PreTokenizerFamily {
  absl::string_view name;
  const PreTokenizerRule& rule;
  bool whole_pieces_first = false;  // a piece that is a token is not merged
  bool add_bos = false;             // default of tokenizer.ggml.add_bos_token
};

// Errors: kUnimplemented naming a pre-tokenizer that we do not know.
absl::StatusOr<const PreTokenizerFamily*> FindPreTokenizer(
    absl::string_view name);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_TOKENIZER_PRETOKENIZER_RULE_H_
