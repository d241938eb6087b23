#include "services/convert/convert.h"

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "kernels/cpu/thread_pool.h"
#include "planner/gguf/gguf_writer.h"
#include "planner/gguf/prefix_source.h"
#include "planner/model/model_shape.h"
#include "services/convert/checkpoint.h"
#include "services/convert/file_tensors.h"
#include "services/convert/input.h"
#include "services/convert/new_file.h"
#include "services/convert/row_converter.h"
#include "services/convert/tokenizer_tables.h"
#include "services/sources/config_json.h"
#include "worker/text/tokenizer/tokenizer.h"
#include "worker/text/tokenizer/vocab_table.h"

namespace plimsoll::services {
namespace {

using planner::GgufType;

constexpr int64_t kAlignment = 32;

// The value of general.file_type for files of one type. Source: the GGUF
// specification.
uint64_t FileType(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 0;
    case DType::kF16:
      return 1;
    case DType::kQ4_0:
      return 2;
    case DType::kQ8_0:
      return 7;
    case DType::kQ4_K:
      return 15;
    case DType::kQ6_K:
      return 18;
    default:
      return 32;
  }
}

absl::StatusOr<std::string> ReadRequired(const std::string& folder,
                                         const char* name, int64_t max_bytes) {
  ASSIGN_OR_RETURN(auto text, ReadSmallFile(folder, name, max_bytes));
  if (text) return *std::move(text);
  return absl::NotFoundError(
      absl::StrCat("'", folder, "' has no ", name,
                   ", which a conversion reads; get the whole checkpoint"));
}

absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::string text,
                   ReadRequired(folder, "config.json", kMaxConfigBytes));
  ASSIGN_OR_RETURN(ModelConfig config, ModelFromConfig(text));
  RETURN_IF_ERROR(planner::CheckConvertible(*config.architecture));
  const std::string experts =
      absl::StrCat(config.architecture->name, ".expert_count");
  ASSIGN_OR_RETURN(const auto n_experts, config.header.Int(experts));
  if (n_experts.value_or(0) == 0) return config;
  return absl::UnimplementedError(absl::StrCat(
      "config.json: the model has ", *n_experts,
      " experts, which cannot be converted yet; look for a GGUF file of it"));
}

absl::StatusOr<TokenizerFiles> ReadTokenizerFiles(const std::string& folder) {
  TokenizerFiles files;
  ASSIGN_OR_RETURN(files.tokenizer,
                   ReadRequired(folder, "tokenizer.json", kMaxTokenizerBytes));
  const std::pair<const char*, std::string*> optional[] = {
      {"tokenizer_config.json", &files.config},
      {"generation_config.json", &files.generation},
      {"chat_template.jinja", &files.chat}};
  for (const auto& [name, text] : optional) {
    ASSIGN_OR_RETURN(const auto found,
                     ReadSmallFile(folder, name, kMaxTokenizerConfigBytes));
    *text = found.value_or("");
  }
  return files;
}

// The table of a row for each token.
absl::StatusOr<const planner::GgufTensor*> FindEmbedding(
    const FileTensors& tensors) {
  for (const TensorSource& source : tensors.sources) {
    const planner::GgufTensor& tensor = source.tensor;
    if (tensor.name != "token_embd.weight") continue;
    if (tensor.ne[1] <= planner::ModelShape::kMaxVocab) return &tensor;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the checkpoint has no embed_tokens.weight of at most ",
                   planner::ModelShape::kMaxVocab, " rows"));
}

// Writes the values of the header that are neither of tensors nor of the
// tokenizer.
void WriteMetadata(const ConvertOptions& options, const ModelConfig& config,
                   DType dtype, planner::GgufWriter& out) {
  const std::string tokenizer = "tokenizer.ggml.model";  // a plan's "no_vocab"
  for (const auto& [key, value] : config.header.metadata) {
    if (key != tokenizer) out.Add(key, value);
  }
  out.Add("general.name", {GgufType::kString, options.name});
  out.Add("general.file_type", {GgufType::kU32, FileType(dtype)});
  out.Add("general.quantization_version", {GgufType::kU32, uint64_t{2}});
}

