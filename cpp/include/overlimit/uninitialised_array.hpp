// An array whose values are made one by one, and not before: a call pays only for those it uses.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace overlimit {

template <class T, std::size_t Capacity>
class UninitialisedArray {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  template <class... Arguments>
  T& emplace(std::size_t place, Arguments&&... arguments) {
    return *std::construct_at(data() + place, T{std::forward<Arguments>(arguments)...});
  }
  [[nodiscard]] T* data() { return reinterpret_cast<T*>(bytes_); }
  [[nodiscard]] const T* data() const { return reinterpret_cast<const T*>(bytes_); }
  T& operator[](std::size_t place) { return data()[place]; }
  const T& operator[](std::size_t place) const { return data()[place]; }

 private:
  alignas(T) std::byte bytes_[Capacity * sizeof(T)];
};

}  // namespace overlimit
