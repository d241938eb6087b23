#include "worker/text/schema_reader.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::worker {
namespace {

// Reads without building anything, so that depth is known before a tree is
// made. The library's parser does not recurse, nor does its tree's destructor.
class Checker : public nlohmann::json_sax<SchemaJson> {
 public:
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
    if (names_.size() >= size_t{kMaxSchemaDepth}) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat("it is nested more than ", kMaxSchemaDepth, " deep"));
      return false;
    }
    names_.emplace_back();
    return true;
  }
  bool Close() {
    names_.pop_back();
    return true;
  }

  std::vector<absl::flat_hash_set<std::string>> names_;  // by open object
  absl::Status status_;
};

}  // namespace

absl::StatusOr<SchemaJson> ReadSchemaJson(absl::string_view text) {
  Checker checker;
  const char* const end = text.data() + text.size();
  if (!SchemaJson::sax_parse(text.data(), end, &checker)) {
    return checker.status().ok() ? absl::InvalidArgumentError("it is not JSON")
                                 : checker.status();
  }
  SchemaJson json = SchemaJson::parse(text.data(), end, /*cb=*/nullptr,
                                      /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::InvalidArgumentError("it is not JSON");
  return json;
}

}  // namespace plimsoll::worker
