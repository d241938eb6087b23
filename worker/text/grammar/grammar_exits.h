// Finds the least nesting depth of the rest of each rule.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_GRAMMAR_EXITS_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_GRAMMAR_EXITS_H_

#include <vector>

#include "worker/text/grammar/grammar.h"

namespace plimsoll::worker {

// Fills `exits` of a grammar whose program is complete. `is_empty` tells for
// each instruction whether it reaches its rule's end without a byte.
void FindExits(const std::vector<bool>& is_empty, Grammar& grammar);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_GRAMMAR_EXITS_H_
