// A header in memory, then tensors in pieces. Weights are random numbers of
// such sizes that sums stay near one, so that logits are finite.
#include "bench/synthetic_gguf.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "kernels/quant/float16.h"

namespace plimsoll {
namespace {

constexpr int64_t kAlignment = 32;
constexpr int64_t kChunkBytes = int64_t{16} << 20;

// Types of metadata values. Source: the GGUF specification.
enum Type : uint32_t {
  kInt32 = 5,
  kUint32 = 4,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
};

struct Tensor {
  std::string name;
  DType dtype;
  int64_t cols;
  int64_t rows;  // 1 for a vector
};

class Header {
 public:
  template <typename T>
  void Raw(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Text(const std::string& text) {
    Raw(static_cast<uint64_t>(text.size()));
    bytes_ += text;
  }
  template <typename T>
  void Value(const std::string& key, Type type, T value) {
    Key(key, type);
    Raw(value);
  }
  void Value(const std::string& key, const std::string& text) {
    Key(key, kString);
    Text(text);
  }
  void BeginArray(const std::string& key, Type type, int64_t n) {
    Key(key, kArray);
    Raw(uint32_t{type});
    Raw(static_cast<uint64_t>(n));
  }
  uint64_t n_values() const { return n_values_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void Key(const std::string& key, Type type) {
    ++n_values_;
    Text(key);
    Raw(uint32_t{type});
  }

  std::string bytes_;
  uint64_t n_values_ = 0;
};

void AddVocabulary(int64_t n, Header& header) {
  const std::vector<std::string> control = {
      "<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"};
  const auto n_control = static_cast<int64_t>(control.size());
  const auto is_byte = [n_control](int64_t id) {
    return id >= n_control && id < n_control + 256;
  };
  header.Value("tokenizer.ggml.model", "llama");
  header.BeginArray("tokenizer.ggml.tokens", kString, n);
  for (int64_t id = 0; id < n; ++id) {
    if (id < n_control) {
      header.Text(control[static_cast<size_t>(id)]);
    } else if (is_byte(id)) {
      header.Text(
          absl::StrCat("<0x", absl::Hex(id - n_control, absl::kZeroPad2), ">"));
    } else {
      header.Text(absl::StrCat("t", id));
    }
  }
  header.BeginArray("tokenizer.ggml.scores", kFloat32, n);
  for (int64_t id = 0; id < n; ++id) header.Raw(-static_cast<float>(id));
  header.BeginArray("tokenizer.ggml.token_type", kInt32, n);
  for (int64_t id = 0; id < n; ++id) {
    // Source: llama.cpp's token types: normal, unknown, control, byte.
    const int32_t type = id == 3 ? 2 : id < n_control ? 3 : is_byte(id) ? 6 : 1;
    header.Raw(type);
  }
  header.Value("tokenizer.ggml.bos_token_id", kUint32, uint32_t{2});
  header.Value("tokenizer.ggml.eos_token_id", kUint32, uint32_t{1});
  header.Value("tokenizer.ggml.unknown_token_id", kUint32, uint32_t{3});
  header.Value("tokenizer.ggml.add_bos_token", kBool, uint8_t{1});
  header.Value("tokenizer.ggml.add_space_prefix", kBool, uint8_t{0});
}

Header Metadata(const SyntheticShape& shape) {
  Header header;
  const auto count = [&header](const std::string& key, int64_t value) {
    header.Value("gemma3." + key, kUint32, static_cast<uint32_t>(value));
  };
  header.Value("general.architecture", "gemma3");
  count("block_count", shape.layers);
  count("context_length", shape.context);
  count("embedding_length", shape.dim);
  count("feed_forward_length", shape.ffn);
  count("attention.head_count", shape.heads);
  count("attention.head_count_kv", shape.kv_heads);
  count("attention.key_length", shape.head_dim);
  count("attention.value_length", shape.head_dim);
  count("attention.sliding_window", shape.window);
  header.Value("gemma3.attention.layer_norm_rms_epsilon", kFloat32, 1e-6f);
  header.Value("gemma3.rope.freq_base", kFloat32, 1e6f);
  header.Value("gemma3.rope.scaling.type", "linear");
  header.Value("gemma3.rope.scaling.factor", kFloat32, 8.0f);
  AddVocabulary(shape.vocab, header);
  return header;
}

std::vector<Tensor> Tensors(const SyntheticShape& shape) {
  const int64_t q = shape.heads * shape.head_dim;
  const int64_t kv = shape.kv_heads * shape.head_dim;
  std::vector<Tensor> tensors;
  const auto add = [&tensors](std::string name, DType dtype, int64_t cols,
                              int64_t rows) {
    tensors.push_back({name + ".weight", dtype, cols, rows});
  };
  add("token_embd", DType::kQ8_0, shape.dim, shape.vocab);
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::string p = absl::StrCat("blk.", layer, ".");
    for (const char* name :
         {"attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm"}) {
      add(p + name, DType::kF32, shape.dim, 1);
    }
    add(p + "attn_q_norm", DType::kF32, shape.head_dim, 1);
    add(p + "attn_k_norm", DType::kF32, shape.head_dim, 1);
    add(p + "attn_q", shape.type, shape.dim, q);
    add(p + "attn_k", shape.type, shape.dim, kv);
    add(p + "attn_v", shape.type, shape.dim, kv);
    add(p + "attn_output", shape.type, q, shape.dim);
    add(p + "ffn_gate", shape.type, shape.dim, shape.ffn);
    add(p + "ffn_up", shape.type, shape.dim, shape.ffn);
    add(p + "ffn_down", shape.type, shape.ffn, shape.dim);
  }
  add("output_norm", DType::kF32, shape.dim, 1);
  return tensors;
}

// A stream of random words. Source: Marsaglia, "Xorshift RNGs" (2003), with
// Vigna's multiplier.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}
  uint64_t Next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545F4914F6CDD1D;
  }

