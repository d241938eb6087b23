#include "tests/services/planner/faulty_vfs.h"

#include <sqlite3.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::services::testing {
namespace {

// A write that no sync has followed yet: what was there before.
struct Unsynced {
  sqlite3_file* file;  // the real one
  sqlite3_int64 offset;
  std::string before;
  sqlite3_int64 size_before;
};

struct State {
  VfsFaults faults;
  int64_t n_calls = 0;
  std::vector<Unsynced> unsynced;
};

State& GlobalState() {
  static State* const state = new State;
  return *state;
}

// One of our files; the real one follows it in the same block.
struct File {
  sqlite3_file base;
  sqlite3_file* real;
};

sqlite3_file* Real(sqlite3_file* file) {
  return reinterpret_cast<File*>(file)->real;
}

// Undoes some of the unsynced writes, the last first, and ends the process.
[[noreturn]] void CutPower() {
  State& state = GlobalState();
  uint64_t random = state.faults.seed * 0x9E3779B97F4A7C15u + 1;
  for (size_t i = state.unsynced.size(); i > 0; --i) {
    Unsynced& write = state.unsynced[i - 1];
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    if (random % 2 == 0) continue;
    const sqlite3_io_methods* const methods = write.file->pMethods;
    methods->xWrite(write.file, write.before.data(),
                    static_cast<int>(write.before.size()), write.offset);
    sqlite3_int64 size = 0;
    methods->xFileSize(write.file, &size);
    const auto end =
        write.offset + static_cast<sqlite3_int64>(write.before.size());
    if (size == end && write.size_before < end) {
      methods->xTruncate(write.file, write.size_before);
    }
  }
  _exit(0);
}

// Counts a call; true if it is to fail.
bool IsFaulty() {
  State& state = GlobalState();
  ++state.n_calls;
  if (state.faults.at == 0 || state.n_calls < state.faults.at) return false;
  if (state.faults.is_power_cut) CutPower();
  return true;
}

int Close(sqlite3_file* file) {
  sqlite3_file* const real = Real(file);
  std::erase_if(GlobalState().unsynced,
                [&](const Unsynced& write) { return write.file == real; });
  return real->pMethods->xClose(real);
}

int Read(sqlite3_file* file, void* data, int n, sqlite3_int64 offset) {
  return Real(file)->pMethods->xRead(Real(file), data, n, offset);
}

int Write(sqlite3_file* file, const void* data, int n, sqlite3_int64 offset) {
  sqlite3_file* const real = Real(file);
  const int code = GlobalState().faults.write_code;
  if (IsFaulty() && code != SQLITE_OK) return code;
  Unsynced write = {real, offset, std::string(static_cast<size_t>(n), '\0'), 0};
  real->pMethods->xFileSize(real, &write.size_before);
  // Short reads fill with zeros, which is what a hole reads as.
  real->pMethods->xRead(real, write.before.data(), n, offset);
  GlobalState().unsynced.push_back(std::move(write));
  return real->pMethods->xWrite(real, data, n, offset);
}

int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  const int code = GlobalState().faults.write_code;
  if (IsFaulty() && code != SQLITE_OK) return code;
  return Real(file)->pMethods->xTruncate(Real(file), size);
}

// What the page cache has survives this process, so nothing needs a disk.
int Sync(sqlite3_file* file, int) {
  sqlite3_file* const real = Real(file);
  const int code = GlobalState().faults.sync_code;
  if (IsFaulty() && code != SQLITE_OK) return code;
  std::erase_if(GlobalState().unsynced,
                [&](const Unsynced& write) { return write.file == real; });
  return SQLITE_OK;
}

int FileSize(sqlite3_file* file, sqlite3_int64* size) {
  return Real(file)->pMethods->xFileSize(Real(file), size);
}

int Lock(sqlite3_file* file, int level) {
  return Real(file)->pMethods->xLock(Real(file), level);
}

int Unlock(sqlite3_file* file, int level) {
  return Real(file)->pMethods->xUnlock(Real(file), level);
}

int CheckReservedLock(sqlite3_file* file, int* out) {
  return Real(file)->pMethods->xCheckReservedLock(Real(file), out);
}

int FileControl(sqlite3_file* file, int op, void* argument) {
  return Real(file)->pMethods->xFileControl(Real(file), op, argument);
}

int SectorSize(sqlite3_file* file) {
  return Real(file)->pMethods->xSectorSize(Real(file));
}

int DeviceCharacteristics(sqlite3_file* file) {
  return Real(file)->pMethods->xDeviceCharacteristics(Real(file));
}

int ShmMap(sqlite3_file* file, int page, int size, int extend,
           void volatile** out) {
  return Real(file)->pMethods->xShmMap(Real(file), page, size, extend, out);
}

int ShmLock(sqlite3_file* file, int offset, int n, int flags) {
  return Real(file)->pMethods->xShmLock(Real(file), offset, n, flags);
}

void ShmBarrier(sqlite3_file* file) {
  Real(file)->pMethods->xShmBarrier(Real(file));
}

int ShmUnmap(sqlite3_file* file, int remove) {
  return Real(file)->pMethods->xShmUnmap(Real(file), remove);
}

constexpr sqlite3_io_methods kMethods = {2,
                                         Close,
                                         Read,
                                         Write,
                                         Truncate,
                                         Sync,
                                         FileSize,
                                         Lock,
                                         Unlock,
                                         CheckReservedLock,
                                         FileControl,
                                         SectorSize,
                                         DeviceCharacteristics,
                                         ShmMap,
                                         ShmLock,
                                         ShmBarrier,
                                         ShmUnmap,
                                         nullptr,
                                         nullptr};

int Open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags,
         int* out_flags) {
  auto* const base = static_cast<sqlite3_vfs*>(vfs->pAppData);
  auto* const ours = reinterpret_cast<File*>(file);
  ours->real = reinterpret_cast<sqlite3_file*>(ours + 1);
  ours->base.pMethods = nullptr;
  const int code = base->xOpen(base, name, ours->real, flags, out_flags);
  if (code == SQLITE_OK) ours->base.pMethods = &kMethods;
  return code;
}

int Delete(sqlite3_vfs* vfs, const char* name, int sync) {
  auto* const base = static_cast<sqlite3_vfs*>(vfs->pAppData);
  const int code = GlobalState().faults.write_code;
  if (IsFaulty() && code != SQLITE_OK) return code;
  return base->xDelete(base, name, sync);
}

}  // namespace

void SetVfsFaults(const VfsFaults& faults) {
  State& state = GlobalState();
  state.faults = faults;
  state.n_calls = 0;
  if (sqlite3_vfs_find(kFaultyVfs) != nullptr) return;
  sqlite3_vfs* const base = sqlite3_vfs_find(nullptr);
  auto* const vfs = new sqlite3_vfs(*base);
  vfs->zName = kFaultyVfs;
  vfs->szOsFile = static_cast<int>(sizeof(File)) + base->szOsFile;
  vfs->pAppData = base;
  vfs->pNext = nullptr;
  vfs->xOpen = Open;
  vfs->xDelete = Delete;
  sqlite3_vfs_register(vfs, 0);
}

int64_t CountVfsCalls() { return GlobalState().n_calls; }

}  // namespace plimsoll::services::testing
