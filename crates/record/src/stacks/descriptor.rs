//! Names of what threads wait at, a pipe, a socket, a file..., as frames inside of the call, like the kernel's functions that are not seen from outside.
use kasuri_format::call_paths::{Call, Frame, Module, ModuleKind, NONE};
use kasuri_unwind::Interner;
use std::collections::HashMap;

/// The module of these frames.
const MODULE: &str = "[descriptor]";
/// Most different names; further files are `file`.
const NAMES_MAX: usize = if cfg!(test) { 8 } else { 4096 };
/// Rows of names.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    rows: HashMap<String, u64>,
    /// The last number that was given to a name.
    last: u64,
}

fn module() -> Module {
    Module { kind: ModuleKind::Kernel, path: MODULE.to_owned(), ..Module::default() }
}

impl Descriptors {
    /// The path with a frame of this name inside of it; as it is where the tables are full.
    pub(super) fn add(&mut self, name: String, path: u32, interner: &mut Interner) -> u32 {
        let name = match self.rows.contains_key(&name) || self.rows.len() < NAMES_MAX {
            true => name,
            false => "file".to_owned(),
        };
        // Number 0 is no address.
        let address = *self.rows.entry(name.clone()).or_insert_with(|| {
            self.last += 1;
            self.last
        });
        let module = interner.module(module());
        let call = Call { function: name, ..Call::default() };
        let frame = interner.named(Frame { module, address }, call);
        match interner.path(path, frame) {
            NONE => path,
            made => made,
        }
    }

    /// Forgets the names that have no row any more.
    pub(super) fn keep(&mut self, interner: &mut Interner) {
        let module = interner.module(module());
        self.rows.retain(|_, &mut address| interner.has(Frame { module, address }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_files_have_no_names_of_their_own() {
        let (mut descriptors, mut interner) = (Descriptors::default(), Interner::default());
        for n in 0..3 * NAMES_MAX {
            for _ in 0..2 {
                let path = descriptors.add(format!("file /{n}"), NONE, &mut interner);
                let frame = interner.tables().paths[path as usize].frame;
                let expected = match n < NAMES_MAX {
                    true => format!("file /{n}"),
                    false => "file".to_owned(),
                };
                let names = &interner.tables().names;
                let of_frame = names.iter().find(|names| names.frame == frame);
                assert_eq!(of_frame.unwrap().calls[0].function, expected);
            }
        }
        assert_eq!(interner.tables().frames.len(), NAMES_MAX + 1);
    }
}
