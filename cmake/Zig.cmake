# A toolchain file for the clang of the Python package ziglang, which compiles for other systems and for older C libraries
# than those of the machine it runs on, with a C++ library of its own linked in.
#   cmake --toolchain cmake/Zig.cmake -DZIG=PROGRAM -DOVERLIMIT_TARGET=x86_64-linux-gnu.2.28
set(ZIG "$ENV{ZIG}" CACHE FILEPATH "The program zig, by default as the environment says")
set(OVERLIMIT_TARGET "x86_64-linux-gnu.2.28" CACHE STRING "Processor, system and C library to compile for, as Zig names them")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ZIG OVERLIMIT_TARGET)

if(OVERLIMIT_TARGET MATCHES "linux")
  set(OVERLIMIT_LINKS_CXX_LIBRARY ON)
endif()
if(NOT OVERLIMIT_TARGET MATCHES "^${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu")
  string(REGEX MATCH "^[^-]+" CMAKE_SYSTEM_PROCESSOR "${OVERLIMIT_TARGET}")
  set(CMAKE_SYSTEM_NAME Linux)
  if(OVERLIMIT_TARGET MATCHES "macos")
    set(CMAKE_SYSTEM_NAME Darwin)
    set(CMAKE_INSTALL_NAME_TOOL true)  # nothing is installed
  endif()
endif()

# A tool is a program of its own, since CMake and ccache know one by its path. Its text is the same in all builds, so that
# ccache takes it for the same compiler.
function(zig_tool name command)
  set(path "${CMAKE_BINARY_DIR}/zig/${name}")
  file(CONFIGURE OUTPUT "${path}" @ONLY CONTENT "#!/bin/sh\nexec '@ZIG@' @command@ \"$@\"\n")
  file(CHMOD "${path}" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  foreach(variable IN LISTS ARGN)
    set(${variable} "${path}" CACHE FILEPATH "" FORCE)
  endforeach()
endfunction()

# Threads that the C library ends are unwound by its libgcc_s, which every Python on it has, so that must be what unwinds here
# too, and not a copy of LLVM's that is linked in.
if(OVERLIMIT_TARGET MATCHES "linux-gnu")
  execute_process(COMMAND cc -print-file-name=libgcc_s.so.1 OUTPUT_VARIABLE libgcc OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(CMAKE_MODULE_LINKER_FLAGS_INIT "${libgcc} -s")
endif()

zig_tool(clang "cc -target ${OVERLIMIT_TARGET}" CMAKE_C_COMPILER)
zig_tool(clang++ "c++ -target ${OVERLIMIT_TARGET}" CMAKE_CXX_COMPILER)
zig_tool(llvm-ar ar CMAKE_AR CMAKE_C_COMPILER_AR CMAKE_CXX_COMPILER_AR)
zig_tool(llvm-ranlib ranlib CMAKE_RANLIB CMAKE_C_COMPILER_RANLIB CMAKE_CXX_COMPILER_RANLIB)
