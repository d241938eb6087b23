// Just enough JSON to read golden files in tests.
#ifndef PLIMSOLL_TESTS_WORKER_JSON_H_
#define PLIMSOLL_TESTS_WORKER_JSON_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace plimsoll::testing {

// A parsed value. Reading what is not there gives an empty value, so that a
// test fails at its assertion and not in here.
class Json {
 public:
  // nullopt if `text` is not JSON.
  static std::optional<Json> Parse(absl::string_view text);

  const Json& operator[](const std::string& key) const;
  const Json& operator[](size_t index) const;
  size_t size() const { return items_.size(); }
  std::vector<Json>::const_iterator begin() const { return items_.begin(); }
  std::vector<Json>::const_iterator end() const { return items_.end(); }

  double Number() const { return number_; }
  int64_t Int() const { return static_cast<int64_t>(number_); }
  const std::string& Text() const { return text_; }
  // An array of numbers.
  std::vector<int32_t> Ints() const;

 private:
  friend class JsonParser;
  double number_ = 0;  // true is 1
  std::string text_;
  std::vector<Json> items_;
  std::map<std::string, Json> members_;
};

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_WORKER_JSON_H_
