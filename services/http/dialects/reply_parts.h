// What replies of several dialects have in common.
#ifndef PLIMSOLL_SERVICES_HTTP_DIALECTS_REPLY_PARTS_H_
#define PLIMSOLL_SERVICES_HTTP_DIALECTS_REPLY_PARTS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "services/http/text_job.h"

namespace plimsoll::services {

// The text of a part. What was meant as a call and is none stays text: nothing
// is lost.
std::string PlainText(const ReplyFormat::Part& part);

// Appends a server-sent event with a name.
void AppendNamedEvent(absl::string_view name, absl::string_view data,
                      std::string& events);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_DIALECTS_REPLY_PARTS_H_
