// Finds the bytes of a grammar that belong to plain text.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_PLAIN_STEPS_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_PLAIN_STEPS_H_

#include "worker/text/grammar/grammar.h"

namespace plimsoll::worker {

// Sets grammar.plain_steps by its classes of bytes.
void FindPlainSteps(Grammar& grammar);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_PLAIN_STEPS_H_
