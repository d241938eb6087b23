// How values are iterated over, and generators: iterators that compute.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_ITERATION_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_ITERATION_H_

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/text/jinja/evaluator.h"
#include "worker/text/jinja/value.h"

namespace plimsoll::worker::jinja {

// Gives the next value, or nothing at the end.
using NextFunction =
    std::function<absl::StatusOr<std::optional<Value>>(Evaluator&)>;

// An iterator over what `next` gives. `source_depth` is the depth of the values
// that `next` holds.
// Errors: kInvalidArgument if it were nested deeper than kMaxNesting.
absl::StatusOr<std::shared_ptr<Iterator>> MakeIterator(int source_depth,
                                                       NextFunction next);
absl::StatusOr<Value> MakeGenerator(int source_depth, NextFunction next);

// What iterating over the value gives, one after another.
// Errors: kInvalidArgument if it cannot be iterated over.
absl::StatusOr<std::shared_ptr<Iterator>> Iterate(const Value& value);
// True if Iterate succeeds.
bool IsIterable(const Value& value);
// All that Iterate gives. An iterator is empty afterwards.
absl::StatusOr<std::vector<Value>> ToVector(Evaluator& evaluator,
                                            const Value& value);
// Python's len(); nothing for what has none.
std::optional<int64_t> LengthOf(const Value& value);
absl::StatusOr<int64_t> Length(const Value& value);

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_ITERATION_H_
