// A tiny checkpoint becomes a file that loads, and bad ones become nothing.
#include "services/convert/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/quant/float16.h"
#include "services/convert/input.h"
#include "tests/services/convert/safetensors_bytes.h"
#include "worker/device/model_file.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::services {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr int64_t kDim = 32;
constexpr int64_t kVocab = 4;

struct Matrix {
  std::vector<int64_t> shape;
  std::vector<float> values;
};
using Weights = std::map<std::string, Matrix>;

// Values that tell each row and column.
Matrix Counted(int64_t rows, int64_t cols) {
  Matrix matrix = {{rows, cols}, {}};
  for (int64_t i = 0; i < rows * cols; ++i) {
    matrix.values.push_back(static_cast<float>(i % 251) - 125);
  }
  return matrix;
}

Matrix Vector(int64_t n, float first) {
  Matrix vector = Counted(1, n);
  vector.shape = {n};
  for (float& value : vector.values) value += first;
  return vector;
}

// A Llama of one layer, with biases of queries.
Weights TinyLlama() {
  Weights weights = {{"model.embed_tokens.weight", Counted(kVocab, kDim)},
                     {"model.norm.weight", Vector(kDim, 1)},
                     {"lm_head.weight", Counted(kVocab, kDim)}};
  for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) {
    weights[absl::StrCat("model.layers.0.", norm, ".weight")] = Vector(kDim, 1);
  }
  for (const char* module :
       {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
        "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}) {
    weights[absl::StrCat("model.layers.0.", module, ".weight")] =
        Counted(kDim, kDim);
  }
  weights["model.layers.0.self_attn.q_proj.bias"] = Vector(kDim, 0);
  return weights;
}

Json TinyConfig() {
  return {{"model_type", "llama"},    {"hidden_size", kDim},
          {"num_hidden_layers", 1},   {"intermediate_size", kDim},
          {"num_attention_heads", 2}, {"num_key_value_heads", 2},
          {"vocab_size", kVocab},     {"max_position_embeddings", 64},
          {"rms_norm_eps", 1e-5},     {"rope_theta", 1e4}};
}

class ConvertTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) /
            absl::StrCat("plimsoll_convert_", getpid());
    fs::create_directories(root_ / "checkpoint");
    Write("config.json", TinyConfig().dump());
    Write("tokenizer.json", R"({
      "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
      "added_tokens": [{"id": 3, "content": "<s>", "special": true}],
      "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2},
                "merges": ["a b"]}})");
    WriteWeights(TinyLlama());
  }
  void TearDown() override { fs::remove_all(root_); }

  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(root_ / "checkpoint" / name, std::ios::binary) << bytes;
  }

  void WriteWeights(const Weights& weights) {
    WriteWeightsTo("model.safetensors", weights);
  }
  void WriteWeightsTo(const std::string& name, const Weights& weights) {
    Json header = Json::object();
    std::string data;
    for (const auto& [tensor, matrix] : weights) {
      const size_t begin = data.size();
      data.append(reinterpret_cast<const char*>(matrix.values.data()),
                  matrix.values.size() * sizeof(float));
      header[tensor] = {{"dtype", "F32"},
                        {"shape", matrix.shape},
                        {"data_offsets", {begin, data.size()}}};
    }
    Write(name, SafetensorsBytes(header.dump(), 0) + data);
  }

  std::string Target() const { return (root_ / "model.gguf").string(); }

  absl::StatusOr<ConvertReport> Run(DType dtype) {
    return Convert({.folder = (root_ / "checkpoint").string(),
                    .target = Target(),
                    .dtype = dtype,
                    .name = "tiny"},
                   [](int64_t, int64_t) { return absl::OkStatus(); });
  }

  void ExpectRefused(const std::string& words) {
    const auto report = Run(DType::kF32);
    ASSERT_FALSE(report.ok()) << words;
    EXPECT_THAT(std::string(report.status().message()), HasSubstr(words));
    for (const auto& entry : fs::directory_iterator(root_)) {
      EXPECT_EQ(entry.path().filename(), "checkpoint");
    }
  }

  // The float32 values of a tensor of the file.
  static std::vector<float> Values(worker::ModelFile& file,
                                   const std::string& name) {
    const planner::GgufTensor* tensor = file.header().FindTensor(name);
    if (tensor == nullptr) return {};
    std::vector<float> values(static_cast<size_t>(tensor->bytes) / 4);
    EXPECT_TRUE(file.Read(file.header().data_offset + tensor->offset,
                          std::as_writable_bytes(std::span(values)))
                    .ok());
    return values;
  }

  fs::path root_;
};

TEST_F(ConvertTest, WritesAFileThatLoads) {
  const auto report = Run(DType::kF32);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->architecture, "llama");
  EXPECT_EQ(report->tokenizer, "gpt2, gpt-2");
  EXPECT_EQ(report->types.at(DType::kF32).n_tensors, 13);
  const auto file = worker::ModelFile::Open(Target());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(report->file_bytes, (*file)->Size());
  EXPECT_EQ((*file)->shape().name, "tiny");
  EXPECT_FALSE((*file)->shape().tied_output);
  const auto tokenizer = worker::LoadTokenizer((*file)->header(), **file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(*(*tokenizer)->Encode("abb", worker::ParseSpecial::kNo),
            (std::vector<int32_t>{2, 1}));
}

