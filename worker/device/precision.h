// How precisely an engine computes its products.
#ifndef PLIMSOLL_WORKER_DEVICE_PRECISION_H_
#define PLIMSOLL_WORKER_DEVICE_PRECISION_H_

namespace plimsoll::worker {

enum class Precision {
  // Activations of quantised products are rounded to 16 bits. On a GPU, steps
  // with many rows round the activations and weights of all products to F16.
  kDefault,
  // Rounds like kDefault on a CPU. On a GPU too, a row has the same bits in any
  // batch and however its prompt is cut; prompts take twice the time or more.
  kInvariant,
  kExact,  // all activations are float32
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_DEVICE_PRECISION_H_
