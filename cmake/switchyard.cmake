# Flags that every target shares, and the two helpers that every folder uses.

add_library(switchyard_flags INTERFACE)
target_compile_options(switchyard_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wvla -Werror)
target_include_directories(switchyard_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)

if(SWITCHYARD_SANITIZE)
  target_compile_options(switchyard_flags INTERFACE
    -fsanitize=${SWITCHYARD_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(switchyard_flags INTERFACE -fsanitize=${SWITCHYARD_SANITIZE})
endif()
if(SWITCHYARD_FUZZ)
  target_compile_options(switchyard_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  # Paths relative to the source folder, so that a second clone finds what the first has compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    ${CCACHE})
endif()
find_program(MOLD mold)
if(MOLD)
  target_link_options(switchyard_flags INTERFACE -fuse-ld=mold)
endif()

# switchyard_library(NAME SOURCES ... DEPS ...): one folder, one library. DEPS are public: the arrows of
# ARCHITECTURE.md, and what is not listed there must not be listed here.
function(switchyard_library NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${NAME} STATIC ${ARG_SOURCES})
  target_link_libraries(${NAME} PUBLIC switchyard_flags ${ARG_DEPS})
endfunction()

# switchyard_test(NAME SOURCES ... DEPS ...): one test binary per layer, registered with CTest.
function(switchyard_test NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${NAME} ${ARG_SOURCES})
  target_link_libraries(${NAME} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  target_include_directories(${NAME} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${NAME} PRIVATE SWITCHYARD_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_test(NAME ${NAME} COMMAND ${NAME})
endfunction()
