/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every macro once, in the language that C99 to C23 and C++11 to C++20 have in common. The compile tests include it in
 * a C and a C++ program and build those with each standard, with warnings as errors. */
#ifndef KASURI_TESTS_EVERY_MACRO_H
#define KASURI_TESTS_EVERY_MACRO_H

#include "kasuri.h"

/* Every function, as other languages call them. */
static void every_function(uint32_t name, int is_enabled) {
    kasuri_begin(name);
    kasuri_arg_i64(name, is_enabled);
    kasuri_arg_u64(name, 1);
    kasuri_arg_f64(name, 0.5);
    kasuri_arg_str(name, "text", 4);
    kasuri_end();
    kasuri_instant(name);
    kasuri_counter(name, 0.5);
    kasuri_wait_begin(name, KASURI_WAIT_IO, 3);
    kasuri_wait_end(name, KASURI_WAIT_IO, 3);
    kasuri_lock_request(name, KASURI_LOCK_EXCLUSIVE, 4);
    kasuri_lock_acquired(name, KASURI_LOCK_EXCLUSIVE, 4);
    kasuri_lock_released(name, KASURI_LOCK_EXCLUSIVE, 4);
    kasuri_task_event(KASURI_EV_TASK_CREATE, name, 5, 0);
    kasuri_flow_out(name, 6);
    kasuri_flow_in(name, 6);
    kasuri_message(name, "hello", 5);
    kasuri_thread_name("main", 4);
    kasuri_trigger(name);
}

static void every_macro(void) {
    int lock = 0;
    double load = 0.5;
    const char *text = "text";
    uint32_t name = kasuri_intern("at run time");
    KASURI_SCOPE("outer");
    KASURI_SCOPE("second in one block");
    KASURI_THREAD_NAME("main");
    KASURI_BEGIN("slice");
    KASURI_ARG_I64("i64", -1);
    KASURI_ARG_U64("u64", 1u);
    KASURI_ARG_F64("f64", load);
    KASURI_ARG_STR("str", text);
    KASURI_END();
    KASURI_INSTANT("instant");
    KASURI_COUNTER("counter", load);
    KASURI_WAIT_BEGIN(KASURI_WAIT_BARRIER, &lock);
    KASURI_WAIT_END(KASURI_WAIT_BARRIER, &lock);
    KASURI_WAIT_BEGIN(KASURI_WAIT_IO, 3);
    KASURI_WAIT_END(KASURI_WAIT_IO, 3);
    KASURI_LOCK_REQUEST(&lock);
    KASURI_LOCK_ACQUIRED(&lock);
    KASURI_LOCK_RELEASED(&lock);
    KASURI_LOCK_REQUEST_AS(&lock, KASURI_LOCK_SHARED);
    KASURI_TASK_CREATE("task", 1, 0);
    KASURI_TASK_START(1);
    KASURI_TASK_SUSPEND(1);
    KASURI_TASK_SUSPEND_FOR("why", 1, 2);
    KASURI_TASK_RESUME(1);
    KASURI_TASK_END(1);
    KASURI_TASK_JOIN(0, 1);
    KASURI_TASK_DEPENDS(2, 1);
    KASURI_FLOW_OUT("flow", 1);
    KASURI_FLOW_IN("flow", 1);
    if (lock)
        KASURI_MESSAGE("not reached");
    else
        KASURI_MESSAGE("hello %d", lock);
    KASURI_TRIGGER("trigger");
    KASURI_LOCK_ACQUIRED_AS(&lock, KASURI_LOCK_SHARED);
    KASURI_LOCK_RELEASED_AS(&lock, KASURI_LOCK_SHARED);
    every_function(name, kasuri_enabled());
}

#endif
