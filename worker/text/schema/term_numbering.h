// Numbers the plans of a schema.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_TERM_NUMBERING_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_TERM_NUMBERING_H_

#include <map>

#include "worker/text/schema/plan.h"
#include "worker/text/schema/shapes/shape.h"

namespace plimsoll::worker {

// Gives each term that a plan needs the number of its own plan. Not
// thread-safe.
class TermNumbering {
 public:
  // `plan` must outlive it.
  explicit TermNumbering(SchemaPlan& plan) : plan_(plan) {}

  // The number of the plan of `term`. A new term gets the next number, and a
  // plan that has only the term yet.
  PlanNumber Of(const Term& term);

 private:
  SchemaPlan& plan_;
  std::map<Term, PlanNumber> numbers_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_TERM_NUMBERING_H_
