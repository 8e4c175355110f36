! SPDX-License-Identifier: MIT OR Apache-2.0
! What work.c is, in Fortran: its loops come as loops of integers, its locks by functions of their own.
program openmp_work
    use omp_lib
    implicit none
    integer(omp_lock_kind) :: lock
    integer(omp_nest_lock_kind) :: nest
    integer :: i, threads = 0, tasks = 0, plain = 0, named = 0, locked = 0, ordered_at = 0, sections = 0
    real(8) :: a(1000), total = 0
    a = 0
    call omp_init_lock(lock)
    call omp_init_nest_lock(nest)
    !$omp parallel num_threads(4) private(i)
    !$omp atomic
    threads = threads + 1
    !$omp do schedule(dynamic, 7)
    do i = 1, 1000
        a(i) = a(i) + i
    end do
    !$omp end do
    !$omp do schedule(dynamic, 10) reduction(+ : total)
    do i = 1000, 1, -2
        total = total + a(i)
    end do
    !$omp end do nowait
    !$omp do ordered schedule(static, 5)
    do i = 1, 40
        !$omp ordered
        ordered_at = ordered_at + 1
        !$omp end ordered
    end do
    !$omp end do
    !$omp critical
    plain = plain + 1
    !$omp end critical
    !$omp critical (other)
    named = named + 1
    !$omp end critical (other)
    call omp_set_lock(lock)
    locked = locked + 1
    call omp_unset_lock(lock)
    call omp_set_nest_lock(nest)
    call omp_set_nest_lock(nest)
    call omp_unset_nest_lock(nest)
    call omp_unset_nest_lock(nest)
    !$omp barrier
    !$omp sections
    !$omp section
    !$omp atomic
    sections = sections + 1
    !$omp section
    !$omp atomic
    sections = sections + 1
    !$omp end sections
    !$omp single
    do i = 1, 30
        !$omp task firstprivate(i) shared(tasks)
        !$omp atomic
        tasks = tasks + 1
        !$omp end task
    end do
    !$omp taskwait
    !$omp end single
    !$omp workshare
    a = a * 2
    !$omp end workshare
    !$omp end parallel
    print '(f12.1, 6i6)', total, ordered_at, plain, named, locked, sections, tasks
    print '(f12.1)', sum(a)
    print '(a, i0)', '= begin parallel ', threads
    print '(a, i0)', '= wait barrier ', 3 * threads ! also of single and workshare
    print '(a, i0)', '= begin for dynamic ', 2 * threads
    print '(a, i0)', '= begin for ordered static ', threads
    print '(a, i0)', '= begin chunk ', 143 + 50 + 8
    print '(a, i0)', '= iterations ', 1000 + 500 + 40
    print '(a, i0)', '= holds ', ordered_at + plain + named + locked + 2 * threads
    print '(a, i0)', '= begin section ', sections
    print '(a, i0)', '= create task ', tasks
    print '(a, i0)', '= wait taskwait ', 1
end program
