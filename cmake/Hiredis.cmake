# Hiredis::hiredis: the hiredis C library, of which only the reply reader is used: the system's, or compiled in from its
# sources, as in a wheel.
set(OVERLIMIT_HIREDIS_SOURCE "" CACHE PATH "A folder with hiredis/, its sources, to compile in (scripts/fetch-hiredis)")
if(OVERLIMIT_HIREDIS_SOURCE)
  enable_language(C)
  get_filename_component(hiredis "${OVERLIMIT_HIREDIS_SOURCE}" ABSOLUTE BASE_DIR "${PROJECT_SOURCE_DIR}")
  add_library(hiredis_reader STATIC "${hiredis}/hiredis/alloc.c" "${hiredis}/hiredis/read.c" "${hiredis}/hiredis/sds.c")
  target_include_directories(hiredis_reader SYSTEM INTERFACE "${hiredis}")
  set_target_properties(hiredis_reader PROPERTIES C_VISIBILITY_PRESET hidden)
  add_library(Hiredis::hiredis ALIAS hiredis_reader)
  file(STRINGS "${hiredis}/hiredis/hiredis.h" lines REGEX "^#define HIREDIS_(MAJOR|MINOR|PATCH) [0-9]+$")
  string(REGEX MATCHALL "[0-9]+" version "${lines}")
  list(JOIN version "." version)
  overlimit_add_component(hiredis "${version}" BSD-3-Clause "pkg:github/redis/hiredis@v${version}" "${hiredis}/hiredis/COPYING")
  return()
endif()

include(FindPackageHandleStandardArgs)

find_path(Hiredis_INCLUDE_DIR hiredis/read.h HINTS ${HIREDIS_ROOT} PATH_SUFFIXES include)
find_library(Hiredis_LIBRARY NAMES hiredis HINTS ${HIREDIS_ROOT} PATH_SUFFIXES lib lib64)
find_package_handle_standard_args(Hiredis NAME_MISMATCHED
  REQUIRED_VARS Hiredis_LIBRARY Hiredis_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "
overlimit's Redis store needs the hiredis C library and its headers.
  Debian/Ubuntu:  apt-get install libhiredis-dev
  Fedora/RHEL:    dnf install hiredis-devel
  Alpine:         apk add hiredis-dev
  macOS:          brew install hiredis
or point to a prefix:
  pip install . -Ccmake.define.HIREDIS_ROOT=/opt/hiredis
or build without Redis:
  pip install . -Ccmake.define.OVERLIMIT_REDIS=OFF
")
if(NOT Hiredis_FOUND)
  message(FATAL_ERROR "hiredis is missing (see above)")
endif()
if(NOT TARGET Hiredis::hiredis)
  add_library(Hiredis::hiredis UNKNOWN IMPORTED)
  set_target_properties(Hiredis::hiredis PROPERTIES
    IMPORTED_LOCATION "${Hiredis_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${Hiredis_INCLUDE_DIR}")
endif()
