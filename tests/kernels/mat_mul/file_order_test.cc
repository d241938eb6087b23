// Weights in the file's order have the bits of packed ones, in every operation
// that reads weights, and nothing is read behind them.
#include <sys/mman.h>
#include <unistd.h>

#include <array>

#include "kernels/cpu/pack_weights.h"
#include "kernels/experts.h"
#include "tests/kernels/backend_fixture.h"
#include "tests/kernels/mat_mul/products.h"

namespace plimsoll::kernels {
namespace {

// A copy of bytes that ends where a page begins that nobody may read.
class GuardedBytes {
 public:
  explicit GuardedBytes(const std::vector<std::byte>& bytes) {
    const auto page = static_cast<size_t>(getpagesize());
    const size_t readable = (bytes.size() + page - 1) / page * page;
    size_ = readable + page;
    pages_ =
        static_cast<std::byte*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(pages_, MAP_FAILED);
    data_ = pages_ + readable - bytes.size();
    std::memcpy(data_, bytes.data(), bytes.size());
    EXPECT_EQ(mprotect(pages_ + readable, page, PROT_NONE), 0);
  }
  ~GuardedBytes() { munmap(pages_, size_); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  const std::byte* data() const { return data_; }

 private:
  std::byte* pages_;
  size_t size_;
  std::byte* data_;
};

// A matrix in the file's order and as the backend packs it.
class BothOrders {
 public:
  BothOrders(Backend& backend, DType dtype, int64_t rows, int64_t cols,
             RandomData& random)
      : BothOrders(backend, dtype, rows, cols,
                   random.Weights(dtype, rows, cols)) {}

  const WeightMatrix& packed() const { return stored_.view; }
  WeightMatrix in_file() const {
    WeightMatrix w = stored_.view;
    w.data = file_.data();
    w.order = WeightOrder::kFile;
    return w;
  }

 private:
  BothOrders(Backend& backend, DType dtype, int64_t rows, int64_t cols,
             const std::vector<std::byte>& bytes)
      : file_(bytes), stored_(Store(backend, dtype, rows, cols, bytes)) {}

