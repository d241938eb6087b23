// The result of one check of `plimsoll doctor`.
#ifndef PLIMSOLL_SERVICES_CLI_DOCTOR_DIAGNOSIS_H_
#define PLIMSOLL_SERVICES_CLI_DOCTOR_DIAGNOSIS_H_

#include <string>

namespace plimsoll::cli {

// kWarning: the subject works, but not as well as it could, or not for long.
// kError: the subject does not work.
enum class Health { kOk, kSkipped, kWarning, kError };

struct Diagnosis {
  std::string name;
  Health health = Health::kOk;
  std::string found = {};  // a sentence
  // Says what to do about a warning or an error. Empty for all other states.
  std::string fix = {};
};

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_DOCTOR_DIAGNOSIS_H_
