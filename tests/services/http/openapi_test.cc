// The description of all paths, beside what a front answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "services/http/front/front.h"
#include "services/http/json.h"
#include "services/http/page.h"
#include "tests/services/http/front_fixture.h"
#include "tests/services/http/http_client.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;

using Methods = std::map<std::string, std::set<std::string>>;

Json Description() { return Json::parse(std::string(DescriptionFile().bytes)); }

// The methods of each path that is described.
Methods Described() {
  const Json description = Description();
  Methods methods;
  for (const auto& [path, item] : description.at("paths").items()) {
    for (const auto& [method, operation] : item.items()) {
      methods[path].insert(absl::AsciiStrToUpper(method));
    }
  }
  return methods;
}

// The methods of each path that is answered. HEAD is like GET and is not
// described.
Methods Answered() {
  Methods methods;
  for (const FrontPath& path : Front::Paths()) {
    const std::vector<std::string> all = absl::StrSplit(path.methods, ", ");
    std::set<std::string>& known = methods[std::string(path.path)];
    known.insert(all.begin(), all.end());
    known.erase("HEAD");
  }
  return methods;
}

TEST(OpenApiTest, DescribesEveryPathAndNoOther) {
  EXPECT_EQ(Described(), Answered());
}

// Calls `visit` with each reference of a description.
template <typename Visit>
void ForEachReference(const Json& json, const Visit& visit) {
  if (json.is_object() && json.contains("$ref")) {
    visit(json.at("$ref").get<std::string>());
  }
  for (const Json& member : json) {
    if (member.is_structured()) ForEachReference(member, visit);
  }
}

TEST(OpenApiTest, EveryReferenceLeadsToASchemaAndEverySchemaIsUsed) {
  const Json description = Description();
  std::set<std::string> used;
  ForEachReference(description,
                   [&](const std::string& name) { used.insert(name); });
  std::set<std::string> there;
  for (const auto& [name, schema] :
       description.at("components").at("schemas").items()) {
    there.insert(absl::StrCat("#/components/schemas/", name));
  }
  EXPECT_EQ(used, there);
}

using OpenApiPathsTest = FrontTest;

TEST_F(OpenApiPathsTest, IsSentAsJsonAndOnce) {
  const ClientReply reply = Get("/openapi.json");
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.head, HasSubstr("content-type: application/json\r\n"));
  EXPECT_EQ(Json::parse(reply.body).at("openapi"), "3.1.0");
  HttpClient client(front_->address());
  client.Send(client.Request(
      "GET", "/openapi.json",
      {.headers = absl::StrCat(
           "If-None-Match: ", std::string(DescriptionFile().etag), "\r\n")}));
  EXPECT_EQ(client.Read().status, 304);
  EXPECT_EQ(Post("/openapi.json", "").status, 405);
}

TEST_F(OpenApiPathsTest, APathIsAnsweredByItsOwnMethodsOnly) {
  for (const FrontPath& path : Front::Paths()) {
    HttpClient client(front_->address());
    client.Send(client.Request("PUT", std::string(path.path), {.body = "{}"}));
    const ClientReply reply = client.Read();
    EXPECT_EQ(reply.status, 405) << path.path;
    EXPECT_THAT(reply.head, HasSubstr(absl::AsciiStrToLower(absl::StrCat(
                                "allow: ", path.methods, "\r\n"))));
  }
}

TEST_F(OpenApiPathsTest, ANameInBracesIsOnePartOfAPath) {
  EXPECT_EQ(Get("/v1/responses/").status, 404);
  EXPECT_EQ(Post("/v1/responses/resp_1/cancel", "{}").status, 404);
  EXPECT_EQ(Post("/v1/responses/resp_1", "{}").status, 405);
  EXPECT_EQ(Get("/page/a/main.js").status, 404);
  // The names of models may have slashes.
  EXPECT_THAT(Get("/v1/models/a/b").body, HasSubstr("no model of this name"));
}

}  // namespace
}  // namespace plimsoll::services