// The header of the file, padded, and the shape that a reader finds in it.
struct FileHeader {
  std::string bytes;
  planner::ModelShape shape;
};

// Reads the header as every reader does, tokenizer included.
absl::StatusOr<planner::ModelShape> CheckHeader(const std::string& bytes,
                                                int64_t file_bytes) {
  planner::PrefixSource source(
      std::as_bytes(std::span(bytes.data(), bytes.size())), file_bytes);
  ASSIGN_OR_RETURN(const planner::GgufHeader header,
                   planner::ReadGgufHeader(source));
  ASSIGN_OR_RETURN(planner::ModelShape shape, planner::ShapeFromGguf(header));
  RETURN_IF_ERROR(worker::LoadTokenizer(header, source).status());
  return shape;
}

absl::StatusOr<FileHeader> MakeHeader(const ConvertOptions& options,
                                      const ModelConfig& config,
                                      const TokenizerTables& tokenizer,
                                      const FileTensors& tensors) {
  ASSIGN_OR_RETURN(const planner::GgufTensor* embedding,
                   FindEmbedding(tensors));
  planner::GgufWriter writer;
  WriteMetadata(options, config, options.dtype.value_or(embedding->dtype),
                writer);
  WriteTokenizer(tokenizer, writer);
  for (const TensorSource& source : tensors.sources) {
    writer.AddTensor(source.tensor);
  }
  FileHeader header = {.bytes = writer.Finish(), .shape = {}};
  const auto padded =
      CheckedRoundUp(static_cast<int64_t>(header.bytes.size()), kAlignment);
  header.bytes.resize(static_cast<size_t>(*padded), '\0');
  ASSIGN_OR_RETURN(header.shape,
                   CheckHeader(header.bytes, *padded + tensors.data_bytes));
  if (header.shape.tied_output == config.is_tied) return header;
  return absl::InvalidArgumentError(
      "the checkpoint has no lm_head.weight, and config.json does not say that "
      "the embedding is the output (\"tie_word_embeddings\")");
}

// The files of a checkpoint say this of its model.
struct ConvertedModel {
  const ModelConfig& config;
  const planner::ModelShape& shape;
  const Checkpoint& checkpoint;
};

// Writes the tensors of one conversion.
class TensorWriter {
 public:
  TensorWriter(const ConvertedModel& model, kernels::ThreadPool& pool,
               NewFile& out)
      : shape_(model.shape),
        checkpoint_(model.checkpoint),
        converter_(pool),
        out_(out) {
    const auto n_rot = model.config.header.Int(
        absl::StrCat(model.config.architecture->name, ".rope.dimension_count"));
    n_rot_ = n_rot.ok() ? n_rot->value_or(0) : 0;
  }

  absl::Status Write(const TensorSource& source,
                     const std::function<absl::Status()>& fence) {
    if (source.vector != nullptr) {
      RETURN_IF_ERROR(
          out_.Append(std::as_bytes(std::span(source.vector->values))));
      return Pad();
    }
    const auto read = [&](int64_t offset, std::span<std::byte> bytes) {
      return checkpoint_.Read(*source.checkpoint, offset, bytes);
    };
    const auto write = [&](std::span<const std::byte> bytes) {
      absl::Status status = out_.Append(bytes);
      status.Update(fence());
      return status;
    };
    absl::Status status = converter_.Convert(PlanRows(source), read, write);
    if (status.ok()) return Pad();
    if (!absl::IsInvalidArgument(status) && !absl::IsOutOfRange(status)) {
      return status;
    }
    return absl::Status(status.code(),
                        absl::StrCat("tensor \"", source.checkpoint->safe.name,
                                     "\", ", status.message()));
  }

