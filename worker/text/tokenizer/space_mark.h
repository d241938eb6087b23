// U+2581, which stands for a space in vocabularies of SentencePiece's kind.
#ifndef PLIMSOLL_WORKER_TEXT_TOKENIZER_SPACE_MARK_H_
#define PLIMSOLL_WORKER_TEXT_TOKENIZER_SPACE_MARK_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/text/stop_counter.h"

namespace plimsoll::worker {

inline constexpr absl::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

// The bytes of the character that begins with `lead`, by the high bits of
// `lead` alone. These tokenizers cut ill-formed text in the same way.
size_t CharBytes(char lead);

// Sets `marked` to `text` with U+2581 in place of each space.
// Errors: those of `stop`.
absl::Status MarkSpaces(absl::string_view text, bool with_space_prefix,
                        StopCounter& stop, std::string& marked);

// Appends `text` with a space in place of each U+2581.
void AppendUnmarked(absl::string_view text, std::string& out);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_TOKENIZER_SPACE_MARK_H_
