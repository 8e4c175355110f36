! SPDX-License-Identifier: MIT OR Apache-2.0
! Loops and procedures of Fortran. Prints results, and its own counts.
module grid
  implicit none
  integer :: n_sweep = 0, n_sweep_loop = 0, n_inner = 0, n_whole = 0
contains
  subroutine sweep(u, n)
    integer, intent(in) :: n
    real(8), intent(inout) :: u(n, n)
    integer :: i, j
    n_sweep = n_sweep + 1
    n_sweep_loop = n_sweep_loop + 1
    do j = 2, n - 1
      n_inner = n_inner + 1
      do i = 2, n - 1
        u(i, j) = 0.25d0 * (u(i-1, j) + u(i+1, j) + u(i, j-1) + u(i, j+1))
      end do
      if (u(2, j) > 1d30) exit
    end do
    n_whole = n_whole + 1
  end subroutine

  recursive integer function depth(n) result(d)
    integer, intent(in) :: n
    d = 0
    if (n > 0) d = depth(n - 1) + 1
  end function
end module

program work
  use grid
  implicit none
  real(8) :: u(64, 64)
  integer :: k, turns
  u = 0
  u(1, :) = 1
  do k = 1, 50
    call sweep(u, 64)
  end do
  turns = 0
  outer: do
    turns = turns + 1
    do k = 1, 10
      if (k * turns == 42) exit outer
      if (k == 8) cycle outer
    end do
  end do outer
  print '(a,f20.12,i5)', 'result ', sum(u), turns + depth(20)
  ! Statements with whole arrays are loops, too. gfortran's own main calls the program.
  print '(a)', 'count main 1', 'count work 1', 'count work.loop36 1', 'count work.loop37 1', 'count work.loop42 1'
  print '(a,i0)', 'count work.loop42.loop43 ', turns
  print '(a)', 'count work.loop48 1', 'count work.loop48.loop48 64'
  print '(a,i0)', 'count grid::sweep ', n_sweep
  print '(a,i0)', 'count grid::sweep.loop13 ', n_sweep_loop
  print '(a,i0)', 'count grid::sweep.loop13.loop15 ', n_inner
  print '(a,i0)', 'count grid::depth ', 21
end program
