# flare_folder(NAME DEPENDS targets… LIBRARIES targets…): the library of one folder and its unit tests.
# Sources are all *.cc below the folder; *_test.cc stand beside them and form one test program.
# A folder below it that has a CMakeLists.txt is a library of its own.
include(GoogleTest)

function(flare_test_program target)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${target} ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE ${ARG_DEPENDS} GTest::gtest GTest::gtest_main)
  target_compile_definitions(${target} PRIVATE FLARE_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                               FLARE_BINARY_DIR="${PROJECT_BINARY_DIR}")
  # Cases of one program are one ctest entry: start-up is paid once, the names are in its output.
  add_test(NAME ${target} COMMAND ${target} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
endfunction()

function(flare_folder name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LIBRARIES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  file(GLOB own RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/*/CMakeLists.txt)
  foreach(list ${own})
    get_filename_component(folder ${list} DIRECTORY)
    list(FILTER sources EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/${folder}/")
  endforeach()
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  if(NOT sources)  # headers alone: the target exists all the same
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/headers_only.cc "")
    set(sources ${CMAKE_CURRENT_BINARY_DIR}/headers_only.cc)
  endif()
  add_library(flare_${name} STATIC ${sources})
  target_include_directories(flare_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(flare_${name} PUBLIC ${ARG_DEPENDS} PRIVATE ${ARG_LIBRARIES})
  if(tests)
    flare_test_program(${name}_test SOURCES ${tests} DEPENDS flare_${name} ${ARG_LIBRARIES})
  endif()
endfunction()
