// Reference: adds a bias to every row.
#include "kernels/reference/ops.h"

namespace plimsoll::kernels::reference {

void AddBias(const AddBiasArgs& args) {
  for (int64_t r = 0; r < args.n_rows; ++r) {
    for (int64_t c = 0; c < args.dim; ++c) {
      args.x[r * args.dim + c] += args.bias[c];
    }
  }
}

}  // namespace plimsoll::kernels::reference
