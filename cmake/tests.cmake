# tests/test_*.c: one program each; helpers shared by them are tests/support/*.c.
#
# Labels. `threads`: also run under ThreadSanitizer. `slow`: left out of `make test`, run by
# `make test-all` under the address sanitizer. `install`: builds against an installed copy.
# `peers`: compares with other people's software where it is installed, and is skipped elsewhere.
# Everything else is `unit`. A name matches its whole file name without the extension.
set(FV_THREADED_TESTS test_base test_gemm test_guarded test_kernels_threads test_bits
  test_batch test_sequence)
set(FV_SLOW_TESTS)

file(GLOB FV_TEST_SUPPORT CONFIGURE_DEPENDS tests/support/*.c)
add_library(fovea_test_support STATIC ${FV_TEST_SUPPORT})
target_compile_options(fovea_test_support PRIVATE ${FV_COMPILE_OPTIONS})
target_link_libraries(fovea_test_support PUBLIC fovea_test)
set_target_properties(fovea_test_support PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)

file(GLOB FV_TEST_SOURCES CONFIGURE_DEPENDS tests/test_*.c)
foreach(source IN LISTS FV_TEST_SOURCES)
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_compile_options(${name} PRIVATE ${FV_COMPILE_OPTIONS})
  target_link_libraries(${name} PRIVATE fovea_test_support)
  set_target_properties(${name} PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)
  set(labels unit)
  if(name IN_LIST FV_THREADED_TESTS)
    list(APPEND labels threads)
  endif()
  if(name IN_LIST FV_SLOW_TESTS)
    set(labels slow)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT 900 SKIP_RETURN_CODE 77
    ENVIRONMENT "FV_TEST_DIR=${CMAKE_CURRENT_SOURCE_DIR}/tests;FV_PROGRAM=${CMAKE_BINARY_DIR}/fovea")
endforeach()

# Scripts that look at the built files. 77 from a script says that a tool it needs is absent.
function(fovea_script_test name label)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "${label}" TIMEOUT 600 SKIP_RETURN_CODE 77
    ENVIRONMENT "CC=${CMAKE_C_COMPILER};CMAKE=${CMAKE_COMMAND}")
endfunction()

fovea_script_test(layers unit tools/check-layers)
if(NOT FV_TEST_ONLY)
  fovea_script_test(symbols unit tools/scan-symbols ${CMAKE_BINARY_DIR})
  fovea_script_test(hardening unit tools/check-hardening ${CMAKE_BINARY_DIR} libz liblzma)
  fovea_script_test(install_cmake install tests/outside/run cmake ${CMAKE_BINARY_DIR})
  fovea_script_test(install_pkg_config install tests/outside/run pkg-config ${CMAKE_BINARY_DIR})
  find_program(FV_PYTHON python3)
  if(FV_PYTHON)
    fovea_script_test(minilm peers ${FV_PYTHON} bench/peers/check_minilm.py ${CMAKE_BINARY_DIR}/fovea)
  endif()
endif()
