// A condition for values of one type: "and" and "or" over functions that narrow
// a shape.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_FORMULA_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_FORMULA_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/text/schema/shapes/shape.h"
#include "worker/text/stop_counter.h"

namespace plimsoll::worker {

struct Formula;
// A null formula holds for every value.
using FormulaPtr = std::shared_ptr<const Formula>;
using FormulaResult = absl::StatusOr<FormulaPtr>;

struct Formula {
  enum class Kind { kFalse, kAtom, kAnd, kOr };
  Kind kind;
  // Narrows a shape; returns false if nothing is left.
  std::function<bool(Shape&)> atom = nullptr;
  std::vector<FormulaPtr> parts = {};
};

FormulaPtr Always();
FormulaPtr Never();
FormulaPtr Either(bool holds);
FormulaPtr Atom(std::function<bool(Shape&)> atom);
FormulaPtr And(std::vector<FormulaPtr> parts);
FormulaPtr Or(std::vector<FormulaPtr> parts);
// And if `is_positive`, else Or, for a keyword that requires all parts.
FormulaPtr AllOf(bool is_positive, std::vector<FormulaPtr> parts);
bool IsAlways(const FormulaPtr& formula);
bool IsNever(const FormulaPtr& formula);

// The most shapes that one formula may have.
inline constexpr size_t kMaxShapes = 2'000;

// Returns shapes such that the formula holds for a value exactly if the value
// has one of them. Shapes that no value can have may be among them.
// Errors: kInvalidArgument if there would be more than kMaxShapes; those of
// `stop`.
absl::StatusOr<std::vector<Shape>> Solve(const FormulaPtr& formula,
                                         StopCounter& stop);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_FORMULA_H_
