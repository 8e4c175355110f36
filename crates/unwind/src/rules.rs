//! Unwind information of one file: the rule that finds the caller of a frame.
use crate::cpu::{Cpu, Registers, Stack, Unread};
use crate::elf::{Elf, Part};
use gimli::{
    CfaRule, EhFrame, EhFrameHdr, EndianSlice, Evaluation, EvaluationResult, LittleEndian,
    Location, ParsedEhFrameHdr, Register, RegisterRule, UnwindContext, UnwindExpression,
    UnwindSection, Value,
};
use std::ops::Range;
use std::rc::Rc;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// Longest unwind information of one function. Real ones are below 10 kB; running through it takes time.
const FUNCTION_BYTES_MAX: usize = 256 << 10;
/// Most steps of an expression.
const STEPS_MAX: u32 = 200;
/// Most registers that one rule restores.
const PLACES_MAX: usize = 40;

/// Where the value of a register of the caller is. CFA: the value of the stack pointer before the call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// In memory, so many bytes from the CFA.
    At(i64),
    /// It is the CFA and so many bytes.
    Value(i64),
    /// In another register.
    Register(u16),
    /// In memory, where the expression says.
    AtExpression(UnwindExpression<usize>),
    /// What the expression says.
    ValueExpression(UnwindExpression<usize>),
    /// Nowhere. For the return address: there is no caller.
    Undefined,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Cfa {
    Offset(u16, i64),
    Expression(UnwindExpression<usize>),
}

/// How to find the caller from one place in the code.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rule {
    cfa: Cfa,
    return_address: Option<Place>,
    places: Box<[(u16, Place)]>,
    /// The frame that is found with it did not call: the kernel interrupted it to call a signal handler, or an exception continues there.
    pub(crate) is_resumed: bool,
}

/// Why no caller is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Stop {
    /// There is none: this frame is the outermost.
    Outermost,
    /// The copy of the stack is too short.
    Cut,
    /// No rule, or one that leads nowhere.
    Unknown,
}

impl Rule {
    /// Bytes below this register, the frame pointer, in which the frame keeps registers of its
    /// caller; none: the caller is not found by it.
    pub(crate) fn below(&self, pointer: usize) -> Option<u64> {
        let Cfa::Offset(register, offset) = self.cfa else {
            return None;
        };
        let kept = self.places.iter().filter_map(|&(_, place)| match place {
            Place::At(at) => at.checked_add(offset)?.checked_neg(),
            _ => None,
        });
        let lowest = kept.max().unwrap_or(0).max(0);
        (usize::from(register) == pointer).then_some(lowest.unsigned_abs())
    }
}

impl From<Unread> for Stop {
    fn from(unread: Unread) -> Stop {
        match unread {
            Unread::Cut => Stop::Cut,
            Unread::Below | Unread::Outside => Stop::Unknown,
        }
    }
}

/// Unwind information of one file.
#[derive(Debug)]
pub(crate) struct Information {
    frames: Part,
    table: Table,
}

/// How the information of a function is found.
#[derive(Debug)]
enum Table {
    /// By the file's own table.
    Header(Part),
    /// By first and last address and place in the information, in order of address.
    Index(Vec<(u64, u64, usize)>),
}

/// Most functions of a file without a table of its own.
const FUNCTIONS_MAX: usize = 1 << 20;

/// Whether the number of rows in a file's table has four bytes, as linkers write it: gimli multiplies longer ones, which may
/// be any, without looking.
fn has_short_count(table: &[u8]) -> bool {
    let encoding = table.get(2).map(|&byte| gimli::DwEhPe(byte));
    encoding.is_some_and(|e| matches!(e, gimli::DW_EH_PE_udata2 | gimli::DW_EH_PE_udata4))
}

impl Information {
    /// Takes it out of a file that has some.
    pub(crate) fn of(elf: &mut Elf) -> Option<Information> {
        let unwind = elf.unwind.take()?;
        let mut information =
            Information { frames: unwind.frames, table: Table::Index(Vec::new()) };
        information.table = match unwind.table {
            Some(table) if has_short_count(&table.bytes) => Table::Header(table),
            _ => Table::Index(information.index()),
        };
        Some(information)
    }

    /// All functions, up to the first damage.
    fn index(&self) -> Vec<(u64, u64, usize)> {
        let (bases, section) = (self.bases(), self.section());
        let mut entries = section.entries(&bases);
        let mut index = Vec::new();
        while index.len() < FUNCTIONS_MAX
            && let Ok(Some(entry)) = entries.next()
        {
            if let gimli::CieOrFde::Fde(part) = entry
                && let Ok(function) = part.parse(EhFrame::cie_from_offset)
            {
                let start = function.initial_address();
                index.push((start, function.end_address(), function.offset()));
            }
        }
        index.sort_unstable();
        index
    }

