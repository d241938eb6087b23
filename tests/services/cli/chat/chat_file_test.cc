#include "services/cli/chat/chat_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace plimsoll::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

SavedChat Sample() {
  SavedChat chat;
  chat.model = "smollm2.gguf";
  chat.transcript.system = "Be brief.";
  chat.transcript.Add({"Why?", "Because \"so\".\n\x01", {1, 2}});
  chat.transcript.Add({"\xE6\x97\xA5\n", ""});
  SamplingFlags flags;
  flags.sampling.temperature = 0.25f;
  flags.sampling.seed = ~uint64_t{0};
  chat.settings = ChatSettings(flags);
  return chat;
}

TEST(ChatFileTest, WhatIsWrittenIsReadAgain) {
  const SavedChat chat = Sample();
  const auto read = ChatFromJson(ChatToJson(chat));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->model, chat.model);
  EXPECT_EQ(read->transcript.system, chat.transcript.system);
  ASSERT_EQ(read->transcript.turns.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read->transcript.turns[i].message,
              chat.transcript.turns[i].message);
    EXPECT_EQ(read->transcript.turns[i].reply, chat.transcript.turns[i].reply);
    EXPECT_TRUE(read->transcript.turns[i].reply_ids.empty());
  }
  ASSERT_EQ(read->settings.size(), chat.settings.size());
  for (size_t i = 0; i < chat.settings.size(); ++i) {
    EXPECT_EQ(read->settings[i].name, chat.settings[i].name);
    EXPECT_EQ(std::stod(read->settings[i].value),
              std::stod(chat.settings[i].value));
  }
}

TEST(ChatFileTest, IsAsDocumented) {
  SavedChat chat;
  chat.transcript.Add({"Hello", "Hi"});
  chat.settings = {{"temperature", "0.8"}, {"top_k", "40"}};
  EXPECT_EQ(ChatToJson(chat), R"({
  "format": "plimsoll-chat",
  "version": 1,
  "settings": {
    "temperature": 0.8,
    "top_k": 40
  },
  "messages": [
    {
      "role": "user",
      "content": "Hello"
    },
    {
      "role": "assistant",
      "content": "Hi"
    }
  ]
}
)");
}

TEST(ChatFileTest, LittleIsNeeded) {
  const auto read =
      ChatFromJson(R"({"format":"plimsoll-chat","version":1,"messages":[]})");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE(read->transcript.system.has_value());
  EXPECT_TRUE(read->settings.empty());
}

struct BadFile {
  const char* json;
  const char* says;
};

TEST(ChatFileTest, ABadFileSaysWhatIsWrongAndWhere) {
  const std::string head = R"({"format":"plimsoll-chat","version":1,)";
  const std::string user = R"({"role":"user","content":"a"})";
  const BadFile cases[] = {
      {"", "no JSON"},
      {"{", "no JSON"},
      {"[]", "no object"},
      {"\"\xFF\"", "no JSON"},
      {R"({"messages":[]})", "\"format\" is not \"plimsoll-chat\""},
      {R"({"format":"plimsoll-chat","messages":[]})", "\"version\""},
      {R"({"format":"plimsoll-chat","version":1.5})", "\"version\""},
      {R"({"format":"plimsoll-chat","version":2,"messages":[]})",
       "version 2, this program reads version 1"},
      {"*\"model\":\"a\"}", "has no \"messages\""},
      {"*\"messages\":{}}", "\"messages\" is no list"},
      {"*\"messages\":[],\"stop\":1}", "unknown member \"stop\""},
      {"*\"messages\":[],\"system\":1}", "\"system\" is no text"},
      {"*\"messages\":[],\"settings\":[]}", "\"settings\" is no object"},
      {"*\"messages\":[],\"settings\":{\"top_k\":\"1\"}}",
       "top_k is no number"},
      {"*\"messages\":[],\"settings\":{\"top_q\":1}}", "nearest is top_"},
      {"*\"messages\":[],\"settings\":{\"top_k\":1.5}}", "top_k: '1.5'"},
      {"*\"messages\":[@]}", "last message has no reply"},
      {"*\"messages\":[@,@]}", "message 2 must have the role assistant"},
      {"*\"messages\":[1,@]}", "message 1 is no object"},
      {"*\"messages\":[{\"role\":\"user\"},@]}",
       "message 1 has no \"content\""},
      {"*\"messages\":[{\"role\":\"user\",\"content\":\"\"},@]}",
       "message 1 is empty"},
      {"*\"messages\":[{\"role\":\"user\",\"content\":[]},@]}",
       "message 1: \"content\" is no text"},
      {"*\"messages\":[{\"role\":\"user\",\"content\":\"a\",\"x\":1},@]}",
       "message 1 has an unknown member \"x\""},
  };
  for (const BadFile& bad : cases) {
    std::string json = bad.json;
    if (const size_t at = json.find('*'); at == 0) json.replace(0, 1, head);
    for (size_t at; (at = json.find('@')) != std::string::npos;) {
      json.replace(at, 1, user);
    }
    const absl::Status status = ChatFromJson(json).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << json;
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.says)) << json;
  }
}

