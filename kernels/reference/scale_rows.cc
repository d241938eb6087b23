// Reference: multiplies every row by a factor of its own.
#include "kernels/reference/ops.h"

namespace plimsoll::kernels::reference {

void ScaleRows(const ScaleRowsArgs& args) {
  for (int64_t r = 0; r < args.n_rows; ++r) {
    for (int64_t c = 0; c < args.dim; ++c) {
      args.x[r * args.dim + c] *= args.factors[r];
    }
  }
}

}  // namespace plimsoll::kernels::reference
