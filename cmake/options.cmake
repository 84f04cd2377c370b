# What every target of the project is built with.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# Optimized, with assertions: a gate that runs without them proves less. (CMake's own default adds -DNDEBUG.)
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
set(CMAKE_C_FLAGS_RELEASE "-O2")

option(NORMGATE_WERROR "Warnings are errors" ON)
set(NORMGATE_SANITIZE "" CACHE STRING "Sanitizer to build with: address, undefined, or empty")

# The plugins and the command find each other through these folders, relative to the executable.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(NORMGATE_PLUGIN_DIRECTORY ${PROJECT_BINARY_DIR}/plugins)

# Linked by every target of ours.
add_library(normgate_options INTERFACE)
target_include_directories(normgate_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(normgate_options INTERFACE -Wall -Wextra -Wpedantic -Wconversion
                       $<$<BOOL:${NORMGATE_WERROR}>:-Werror>)
if(NORMGATE_SANITIZE)
  target_compile_options(normgate_options INTERFACE -fsanitize=${NORMGATE_SANITIZE} -fno-sanitize-recover=all
                         -fno-omit-frame-pointer)
  # GCC 12 takes the instrumentation of the standard library's own code for uses before initialization (its bug 105562);
  # the uninstrumented builds keep the warning.
  target_compile_options(normgate_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(normgate_options INTERFACE -fsanitize=${NORMGATE_SANITIZE})
  target_compile_definitions(normgate_options INTERFACE NORMGATE_SANITIZED=1)
endif()

# libFuzzer's instrumentation of everything, and the fuzzers of tests/fuzz.
option(NORMGATE_FUZZ "Build the fuzzers (Clang)" OFF)
if(NORMGATE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "NORMGATE_FUZZ needs Clang: libFuzzer is part of it")
  endif()
  target_compile_options(normgate_options INTERFACE -fsanitize=fuzzer-no-link,address -fno-omit-frame-pointer)
  target_link_options(normgate_options INTERFACE -fsanitize=address)
  target_compile_definitions(normgate_options INTERFACE NORMGATE_SANITIZED=1)
endif()

# normgate_plugin(NAME sources…): a kernel plugin in the plugin folder.
function(normgate_plugin name)
  add_library(${name} MODULE ${ARGN})
  set_target_properties(${name} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${NORMGATE_PLUGIN_DIRECTORY}
                        C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_link_libraries(${name} PRIVATE normgate_options)
endfunction()
