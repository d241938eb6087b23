// A generator of text as commands see it: a loaded model of this process, or a
// worker behind an address. Both speak plimsoll.v1.
#ifndef PLIMSOLL_SERVICES_CLI_BACKENDS_GENERATOR_H_
#define PLIMSOLL_SERVICES_CLI_BACKENDS_GENERATOR_H_

#include <memory>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plimsoll/v1/generation.pb.h"
#include "plimsoll/v1/model.pb.h"
#include "plimsoll/v1/session.pb.h"

namespace plimsoll::cli {

// The messages of one call's reply, in order. Dropping the stream cancels the
// call.
class ReplyStream {
 public:
  virtual ~ReplyStream() = default;
  // Waits for the next message. Returns nothing after the last one, which has
  // `finish`. Errors: the error that ended the call; an interruption
  // (InterruptedError).
  virtual absl::StatusOr<std::optional<v1::StreamGenerateResponse>> Next() = 0;
};

// Several calls may run at once; they must end before the generator does.
class Generator {
 public:
  virtual ~Generator() = default;
  // Starts a call.
  virtual absl::StatusOr<std::unique_ptr<ReplyStream>> Start(
      const v1::StreamGenerateRequest& request) = 0;

  // The next calls are for a chat that stays between calls, as in
  // SessionService.
  virtual absl::StatusOr<v1::Session> OpenSession(
      const v1::OpenSessionRequest& request) = 0;
  virtual absl::StatusOr<v1::Session> GetSession(
      const v1::GetSessionRequest& request) = 0;
  // Starts a call of the session.
  virtual absl::StatusOr<std::unique_ptr<ReplyStream>> Chat(
      const v1::ChatRequest& request) = 0;
  // Commands call this after an interruption too.
  virtual absl::Status CloseSession(const v1::CloseSessionRequest& request) = 0;

  // The model's memory, planned and measured.
  virtual absl::StatusOr<v1::GetMemoryResponse> GetMemory(
      const v1::GetMemoryRequest& request) = 0;
};

// Reads a call to its end. `on_delta` is called with every delta when it
// arrives.
absl::StatusOr<v1::GenerateResponse> Collect(
    ReplyStream& stream,
    absl::FunctionRef<void(const v1::StreamGenerateResponse&)> on_delta);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_BACKENDS_GENERATOR_H_
