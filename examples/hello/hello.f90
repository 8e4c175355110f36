! SPDX-License-Identifier: MIT OR Apache-2.0
! hello.c in Fortran with OpenMP. Build: gfortran -O2 -fopenmp hello.f90 with kasuri.f90 and libkasuri (kasuri::fortran in
! CMake); run: kasuri record ./a.out
program hello
  use, intrinsic :: iso_fortran_env, only: real64, int64
  use kasuri
  implicit none
  integer(kasuri_id) :: part_name, number_name, sum_name
  real(real64) :: sums(0:1)
  integer :: half, part, i

  part_name = kasuri_name('part')
  number_name = kasuri_name('number')
  sum_name = kasuri_name('sum')
  sums = 0

  ! The harmonic series, so that there is something to compute.
  !$omp parallel do num_threads(2) private(part, i)
  do half = 0, 1
    call kasuri_thread_name(merge('odd ', 'even', half == 1))
    do part = 0, 9
      call kasuri_begin(part_name)
      call kasuri_arg_i64(number_name, int(part, int64))
      do i = 1 + half, 2000000, 2
        sums(half) = sums(half) + 1 / (i + 2d6 * part)
      end do
      call kasuri_counter(sum_name, sums(half))
      call kasuri_end()
    end do
  end do
  !$omp end parallel do
  print '(f0.6)', sum(sums)
end program
