// The usage of one request of a tenant, as a line of a file.
#ifndef PLIMSOLL_SERVICES_GENERATION_USAGE_RECEIPT_H_
#define PLIMSOLL_SERVICES_GENERATION_USAGE_RECEIPT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace plimsoll::services {

inline constexpr size_t kMaxReceiptBytes = 1 << 16;  // bytes of a line
// The largest number in a line.
inline constexpr int64_t kMaxReceiptCount = int64_t{1} << 50;

// A line describes a request that has ended, the number of refused requests of
// a tenant, or the number of lost lines. Fields that do not belong to the kind
// of the line are 0.
struct UsageReceipt {
  absl::Time time;  // when the request ended, or the line was made
  std::string request_id;
  std::string tenant;
  std::string model;
  std::string status;            // "OK", "CANCELLED", ...; empty: no request
  int64_t prompt_tokens = 0;     // computed
  int64_t cached_tokens = 0;     // prompt tokens that the cache had
  int64_t generated_tokens = 0;  // tokens that the caller got
  int64_t kv_bytes = 0;          // size of its context, as quotas count it
  double seconds = 0;            // time of prefill and decode
  int64_t refused = 0;           // requests
  int64_t lost = 0;              // receipts

  bool operator==(const UsageReceipt&) const = default;
};

// Returns the receipt as JSON on one line, without a newline.
std::string FormatReceipt(const UsageReceipt& receipt);

// Reads a line. Fields that it does not know are ignored.
// Errors: kInvalidArgument if it is no receipt, for example because a process
// ended while it wrote the line.
absl::StatusOr<UsageReceipt> ParseReceipt(absl::string_view line);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GENERATION_USAGE_RECEIPT_H_
