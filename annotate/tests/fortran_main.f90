! SPDX-License-Identifier: MIT OR Apache-2.0
! One of each annotation; 19 events.
program fortran_main
  use kasuri
  use, intrinsic :: iso_c_binding, only: c_int64_t
  implicit none
  integer(kasuri_id) :: solve, key
  solve = kasuri_name('solve')
  key = kasuri_name('n  ')
  if (solve == key .or. solve /= kasuri_name('solve')) error stop 1
  if (.not. kasuri_is_enabled()) error stop 2
  call kasuri_thread_name('fortran')
  call kasuri_begin(solve)
  call kasuri_arg_i64(key, 42_c_int64_t)
  call kasuri_arg_f64(key, 0.5d0)
  call kasuri_arg_text(key, 'text')
  call kasuri_instant(solve)
  call kasuri_counter(key, 1.0d0)
  call kasuri_wait_begin(0, kasuri_wait_barrier, 1_c_int64_t)
  call kasuri_wait_end(0, kasuri_wait_barrier, 1_c_int64_t)
  call kasuri_lock_request(0, kasuri_lock_exclusive, 2_c_int64_t)
  call kasuri_lock_acquired(0, kasuri_lock_exclusive, 2_c_int64_t)
  call kasuri_lock_released(0, kasuri_lock_exclusive, 2_c_int64_t)
  call kasuri_task_event(kasuri_task_create, solve, 7_c_int64_t, 0_c_int64_t)
  call kasuri_task_event(kasuri_task_end, 0, 7_c_int64_t, 0_c_int64_t)
  call kasuri_flow_out(solve, 3_c_int64_t)
  call kasuri_flow_in(solve, 3_c_int64_t)
  call kasuri_message(solve, 'hello from Fortran')
  call kasuri_trigger(solve)
  call kasuri_end()
end program
