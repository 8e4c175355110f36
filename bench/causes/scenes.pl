# SPDX-License-Identifier: MIT OR Apache-2.0
# Children that compute while they have the lock of one file (bench/causes/run).
use strict;
use warnings;
use Fcntl qw(:flock);
use File::Temp qw(tempfile);

my (undef, $path) = tempfile(UNLINK => 1);

sub price {
    my $n = shift;
    $n = ($n * 31 ^ $_) & 0xFFFF for 1 .. 300000;
    return $n;
}

sub ticket {
    open(my $file, '>>', $path) or die;
    flock($file, LOCK_EX) or die;
    print $file price(shift), "\n";
    close $file;
}

my @children;
for my $k (1 .. 3) {
    my $pid = fork;
    if (!$pid) {
        ticket($_) for 1 .. 15;
        exit 0;
    }
    push @children, $pid;
}
waitpid($_, 0) for @children;
