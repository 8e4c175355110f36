//! Enums that are numbers elsewhere.

/// An enum with an explicit representation, and `from_number`, which is `None` for numbers it does not know: the other
/// side may be newer.
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
