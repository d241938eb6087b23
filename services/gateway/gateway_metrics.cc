#include "services/gateway/gateway_metrics.h"

#include "services/metrics/auth_metric.h"
#include "services/metrics/gateway_metric_list.h"
#include "services/metrics/scrape.h"
#include "services/metrics/span_metric.h"

namespace plimsoll::services {

std::string GatewayMetricsText(const WorkerBook& book,
                               const GatewayCounts& counts, bool is_ready,
                               const AuthFailureCounts& failures) {
  Scrape scrape(GatewayMetricList());
  scrape.Add(kGatewayReady, {}, is_ready ? 1.0 : 0.0);
  scrape.Add(kGatewayReplies, {{"result", "ok"}}, counts.n_ok.load());
  scrape.Add(kGatewayReplies, {{"result", "failed"}}, counts.n_failed.load());
  scrape.Add(kGatewayReplies, {{"result", "left"}}, counts.n_left.load());
  scrape.Add(kGatewayRetries, {}, counts.n_retries.load());
  scrape.Add(kGatewayBroken, {}, counts.n_broken.load());
  scrape.Add(kGatewayGivenWay, {}, book.n_given_way());
  for (const auto& [id, worker] : book.workers()) {
    const Scrape::Label label = {"worker", id};
    scrape.Add(kGatewayWorkerReady, {label}, worker.facts.is_ready ? 1.0 : 0.0);
    scrape.Add(kGatewayWorkerInFlight, {label}, worker.in_flight);
    scrape.Add(kGatewayWorkerInFlightBytes, {label}, worker.in_flight_bytes);
    scrape.Add(kGatewayWorkerRequests, {label}, worker.n_requests);
    scrape.Add(kGatewayWorkerGone, {label}, worker.n_gone);
  }
  AddAuthFailures(failures, scrape);
  AddSpans(scrape);
  return scrape.Text();
}

}  // namespace plimsoll::services
