// The result of one check of a model's file.
#ifndef PLIMSOLL_SERVICES_CLI_BACKENDS_CHECK_H_
#define PLIMSOLL_SERVICES_CLI_BACKENDS_CHECK_H_

#include <map>
#include <string>
#include <variant>
#include <vector>

namespace plimsoll::cli {

// kNote is worth reading, but the model may be sound. A skipped check is a note
// with the reason.
enum class CheckState { kOk, kNote, kFailed };

struct Check {
  std::string name;
  CheckState state = CheckState::kOk;
  std::string text = {};                   // one sentence
  std::vector<std::string> findings = {};  // the faults, in detail
  // The figures of `text`, for programs.
  std::map<std::string, std::variant<bool, double>> figures = {};

  // Makes the state worse, never better.
  void Worsen(CheckState other) {
    if (other > state) state = other;
  }
};

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_BACKENDS_CHECK_H_
