// Calls of the C library that can fail or hang. Preloaded into a server: the
// file named by PLIMSOLL_TEST_CALLS has an int64 for each of Calls. One that is
// n above 0 has the n-th call from then on fail, and counts down to 0 by then.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <ctime>

// glibc's own names of what is replaced here: `dlsym` would allocate.
// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming)
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t n, size_t bytes);
void* __libc_realloc(void* block, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
}
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)

namespace {

struct Calls {
  std::atomic<int64_t> allocations;  // malloc and its kin: ENOMEM
  std::atomic<int64_t> mappings;     // mmap: ENOMEM
  std::atomic<int64_t> writes;       // to files, and to stderr: ENOSPC
  std::atomic<int64_t> syncs;        // fsync and fdatasync: EIO
  std::atomic<int64_t> reads;        // pread of files: EIO
  // Not 0: reads of a file's later bytes do not return.
  std::atomic<int64_t> reads_hang;
  // Not 0: allocations of at least so many bytes fail.
  std::atomic<int64_t> least_large;
  std::atomic<int64_t> opens;       // open of files: EMFILE
  std::atomic<int64_t> accepts;     // accept of connections: EMFILE
  std::atomic<int64_t> receipts;    // from sockets: ECONNRESET
  std::atomic<int64_t> sends;       // to sockets: EPIPE
  std::atomic<int64_t> threads;     // starts of threads: EAGAIN
  std::atomic<int64_t> syncs_hang;  // not 0: fsync and fdatasync do not return
};

// Reads below are of headers, and of files that are no models.
constexpr off_t kLeastHungOffset = 16 << 20;

Calls* calls = nullptr;

using PthreadCreate = int(pthread_t*, const pthread_attr_t*, void* (*)(void*),
                          void*);
PthreadCreate* real_pthread_create = nullptr;

__attribute__((constructor)) void FindCalls() {
  real_pthread_create =
      reinterpret_cast<PthreadCreate*>(dlsym(RTLD_NEXT, "pthread_create"));
  const char* const path = std::getenv("PLIMSOLL_TEST_CALLS");
  const int file = path == nullptr ? -1 : open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  void* const mapped =
      mmap(nullptr, sizeof(Calls), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED) calls = static_cast<Calls*>(mapped);
}

// The mode of a new file, the argument that only such calls of open have.
mode_t ModeOf(int flags, va_list more) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
}

// Whether the call that counts here is the one that fails.
bool Fails(std::atomic<int64_t> Calls::*which, int error) {
  if (calls == nullptr) return false;
  std::atomic<int64_t>& left = calls->*which;
  int64_t n = left;
  while (n > 0 && !left.compare_exchange_weak(n, n - 1)) {
  }
  if (n != 1) return false;
  errno = error;
  return true;
}

bool NoMemory(size_t bytes) {
  if (Fails(&Calls::allocations, ENOMEM)) return true;
  if (calls == nullptr || calls->least_large == 0 ||
      bytes < static_cast<size_t>(calls->least_large)) {
    return false;
  }
  errno = ENOMEM;
  return true;
}

// A full disk is no error of pipes, sockets and events.
bool WriteFails(int file) {
  if (calls == nullptr || calls->writes == 0) return false;
  struct stat info = {};
  const bool is_file = fstat(file, &info) == 0 && S_ISREG(info.st_mode);
  return (is_file || file == STDERR_FILENO) && Fails(&Calls::writes, ENOSPC);
}

