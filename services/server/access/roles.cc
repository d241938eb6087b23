#include "services/server/access/roles.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"

namespace plimsoll::services {
namespace {

struct NamedRole {
  absl::string_view name;
  Role role;
};

constexpr absl::string_view kAdminServices[] = {"/plimsoll.v1.AdminService/",
                                                "/plimsoll.v1.PlannerService/"};

constexpr NamedRole kRoles[] = {{"viewer", Role::kViewer},
                                {"user", Role::kUser},
                                {"worker", Role::kWorker},
                                {"admin", Role::kAdmin}};

constexpr MethodRule kMethods[] = {
    {"/grpc.health.v1.Health/Check", std::nullopt},
    {"/grpc.health.v1.Health/Watch", std::nullopt},
    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
     Role::kViewer},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
     Role::kViewer},

    {"/plimsoll.v1.AdminService/GetLoad", Role::kViewer},
    {"/plimsoll.v1.AdminService/Drain", Role::kAdmin},
    {"/plimsoll.v1.AdminService/Abort", Role::kAdmin},

    {"/plimsoll.v1.GenerationService/Generate", Role::kUser},
    {"/plimsoll.v1.GenerationService/StreamGenerate", Role::kUser},
    {"/plimsoll.v1.GenerationService/Score", Role::kUser},

    {"/plimsoll.v1.ModelService/LoadModel", Role::kAdmin},
    {"/plimsoll.v1.ModelService/UnloadModel", Role::kAdmin},
    {"/plimsoll.v1.ModelService/ListModels", Role::kViewer},
    {"/plimsoll.v1.ModelService/GetMemory", Role::kViewer},

    {"/plimsoll.v1.PlannerService/DescribeModel", Role::kUser},
    {"/plimsoll.v1.PlannerService/Plan", Role::kUser},
    {"/plimsoll.v1.PlannerService/PlanSet", Role::kUser},
    {"/plimsoll.v1.PlannerService/PlanSplit", Role::kUser},
    {"/plimsoll.v1.PlannerService/Reserve", Role::kWorker},
    {"/plimsoll.v1.PlannerService/Confirm", Role::kWorker},
    {"/plimsoll.v1.PlannerService/Renew", Role::kWorker},
    {"/plimsoll.v1.PlannerService/Release", Role::kWorker},
    {"/plimsoll.v1.PlannerService/ForceRelease", Role::kAdmin},
    {"/plimsoll.v1.PlannerService/RegisterDevice", Role::kWorker},
    {"/plimsoll.v1.PlannerService/ListDevices", Role::kViewer},
    {"/plimsoll.v1.PlannerService/WatchDevices", Role::kViewer},
    {"/plimsoll.v1.PlannerService/ListLeases", Role::kViewer},
    {"/plimsoll.v1.PlannerService/BatchPlan", Role::kUser},
    {"/plimsoll.v1.PlannerService/WhatIf", Role::kUser},
    {"/plimsoll.v1.PlannerService/PlaceModels", Role::kUser},
    {"/plimsoll.v1.PlannerService/ListCatalogue", Role::kViewer},
    {"/plimsoll.v1.PlannerService/FindDevices", Role::kUser},
    {"/plimsoll.v1.PlannerService/GetBounds", Role::kUser},

    {"/plimsoll.v1.SessionService/OpenSession", Role::kUser},
    {"/plimsoll.v1.SessionService/Chat", Role::kUser},
    {"/plimsoll.v1.SessionService/GetSession", Role::kUser},
    {"/plimsoll.v1.SessionService/ListSessions", Role::kUser},
    {"/plimsoll.v1.SessionService/CloseSession", Role::kUser},

    {"/plimsoll.v1.TokenizerService/Tokenize", Role::kUser},
    {"/plimsoll.v1.TokenizerService/Detokenize", Role::kUser},
    {"/plimsoll.v1.TokenizerService/CountTokens", Role::kUser},
    {"/plimsoll.v1.TokenizerService/ApplyChatTemplate", Role::kUser},
};

}  // namespace

const char* RoleName(Role role) {
  for (const NamedRole& named : kRoles) {
    if (named.role == role) return named.name.data();
  }
  return "";
}

std::optional<Role> FindRole(absl::string_view name) {
  for (const NamedRole& named : kRoles) {
    if (named.name == name) return named.role;
  }
  return std::nullopt;
}

const MethodRule* FindMethodRule(absl::string_view path) {
  const auto* const found = std::find_if(
      std::begin(kMethods), std::end(kMethods),
      [path](const MethodRule& rule) { return rule.path == path; });
  return found == std::end(kMethods) ? nullptr : found;
}

bool IsServed(MethodSet methods, absl::string_view path) {
  if (methods == MethodSet::kAll) return true;
  if (path.empty()) return false;  // it is not known what is called
  const MethodRule* rule = FindMethodRule(path);
  const bool is_change = rule != nullptr && rule->least >= Role::kWorker;
  if (methods == MethodSet::kOrdinary) return !is_change;
  const bool is_for_all = rule != nullptr && !rule->least.has_value();
  return is_change || is_for_all ||
         std::any_of(std::begin(kAdminServices), std::end(kAdminServices),
                     [path](absl::string_view service) {
                       return absl::StartsWith(path, service);
                     });
}

bool IsReflection(absl::string_view path) {
  return absl::StartsWith(path, "/grpc.reflection.");
}

}  // namespace plimsoll::services
