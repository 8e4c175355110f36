//! The CPUs whose stacks can be followed, and their registers in DWARF's numbers.

/// Most registers that any of the CPUs has.
pub const N_REGISTERS: usize = 33;

/// A CPU whose stacks can be followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cpu {
    /// 64-bit x86.
    X86_64,
    /// 64-bit Arm, little endian.
    Aarch64,
}

impl Cpu {
    /// The CPU that this code was compiled for; `None`: its stacks cannot be followed.
    pub const fn own() -> Option<Cpu> {
        if cfg!(target_arch = "x86_64") {
            Some(Cpu::X86_64)
        } else if cfg!(all(target_arch = "aarch64", target_endian = "little")) {
            Some(Cpu::Aarch64)
        } else {
            None
        }
    }

    /// Number of the stack pointer.
    pub const fn sp(self) -> usize {
        match self {
            Cpu::X86_64 => 7,
            Cpu::Aarch64 => 31,
        }
    }

    /// Number of the frame pointer.
    pub const fn fp(self) -> usize {
        match self {
            Cpu::X86_64 => 6,
            Cpu::Aarch64 => 29,
        }
    }

    /// Number under which unwind information has the return address.
    pub const fn return_address(self) -> usize {
        match self {
            Cpu::X86_64 => 16,
            Cpu::Aarch64 => 30,
        }
    }

    /// `e_machine` of its ELF files.
    pub(crate) const fn machine(self) -> u16 {
        match self {
            Cpu::X86_64 => 62,
            Cpu::Aarch64 => 183,
        }
    }

    /// How often code sets the frame pointer to the stack pointer, after it saved the caller's.
    pub(crate) fn frames_set_up(self, code: &[u8]) -> usize {
        let instructions: &[u8] = match self {
            // push %rbp; mov %rsp,%rbp
            Cpu::X86_64 => &[0x55, 0x48, 0x89, 0xe5],
            // mov x29, sp
            Cpu::Aarch64 => &[0xfd, 0x03, 0x00, 0x91],
        };
        code.windows(4).filter(|w| *w == instructions).count()
    }

    /// A code address without the bits in which Arm signs pointers.
    pub(crate) const fn code_address(self, address: u64) -> u64 {
        match self {
            Cpu::X86_64 => address,
            Cpu::Aarch64 => address & 0xffff_ffff_ffff,
        }
    }
}

/// The registers of a thread at one frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registers {
    /// Address of the instruction.
    pub ip: u64,
    values: [u64; N_REGISTERS],
    /// A bit for each register whose value is known.
    known: u64,
}

impl Registers {
    /// No register known but the instruction pointer.
    pub const fn new(ip: u64) -> Registers {
        Registers { ip, values: [0; N_REGISTERS], known: 0 }
    }

    /// The value of a register; `None`: not known.
    pub fn get(&self, register: usize) -> Option<u64> {
        let known = register < N_REGISTERS && self.known >> register & 1 == 1;
        known.then(|| self.values[register])
    }

    /// Sets a register; one that no CPU has is passed over.
    pub fn set(&mut self, register: usize, value: u64) {
        if let Some(place) = self.values.get_mut(register) {
            *place = value;
            self.known |= 1 << register;
        }
    }

    /// Forgets a register.
    pub fn forget(&mut self, register: usize) {
        if register < N_REGISTERS {
            self.known &= !(1 << register);
        }
    }
}

/// A copy of the part of a stack that is in use.
#[derive(Clone, Copy, Debug)]
pub struct Stack<'a> {
    /// Address of its first byte: the stack pointer.
    pub base: u64,
    /// The bytes.
    pub bytes: &'a [u8],
    /// Whether the stack goes on after them.
    pub is_cut: bool,
}

/// A word that a copy of a stack lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unread {
    /// It lies below the stack pointer: in a part that was left.
    Below,
    /// It lies where the copy ended too early.
    Cut,
    /// It lies outside of the stack.
    Outside,
}

/// Farthest that a word of a stack lies from its top. A claim beyond it is garbage, and not the sign of a short copy.
const FARTHEST: u64 = 1 << 30;

impl Stack<'_> {
    /// The word at an address.
    pub(crate) fn word(&self, address: u64) -> Result<u64, Unread> {
        let Some(offset) = address.checked_sub(self.base) else {
            return Err(Unread::Below);
        };
        let word =
            usize::try_from(offset).ok().and_then(|at| self.bytes.get(at..)?.first_chunk::<8>());
        match word {
            Some(word) => Ok(u64::from_le_bytes(*word)),
            None if self.is_cut && offset < FARTHEST => Err(Unread::Cut),
            None => Err(Unread::Outside),
        }
    }
}