 private:
  RowPlan PlanRows(const TensorSource& source) const {
    RowPlan plan = {.rows = source.tensor.ne[1],
                    .cols = source.tensor.ne[0],
                    .from = *source.checkpoint->safe.dtype,
                    .to = source.tensor.dtype,
                    .adds_one = source.change.adds_one};
    if (!source.change.moves_rows) return plan;
    plan.head_dim = shape_.layers.front().head_dim;
    plan.n_rot = n_rot_;
    // Each element of a bias is a row of its own.
    if (source.tensor.n_dims == 1) std::swap(plan.rows, plan.cols);
    return plan;
  }

  absl::Status Pad() {
    static constexpr std::byte kZeros[kAlignment] = {};
    const int64_t rest = out_.size() % kAlignment;
    if (rest == 0) return absl::OkStatus();
    return out_.Append(
        std::span(kZeros).first(static_cast<size_t>(kAlignment - rest)));
  }

  const planner::ModelShape& shape_;
  const Checkpoint& checkpoint_;
  RowConverter converter_;
  NewFile& out_;
  int64_t n_rot_ = 0;
};

ConvertReport Summary(const ModelConfig& config,
                      const TokenizerTables& tokenizer,
                      const FileTensors& tensors) {
  ConvertReport report = {
      .architecture = std::string(config.architecture->name),
      .tokenizer = absl::StrCat(tokenizer.model, ", ", tokenizer.pre),
      .n_left_out = tensors.n_left_out,
      .n_unused_tokens = absl::c_count(
          tokenizer.types, static_cast<int32_t>(worker::TokenType::kUnused)),
      .has_chat_template = !tokenizer.chat_template.empty()};
  constexpr size_t kEndKeys = 3;
  if (tokenizer.ends.size() > kEndKeys) {
    report.n_dropped_ends =
        static_cast<int64_t>(tokenizer.ends.size() - kEndKeys);
  }
  for (const TensorSource& source : tensors.sources) {
    TypeTotal& total = report.types[source.tensor.dtype];
    ++total.n_tensors;
    total.bytes += source.tensor.bytes;
  }
  return report;
}

}  // namespace

absl::StatusOr<ConvertReport> Convert(const ConvertOptions& options,
                                      const ConvertProgress& progress) {
  ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(options.folder));
  ASSIGN_OR_RETURN(const Checkpoint checkpoint,
                   Checkpoint::Open(options.folder));
  ASSIGN_OR_RETURN(
      const FileTensors tensors,
      LayTensorsOut(config, checkpoint, options.dtype, kAlignment));
  ASSIGN_OR_RETURN(const TokenizerFiles files,
                   ReadTokenizerFiles(options.folder));
  ASSIGN_OR_RETURN(const planner::GgufTensor* embedding,
                   FindEmbedding(tensors));
  ASSIGN_OR_RETURN(const TokenizerTables tokenizer,
                   ReadTokenizerTables(files, embedding->ne[1], options.pre));
  ASSIGN_OR_RETURN(const FileHeader header,
                   MakeHeader(options, config, tokenizer, tensors));
  ConvertReport report = Summary(config, tokenizer, tensors);
  report.file_bytes =
      static_cast<int64_t>(header.bytes.size()) + tensors.data_bytes;

  ASSIGN_OR_RETURN(
      const auto out,
      NewFile::Create(options.target, report.file_bytes, options.overwrites));
  RETURN_IF_ERROR(out->Append(
      std::as_bytes(std::span(header.bytes.data(), header.bytes.size()))));
  kernels::ThreadPool pool(options.n_threads);
  TensorWriter writer({config, header.shape, checkpoint}, pool, *out);
  const auto fence = [&] { return progress(out->size(), report.file_bytes); };
  for (const TensorSource& source : tensors.sources) {
    RETURN_IF_ERROR(writer.Write(source, fence));
    RETURN_IF_ERROR(fence());
  }
  RETURN_IF_ERROR(checkpoint.CheckUnchanged());
  RETURN_IF_ERROR(out->Commit());
  return report;
}

}  // namespace plimsoll::services
