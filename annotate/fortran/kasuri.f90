! SPDX-License-Identifier: MIT OR Apache-2.0
!
! Annotations for Fortran; link with libkasuri. Keep the ids: kasuri_name walks a list.
!
!   use kasuri
!   integer(kasuri_id) :: solve
!   solve = kasuri_name('solve')
!   call kasuri_begin(solve)
!   ...
!   call kasuri_end()
!
module kasuri
  use, intrinsic :: iso_c_binding, only: c_int, c_int32_t, c_int64_t, c_double, c_char, c_null_char
  implicit none
  private

  integer, parameter, public :: kasuri_id = c_int32_t
  !> Waits: what a thread waits for.
  integer(c_int32_t), parameter, public :: kasuri_wait_other = 0, kasuri_wait_barrier = 1, kasuri_wait_join = 2, &
                                           kasuri_wait_cond = 3, kasuri_wait_io = 4
  integer(c_int32_t), parameter, public :: kasuri_lock_exclusive = 0, kasuri_lock_shared = 1
  !> Kinds of kasuri_task_event; `other` is the parent (create), what is waited for (suspend), the joined task (join),
  !> the task that it depends on (depends), else 0.
  integer(c_int32_t), parameter, public :: kasuri_task_create = 10, kasuri_task_start = 11, kasuri_task_suspend = 12, &
                                           kasuri_task_resume = 13, kasuri_task_end = 14, kasuri_task_join = 25, &
                                           kasuri_task_depends = 27

  public :: kasuri_name, kasuri_is_enabled, kasuri_begin, kasuri_end, kasuri_instant, kasuri_counter
  public :: kasuri_wait_begin, kasuri_wait_end, kasuri_lock_request, kasuri_lock_acquired, kasuri_lock_released
  public :: kasuri_task_event, kasuri_flow_out, kasuri_flow_in, kasuri_trigger
  public :: kasuri_arg_i64, kasuri_arg_f64, kasuri_arg_text, kasuri_message, kasuri_thread_name

  interface
    subroutine kasuri_begin(site) bind(c)
      import :: c_int32_t
      integer(c_int32_t), value :: site
    end subroutine
    subroutine kasuri_end() bind(c)
    end subroutine
    subroutine kasuri_instant(site) bind(c)
      import :: c_int32_t
      integer(c_int32_t), value :: site
    end subroutine
    subroutine kasuri_counter(site, amount) bind(c)
      import :: c_int32_t, c_double
      integer(c_int32_t), value :: site
      real(c_double), value :: amount
    end subroutine
    subroutine kasuri_wait_begin(site, kind, object) bind(c)
      import :: c_int32_t, c_int64_t
      integer(c_int32_t), value :: site, kind
      integer(c_int64_t), value :: object
    end subroutine
    subroutine kasuri_wait_end(site, kind, object) bind(c)
      import :: c_int32_t, c_int64_t
      integer(c_int32_t), value :: site, kind
      integer(c_int64_t), value :: object
    end subroutine
    subroutine kasuri_lock_request(site, mode, lock) bind(c)
      import :: c_int32_t, c_int64_t
      integer(c_int32_t), value :: site, mode
      integer(c_int64_t), value :: lock
    end subroutine
    subroutine kasuri_lock_acquired(site, mode, lock) bind(c)
      import :: c_int32_t, c_int64_t
      integer(c_int32_t), value :: site, mode
      integer(c_int64_t), value :: lock
    end subroutine
    subroutine kasuri_lock_released(site, mode, lock) bind(c)
      import :: c_int32_t, c_int64_t
      integer(c_int32_t), value :: site, mode
      integer(c_int64_t), value :: lock
    end subroutine
    subroutine kasuri_task_event(kind, site, task, other) bind(c)
      import :: c_int32_t, c_int64_t
      integer(c_int32_t), value :: kind, site
      integer(c_int64_t), value :: task, other
    end subroutine
    subroutine kasuri_flow_out(site, flow) bind(c)
      import :: c_int32_t, c_int64_t
      integer(c_int32_t), value :: site
      integer(c_int64_t), value :: flow
    end subroutine
    subroutine kasuri_flow_in(site, flow) bind(c)
      import :: c_int32_t, c_int64_t
      integer(c_int32_t), value :: site
      integer(c_int64_t), value :: flow
    end subroutine
    subroutine kasuri_arg_i64(key, v) bind(c)
      import :: c_int32_t, c_int64_t
      integer(c_int32_t), value :: key
      integer(c_int64_t), value :: v
    end subroutine
    subroutine kasuri_arg_f64(key, v) bind(c)
      import :: c_int32_t, c_double
      integer(c_int32_t), value :: key
      real(c_double), value :: v
    end subroutine
    subroutine kasuri_trigger(site) bind(c)
      import :: c_int32_t
      integer(c_int32_t), value :: site
    end subroutine
    function c_intern(name) bind(c, name='kasuri_intern') result(id)
      import :: c_int32_t, c_char
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t) :: id
    end function
    function c_enabled() bind(c, name='kasuri_enabled') result(on)
      import :: c_int
      integer(c_int) :: on
    end function
    subroutine c_arg_str(key, s, bytes) bind(c, name='kasuri_arg_str')
      import :: c_int32_t, c_int64_t, c_char
      integer(c_int32_t), value :: key
      character(kind=c_char), intent(in) :: s(*)
      integer(c_int64_t), value :: bytes
    end subroutine
    subroutine c_message(site, s, bytes) bind(c, name='kasuri_message')
      import :: c_int32_t, c_int64_t, c_char
      integer(c_int32_t), value :: site
      character(kind=c_char), intent(in) :: s(*)
      integer(c_int64_t), value :: bytes
    end subroutine
    subroutine c_thread_name(s, bytes) bind(c, name='kasuri_thread_name')
      import :: c_int64_t, c_char
      character(kind=c_char), intent(in) :: s(*)
      integer(c_int64_t), value :: bytes
    end subroutine
  end interface

contains

  !> The id of a name; trailing blanks do not count.
  function kasuri_name(name) result(id)
    character(len=*), intent(in) :: name
    integer(kasuri_id) :: id
    id = c_intern(trim(name)//c_null_char)
  end function

  function kasuri_is_enabled() result(on)
    logical :: on
    on = c_enabled() /= 0
  end function

  subroutine kasuri_arg_text(key, text)
    integer(kasuri_id), intent(in) :: key
    character(len=*), intent(in) :: text
    call c_arg_str(key, text//c_null_char, int(len_trim(text), c_int64_t))
  end subroutine

  subroutine kasuri_message(site, text)
    integer(kasuri_id), intent(in) :: site
    character(len=*), intent(in) :: text
    call c_message(site, text//c_null_char, int(len_trim(text), c_int64_t))
  end subroutine

  subroutine kasuri_thread_name(text)
    character(len=*), intent(in) :: text
    call c_thread_name(text//c_null_char, int(len_trim(text), c_int64_t))
  end subroutine

end module kasuri
