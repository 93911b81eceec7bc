// libFuzzer's side: the environment variable FUZZ_TARGET names what it searches.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "target.hpp"

namespace overlimit::fuzz {
namespace {

const Target& chosen() {
  const char* const name = std::getenv("FUZZ_TARGET");
  return targets().at(name == nullptr ? "" : name);
}

}  // namespace
}  // namespace overlimit::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const overlimit::fuzz::Target& target = overlimit::fuzz::chosen();
  target.run({reinterpret_cast<const char*>(data), size});
  return 0;
}
