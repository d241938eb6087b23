#include "kernels/quant/quantize_k.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/quant/float16.h"

namespace plimsoll::kernels {
namespace {

constexpr int kTries = 21;  // scales that are tried for a sub-block

// The nearest integer, ties to even, of a value below 2^22.
float Nearest(float value) {
  constexpr float kMagic = 12'582'912;  // 1.5 * 2^23, whose step is 1
  return (value + kMagic) - kMagic;
}

float Clamped(float value, float low, float high) {
  return std::min(std::max(value, low), high);
}

// value / step as one of the integers [low, high]; 0 if `step` is 0.
int Quotient(float value, float step, float low, float high) {
  if (step == 0) return 0;
  return static_cast<int>(Nearest(Clamped(value / step, low, high)));
}

// Stores `value` as a float16. Returns what it is worth there.
float StoreF16(float value, std::byte* out) {
  const uint16_t bits = F16FromF32(value);
  std::memcpy(out, &bits, sizeof(bits));
  return F32FromF16(bits);
}

// --- Q6_K: 16 sub-blocks of x ~ scale * q, q in [-32, 31]

constexpr int kSubs6 = 16;
constexpr int kSub6 = 16;  // elements of a sub-block

float Quant6(float x, float inverse) {
  return Clamped(Nearest(x * inverse), -32, 31);
}

// The scale of one sub-block with the least squared error among those tried.
float FitScale6(const float* x) {
  float extreme = 0;
  for (int e = 0; e < kSub6; ++e) {
    if (std::abs(x[e]) > std::abs(extreme)) extreme = x[e];
  }
  float best_scale = 0;
  float best_gain = 0;  // by which the squared error is below that of zeros
  for (int t = 0; t < kTries; ++t) {
    // The largest value becomes about -32, which has no positive counterpart.
    const float inverse = -(30 + 0.15f * static_cast<float>(t)) / extreme;
    if (!std::isfinite(inverse)) return 0;
    float sum_xq = 0;
    float sum_qq = 0;
    for (int e = 0; e < kSub6; ++e) {
      const float q = Quant6(x[e], inverse);
      sum_xq += x[e] * q;
      sum_qq += q * q;
    }
    const float scale = sum_xq / sum_qq;
    if (scale * sum_xq <= best_gain) continue;
    best_gain = scale * sum_xq;
    best_scale = scale;
  }
  return best_scale;
}

float Error6(const float* x, float scale) {
  const float inverse = scale != 0 ? 1 / scale : 0;
  float error = 0;
  for (int e = 0; e < kSub6; ++e) {
    const float rest = x[e] - scale * Quant6(x[e], inverse);
    error += rest * rest;
  }
  return error;
}

// The integer factor of `d`, near `wanted`, with the least squared error.
int BestFactor6(const float* x, float d, float wanted) {
  const int nearest = Quotient(wanted, d, -128, 127);
  int best = 0;
  float least = std::numeric_limits<float>::infinity();
  for (const int factor : {nearest, nearest - 1, nearest + 1}) {
    if (factor < -128 || factor > 127) continue;
    const float error = Error6(x, d * static_cast<float>(factor));
    if (error >= least) continue;
    least = error;
    best = factor;
  }
  return best;
}

// Puts a quant in [0, 64) into u8 ql[128] and u8 qh[64].
void Pack6(int e, unsigned quant, std::byte* block) {
  const int half = e / 128;
  const int group = e % 128 / 32;
  const int l = e % 32;
  block[64 * half + l + 32 * (group & 1)] |=
      static_cast<std::byte>((quant & 15u) << (group < 2 ? 0 : 4));
  block[128 + 32 * half + l] |=
      static_cast<std::byte>((quant >> 4) << (2 * group));
}

// --- Q4_K: 8 sub-blocks of x ~ scale * q - min, q in [0, 15], min >= 0

constexpr int kSubs4 = 8;
constexpr int kSub4 = 32;

float Quant4(float x, float min, float inverse) {
  return Clamped(Nearest((x + min) * inverse), 0, 15);
}

struct Line {
  float scale;
  float min;
};

float Error4(const float* x, const Line& line, float min, float inverse) {
  float error = 0;
  for (int e = 0; e < kSub4; ++e) {
    const float rest =
        x[e] + line.min - line.scale * Quant4(x[e], min, inverse);
    error += rest * rest;
  }
  return error;
}

// The line through the points (q, x) with the least squared error whose min is
// not negative.
Line Regression(const float* x, float min, float inverse) {
  float sum_q = 0;
  float sum_qq = 0;
  float sum_x = 0;
  float sum_xq = 0;
  for (int e = 0; e < kSub4; ++e) {
    const float q = Quant4(x[e], min, inverse);
    sum_q += q;
    sum_qq += q * q;
    sum_x += x[e];
    sum_xq += x[e] * q;
  }
  const float determinant = kSub4 * sum_qq - sum_q * sum_q;
  if (determinant > 0) {
    const Line line = {(kSub4 * sum_xq - sum_x * sum_q) / determinant,
                       (sum_q * sum_xq - sum_qq * sum_x) / determinant};
    if (line.min >= 0) return line;
  }
  return {sum_qq > 0 ? sum_xq / sum_qq : 0, 0};
}

// The line of one sub-block with the least squared error among those tried.
Line FitLine4(const float* x) {
  const float min = -std::min(*std::min_element(x, x + kSub4), 0.0f);
  const float range = *std::max_element(x, x + kSub4) + min;
  Line best = {0, min};
  float least = std::numeric_limits<float>::infinity();
  for (int t = 0; t < kTries; ++t) {
    const float inverse = (14 + 0.1f * static_cast<float>(t)) / range;
    if (range <= 0 || !std::isfinite(inverse)) break;
    const Line line = Regression(x, min, inverse);
    const float error = Error4(x, line, min, inverse);
    if (error >= least) continue;
    least = error;
    best = line;
  }
  return {std::max(best.scale, 0.0f), best.min};
}

struct Factors {
  int scale;
  int min;
};

float Inverse4(float scale) { return scale > 0 ? 1 / scale : 0; }

// How far from the wanted factors others are tried. A wider search takes twice
// the time for 2 % less error.
constexpr int kNearScales = 2;
constexpr int kNearMins = 4;

// The integer factors of `d` and `dmin`, near the wanted line, with the least
// squared error.
Factors BestFactors4(const float* x, float d, float dmin, const Line& wanted) {
  const int scale = Quotient(wanted.scale, d, 0, 63);
  const int min = Quotient(wanted.min, dmin, 0, 63);
  Factors best = {0, 0};
  float least = std::numeric_limits<float>::infinity();
  const int last_scale = std::min(scale + kNearScales, 63);
  const int last_min = std::min(min + kNearMins, 63);
  for (int s = std::max(scale - kNearScales, 0); s <= last_scale; ++s) {
    for (int m = std::max(min - kNearMins, 0); m <= last_min; ++m) {
      const Line line = {d * static_cast<float>(s),
                         dmin * static_cast<float>(m)};
      const float error = Error4(x, line, line.min, Inverse4(line.scale));
      if (error >= least) continue;
      least = error;
      best = {s, m};
    }
  }
  return best;
}

// Puts the six bits of each factor into u8 scales[12].
void PackFactors4(int j, const Factors& factors, std::byte* scales) {
  const auto s = static_cast<unsigned>(factors.scale);
  const auto m = static_cast<unsigned>(factors.min);
  if (j < 4) {
    scales[j] |= static_cast<std::byte>(s);
    scales[j + 4] |= static_cast<std::byte>(m);
    return;
  }
  scales[j + 4] |= static_cast<std::byte>((s & 15u) | (m & 15u) << 4);
  scales[j - 4] |= static_cast<std::byte>(s >> 4 << 6);
  scales[j] |= static_cast<std::byte>(m >> 4 << 6);
}

}  // namespace

// u8 ql[128]; u8 qh[64]; i8 scales[16]; f16 d.
bool QuantizeQ6K(const float* x, std::byte* block) {
  constexpr int kScales = 192;
  constexpr int kD = 208;
  std::memset(block, 0, kD + 2);
  float scales[kSubs6];
  float extreme = 0;
  for (int j = 0; j < kSubs6; ++j) {
    scales[j] = FitScale6(x + kSub6 * j);
    if (std::abs(scales[j]) > std::abs(extreme)) extreme = scales[j];
  }
  const float d = StoreF16(extreme / -128, block + kD);
  if (!std::isfinite(d)) return false;
  for (int j = 0; j < kSubs6; ++j) {
    const float* sub = x + kSub6 * j;
    const int factor = BestFactor6(sub, d, scales[j]);
    block[kScales + j] = static_cast<std::byte>(factor);
    const float scale = d * static_cast<float>(factor);
    const float inverse = scale != 0 ? 1 / scale : 0;
    for (int e = 0; e < kSub6; ++e) {
      const int quant = static_cast<int>(Quant6(sub[e], inverse)) + 32;
      Pack6(kSub6 * j + e, static_cast<unsigned>(quant), block);
    }
  }
  return true;
}

// f16 d; f16 dmin; u8 scales[12]; u8 qs[128].
bool QuantizeQ4K(const float* x, std::byte* block) {
  constexpr int kScales = 4;
  constexpr int kQuants = 16;
  std::memset(block, 0, kQuants + 128);
  Line lines[kSubs4];
  Line largest = {0, 0};
  for (int j = 0; j < kSubs4; ++j) {
    lines[j] = FitLine4(x + kSub4 * j);
    largest.scale = std::max(largest.scale, lines[j].scale);
    largest.min = std::max(largest.min, lines[j].min);
  }
  const float d = StoreF16(largest.scale / 63, block);
  const float dmin = StoreF16(largest.min / 63, block + 2);
  if (!std::isfinite(d) || !std::isfinite(dmin)) return false;
  for (int j = 0; j < kSubs4; ++j) {
    const float* sub = x + kSub4 * j;
    const Factors factors = BestFactors4(sub, d, dmin, lines[j]);
    PackFactors4(j, factors, block + kScales);
    const float min = dmin * static_cast<float>(factors.min);
    const float inverse = Inverse4(d * static_cast<float>(factors.scale));
    for (int e = 0; e < kSub4; ++e) {
      const auto quant = static_cast<unsigned>(Quant4(sub[e], min, inverse));
      block[kQuants + 32 * (j / 2) + e] |=
          static_cast<std::byte>(quant << (4 * (j % 2)));
    }
  }
  return true;
}

}  // namespace plimsoll::kernels
