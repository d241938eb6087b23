// A text's ids, by a tokenizer that does not refuse it.
#ifndef PLIMSOLL_TESTS_WORKER_TEXT_TOKENIZER_ENCODE_H_
#define PLIMSOLL_TESTS_WORKER_TEXT_TOKENIZER_ENCODE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::worker {

inline std::vector<int32_t> EncodeWith(ParseSpecial special,
                                       const Tokenizer& tokenizer,
                                       absl::string_view text) {
  const auto ids = tokenizer.Encode(text, special);
  EXPECT_TRUE(ids.ok()) << ids.status();
  return ids.value_or(std::vector<int32_t>());
}

inline std::vector<int32_t> Encode(const Tokenizer& tokenizer,
                                   absl::string_view text) {
  return EncodeWith(ParseSpecial::kNo, tokenizer, text);
}

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_TESTS_WORKER_TEXT_TOKENIZER_ENCODE_H_
