// The JSON library, with its own checks also in a release.
#ifndef PLIMSOLL_BASE_JSON_H_
#define PLIMSOLL_BASE_JSON_H_

#include <cstdlib>

// Without memory the library leaves an object without its table, and its
// destructor would read that table. The check ends the process before.
#define JSON_ASSERT(condition) ((condition) ? void() : std::abort())

#include <nlohmann/json.hpp>

#endif  // PLIMSOLL_BASE_JSON_H_
