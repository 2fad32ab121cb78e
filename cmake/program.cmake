# The program: public headers only. It carries the library inside, so that build/release/fovea can
# be copied and run alone.
file(GLOB FV_CLI_SOURCES CONFIGURE_DEPENDS cli/*.c)
if(FV_CLI_SOURCES)
  add_executable(fovea ${FV_CLI_SOURCES})
  target_compile_options(fovea PRIVATE ${FV_COMPILE_OPTIONS} -fPIE)
  target_compile_definitions(fovea PRIVATE FV_VERSION="${PROJECT_VERSION}")
  target_link_libraries(fovea PRIVATE $<IF:$<BOOL:${FV_TEST_ONLY}>,fovea_test,fovea_static>
    ${CMAKE_DL_LIBS})
  target_link_options(fovea PRIVATE -pie ${FV_LINK_OPTIONS})
  set_target_properties(fovea PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
endif()
