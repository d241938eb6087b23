#include "services/gateway/worker_set.h"

#include <google/protobuf/empty.pb.h>
#include <google/protobuf/wrappers.pb.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/blocking_counter.h"
#include "base/status_macros.h"
#include "base/sync/fault.h"
#include "plimsoll/v1/model.grpc.pb.h"
#include "services/host/clock.h"
#include "services/host/log.h"
#include "services/server/access/listen_address.h"
#include "services/server/server.h"
#include "services/wire/broken_connection.h"
#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

constexpr char kHealthMethod[] = "/grpc.health.v1.Health/Check";
constexpr int kServing = 1;  // HealthCheckResponse.ServingStatus
constexpr absl::Duration kFirstAnswerRetry = absl::Seconds(1);

ModelState StateOf(v1::ModelState state) {
  switch (state) {
    case v1::MODEL_STATE_RESERVING:
      return ModelState::kReserving;
    case v1::MODEL_STATE_LOADING:
      return ModelState::kLoading;
    case v1::MODEL_STATE_READY:
      return ModelState::kReady;
    case v1::MODEL_STATE_DRAINING:
      return ModelState::kDraining;
    default:
      return ModelState::kAbsent;
  }
}

ModelInfo InfoOf(const v1::Model& model) {
  ModelInfo info;
  info.name = model.name();
  info.state = StateOf(model.state());
  info.last_error = model.last_error();
  if (info.state != ModelState::kReady) return info;
  ReadyModel& ready = info.ready.emplace();
  ready.architecture = model.architecture();
  ready.display_name = model.display_name();
  ready.n_ctx = model.n_ctx();
  ready.n_ctx_train = model.n_ctx_train();
  ready.chat_format = model.chat_format();
  ModelPart part;
  part.device_id = model.device_id();
  part.total_bytes = static_cast<int64_t>(model.total_bytes());
  ready.parts.push_back(std::move(part));
  ready.load.n_slots = model.n_slots();
  ready.load.running = model.running();
  ready.load.waiting = model.waiting();
  ready.load.generated_tokens = static_cast<int64_t>(model.generated_tokens());
  return info;
}

// Adds what another worker says of a model.
void Merge(const ModelInfo& info, ModelInfo& into) {
  if (!info.ready.has_value()) return;
  if (!into.ready.has_value()) {
    into = info;
    return;
  }
  ReadyModel& sum = *into.ready;
  sum.n_ctx = std::min(sum.n_ctx, info.ready->n_ctx);
  sum.load.n_slots += info.ready->load.n_slots;
  sum.load.running += info.ready->load.running;
  sum.load.waiting += info.ready->load.waiting;
  sum.load.generated_tokens += info.ready->load.generated_tokens;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> LookUpAll(const std::string& name) {
  ASSIGN_OR_RETURN(const ListenAddress address, ParseListen(name, "--workers"));
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  int error = EAI_AGAIN;
  if (!PLIMSOLL_FAULT("gateway.lookup")) {
    error =
        getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &list);
  }
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat(name, " has no address: ", gai_strerror(error)));
  }
  std::set<std::string> found;
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    char host[NI_MAXHOST] = {};
    if (getnameinfo(one->ai_addr, one->ai_addrlen, host, sizeof(host), nullptr,
                    0, NI_NUMERICHOST) != 0) {
      continue;
    }
    int port = 0;
    if (absl::SimpleAtoi(address.port, &port)) {
      found.insert(JoinListen(host, port));
    }
  }
  freeaddrinfo(list);
  return std::vector<std::string>(found.begin(), found.end());
}

// A question to one worker: whether it is ready, and then for its models.
struct WorkerSet::Poll {
  // HealthCheckRequest without a service has no bytes, and HealthCheckResponse
  // has the status as its first field, as Int32Value has its value.
  using Health = grpc::TemplatedGenericStub<google::protobuf::Empty,
                                            google::protobuf::Int32Value>;

  Poll(WorkerSet& to, std::shared_ptr<WorkerLink> of,
       absl::BlockingCounter& counter)
      : set(to),
        link(std::move(of)),
        left(counter),
        health(link->own_channel()),
        models(v1::ModelService::NewStub(link->own_channel())) {
    const auto deadline = std::chrono::system_clock::now() +
                          absl::ToChronoMilliseconds(kAnswerTime);
    for (grpc::ClientContext* context : {&health_context, &models_context}) {
      context->set_deadline(deadline);
    }
  }