TEST_F(ConvertTest, RowsAndBiasesOfQueriesChangePlaces) {
  ASSERT_TRUE(Run(DType::kF32).ok());
  const auto file = worker::ModelFile::Open(Target());
  ASSERT_TRUE(file.ok()) << file.status();
  const std::vector<float> plain = Counted(kDim, kDim).values;
  EXPECT_EQ(Values(**file, "blk.0.attn_v.weight"), plain);
  EXPECT_EQ(Values(**file, "blk.0.attn_output.weight"), plain);
  const std::vector<float> queries = Values(**file, "blk.0.attn_q.weight");
  EXPECT_EQ(Values(**file, "blk.0.attn_k.weight"), queries);
  // Two heads of 16 rows: row 1 is the first of the second half.
  ASSERT_EQ(queries.size(), plain.size());
  for (const auto& [row, source] :
       {std::pair{0, 0}, {1, 8}, {2, 1}, {15, 15}, {17, 24}}) {
    EXPECT_EQ(queries[static_cast<size_t>(row * kDim)],
              plain[static_cast<size_t>(source * kDim)])
        << row;
  }
  const std::vector<float> bias = Values(**file, "blk.0.attn_q.bias");
  ASSERT_EQ(bias.size(), size_t{kDim});
  EXPECT_EQ(bias[1], Vector(kDim, 0).values[8]);
}

TEST_F(ConvertTest, MatricesGetTheTypeAndVectorsStayFloats) {
  const auto report = Run(DType::kQ8_0);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->types.at(DType::kQ8_0).n_tensors, 9);
  EXPECT_EQ(report->types.at(DType::kF32).n_tensors, 4);
  fs::remove(Target());
  // Rows of 32 are no whole blocks of 256.
  const auto small = Run(DType::kQ4_K);
  ASSERT_TRUE(small.ok()) << small.status();
  EXPECT_EQ(small->types.at(DType::kQ8_0).n_tensors, 9);
}

TEST_F(ConvertTest, ATiedOutputIsLeftOut) {
  Json config = TinyConfig();
  config["tie_word_embeddings"] = true;
  Write("config.json", config.dump());
  const auto report = Run(DType::kF32);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->n_left_out, 1);
  EXPECT_TRUE((*worker::ModelFile::Open(Target()))->shape().tied_output);
}

TEST_F(ConvertTest, AnOutputThatIsMissingIsNamed) {
  Weights weights = TinyLlama();
  weights.erase("lm_head.weight");
  WriteWeights(weights);
  ExpectRefused("tie_word_embeddings");
}

TEST_F(ConvertTest, SeveralFilesAreOneModel) {
  Weights first = TinyLlama();
  Weights second;
  second.insert(first.extract("model.norm.weight"));
  Json map = Json::object();
  for (const auto& [name, matrix] : first) map[name] = "a.safetensors";
  map["model.norm.weight"] = "b.safetensors";
  fs::remove(root_ / "checkpoint" / "model.safetensors");
  WriteWeightsTo("a.safetensors", first);
  WriteWeightsTo("b.safetensors", second);
  const auto index = [&](const Json& weight_map) {
    Write("model.safetensors.index.json",
          Json({{"weight_map", weight_map}}).dump());
  };
  index(map);
  EXPECT_TRUE(Run(DType::kF32).ok());
  fs::remove(Target());
  map["model.norm.weight"] = "a.safetensors";
  index(map);
  ExpectRefused("a.safetensors lacks tensor");
  map["model.norm.weight"] = "../b.safetensors";
  index(map);
  ExpectRefused("no safetensors file of this folder");
  index(Json::object());
  ExpectRefused("weight_map");
}

TEST_F(ConvertTest, TensorsThatAreMissingUnknownOrOddAreNamed) {
  Weights weights = TinyLlama();
  weights.erase("model.layers.0.mlp.up_proj.weight");
  WriteWeights(weights);
  ExpectRefused("blk.0.ffn_up.weight");
  weights = TinyLlama();
  weights["model.layers.0.mlp.extra.weight"] = Counted(2, 2);
  WriteWeights(weights);
  ExpectRefused("mlp.extra.weight");
  weights = TinyLlama();
  weights["model.layers.0.mlp.up_proj.weight"].shape = {kDim, 2, kDim / 2};
  WriteWeights(weights);
  ExpectRefused("neither a vector nor a matrix");
  weights = TinyLlama();
  weights["model.layers.0.mlp.up_proj.weight"].shape = {kDim / 2, 2 * kDim};
  WriteWeights(weights);
  ExpectRefused("has the shape");
}

TEST_F(ConvertTest, ModelsThatCannotBeConvertedAreNamed) {
  Json config = TinyConfig();
  config["num_local_experts"] = 4;
  config["num_experts_per_tok"] = 2;
  Write("config.json", config.dump());
  ExpectRefused("experts");
  config = TinyConfig();
  config["model_type"] = "gpt_oss";
  Write("config.json", config.dump());
  ExpectRefused("gpt-oss");
  fs::remove(root_ / "checkpoint" / "config.json");
  ExpectRefused("config.json");
}

TEST_F(ConvertTest, ATokenizerThatWouldNotLoadIsRefused) {
  Write("tokenizer.json", R"({
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["a b"]}})");
  ExpectRefused("tokenizer.ggml.merges");
}

TEST_F(ConvertTest, AnErrorOfTheProgressEndsIt) {
  const auto report =
      Convert({.folder = (root_ / "checkpoint").string(), .target = Target()},
              [](int64_t done, int64_t total) {
                EXPECT_LE(done, total);
                return absl::CancelledError("stop");
              });
  EXPECT_TRUE(absl::IsCancelled(report.status())) << report.status();
  EXPECT_FALSE(fs::exists(Target()));
}

}  // namespace
}  // namespace plimsoll::services
