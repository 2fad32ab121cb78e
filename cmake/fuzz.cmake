# Fuzz targets: fuzz/fuzz_<name>.c with seeds in fuzz/corpus/<name>.
#   FV_FUZZ=ON (clang): fuzz_<name>, with libFuzzer, AddressSanitizer and UBSan.
#   Otherwise, with tests: replay_<name> runs the seeds once.
option(FV_FUZZ "Build the libFuzzer targets (clang)" OFF)

set(FV_FUZZ_TARGETS json toml safetensors npy tokenizer sentencepiece text config folder)
set(FV_FUZZ_SHARED fuzz/fuzz.c fuzz/tokens.c tests/support/files.c tests/support/tree.c)

function(fovea_fuzz_target name)
  target_include_directories(${name} PRIVATE src include tests fuzz)
  target_compile_options(${name} PRIVATE ${FV_COMPILE_OPTIONS})
  set_target_properties(${name} PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)
endfunction()

if(FV_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "FV_FUZZ needs clang: -DCMAKE_C_COMPILER=clang")
  endif()
  if(NOT FV_SANITIZE MATCHES "address")
    message(FATAL_ERROR "FV_FUZZ needs -DFV_SANITIZE=address,undefined")
  endif()
  # Coverage in the library itself is what guides the fuzzer.
  foreach(unit fv_core fv_ref32 fv_ref64 fv_avx2 fv_avx512)
    if(TARGET ${unit})
      target_compile_options(${unit} PRIVATE -fsanitize=fuzzer-no-link)
    endif()
  endforeach()
  foreach(target IN LISTS FV_FUZZ_TARGETS)
    add_executable(fuzz_${target} fuzz/fuzz_${target}.c ${FV_FUZZ_SHARED})
    fovea_fuzz_target(fuzz_${target})
    target_compile_options(fuzz_${target} PRIVATE -fsanitize=fuzzer)
    target_link_options(fuzz_${target} PRIVATE -fsanitize=fuzzer)
    target_link_libraries(fuzz_${target} PRIVATE fovea_static)
  endforeach()
elseif(FV_TESTS)
  foreach(target IN LISTS FV_FUZZ_TARGETS)
    add_executable(replay_${target} fuzz/fuzz_${target}.c fuzz/standalone.c ${FV_FUZZ_SHARED})
    fovea_fuzz_target(replay_${target})
    target_link_libraries(replay_${target} PRIVATE fovea_test)
    add_test(NAME replay_${target}
      COMMAND replay_${target} ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/${target})
    set_tests_properties(replay_${target} PROPERTIES LABELS unit TIMEOUT 60)
  endforeach()
endif()
