// The bytes of a reply's tokens, for callers that have no tokenizer.
#ifndef PLIMSOLL_SERVICES_GENERATION_TOKEN_BYTES_H_
#define PLIMSOLL_SERVICES_GENERATION_TOKEN_BYTES_H_

#include <google/protobuf/repeated_ptr_field.h>

#include <cstdint>

#include "plimsoll/v1/generation.pb.h"
#include "worker/engine/token_sink.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::services {

// An upper bound for the bytes that AddTokenBytes adds to a step's output on
// the wire.
int64_t TokenWireBytes(const worker::Tokenizer& tokenizer,
                       const worker::StepOutput& output);

// Adds the bytes of each token to `tokens` from index `first` on, and to their
// candidates, and marks end tokens.
void AddTokenBytes(
    const worker::Tokenizer& tokenizer, int first,
    google::protobuf::RepeatedPtrField<v1::GeneratedToken>& tokens);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GENERATION_TOKEN_BYTES_H_
