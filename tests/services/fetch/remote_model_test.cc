// Which files a URL, a registry's manifest and a hub's list mean.
#include "services/fetch/remote_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "services/fetch/digest.h"
#include "services/fetch/hub.h"
#include "services/fetch/registry.h"
#include "tests/services/fetch/fake_transport.h"

namespace plimsoll::fetch {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using testing::FakeReply;
using testing::FakeRequest;
using testing::FakeTransport;
using ::testing::HasSubstr;

const std::string kHex(64, 'a');

std::vector<std::string> Names(
    const absl::StatusOr<std::vector<RemoteFile>>& files) {
  std::vector<std::string> names;
  if (!files.ok()) return {std::string(files.status().message())};
  for (const RemoteFile& file : *files) names.push_back(file.name);
  return names;
}

TEST(FilesOfUrlTest, AUrlNamesItsFile) {
  EXPECT_THAT(
      Names(FilesOfUrl(*ParseSource("https://a.example/x/m.gguf?y=1"), "")),
      ElementsAre("m.gguf"));
  EXPECT_THAT(
      Names(FilesOfUrl(*ParseSource("https://a.example/get"), "n.gguf")),
      ElementsAre("n.gguf"));
}

TEST(FilesOfUrlTest, ANameThatLeavesTheFolderIsRefused) {
  for (const char* url :
       {"https://a.example/get", "https://a.example/",
        "https://a.example/..%2F..%2Fm.gguf", "https://a.example/.m.gguf"}) {
    EXPECT_THAT(Names(FilesOfUrl(*ParseSource(url), "")),
                ElementsAre(HasSubstr("--name")))
        << url;
  }
}

TEST(FilesOfUrlTest, AllPartsAreFetched) {
  const auto files = FilesOfUrl(
      *ParseSource("https://a.example/x/m-00001-of-00003.gguf?y=1"), "");
  EXPECT_THAT(Names(files),
              ElementsAre("m-00001-of-00003.gguf", "m-00002-of-00003.gguf",
                          "m-00003-of-00003.gguf"));
  EXPECT_EQ((*files)[2].url.Text(),
            "https://a.example/x/m-00003-of-00003.gguf?y=1");
  EXPECT_THAT(Names(FilesOfUrl(
                  *ParseSource("https://a.example/m-00002-of-00003.gguf"), "")),
              ElementsAre(HasSubstr("name the first")));
}

TEST(RegistryUrlTest, LoopbackHasNoTlsUnlessItIsAskedFor) {
  const auto url = [](const char* source, bool is_tls, bool is_plain) {
    return RegistryUrl(*ParseSource(source), is_tls, is_plain)->Origin();
  };
  EXPECT_EQ(url("oci://r.example/m", false, false), "https://r.example:443");
  EXPECT_EQ(url("oci://r.example/m", false, true), "http://r.example:80");
  EXPECT_EQ(url("oci://127.0.0.1:5000/m", false, false),
            "http://127.0.0.1:5000");
  EXPECT_EQ(url("oci://127.0.0.1:5000/m", true, false),
            "https://127.0.0.1:5000");
}

Json LayerOfDigest(const std::string& digest, const std::string& type,
                   const std::string& title) {
  Json layer = {{"mediaType", type}, {"digest", digest}, {"size", 7}};
  if (!title.empty()) {
    layer["annotations"]["org.opencontainers.image.title"] = title;
  }
  return layer;
}

Json Layer(const std::string& type, const std::string& title) {
  return LayerOfDigest("sha256:" + kHex, type, title);
}

std::string Manifest(const std::vector<Json>& layers) {
  return Json{{"layers", layers}}.dump();
}

// The file of the layers is called `name` here.
absl::StatusOr<std::vector<RemoteFile>> OfLayersNamed(
    const std::string& name, const std::vector<Json>& layers) {
  return FilesOfManifest(*ParseSource("oci://r.example/team/m:0.6b"),
                         *ParseUrl("https://r.example"), Manifest(layers),
                         name);
}

absl::StatusOr<std::vector<RemoteFile>> OfLayers(
    const std::vector<Json>& layers) {
  return OfLayersNamed("", layers);
}

TEST(FilesOfManifestTest, LayersAreFoundByTypeAndByTitle) {
  const Json other = Layer("application/json", "config.json");
  EXPECT_THAT(
      Names(OfLayers({other, Layer("application/octet-stream", "q.gguf")})),
      ElementsAre("q.gguf"));
  EXPECT_THAT(Names(OfLayers({Layer("application/vnd.x.gguf.v3", "")})),
              ElementsAre("m-0.6b.gguf"));
  EXPECT_THAT(
      Names(OfLayersNamed("n.gguf", {Layer("application/vnd.x.gguf.v3", "")})),
      ElementsAre("n.gguf"));
  const auto files = OfLayers({Layer("application/vnd.x.gguf.v3", "q.gguf")});
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->front().url.Text(),
            "https://r.example/v2/team/m/blobs/sha256:" + kHex);
  EXPECT_EQ(files->front().sha256, kHex);
  EXPECT_EQ(files->front().bytes, 7);
}

