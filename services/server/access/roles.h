// The permissions of callers: roles, and the table of the least role that each
// method requires.
#ifndef PLIMSOLL_SERVICES_SERVER_ACCESS_ROLES_H_
#define PLIMSOLL_SERVICES_SERVER_ACCESS_ROLES_H_

#include <optional>

#include "absl/strings/string_view.h"

namespace plimsoll::services {

// Each role includes the permissions of the roles before it.
enum class Role {
  kViewer,  // reads the state
  kUser,    // asks for text and for plans
  kWorker,  // holds leases of a planner
  kAdmin,   // loads, unloads, drains, aborts and releases by force
};

// "viewer", "user", "worker" or "admin".
const char* RoleName(Role role);
std::optional<Role> FindRole(absl::string_view name);

// The role that a method requires of its caller.
struct MethodRule {
  absl::string_view path;  // as on the wire: "/plimsoll.v1.ModelService/..."
  // The least role. Absent: everybody may call the method, without a token.
  std::optional<Role> least;
};

// Returns the rule of a method, or null; a method without a rule is always
// refused. Each method of each service must be in the table; a test finds
// missing ones.
const MethodRule* FindMethodRule(absl::string_view path);

// The set of methods that an address serves.
enum class MethodSet {
  kAll,
  kOrdinary,  // methods that do not change the server
  // Methods that change the server, and methods that their callers need.
  kAdmin,
};

// Whether `path` is served at an address with `methods`. Methods that require
// the role of a worker or of an administrator are not in kOrdinary. They are in
// kAdmin. kAdmin also has all of AdminService, health, and all of
// PlannerService, because workers also plan and read leases. An empty path is
// in kAll only.
bool IsServed(MethodSet methods, absl::string_view path);

// The methods that an address serves.
struct ServedMethods {
  MethodSet methods = MethodSet::kAll;
  bool has_reflection = true;

  bool is_all() const { return methods == MethodSet::kAll && has_reflection; }
};

// Whether `path` is a method of reflection, in any version.
bool IsReflection(absl::string_view path);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_ACCESS_ROLES_H_
