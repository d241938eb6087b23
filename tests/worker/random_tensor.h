// Tensors of random models: their values follow from their names.
#ifndef PLIMSOLL_TESTS_WORKER_RANDOM_TENSOR_H_
#define PLIMSOLL_TESTS_WORKER_RANDOM_TENSOR_H_

#include <cstdint>
#include <string>

#include "base/dtype.h"
#include "tests/worker/file_writer.h"

namespace plimsoll::testing {

struct Tensor {
  std::string name;
  DType dtype;
  uint64_t cols;
  uint64_t rows;  // 1 = a vector
  uint64_t n_matrices = 1;
  float base = 0;          // base of a vector's values; 0 = by its name
  int scale_exponent = 0;  // power of 2 in a product's matrix or its scale
};

// The tensor as a file has it. Equal names of model and tensor give equal bits.
Bytes TensorBytes(const std::string& model, const Tensor& tensor);

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_WORKER_RANDOM_TENSOR_H_
