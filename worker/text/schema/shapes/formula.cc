#include "worker/text/schema/shapes/formula.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::worker {
namespace {

using Kind = Formula::Kind;

// The cost of a step: of a shape's copy at most.
constexpr int64_t kStepUnits = 16;
// The most steps for one formula.
constexpr int64_t kMaxSteps = 1 << 17;

class Solver {
 public:
  explicit Solver(StopCounter& stop) : stop_(stop) {}

  absl::StatusOr<std::vector<Shape>> Solve(const FormulaPtr& formula) {
    std::vector<const Formula*> left;
    if (formula != nullptr) left.push_back(formula.get());
    RETURN_IF_ERROR(Branch(Shape(), std::move(left), 0));
    return std::move(shapes_);
  }

 private:
  // Applies everything in `left` to the shape; choices come last, so that a
  // contradiction is found before they multiply. The recursion is as deep as
  // there are choices, at most kMaxChoices.
  absl::Status Branch(Shape shape, std::vector<const Formula*> left,
                      size_t depth) {
    std::vector<const Formula*> choices;
    while (!left.empty()) {
      const Formula* at = left.back();
      left.pop_back();
      RETURN_IF_ERROR(Spend());
      switch (at->kind) {
        case Kind::kFalse:
          return absl::OkStatus();
        case Kind::kAtom:
          if (!at->atom(shape)) return absl::OkStatus();
          break;
        case Kind::kAnd:
          // The first part is applied first.
          for (size_t i = at->parts.size(); i-- > 0;) {
            left.push_back(at->parts[i].get());
          }
          break;
        case Kind::kOr:
          choices.push_back(at);
          break;
      }
    }
    if (choices.empty()) return Keep(std::move(shape));
    if (choices.size() + depth > kMaxChoices) return TooMany();
    const Formula* choice = choices.front();
    std::vector<const Formula*> rest(choices.rbegin(), choices.rend() - 1);
    for (const FormulaPtr& one : choice->parts) {
      std::vector<const Formula*> next = rest;
      next.push_back(one.get());
      RETURN_IF_ERROR(Branch(shape, std::move(next), depth + 1));
    }
    return absl::OkStatus();
  }

  absl::Status Keep(Shape shape) {
    // Most repetitions are close together.
    const size_t n_looks = std::min<size_t>(shapes_.size(), 64);
    if (std::find(shapes_.end() - static_cast<std::ptrdiff_t>(n_looks),
                  shapes_.end(), shape) != shapes_.end()) {
      return absl::OkStatus();
    }
    if (shapes_.size() >= kMaxShapes) return TooMany();
    shapes_.push_back(std::move(shape));
    return absl::OkStatus();
  }

  absl::Status Spend() {
    if (++n_steps_ > kMaxSteps) return TooMany();
    return stop_.Spend(kStepUnits);
  }
  static absl::Status TooMany() {
    return absl::InvalidArgumentError(
        absl::StrCat("it has too many cases: its choices together are more "
                     "than ",
                     kMaxShapes));
  }

  static constexpr size_t kMaxChoices = 200;

  StopCounter& stop_;
  int64_t n_steps_ = 0;
  std::vector<Shape> shapes_;
};

FormulaPtr Joined(Kind kind, std::vector<FormulaPtr> parts) {
  if (parts.size() == 1) return parts[0];
  return std::make_shared<const Formula>(
      Formula{.kind = kind, .parts = std::move(parts)});
}

}  // namespace

FormulaPtr Always() { return nullptr; }

FormulaPtr Never() {
  return std::make_shared<const Formula>(Formula{.kind = Kind::kFalse});
}

FormulaPtr Either(bool holds) { return holds ? Always() : Never(); }

FormulaPtr Atom(std::function<bool(Shape&)> atom) {
  return std::make_shared<const Formula>(
      Formula{.kind = Kind::kAtom, .atom = std::move(atom)});
}

FormulaPtr And(std::vector<FormulaPtr> parts) {
  std::erase(parts, nullptr);
  if (std::any_of(parts.begin(), parts.end(), IsNever)) return Never();
  if (parts.empty()) return Always();
  return Joined(Kind::kAnd, std::move(parts));
}

FormulaPtr Or(std::vector<FormulaPtr> parts) {
  if (std::any_of(parts.begin(), parts.end(), IsAlways)) return Always();
  std::erase_if(parts, IsNever);
  if (parts.empty()) return Never();
  return Joined(Kind::kOr, std::move(parts));
}

FormulaPtr AllOf(bool is_positive, std::vector<FormulaPtr> parts) {
  return is_positive ? And(std::move(parts)) : Or(std::move(parts));
}

bool IsAlways(const FormulaPtr& formula) { return formula == nullptr; }

bool IsNever(const FormulaPtr& formula) {
  return formula != nullptr && formula->kind == Kind::kFalse;
}

absl::StatusOr<std::vector<Shape>> Solve(const FormulaPtr& formula,
                                         StopCounter& stop) {
  return Solver(stop).Solve(formula);
}

}  // namespace plimsoll::worker
