#include "services/host/runtime/runtime_key.h"

#include <elf.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "services/host/runtime/runtime_store.h"
#include "worker/device/host_resources.h"

namespace plimsoll::services {
namespace {

constexpr size_t kMaxSegments = 256;       // segments of a program's file
constexpr uint64_t kMaxNoteBytes = 65536;  // notes of one segment

// Reads `n` bytes of the file from `offset`; fewer at its end.
std::string ReadAt(std::ifstream& file, uint64_t offset, uint64_t n) {
  std::string bytes(n, '\0');
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(bytes.data(), static_cast<std::streamsize>(n));
  bytes.resize(static_cast<size_t>(
      std::max<std::streamsize>(file.gcount(), std::streamsize{0})));
  return bytes;
}

// Reads a plain struct from the start of `bytes`, if they are long enough.
template <typename T>
std::optional<T> As(absl::string_view bytes) {
  if (bytes.size() < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

// Finds the build id among the notes of a segment. Names and descriptions are
// padded to 4 bytes. Source: elf(5).
std::string BuildIdIn(absl::string_view notes) {
  const auto padded = [](size_t n) { return (n + 3) / 4 * 4; };
  while (const auto note = As<Elf64_Nhdr>(notes)) {
    notes.remove_prefix(sizeof(*note));
    const size_t name_bytes = padded(note->n_namesz);
    if (notes.size() < name_bytes ||
        notes.size() - name_bytes < note->n_descsz) {
      return "";
    }
    const absl::string_view name = notes.substr(0, note->n_namesz);
    const absl::string_view text = notes.substr(name_bytes, note->n_descsz);
    if (note->n_type == NT_GNU_BUILD_ID &&
        name == absl::string_view("GNU\0", 4)) {
      return absl::BytesToHexString(text.substr(0, 32));
    }
    notes.remove_prefix(
        std::min(notes.size(), name_bytes + padded(note->n_descsz)));
  }
  return "";
}

}  // namespace

std::string BuildIdOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const auto header = As<Elf64_Ehdr>(ReadAt(file, 0, sizeof(Elf64_Ehdr)));
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_phentsize != sizeof(Elf64_Phdr)) {
    return "";
  }
  const size_t n = std::min<size_t>(header->e_phnum, kMaxSegments);
  for (size_t i = 0; i < n; ++i) {
    const auto segment = As<Elf64_Phdr>(ReadAt(
        file, header->e_phoff + i * sizeof(Elf64_Phdr), sizeof(Elf64_Phdr)));
    if (!segment || segment->p_type != PT_NOTE) continue;
    std::string id =
        BuildIdIn(ReadAt(file, segment->p_offset,
                         std::min<uint64_t>(segment->p_filesz, kMaxNoteBytes)));
    if (!id.empty()) return id;
  }
  return "";
}

planner::RuntimeKey RuntimeKeyOf(const planner::DeviceProfile& device,
                                 const std::string& program) {
  planner::RuntimeKey key;
  key.device = absl::StrCat(device.kind, " ", device.name);
  utsname system{};
  if (uname(&system) == 0) {
    key.driver = absl::StrCat(system.sysname, " ", system.release);
  }
  std::string id = BuildIdOf(program);
  if (id.empty()) {
    // This key is weaker, but another program hardly has the same one.
    std::error_code error;
    id = absl::StrCat("bytes-", std::filesystem::file_size(program, error));
  }
  key.build = absl::StrCat(PLIMSOLL_VERSION, " ", id);
  for (std::string* field : {&key.device, &key.driver, &key.build}) {
    if (field->size() > planner::RuntimeKey::kMaxFieldBytes) {
      field->resize(planner::RuntimeKey::kMaxFieldBytes);
    }
  }
  return key;
}

std::string OwnProgram() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

std::string InstalledWorker() {
  return (std::filesystem::path(OwnProgram()).parent_path() / "plimsoll-worker")
      .string();
}

planner::DeviceProfile LocalProfile(const planner::RuntimeLoad& load) {
  planner::DeviceProfile profile = worker::LocalCpuProfile();
  const auto measured = RuntimeStore(DefaultProfileFolder())
                            .Read(RuntimeKeyOf(profile, InstalledWorker()));
  const bool is_there = measured.ok() && measured->has_value();
  planner::ApplyRuntime(is_there ? &**measured : nullptr, load, profile);
  return profile;
}

}  // namespace plimsoll::services