TEST(FilesOfManifestTest, AModelComesBeforeItsProjector) {
  EXPECT_THAT(
      Names(OfLayers({Layer("x", "mmproj-q.gguf"), Layer("x", "q.gguf")})),
      ElementsAre("q.gguf", "mmproj-q.gguf"));
}

TEST(FilesOfManifestTest, ATitleCannotLeaveTheFolder) {
  EXPECT_THAT(Names(OfLayers({Layer("x", "../../q.gguf")})),
              ElementsAre("q.gguf"));
  EXPECT_THAT(Names(OfLayers({Layer("x", "../.q.gguf")})),
              ElementsAre("m-0.6b.gguf"));
}

TEST(FilesOfManifestTest, WhatIsNoManifestIsRefused) {
  EXPECT_TRUE(absl::IsNotFound(
      OfLayers({Layer("application/json", "config.json")}).status()));
  EXPECT_TRUE(absl::IsNotFound(OfLayers({}).status()));
  EXPECT_TRUE(absl::IsDataLoss(
      OfLayers({LayerOfDigest("sha512:" + kHex, "x", "q.gguf")}).status()));
  EXPECT_TRUE(absl::IsDataLoss(
      OfLayers({LayerOfDigest(kHex, "x", "q.gguf")}).status()));
  EXPECT_TRUE(absl::IsDataLoss(
      OfLayers({Layer("x", "q.gguf"), Layer("y", "q.gguf")}).status()));
  for (const char* text : {"", "[", "7", "{}", "{\"layers\": 7}",
                           "{\"layers\": [{\"mediaType\": \"gguf\"}]}"}) {
    EXPECT_FALSE(FilesOfManifest(*ParseSource("oci://r.example/m"),
                                 *ParseUrl("https://r.example"), text, "")
                     .ok())
        << text;
  }
}

TEST(FilesOfManifestTest, MostLayersAreReadAndOneMoreIsNot) {
  std::vector<Json> layers(kMaxLayers, 7);
  layers[0] = Layer("x", "q.gguf");
  EXPECT_TRUE(OfLayers(layers).ok());
  layers.push_back(7);
  EXPECT_TRUE(absl::IsDataLoss(OfLayers(layers).status()));
}

absl::StatusOr<std::vector<RemoteFile>> FromRegistry(
    const std::string& source_text, const FakeTransport::Answer& answer) {
  std::vector<FakeRequest> requests;
  FetchSession session(std::make_unique<FakeTransport>(requests, answer),
                       false);
  const PullSource source = *ParseSource(source_text);
  return FilesOfRegistry(session, source, *RegistryUrl(source, true, false),
                         "");
}

TEST(FilesOfRegistryTest, AManifestHasTheDigestThatWasAskedFor) {
  const std::string manifest = Manifest({Layer("x", "q.gguf")});
  const auto answer = [&](const FakeRequest&) {
    return FakeReply{{200, {}}, manifest};
  };
  EXPECT_TRUE(
      FromRegistry("oci://r.example/m@sha256:" + TextDigest(manifest), answer)
          .ok());
  const absl::Status status =
      FromRegistry("oci://r.example/m@sha256:" + kHex, answer).status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr(TextDigest(manifest)));
}

TEST(FilesOfRegistryTest, AnIndexOfOneIsFollowed) {
  const std::string manifest = Manifest({Layer("x", "q.gguf")});
  const std::string digest = "sha256:" + TextDigest(manifest);
  const auto index_of = [](const std::string& one) {
    const Json manifests = Json::array({{{"digest", one}}});
    return Json{{"manifests", manifests}}.dump();
  };
  std::string index = index_of(digest);
  const auto answer = [&](const FakeRequest& request) {
    return FakeReply{{200, {}},
                     request.url.ends_with(digest) ? manifest : index};
  };
  EXPECT_THAT(Names(FromRegistry("oci://r.example/m", answer)),
              ElementsAre("q.gguf"));
  index = "{\"manifests\": [{}, {}]}";
  EXPECT_TRUE(absl::IsInvalidArgument(
      FromRegistry("oci://r.example/m", answer).status()));
  // An index of indices ends at the second one.
  index = index_of("sha256:" + kHex);
  EXPECT_TRUE(
      absl::IsDataLoss(FromRegistry("oci://r.example/m", answer).status()));
}

