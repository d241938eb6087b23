#include "worker/text/schema/array_planner.h"

#include <algorithm>
#include <compare>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/grammar/grammar.h"

namespace plimsoll::worker {
namespace {

// The most values of an array whose items are all different.
constexpr size_t kMaxUniqueValues = 10;
// The most rules of what an array contains: an item may fit each or not.
constexpr size_t kMaxContains = 6;

absl::Status TooManyStates(const std::string& path) {
  return SchemaError(path, absl::StrCat("its items together need more than ",
                                        kMaxPlanStates, " states"));
}

// How many items fit each of the rules, of those so far.
struct Counts {
  int64_t index = 0;
  std::vector<int64_t> n;
  friend auto operator<=>(const Counts&, const Counts&) = default;
};

// The terms that the next item may fit, and what the counts are after it.
// Indexes beyond `last` are alike.
std::vector<std::pair<Term, Counts>> WaysOn(const ArrayShape& shape,
                                            const Counts& at, int64_t last) {
  std::vector<std::pair<Term, Counts>> ways;
  if (at.index >= shape.max) return ways;
  const auto index = static_cast<size_t>(at.index);
  Counts after = at;
  after.index = std::min(at.index + 1, last);
  ways.emplace_back(
      index < shape.prefix.size() ? shape.prefix[index] : shape.rest, after);
  for (size_t k = 0; k < shape.contains.size(); ++k) {
    const ArrayShape::Contains& one = shape.contains[k];
    if (at.index < one.from) continue;
    const bool has_most = one.max != GrammarBuilder::kUnlimited;
    std::vector<std::pair<Term, Counts>> more;
    for (auto& [term, counts] : ways) {
      if (counts.n[k] < (has_most ? one.max : one.min)) {
        std::pair<Term, Counts> fits(term, counts);
        AddTo(fits.first, one.term);
        ++fits.second.n[k];
        more.push_back(std::move(fits));
      }
      if (has_most) {
        Literal misses = one.term[0];
        misses.is_positive = !misses.is_positive;
        AddTo(term, misses);
      }
      more.emplace_back(term, counts);
    }
    ways = std::move(more);
  }
  return ways;
}

}  // namespace

absl::Status ArrayPlanner::Add(const ArrayShape& shape, ValuePlan& plan,
                               const std::string& path) {
  ArrayPlan array = {.min = shape.min, .max = shape.max};
  if (shape.is_unique && shape.max > 1) {
    if (!shape.contains.empty() || !shape.prefix.empty()) {
      return SchemaError(path,
                         "the keyword 'uniqueItems' is supported without "
                         "prefixItems and contains only");
    }
    RETURN_IF_ERROR(AddUniqueStates(shape, array, path));
  } else if (!shape.contains.empty()) {
    RETURN_IF_ERROR(AddItemStates(shape, array, path));
  } else {
    for (const Term& term : shape.prefix) {
      array.prefix.push_back(numbers_.Of(term));
    }
    array.rest = numbers_.Of(shape.rest);
  }
  plan.arrays.push_back(std::move(array));
  return absl::OkStatus();
}

absl::Status ArrayPlanner::AddUniqueStates(const ArrayShape& shape,
                                           ArrayPlan& plan,
                                           const std::string& path) {
  ASSIGN_OR_RETURN(const auto values,
                   scalars_.ValuesOf(shape.rest, kMaxUniqueValues));
  if (!values) {
    return SchemaError(
        path, absl::StrCat("the keyword 'uniqueItems' is supported where items "
                           "are one of at most ",
                           kMaxUniqueValues, " constants only"));
  }
  const size_t n = values->size();
  std::vector<PlanNumber> items;
  for (const Literal& value : *values) items.push_back(numbers_.Of({value}));
  // A state is the set of the values that were there.
  for (uint32_t set = 0; set < uint32_t{1} << n; ++set) {
    const auto count = static_cast<int64_t>(__builtin_popcount(set));
    ArrayPlan::State state = {.accepts =
                                  count >= shape.min && count <= shape.max};
    for (size_t i = 0; i < n && count < shape.max; ++i) {
      if ((set >> i & 1) != 0) continue;
      state.edges.push_back(
          {items[i], static_cast<int32_t>(set | uint32_t{1} << i)});
    }
    plan.states.push_back(std::move(state));
  }
  return absl::OkStatus();
}

absl::Status ArrayPlanner::AddItemStates(const ArrayShape& shape,
                                         ArrayPlan& plan,
                                         const std::string& path) {
  int64_t last = std::max(shape.min, static_cast<int64_t>(shape.prefix.size()));
  for (const ArrayShape::Contains& one : shape.contains) {
    last = std::max(last, one.from);
    if (one.max != GrammarBuilder::kUnlimited && one.term.size() != 1) {
      return SchemaError(path,
                         "the keyword 'maxContains' is supported for one "
                         "schema only");
    }
  }
  if (shape.contains.size() > kMaxContains) {
    return SchemaError(path,
                       absl::StrCat("more than ", kMaxContains,
                                    " 'contains' are together in one array"));
  }
  if (shape.max != GrammarBuilder::kUnlimited) last = shape.max;
  std::map<Counts, int32_t> numbers;
  std::vector<Counts> left;
  const auto number_of = [&](Counts counts) {
    const auto [found, is_new] =
        numbers.try_emplace(counts, static_cast<int32_t>(left.size()));
    if (is_new) left.push_back(std::move(counts));
    return found->second;
  };
  number_of({0, std::vector<int64_t>(shape.contains.size(), 0)});
  for (size_t i = 0; i < left.size(); ++i) {
    if (left.size() > kMaxPlanStates) return TooManyStates(path);
    RETURN_IF_ERROR(stop_());
    const Counts at = left[i];
    ArrayPlan::State state = {.accepts = at.index >= shape.min};
    for (size_t k = 0; k < shape.contains.size(); ++k) {
      state.accepts = state.accepts && at.n[k] >= shape.contains[k].min;
    }
    for (auto& [term, counts] : WaysOn(shape, at, last)) {
      const int32_t to = number_of(std::move(counts));
      state.edges.push_back({numbers_.Of(term), to});
    }
    plan.states.push_back(std::move(state));
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::worker
