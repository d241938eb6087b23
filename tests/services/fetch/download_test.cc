#include "services/fetch/download.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "services/fetch/digest.h"
#include "tests/services/fetch/fake_transport.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::fetch {
namespace {

using testing::FakeReply;
using testing::FakeRequest;
using testing::FakeTransport;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kWhole[] = "GGUF0123456789";
constexpr int64_t kBytes = sizeof(kWhole) - 1;

absl::Status Broken() { return absl::UnavailableError("broke off"); }

// A whole file of this version.
FakeReply Version(const std::string& etag, const std::string& text) {
  return {
      {200, {{"Content-Length", std::to_string(text.size())}, {"ETag", etag}}},
      text};
}

constexpr char kTag[] = "\"v1\"";

// The whole file.
FakeReply Whole() { return Version(kTag, kWhole); }

// The whole file, of which `n` bytes come.
FakeReply Begins(size_t n) {
  FakeReply reply = Whole();
  reply.body.resize(n);
  reply.end = Broken();
  return reply;
}

// The rest of the file from `first`.
FakeReply Rest(size_t first, const std::string& etag) {
  const std::string total = std::to_string(kBytes);
  return {{206,
           {{"Content-Range", "bytes " + std::to_string(first) + "-" +
                                  std::to_string(kBytes - 1) + "/" + total},
            {"ETag", etag}}},
          std::string(kWhole).substr(first)};
}

class DownloadTest : public ::testing::Test {
 protected:
  // Each reply is for the next request; the last one is for all others.
  absl::Status Fetch(std::vector<FakeReply> replies) {
    FetchSession session(
        std::make_unique<FakeTransport>(requests_,
                                        [&](const FakeRequest&) {
                                          FakeReply reply = replies.front();
                                          if (replies.size() > 1) {
                                            replies.erase(replies.begin());
                                          }
                                          return reply;
                                        }),
        false);
    auto part =
        PartialFile::Open(std::filesystem::path(folder_.File("")).parent_path(),
                          "m.gguf", [] { return absl::OkStatus(); });
    EXPECT_TRUE(part.ok()) << part.status();
    const FetchHooks hooks = {
        .check = [] { return absl::OkStatus(); },
        .progress = [](const std::string&, int64_t, int64_t, int64_t) {},
        .note = [this](const std::string& text) { notes_ += text + "\n"; },
        .first_pause = absl::ZeroDuration()};
    absl::Status status = Download(session, file_, **part, hooks);
    if (status.ok()) status = CheckDigest(file_, **part, hooks);
    size_ = (*part)->size();
    return status;
  }

