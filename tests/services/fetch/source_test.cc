#include "services/fetch/source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace plimsoll::fetch {
namespace {

using ::testing::HasSubstr;

const std::string kDigest(64, 'a');

TEST(PullSourceTest, AUrlIsASource) {
  const auto source = ParseSource("https://a.example/m.gguf");
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(source->kind, SourceKind::kUrl);
  EXPECT_EQ(source->url.Text(), "https://a.example/m.gguf");
  EXPECT_EQ(source->text, "https://a.example/m.gguf");
}

TEST(PullSourceTest, ARegistryHasTagsAndDigests) {
  const auto tagged = ParseSource("oci://r.example:5000/team/m:0.6b");
  ASSERT_TRUE(tagged.ok()) << tagged.status();
  EXPECT_EQ(tagged->kind, SourceKind::kRegistry);
  EXPECT_EQ(tagged->registry, "r.example:5000");
  EXPECT_EQ(tagged->repository, "team/m");
  EXPECT_EQ(tagged->reference, "0.6b");
  EXPECT_FALSE(tagged->is_pinned());
  EXPECT_EQ(ParseSource("oci://r.example/m")->reference, "latest");
  const auto pinned = ParseSource("oci://r.example/m:1@sha256:" + kDigest);
  ASSERT_TRUE(pinned.ok()) << pinned.status();
  EXPECT_EQ(pinned->reference, "sha256:" + kDigest);
  EXPECT_TRUE(pinned->is_pinned());
}

TEST(PullSourceTest, AHubHasQuantsFilesAndRevisions) {
  const auto whole = ParseSource("hf:o/r");
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->kind, SourceKind::kHub);
  EXPECT_EQ(whole->repository, "o/r");
  EXPECT_EQ(whole->revision, "main");
  const auto quant = ParseSource("hf:o/r:Q4_K_M@v1/x");
  ASSERT_TRUE(quant.ok()) << quant.status();
  EXPECT_EQ(quant->quant, "Q4_K_M");
  EXPECT_EQ(quant->revision, "v1/x");
  EXPECT_FALSE(quant->is_pinned());
  const auto file = ParseSource("hf:o/r/sub/m.gguf@" + std::string(40, '0'));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->file, "sub/m.gguf");
  EXPECT_TRUE(file->is_pinned());
}

TEST(PullSourceTest, OtherTextsAreRefused) {
  for (const std::string& text : {std::string(),
                                  std::string("m.gguf"),
                                  std::string("oci://"),
                                  std::string("oci://r.example"),
                                  std::string("oci:///m"),
                                  std::string("oci://r.example/m:"),
                                  std::string("oci://r.example/a/../b"),
                                  std::string("oci://r.example/m@sha256:12"),
                                  std::string("oci://r.example/m?x=1"),
                                  std::string("oci://u@r.example/m"),
                                  std::string("hf:"),
                                  std::string("hf:o"),
                                  std::string("hf:o/.."),
                                  std::string("hf:o/r:"),
                                  std::string("hf:o/r/m.bin"),
                                  std::string("hf:o/r/../m.gguf"),
                                  std::string("hf:o/r/m.gguf:Q4"),
                                  std::string("hf:o/r@"),
                                  std::string("hf:o/r@a b"),
                                  std::string("ftp://a.example/m.gguf")}) {
    EXPECT_EQ(ParseSource(text).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST(PullSourceTest, ErrorsShowTheForm) {
  EXPECT_THAT(std::string(ParseSource("hf:o").status().message()),
              HasSubstr("hf:OWNER/REPOSITORY"));
  EXPECT_THAT(std::string(ParseSource("oci://r").status().message()),
              HasSubstr("oci://REGISTRY/REPOSITORY"));
}

TEST(PullSourceTest, TheLongestSourceIsReadAndOneByteMoreIsNot) {
  const std::string head = "https://a.example/";
  const size_t room = kMaxSourceBytes - head.size();
  EXPECT_TRUE(ParseSource(head + std::string(room, 'x')).ok());
  EXPECT_FALSE(ParseSource(head + std::string(room + 1, 'x')).ok());
}

TEST(PullSourceTest, TheLongestTagIsReadAndOneByteMoreIsNot) {
  const std::string head = "oci://r.example/m:";
  EXPECT_TRUE(ParseSource(head + std::string(kMaxTagBytes, 't')).ok());
  EXPECT_FALSE(ParseSource(head + std::string(kMaxTagBytes + 1, 't')).ok());
}

TEST(PullSourceTest, FileNamesStayInTheFolder) {
  for (const char* name : {"m.gguf", "a-b_1.0+x (2).gguf"}) {
    EXPECT_TRUE(CheckFileName(name).ok()) << name;
  }
  for (const char* name :
       {"", ".gguf", ".m.gguf", "m.bin", "../m.gguf", "a/m.gguf", "-m.gguf",
        "m\n.gguf", "m\x1b[2J.gguf", "a\\m.gguf", "\xC3\xA4.gguf"}) {
    EXPECT_FALSE(CheckFileName(name).ok()) << name;
  }
  const std::string end = ".gguf";
  EXPECT_TRUE(
      CheckFileName(std::string(kMaxFileNameBytes - end.size(), 'm') + end)
          .ok());
  EXPECT_FALSE(
      CheckFileName(std::string(kMaxFileNameBytes - end.size() + 1, 'm') + end)
          .ok());
}

TEST(PullSourceTest, ADigestIsHexInLowerCase) {
  EXPECT_TRUE(IsSha256(kDigest));
  EXPECT_FALSE(IsSha256(std::string(63, 'a')));
  EXPECT_FALSE(IsSha256(std::string(64, 'A')));
  EXPECT_FALSE(IsSha256(std::string(64, 'g')));
}

}  // namespace
}  // namespace plimsoll::fetch
