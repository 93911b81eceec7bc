# What is compiled into the extension and is not overlimit's, as a wheel lists it for scanners: a CycloneDX file in its
# metadata (.dist-info/sboms), and the licences (.dist-info/licenses).

# overlimit_add_component(name version licence purl [file]): lists a component, and installs the file of its licence.
function(overlimit_add_component name version licence purl)
  string(APPEND component "    {\n"
    "      \"type\": \"library\",\n      \"bom-ref\": \"${name}\",\n      \"name\": \"${name}\",\n"
    "      \"version\": \"${version}\",\n      \"purl\": \"${purl}\",\n"
    "      \"licenses\": [{\"expression\": \"${licence}\"}]\n    }")
  set_property(GLOBAL APPEND PROPERTY OVERLIMIT_COMPONENTS "${component}")
  set_property(GLOBAL APPEND PROPERTY OVERLIMIT_COMPONENT_NAMES "\"${name}\"")
  if(SKBUILD AND ARGN)
    install(FILES "${ARGN}" DESTINATION "${SKBUILD_METADATA_DIR}/licenses" RENAME "${name}.txt" COMPONENT python)
  endif()
endfunction()

# Lists the C++ library where it is linked in, as by Zig (elsewhere it is the system's).
function(overlimit_add_cxx_library)
  if(NOT OVERLIMIT_LINKS_CXX_LIBRARY)
    return()
  endif()
  file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/cxx_library.cpp" "#include <version>\n_LIBCPP_VERSION\n")
  execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -E -P "${CMAKE_CURRENT_BINARY_DIR}/cxx_library.cpp"
    OUTPUT_VARIABLE number COMMAND_ERROR_IS_FATAL ANY OUTPUT_STRIP_TRAILING_WHITESPACE)
  string(REGEX MATCH "[0-9]+$" number "${number}")  # 210107 is 21.1.7
  math(EXPR major "${number} / 10000")
  math(EXPR minor "${number} / 100 % 100")
  math(EXPR patch "${number} % 100")
  set(version "${major}.${minor}.${patch}")
  foreach(library libcxx libcxxabi)
    overlimit_add_component(${library} ${version} "Apache-2.0 WITH LLVM-exception"
      "pkg:github/llvm/llvm-project@llvmorg-${version}#${library}")
  endforeach()
endfunction()

# Installs the list, of everything added before.
function(overlimit_install_sbom)
  if(NOT SKBUILD)
    return()
  endif()
  get_property(components GLOBAL PROPERTY OVERLIMIT_COMPONENTS)
  get_property(names GLOBAL PROPERTY OVERLIMIT_COMPONENT_NAMES)
  list(JOIN components ",\n" components)
  list(JOIN names ", " names)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/sbom.cdx.json.in" overlimit.cdx.json @ONLY)
  install(FILES "${CMAKE_CURRENT_BINARY_DIR}/overlimit.cdx.json" DESTINATION "${SKBUILD_METADATA_DIR}/sboms" COMPONENT python)
endfunction()
