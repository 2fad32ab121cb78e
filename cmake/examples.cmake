# examples/*.c: one short program for each mechanism, on public headers alone. Each checks what it
# claims, so running it is a test.
file(GLOB FV_EXAMPLE_SOURCES CONFIGURE_DEPENDS examples/*.c)
foreach(source IN LISTS FV_EXAMPLE_SOURCES)
  get_filename_component(name ${source} NAME_WE)
  add_executable(example_${name} ${source})
  target_include_directories(example_${name} PRIVATE include)
  target_compile_options(example_${name} PRIVATE ${FV_COMPILE_OPTIONS})
  target_link_libraries(example_${name} PRIVATE
    $<IF:$<BOOL:${FV_TEST_ONLY}>,fovea_test,fovea_static>)
  set_target_properties(example_${name} PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF
    OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/examples)
  if(TARGET product)
    add_dependencies(product example_${name})
  endif()
  if(name STREQUAL own_model) # trains in two folders; tests/outside/run also builds it as a user would
    add_test(NAME example_${name} COMMAND sh -c
      [[d=$(mktemp -d) && cd "$d" && mkdir whole parts && "$0" whole parts && rm -r "$d"]]
      $<TARGET_FILE:example_${name}>)
  elseif(name STREQUAL embed) # reads a model's folder, which this test writes
    add_test(NAME example_${name} COMMAND fovea_tests test_encode the_example_prints_a_cosine)
    set_tests_properties(example_${name} PROPERTIES
      ENVIRONMENT "FV_EXAMPLES=${CMAKE_BINARY_DIR}/examples")
  else()
    add_test(NAME example_${name} COMMAND example_${name})
  endif()
  set_tests_properties(example_${name} PROPERTIES LABELS unit TIMEOUT 600)
endforeach()

# The pictures in the documentation are what the examples draw, its keys those of the program.
if(NOT FV_TEST_ONLY)
  fovea_script_test(pictures unit tools/make-pictures --check ${CMAKE_BINARY_DIR})
  fovea_script_test(recipe_page unit tools/make-recipe-page --check ${CMAKE_BINARY_DIR})
endif()
