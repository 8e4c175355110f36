//! What all that is said of the account shares.
use kasuri_analyze::Summary;
use kasuri_analyze::account::Class;

/// Causes and losses with less of the capacity than this are left out.
pub const FINDING: f64 = 0.01;

/// Whether anything is known of where CPU time went.
pub fn knows_account(s: &Summary) -> bool {
    let a = &s.account;
    a.capacity_ns > 0 && a.classes.iter().any(|c| c.class != Class::Unknown.key())
}

/// The class of a key; summaries have keys, as JSON does. A class of a newer version is *other*.
pub fn class_of(key: &str) -> Class {
    let same = |class: &&Class| class.key() == key;
    Class::ALL.iter().find(same).copied().unwrap_or(Class::Other)
}
