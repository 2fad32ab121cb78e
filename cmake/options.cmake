# Choices of a build and the flags that follow from them.

option(FV_TESTS "Build the tests" ON)
option(FV_WERROR "Treat warnings as errors" ON)
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
endif()

# -ffp-contract=off: a sum and a product are fused only where the source says fma.
set(FV_COMPILE_OPTIONS -Wall -Wextra -Wconversion -Wvla -Walloca -Wshadow -Wstrict-prototypes
  -Wmissing-prototypes -Wframe-larger-than=16384 -ffp-contract=off -fno-math-errno
  -fno-trapping-math -fstack-protector-strong -D_GNU_SOURCE)
if(FV_WERROR)
  list(APPEND FV_COMPILE_OPTIONS -Werror)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT FV_SANITIZE)
  list(APPEND FV_COMPILE_OPTIONS -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
endif()
if(FV_SANITIZE)
  list(APPEND FV_COMPILE_OPTIONS -fsanitize=${FV_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all -g)
  add_link_options(-fsanitize=${FV_SANITIZE})
endif()
