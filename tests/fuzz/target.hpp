// What a fuzzer searches: a parser of bytes that others have written, and what must hold whatever they are.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace overlimit::fuzz {

struct Target {
  /// Reads any bytes. Throws BrokenPromise when something doesn't hold that must.
  void (*run)(std::string_view input);
  /// What real peers write: where a search begins.
  std::vector<std::string> (*samples)();
};

/// All of them by name.
inline std::map<std::string, Target>& targets() {
  static std::map<std::string, Target> all;
  return all;
}

/// Adds one, as a static object in the file of the target.
struct Registration {
  Registration(const char* name, Target target) { targets().emplace(name, target); }
};

class BrokenPromise : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

inline void check(bool holds, const char* promise) {
  if (!holds) throw BrokenPromise(promise);
}

/// An input taken apart from its front; zeros follow its end.
class Bytes {
 public:
  explicit Bytes(std::string_view rest) : rest_(rest) {}

  template <class Number>
  Number take() {
    Number number{};
    const std::string_view part = text(sizeof number);
    if (!part.empty()) std::memcpy(&number, part.data(), part.size());
    return number;
  }
  /// At most so many bytes.
  std::string_view text(std::size_t size) {
    const std::string_view part = rest_.substr(0, size);
    rest_.remove_prefix(part.size());
    return part;
  }
  /// From zero to `most`.
  std::size_t number_up_to(std::size_t most) { return take<std::uint8_t>() % (most + 1); }
  [[nodiscard]] std::string_view rest() const { return rest_; }
  [[nodiscard]] bool is_empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

}  // namespace overlimit::fuzz