 private:
  uint64_t state_;
};

// The scale of a block whose quants are uniform over their range, for weights
// with the variance 1 / cols.
uint16_t Scale(DType dtype, int64_t cols) {
  const double quant = dtype == DType::kQ4_0 ? 4.6 : 74.0;  // their deviation
  return kernels::F16FromF32(
      static_cast<float>(1.0 / (quant * std::sqrt(static_cast<double>(cols)))));
}

void WriteMatrix(const Tensor& tensor, Random& random, std::ofstream& file) {
  const int64_t block_bytes = InfoOf(tensor.dtype).block_bytes;
  int64_t left =
      *RowBytes(tensor.dtype, tensor.cols) / block_bytes * tensor.rows;
  const uint16_t scale = Scale(tensor.dtype, tensor.cols);
  std::vector<uint64_t> words;
  while (left > 0) {
    const int64_t n = std::min(left, kChunkBytes / block_bytes);
    words.resize(static_cast<size_t>(CeilDiv(n * block_bytes, 8)));
    for (uint64_t& word : words) word = random.Next();
    char* const bytes = reinterpret_cast<char*>(words.data());
    for (int64_t block = 0; block < n; ++block) {
      std::memcpy(bytes + block * block_bytes, &scale, sizeof(scale));
    }
    file.write(bytes, n * block_bytes);
    left -= n;
  }
}

int64_t Bytes(const Tensor& tensor) {
  return *RowBytes(tensor.dtype, tensor.cols) * tensor.rows;
}

void Pad(std::ofstream& file, int64_t n_bytes) {
  const std::vector<char> zeros(
      static_cast<size_t>(CeilDiv(n_bytes, kAlignment) * kAlignment - n_bytes));
  file.write(zeros.data(), static_cast<std::streamsize>(zeros.size()));
}

}  // namespace

absl::Status WriteSyntheticModel(const std::string& path,
                                 const SyntheticShape& shape, uint64_t seed) {
  if (shape.type != DType::kQ4_0 && shape.type != DType::kQ8_0) {
    return absl::InvalidArgumentError("matrices are q4_0 or q8_0");
  }
  if (shape.vocab < SyntheticShape::kMinVocab) {
    return absl::InvalidArgumentError(
        absl::StrCat("a vocabulary has ", SyntheticShape::kMinVocab,
                     " tokens at least, not ", shape.vocab));
  }
  const std::vector<Tensor> tensors = Tensors(shape);
  const Header metadata = Metadata(shape);
  Header header;
  header.Raw(uint32_t{0x46554747});  // "GGUF"
  header.Raw(uint32_t{3});
  header.Raw(static_cast<uint64_t>(tensors.size()));
  header.Raw(metadata.n_values());
  Header table;
  int64_t end = 0;
  for (const Tensor& tensor : tensors) {
    RETURN_IF_ERROR(RowBytes(tensor.dtype, tensor.cols).status());
    table.Text(tensor.name);
    table.Raw(tensor.rows == 1 ? uint32_t{1} : uint32_t{2});
    table.Raw(static_cast<uint64_t>(tensor.cols));
    if (tensor.rows > 1) table.Raw(static_cast<uint64_t>(tensor.rows));
    table.Raw(static_cast<uint32_t>(tensor.dtype));
    table.Raw(static_cast<uint64_t>(end));
    end += CeilDiv(Bytes(tensor), kAlignment) * kAlignment;
  }
  std::ofstream file(path, std::ios::binary);
  const std::string head = header.bytes() + metadata.bytes() + table.bytes();
  file.write(head.data(), static_cast<std::streamsize>(head.size()));
  Pad(file, static_cast<int64_t>(head.size()));
  Random random(seed);
  for (const Tensor& tensor : tensors) {
    if (tensor.rows == 1) {
      const std::vector<float> ones(static_cast<size_t>(tensor.cols), 1.0f);
      file.write(reinterpret_cast<const char*>(ones.data()), Bytes(tensor));
    } else {
      WriteMatrix(tensor, random, file);
    }
    Pad(file, Bytes(tensor));
  }
  file.close();
  if (file.good()) return absl::OkStatus();
  return absl::UnknownError(absl::StrCat("cannot write ", path));
}

}  // namespace plimsoll
