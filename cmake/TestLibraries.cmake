# GTest::gtest_main and nlohmann_json::nlohmann_json: those of this machine, or for another one made of their sources,
# with no other header of this machine in sight.
if(NOT CMAKE_CROSSCOMPILING)
  find_package(GTest REQUIRED)
  find_package(nlohmann_json REQUIRED)
  return()
endif()

if(TARGET GTest::gtest)
  return()
endif()
set(BUILD_GMOCK OFF)
set(INSTALL_GTEST OFF)
add_subdirectory(/usr/src/googletest "${CMAKE_BINARY_DIR}/googletest" EXCLUDE_FROM_ALL)

if(CMAKE_CROSSCOMPILING_EMULATOR)
  target_compile_definitions(gtest PUBLIC OVERLIMIT_EMULATED)
endif()
# Zig 0.17 leaves these out of the headers of macOS.
if(CMAKE_SYSTEM_NAME STREQUAL "Darwin")
  target_compile_definitions(gtest PUBLIC FLT_MAX=__FLT_MAX__ DBL_MAX=__DBL_MAX__)
endif()
# The allocator that Zig links in with musl leaves its locks to a forked child as they were.
target_compile_definitions(gtest PUBLIC OVERLIMIT_ZIG_ALLOCATOR)

file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/headers")
file(CREATE_LINK /usr/include/nlohmann "${CMAKE_BINARY_DIR}/headers/nlohmann" SYMBOLIC)
add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED)
target_include_directories(nlohmann_json::nlohmann_json INTERFACE "${CMAKE_BINARY_DIR}/headers")
