#include "services/host/request_scope.h"

#include <utility>

namespace plimsoll::services {
namespace {

thread_local std::string current_id;

}  // namespace

RequestScope::RequestScope(std::string id)
    : outer_(std::exchange(current_id, std::move(id))) {}

RequestScope::~RequestScope() { current_id = std::move(outer_); }

const std::string& RequestScope::Id() { return current_id; }

}  // namespace plimsoll::services
