// What a caller may do: roles, and the one table of the least role that each
// method takes.
#ifndef PLIMSOLL_SERVICES_SERVER_ACCESS_ROLES_H_
#define PLIMSOLL_SERVICES_SERVER_ACCESS_ROLES_H_

#include <optional>

#include "absl/strings/string_view.h"

namespace plimsoll::services {

// Each role may do what the ones before it may.
enum class Role {
  kViewer,  // reads what there is
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
  // Absent: everybody may call it, without a token.
  std::optional<Role> least;
};

// Returns the rule of a method, or null: then nobody may call it. Each method
// of each service has to be in the table; a test tells which one is not.
const MethodRule* FindMethodRule(absl::string_view path);

// Which methods are served at an address.
enum class MethodSet {
  kAll,
  kOrdinary,  // those that change nothing of the server
  kAdmin,     // those that change it, and what else their callers need
};

// Whether `path` is served at an address with `methods`. Methods that require
// the role of a worker or of an administrator are not in kOrdinary. These
// methods are in kAdmin, with all of AdminService, health, and all of
// PlannerService, because workers also plan and look at leases. An empty path
// is in kAll only.
bool IsServed(MethodSet methods, absl::string_view path);

// What an address serves.
struct ServedMethods {
  MethodSet methods = MethodSet::kAll;
  bool has_reflection = true;

  bool is_all() const { return methods == MethodSet::kAll && has_reflection; }
};

// Whether `path` is a method of reflection, of whatever version.
bool IsReflection(absl::string_view path);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_ACCESS_ROLES_H_
