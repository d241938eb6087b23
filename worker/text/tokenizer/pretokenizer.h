// Cuts text into the pieces that byte-level BPE merges within.
#ifndef PLIMSOLL_WORKER_TEXT_TOKENIZER_PRETOKENIZER_H_
#define PLIMSOLL_WORKER_TEXT_TOKENIZER_PRETOKENIZER_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/text/tokenizer/char_classes.h"
#include "worker/text/tokenizer/pretokenizer_rule.h"

namespace plimsoll::worker {

// Hand-written scanners for the regular expressions of the known
// pre-tokenizers. Each reads a text only a few times. Immutable after Create,
// so thread-safe. Any bytes are accepted: a run of ill-formed UTF-8 is a piece
// of its own.
class PreTokenizer {
 public:
  // `name` is the GGUF key tokenizer.ggml.pre.
  // Errors: kUnimplemented naming a pre-tokenizer that we do not know.
  static absl::StatusOr<PreTokenizer> Create(absl::string_view name);

  // The length in bytes of the first piece of `text`, which is not empty. The
  // pieces of a text follow one another. No piece depends on the text before
  // it.
  size_t FirstPiece(absl::string_view text) const;

  const PreTokenizerFamily& family() const { return *family_; }

 private:
  // The code point that a text begins with.
  struct Front {
    uint8_t classes;  // CharClasses
    size_t bytes;     // 0: nothing, or no well-formed code point

    bool IsAny(uint8_t of) const { return (classes & of) != 0; }
  };
  // Four consecutive code points.
  struct Neighbours {
    Front last, next, after, later;
    size_t end;        // the end of `last`
    size_t after_end;  // the end of `next`
  };
  // The letters of a word.
  struct Word {
    size_t end;
    bool has_lower;
  };

  PreTokenizer(const PreTokenizerFamily& family, const CharClasses& classes)
      : family_(&family), rule_(&family.rule), classes_(&classes) {}

  Front ReadFront(absl::string_view text, size_t at) const {
    if (at >= text.size()) return {0, 0};
    const auto lead = static_cast<unsigned char>(text[at]);
    if (lead < 0x80) return {classes_->Of(lead), 1};
    return ReadLongFront(text.substr(at));
  }
  // ReadFront of a text that does not begin with ASCII.
  Front ReadLongFront(absl::string_view text) const;
  // True if any other piece ends before `front`.
  bool IsEnd(Front front) const {
    return front.bytes == 0 || front.IsAny(rule_->ends);
  }
  // The end of the run of `classes` that contains `at`.
  size_t SkipRun(absl::string_view text, size_t at, uint8_t classes) const;
  // The end of the piece that begins with `first`, which is a run of digits up
  // to the rule's limit, or one end of a line.
  size_t LimitedEnd(absl::string_view text, Front first) const;
  // The first piece of a text that begins with white space which belongs to no
  // word.
  size_t SpacePiece(absl::string_view text, bool lines_first) const;
  // The first piece of a text that begins with signs, or 0.
  size_t SignPiece(absl::string_view text, Front first, Front second) const;
  Word ReadWord(absl::string_view text, size_t at) const;
  // The end of the word that `text` begins with, or 0.
  size_t WordEnd(absl::string_view text, Front first) const;
  // The end of the run of numbers that begins at `at`. Three ASCII digits end
  // the run before them.
  size_t FalconNumbersEnd(absl::string_view text, size_t at) const;

  // The first piece of a text that begins with a code point that is not cut
  // out.
  size_t Gpt2Piece(absl::string_view text, Front first) const;
  size_t WordsPiece(absl::string_view text, Front first) const;
  size_t DeepSeek3Piece(absl::string_view text, Front first) const;
  size_t RunsPiece(absl::string_view text) const;
  Neighbours ReadNeighbours(absl::string_view text, size_t at) const;
  void Advance(absl::string_view text, Neighbours& around) const;
  // True if `next` begins a run of letters, of signs or of neither.
  static bool BeginsRun(const Neighbours& around);
  // True if the white space at `at` is the last of its run.
  bool IsLastOfRun(absl::string_view text, size_t at) const;

  const PreTokenizerFamily* family_;
  const PreTokenizerRule* rule_;
  const CharClasses* classes_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_TOKENIZER_PRETOKENIZER_H_
