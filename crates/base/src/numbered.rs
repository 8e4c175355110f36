//! Enums whose values are numbers in files, in shared memory and in C.
//!
//! `numbered! { /// Doc.  Kind: u8 { /// Doc.  Begin = 1, } }` declares the enum and its `from_number`. The numbers
//! are part of a format, so they are written out and never change.

/// Declares an enum with an explicit representation, and `from_number`, which is `None` for an unknown number: the
/// writer of the number may be newer than the reader.
#[macro_export]
macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident: $repr:ty { $($(#[$vdoc:meta])* $variant:ident = $value:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr($repr)]
        pub enum $name { $($(#[$vdoc])* $variant = $value,)* }
        impl $name {
            /// The variant with this number.
            pub const fn from_number(number: $repr) -> Option<$name> {
                match number { $($value => Some($name::$variant),)* _ => None }
            }
        }
    };
}
