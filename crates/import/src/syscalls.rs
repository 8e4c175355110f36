//! Names of system calls by number.
//!
//! The numbers are part of the kernel's ABI and differ between architectures: 202 is `futex` on x86-64 and 98 on
//! AArch64. A recording may come from another machine, so tables of all architectures are linked in. They are those of
//! the crate `syscalls`, which generates them from the kernel's sources.

/// The call's name on `machine` (`uname -m`); `sys_N` if it is unknown.
pub fn name(machine: &str, number: i64) -> String {
    let found = usize::try_from(number).ok();
    let found = found.and_then(|number| known(machine, number));
    found.map_or_else(|| format!("sys_{number}"), str::to_owned)
}

/// The number of the call of this name on `machine`.
pub fn number(machine: &str, name: &str) -> Option<i64> {
    let found = (0..MOST).find(|&number| known(machine, number) == Some(name));
    found.map(|number| number as i64)
}

/// More than any table has.
const MOST: usize = 8192;

/// The name in the table of the machine.
fn known(machine: &str, number: usize) -> Option<&'static str> {
    macro_rules! of {
        ($cpu:ident) => {
            syscalls::$cpu::Sysno::new(number).map(|call| call.name())
        };
    }
    match machine {
        "x86_64" => of!(x86_64),
        "i386" | "i486" | "i586" | "i686" => of!(x86),
        "aarch64" => of!(aarch64),
        "arm" | "armv5tel" | "armv6l" | "armv7l" | "armv8l" => of!(arm),
        "riscv64" => of!(riscv64),
        "riscv32" => of!(riscv32),
        "loongarch64" => of!(loongarch64),
        "ppc64" | "ppc64le" => of!(powerpc64),
        "ppc" => of!(powerpc),
        "s390x" => of!(s390x),
        "mips64" => of!(mips64),
        "mips" => of!(mips),
        "sparc64" => of!(sparc64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{name, number};

    #[test]
    fn names_have_the_numbers_of_their_machine() {
        assert_eq!(number("x86_64", "fsync"), Some(74));
        assert_eq!(number("aarch64", "fsync"), Some(82));
        assert_eq!(number("mips64", "read"), Some(5000));
        assert_eq!(number("x86_64", "sys_400"), None);
        assert_eq!(number("vax", "read"), None);
    }

    #[test]
    fn numbers_have_the_names_of_their_machine() {
        for (machine, number, wanted) in [
            ("x86_64", 0, "read"),
            ("x86_64", 202, "futex"),
            ("x86_64", 334, "rseq"),
            ("x86_64", 424, "pidfd_send_signal"),
            ("x86_64", 451, "cachestat"),
            ("i686", 4, "write"),
            ("aarch64", 98, "futex"),
            ("armv7l", 240, "futex"),
            ("riscv64", 63, "read"),
            ("ppc64le", 221, "futex"),
            ("s390x", 3, "read"),
            ("x86_64", 400, "sys_400"),
            ("x86_64", -1, "sys_-1"),
            ("vax", 3, "sys_3"),
        ] {
            assert_eq!(name(machine, number), wanted, "{machine}");
        }
    }
}