    /// Bytes of memory it takes.
    pub(crate) fn len(&self) -> u64 {
        let table = match &self.table {
            Table::Header(part) => part.bytes.len(),
            Table::Index(functions) => functions.len() * 24,
        };
        (table + self.frames.bytes.len()) as u64
    }

    /// The range without rules in which an address lies, from the end of the function before it to the start of the one after
    /// it. What lies before the first function or after the last is such a range too.
    pub(crate) fn gap(&self, address: u64) -> Option<Range<u64>> {
        let (before, next) = match &self.table {
            Table::Header(part) => {
                let entries = header_entries(part)?;
                let entry = |ix: usize| header_entry(part, entries.get(ix)?);
                let after = n_up_to(part, entries, address);
                let before = match after.checked_sub(1) {
                    Some(ix) => Some(self.end_of(entry(ix)?.1)?),
                    None => None,
                };
                (before, entry(after).map(|f| f.0))
            }
            Table::Index(functions) => {
                let after = functions.partition_point(|&(start, ..)| start <= address);
                let before = after.checked_sub(1).map(|ix| functions[ix].1);
                (before, functions.get(after).map(|f| f.0))
            }
        };
        if before.is_none() && next.is_none() {
            return None;
        }
        let start = before.unwrap_or(0);
        (start <= address).then(|| start..next.unwrap_or(u64::MAX))
    }

    /// The end of the function whose information is at an address of the file.
    fn end_of(&self, place: u64) -> Option<u64> {
        let offset = usize::try_from(place.checked_sub(self.frames.address)?).ok()?;
        let (bases, section) = (self.bases(), self.section());
        let function = section.fde_from_offset(&bases, offset.into(), EhFrame::cie_from_offset);
        Some(function.ok()?.end_address())
    }

    /// The addresses of the function at an address.
    pub(crate) fn range(&self, address: u64) -> Option<Range<u64>> {
        let (bases, section) = (self.bases(), self.section());
        let function = self.function(address, &bases, &section)?;
        Some(function.initial_address()..function.end_address())
    }

    fn bases(&self) -> gimli::BaseAddresses {
        let bases = gimli::BaseAddresses::default().set_eh_frame(self.frames.address);
        match &self.table {
            Table::Header(part) => bases.set_eh_frame_hdr(part.address),
            Table::Index(_) => bases,
        }
    }

