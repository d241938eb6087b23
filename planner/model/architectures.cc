#include "planner/model/architectures.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
// Declares the constants of architectures/*.cc and lists them in
// kArchitectures. The build writes it from the list in planner/CMakeLists.txt.
#include "planner/model/architecture_list.h"

namespace plimsoll::planner {

std::span<const Architecture* const> Architectures() { return kArchitectures; }

const Architecture* FindArchitecture(absl::string_view name) {
  for (const Architecture* architecture : kArchitectures) {
    if (architecture->name == name) return architecture;
  }
  return nullptr;
}

std::string SupportedArchitectures() {
  return absl::StrJoin(kArchitectures, ", ",
                       [](std::string* out, const Architecture* a) {
                         absl::StrAppend(out, a->name);
                       });
}

}  // namespace plimsoll::planner
