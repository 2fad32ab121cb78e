# Choices of a build and the flags that follow from them.

option(FV_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(FV_TEST_ONLY "Build the library once, with test hooks: for sanitizers" OFF)
option(FV_MINIMAL "Look for no optional library" OFF)
option(FV_STATIC "Link the program statically, without parts that nothing calls" OFF)
option(FV_WERROR "Treat warnings as errors" ${PROJECT_IS_TOP_LEVEL})
option(FV_FUZZ "Build the fuzz targets with libFuzzer: clang, address sanitizer" OFF)
set(FV_TEST_NAMES "" CACHE STRING "Build only these tests, e.g. test_simd;test_gemm")
set(FV_SANITIZE "" CACHE STRING "Sanitizers, e.g. address,undefined or thread")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_C_FLAGS_RELEASE "-O3 -DNDEBUG")

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

string(TOLOWER "${CMAKE_SYSTEM_PROCESSOR}" processor)
if(processor MATCHES "x86_64|amd64")
  set(FV_X86 ON)
elseif(processor MATCHES "aarch64|arm64")
  set(FV_NEON ON)
endif()

# Tests spend most of their time in the reference kernels, and those in fma(). It rounds once wherever it
# is computed, so an instruction of this machine gives the bits of libm's function, several times as fast.
set(FV_TEST_OPTIONS)
if(FV_X86 AND FV_TESTS AND NOT CMAKE_CROSSCOMPILING)
  include(CheckCSourceRuns)
  check_c_source_runs("int main(void) { return !__builtin_cpu_supports(\"fma\"); }" FV_HOST_FMA)
  if(FV_HOST_FMA)
    set(FV_TEST_OPTIONS -mfma)
  endif()
endif()

# fovea_optional(<package> <target> <flag>): every library but libc, libm and pthreads is looked for
# through this, so that one switch leaves them all out. The sources see FV_HAVE_<package>.
set(FV_OPTIONAL_TARGETS)     # CMake targets to link
set(FV_OPTIONAL_DEFINITIONS)
set(FV_OPTIONAL_PACKAGES)    # what a user of the static library must find as well
set(FV_OPTIONAL_FLAGS "")    # the same for pkg-config
macro(fovea_optional package target flag)
  if(NOT FV_MINIMAL)
    find_package(${package} QUIET)
    if(${package}_FOUND)
      list(APPEND FV_OPTIONAL_TARGETS ${target})
      list(APPEND FV_OPTIONAL_DEFINITIONS FV_HAVE_${package})
      list(APPEND FV_OPTIONAL_PACKAGES ${package})
      string(APPEND FV_OPTIONAL_FLAGS " ${flag}")
    endif()
  endif()
endmacro()
fovea_optional(ZLIB ZLIB::ZLIB -lz)                 # deflated .npz archives, .gz texts
fovea_optional(LibLZMA LibLZMA::LibLZMA -llzma)     # .xz texts

# Font files for PNG pictures: the headers of FreeType and HarfBuzz are needed here, the libraries only
# by a program that draws with a font file, which loads them then.
if(NOT FV_MINIMAL)
  find_path(FV_FREETYPE_HEADERS ft2build.h PATH_SUFFIXES freetype2)
  find_path(FV_HARFBUZZ_HEADERS hb-ft.h PATH_SUFFIXES harfbuzz)
  if(FV_FREETYPE_HEADERS AND FV_HARFBUZZ_HEADERS)
    list(APPEND FV_OPTIONAL_DEFINITIONS FV_HAVE_FONTS)
    set_source_files_properties(src/look/font_file.c PROPERTIES
      INCLUDE_DIRECTORIES "${FV_FREETYPE_HEADERS};${FV_HARFBUZZ_HEADERS}")
  endif()
endif()

# FLAC files, in the same way: libFLAC's headers here, the library when a file is opened.
if(NOT FV_MINIMAL)
  find_path(FV_FLAC_HEADERS FLAC/stream_decoder.h)
  if(FV_FLAC_HEADERS)
    list(APPEND FV_OPTIONAL_DEFINITIONS FV_HAVE_FLAC)
    set_source_files_properties(src/audio/flac.c PROPERTIES INCLUDE_DIRECTORIES "${FV_FLAC_HEADERS}")
  endif()
endif()