  const GuardedBytes file_;
  const StoredMatrix stored_;
};

// Columns of a matrix: one part of a panel, several, and a last one that is not
// whole.
std::vector<int64_t> Widths(DType dtype) {
  const int64_t block = InfoOf(dtype).block_elems;
  if (block == 1) return {29, 256, 300};
  if (block == 256) return {256, 3 * 256};
  return {block, 256, 10 * block};
}

class FileOrderTest : public BackendTest {
 protected:
  void SetUp() override {
    BackendTest::SetUp();
    if (IsCuda(GetParam())) GTEST_SKIP() << "the host alone maps files";
  }
};

TEST_P(FileOrderTest, ProductsHaveTheBitsOfPackedOnes) {
  RandomData random(71);
  for (const DType dtype : WeightTypes()) {
    for (const int64_t cols : Widths(dtype)) {
      for (const int64_t outputs : {1, 16, 31, 49}) {
        const BothOrders w(backend(), dtype, outputs, cols, random);
        for (const int64_t n_rows : {1, 2, 3, 4, 5, 7, 13, 31, 70}) {
          const auto x = random.Floats(n_rows * cols);
          for (const bool is_packed : {false, true}) {
            if (is_packed && IsFloatType(dtype)) continue;
            ASSERT_EQ(
                Bits(Product(backend(), w.in_file(), x, n_rows, is_packed)),
                Bits(Product(backend(), w.packed(), x, n_rows, is_packed)))
                << DTypeName(dtype) << ", " << n_rows << " rows, " << outputs
                << " outputs, " << cols << " columns, " << is_packed;
          }
        }
      }
    }
  }
}

// Devices with memory of their own gather rows of a table that the host has.
class FileTableTest : public BackendTest {
 protected:
  // Rows of the table, scaled, alone and added to others.
  std::vector<uint32_t> Gather(const WeightMatrix& table,
                               const std::vector<int32_t>& tokens) {
    const auto n = static_cast<int64_t>(tokens.size());
    std::vector<float> out(static_cast<size_t>(n * table.cols));
    for (const bool accumulate : {false, true}) {
      EXPECT_TRUE(
          backend()
              .GetRows({table, tokens.data(), n, 1.5f, out.data(), accumulate})
              .ok());
    }
    EXPECT_TRUE(backend().Synchronize().ok());
    return Bits(out);
  }
};

TEST_P(FileTableTest, GatheredRowsHaveTheBitsOfPackedOnes) {
  RandomData random(72);
  for (const DType dtype : WeightTypes()) {
    for (const int64_t cols : Widths(dtype)) {
      const BothOrders w(backend(), dtype, 19, cols, random);
      const std::vector<int32_t> tokens = {18, 0, 15, 16, 3};
      ASSERT_EQ(Gather(w.in_file(), tokens), Gather(w.packed(), tokens))
          << DTypeName(dtype) << ", " << cols << " columns";
    }
  }
}

// More than a device takes at a time.
TEST_P(FileTableTest, ManyRowsAreThoseOfAPackedTable) {
  RandomData random(76);
  const BothOrders w(backend(), DType::kQ8_0, 40, 2'048, random);
  std::vector<int32_t> tokens(300);
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>(i * 7 % 40);
  }
  EXPECT_EQ(Gather(w.in_file(), tokens), Gather(w.packed(), tokens));
}

INSTANTIATE_TEST_SUITE_P(Backends, FileTableTest,
                         ::testing::ValuesIn(BackendNames()), BackendTestName);

TEST_P(FileOrderTest, GatedProductsHaveTheBitsOfPackedOnes) {
  constexpr int64_t kOutputs = 96;
  constexpr int64_t kCols = 512;
  RandomData random(73);
  for (const DType dtype : {DType::kQ4_0, DType::kQ8_0, DType::kQ6_K}) {
    const BothOrders gate(backend(), dtype, kOutputs, kCols, random);
    const BothOrders up(backend(), dtype, kOutputs, kCols, random);
    for (const int64_t n_rows : {1, 3, 40, 200}) {
      const auto x = random.Floats(n_rows * kCols);
      const auto gated = [&](const WeightMatrix& gate_w,
                             const WeightMatrix& up_w) {
        auto packed = Packed(backend(), x, n_rows, kCols);
        std::vector<float> outs[2];
        const auto product = [&](const WeightMatrix& w,
                                 std::vector<float>& out) {
          out.resize(static_cast<size_t>(n_rows * kOutputs));
          return MatMulArgs{w,          x.data(), packed.data(),
                            out.data(), n_rows,   false};
        };
        const auto at = backend().GatedMatMul({.gate = product(gate_w, outs[0]),
                                               .up = product(up_w, outs[1]),
                                               .activation = Activation::kSilu,
                                               .packed = packed.data(),
                                               .keeps_floats = false});
        EXPECT_TRUE(at.ok());
        return std::vector<std::byte>(*at,
                                      *at + n_rows * PackedRowBytes(kOutputs));
      };
      ASSERT_TRUE(gated(gate.in_file(), up.in_file()) ==
                  gated(gate.packed(), up.packed()))
          << DTypeName(dtype) << ", " << n_rows << " rows";
    }
  }
}

// A table of which the packed form is split: there, few outputs are computed.
TEST_P(FileOrderTest, TheLargestOutputsAreThoseOfAPackedTable) {
  constexpr int64_t kRows = cpu::kMinSplitRows;
  constexpr int64_t kCols = 64;
  constexpr int64_t kMost = 4;
  RandomData random(74);
  const BothOrders w(backend(), DType::kQ8_0, kRows, kCols, random);
  const auto x = random.Floats(kCols);
  const auto packed = Packed(backend(), x, 1, kCols);
  const std::array top = {TopOutputs{.k = kMost, .always = {}}};
  const auto largest = [&](const WeightMatrix& table) {
    std::vector<float> out(kRows);
    EXPECT_TRUE(backend()
                    .MatMul({.w = table,
                             .x = x.data(),
                             .packed = packed.data(),
                             .out = out.data(),
                             .n_rows = 1,
                             .accumulate = false,
                             .top = top})
                    .ok());
    std::vector<float> values(kMost);
    std::vector<int32_t> ids(kMost);
    double log_sum_exp;
    EXPECT_TRUE(backend()
                    .TopK({out.data(), 1, kRows, kMost, values.data(),
                           ids.data(), &log_sum_exp})
                    .ok());
    return std::pair(Bits(values), ids);
  };
  EXPECT_EQ(largest(w.in_file()), largest(w.packed()));
}

// Matrices of experts as a file has them: gate and up of an expert lie in one
// tensor, one behind the other.
class FileExperts {
 public:
  static constexpr int64_t kExperts = 3;
  static constexpr int64_t kFfn = 48;
  static constexpr int64_t kDim = 256;

