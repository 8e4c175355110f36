# SPDX-License-Identifier: MIT OR Apache-2.0
# cmake -DPROGRAM=... -DSERIAL=... -DKERNEL=... -DSIZE=... -DWAYS=... -P same_result.cmake
execute_process(COMMAND ${SERIAL} ${KERNEL} ${SIZE} --check RESULT_VARIABLE status OUTPUT_VARIABLE output)
string(REGEX MATCH "tasks: .*\ndigest: [0-9a-f]+\n" expected "${output}")
if(NOT status EQUAL 0 OR expected STREQUAL "")
  message(FATAL_ERROR "${SERIAL}: status ${status}\n${output}")
endif()
foreach(way "" ${WAYS})
  foreach(threads 1 2 3 8)
    execute_process(COMMAND ${PROGRAM} ${KERNEL} --repeat 20 ${SIZE} -t ${threads} --check ${way}
                    RESULT_VARIABLE status OUTPUT_VARIABLE output)
    string(REGEX MATCH "tasks: .*\ndigest: [0-9a-f]+\n" found "${output}")
    if(NOT status EQUAL 0 OR NOT found STREQUAL expected)
      message(FATAL_ERROR "${PROGRAM} ${KERNEL} -t ${threads} ${way}: status ${status}\n${output}\nexpected\n${expected}")
    endif()
  endforeach()
endforeach()
