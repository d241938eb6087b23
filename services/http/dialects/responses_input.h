// Reads the items of a conversation in the form of OpenAI's responses.
#ifndef PLIMSOLL_SERVICES_HTTP_DIALECTS_RESPONSES_INPUT_H_
#define PLIMSOLL_SERVICES_HTTP_DIALECTS_RESPONSES_INPUT_H_

#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "plimsoll/v1/common.pb.h"
#include "services/http/json.h"

namespace plimsoll::services {

// Builds a conversation. Consecutive items of the assistant become one message
// for the model, with its reasoning, its text and its calls. The id of an
// output's call tells which tool the output is from; the call may be an item of
// an earlier turn. A call that is incomplete is left out, and so is its output.
class ItemReader {
 public:
  // `chat` outlives it.
  explicit ItemReader(v1::ChatPrompt& chat) : chat_(chat) {}

  // Adds a system message, unless the text is empty.
  void AddInstructions(const std::string& text);
  // Adds a user's text, or an array of items. `name` is the array's name in
  // errors. Errors: kInvalidArgument naming the field.
  absl::Status Read(const Json& input, const std::string& name);

 private:
  absl::Status ReadItem(const Json& json, const std::string& path);
  absl::Status ReadMessage(JsonFields& item, const std::string& path);
  absl::Status ReadReasoning(JsonFields& item, const std::string& path);
  absl::Status ReadCall(JsonFields& item, bool is_incomplete);
  absl::Status ReadOutput(JsonFields& item, const std::string& path);

  v1::ChatMessage& Add(v1::ChatRole role);
  // The last message if it is the assistant's, else null.
  v1::ChatMessage* LastReply();

  v1::ChatPrompt& chat_;
  std::map<std::string, std::string> names_;  // tools' names by ids of calls
  std::set<std::string> left_out_;            // ids of incomplete calls
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_DIALECTS_RESPONSES_INPUT_H_
