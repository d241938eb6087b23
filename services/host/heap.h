// Makes this process's heap give memory back to the system.
#ifndef PLIMSOLL_SERVICES_HOST_HEAP_H_
#define PLIMSOLL_SERVICES_HOST_HEAP_H_

namespace plimsoll::services {

// From now on large blocks are separate mappings, which go back to the system
// as soon as they are freed. By default glibc raises the size of such blocks,
// up to 32 MiB, with every larger block that is freed; the heap then keeps the
// largest amount that requests ever used. Call it once, before any thread
// starts.
void KeepHeapSmall();

// Gives unused memory of the heap back to the system. Takes milliseconds.
void TrimHeap();

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_HEAP_H_
