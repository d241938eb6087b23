// The vocabularies of random models.
#ifndef PLIMSOLL_TESTS_WORKER_RANDOM_VOCAB_H_
#define PLIMSOLL_TESTS_WORKER_RANDOM_VOCAB_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/worker/file_writer.h"

namespace plimsoll::testing {

// A token's text and its type.
using VocabToken = std::pair<std::string, int32_t>;

// Writes a vocabulary of bytes, letters and pairs, as a Gemma has it. Its last
// tokens are `last_tokens`, if there are any.
void WriteSpmVocab(const std::vector<VocabToken>& last_tokens, Writer& w);
// Writes a vocabulary of bytes and merges.
void WriteBpeVocab(Writer& w);

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_WORKER_RANDOM_VOCAB_H_
