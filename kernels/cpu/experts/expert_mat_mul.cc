// Products of experts. The panels of all experts that have rows are one loop,
// so that each weight is read once for all rows of its expert and all threads
// have work, whatever the rows chose. An expert's rows are multiplied as any
// other product's rows are, with the same bits.
#include <algorithm>
#include <array>

#include "base/checked_math.h"
#include "kernels/cpu/experts/active_experts.h"
#include "kernels/cpu/experts/gather_rows.h"
#include "kernels/cpu/experts/sum_experts.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/row_groups.h"
#include "kernels/experts.h"
#include "kernels/quant/packed_row.h"

namespace plimsoll::kernels::cpu {
namespace {

// The rows of products, in the order of places.
struct Inputs {
  const float* x;
  const std::byte* packed;
};

MatMulArgs ProductOf(const ExpertMatrices& w, const ExpertGroup& group,
                     const Inputs& inputs, float* out) {
  MatMulArgs product = {.w = w.Of(group.expert),
                        .x = nullptr,
                        .packed = nullptr,
                        .out = out + group.begin * w.first.rows,
                        .n_rows = group.n_rows,
                        .accumulate = false};
  const int64_t cols = w.first.cols;
  if (inputs.x != nullptr) product.x = inputs.x + group.begin * cols;
  if (inputs.packed != nullptr) {
    product.packed = inputs.packed + group.begin * PackedRowBytes(cols);
  }
  return product;
}

// Calls multiply(group, first, end) until all panels of every expert's matrix,
// of `n_panels`, are multiplied; `first` is even.
template <class Multiply>
void ForAllPanels(const ActiveExperts& active, int64_t n_panels,
                  ThreadPool& pool, const Multiply& multiply) {
  const int64_t n_pairs = CeilDiv(n_panels, int64_t{2});
  const int64_t n = active.n() * n_pairs;
  // Long tasks read memory in long runs. On two threads, tasks of up to 16
  // pairs were 1.0 to 1.16 times as fast as tasks of up to 4.
  const int64_t grain = std::clamp<int64_t>(n / (pool.n_threads() * 8), 1, 16);
  pool.ParallelFor(n, grain, [&](int64_t begin, int64_t end, int) {
    while (begin < end) {
      const int64_t i = begin / n_pairs;
      const int64_t range_end = std::min(end, (i + 1) * n_pairs);
      multiply(active.Of(i), 2 * (begin - i * n_pairs),
               std::min(2 * (range_end - i * n_pairs), n_panels));
      begin = range_end;
    }
  });
}

class GatedProducts {
 public:
  GatedProducts(const GatedExpertMatMulArgs& args, ThreadPool& pool)
      : args_(args), pool_(pool), active_(args.rows) {
    // The only row, or the only expert's rows, are where the first group's rows
    // should be.
    reads_in_place_ = args.rows.n_rows == 1 || args.rows.n_experts == 1;
    const std::array alike = {Whole(args.gate), Whole(args.up)};
    are_alike_ = IsInteger(alike[0]) == IsInteger(alike[1]);
    fuses_ = args.packed_out != nullptr && !args.keeps_floats &&
             IsInteger(alike[0]) &&
             args.gate.first.dtype == args.up.first.dtype &&
             args.gate_bias == nullptr && args.up_bias == nullptr &&
             !args.weights_inputs;
    // Fused products write packed rows while others are read. These may lie in
    // the same place unless they were gathered; the outputs have room.
    packed_out_ = reads_in_place_ && HasFused()
                      ? reinterpret_cast<std::byte*>(args.out)
                      : args.packed_out;
  }

  const std::byte* Run() {
    if (are_alike_) {
      const Inputs inputs = Gathered(args_.gate);
      Multiply(inputs, {{{&args_.gate, args_.out}, {&args_.up, args_.up_out}}});
    } else {
      // One reads floats and the other one packed rows.
      Multiply(Gathered(args_.gate), {{{&args_.gate, args_.out}, {}}});
      Multiply(Gathered(args_.up), {{{&args_.up, args_.up_out}, {}}});
    }
    Activate();
    return packed_out_;
  }

 private:
  struct WantedProduct {
    const ExpertMatrices* w = nullptr;
    float* out = nullptr;
  };

  // A product by one of the experts, as far as its kind matters.
  MatMulArgs Whole(const ExpertMatrices& w) const {
    return {.w = w.first,
            .x = args_.x,
            .packed = args_.packed,
            .out = nullptr,
            .n_rows = 1,
            .accumulate = false};
  }

  bool IsFused(const ExpertGroup& group) const {
    return fuses_ && IsGrouped(group.n_rows);
  }
  bool HasFused() const {
    for (int64_t i = 0; i < active_.n(); ++i) {
      if (IsFused(active_.Of(i))) return true;
    }
    return false;
  }

