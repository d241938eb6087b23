// JSON objects that tests put together.
#ifndef PLIMSOLL_TESTS_SERVICES_JSON_OBJECT_H_
#define PLIMSOLL_TESTS_SERVICES_JSON_OBJECT_H_

#include <string>

#include "base/json.h"

namespace plimsoll::services::testing {

// Returns the object that the text `object` is, with the members of the text
// `more`, which is an object too. Where both have a member, that of `more`
// counts. A text that is no object throws, which fails the test.
inline nlohmann::ordered_json WithMembers(const std::string& object,
                                          const std::string& more) {
  auto json = nlohmann::ordered_json::parse(object);
  json.update(nlohmann::ordered_json::parse(more));
  return json;
}

}  // namespace plimsoll::services::testing

#endif  // PLIMSOLL_TESTS_SERVICES_JSON_OBJECT_H_
