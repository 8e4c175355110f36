/* Prints where the fields of Python's structures are, as crates/record/src/stacks/python/layout.rs has them:
 *   cc -I INCLUDE -I INCLUDE/internal tests/record/python_layout.c && ./a.out
 * with the headers of one version. */
#define Py_BUILD_CORE 1
#include <Python.h>
#include <frameobject.h>
#include <stddef.h>
#include <stdio.h>
#if PY_VERSION_HEX >= 0x030b0000
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>
#endif

#define SAY(name, value) printf(name " %ld\n", (long)(value))
#define CODE(name, field) SAY(name, offsetof(PyCodeObject, field))

int main(void) {
    SAY("minor", PY_MINOR_VERSION);
    CODE("constants", co_consts);
    CODE("first_line", co_firstlineno);
    CODE("file", co_filename);
    SAY("ascii", sizeof(PyASCIIObject));
    SAY("other", sizeof(PyCompactUnicodeObject));
    SAY("bytes", offsetof(PyBytesObject, ob_sval));
    SAY("string_state", offsetof(PyASCIIObject, state));
    SAY("type", offsetof(PyObject, ob_type));
    SAY("size", offsetof(PyVarObject, ob_size));
#if PY_VERSION_HEX < 0x030b0000
    SAY("frame_code", offsetof(PyFrameObject, f_code));
    SAY("frame_caller", offsetof(PyFrameObject, f_back));
    SAY("frame_instruction", offsetof(PyFrameObject, f_lasti));
    CODE("instructions", co_code);
    CODE("name", co_name);
#if PY_VERSION_HEX >= 0x030a0000
    CODE("lines", co_linetable);
#else
    CODE("lines", co_lnotab);
#endif
#else
    SAY("frame_caller", offsetof(_PyInterpreterFrame, previous));
    CODE("instructions", co_code_adaptive);
    CODE("name", co_qualname);
    CODE("lines", co_linetable);
    SAY("interpreters", offsetof(_PyRuntimeState, interpreters.head));
    SAY("next_interpreter", offsetof(PyInterpreterState, next));
    SAY("threads", offsetof(PyInterpreterState, threads.head));
    SAY("next", offsetof(PyThreadState, next));
    SAY("tid", offsetof(PyThreadState, native_thread_id));
#if PY_VERSION_HEX >= 0x030d0000
    SAY("frame_code", offsetof(_PyInterpreterFrame, f_executable));
    SAY("frame_instruction", offsetof(_PyInterpreterFrame, instr_ptr));
    SAY("current", offsetof(PyThreadState, current_frame));
#else
    SAY("frame_code", offsetof(_PyInterpreterFrame, f_code));
    SAY("frame_instruction", offsetof(_PyInterpreterFrame, prev_instr));
    SAY("current", offsetof(PyThreadState, cframe));
    SAY("current_inner", offsetof(_PyCFrame, current_frame));
#endif
#if PY_VERSION_HEX >= 0x030c0000
    SAY("shim", offsetof(_PyInterpreterFrame, owner));
    SAY("shim_mark", FRAME_OWNED_BY_CSTACK);
    CODE("frame_words_0", co_framesize);
    SAY("frame_words_more", 0);
#else
    SAY("mark", offsetof(_PyInterpreterFrame, is_entry));
    CODE("frame_words_0", co_nlocalsplus);
    CODE("frame_words_1", co_stacksize);
    SAY("frame_words_more", FRAME_SPECIALS_SIZE);
#endif
#endif
    return 0;
}
