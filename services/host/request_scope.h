// The request that a thread works for, so that log lines can name it.
#ifndef PLIMSOLL_SERVICES_HOST_REQUEST_SCOPE_H_
#define PLIMSOLL_SERVICES_HOST_REQUEST_SCOPE_H_

#include <string>

namespace plimsoll::services {

// While a scope exists, this thread works for the request with the scope's id.
// Log gives each line of the thread the field "request_id", unless the line has
// its own. Scopes may be nested; after the inner scope the outer one is valid
// again.
class RequestScope {
 public:
  explicit RequestScope(std::string id);
  ~RequestScope();
  RequestScope(const RequestScope&) = delete;
  RequestScope& operator=(const RequestScope&) = delete;

  // The id of this thread's innermost scope; empty without one.
  static const std::string& Id();

 private:
  std::string outer_;  // the outer scope's id
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_REQUEST_SCOPE_H_
