# overlimit_embed_lua(target dir): turns the *.lua in dir, dir/lib and dir/scripts into the header lua_fragments.hpp.
# Run with -P it is the generator itself: one constexpr string per file.
if(CMAKE_SCRIPT_MODE_FILE)
  set(entries "")
  foreach(path IN LISTS FILES)
    file(READ "${path}" text)
    get_filename_component(stem "${path}" NAME_WE)
    string(APPEND entries "    {\"${stem}\", R\"lua(${text})lua\"},\n")
  endforeach()
  file(WRITE "${OUTPUT}" "// Generated from lua/ by EmbedLua.cmake.
#pragma once
#include <array>
#include <string_view>
#include <utility>

namespace overlimit::redis {
inline constexpr auto kLuaFragments = std::to_array<std::pair<std::string_view, std::string_view>>({
${entries}});
}  // namespace overlimit::redis
")
  return()
endif()

function(overlimit_embed_lua target directory)
  file(GLOB fragments CONFIGURE_DEPENDS "${directory}/*.lua" "${directory}/lib/*.lua" "${directory}/scripts/*.lua")
  set(header "${CMAKE_CURRENT_BINARY_DIR}/generated/lua_fragments.hpp")
  add_custom_command(OUTPUT "${header}"
    COMMAND ${CMAKE_COMMAND} "-DFILES=${fragments}" "-DOUTPUT=${header}"
            -P "${CMAKE_CURRENT_FUNCTION_LIST_FILE}"
    DEPENDS ${fragments} "${CMAKE_CURRENT_FUNCTION_LIST_FILE}"
    COMMENT "Embedding ${directory}" VERBATIM)
  target_sources(${target} PRIVATE "${header}")
  target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/generated")
endfunction()
