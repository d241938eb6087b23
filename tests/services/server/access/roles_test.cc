#include "services/server/access/roles.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "plimsoll/v1/admin.pb.h"
#include "plimsoll/v1/generation.pb.h"
#include "plimsoll/v1/model.pb.h"
#include "plimsoll/v1/planner.pb.h"
#include "plimsoll/v1/session.pb.h"
#include "plimsoll/v1/tokenizer.pb.h"

namespace plimsoll::services {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;

std::string PathOf(const MethodDescriptor& method) {
  return absl::StrCat("/", method.service()->full_name(), "/", method.name());
}

// The methods of the services in the files of these messages.
std::set<std::string> MethodsOf(
    const std::vector<const FileDescriptor*>& files) {
  std::set<std::string> paths;
  for (const FileDescriptor* file : files) {
    for (int i = 0; i < file->service_count(); ++i) {
      const ServiceDescriptor& service = *file->service(i);
      for (int k = 0; k < service.method_count(); ++k) {
        paths.insert(PathOf(*service.method(k)));
      }
    }
  }
  return paths;
}

std::set<std::string> OurMethods() {
  return MethodsOf({v1::GetLoadRequest::descriptor()->file(),
                    v1::GenerateRequest::descriptor()->file(),
                    v1::LoadModelRequest::descriptor()->file(),
                    DescriptorPool::generated_pool()->FindFileByName(
                        "plimsoll/v1/planner.proto"),
                    v1::OpenSessionRequest::descriptor()->file(),
                    v1::TokenizeRequest::descriptor()->file()});
}

TEST(RolesTest, EveryMethodOfEveryServiceHasARole) {
  const std::set<std::string> paths = OurMethods();
  EXPECT_GE(paths.size(), 37u);
  for (const std::string& path : paths) {
    const MethodRule* rule = FindMethodRule(path);
    ASSERT_NE(rule, nullptr) << path << " is missing in roles.cc";
    EXPECT_TRUE(rule->least.has_value()) << path;
  }
}

TEST(RolesTest, ReflectionIsForViewersAndHealthIsForAll) {
  for (const char* version : {"v1", "v1alpha"}) {
    const MethodRule* rule =
        FindMethodRule(absl::StrCat("/grpc.reflection.", version,
                                    ".ServerReflection/ServerReflectionInfo"));
    ASSERT_NE(rule, nullptr);
    EXPECT_EQ(rule->least, Role::kViewer);
  }
  for (const char* method : {"Check", "Watch"}) {
    const MethodRule* rule =
        FindMethodRule(absl::StrCat("/grpc.health.v1.Health/", method));
    ASSERT_NE(rule, nullptr);
    EXPECT_FALSE(rule->least.has_value());
  }
}

TEST(RolesTest, WhatIsNotInTheTableHasNoRule) {
  for (const char* path :
       {"", "/", "/plimsoll.v1.AdminService/", "/plimsoll.v1.AdminService",
        "/plimsoll.v1.AdminService/drain", "/plimsoll.v1.AdminService/Drain/",
        "plimsoll.v1.AdminService/Drain"}) {
    EXPECT_EQ(FindMethodRule(path), nullptr) << path;
  }
}

TEST(RolesTest, WhatChangesAWorkerIsForAdministrators) {
  for (const char* path :
       {"/plimsoll.v1.AdminService/Drain", "/plimsoll.v1.AdminService/Abort",
        "/plimsoll.v1.ModelService/LoadModel",
        "/plimsoll.v1.ModelService/UnloadModel",
        "/plimsoll.v1.PlannerService/ForceRelease"}) {
    EXPECT_EQ(FindMethodRule(path)->least, Role::kAdmin) << path;
  }
  EXPECT_EQ(FindMethodRule("/plimsoll.v1.PlannerService/Reserve")->least,
            Role::kWorker);
}

TEST(RolesTest, AnAddressForAdministratorsTakesWhatTheOtherDoesNot) {
  for (const std::string& path : OurMethods()) {
    EXPECT_TRUE(IsServed(MethodSet::kAll, path)) << path;
    const bool is_change = FindMethodRule(path)->least >= Role::kWorker;
    EXPECT_EQ(IsServed(MethodSet::kOrdinary, path), !is_change) << path;
    EXPECT_TRUE(!is_change || IsServed(MethodSet::kAdmin, path)) << path;
  }
  for (const char* path : {"/plimsoll.v1.AdminService/Drain",
                           "/plimsoll.v1.ModelService/LoadModel",
                           "/plimsoll.v1.PlannerService/Release"}) {
    EXPECT_FALSE(IsServed(MethodSet::kOrdinary, path)) << path;
  }
}

TEST(RolesTest, AnAddressForAdministratorsServesNothingElse) {
  for (const char* path :
       {"/plimsoll.v1.AdminService/GetLoad", "/plimsoll.v1.PlannerService/Plan",
        "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"}) {
    EXPECT_TRUE(IsServed(MethodSet::kAdmin, path)) << path;
    EXPECT_TRUE(IsServed(MethodSet::kOrdinary, path)) << path;
  }
  for (const char* path :
       {"/plimsoll.v1.GenerationService/Generate",
        "/plimsoll.v1.SessionService/Chat",
        "/plimsoll.v1.ModelService/ListModels",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/plimsoll.v1.Unknown/Method", "/"}) {
    EXPECT_FALSE(IsServed(MethodSet::kAdmin, path)) << path;
    EXPECT_TRUE(IsServed(MethodSet::kOrdinary, path)) << path;
  }
  EXPECT_FALSE(IsServed(MethodSet::kAdmin, ""));
  EXPECT_FALSE(IsServed(MethodSet::kOrdinary, ""));
}

TEST(RolesTest, NamesAndRolesAreOneToOne) {
  for (const Role role :
       {Role::kViewer, Role::kUser, Role::kWorker, Role::kAdmin}) {
    EXPECT_EQ(FindRole(RoleName(role)), role);
  }
  EXPECT_EQ(FindRole("Admin"), std::nullopt);
  EXPECT_EQ(FindRole(""), std::nullopt);
  EXPECT_LT(Role::kUser, Role::kAdmin);
}

}  // namespace
}  // namespace plimsoll::services
