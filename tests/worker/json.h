// The JSON files that tests read: goldens.
#ifndef PLIMSOLL_TESTS_WORKER_JSON_H_
#define PLIMSOLL_TESTS_WORKER_JSON_H_

#include <fstream>
#include <optional>
#include <string>

#include "base/json.h"

namespace plimsoll::testing {

using Json = nlohmann::json;

// The parsed file, or nullopt if there is none or it is no JSON. What `at` does
// not find in it throws, which fails the test.
inline std::optional<Json> ReadJson(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  Json json = Json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return std::nullopt;
  return json;
}

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_WORKER_JSON_H_
