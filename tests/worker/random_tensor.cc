#include "tests/worker/random_tensor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <map>

#include "absl/strings/match.h"
#include "kernels/quant/scale_offset.h"
#include "tests/worker/random_model.h"

namespace plimsoll::testing {
namespace {

// splitmix64's numbers after `seed`, little-endian.
Bytes RandomBytes(uint64_t seed, size_t n) {
  Bytes bytes;
  bytes.reserve(n + 8);
  while (bytes.size() < n) {
    seed += 0x9E3779B97F4A7C15;
    uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    z ^= z >> 31;
    for (int i = 0; i < 8; ++i) {
      bytes.push_back(static_cast<std::byte>(z >> 8 * i));
    }
  }
  bytes.resize(n);
  return bytes;
}

template <typename T>
T Load(const Bytes& bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// Weights of the matrix are about as large as 2^Gain.
int Gain(const Tensor& tensor) {
  const int scale = tensor.scale_exponent;
  if (tensor.name == "token_embd.weight" || tensor.name == "output.weight") {
    return scale - 5;
  }
  // Its input is divided by the model's width.
  if (absl::StrContains(tensor.name, "altup_router.")) return scale + 4;
  const int gain = scale - static_cast<int>(std::bit_width(tensor.cols)) / 2;
  const bool is_score = absl::StrContains(tensor.name, "attn_q.") ||
                        absl::StrContains(tensor.name, "attn_k.");
  return is_score ? gain + 1 : gain;
}

float VectorBase(const std::string& name) {
  if (absl::EndsWith(name, ".bias")) return 0.0f;
  if (name == "output_norm.weight" || name == "token_embd_norm.weight") {
    return 6.0f;
  }
  const bool is_head_norm = absl::StrContains(name, "_q_norm.") ||
                            absl::StrContains(name, "_k_norm.");
  return is_head_norm ? 1.75f : 1.0f;
}

// A number of [-1, 1) in steps of 2^-19, from 32 random bits.
double Unit(uint32_t bits) {
  return (static_cast<double>(bits >> 12) - 524'288.0) / 524'288.0;
}

// Sets the scale of a block of IQ1_M, whose parts are the highest four bits of
// its last four numbers of 16 bits.
void StoreIq1MScale(Bytes& bytes, size_t block, int scale) {
  for (size_t i = 0; i < 4; ++i) {
    std::byte& highest = bytes[block + 48 + 2 * i + 1];
    highest = (highest & std::byte{15}) |
              static_cast<std::byte>((scale >> 4 * i & 15) << 4);
  }
}

// Gives the scales of quantised blocks the exponents that make weights as large
// as 2^gain.
void ShapeBlocks(DType dtype, int gain, Bytes& bytes) {
  const std::map<DType, int> below = {
      {DType::kQ8_0, 6},   {DType::kQ4_0, 2},   {DType::kQ4_1, 2},
      {DType::kQ5_0, 3},   {DType::kQ5_1, 3},   {DType::kQ4_K, 8},
      {DType::kQ5_K, 9},   {DType::kQ6_K, 10},  {DType::kIq4Nl, 6},
      {DType::kIq4Xs, 10}, {DType::kQ3_K, 6},   {DType::kQ2_K, 5},
      {DType::kTq1_0, 0},  {DType::kTq2_0, 0},  {DType::kIq1S, 4},
      {DType::kIq1M, 4},   {DType::kIq2Xxs, 7}, {DType::kIq2Xs, 7},
      {DType::kIq2S, 7},   {DType::kIq3Xxs, 9}, {DType::kIq3S, 9}};
  const auto step = static_cast<size_t>(InfoOf(dtype).block_bytes);
  if (dtype == DType::kMxfp4) {
    for (size_t block = 0; block < bytes.size(); block += step) {
      bytes[block] = static_cast<std::byte>(127 + gain - 2);
    }
    return;
  }
  if (dtype == DType::kNvfp4) {
    const auto exponent = static_cast<std::byte>(std::max(5 + gain, 0) << 3);
    for (size_t block = 0; block < bytes.size(); block += step) {
      for (size_t i = 0; i < 4; ++i) {
        bytes[block + i] = (bytes[block + i] & std::byte{7}) | exponent;
      }
    }
    return;
  }
  const int exponent = 15 + gain - below.at(dtype);
  const auto at = static_cast<size_t>(kernels::ScaleOffset(dtype));
  for (size_t block = 0; block < bytes.size(); block += step) {
    const int random = Load<uint16_t>(bytes, block + at);
    const int d = (random & 0x03ff) | exponent << 10;
    if (dtype == DType::kIq1M) {
      StoreIq1MScale(bytes, block, d);
      continue;
    }
    Store(bytes, block + at, static_cast<uint16_t>(d));
    if (dtype == DType::kQ2_K) {
      // The offset is 1.5, half of the quants, or a little more.
      Store(bytes, block + 82, static_cast<uint16_t>(d + 0x0200));
      continue;
    }
    const bool is_k = dtype == DType::kQ4_K || dtype == DType::kQ5_K;
    const bool is_5 = dtype == DType::kQ5_1 || dtype == DType::kQ5_K;
    if (!is_k && dtype != DType::kQ4_1 && dtype != DType::kQ5_1) continue;
    const int half = is_5 ? 0x1000 : 0x0c00;  // the offset: half of the quants
    int m = (d + half) ^ (Load<uint16_t>(bytes, block + 2) & 0x3f);
    if (!is_k) m |= 0x8000;
    Store(bytes, block + 2, static_cast<uint16_t>(m));
  }
}

}  // namespace

Bytes TensorBytes(const std::string& model, const Tensor& tensor) {
  const DTypeInfo& info = InfoOf(tensor.dtype);
  const uint64_t n_blocks = tensor.cols /
                            static_cast<uint64_t>(info.block_elems) *
                            tensor.rows * tensor.n_matrices;
  const std::string key = model + "/" + tensor.name;
  Bytes bytes = RandomBytes(Fnv1a(key.data(), key.size()),
                            n_blocks * static_cast<uint64_t>(info.block_bytes));
  const int gain = Gain(tensor);
  if (tensor.dtype == DType::kF32) {
    for (size_t i = 0; i < n_blocks; ++i) {
      const double unit = Unit(Load<uint32_t>(bytes, 4 * i));
      double value = std::ldexp(unit, gain);
      if (tensor.rows == 1) {
        const float base =
            tensor.base > 0 ? tensor.base : VectorBase(tensor.name);
        value = static_cast<double>(base) + 0.25 * unit;
      }
      if (tensor.rows == 1 && tensor.scale_exponent != 0) {
        value = std::ldexp(1.0, tensor.scale_exponent);
      }
      if (absl::EndsWith(tensor.name, "ssm_a")) value = -0.5 + 0.25 * unit;
      if (tensor.name == "rope_freqs.weight") {
        value = 1.0 + static_cast<double>(i % 4);
      }
      Store(bytes, 4 * i, static_cast<float>(value));
    }
  } else if (tensor.dtype == DType::kF16 || tensor.dtype == DType::kBF16) {
    const bool is_half = tensor.dtype == DType::kF16;
    const int shift = is_half ? 10 : 7;
    for (size_t i = 0; i < n_blocks; ++i) {
      const int bits = Load<uint16_t>(bytes, 2 * i);
      const int exponent =
          (is_half ? 15 : 127) + gain - 3 + (bits >> shift & 3);
      Store(bytes, 2 * i,
            static_cast<uint16_t>((bits & (is_half ? 0x83ff : 0x807f)) |
                                  exponent << shift));
    }
  } else {
    ShapeBlocks(tensor.dtype, gain, bytes);
  }
  return bytes;
}

}  // namespace plimsoll::testing