  services::testing::TemporaryFolder folder_;
  RemoteFile file_ = {"m.gguf", *ParseUrl("https://a.example/m.gguf")};
  std::vector<FakeRequest> requests_;
  std::string notes_;
  int64_t size_ = 0;
};

TEST_F(DownloadTest, AWholeFileComes) {
  ASSERT_TRUE(Fetch({Whole()}).ok());
  EXPECT_EQ(file_.bytes, kBytes);
  EXPECT_EQ(file_.sha256, TextDigest(kWhole));
  EXPECT_EQ(requests_[0].Field("Range"), "");
  EXPECT_EQ(requests_[0].Field("Accept-Encoding"), "identity");
}

TEST_F(DownloadTest, ATransferThatBreaksOffGoesOn) {
  ASSERT_TRUE(Fetch({Begins(6), Rest(6, kTag)}).ok());
  EXPECT_EQ(file_.sha256, TextDigest(kWhole));
  EXPECT_EQ(requests_[1].Field("Range"), "bytes=6-");
  EXPECT_EQ(requests_[1].Field("If-Range"), "\"v1\"");
}

TEST_F(DownloadTest, ALaterRunGoesOn) {
  FakeReply cut = Begins(6);
  cut.end = absl::CancelledError("Ctrl-C");
  ASSERT_TRUE(absl::IsCancelled(Fetch({cut})));
  ASSERT_TRUE(Fetch({Rest(6, kTag)}).ok());
  EXPECT_EQ(requests_.back().Field("Range"), "bytes=6-");
  EXPECT_EQ(file_.sha256, TextDigest(kWhole));
}

TEST_F(DownloadTest, AChangedFileIsNotMixedIn) {
  const std::string other = "GGUFabcdefghijk";
  ASSERT_TRUE(Fetch({Begins(6), Version("\"v2\"", other)}).ok());
  EXPECT_EQ(file_.sha256, TextDigest(other));
  EXPECT_THAT(notes_, HasSubstr("from the beginning"));
}

TEST_F(DownloadTest, ARestOfAnotherFileIsNotMixedIn) {
  ASSERT_TRUE(Fetch({Begins(6), Rest(6, "\"v2\""), Whole()}).ok());
  EXPECT_EQ(file_.sha256, TextDigest(kWhole));
  EXPECT_EQ(requests_[2].Field("Range"), "");
}

TEST_F(DownloadTest, AnotherRangeIsNotMixedIn) {
  ASSERT_TRUE(Fetch({Begins(6), Rest(7, kTag), Whole()}).ok());
  EXPECT_EQ(file_.sha256, TextDigest(kWhole));
}

TEST_F(DownloadTest, WithoutAValidatorItBeginsAnew) {
  FakeReply cut = Begins(6);
  cut.head.fields[1].second = "W/\"v1\"";
  ASSERT_TRUE(Fetch({cut, Whole()}).ok());
  EXPECT_EQ(requests_[1].Field("Range"), "");
  EXPECT_EQ(file_.sha256, TextDigest(kWhole));
}

TEST_F(DownloadTest, WithADigestItGoesOnWithoutAValidator) {
  file_.sha256 = TextDigest(kWhole);
  FakeReply cut = Begins(6);
  cut.head.fields[1].second = "";
  ASSERT_TRUE(Fetch({cut, Rest(6, "")}).ok());
  EXPECT_EQ(requests_[1].Field("Range"), "bytes=6-");
  EXPECT_EQ(requests_[1].Field("If-Range"), "");
}

TEST_F(DownloadTest, APartOfAnotherUrlIsNotMixedIn) {
  FakeReply cut = Begins(6);
  cut.end = absl::CancelledError("Ctrl-C");
  ASSERT_TRUE(absl::IsCancelled(Fetch({cut})));
  file_.url = *ParseUrl("https://b.example/m.gguf");
  ASSERT_TRUE(Fetch({Whole()}).ok());
  EXPECT_EQ(requests_.back().Field("Range"), "");
  EXPECT_EQ(file_.sha256, TextDigest(kWhole));
}

TEST_F(DownloadTest, AServerThatIgnoresRangesIsFollowed) {
  ASSERT_TRUE(Fetch({Begins(6), Whole()}).ok());
  EXPECT_EQ(file_.sha256, TextDigest(kWhole));
}

TEST_F(DownloadTest, AWrongDigestDeletesThePart) {
  file_.sha256 = std::string(64, 'a');
  const absl::Status status = Fetch({Whole()});
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr(file_.sha256));
  EXPECT_THAT(std::string(status.message()), HasSubstr(TextDigest(kWhole)));
  EXPECT_THAT(folder_.Names("m.gguf"), SizeIs(0));
}

TEST_F(DownloadTest, AWholePartIsOnlyChecked) {
  file_.sha256 = TextDigest(kWhole);
  FakeReply cut = Whole();
  cut.end = absl::CancelledError("Ctrl-C");
  ASSERT_TRUE(absl::IsCancelled(Fetch({cut})));
  ASSERT_TRUE(Fetch({Whole()}).ok());
  EXPECT_THAT(requests_, SizeIs(1));
}