  FileExperts(Backend& backend, DType dtype, RandomData& random)
      : backend_(backend),
        bytes_(random.Weights(dtype, kExperts * 2 * kFfn, kDim)),
        file_(bytes_),
        matrix_bytes_(kFfn * *RowBytes(dtype, kDim)) {
    for (int64_t i = 0; i < 2 * kExperts; ++i) {
      const auto first = bytes_.begin() + i * matrix_bytes_;
      stored_.push_back(
          Store(backend, dtype, kFfn, kDim, {first, first + matrix_bytes_}));
    }
  }

  // The gated outputs of `n_rows` rows of x, each of which has two experts. An
  // expert's matrices are those of `of`.
  template <class Of>
  std::vector<uint32_t> Run(const std::vector<float>& x, int64_t n_rows,
                            const Of& of) {
    constexpr int64_t kUsed = 2;
    std::vector<std::byte> routed(
        static_cast<size_t>(ExpertRowsBytes(n_rows, kExperts, kUsed)));
    const ExpertRows rows =
        ExpertRowsAt(routed.data(), n_rows, kExperts, kUsed);
    EXPECT_TRUE(backend_.RouteExperts({.logits = x.data(), .to = rows}).ok());
    const auto packed = Packed(backend_, x, n_rows, kDim);
    const auto places = static_cast<size_t>(rows.NumPlaces());
    std::vector<float> gathered(places * kDim), up(places * kFfn);
    std::vector<float> out(places * kFfn);
    EXPECT_TRUE(
        backend_
            .GatedExpertMatMul(
                {.rows = rows,
                 .gate = of(0),
                 .up = of(1),
                 .x = x.data(),
                 .packed = packed.data(),
                 .activation = Activation::kSilu,
                 .gathered = reinterpret_cast<std::byte*>(gathered.data()),
                 .out = out.data(),
                 .up_out = up.data()})
            .ok());
    return Bits(out);
  }

  ExpertMatrices InFile(int64_t part) const {
    ExpertMatrices experts = {stored_[0].view, 2 * matrix_bytes_};
    experts.first.data = file_.data() + part * matrix_bytes_;
    experts.first.order = WeightOrder::kFile;
    return experts;
  }
  // Copies the packed matrices to where they lie one behind the other.
  ExpertMatrices PackedAt(int64_t part, std::vector<std::byte>& all) const {
    const int64_t bytes = stored_[0].buffer.bytes();
    all.resize(static_cast<size_t>(kExperts * bytes));
    for (int64_t e = 0; e < kExperts; ++e) {
      std::memcpy(all.data() + e * bytes,
                  stored_[static_cast<size_t>(2 * e + part)].buffer.data(),
                  static_cast<size_t>(bytes));
    }
    ExpertMatrices experts = {stored_[0].view, bytes};
    experts.first.data = all.data();
    return experts;
  }

 private:
  Backend& backend_;
  const std::vector<std::byte> bytes_;
  const GuardedBytes file_;
  const int64_t matrix_bytes_;
  std::vector<StoredMatrix> stored_;  // gate and up of each expert
};

TEST_P(FileOrderTest, ExpertsHaveTheBitsOfPackedOnes) {
  RandomData random(75);
  for (const DType dtype : WeightTypes()) {
    if (IsFloatType(dtype)) continue;
    FileExperts experts(backend(), dtype, random);
    std::vector<std::byte> gate, up;
    for (const int64_t n_rows : {1, 5, 60}) {
      const auto x = random.Floats(n_rows * FileExperts::kDim);
      ASSERT_EQ(experts.Run(x, n_rows,
                            [&](int64_t part) { return experts.InFile(part); }),
                experts.Run(x, n_rows,
                            [&](int64_t part) {
                              return experts.PackedAt(part,
                                                      part == 0 ? gate : up);
                            }))
          << DTypeName(dtype) << ", " << n_rows << " rows";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, FileOrderTest,
                         ::testing::ValuesIn(BackendNames()), BackendTestName);

}  // namespace
}  // namespace plimsoll::kernels
