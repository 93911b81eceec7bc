#include "shared_memory/process_slots.hpp"

#include <fcntl.h>
#include <unistd.h>

namespace overlimit::shared_memory {
namespace {

// A holder is a generation, which is never 0, and behind it a slot.
constexpr unsigned kSlotBits = std::bit_width(kMostProcesses - 1);
constexpr std::uint32_t kGenerations = std::uint32_t{1} << (31 - kSlotBits);

struct flock lock_of(std::size_t slot) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(slot);
  lock.l_len = 1;
  return lock;
}

}  // namespace

ProcessSlots::ProcessSlots(int fd, std::span<ProcessSlot> slots)
    : fd_(fd), file_(FileId::of(fd)), slots_(slots), fork_generation_(fork_generation()) {
  // Processes that start at once begin their search at different places.
  const auto first = static_cast<std::size_t>(::getpid());
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (try_to_take((first + i) % slots_.size())) return;
  }
  throw StoreConfigError("more than " + std::to_string(slots_.size()) +
                         " processes use the same shared memory at once, which is the most there can be");
}

bool ProcessSlots::try_to_take(std::size_t slot) {
  struct flock lock = lock_of(slot);
  if (::fcntl(fd_, F_OFD_SETLK, &lock) != 0) return false;
  const std::uint32_t generation = slots_[slot].generation.load() % (kGenerations - 1) + 1;
  slots_[slot].generation.store(generation);
  slots_[slot].is_used.store(1);
  slot_ = slot;
  own_ = generation << kSlotBits | static_cast<std::uint32_t>(slot);
  return true;
}

ProcessSlots::~ProcessSlots() {
  if (fork_generation_ != fork_generation()) return;
  if (slots_[slot_].generation.load() != own() >> kSlotBits) return;  // it was taken for dead
  slots_[slot_].is_used.store(0);
  struct flock lock = lock_of(slot_);
  lock.l_type = F_UNLCK;
  ::fcntl(fd_, F_OFD_SETLK, &lock);
}

bool ProcessSlots::has_ended(std::uint32_t holder) const {
  if (holder == own_) return false;
  const std::size_t slot = holder & (kMostProcesses - 1);
  return slots_[slot].generation.load() != holder >> kSlotBits || !is_alive(slot);
}

// Whose descriptor was closed, and leads elsewhere now, cannot tell.
bool ProcessSlots::is_alive(std::size_t slot) const {
  if (slot == slot_ || FileId::of(fd_) != file_) return true;
  struct flock lock = lock_of(slot);
  return ::fcntl(fd_, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

bool ProcessSlots::is_attached(std::size_t slot) const { return slots_[slot].is_used != 0 && is_alive(slot); }

std::size_t ProcessSlots::attached() const {
  return std::size_t(
      std::ranges::count_if(slots_, [](const ProcessSlot& slot) { return slot.is_used != 0; }));
}

std::size_t ProcessSlots::alive() const {
  std::size_t count = 0;
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    if (is_attached(slot)) ++count;
  }
  return count;
}

}  // namespace overlimit::shared_memory