    fn section(&self) -> EhFrame<Bytes<'_>> {
        let mut section = EhFrame::new(&self.frames.bytes, LittleEndian);
        section.set_address_size(8);
        section
    }

    fn function<'a>(
        &'a self,
        address: u64,
        bases: &gimli::BaseAddresses,
        section: &EhFrame<Bytes<'a>>,
    ) -> Option<gimli::FrameDescriptionEntry<Bytes<'a>>> {
        match &self.table {
            Table::Header(part) => {
                let place = match header_entries(part) {
                    Some(entries) => {
                        let at = n_up_to(part, entries, address).checked_sub(1)?;
                        header_entry(part, entries.get(at)?)?.1
                    }
                    None => {
                        let header = EhFrameHdr::new(&part.bytes, LittleEndian);
                        let parsed: ParsedEhFrameHdr<Bytes<'_>> = header.parse(bases, 8).ok()?;
                        parsed.table()?.lookup(address, bases).ok()?.direct().ok()?
                    }
                };
                // A damaged table may name a place before the section.
                let offset = usize::try_from(place.checked_sub(self.frames.address)?).ok()?;
                section
                    .fde_from_offset(bases, offset.into(), EhFrame::cie_from_offset)
                    .ok()
                    .filter(|function| function.contains(address))
            }
            Table::Index(functions) => {
                let after = functions.partition_point(|&(start, ..)| start <= address);
                let &(_, end, offset) = functions.get(after.checked_sub(1)?)?;
                let parse =
                    || section.fde_from_offset(bases, offset.into(), EhFrame::cie_from_offset);
                (address < end).then(parse)?.ok()
            }
        }
    }

    /// The rule at an address of the file; `None`: it states none.
    pub(crate) fn rule(
        &self,
        address: u64,
        cpu: Cpu,
        context: &mut UnwindContext<usize>,
    ) -> Option<Rc<Rule>> {
        let (bases, section) = (self.bases(), self.section());
        let function = self.function(address, &bases, &section)?;
        if function.entry_len() > FUNCTION_BYTES_MAX {
            return None;
        }
        let row = function.unwind_info_for_address(&section, &bases, context, address).ok()?;
        let cfa = match *row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => Cfa::Offset(register.0, offset),
            CfaRule::Expression(expression) => Cfa::Expression(expression),
        };
        let return_address = function.cie().return_address_register();
        let mut places = Vec::new();
        for (register, rule) in row.registers().take(PLACES_MAX) {
            if *register != return_address {
                places.extend(place(rule.clone())?.map(|place| (register.0, place)));
            }
        }
        let return_address = match row.register(return_address) {
            Some(rule) => place(rule)?,
            None => None,
        };
        // On x86 the return address is no register that could have kept its value.
        if cpu == Cpu::X86_64 && return_address.is_none() {
            return None;
        }
        let landing = match cpu == Cpu::X86_64 && Landing::is_in_reach(row) {
            true => Landing::of(&function, &section, &bases, context, address),
            false => Landing::No,
        };
        (landing != Landing::Near).then(|| {
            Rc::new(Rule {
                cfa,
                return_address,
                places: places.into(),
                is_resumed: function.is_signal_trampoline() || landing == Landing::At,
            })
        })
    }

    /// The registers of the caller of the frame with these registers.
    pub(crate) fn caller(
        &self,
        rule: &Rule,
        cpu: Cpu,
        registers: &Registers,
        stack: &Stack<'_>,
    ) -> Result<Registers, Stop> {
        if rule.return_address == Some(Place::Undefined) {
            return Err(Stop::Outermost);
        }
        let cfa = match rule.cfa {
            Cfa::Offset(register, offset) => registers
                .get(usize::from(register))
                .ok_or(Unread::Outside)?
                .wrapping_add_signed(offset),
            Cfa::Expression(expression) => self.evaluate(expression, None, registers, stack)?,
        };
        let value = |place: Place| self.value(place, cfa, registers, stack);
        let return_address = match rule.return_address {
            Some(place) => value(place)?,
            None => registers.get(cpu.return_address()),
        };
        let mut caller = *registers;
        for &(register, place) in &*rule.places {
            match value(place) {
                Ok(Some(value)) => caller.set(usize::from(register), value),
                Ok(None) => caller.forget(usize::from(register)),
                // In the middle of a function's end some compilers still name the slot of a register that was
                // restored from it just before.
                Err(Unread::Below) => {}
                Err(unread) => return Err(unread.into()),
            }
        }
        let restores_sp = rule.places.iter().any(|&(r, _)| usize::from(r) == cpu.sp());
        if !restores_sp {
            caller.set(cpu.sp(), cfa);
        }
        caller.ip = cpu.code_address(return_address.ok_or(Stop::Unknown)?);
        match caller.ip {
            0 => Err(Stop::Outermost),
            _ => Ok(caller),
        }
    }

    fn value(
        &self,
        place: Place,
        cfa: u64,
        registers: &Registers,
        stack: &Stack<'_>,
    ) -> Result<Option<u64>, Unread> {
        Ok(match place {
            Place::At(offset) => Some(stack.word(cfa.wrapping_add_signed(offset))?),
            Place::Value(offset) => Some(cfa.wrapping_add_signed(offset)),
            Place::Register(register) => registers.get(usize::from(register)),
            Place::AtExpression(e) => {
                Some(stack.word(self.evaluate(e, Some(cfa), registers, stack)?)?)
            }
            Place::ValueExpression(e) => Some(self.evaluate(e, Some(cfa), registers, stack)?),
            Place::Undefined => None,
        })
    }

    fn evaluate(
        &self,
        expression: UnwindExpression<usize>,
        initial: Option<u64>,
        registers: &Registers,
        stack: &Stack<'_>,
    ) -> Result<u64, Unread> {
        const BAD: Unread = Unread::Outside;
        let encoding =
            gimli::Encoding { address_size: 8, format: gimli::Format::Dwarf32, version: 4 };
        let bytes = expression.get(&self.section()).map_err(|_| BAD)?;
        let mut evaluation: Evaluation<Bytes<'_>> = bytes.evaluation(encoding);
        evaluation.set_max_iterations(STEPS_MAX);
        if let Some(initial) = initial {
            evaluation.set_initial_value(initial);
        }
        let mut state = evaluation.evaluate().map_err(|_| BAD)?;
        loop {
            state = match state {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = register_value(register, registers).ok_or(BAD)?;
                    evaluation.resume_with_register(Value::Generic(value))
                }
                EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                    evaluation.resume_with_memory(Value::Generic(stack.word(address)?))
                }
                _ => return Err(BAD),
            }
            .map_err(|_| BAD)?;
        }
        match evaluation.as_result() {
            [piece] => match piece.location {
                Location::Address { address } => Ok(address),
                _ => Err(BAD),
            },
            _ => Err(BAD),
        }
    }
}