  void Start() {
    health.UnaryCall(&health_context, kHealthMethod, {}, &nothing, &is_serving,
                     [this](const grpc::Status& status) { OnHealth(status); });
  }
  void OnHealth(grpc::Status status) {
    if (PLIMSOLL_FAULT("gateway.poll")) status = BrokenConnection();
    if (!status.ok()) return End(FromGrpc(status));
    if (is_serving.value() != kServing) {
      return End(absl::UnavailableError("it is not ready"));
    }
    models->async()->ListModels(
        &models_context, &request, &response,
        [this](const grpc::Status& listed) { End(FromGrpc(listed)); });
  }
  void End(const absl::Status& status) {
    set.OnAnswer(link->id(), status, response);
    left.DecrementCount();  // last: it may free this
  }

  WorkerSet& set;
  const std::shared_ptr<WorkerLink> link;
  absl::BlockingCounter& left;
  Health health;
  const std::unique_ptr<v1::ModelService::Stub> models;
  grpc::ClientContext health_context;
  grpc::ClientContext models_context;
  google::protobuf::Empty nothing;
  google::protobuf::Int32Value is_serving;
  v1::ListModelsRequest request;
  v1::ListModelsResponse response;
};

WorkerSet::WorkerSet(WorkerSetOptions options) : options_(std::move(options)) {
  SetAddresses({});
  // If there is no second thread, the first one ends.
  absl::Cleanup stop = [this] { Stop(); };
  if (!options_.name.empty()) lookup_ = Background([this] { LookUp(); });
  watch_ = Background([this] { Watch(); });
  std::move(stop).Cancel();
}

WorkerSet::~WorkerSet() { Stop(); }

void WorkerSet::Stop() {
  {
    SteadyMutexLock lock(&mu_);
    is_stopping_ = true;
  }
  lookup_.Join();
  watch_.Join();
}

bool WorkerSet::Sleep(absl::Duration time) {
  SteadyMutexLock lock(&mu_);
  return !mu_.AwaitFor(absl::Condition(&is_stopping_), time);
}

void WorkerSet::LookUp() {
  bool was_found = true;
  do {
    const auto found = LookUpAll(options_.name);
    if (found.ok()) SetAddresses(*found);
    if (!found.ok() && was_found) {
      Log(LogLevel::kWarning, "the workers' name was not found",
          {{"error", std::string(found.status().message())}});
    }
    was_found = found.ok();
  } while (Sleep(kLookupInterval));
}

void WorkerSet::SetAddresses(const std::vector<std::string>& found) {
  std::vector<std::string> ids = options_.workers;
  ids.insert(ids.end(), found.begin(), found.end());
  if (ids.size() > WorkerBook::kMaxWorkers) ids.resize(WorkerBook::kMaxWorkers);
  std::string tls_name;
  if (!options_.name.empty()) {
    const auto address = ParseListen(options_.name);
    if (address.ok()) tls_name = address->host;
  }
  SteadyMutexLock lock(&mu_);
  std::map<std::string, Known> known;
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::string& id = ids[i];
    const auto old = known_.find(id);
    if (old != known_.end()) {
      known[id] = std::move(old->second);
      known_.erase(old);
    } else if (known.count(id) == 0) {
      Log(LogLevel::kInfo, "a worker is watched", {{"worker", id}});
      known[id].link = std::make_shared<WorkerLink>(
          id, options_.security, i < options_.workers.size() ? "" : tls_name);
    }
  }
  for (const auto& [id, gone] : known_) {
    Log(LogLevel::kInfo, "a worker has left", {{"worker", id}});
  }
  known_ = std::move(known);
  book_.SetWorkers(ids);
}

void WorkerSet::Watch() {
  do {
    AskAll();
  } while (Sleep(kInterval));
}

