# Tests link a second build of the library in which gradients can be spoiled on purpose.
fovea_objects(fvt FV_TEST_HOOKS)
add_library(fovea_test STATIC ${fvt_objects})
set_target_properties(fovea_test PROPERTIES LINKER_LANGUAGE C)
target_include_directories(fovea_test PUBLIC src include tests)
target_compile_definitions(fovea_test PUBLIC FV_TEST_HOOKS)
target_link_libraries(fovea_test PUBLIC Threads::Threads m)

# tests/test_*.c: one program each; helpers shared by them are tests/support/*.c.
file(GLOB FV_TEST_SUPPORT CONFIGURE_DEPENDS tests/support/*.c)
file(GLOB FV_TEST_SOURCES CONFIGURE_DEPENDS tests/test_*.c)
foreach(source IN LISTS FV_TEST_SOURCES)
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source} ${FV_TEST_SUPPORT})
  target_compile_options(${name} PRIVATE ${FV_COMPILE_OPTIONS})
  target_link_libraries(${name} PRIVATE fovea_test)
  set_target_properties(${name} PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT
    "FV_TEST_DIR=${CMAKE_CURRENT_SOURCE_DIR}/tests;FV_PROGRAM=$<TARGET_FILE_DIR:fovea_static>/fovea")
endforeach()
