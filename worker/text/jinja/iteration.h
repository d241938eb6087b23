// Iterates over values. Generators are iterators that compute.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_ITERATION_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_ITERATION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/text/jinja/evaluator.h"
#include "worker/text/jinja/value.h"

namespace plimsoll::worker::jinja {

// Gives the next value, or nothing at the end.
using NextFunction =
    std::function<absl::StatusOr<std::optional<Value>>(Evaluator&)>;

// Makes an iterator over the results of `next`. `source_depth` is the depth of
// the values that `next` holds.
// Errors: kInvalidArgument if the nesting would exceed kMaxNesting.
absl::StatusOr<std::shared_ptr<Iterator>> MakeIterator(int source_depth,
                                                       NextFunction next);
absl::StatusOr<Value> MakeGenerator(int source_depth, NextFunction next);

// Makes an iterator over the value.
// Errors: kInvalidArgument if the value cannot be iterated over.
absl::StatusOr<std::shared_ptr<Iterator>> Iterate(const Value& value);
// Goes over the same values as Iterate. Lists and ranges need no iterator.
class Cursor {
 public:
  // Errors: kInvalidArgument if the value cannot be iterated over.
  static absl::StatusOr<Cursor> Over(const Value& value);
  // Puts the next value into `item`; false at the end.
  absl::StatusOr<bool> Next(Evaluator& evaluator, Value& item);

 private:
  explicit Cursor(Value items) : items_(std::move(items)) {}

  Value items_;  // a list, a range or an iterator
  int64_t at_ = 0;
};

// True if Iterate succeeds.
bool IsIterable(const Value& value);
// Returns all values of Iterate. An iterator is empty afterwards.
absl::StatusOr<std::vector<Value>> ToVector(Evaluator& evaluator,
                                            const Value& value);
// Python's len(); nothing for a value without a length.
std::optional<int64_t> LengthOf(const Value& value);
absl::StatusOr<int64_t> Length(const Value& value);

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_ITERATION_H_