constexpr char kList[] = R"({
  "sha": "0123456789012345678901234567890123456789",
  "siblings": [
    {"rfilename": "README.md", "size": 5},
    {"rfilename": "m-Q4_K_M.gguf", "size": 7, "lfs": {"sha256":
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}},
    {"rfilename": "m-Q4_K.gguf", "size": 8},
    {"rfilename": "mmproj-Q8_0.gguf", "size": 9},
    {"rfilename": "BF16/m-BF16-00001-of-00002.gguf", "size": 10},
    {"rfilename": "BF16/m-BF16-00002-of-00002.gguf", "size": 11}
  ]})";

absl::StatusOr<std::vector<RemoteFile>> OfList(const std::string& source,
                                               const std::string& list) {
  return FilesOfList(*ParseSource(source), *ParseUrl("https://h.example/x/"),
                     list, "");
}

// The file of a source is called `name` here.
absl::StatusOr<std::vector<RemoteFile>> NamedHere(const std::string& source,
                                                  const std::string& name) {
  return FilesOfList(*ParseSource(source), *ParseUrl("https://h.example/x/"),
                     kList, name);
}

TEST(FilesOfListTest, AQuantChoosesAFile) {
  const auto files = OfList("hf:o/r:q4_k_m", kList);
  ASSERT_TRUE(files.ok()) << files.status();
  ASSERT_THAT(Names(files), ElementsAre("m-Q4_K_M.gguf"));
  EXPECT_EQ(files->front().url.Text(),
            "https://h.example/x/o/r/resolve/"
            "0123456789012345678901234567890123456789/m-Q4_K_M.gguf");
  EXPECT_EQ(files->front().bytes, 7);
  EXPECT_EQ(files->front().sha256, kHex);
  EXPECT_THAT(Names(OfList("hf:o/r:Q4_K", kList)), ElementsAre("m-Q4_K.gguf"));
  EXPECT_THAT(Names(OfList("hf:o/r/m-Q4_K.gguf", kList)),
              ElementsAre("m-Q4_K.gguf"));
  EXPECT_THAT(Names(NamedHere("hf:o/r:Q4_K", "n.gguf")), ElementsAre("n.gguf"));
}

TEST(FilesOfListTest, PartsComeTogether) {
  const auto files = OfList("hf:o/r:BF16", kList);
  EXPECT_THAT(Names(files), ElementsAre("m-BF16-00001-of-00002.gguf",
                                        "m-BF16-00002-of-00002.gguf"));
  EXPECT_THAT((*files)[1].url.path, HasSubstr("/BF16/m-BF16-00002"));
  EXPECT_THAT(Names(OfList("hf:o/r",
                           R"({"siblings": [{"rfilename":
                               "m-00001-of-00002.gguf"}]})")),
              ElementsAre(HasSubstr("lacks 'm-00002-of-00002.gguf'")));
}

TEST(FilesOfListTest, WhatCannotBeChosenIsListed) {
  const absl::Status several = OfList("hf:o/r", kList).status();
  EXPECT_TRUE(absl::IsInvalidArgument(several));
  EXPECT_THAT(std::string(several.message()), HasSubstr("m-Q4_K_M.gguf"));
  const absl::Status none = OfList("hf:o/r:Q9", kList).status();
  EXPECT_TRUE(absl::IsNotFound(none));
  EXPECT_THAT(std::string(none.message()), HasSubstr("m-Q4_K_M.gguf"));
  EXPECT_TRUE(absl::IsNotFound(OfList("hf:o/r/other.gguf", kList).status()));
  EXPECT_TRUE(
      absl::IsNotFound(OfList("hf:o/r", "{\"siblings\": []}").status()));
}

TEST(FilesOfListTest, ANameCannotLeaveTheFolder) {
  const auto files =
      OfList("hf:o/r", R"({"siblings": [{"rfilename": "../../m.gguf"}]})");
  EXPECT_THAT(Names(files), ElementsAre("m.gguf"));
  EXPECT_FALSE(
      OfList("hf:o/r", R"({"siblings": [{"rfilename": "a/..gguf"}]})").ok());
}

TEST(FilesOfListTest, MostFilesAreReadAndOneMoreIsNot) {
  std::vector<Json> siblings(kMaxListedFiles, 7);
  siblings[0] = {{"rfilename", "m.gguf"}};
  const auto found = [&] {
    return OfList("hf:o/r", Json{{"siblings", siblings}}.dump()).status();
  };
  EXPECT_TRUE(found().ok());
  siblings.push_back(7);
  EXPECT_TRUE(absl::IsDataLoss(found()));
}

TEST(FilesOfListTest, WhatIsNoListIsRefused) {
  for (const char* text : {"", "[", "7", "{}", "{\"siblings\": 7}"}) {
    EXPECT_TRUE(absl::IsDataLoss(OfList("hf:o/r", text).status())) << text;
  }
  EXPECT_TRUE(absl::IsNotFound(
      OfList("hf:o/r", "{\"siblings\": [7, {\"rfilename\": 7}]}").status()));
}

}  // namespace
}  // namespace plimsoll::fetch
