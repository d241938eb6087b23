#include "services/tracing/tracer.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "services/tracing/otlp_sender.h"

namespace plimsoll::services {
namespace {

std::atomic<Tracer*> active_tracer = nullptr;

thread_local std::optional<TraceContext> current_trace;

// Bytes of a trace id that are random in every sender of W3C's level 2.
constexpr size_t kRandomBytes = 7;

template <typename Id>
Id RandomBytes() {
  Id id = {};
  // All 0 is no id.
  while (id == Id{}) {
    PLIMSOLL_CHECK(getentropy(id.data(), id.size()) == 0,
                   "the system has no random numbers");
  }
  return id;
}

}  // namespace

bool IsSampled(const TraceId& id, double share) {
  uint64_t number = 0;
  for (size_t i = id.size() - kRandomBytes; i < id.size(); ++i) {
    number = number << 8 | id[i];
  }
  return number < static_cast<uint64_t>(std::ldexp(share, 8 * kRandomBytes));
}

absl::StatusOr<std::unique_ptr<Tracer>> Tracer::Start(
    const TracingOptions& options, const std::string& service) {
  if (options.endpoint.empty()) {
    if (options.ca_file.empty()) return nullptr;
    return absl::InvalidArgumentError(
        "--otlp-ca is for a collector; name it with --otlp-endpoint, or leave "
        "out --otlp-ca");
  }
  const auto endpoint = ParseOtlpEndpoint(options.endpoint);
  if (!endpoint.ok()) {
    // The flag was checked already, so it came from the variable.
    return absl::InvalidArgumentError(
        absl::StrCat("$", kOtlpVariable, " ", endpoint.status().message()));
  }
  ASSIGN_OR_RETURN(auto sender,
                   NewOtlpSender(*endpoint, options.ca_file, service));
  ASSIGN_OR_RETURN(auto exporter, SpanExporter::Start(std::move(sender), {}));
  return std::make_unique<Tracer>(std::move(exporter), options.share);
}

Tracer::Tracer(std::unique_ptr<SpanExporter> exporter, double share)
    : exporter_(std::move(exporter)), share_(share) {
  PLIMSOLL_CHECK(active_tracer.exchange(this) == nullptr,
                 "a process has one tracer");
}

Tracer::~Tracer() { active_tracer = nullptr; }

Tracer* Tracer::Active() { return active_tracer; }

TraceContext Tracer::NewContext(
    const std::optional<TraceContext>& parent) const {
  TraceContext context;
  if (parent.has_value()) {
    context = *parent;
  } else {
    context.trace_id = RandomBytes<TraceId>();
    context.is_sampled = IsSampled(context.trace_id, share_);
  }
  context.span_id = RandomBytes<SpanId>();
  return context;
}

OpenSpan::OpenSpan(const std::string& name, SpanKind kind,
                   const std::optional<TraceContext>& parent)
    : context_(parent) {
  const Tracer* const tracer = Tracer::Active();
  if (tracer == nullptr) return;
  context_ = tracer->NewContext(parent);
  if (!context_->is_sampled) return;
  span_ = {.context = *context_, .name = name, .kind = kind};
  if (parent.has_value()) span_->parent_id = parent->span_id;
  span_->begin = absl::Now();
}

void OpenSpan::SetName(std::string name) {
  if (is_recorded()) span_->name = std::move(name);
}

void OpenSpan::Set(const std::string& key, SpanValue value) {
  if (is_recorded()) span_->attributes.emplace_back(key, std::move(value));
}

void OpenSpan::AddChild(const std::string& name, absl::Time begin,
                        absl::Time end) {
  Tracer* const tracer = Tracer::Active();
  if (!is_recorded() || tracer == nullptr) return;
  tracer->Record({.context = tracer->NewContext(context_),
                  .parent_id = context_->span_id,
                  .name = name,
                  .begin = begin,
                  .end = end});
}

void OpenSpan::End(absl::StatusCode code) {
  std::optional<Span> span = std::exchange(span_, std::nullopt);
  Tracer* const tracer = Tracer::Active();
  if (!span.has_value() || tracer == nullptr) return;
  // The clock of the system may have been set back.
  span->end = std::max(span->begin, absl::Now());
  span->code = code;
  tracer->Record(*std::move(span));
}

CurrentTrace::CurrentTrace(std::optional<TraceContext> context)
    : outer_(std::exchange(current_trace, std::move(context))) {}

CurrentTrace::~CurrentTrace() { current_trace = std::move(outer_); }

const std::optional<TraceContext>& CurrentTrace::Get() { return current_trace; }

}  // namespace plimsoll::services
