// Three of the project's four macros: two return early on an error, and one
// ends the process on a broken invariant of our own. The other is in fault.h.
#ifndef PLIMSOLL_BASE_STATUS_MACROS_H_
#define PLIMSOLL_BASE_STATUS_MACROS_H_

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the enclosing function if `expression` is not OK.
#define RETURN_IF_ERROR(expression)                         \
  do {                                                      \
    if (absl::Status status_from_expression = (expression); \
        !status_from_expression.ok()) {                     \
      return status_from_expression;                        \
    }                                                       \
  } while (false)

#define PLIMSOLL_CONCAT_INNER_(a, b) a##b
#define PLIMSOLL_CONCAT_(a, b) PLIMSOLL_CONCAT_INNER_(a, b)

// ASSIGN_OR_RETURN(auto value, MightFail()) assigns the value or returns the
// error.
#define ASSIGN_OR_RETURN(declaration, expression)                         \
  ASSIGN_OR_RETURN_IMPL_(PLIMSOLL_CONCAT_(status_or_value_, __COUNTER__), \
                         declaration, expression)
// A declaration cannot stand in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define ASSIGN_OR_RETURN_IMPL_(temporary, declaration, expression) \
  auto temporary = (expression);                                   \
  if (!temporary.ok()) return std::move(temporary).status();       \
  declaration = *std::move(temporary)
// NOLINTEND(bugprone-macro-parentheses)

// Ends the process with a sentence if an invariant of our own code is broken.
// Nothing that a file or a request can cause may reach a CHECK.
#define PLIMSOLL_CHECK(condition, sentence)                           \
  do {                                                                \
    if (!(condition)) [[unlikely]] {                                  \
      std::fprintf(stderr, "%s:%d: CHECK failed: %s: %s\n", __FILE__, \
                   __LINE__, #condition, (sentence));                 \
      std::abort();                                                   \
    }                                                                 \
  } while (false)

#endif  // PLIMSOLL_BASE_STATUS_MACROS_H_
