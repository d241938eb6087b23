// Reference: lists a row's keys, then computes one softmax over them in double.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/status_macros.h"
#include "kernels/quant/dequantize.h"
#include "kernels/quant/kv_row.h"
#include "kernels/reference/ops.h"

namespace plimsoll::kernels::reference {
namespace {

struct Key {
  const std::byte* k;
  const std::byte* v;
  bool is_prefix;
};

// The first `n` elements of one head of a stored row.
std::vector<float> Head(const AttentionArgs& args, const std::byte* row,
                        DType dtype, int64_t kv_head, int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  const absl::Status status = DequantizeRow(
      dtype, row + KvBytes(dtype, kv_head * args.head_dim), n, values.data());
  PLIMSOLL_CHECK(status.ok(), "every KV type is a weight type");
  return values;
}

int64_t KvRowBytes(const AttentionArgs& args, DType dtype) {
  return KvBytes(dtype, args.n_kv_heads * args.head_dim);
}

void ListPagedKeys(const AttentionArgs& args, const AttentionSegment& segment,
                   int64_t position, std::vector<Key>& keys) {
  for (const PageEntry& page : segment.pages) {
    const std::byte* base = args.paged.pool + page.page * args.paged.page_bytes;
    for (int64_t c = page.live_begin; c < page.live_end; ++c) {
      if (page.first_position + c > position) break;
      keys.push_back(
          {base + args.paged.k_offset + c * KvRowBytes(args, args.k_type),
           base + args.paged.v_offset + c * KvRowBytes(args, args.v_type),
           page.is_prefix});
    }
  }
}

void ListRingKeys(const AttentionArgs& args, const AttentionSegment& segment,
                  int64_t position, std::vector<Key>& keys) {
  const int64_t k_bytes = KvRowBytes(args, args.k_type);
  const int64_t v_bytes = KvRowBytes(args, args.v_type);
  const int64_t window = segment.ring.window;
  const int64_t first =
      std::max({segment.live_begin, position - window + 1, int64_t{0}});
  for (int64_t p = first; p <= position; ++p) {
    if (p < segment.first_position) {
      keys.push_back({segment.ring.k + p % window * k_bytes,
                      segment.ring.v + p % window * v_bytes,
                      /*is_prefix=*/false});
    } else {
      const int64_t row = segment.first_row + p - segment.first_position;
      keys.push_back({args.chunk_k + row * k_bytes,
                      args.chunk_v + row * v_bytes, /*is_prefix=*/false});
    }
  }
}

void AttendHead(const AttentionArgs& args, const std::vector<Key>& keys,
                int64_t row, int64_t head) {
  const int64_t kv_head = head / (args.n_heads / args.n_kv_heads);
  const int64_t q_offset = (row * args.n_heads + head) * args.head_dim;
  float* const out = args.out + (row * args.n_heads + head) * args.ValueDim();
  std::vector<double> scores;
  double max = -HUGE_VAL;
  for (const Key& key : keys) {
    const float* q = (key.is_prefix ? args.q_prefix : args.q) + q_offset;
    double dot = 0;
    for (const float k :
         Head(args, key.k, args.k_type, kv_head, args.head_dim)) {
      dot += double{*q++} * k;
    }
    double score = dot * args.scale;
    if (args.soft_cap > 0) {
      score = args.soft_cap * std::tanh(score / args.soft_cap);
    }
    scores.push_back(score);
    max = std::max(max, score);
  }
  std::vector<double> sum(static_cast<size_t>(args.ValueDim()), 0.0);
  double total = 0;
  if (args.sinks != nullptr && !keys.empty()) {
    max = std::max<double>(max, args.sinks[head]);
    total = std::exp(args.sinks[head] - max);
  }
  for (size_t j = 0; j < keys.size(); ++j) {
    const double weight = std::exp(scores[j] - max);
    total += weight;
    const auto values =
        Head(args, keys[j].v, args.v_type, kv_head, args.ValueDim());
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += weight * values[i];
  }
  for (size_t i = 0; i < sum.size(); ++i) {
    out[i] = static_cast<float>(keys.empty() ? 0.0 : sum[i] / total);
  }
}

}  // namespace

void Attention(const AttentionArgs& args) {
  for (const AttentionSegment& segment : args.segments) {
    for (int64_t r = 0; r < segment.n_rows; ++r) {
      std::vector<Key> keys;
      if (args.is_ring) {
        ListRingKeys(args, segment, segment.first_position + r, keys);
      } else {
        ListPagedKeys(args, segment, segment.first_position + r, keys);
      }
      for (int64_t h = 0; h < args.n_heads; ++h) {
        AttendHead(args, keys, segment.first_row + r, h);
      }
    }
  }
}

}  // namespace plimsoll::kernels::reference