TEST_F(DownloadTest, AWholePartWithoutADigestIsAskedFor) {
  FakeReply cut = Whole();
  cut.end = absl::CancelledError("Ctrl-C");
  ASSERT_TRUE(absl::IsCancelled(Fetch({cut})));
  const FakeReply nothing_left = {
      {416, {{"Content-Range", "bytes */" + std::to_string(kBytes)}}}};
  ASSERT_TRUE(Fetch({nothing_left}).ok());
  EXPECT_EQ(file_.sha256, TextDigest(kWhole));
}

TEST_F(DownloadTest, APartThatIsTooLongIsForgotten) {
  FakeReply cut = Whole();
  cut.end = absl::CancelledError("Ctrl-C");
  ASSERT_TRUE(absl::IsCancelled(Fetch({cut})));
  file_.bytes = -1;  // a later run knows it by no list
  const std::string shorter = "GGUF0123";
  ASSERT_TRUE(
      Fetch({{{416, {{"Content-Range", "bytes */8"}}}}, Version(kTag, shorter)})
          .ok());
  EXPECT_EQ(file_.sha256, TextDigest(shorter));
}

TEST_F(DownloadTest, MoreBytesThanListedAreRefused) {
  file_.bytes = kBytes - 1;
  EXPECT_TRUE(absl::IsDataLoss(Fetch({Whole()})));
  FakeReply chunked = Whole();
  chunked.head.fields.clear();
  EXPECT_TRUE(absl::IsDataLoss(Fetch({chunked})));
  EXPECT_LE(size_, kBytes - 1);
}

TEST_F(DownloadTest, TheLargestFileIsAnnouncedAndOneByteMoreIsNot) {
  const auto announced = [&](int64_t bytes) {
    FakeReply reply = Whole();
    reply.head.fields[0].second = std::to_string(bytes);
    return Fetch({reply});
  };
  // No disk has room for either.
  EXPECT_FALSE(absl::IsDataLoss(announced(kMaxRemoteFileBytes)));
  EXPECT_TRUE(absl::IsDataLoss(announced(kMaxRemoteFileBytes + 1)));
}

TEST_F(DownloadTest, WhatIsNoGgufFileIsRefusedAtItsFirstBytes) {
  const absl::Status status = Fetch({Version(kTag, "<!DOCTYPE html>")});
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("<!DOCTYPE"));
  EXPECT_EQ(size_, 0);
}

TEST_F(DownloadTest, EncodedBytesAreRefused) {
  FakeReply reply = Whole();
  reply.head.fields.emplace_back("Content-Encoding", "gzip");
  EXPECT_TRUE(absl::IsDataLoss(Fetch({reply})));
}

TEST_F(DownloadTest, AnUnreachableServerIsAskedOnce) {
  EXPECT_TRUE(absl::IsUnavailable(Fetch({{.head = {}, .end = Broken()}})));
  EXPECT_THAT(requests_, SizeIs(1));
}

TEST_F(DownloadTest, ItEndsIfNothingMoreComes) {
  EXPECT_TRUE(
      absl::IsUnavailable(Fetch({Begins(6), {.head = {}, .end = Broken()}})));
  EXPECT_THAT(requests_, SizeIs(1 + kMaxIdleAttempts));
  EXPECT_EQ(size_, 6);
}

TEST_F(DownloadTest, AServersOtherDigestIsAnError) {
  file_.sha256 = TextDigest(kWhole);
  const FakeReply lead = {
      {302,
       {{"Location", "/blob"},
        {"X-Linked-ETag", "\"" + std::string(64, 'b') + "\""}}}};
  const absl::Status status = Fetch({lead, Whole()});
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(64, 'b')));
}

TEST_F(DownloadTest, ARedirectsDigestIsHeldTo) {
  const FakeReply lead = {
      {302,
       {{"Location", "/blob"},
        {"X-Linked-ETag", "\"" + std::string(64, 'b') + "\""}}}};
  EXPECT_TRUE(absl::IsDataLoss(Fetch({lead, Whole()})));
  EXPECT_EQ(file_.sha256, std::string(64, 'b'));
}

}  // namespace
}  // namespace plimsoll::fetch
