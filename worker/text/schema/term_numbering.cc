#include "worker/text/schema/term_numbering.h"

namespace plimsoll::worker {

PlanNumber TermNumbering::Of(const Term& term) {
  const auto number = static_cast<PlanNumber>(plan_.values.size());
  const auto [found, is_new] = numbers_.try_emplace(term, number);
  if (is_new) plan_.values.push_back({.term = term});
  return found->second;
}

}  // namespace plimsoll::worker
