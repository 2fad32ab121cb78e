# Fuzz targets: fuzz/fuzz_<name>.c with seeds in fuzz/corpus/<name>.
#   FV_FUZZ=ON (clang): fuzz_<name>, with libFuzzer, AddressSanitizer and UBSan.
#   Otherwise fovea_replay, which runs the seeds of any target once.
# Either way replay_<name> is a test that runs the seeds.
file(GLOB FV_FUZZ_SOURCES CONFIGURE_DEPENDS fuzz/fuzz_*.c)

function(fovea_fuzz_target name)
  target_include_directories(${name} PRIVATE src include tests fuzz)
  target_compile_options(${name} PRIVATE ${FV_COMPILE_OPTIONS})
  target_link_libraries(${name} PRIVATE fovea_test_support)
  set_target_properties(${name} PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)
endfunction()

if(FV_FUZZ)
  add_library(fovea_fuzz STATIC fuzz/fuzz.c fuzz/pictures.c fuzz/tokens.c)
  fovea_fuzz_target(fovea_fuzz)
else()
  add_executable(fovea_replay fuzz/replay.c fuzz/fuzz.c fuzz/pictures.c fuzz/tokens.c ${FV_FUZZ_SOURCES})
  fovea_fuzz_target(fovea_replay)
  target_compile_definitions(fovea_replay PRIVATE FUZZ_REPLAY)
endif()
foreach(source IN LISTS FV_FUZZ_SOURCES)
  string(REGEX REPLACE ".*/fuzz_(.+)\\.c$" "\\1" target ${source})
  if(FV_FUZZ)
    add_executable(fuzz_${target} ${source})
    fovea_fuzz_target(fuzz_${target})
    target_link_libraries(fuzz_${target} PRIVATE fovea_fuzz)
    target_compile_options(fuzz_${target} PRIVATE -fsanitize=fuzzer)
    target_link_options(fuzz_${target} PRIVATE -fsanitize=fuzzer)
    set(command fuzz_${target} -runs=0)
  else()
    set(command fovea_replay ${target})
  endif()
  add_test(NAME replay_${target}
    COMMAND ${command} ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/${target})
  set_tests_properties(replay_${target} PROPERTIES LABELS unit TIMEOUT 60)
endforeach()
