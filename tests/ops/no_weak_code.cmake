# Fails when an object file of an instruction set's kernels defines a weak function: the linker could keep that
# copy for code that must run on any processor. Usage:
#   cmake -DNM=<nm> -DOBJECTS=<file>|<file>... -P no_weak_code.cmake
string(REPLACE "|" ";" objects "${OBJECTS}")
list(FILTER objects INCLUDE REGEX "/kernels/avx")
if(NOT objects)
  message(FATAL_ERROR "no kernel objects in: ${OBJECTS}")
endif()
foreach(object IN LISTS objects)
  execute_process(COMMAND ${NM} -C ${object} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[0-9a-f]+ [Wu] [^\n]*" weak "${symbols}")
  if(weak)
    message(FATAL_ERROR "${object} defines code that other objects may share: ${weak}")
  endif()
endforeach()
