#include "counters.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>

#include "functions.hpp"
#include "hooks.hpp"
#include "module.hpp"
#include "overlimit/forks.hpp"
#include "overlimit/non_copyable.hpp"

namespace overlimit::python {
namespace {

constexpr std::size_t kSlots = 2048;
constexpr std::size_t kKinds = 3;
constexpr std::size_t kLargestPage = 64 << 10;
constexpr std::size_t kBytes = kSlots * sizeof(CounterSlot);
static_assert(sizeof(CounterSlot) == 512 && kBytes % kLargestPage == 0);

ForkSafeMutex mutex;                   // guards the next two
std::size_t used = 0;                  // slots
CounterSlot* counter_slots = nullptr;  // at an address that stays; nullptr: there are none yet
std::atomic<bool> is_file = false;     // whether a file has taken the place of private memory

std::atomic<bool> wants_file = false;         // from the first file on, in forked children, too
std::atomic<std::uint64_t> looked_after = 0;  // the number of forks before a file was last asked for

std::unordered_map<std::string, std::size_t>& places() {
  static auto* const found = new std::unordered_map<std::string, std::size_t>();
  return *found;
}

void* private_memory(void* at, std::size_t bytes) noexcept {
  const int fixed = at == nullptr ? 0 : MAP_FIXED;
  return ::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
}

void clear_numbers(void* from, std::size_t bytes) noexcept {
  auto* const first = static_cast<CounterSlot*>(from);
  for (std::size_t i = 0; i < bytes / sizeof(CounterSlot); ++i) first[i].numbers = {};
}

/// A child counts from zero, and never in the file of its parent. Page by page, as it must not allocate.
void start_anew_in_child() noexcept {
  static std::array<std::byte, kLargestPage> copy;
  const std::size_t in_use = used * sizeof(CounterSlot);
  for (std::size_t at = 0; is_file && at < kBytes; at += kLargestPage) {
    void* const page = reinterpret_cast<std::byte*>(counter_slots) + at;
    if (at < in_use) std::memcpy(copy.data(), page, kLargestPage);
    if (private_memory(page, kLargestPage) == MAP_FAILED) std::abort();
    if (at < in_use) std::memcpy(page, copy.data(), kLargestPage);
  }
  is_file = false;
  clear_numbers(counter_slots, in_use);
}

bool has_memory() {
  if (counter_slots != nullptr) return true;
  void* const memory = private_memory(nullptr, kBytes);
  if (memory == MAP_FAILED) return false;
  counter_slots = static_cast<CounterSlot*>(memory);
  call_in_children(start_anew_in_child);
  return true;
}

std::string key_of(SlotKind kind, std::string_view label, std::string_view limit) {
  std::string key{static_cast<char>(kind)};
  key.append("\t").append(label);
  if (kind == SlotKind::limit) key.append("\t").append(limit);
  return key.substr(0, CounterSlot::kKeyBytes - 1);
}

CounterSlot& new_slot(const std::string& key) {
  CounterSlot& slot = counter_slots[used];
  places()[key] = used;
  ++used;
  std::copy(key.begin() + 1, key.end(), slot.key.begin() + 1);
  __atomic_store_n(slot.key.data(), key[0], __ATOMIC_RELEASE);
  return slot;
}

/// With the lock held: the slot of a key that is there, or for which there is room besides those of all
/// others.
CounterSlot* slot_with(const std::string& key, std::size_t room) {
  const auto found = places().find(key);
  if (found != places().end()) return &counter_slots[found->second];
  return used < room ? &new_slot(key) : nullptr;
}

/// Python's bytes: the slots in use.
PyObject* counters(PyObject*) {
  const std::lock_guard lock(mutex);
  return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(counter_slots),
                                   Py_ssize_t(used * sizeof(CounterSlot)));
}

/// Writing to a page for which the disk has no room would end the process.
bool has_room(int fd) {
#ifdef __linux__
  errno = ::posix_fallocate(fd, 0, kBytes);
  return errno == 0;
#else
  return ::ftruncate(fd, kBytes) == 0;
#endif
}

// Without the GIL, what others count between the copy and the mapping is lost.
bool take_file(int fd) {
  const std::lock_guard lock(mutex);
  if (!has_memory()) return false;
  const auto in_use = used * sizeof(CounterSlot);
  if (::pwrite(fd, counter_slots, in_use, 0) != ssize_t(in_use)) return false;
  if (::mmap(counter_slots, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
    return false;
  is_file = true;
  wants_file = true;
  looked_after = fork_generation();
  return true;
}

/// A file that is open for as long as this lives.
class OpenedFile : NonCopyable {
 public:
  explicit OpenedFile(PyObject* path) {
    PyObject* bytes = nullptr;
    if (PyUnicode_FSConverter(path, &bytes) == 0) throw PythonError{};
    const Object kept = Object::steal(bytes);
    fd_ = ::open(PyBytes_AS_STRING(bytes), O_RDWR | O_CLOEXEC);
  }
  ~OpenedFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_ = -1;
};

void count_in(PyObject*, PyObject* path) {
  const OpenedFile file(path);
  if (file.get() >= 0 && has_room(file.get()) && take_file(file.get())) return;
  PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, path);
  throw PythonError{};
}

PyMethodDef counter_functions[] = {
    method<counters>(
        "_counters",
        "_counters()\n--\n\nReturn what was counted for metrics in this process, as bytes of 512 "
        "for each slot: a key of\n256, padded with NULs, and 32 numbers."),
    method<count_in>(
        "_count_in",
        "_count_in(path, /)\n--\n\nHave a file that exists hold the counters of this process, as "
        "_counters() returns them, from now on.")};

}  // namespace

CounterSlot& lost_counters() {
  static CounterSlot lost;
  return lost;
}

CounterSlot& slot_of(SlotKind kind, std::string_view label, std::string_view limit) {
  const std::lock_guard lock(mutex);
  if (!has_memory()) return lost_counters();
  if (CounterSlot* const own = slot_with(key_of(kind, label, limit), kSlots - kKinds)) return *own;
  return *slot_with(key_of(kind, kOther, kOther), kSlots);
}

void open_counters_file() {
  const std::uint64_t now = fork_generation();
  if (!wants_file || looked_after.exchange(now) == now) return;
  call_hook("open_counters_file");
}

void add_counters(PyObject* module) { add_functions(module, counter_functions); }

}  // namespace overlimit::python
