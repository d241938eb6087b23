// Converts a checkpoint's folder, as Hugging Face's libraries write it, to one
// GGUF file.
#ifndef PLIMSOLL_SERVICES_CONVERT_CONVERT_H_
#define PLIMSOLL_SERVICES_CONVERT_CONVERT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"

namespace plimsoll::services {

struct ConvertOptions {
  std::string folder;
  std::string target;               // the GGUF file
  std::optional<DType> dtype = {};  // type of matrices; absent: unchanged
  bool overwrites = false;
  std::string name = {};  // general.name
  std::string pre = {};   // pre-tokenizer; empty: found by its expressions
  int n_threads = 1;
};

struct TypeTotal {
  int64_t n_tensors = 0;
  int64_t bytes = 0;
};

// A summary of the written file.
struct ConvertReport {
  std::string architecture;
  std::string tokenizer;  // the model and the pre-tokenizer
  int64_t file_bytes = 0;
  std::map<DType, TypeTotal> types = {};
  int64_t n_left_out = 0;       // tensors of the checkpoint
  int64_t n_unused_tokens = 0;  // rows of the embedding without a token
  bool has_chat_template = false;
  // Ends of a reply for which a file has no key.
  int64_t n_dropped_ends = 0;
};

// Called with the number of written bytes and the size of the whole file. An
// error ends the conversion.
using ConvertProgress =
    std::function<absl::Status(int64_t bytes_done, int64_t bytes_total)>;

// Reads config.json, safetensors, tokenizer.json, and if they exist
// tokenizer_config.json, generation_config.json and chat_template.jinja, and
// writes the file, tensor by tensor. Before the first tensor the header is
// checked with this build's own reader. A failed conversion leaves no file.
//
// Norms, biases and other vectors become F32. Matrices get the type `dtype`, or
// its replacement by planner::StorableType. With Q4_0 and Q4_K the embedding
// and the output become Q6_K.
// Errors: kNotFound naming the file that is missing; kUnimplemented naming what
// cannot be converted; kInvalidArgument and kDataLoss naming the fault;
// kOutOfRange naming a value that is too large for its type; those of NewFile
// and of `progress`.
absl::StatusOr<ConvertReport> Convert(const ConvertOptions& options,
                                      const ConvertProgress& progress);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_CONVERT_CONVERT_H_
