// The store on a system that lacks what it needs: it says so when it is made, and what to use instead.
#include "overlimit/shared_memory_store.hpp"
#include "shared_memory/attachments.hpp"

namespace overlimit {
namespace {

[[noreturn]] void refuse() {
  throw StoreConfigError(
      "shared memory needs locks of open file descriptions, by which processes notice that another one has "
      "died, and is there on Linux only: use Redis on a unix socket, such as "
      "'unix:///run/redis.sock', or memory:// if there is one process");
}

}  // namespace

class SharedMemoryStore::Impl {};

SharedMemoryStore::SharedMemoryStore(Options options) : TableStore(options.timeout) { refuse(); }
SharedMemoryStore::~SharedMemoryStore() = default;

// Of a store that cannot be made, nobody asks anything.
Duration SharedMemoryStore::ping(std::optional<Duration> /*timeout*/, const Interrupted& /*interrupted*/) {
  refuse();
}
bool SharedMemoryStore::is_same_as(const Store& /*other*/) const { refuse(); }
void SharedMemoryStore::unlink() { refuse(); }
std::size_t SharedMemoryStore::size() { refuse(); }
MemoryUsage SharedMemoryStore::usage() { refuse(); }
std::uint64_t SharedMemoryStore::crowded_calls() { refuse(); }
std::size_t SharedMemoryStore::damaged_shards() { refuse(); }
SharedMemoryStore::Processes SharedMemoryStore::processes() { refuse(); }
bool SharedMemoryStore::is_unlinked() { refuse(); }
std::size_t SharedMemoryStore::shards() { refuse(); }
std::size_t SharedMemoryStore::copy_keys(std::size_t /*shard*/, std::size_t /*below*/,
                                         std::size_t /*buckets*/, std::vector<KeptKey>& /*keys*/,
                                         const Interrupted& /*interrupted*/) {
  refuse();
}
std::optional<KeptKey> SharedMemoryStore::copy_key(const PolicyIdentity& /*policy*/,
                                                   std::string_view /*identifier*/,
                                                   const Interrupted& /*interrupted*/) {
  refuse();
}
std::optional<KeptKey> SharedMemoryStore::copy_key(const KeptKey::Hash& /*hash*/,
                                                   const Interrupted& /*interrupted*/) {
  refuse();
}
void SharedMemoryStore::reset_key(const KeptKey::Hash& /*hash*/, const Interrupted& /*interrupted*/) {
  refuse();
}
void SharedMemoryStore::lock_key(const KeptKey::Hash& /*hash*/, Duration /*duration*/,
                                 const Interrupted& /*interrupted*/) {
  refuse();
}
void SharedMemoryStore::unlock_key(const KeptKey::Hash& /*hash*/, const Interrupted& /*interrupted*/) {
  refuse();
}
const SharedMemoryStore::Options& SharedMemoryStore::options() const { refuse(); }
std::string SharedMemoryStore::path() const { refuse(); }
table::Table& SharedMemoryStore::table() { refuse(); }

// Nor has anybody an attachment.
namespace shared_memory {

std::string path_of(const std::string& /*name_or_path*/, const FileKind& /*kind*/) { refuse(); }
bool Mapping::has_descriptor() const noexcept { return false; }
bool ProcessSlots::is_attached(std::size_t /*slot*/) const { return false; }
Attachment& Attachments::open_or_create(const FileKind& /*kind*/, const std::string& /*path*/,
                                        mode_t /*mode*/, const Sizes& /*sizes*/) {
  refuse();
}
Attachment& Attachments::renewed(Attachment& old, const std::string& /*path*/) { return old; }
void Attachments::release(Attachment& /*attachment*/) {}

}  // namespace shared_memory

}  // namespace overlimit
