//! Damage in a file: an error, or what a salvaged file reports as losses.
use kasuri_format::{Error as FormatError, Result as FormatResult};

/// A CPU number beyond this is damage; it must not size a table.
pub(super) const CPUS_MAX: u32 = 8192;

/// Collects damage while a file is salvaged; otherwise the first damage ends the reading.
pub(super) struct Faults {
    pub salvage: bool,
    pub errors: Vec<FormatError>,
}

impl Faults {
    /// Notes the damage, or returns it as an error. A file of noise must not fill the memory, so the list is limited.
    pub fn keep(&mut self, error: FormatError) -> FormatResult<()> {
        if !self.salvage {
            return Err(error);
        }
        if self.errors.len() < 1000 {
            self.errors.push(error);
        }
        Ok(())
    }
}
