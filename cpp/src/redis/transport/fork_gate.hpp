// Keeps fork() out of OpenSSL's calls.
#pragma once

namespace overlimit::redis::transport {

/// OpenSSL has locks of its own, which nobody would ever release in a child if another thread held them at
/// the fork. Whoever calls OpenSSL makes one of these around the call; fork() waits until there is none, and
/// those who come meanwhile wait for it. So nothing in its scope may wait or fork. Scopes may be nested.
/// Thread-safe.
class OutsideForks {
 public:
  /// Throws std::bad_alloc, the first time.
  OutsideForks();
  OutsideForks(const OutsideForks&) = delete;
  OutsideForks& operator=(const OutsideForks&) = delete;
  ~OutsideForks();
};

}  // namespace overlimit::redis::transport