/// How an address in a function that throws exceptions (`_Unwind_RaiseException` and the like) relates to its end, in which it goes to the frame that
/// catches, or cleans up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Landing {
    /// Before it, or another function.
    No,
    /// The saved registers of its frame may have those of the frame to which it goes: what they seem to say of its callers is wrong.
    Near,
    /// In the last instructions: its rules lead to that frame.
    At,
}

/// Bytes of code from the call that overwrites the saved registers to those last instructions: 118 in GCC 12's; the call before it, in which a thread that
/// throws spends most of its time, is 137 before them.
const LANDING_BYTES: u64 = 128;

impl Landing {
    /// Such a function saves two registers that no other does, %rax and %rdx.
    fn is_in_reach(row: &gimli::UnwindTableRow<usize>) -> bool {
        const RAX: Register = gimli::X86_64::RAX;
        const RDX: Register = gimli::X86_64::RDX;
        let is_saved = |register| matches!(row.register(register), Some(RegisterRule::Offset(_)));
        is_saved(RAX) && is_saved(RDX)
    }

    /// In its last instructions it finds its frame by a third, %rcx.
    fn of(
        function: &gimli::FrameDescriptionEntry<Bytes<'_>>,
        section: &EhFrame<Bytes<'_>>,
        bases: &gimli::BaseAddresses,
        context: &mut UnwindContext<usize>,
        address: u64,
    ) -> Landing {
        let Ok(mut rows) = function.rows(section, bases, context) else {
            return Landing::No;
        };
        while let Ok(Some(row)) = rows.next_row() {
            let is_there = matches!(row.cfa(), CfaRule::RegisterAndOffset { register, .. } if *register == gimli::X86_64::RCX);
            if is_there && address >= row.start_address() {
                return Landing::At;
            }
            if is_there && row.start_address() - address <= LANDING_BYTES {
                return Landing::Near;
            }
        }
        Landing::No
    }
}

/// The entries of the file's table, in order of address; `None`: it is not of the form that all linkers write, 4 bytes for each
/// number, relative to the table.
fn header_entries(table: &Part) -> Option<&[[u8; 8]]> {
    let bytes = &table.bytes;
    let is_usual = bytes.get(..4)? == [1, 0x1b, 0x03, 0x3b];
    let n = u32::from_le_bytes(*bytes.get(8..)?.first_chunk()?) as usize;
    let (entries, _) = bytes.get(12..)?.as_chunks();
    is_usual.then(|| &entries[..n.min(entries.len())])
}

/// How many of these functions begin at an address or before it.
fn n_up_to(table: &Part, entries: &[[u8; 8]], address: u64) -> usize {
    entries.partition_point(|e| header_entry(table, e).is_some_and(|f| f.0 <= address))
}

/// The addresses of a function and of its information.
fn header_entry(table: &Part, entry: &[u8; 8]) -> Option<(u64, u64)> {
    let at = |word: &[u8]| {
        let relative = i32::from_le_bytes(*word.first_chunk()?);
        Some(table.address.wrapping_add_signed(relative.into()))
    };
    Some((at(entry)?, at(&entry[4..])?))
}

/// x86 names the instruction pointer 16 in expressions, as for the stubs that call functions of other files.
fn register_value(register: Register, registers: &Registers) -> Option<u64> {
    registers
        .get(usize::from(register.0))
        .or_else(|| (register == gimli::X86_64::RA).then_some(registers.ip))
}

/// Outer `None`: a rule that is not understood. Inner: the register keeps its value.
fn place(rule: RegisterRule<usize>) -> Option<Option<Place>> {
    Some(Some(match rule {
        RegisterRule::Undefined => Place::Undefined,
        RegisterRule::SameValue => return Some(None),
        RegisterRule::Offset(offset) => Place::At(offset),
        RegisterRule::ValOffset(offset) => Place::Value(offset),
        RegisterRule::Register(register) => Place::Register(register.0),
        RegisterRule::Expression(expression) => Place::AtExpression(expression),
        RegisterRule::ValExpression(expression) => Place::ValueExpression(expression),
        // Arm's sign state: addresses lose their signature anyway.
        RegisterRule::Constant(_) => return Some(None),
        _ => return None,
    }))
}
