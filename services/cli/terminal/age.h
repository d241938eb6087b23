// Shows how long something has lasted.
#ifndef PLIMSOLL_SERVICES_CLI_TERMINAL_AGE_H_
#define PLIMSOLL_SERVICES_CLI_TERMINAL_AGE_H_

#include <google/protobuf/duration.pb.h>

#include <string>

namespace plimsoll::cli {

// Returns only the largest unit: "47 s", "12 min", "3 h", "9 d".
std::string AgeText(const google::protobuf::Duration& age);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_TERMINAL_AGE_H_
