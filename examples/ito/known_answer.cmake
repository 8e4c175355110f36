# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs SERIAL SIZE, then PROGRAM SIZE on 1, 2, 3 and 8 workers. Each checks its own answer and fails when it is wrong
# (published node counts, numbers of solutions, order, energy); all must print the serial program's digest.
function(digest_of result program)
  execute_process(COMMAND "${program}" ${SIZE} ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  if(NOT status EQUAL 0 OR NOT output MATCHES "digest: ([0-9a-f]+)")
    message(FATAL_ERROR "${program} ${SIZE} ${ARGN}: status ${status}\n${output}${errors}")
  endif()
  set(${result} "${CMAKE_MATCH_1}" PARENT_SCOPE)
endfunction()

digest_of(serial "${SERIAL}" -t 1)
foreach(workers 1 2 3 8)
  digest_of(digest "${PROGRAM}" -t ${workers})
  if(NOT digest STREQUAL serial)
    message(FATAL_ERROR "${PROGRAM}: digest ${digest} on ${workers} workers, ${serial} in the serial program")
  endif()
endforeach()
