// The precision of an engine's products.
#ifndef PLIMSOLL_WORKER_DEVICE_PRECISION_H_
#define PLIMSOLL_WORKER_DEVICE_PRECISION_H_

namespace plimsoll::worker {

enum class Precision {
  // Activations of quantised products are rounded to 16 bits. On a GPU, steps
  // with many rows round the activations and weights of all products to F16.
  kDefault,
  // Rounds like kDefault on a CPU. On a GPU too, a row's bits do not depend on
  // the batch or on the chunks of its prompt; prompts take at least twice the
  // time.
  kInvariant,
  kExact,  // all activations are float32
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_DEVICE_PRECISION_H_
