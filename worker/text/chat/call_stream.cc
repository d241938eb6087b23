#include "worker/text/chat/call_stream.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/types/span.h"
#include "base/json.h"
#include "worker/text/chat/call_syntax.h"

namespace plimsoll::worker {
namespace {

// A call's name, and where its arguments begin in its text.
struct ArgumentsPlace {
  std::string name;
  size_t begin;
};

// What is known of the place from the text so far.
struct PlaceSearch {
  bool is_over;  // more text changes nothing
  std::optional<ArgumentsPlace> place = std::nullopt;
};

bool IsOneOf(absl::Span<const char* const> keys, absl::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

// Reads a call in JSON up to the arguments. It gives up where a name or a key
// has escapes, or where a list or an object stands before the arguments.
class JsonHead {
 public:
  explicit JsonHead(absl::string_view text) : text_(text), rest_(text) {}

  PlaceSearch Read() {
    const bool is_found = ReadMembers();
    if (!is_found) return {.is_over = !is_short_};
    return {.is_over = true,
            .place = ArgumentsPlace{std::string(name_),
                                    text_.size() - rest_.size()}};
  }

 private:
  bool ReadMembers() {
    if (Peek() == '[') rest_.remove_prefix(1);
    if (!Take('{')) return false;
    do {
      const auto key = TakeString();
      if (!key || !Take(':')) return false;
      if (IsOneOf(kCallArgumentKeys, *key)) {
        return !name_.empty() && Peek() == '{';
      }
      const bool is_name = IsOneOf(kCallNameKeys, *key);
      if (is_name && !name_.empty()) return false;
      const auto value = is_name ? TakeString() : TakeValue();
      if (!value) return false;
      if (is_name) name_ = absl::StripAsciiWhitespace(*value);
    } while (Take(','));
    return false;
  }

  // The next byte that is no white space; absent at the text's end.
  std::optional<char> Peek() {
    rest_ = absl::StripLeadingAsciiWhitespace(rest_);
    is_short_ |= rest_.empty();
    return rest_.empty() ? std::nullopt : std::optional(rest_.front());
  }

  bool Take(char byte) {
    if (Peek() != byte) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::optional<absl::string_view> TakeString() {
    if (!Take('"')) return std::nullopt;
    const auto string = TakeBefore("\"\\");
    return string && Take('"') ? string : std::nullopt;
  }

  // A value that is neither a list nor an object.
  std::optional<absl::string_view> TakeValue() {
    const std::optional<char> first = Peek();
    if (first == '"') return TakeString();
    if (first == '{' || first == '[') return std::nullopt;
    return TakeBefore(",}] \t\r\n");
  }

  std::optional<absl::string_view> TakeBefore(absl::string_view ends) {
    const size_t n = rest_.find_first_of(ends);
    if (n == absl::string_view::npos) {
      is_short_ = true;
      return std::nullopt;
    }
    const absl::string_view taken = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return taken;
  }

  const absl::string_view text_;
  absl::string_view rest_;
  absl::string_view name_;
  bool is_short_ = false;  // the text ended before the answer was known
};

PlaceSearch FindHeaded(CallSyntax syntax, absl::string_view text) {
  absl::string_view rest = text;
  const std::optional<CallHead> head = TakeCallHead(syntax, rest);
  if (!head) return {.is_over = false};
  rest = absl::StripLeadingAsciiWhitespace(rest);
  if (rest.empty()) return {.is_over = false};
  if (rest.front() != '{') return {.is_over = true};
  return {.is_over = true,
          .place = ArgumentsPlace{
              std::string(absl::StripAsciiWhitespace(head->name)),
              text.size() - rest.size()}};
}

PlaceSearch FindArguments(CallSyntax syntax, absl::string_view text) {
  switch (syntax) {
    case CallSyntax::kJson:
      return JsonHead(text).Read();
    case CallSyntax::kNamedJson: {
      const absl::string_view call = absl::StripLeadingAsciiWhitespace(text);
      if (call.empty()) return {.is_over = false};
      if (call.front() == '[' || call.front() == '{') {
        return JsonHead(text).Read();
      }
      return FindHeaded(syntax, text);
    }
    case CallSyntax::kChannel:
    case CallSyntax::kDeepSeek:
    case CallSyntax::kKimi:
      return FindHeaded(syntax, text);
    default:
      return {.is_over = true};
  }
}

}  // namespace

void CallStream::Push(absl::string_view text, int64_t index,
                      std::vector<CallDelta>& deltas) {
  CallDelta delta{.index = index};
  if (state_ == State::kHead) {
    FindHead(text);
    delta.name = name_;
  }
  const size_t n_before = arguments_.size();
  if (state_ == State::kArguments) TakeArguments(text);
  delta.arguments = arguments_.substr(n_before);
  if (delta.name.empty() && delta.arguments.empty()) return;
  deltas.push_back(std::move(delta));
}

void CallStream::FindHead(absl::string_view text) {
  PlaceSearch search =
      FindArguments(syntax_, text.substr(0, kMaxCallHeadBytes));
  if (search.place && IsToolName(search.place->name)) {
    name_ = std::move(search.place->name);
    n_read_ = search.place->begin;
    state_ = State::kArguments;
  } else if (search.is_over || text.size() >= kMaxCallHeadBytes) {
    state_ = State::kEnd;
  }
}

void CallStream::TakeArguments(absl::string_view text) {
  for (; n_read_ < text.size() && state_ == State::kArguments; ++n_read_) {
    const char byte = text[n_read_];
    if (!strings_.Take(byte)) {
      if (absl::ascii_isspace(static_cast<unsigned char>(byte))) continue;
      if (byte == '{' || byte == '[') ++depth_;
      if (byte == '}' || byte == ']') --depth_;
    }
    arguments_ += byte;
    if (depth_ == 0) state_ = State::kEnd;
  }
}

absl::StatusOr<std::vector<ToolCall>> CallStream::Finish(
    absl::StatusOr<std::vector<ToolCall>> calls) const {
  if (name_.empty() || !calls.ok()) return calls;
  ToolCall& call = calls->front();
  const auto parse = [](const std::string& text) {
    return nlohmann::ordered_json::parse(text, /*cb=*/nullptr,
                                         /*allow_exceptions=*/false);
  };
  const auto sent = parse(arguments_);
  if (call.name != name_ || sent.is_discarded() ||
      sent != parse(call.arguments)) {
    return absl::InvalidArgumentError(
        "the call gives its name or its arguments twice");
  }
  call.arguments = arguments_;
  return calls;
}

}  // namespace plimsoll::worker
