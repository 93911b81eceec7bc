# Language level, warnings and sanitizers, carried by the interface target overlimit_options.
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

option(OVERLIMIT_WERROR "Treat warnings as errors" OFF)
find_package(Threads REQUIRED)

add_library(overlimit_options INTERFACE)
target_compile_features(overlimit_options INTERFACE cxx_std_20)
# No FMA contraction: the doubles of the engine and of Lua must be the same doubles. No vectors of a few numbers
# that lie side by side: a processor waits to load at once what it has just stored one by one.
target_compile_options(overlimit_options INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -ffp-contract=off -fno-tree-slp-vectorize)
if(OVERLIMIT_PORTABLE)
  target_compile_definitions(overlimit_options INTERFACE OVERLIMIT_PORTABLE)
endif()
if(OVERLIMIT_WERROR)
  # Optimizing, GCC 12 takes an empty std::optional for one that is read, and strings that are put together for memory
  # that overlaps.
  set(mistaken "-Wno-maybe-uninitialized;-Wno-restrict")
  target_compile_options(overlimit_options INTERFACE -Werror "$<$<CXX_COMPILER_ID:GNU>:${mistaken}>")
endif()
if(OVERLIMIT_SANITIZE)
  target_compile_options(overlimit_options INTERFACE
    -fsanitize=${OVERLIMIT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(overlimit_options INTERFACE -fsanitize=${OVERLIMIT_SANITIZE})
endif()
