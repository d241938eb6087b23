// A decode step of a 12B model's shape on the CUDA backend, for cuda_bench:
// what a model's graph calls for each layer, with random weights.
#ifndef PLIMSOLL_BENCH_CUDA_STEP_H_
#define PLIMSOLL_BENCH_CUDA_STEP_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "bench/decode_ops.h"
#include "kernels/backend.h"

namespace plimsoll::kernels {

struct StepShape {
  DType dtype;  // the weights' type
  int64_t n_layers;
  int64_t n_heads;
  int64_t n_kv_heads;
  int64_t head_dim;
  int64_t model_dim;
  int64_t ffn_dim;
  int64_t vocab_size;
};

// Owns weights of kLayers layers, which all layers take in turn, and a cache of
// `n_ctx` tokens for each of `n_rows` sequences. Called from one thread.
class DecodeStep {
 public:
  static constexpr int64_t kLayers = 6;  // more than caches hold

  DecodeStep(Backend& backend, const StepShape& shape, int64_t n_rows,
             int64_t n_ctx);

  // From now on steps run on another backend of the same device.
  void UseBackend(Backend& backend) { backend_ = &backend; }
  // Runs one step to its end; with `is_held`, as one piece.
  absl::Status Run(bool is_held);

  // Bytes of weights and of the cache that a step reads.
  int64_t bytes_read() const { return bytes_read_; }

 private:
  struct Layer {
    Buffer memory;
    WeightMatrix q, k, v, attention_out, gate, up, down;
  };

  int64_t q_dim() const { return shape_.n_heads * shape_.head_dim; }
  int64_t kv_dim() const { return shape_.n_kv_heads * shape_.head_dim; }

  // What the constructor makes: weights; pages of keys and values; which pages
  // and positions the sequences have; and the rows that operations write.
  void MakeWeights();
  void MakeCache();
  void MakeSequences();
  void MakeActivations();

  Buffer Memory(int64_t bytes);
  WeightMatrix Take(std::byte*& at, int64_t rows, int64_t cols) const;
  absl::Status Queue();
  absl::Status Attend(const Layer& layer, int64_t index);
  absl::Status FeedForward(const Layer& layer);
  MatMulArgs Product(const WeightMatrix& w, float* out, bool adds) const {
    return ops_.Product(w, out, n_rows_, adds);
  }

  Backend* backend_;
  StepShape shape_;
  int64_t n_rows_;
  int64_t n_ctx_;
  int64_t bytes_read_ = 0;
  std::vector<Layer> layers_;
  Buffer table_memory_;
  WeightMatrix table_;
  Buffer pool_;
  PagedKv kv_;
  std::vector<std::vector<PageEntry>> pages_;
  std::vector<AttentionSegment> segments_;
  std::vector<int32_t> tokens_;
  std::vector<int64_t> positions_;
  std::vector<int64_t> offsets_;
  std::vector<Buffer> floats_;
  float* gate_;
  float* up_;
  float* logits_;
  Buffer packed_;
  DecodeOps ops_;
};

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_BENCH_CUDA_STEP_H_
