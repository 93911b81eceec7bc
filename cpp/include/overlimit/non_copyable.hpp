// The base of what holds something while it lives: it is neither copied nor moved.
#pragma once

namespace overlimit {

class NonCopyable {
 public:
  NonCopyable(const NonCopyable&) = delete;
  NonCopyable& operator=(const NonCopyable&) = delete;

 protected:
  NonCopyable() = default;
};

}  // namespace overlimit