void HangWhile(std::atomic<int64_t> Calls::*told) {
  while (calls != nullptr && calls->*told != 0) {
    const timespec pause = {0, 10'000'000};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace

extern "C" {

void* malloc(size_t bytes) {
  return NoMemory(bytes) ? nullptr : __libc_malloc(bytes);
}

void* calloc(size_t n, size_t bytes) {
  return NoMemory(n * bytes) ? nullptr : __libc_calloc(n, bytes);
}

void* realloc(void* block, size_t bytes) {
  return NoMemory(bytes) ? nullptr : __libc_realloc(block, bytes);
}

void* memalign(size_t alignment, size_t bytes) {
  return NoMemory(bytes) ? nullptr : __libc_memalign(alignment, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) {
  return NoMemory(bytes) ? nullptr : __libc_memalign(alignment, bytes);
}

int posix_memalign(void** block, size_t alignment, size_t bytes) {
  if (NoMemory(bytes)) return ENOMEM;
  *block = __libc_memalign(alignment, bytes);
  return *block == nullptr ? ENOMEM : 0;
}

void* mmap(void* where, size_t bytes, int access, int flags, int file,
           off_t offset) {
  if (Fails(&Calls::mappings, ENOMEM)) return MAP_FAILED;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): it is one.
  return reinterpret_cast<void*>(
      syscall(SYS_mmap, where, bytes, access, flags, file, offset));
}

void* mmap64(void* where, size_t bytes, int access, int flags, int file,
             off_t offset) {
  return mmap(where, bytes, access, flags, file, offset);
}

ssize_t write(int file, const void* bytes, size_t n) {
  if (WriteFails(file)) return -1;
  return syscall(SYS_write, file, bytes, n);
}

ssize_t pwrite(int file, const void* bytes, size_t n, off_t offset) {
  if (WriteFails(file)) return -1;
  return syscall(SYS_pwrite64, file, bytes, n, offset);
}

ssize_t pwrite64(int file, const void* bytes, size_t n, off_t offset) {
  return pwrite(file, bytes, n, offset);
}

ssize_t writev(int file, const iovec* parts, int n) {
  if (WriteFails(file)) return -1;
  return syscall(SYS_writev, file, parts, n);
}

int fsync(int file) {
  HangWhile(&Calls::syncs_hang);
  if (Fails(&Calls::syncs, EIO)) return -1;
  return static_cast<int>(syscall(SYS_fsync, file));
}

int fdatasync(int file) {
  HangWhile(&Calls::syncs_hang);
  if (Fails(&Calls::syncs, EIO)) return -1;
  return static_cast<int>(syscall(SYS_fdatasync, file));
}

ssize_t pread(int file, void* bytes, size_t n, off_t offset) {
  if (offset >= kLeastHungOffset) HangWhile(&Calls::reads_hang);
  if (Fails(&Calls::reads, EIO)) return -1;
  return syscall(SYS_pread64, file, bytes, n, offset);
}

ssize_t pread64(int file, void* bytes, size_t n, off_t offset) {
  return pread(file, bytes, n, offset);
}

int openat(int folder, const char* path, int flags, ...) {
  if (Fails(&Calls::opens, EMFILE)) return -1;
  va_list more;
  va_start(more, flags);
  const mode_t mode = ModeOf(flags, more);
  va_end(more);
  return static_cast<int>(syscall(SYS_openat, folder, path, flags, mode));
}

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = ModeOf(flags, more);
  va_end(more);
  return openat(AT_FDCWD, path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = ModeOf(flags, more);
  va_end(more);
  return openat(AT_FDCWD, path, flags, mode);
}

int accept4(int socket, sockaddr* peer, socklen_t* bytes, int flags) {
  if (Fails(&Calls::accepts, EMFILE)) return -1;
  return static_cast<int>(syscall(SYS_accept4, socket, peer, bytes, flags));
}

int accept(int socket, sockaddr* peer, socklen_t* bytes) {
  return accept4(socket, peer, bytes, 0);
}

ssize_t recvmsg(int socket, msghdr* message, int flags) {
  if (Fails(&Calls::receipts, ECONNRESET)) return -1;
  return syscall(SYS_recvmsg, socket, message, flags);
}

ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  if (Fails(&Calls::sends, EPIPE)) return -1;
  return syscall(SYS_sendmsg, socket, message, flags);
}

ssize_t send(int socket, const void* bytes, size_t n, int flags) {
  if (Fails(&Calls::sends, EPIPE)) return -1;
  return syscall(SYS_sendto, socket, bytes, n, flags, nullptr, 0);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                   void* (*start)(void*), void* argument) {
  if (Fails(&Calls::threads, EAGAIN)) return EAGAIN;
  return real_pthread_create(thread, attributes, start, argument);
}

}  // extern "C"
