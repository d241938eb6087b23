// Arbitrary bytes as a journal of leases, or as its log: a planner either reads
// them or puts the file aside. Afterwards the journal keeps what is written.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "planner/lease/lease_book.h"
#include "services/planner/journal.h"

namespace {

namespace planner = plimsoll::planner;
using plimsoll::services::Journal;

constexpr int kLeases = 3;

absl::Time Now() { return absl::UnixEpoch() + absl::Hours(1); }

// A folder in memory, which is removed at the end of the process.
class Folder {
 public:
  Folder() {
    const std::filesystem::path memory = "/dev/shm";
    const std::filesystem::path parent =
        access(memory.c_str(), W_OK) == 0
            ? memory
            : std::filesystem::temp_directory_path();
    path_ = parent / "journal-XXXXXX";
    PLIMSOLL_CHECK(mkdtemp(path_.data()) != nullptr, "a folder can be made");
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string File(absl::string_view name) const {
    return absl::StrCat(path_, "/", name);
  }
  void Empty() const {
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      std::filesystem::remove_all(entry);
    }
  }

 private:
  std::string path_;
};

std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Write(const std::string& path, absl::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

planner::LeaseRecord Record(int i) {
  planner::LeaseRecord record;
  record.lease.id = absl::StrCat("lease-", i);
  record.lease.device_id = "host/gpu0";
  record.lease.holder = "worker";
  record.lease.purpose = "model";
  record.lease.process = "1/2/3";
  record.lease.secret_hash = std::string(64, 'a');
  record.lease.bytes = 1'000 + i;
  record.lease.epoch = i;
  record.request_id = absl::StrCat("request-", i);
  return record;
}

std::unique_ptr<Journal> Open(const std::string& path) {
  auto journal = Journal::Open(path, Now);
  PLIMSOLL_CHECK(journal.ok(), "one process has the journal, by one name");
  return *std::move(journal);
}

// The bytes of a sound journal with some leases.
std::string SoundJournal(const Folder& folder) {
  const std::string path = folder.File("leases.db");
  {
    const auto journal = Open(path);
    for (int i = 1; i <= kLeases; ++i) {
      PLIMSOLL_CHECK(journal->Write(Record(i), i + 1).ok(),
                     "it can be written");
    }
  }
  std::string bytes = BytesOf(path);
  folder.Empty();
  return bytes;
}

// The sound journal with changes: places of two bytes, each with a new byte.
std::string Changed(std::string journal, absl::string_view changes) {
  for (size_t i = 0; i + 2 < changes.size(); i += 3) {
    const size_t place = static_cast<uint8_t>(changes[i]) * size_t{256} +
                         static_cast<uint8_t>(changes[i + 1]);
    journal[place % journal.size()] = changes[i + 2];
  }
  return journal;
}

// Writes what the first byte says: a whole file, a sound file with changes, or
// a log beside a sound file.
void WriteFiles(absl::string_view input, const std::string& sound,
                const std::string& path) {
  const int mode = input.empty() ? 0 : static_cast<uint8_t>(input[0]) % 3;
  const absl::string_view rest = input.substr(input.empty() ? 0 : 1);
  Write(path, mode == 0   ? std::string(rest)
              : mode == 1 ? Changed(sound, rest)
                          : sound);
  if (mode == 2) Write(path + "-wal", rest);
}

bool Has(const planner::LeaseImage& image, const std::string& id) {
  return std::any_of(image.records.begin(), image.records.end(),
                     [&id](const planner::LeaseRecord& record) {
                       return record.lease.id == id;
                     });
}

// Starts a planner with the journal and grants a lease. Returns whether that
// was written.
bool StartPlanner(const std::string& path) {
  const auto journal = Open(path);
  planner::LeaseBook book;
  PLIMSOLL_CHECK(book.Restore(journal->image(), Now()).ok(),
                 "a book takes every image of a journal");
  planner::LeaseRecord record = Record(kLeases + 1);
  record.lease.id = "granted";
  record.lease.epoch = journal->image().next_epoch;
  // Such a book grants nothing.
  if (record.lease.epoch >= planner::LeaseBook::kMaxEpoch) return false;
  const bool is_written = journal->Write(record, record.lease.epoch + 1).ok();
  PLIMSOLL_CHECK(is_written || !journal->can_write(),
                 "a journal that does not write says so");
  return is_written;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder folder;
  static const std::string sound = SoundJournal(folder);
  const std::string path = folder.File("leases.db");
  WriteFiles({reinterpret_cast<const char*>(data), size}, sound, path);
  if (StartPlanner(path)) {
    PLIMSOLL_CHECK(Has(Open(path)->image(), "granted"),
                   "what was written is read");
  }
  folder.Empty();
  return 0;
}
