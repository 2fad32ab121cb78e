# The program: public headers only. It carries the library inside, so that build/release/fovea can
# be copied and run alone.
file(GLOB FV_CLI_SOURCES CONFIGURE_DEPENDS cli/*.c)
if(FV_CLI_SOURCES)
  add_executable(fovea ${FV_CLI_SOURCES})
  target_compile_options(fovea PRIVATE ${FV_COMPILE_OPTIONS} ${FV_CORE_OPTIONS} -fPIE)
  target_compile_definitions(fovea PRIVATE FV_VERSION="${PROJECT_VERSION}")
  target_link_libraries(fovea PRIVATE $<IF:$<BOOL:${FV_TEST_ONLY}>,fovea_test,fovea_static>
    ${CMAKE_DL_LIBS})
  if(FV_STATIC)
    # Not position-independent: musl-gcc has no startup file for a static program that is. Threads
    # take the size of their stacks from the program's; musl's default is 128 KiB.
    target_link_options(fovea PRIVATE -static -Wl,--gc-sections,-s,-z,stack-size=1048576
      ${FV_LINK_OPTIONS})
  else()
    target_link_options(fovea PRIVATE -pie ${FV_LINK_OPTIONS})
  endif()
  set_target_properties(fovea PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
endif()

# What tools/count-instructions runs; in the plain one the compiler has not vectorised the reference
# kernels, which come before those of the library.
fovea_unit(plain_ref32 FV_TEST_HOOKS ${FV_REF_SOURCES})
target_compile_options(plain_ref32 PRIVATE -fno-tree-vectorize)
add_executable(instructions EXCLUDE_FROM_ALL bench/instructions.c)
add_executable(instructions_plain EXCLUDE_FROM_ALL bench/instructions.c
  $<TARGET_OBJECTS:plain_ref32>)
set_target_properties(plain_ref32 PROPERTIES EXCLUDE_FROM_ALL ON)
foreach(program instructions instructions_plain)
  target_include_directories(${program} PRIVATE include)
  target_compile_options(${program} PRIVATE ${FV_COMPILE_OPTIONS})
  target_link_libraries(${program} PRIVATE
    $<IF:$<BOOL:${FV_TEST_ONLY}>,fovea_test,fovea_static>)
  set_target_properties(${program} PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
endforeach()