void WorkerSet::AskAll() {
  std::vector<std::shared_ptr<WorkerLink>> links;
  {
    SteadyMutexLock lock(&mu_);
    links.reserve(known_.size());
    for (const auto& [id, known] : known_) links.push_back(known.link);
  }
  absl::BlockingCounter left(static_cast<int>(links.size()));
  std::vector<std::unique_ptr<Poll>> polls;
  polls.reserve(links.size());
  for (auto& link : links) {
    polls.push_back(std::make_unique<Poll>(*this, std::move(link), left));
    polls.back()->Start();
  }
  left.Wait();
}

void WorkerSet::OnAnswer(const std::string& id, const absl::Status& status,
                         const v1::ListModelsResponse& response) {
  SteadyMutexLock lock(&mu_);
  const auto found = known_.find(id);
  if (found == known_.end()) return;
  WorkerBook::Facts facts;
  facts.is_ready = status.ok();
  std::vector<ModelInfo>& models = found->second.models;
  const bool was_ready = book_.workers().at(id).facts.is_ready;
  if (status.ok()) models.clear();
  models.reserve(models.size() + static_cast<size_t>(response.models_size()));
  for (const v1::Model& model : response.models()) {
    models.push_back(InfoOf(model));
  }
  for (const ModelInfo& model : models) {
    facts.models.insert(model.name);
    if (model.ready.has_value()) facts.loaded.insert(model.name);
  }
  book_.SetFacts(id, std::move(facts));
  if (was_ready == status.ok()) return;
  if (status.ok()) {
    Log(LogLevel::kInfo, "a worker is ready", {{"worker", id}});
  } else {
    Log(LogLevel::kWarning, "a worker is not ready",
        {{"worker", id}, {"error", std::string(status.message())}});
  }
}

absl::StatusOr<std::unique_ptr<WorkerSet::Place>> WorkerSet::Enter(
    const WorkerWish& wish) {
  // Nothing that needs memory may follow once the request counts.
  auto place = std::make_unique<Place>(*this, wish.bytes);
  SteadyMutexLock lock(&mu_);
  ASSIGN_OR_RETURN(const std::string id, book_.Enter(wish, BootTime()));
  place->Begin(known_.at(id).link);
  return place;
}

void WorkerSet::Release(const std::string& id, int64_t bytes, WorkerEnd end) {
  SteadyMutexLock lock(&mu_);
  book_.Release(id, bytes, end, BootTime());
}

std::vector<ModelInfo> WorkerSet::Models() {
  std::map<std::string, ModelInfo> models;
  SteadyMutexLock lock(&mu_);
  for (const auto& [id, known] : known_) {
    const bool is_ready = book_.workers().at(id).facts.is_ready;
    for (ModelInfo info : known.models) {
      if (!is_ready) {
        info.state = ModelState::kAbsent;
        info.ready.reset();
      }
      const auto [at, is_new] = models.try_emplace(info.name, info);
      if (!is_new) Merge(info, at->second);
    }
  }
  std::vector<ModelInfo> list;
  list.reserve(models.size());
  for (auto& [name, info] : models) list.push_back(std::move(info));
  return list;
}

absl::StatusOr<ModelInfo> WorkerSet::FindModel(const std::string& name) {
  std::vector<ModelInfo> models = Models();
  if (models.empty()) {
    return WithDetails(
        absl::UnavailableError("no worker has answered yet"),
        {v1::ERROR_REASON_MODEL_NOT_READY, {}, kFirstAnswerRetry});
  }
  if (name.empty() && models.size() == 1) return std::move(models.front());
  if (name.empty()) {
    return absl::InvalidArgumentError(
        "model must be named: the workers have several");
  }
  for (ModelInfo& model : models) {
    if (model.name == name) return std::move(model);
  }
  const std::string names =
      absl::StrJoin(models, ", ", [](std::string* out, const ModelInfo& model) {
        out->append(model.name);
      });
  return WithDetails(
      absl::NotFoundError(
          absl::StrCat("no such model; the workers have: ", names)),
      {v1::ERROR_REASON_MODEL_NOT_FOUND, {{"model", name}}, std::nullopt});
}

WorkerBook WorkerSet::Book() {
  SteadyMutexLock lock(&mu_);
  return book_;
}

bool WorkerSet::has_ready() {
  SteadyMutexLock lock(&mu_);
  return book_.has_ready();
}

}  // namespace plimsoll::services
