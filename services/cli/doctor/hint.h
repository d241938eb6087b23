// Takes the advice out of an error's message.
#ifndef PLIMSOLL_SERVICES_CLI_DOCTOR_HINT_H_
#define PLIMSOLL_SERVICES_CLI_DOCTOR_HINT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace plimsoll::cli {

// A message of this command line may end in lines of advice, each of which
// begins with "try: ".
struct Hint {
  std::string message;  // without the advice, in one line
  std::string advice;   // the first one, in one line; may be empty
};
Hint SplitHint(absl::string_view message);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_DOCTOR_HINT_H_
