#include "services/cli/chat/chat_file.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/input.h"
#include "services/cli/terminal/private_file.h"
#include "services/cli/terminal/terminal.h"

namespace plimsoll::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kChatFormatName[] = "plimsoll-chat";

absl::Status BadChat(absl::string_view what) {
  return absl::InvalidArgumentError(what);
}

// Checks that an object has no members but these.
absl::Status CheckMembers(const Json& object, absl::string_view where,
                          std::initializer_list<absl::string_view> known) {
  for (const auto& [name, value] : object.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return BadChat(absl::StrCat(where, " has an unknown member \"",
                                  Printable(name.substr(0, 40)), "\""));
    }
  }
  return absl::OkStatus();
}

// The text of a member; nullopt if it is absent.
absl::StatusOr<std::optional<std::string>> TextOf(const Json& object,
                                                  const char* name,
                                                  absl::string_view where) {
  const auto member = object.find(name);
  if (member == object.end()) return std::nullopt;
  if (!member->is_string()) {
    return BadChat(absl::StrCat(where, ": \"", name, "\" is no text"));
  }
  return member->get<std::string>();
}

absl::Status ReadMessage(const Json& message, size_t i,
                         Transcript& transcript) {
  const std::string where = absl::StrCat("message ", i + 1);
  if (!message.is_object()) return BadChat(where + " is no object");
  RETURN_IF_ERROR(CheckMembers(message, where, {"role", "content"}));
  ASSIGN_OR_RETURN(const auto role, TextOf(message, "role", where));
  ASSIGN_OR_RETURN(auto content, TextOf(message, "content", where));
  const char* const wanted = i % 2 == 0 ? "user" : "assistant";
  if (role != wanted) {
    return BadChat(
        absl::StrCat(where, " must have the role ", wanted,
                     ": messages are of user and assistant in turn"));
  }
  if (!content.has_value()) return BadChat(where + " has no \"content\"");
  if (i % 2 == 1) {
    transcript.turns.back().reply = *std::move(content);
    return absl::OkStatus();
  }
  if (content->empty()) return BadChat(where + " is empty");
  transcript.turns.push_back({*std::move(content), ""});
  return absl::OkStatus();
}

absl::Status ReadMessages(const Json& messages, Transcript& transcript) {
  if (!messages.is_array()) return BadChat("\"messages\" is no list");
  if (messages.size() % 2 != 0) {
    return BadChat("the last message has no reply of the assistant");
  }
  if (messages.size() / 2 > Transcript::kMaxTurns) {
    return BadChat(absl::StrCat("a chat has at most ", Transcript::kMaxTurns,
                                " messages with replies"));
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    RETURN_IF_ERROR(ReadMessage(messages[i], i, transcript));
  }
  return absl::OkStatus();
}

absl::Status ReadSettings(const Json& settings,
                          std::vector<ChatSetting>& read) {
  if (!settings.is_object()) return BadChat("\"settings\" is no object");
  SamplingFlags checked;
  for (const auto& [name, value] : settings.items()) {
    if (!value.is_number()) {
      return BadChat(absl::StrCat("the setting ", Printable(name.substr(0, 40)),
                                  " is no number"));
    }
    const std::string number = value.dump();
    RETURN_IF_ERROR(ChangeChatSetting(name, number, checked));
    read.push_back({name, number});
  }
  return absl::OkStatus();
}

absl::Status CheckHead(const Json& chat) {
  if (!chat.is_object()) return BadChat("it is no chat: JSON, but no object");
  const auto format = chat.find("format");
  if (format == chat.end() || *format != kChatFormatName) {
    return BadChat(absl::StrCat("it is no chat: \"format\" is not \"",
                                kChatFormatName, "\""));
  }
  const auto version = chat.find("version");
  if (version == chat.end() || !version->is_number_integer()) {
    return BadChat("\"version\" is no whole number");
  }
  if (*version != kChatFileVersion) {
    return BadChat(absl::StrCat("it is a chat of version ", version->dump(),
                                ", this program reads version ",
                                kChatFileVersion));
  }
  return CheckMembers(
      chat, "the chat",
      {"format", "version", "model", "system", "settings", "messages"});
}

}  // namespace

std::string ChatToJson(const SavedChat& chat) {
  Json json;
  json["format"] = kChatFormatName;
  json["version"] = kChatFileVersion;
  if (!chat.model.empty()) json["model"] = chat.model;
  if (chat.transcript.system.has_value()) {
    json["system"] = *chat.transcript.system;
  }
  Json& settings = json["settings"] = Json::object();
  for (const ChatSetting& setting : chat.settings) {
    settings[setting.name] =
        Json::parse(setting.value, nullptr, /*allow_exceptions=*/false);
  }
  Json& messages = json["messages"] = Json::array();
  for (const ChatTurn& turn : chat.transcript.turns) {
    messages.push_back({{"role", "user"}, {"content", turn.message}});
    messages.push_back({{"role", "assistant"}, {"content", turn.reply}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<SavedChat> ChatFromJson(absl::string_view json) {
  const Json chat = Json::parse(json.begin(), json.end(), nullptr,
                                /*allow_exceptions=*/false);
  if (chat.is_discarded()) return BadChat("it is no chat: no JSON");
  RETURN_IF_ERROR(CheckHead(chat));
  SavedChat saved;
  ASSIGN_OR_RETURN(auto model, TextOf(chat, "model", "the chat"));
  saved.model = std::move(model).value_or("");
  ASSIGN_OR_RETURN(saved.transcript.system, TextOf(chat, "system", "the chat"));
  if (const auto settings = chat.find("settings"); settings != chat.end()) {
    RETURN_IF_ERROR(ReadSettings(*settings, saved.settings));
  }
  const auto messages = chat.find("messages");
  if (messages == chat.end()) return BadChat("it has no \"messages\"");
  RETURN_IF_ERROR(ReadMessages(*messages, saved.transcript));
  return saved;
}

absl::Status SaveChat(const SavedChat& chat, const std::string& path) {
  std::error_code error;
  const auto there = std::filesystem::symlink_status(path, error);
  if (std::filesystem::exists(there) && !LoadChat(path).ok()) {
    return absl::AlreadyExistsError(
        absl::StrCat(path,
                     " is there and is no chat that this program reads, so it "
                     "stays as it is; choose another name"));
  }
  const std::string json = ChatToJson(chat);
  if (static_cast<int64_t>(json.size()) > kMaxChatFileBytes) {
    return absl::OutOfRangeError(absl::StrCat("the chat has ", json.size(),
                                              " bytes as JSON, and a file ",
                                              "may have ", kMaxChatFileBytes));
  }
  return WritePrivateFile(path, json);
}

absl::StatusOr<SavedChat> LoadChat(const std::string& path) {
  std::istringstream none;
  // "-" is a file's name here.
  const std::string name = path == "-" ? "./-" : path;
  const auto text = ReadText(name, none, kMaxChatFileBytes);
  if (absl::IsNotFound(text.status())) return text.status();
  if (!text.ok()) return Prefixed(absl::StrCat(path, ": "), text.status());
  auto chat = ChatFromJson(*text);
  if (!chat.ok()) return Prefixed(absl::StrCat(path, ": "), chat.status());
  return chat;
}

}  // namespace plimsoll::cli
