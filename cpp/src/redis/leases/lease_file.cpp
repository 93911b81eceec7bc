#include "redis/leases/lease_file.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "shared_memory/attachments.hpp"

namespace overlimit::redis {

using shared_memory::Attachment;
using shared_memory::Attachments;

LeaseFile::~LeaseFile() {
  if (Attachment* const attachment = attachment_.load()) Attachments::release(*attachment);
}

namespace {

std::string identity_of(const char* path) {
  struct stat status {};
  return ::stat(path, &status) == 0 ? std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino)
                                    : "";
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

// Containers may share the file, and call different servers the same: by sockets of theirs, and localhost.
std::string here(const Location& location) {
  constexpr const char* kNetwork = "/proc/self/ns/net";
  const auto of_hosts = [&](const std::vector<HostPort>& hosts) {
    const bool is_any_here =
        std::ranges::any_of(hosts, [](const HostPort& each) { return is_loopback(each.host); });
    return is_any_here ? identity_of(kNetwork) : "";
  };
  if (const auto* endpoint = std::get_if<Endpoint>(&location)) {
    if (!endpoint->unix_path.empty()) return identity_of(endpoint->unix_path.c_str());
    return of_hosts({{endpoint->host, endpoint->port}});
  }
  if (const auto* sentinels = std::get_if<SentinelLocation>(&location)) return of_hosts(sentinels->sentinels);
  return of_hosts(std::get<ClusterLocation>(location).seeds);
}

}  // namespace

bool LeaseFile::name(const LeaseIn& file, const Location& location, std::string keyspace) {
  const std::lock_guard lock(naming_);
  if (state_.load() != State::none) return file.name_or_path == file_.name_or_path;
  file_ = file;
  location_ = location;
  keyspace_ = std::move(keyspace);
  state_.store(State::named);
  return true;
}

// Not under a lock: what is warned may wait for another thread.
void LeaseFile::open_it() {
  try {
    constexpr shared_memory::Sizes kSizes{HostLeases::kBuckets * HostLeases::kBucketSize,
                                          sizeof(HostLeases::Head)};
    const std::string path = shared_memory::path_of(file_.name_or_path, HostLeases::kFiles);
    {
      const std::lock_guard lock(naming_);
      if (location_) keyspace_ += " " + here(*std::exchange(location_, std::nullopt));
    }
    keep(Attachments::open_or_create(HostLeases::kFiles, path, file_.mode, kSizes));
  } catch (const StoreConfigError& error) {
    warn(error);
  }
}

void LeaseFile::keep_open() {
  open();
  Attachment* const known = attachment_.load(std::memory_order_acquire);
  if (known == nullptr) return;
  known->look_for_descriptor();
  if (known->is_own()) return known->view<HostLeases>().enter(keyspace_);
  try {
    Attachment& own =
        Attachments::renewed(*known, shared_memory::path_of(file_.name_or_path, HostLeases::kFiles));
    attachment_.store(&own);
    own.view<HostLeases>().enter(keyspace_);
  } catch (const StoreConfigError& error) {
    warn(error);
  }
}

void LeaseFile::warn(const StoreConfigError& error) {
  if (state_.exchange(State::failed) == State::failed || !file_.warn) return;
  file_.warn(std::string("each process leases for itself, as lease_in cannot be used: ") + error.what());
}

HostLeases* LeaseFile::leases() {
  Attachment* const attachment = attachment_.load(std::memory_order_acquire);
  return attachment == nullptr || state_.load(std::memory_order_relaxed) == State::failed
             ? nullptr
             : &attachment->view<HostLeases>();
}

bool LeaseFile::leave() {
  Attachment* const attachment = attachment_.load();
  if (attachment == nullptr || !attachment->is_own()) return true;
  const auto& processes = attachment->processes();
  auto& leases = attachment->view<HostLeases>();
  leases.leave(keyspace_);
  const std::size_t own = processes.own() % shared_memory::kMostProcesses;
  for (std::size_t slot = 0; slot < shared_memory::kMostProcesses; ++slot) {
    if (slot != own && processes.is_attached(slot) && leases.leases_from(keyspace_, slot)) return false;
  }
  return true;
}

void LeaseFile::keep(Attachment& opened) {
  Attachment* known = nullptr;
  if (!attachment_.compare_exchange_strong(known, &opened)) Attachments::release(opened);
  State named = State::named;
  state_.compare_exchange_strong(named, State::open);
  leases()->enter(keyspace_);
}

}  // namespace overlimit::redis
