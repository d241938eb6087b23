// Python's operators on values.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_OPERATIONS_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_OPERATIONS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/text/jinja/evaluator.h"
#include "worker/text/jinja/value.h"

namespace plimsoll::worker::jinja {

// Each of these functions returns kInvalidArgument if Python raises, for
// integers beyond 64 bits, and beyond the limits of the evaluator.

absl::StatusOr<bool> Equal(Evaluator& evaluator, const Value& a,
                           const Value& b);
// Applies "==", "!=", "<", "<=", ">", ">=", "in" or "not in".
absl::StatusOr<bool> Compare(Evaluator& evaluator, absl::string_view sign,
                             const Value& a, const Value& b);
absl::StatusOr<bool> IsLess(Evaluator& evaluator, const Value& a,
                            const Value& b);
absl::StatusOr<bool> Contains(Evaluator& evaluator, const Value& container,
                              const Value& item);
// Applies "+", "-", "*", "/", "//", "%" or "**".
absl::StatusOr<Value> Binary(Evaluator& evaluator, absl::string_view sign,
                             const Value& a, const Value& b);
absl::StatusOr<Value> Negate(const Value& value, absl::string_view sign);

// The numbers of a slice, each of which may be none.
struct SliceNumbers {
  Value begin = None();
  Value end = None();
  Value step = None();
};
absl::StatusOr<Value> Slice(Evaluator& evaluator, const Value& object,
                            const SliceNumbers& numbers);

// `object.name` in a template: a member, else an item, else undefined.
absl::StatusOr<Value> GetMember(Evaluator& evaluator, const Value& object,
                                absl::string_view name);
// `object[key]` if the object is a dict or a list that has it; else null. The
// pointer is valid as long as the object.
const Value* FindHeldItem(const Value& object, const Value& key);
// `object[key]`: an item, else a member, else undefined.
absl::StatusOr<Value> GetItem(Evaluator& evaluator, const Value& object,
                              const Value& key);

// Sorts pairs by their first values; equal ones keep their order.
absl::Status SortByKey(Evaluator& evaluator, std::vector<Dict::Pair>& pairs,
                       bool is_reversed);

// The error of a use of an undefined value.
absl::Status UndefinedError(const Value& value);
// Errors such as "unsupported operand".
absl::Status TypeError(absl::string_view what);

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_OPERATIONS_H_
