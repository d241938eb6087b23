// Where text comes from, as commands see it: a loaded model of this process, or
// a worker behind an address. Both speak plimsoll.v1.
#ifndef PLIMSOLL_SERVICES_CLI_GENERATOR_H_
#define PLIMSOLL_SERVICES_CLI_GENERATOR_H_

#include <memory>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plimsoll/v1/generation.pb.h"

namespace plimsoll::cli {

// One call's parts, in order. Dropping it cancels the call.
class PartStream {
 public:
  virtual ~PartStream() = default;
  // Waits for the next part; nothing after the last, which has `finish`.
  // Errors: what ended the call; an interruption (InterruptedError).
  virtual absl::StatusOr<std::optional<v1::StreamGenerateResponse>> Next() = 0;
};

class Generator {
 public:
  virtual ~Generator() = default;
  // Starts a call. Several may run at once; they must end before this does.
  virtual absl::StatusOr<std::unique_ptr<PartStream>> Start(
      const v1::StreamGenerateRequest& request) = 0;
};

// Reads a call to its end. `on_part`, if any, sees every part as it comes.
absl::StatusOr<v1::GenerateResponse> Collect(
    PartStream& stream,
    absl::FunctionRef<void(const v1::StreamGenerateResponse&)> on_part);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_GENERATOR_H_
