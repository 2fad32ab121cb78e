# tests/test_*.c are linked into one program, fovea_tests, which is given the name of the file to run;
# helpers shared by them are tests/support/*.c. Each file is a test of its own for CTest.
#
# Labels. `threads`: also run under ThreadSanitizer. `long`: not run under MemorySanitizer. `faults`: long
# ones about failing memory, files and processes, which another compiler would not make fail; not run
# with clang. `slow`: left out of `make test`, run by `make test-all` under the address sanitizer.
# `install`: builds against an installed copy. `peers`: compares with other people's software where it is installed, and is skipped
# elsewhere.
# Everything else is `unit`. A name matches its whole file name without the extension.
set(FV_THREADED_TESTS test_base test_gemm test_guarded test_kernels_threads test_bits
  test_batch test_features test_sequence test_attention_raw test_waiting test_word2vec test_ntm)
set(FV_SLOW_TESTS)
# The longest first, ten seconds and more under a sanitizer: they are begun before the others, so that
# both cores end together, and may take twice as long.
set(FV_LONG_TESTS test_bits test_recipes test_cli test_attention_decode test_attention test_oom
  test_attention_varlen test_attention_weights test_attention_scores test_attention_blocks
  test_attention_exact test_attention_bits test_attention_mixtures test_attention_edges test_base
  test_simd test_resume test_gemm test_train_faults test_sequence)
set(FV_FAULT_TESTS test_oom test_resume test_recipes test_train_faults test_cli)
# A test that hangs should cost minutes, not a quarter of an hour: no other one needs a tenth of this
# on two idle cores.
set(FV_TEST_SECONDS 120)
if(FV_SANITIZE)
  set(FV_TEST_SECONDS 600)
endif()

file(GLOB FV_TEST_SUPPORT CONFIGURE_DEPENDS tests/support/*.c)
add_library(fovea_test_support STATIC ${FV_TEST_SUPPORT})
target_compile_options(fovea_test_support PRIVATE ${FV_COMPILE_OPTIONS} ${FV_TEST_OPTIONS})
if(FV_SANITIZE)
  # Where a checked test spends its time: random inputs and plain references.
  target_compile_options(fovea_test_support PRIVATE -O2)
endif()
target_link_libraries(fovea_test_support PUBLIC fovea_test)
set_target_properties(fovea_test_support PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)

file(GLOB FV_TEST_SOURCES CONFIGURE_DEPENDS tests/test_*.c)
if(FV_SANITIZE STREQUAL thread)
  # Only these have threads that could race; the rest need not be built.
  list(TRANSFORM FV_THREADED_TESTS REPLACE "(.+)" "${CMAKE_CURRENT_SOURCE_DIR}/tests/\\1.c"
    OUTPUT_VARIABLE FV_TEST_SOURCES)
endif()
if(FV_TEST_NAMES)
  list(TRANSFORM FV_TEST_NAMES REPLACE "(.+)" "${CMAKE_CURRENT_SOURCE_DIR}/tests/\\1.c"
    OUTPUT_VARIABLE FV_TEST_SOURCES)
endif()
add_executable(fovea_tests tests/main.c ${FV_TEST_SOURCES})
target_compile_options(fovea_tests PRIVATE ${FV_COMPILE_OPTIONS} ${FV_CORE_OPTIONS}
  ${FV_TEST_OPTIONS})
target_link_libraries(fovea_tests PRIVATE fovea_test_support)
set_target_properties(fovea_tests PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)
foreach(source IN LISTS FV_TEST_SOURCES)
  get_filename_component(name ${source} NAME_WE)
  add_custom_target(${name} DEPENDS fovea_tests) # so that `tools/build release test_grad` works
  set(labels unit)
  if(name IN_LIST FV_THREADED_TESTS)
    list(APPEND labels threads)
  endif()
  if(name IN_LIST FV_FAULT_TESTS)
    list(APPEND labels faults)
  endif()
  if(name IN_LIST FV_SLOW_TESTS)
    set(labels slow)
  endif()
  set(seconds ${FV_TEST_SECONDS})
  set(cost 0)
  list(FIND FV_LONG_TESTS ${name} place)
  if(NOT place EQUAL -1)
    list(APPEND labels long)
    math(EXPR seconds "2 * ${FV_TEST_SECONDS}")
    math(EXPR cost "100 - ${place}")
  endif()
  set(cases)
  if(name STREQUAL test_bits AND FV_SANITIZE STREQUAL thread)
    # Levels and layouts are compared on one thread each: two minutes that cannot race.
    set(cases threads_agree devices_agree)
  endif()
  add_test(NAME ${name} COMMAND fovea_tests ${name} ${cases})
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" SKIP_RETURN_CODE 77
    TIMEOUT ${seconds} COST ${cost}
    ENVIRONMENT "FV_TEST_DIR=${CMAKE_CURRENT_SOURCE_DIR}/tests;FV_PROGRAM=${CMAKE_BINARY_DIR}/fovea")
endforeach()

# Scripts that look at the built files. 77 from a script says that a tool it needs is absent.
function(fovea_script_test name label)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "${label}" TIMEOUT 300 SKIP_RETURN_CODE 77
    ENVIRONMENT "CC=${CMAKE_C_COMPILER};CMAKE=${CMAKE_COMMAND}")
endfunction()

fovea_script_test(layers unit tools/check-layers ${CMAKE_BINARY_DIR})
fovea_script_test(layers_planted unit tests/planted-layers)
fovea_script_test(words unit tools/check-words)
fovea_script_test(words_planted unit tools/check-words --self-test)
fovea_script_test(docs unit tools/check-docs)
fovea_script_test(header_examples unit tools/check-header-examples)
fovea_script_test(callers unit tools/check-callers)
fovea_script_test(callers_planted unit tools/check-callers --self-test)
if(NOT FV_TEST_ONLY)
  fovea_script_test(symbols unit tools/scan-symbols ${CMAKE_BINARY_DIR})
  fovea_script_test(hardening unit tools/check-hardening ${CMAKE_BINARY_DIR} libz liblzma)
  fovea_script_test(commands unit tools/check-commands ${CMAKE_BINARY_DIR})
  # As long as the longest tests; a busy machine may take minutes.
  set_tests_properties(commands PROPERTIES COST 90 TIMEOUT 900)
  fovea_script_test(install_cmake install tests/outside/run cmake ${CMAKE_BINARY_DIR})
  fovea_script_test(install_pkg_config install tests/outside/run pkg-config ${CMAKE_BINARY_DIR})
  find_program(FV_PYTHON python3)
  if(FV_PYTHON AND NOT FV_SANITIZE AND CMAKE_GENERATOR STREQUAL Ninja)
    fovea_script_test(mutate slow ${FV_PYTHON} tools/mutate --count 20 --build ${CMAKE_BINARY_DIR})
    # A change may make a loop endless, which its test's own limit ends.
    set_tests_properties(mutate PROPERTIES TIMEOUT 900)
  endif()
  if(FV_PYTHON AND NOT FV_SANITIZE)
    # A part of them; tools/test-all runs 1,000.
    fovea_script_test(command_lines unit ${FV_PYTHON} tools/check-command-lines ${CMAKE_BINARY_DIR}
      --lines 150)
  endif()
  if(FV_PYTHON)
    fovea_script_test(minilm peers ${FV_PYTHON} bench/peers/check_minilm.py ${CMAKE_BINARY_DIR}/fovea)
    fovea_script_test(minilm_heads peers ${FV_PYTHON} bench/peers/check_minilm_heads.py
      ${CMAKE_BINARY_DIR}/fovea)
  endif()
endif()