# PNG and JPEG pictures: headers here, the libraries when a program reads a picture.
if(NOT FV_MINIMAL)
  foreach(kind PNG JPEG)
    string(REPLACE JPEG turbojpeg header ${kind})
    string(TOLOWER ${header} header)
    find_path(FV_${kind}_HEADERS ${header}.h)
    if(FV_${kind}_HEADERS)
      list(APPEND FV_OPTIONAL_DEFINITIONS FV_HAVE_${kind})
      string(TOLOWER ${kind} name)
      set_source_files_properties(src/image/picture_${name}.c PROPERTIES
        INCLUDE_DIRECTORIES "${FV_${kind}_HEADERS}")
    endif()
  endforeach()
endif()

# -ffp-contract=off: a sum and a product are fused only where the source says fma.
set(FV_COMPILE_OPTIONS -Wall -Wextra -Wconversion -Wvla -Walloca -Wshadow -Wstrict-prototypes
  -Wmissing-prototypes -ffp-contract=off -fno-math-errno -fno-trapping-math
  -fstack-protector-strong -D_GNU_SOURCE)
if(FV_WERROR)
  list(APPEND FV_COMPILE_OPTIONS -Werror)
endif()
# A large frame touches every page on its way, so that it cannot jump over the guard page; indirect
# jumps and returns are marked for CPUs that check them (x86).
include(CheckCCompilerFlag)
check_c_compiler_flag(-fstack-clash-protection FV_STACK_CLASH)
if(FV_STACK_CLASH)
  list(APPEND FV_COMPILE_OPTIONS -fstack-clash-protection)
endif()
if(FV_X86)
  check_c_compiler_flag(-fcf-protection FV_CF_PROTECTION)
  if(FV_CF_PROTECTION)
    list(APPEND FV_COMPILE_OPTIONS -fcf-protection)
  endif()
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT FV_SANITIZE)
  # Frames are measured as shipped: without optimisation inlined vectors all have their own place.
  list(APPEND FV_COMPILE_OPTIONS -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -Wframe-larger-than=16384)
endif()
if(FV_SANITIZE)
  # gcc misreads instrumented code, and its object-size check misjudges `(cond ? one : other)[i]`;
  # the address sanitizer sees the same.
  list(APPEND FV_COMPILE_OPTIONS -fsanitize=${FV_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  # An uninitialised variable has the same garbage value in every run, not what was on the stack.
  if(NOT FV_SANITIZE MATCHES "memory")
    list(APPEND FV_COMPILE_OPTIONS -ftrivial-auto-var-init=pattern)
  endif()
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    list(APPEND FV_COMPILE_OPTIONS -Wno-maybe-uninitialized -fno-sanitize=object-size)
  endif()
  add_link_options(-fsanitize=${FV_SANITIZE})
endif()
# gcc 12 for aarch64 fails on some loops that it tries to vectorise ("internal compiler error: in
# vect_transform_reduction"). Outside the kernels no loop is worth it.
set(FV_CORE_OPTIONS)
if(FV_NEON AND CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_C_COMPILER_VERSION VERSION_LESS 13)
  set(FV_CORE_OPTIONS -fno-tree-vectorize)
endif()
# Coverage is what guides the fuzzer. It is counted where files are read, and nowhere in the kernels,
# which it would slow down.
set(FV_COVERAGE_OPTIONS)
if(FV_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang" OR NOT FV_SANITIZE MATCHES "address")
    message(FATAL_ERROR "FV_FUZZ needs -DCMAKE_C_COMPILER=clang -DFV_SANITIZE=address,undefined")
  endif()
  set(FV_COVERAGE_OPTIONS -fsanitize=fuzzer-no-link)
  # Nor in checksums, whose tables would take nine tenths of a run's time.
  set_source_files_properties(src/io/crc.c src/io/crc32c.c PROPERTIES
    COMPILE_OPTIONS -fno-sanitize=fuzzer-no-link)
endif()
if(FV_STATIC)
  # Nothing unwinds a C program's stack at run time: tables for it are 5 % of the file.
  list(APPEND FV_COMPILE_OPTIONS -ffunction-sections -fdata-sections
    -fno-asynchronous-unwind-tables -fno-unwind-tables)
endif()
# Addresses are bound at load time and then read only.
set(FV_LINK_OPTIONS -Wl,-z,relro,-z,now,-z,noexecstack)