  // The rows in the order of places, in the form that a product by `w` reads.
  Inputs Gathered(const ExpertMatrices& w) const {
    if (reads_in_place_) return {args_.x, args_.packed};
    const int64_t cols = w.first.cols;
    if (IsInteger(Whole(w))) {
      GatherPacked(args_.rows, active_,
                   {.from = args_.packed, .to = args_.gathered, .dim = cols},
                   pool_);
      return {nullptr, args_.gathered};
    }
    auto* const floats = reinterpret_cast<float*>(args_.gathered);
    GatherFloats(args_.rows, {.from = args_.x, .to = floats, .dim = cols},
                 pool_);
    return {floats, nullptr};
  }

  void Multiply(const Inputs& inputs,
                const std::array<WantedProduct, 2>& products) const {
    const auto multiply = [&](ExpertGroup group, int64_t first, int64_t end) {
      if (IsFused(group)) return MultiplyFused(group, inputs, first, end);
      for (const WantedProduct& one : products) {
        if (one.w == nullptr) continue;
        MatMulPanels(ProductAt(group, inputs, one), first, end);
      }
    };
    ForAllPanels(active_, Panels(args_.gate.first), pool_, multiply);
  }

  MatMulArgs ProductAt(const ExpertGroup& group, const Inputs& inputs,
                       const WantedProduct& of) const {
    MatMulArgs product = ProductOf(*of.w, group, inputs, of.out);
    if (reads_in_place_) {
      product.x = inputs.x;
      product.packed = inputs.packed;
    }
    return product;
  }

  void MultiplyFused(const ExpertGroup& group, const Inputs& inputs,
                     int64_t first, int64_t end) const {
    const int64_t outputs = args_.gate.first.rows;
    GatedMatMulMany({.gate = ProductAt(group, inputs, {&args_.gate, args_.out}),
                     .up = ProductAt(group, inputs, {&args_.up, args_.up_out}),
                     .activation = args_.activation},
                    packed_out_ + group.begin * PackedRowBytes(outputs), first,
                    end);
  }

  // Adds the expert's bias, if there are biases, to rows [first, end) of its
  // outputs.
  void AddBiasOf(const ExpertGroup& group, const float* biases, float* out,
                 int64_t first, int64_t end) const {
    if (biases == nullptr) return;
    const int64_t dim = args_.gate.first.rows;
    AddBias({.bias = biases + group.expert * dim,
             .x = out + group.begin * dim,
             .n_rows = group.n_rows,
             .dim = dim},
            first, end);
  }

  // Multiplies rows [first, end) of an expert's outputs by their weights.
  void MultiplyByWeights(const ExpertGroup& group, float* out, int64_t first,
                         int64_t end) const {
    const int64_t dim = args_.gate.first.rows;
    for (int64_t p = group.begin + first; p < group.begin + end; ++p) {
      const float weight = WeightAt(args_.rows, p);
      ScaleRows({out + p * dim, &weight, 1, dim}, 0, 1);
    }
  }

  // Activates the places of all experts that are not fused.
  void Activate() const {
    const int64_t dim = args_.gate.first.rows;
    const auto activate = [&](const ExpertGroup& group, int64_t first,
                              int64_t end) {
      if (IsFused(group)) return;
      if (args_.weights_inputs) {
        MultiplyByWeights(group, args_.out, first, end);
        MultiplyByWeights(group, args_.up_out, first, end);
      }
      AddBiasOf(group, args_.gate_bias, args_.out, first, end);
      AddBiasOf(group, args_.up_bias, args_.up_out, first, end);
      const int64_t at = group.begin * dim;
      GatedActivation(
          {.gate = args_.out + at,
           .up = args_.up_out + at,
           .out = args_.out + at,
           .n_rows = group.n_rows,
           .dim = dim,
           .activation = args_.activation,
           .packed = packed_out_ == nullptr
                         ? nullptr
                         : packed_out_ + group.begin * PackedRowBytes(dim)},
          first, end);
    };
    pool_.ParallelFor(args_.rows.NumPlaces(), RowGrain(dim),
                      [&](int64_t begin, int64_t end, int) {
                        active_.ForEachRange(begin, end, activate);
                      });
  }

  const GatedExpertMatMulArgs& args_;
  ThreadPool& pool_;
  const ActiveExperts active_;
  bool reads_in_place_;
  bool are_alike_;
  bool fuses_;
  std::byte* packed_out_;
};

}  // namespace

const std::byte* GatedExpertMatMul(const GatedExpertMatMulArgs& args,
                                   ThreadPool& pool) {
  if (args.rows.n_rows == 0) return args.packed_out;
  return GatedProducts(args, pool).Run();
}

void ExpertSumMatMul(const ExpertSumMatMulArgs& args, ThreadPool& pool) {
  const ActiveExperts active(args.rows);
  const Inputs inputs = {args.x, args.packed};
  ForAllPanels(active, Panels(args.w.first), pool,
               [&](const ExpertGroup& group, int64_t first, int64_t end) {
                 MatMulPanels(ProductOf(args.w, group, inputs, args.products),
                              first, end);
               });
  SumExperts(args, pool);
}

}  // namespace plimsoll::kernels::cpu
