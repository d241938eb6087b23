// How precisely an engine computes its products.
#ifndef PLIMSOLL_WORKER_DEVICE_PRECISION_H_
#define PLIMSOLL_WORKER_DEVICE_PRECISION_H_

namespace plimsoll::worker {

enum class Precision {
  // Activations of quantised products are rounded to 16 bits; on a GPU, where a
  // step has many rows, those of all products and weights to F16.
  kDefault,
  // The same, but that a row has the same bits in any batch and however its
  // prompt is cut on a GPU as well, which takes prompts twice the time or more.
  kInvariant,
  kExact,  // float32 activations
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_DEVICE_PRECISION_H_
