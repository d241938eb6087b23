#include "worker/text/json_check.h"

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"

namespace plimsoll::worker {
namespace {

// Reads without building anything, so that depth is known before a tree is
// made. The library's parser does not recurse, nor does its tree's destructor.
class Checker : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Checker(int max_depth)
      : max_depth_(static_cast<std::size_t>(max_depth)) {}

  absl::Status status() const { return status_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return Open(); }
  bool end_object() override { return Close(); }
  bool start_array(std::size_t) override { return Open(); }
  bool end_array() override { return Close(); }
  bool key(string_t& name) override {
    if (names_.back().insert(name).second) return true;
    status_ = absl::InvalidArgumentError(
        absl::StrCat("the member '", name.substr(0, 64), "' is named twice"));
    return false;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    status_ = absl::InvalidArgumentError(
        absl::StrCat("it is not JSON: at byte ", position));
    return false;
  }

 private:
  bool Open() {
    if (names_.size() >= max_depth_) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat("it is nested more than ", max_depth_, " deep"));
      return false;
    }
    names_.emplace_back();
    return true;
  }
  bool Close() {
    names_.pop_back();
    return true;
  }

  const std::size_t max_depth_;
  std::vector<std::set<std::string>> names_;  // by open object
  absl::Status status_;
};

}  // namespace

absl::Status CheckJson(absl::string_view text, int max_depth) {
  Checker checker(max_depth);
  const char* const end = text.data() + text.size();
  if (nlohmann::json::sax_parse(text.data(), end, &checker)) {
    return absl::OkStatus();
  }
  return checker.status().ok() ? absl::InvalidArgumentError("it is not JSON")
                               : checker.status();
}

}  // namespace plimsoll::worker
