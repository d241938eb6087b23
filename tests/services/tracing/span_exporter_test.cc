#include "services/tracing/span_exporter.h"

#include <gtest/gtest.h>

#include <cstddef>

#include "tests/services/tracing/collected_spans.h"

namespace plimsoll::services {
namespace {

void AddMany(SpanExporter& exporter, size_t n) {
  for (size_t i = 0; i < n; ++i) exporter.Add({});
}

TEST(SpanExporterTest, TheEndSendsWhatWaits) {
  CollectedSpans spans;
  {
    const auto exporter = NewExporter(spans);
    exporter->Add({.context = {}, .name = "first"});
    exporter->Add({.context = {}, .name = "second"});
  }
  const auto all = spans.All();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "first");
  EXPECT_EQ(all[1].name, "second");
}

TEST(SpanExporterTest, ABatchHasItsLimit) {
  CollectedSpans spans;
  spans.SetHeld(true);
  {
    const auto exporter = NewExporter(spans);
    exporter->Add({});
    spans.AwaitSend(1);
    AddMany(*exporter, SpanExporter::kMaxBatch + 1);
    spans.SetHeld(false);
  }
  absl::MutexLock lock(&spans.mu);
  ASSERT_EQ(spans.batches.size(), 3u);
  EXPECT_EQ(spans.batches[0].size(), 1u);
  EXPECT_EQ(spans.batches[1].size(), SpanExporter::kMaxBatch);
  EXPECT_EQ(spans.batches[2].size(), 1u);
}

TEST(SpanExporterTest, WhatFindsTheQueueFullIsDroppedAndCounted) {
  CollectedSpans spans;
  spans.SetHeld(true);
  const auto exporter = NewExporter(spans);
  exporter->Add({});
  spans.AwaitSend(1);  // from here on nothing leaves the queue
  AddMany(*exporter, SpanExporter::kMaxQueued);
  EXPECT_EQ(exporter->n_dropped(), 0);
  exporter->Add({});
  EXPECT_EQ(exporter->n_dropped(), 1);
  spans.SetHeld(false);
}

TEST(SpanExporterTest, ASendHasItsTime) {
  CollectedSpans spans;
  { NewExporter(spans)->Add({}); }
  absl::MutexLock lock(&spans.mu);
  EXPECT_EQ(spans.patience, SpanExporter::kMaxSend);
}

TEST(SpanExporterTest, ABatchThatIsRefusedIsDroppedAndCounted) {
  CollectedSpans spans;
  {
    absl::MutexLock lock(&spans.mu);
    spans.is_refused = true;
  }
  const auto exporter = NewExporter(spans);
  exporter->Add({});
  spans.AwaitSend(1);
  exporter->Add({});
  spans.AwaitSend(2);  // what became of the first one has been counted
  EXPECT_GE(exporter->n_dropped(), 1);
  EXPECT_EQ(exporter->n_sent(), 0);
}

TEST(SpanExporterTest, AReceiverThatHangsDoesNotKeepTheEnd) {
  CollectedSpans spans;
  spans.SetHeld(true);
  {
    const auto exporter = NewExporterWithFlush(absl::ZeroDuration(), spans);
    exporter->Add({});
    spans.AwaitSend(1);
    exporter->Add({});
  }
  EXPECT_TRUE(spans.All().empty());
}

}  // namespace
}  // namespace plimsoll::services
