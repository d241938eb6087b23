#include "services/cli/chat/message_lines.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace plimsoll::cli {
namespace {

constexpr absl::string_view kBlockQuotes = "\"\"\"";

}  // namespace

void MessageLines::Append(absl::string_view line) {
  if (std::exchange(has_lines_, true)) text_.push_back('\n');
  text_.append(line.data(), line.size());
}

void MessageLines::Clear() { *this = MessageLines(); }

bool MessageLines::AddToBlock(absl::string_view line) {
  const absl::string_view shown = absl::StripTrailingAsciiWhitespace(line);
  if (!absl::EndsWith(shown, kBlockQuotes)) {
    Append(line);
    return false;
  }
  // Quotes on a line of their own end the text before them.
  if (shown != kBlockQuotes) Append(absl::StripSuffix(shown, kBlockQuotes));
  state_ = State::kNone;
  return true;
}

absl::StatusOr<bool> MessageLines::Add(absl::string_view line) {
  line = absl::StripSuffix(line, "\r");
  if (static_cast<int64_t>(text_.size() + line.size()) >= kMaxBytes) {
    Clear();
    return absl::InvalidArgumentError(
        absl::StrCat("a message has at most ", kMaxBytes, " bytes"));
  }
  if (state_ == State::kBlock) return AddToBlock(line);
  if (state_ == State::kNone) {
    Clear();
    absl::string_view shown = absl::StripLeadingAsciiWhitespace(line);
    if (absl::ConsumePrefix(&shown, kBlockQuotes)) {
      state_ = State::kBlock;
      is_block_ = true;
      // Text behind the quotes is the block's first line.
      return !absl::StripAsciiWhitespace(shown).empty() && AddToBlock(shown);
    }
  }
  const bool goes_on = absl::ConsumeSuffix(&line, "\\");
  Append(line);
  state_ = goes_on ? State::kGoesOn : State::kNone;
  return !goes_on;
}

MessageLines::Message MessageLines::Take() {
  Message message = {std::exchange(text_, {}), is_block_};
  if (!message.is_block) absl::StripAsciiWhitespace(&message.text);
  Clear();
  return message;
}

}  // namespace plimsoll::cli