TEST(ChatFileTest, DeepNestingIsAnErrorAndNoCrash) {
  const std::string deep(1 << 20, '[');
  EXPECT_FALSE(ChatFromJson(deep).ok());
  EXPECT_FALSE(ChatFromJson(deep + std::string(1 << 20, ']')).ok());
}

TEST(ChatFileTest, AChatMayHaveSoManyTurnsAndNoMore) {
  SavedChat chat;
  chat.transcript.turns.resize(Transcript::kMaxTurns, {"a", "b"});
  EXPECT_TRUE(ChatFromJson(ChatToJson(chat)).ok());
  chat.transcript.turns.push_back({"a", "b"});
  EXPECT_FALSE(ChatFromJson(ChatToJson(chat)).ok());
}

class ChatFileOnDiskTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  const std::string folder_ = ::testing::TempDir() + "/chat_file_test";
  const std::string path_ = folder_ + "/chat.json";
};

TEST_F(ChatFileOnDiskTest, ASavedChatIsForItsOwnerAndCanBeSavedAgain) {
  ASSERT_TRUE(SaveChat(Sample(), path_).ok());
  struct stat now = {};
  ASSERT_EQ(stat(path_.c_str(), &now), 0);
  EXPECT_EQ(now.st_mode & 0777, 0600u);
  SavedChat more = Sample();
  more.transcript.Add({"And?", "So."});
  ASSERT_TRUE(SaveChat(more, path_).ok());
  const auto read = LoadChat(path_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->transcript.turns.size(), 3u);
}

TEST_F(ChatFileOnDiskTest, AFileThatIsNoChatStaysAsItIs) {
  std::ofstream(path_) << "my only copy";
  const absl::Status status = SaveChat(Sample(), path_);
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr("chat.json"));
  std::ifstream file(path_);
  std::string text;
  std::getline(file, text);
  EXPECT_EQ(text, "my only copy");
  EXPECT_FALSE(SaveChat(Sample(), folder_).ok());
}

TEST_F(ChatFileOnDiskTest, NoFileIsWrittenThatWouldNotBeRead) {
  SavedChat chat;
  chat.transcript.turns.push_back(
      {"Count", std::string(kMaxChatFileBytes, 'x')});
  EXPECT_EQ(SaveChat(chat, path_).code(), absl::StatusCode::kOutOfRange);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(ChatFileOnDiskTest, ErrorsNameTheFile) {
  EXPECT_EQ(LoadChat(path_).status().code(), absl::StatusCode::kNotFound);
  std::ofstream(path_) << "{";
  EXPECT_THAT(std::string(LoadChat(path_).status().message()),
              HasSubstr("chat.json: it is no chat"));
  EXPECT_THAT(std::string(SaveChat(Sample(), folder_ + "/none/a").message()),
              HasSubstr("none/a: No such file"));
}

}  // namespace
}  // namespace plimsoll::cli
