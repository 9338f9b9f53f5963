//! Packs states into bytes, which a search stores and compares.

/// A value that can be packed into bytes and unpacked again.
pub trait Packed: Sized {
    /// Appends the value.
    fn put(&self, bytes: &mut Vec<u8>);

    /// Reads a value from the front.
    fn take(bytes: &mut &[u8]) -> Self;
}

impl Packed for u8 {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.push(*self);
    }

    fn take(bytes: &mut &[u8]) -> u8 {
        let (first, rest) = bytes.split_first().expect("a packed state is whole");
        *bytes = rest;
        *first
    }
}

impl Packed for bool {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(*self));
    }

    fn take(bytes: &mut &[u8]) -> bool {
        u8::take(bytes) != 0
    }
}

impl<T: Packed> Packed for Option<T> {
    fn put(&self, bytes: &mut Vec<u8>) {
        self.is_some().put(bytes);
        if let Some(value) = self {
            value.put(bytes);
        }
    }

    fn take(bytes: &mut &[u8]) -> Option<T> {
        bool::take(bytes).then(|| T::take(bytes))
    }
}

impl<T: Packed, const N: usize> Packed for [T; N] {
    fn put(&self, bytes: &mut Vec<u8>) {
        self.iter().for_each(|item| item.put(bytes));
    }

    fn take(bytes: &mut &[u8]) -> [T; N] {
        std::array::from_fn(|_| T::take(bytes))
    }
}

/// Defines structs whose fields are packed one after the other.
macro_rules! packed_structs {
    ($($(#[doc = $text:literal])+ $type:ident {
        $($(#[doc = $field_text:literal])+ $field:ident: $field_type:ty,)+
    })+) => {$(
        $(#[doc = $text])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $type {
            $($(#[doc = $field_text])+ pub $field: $field_type,)+
        }

        impl $crate::packing::Packed for $type {
            fn put(&self, bytes: &mut Vec<u8>) {
                $($crate::packing::Packed::put(&self.$field, bytes);)+
            }

            fn take(bytes: &mut &[u8]) -> $type {
                // Fields are read in the order in which they stand here.
                $type { $($field: $crate::packing::Packed::take(bytes),)+ }
            }
        }
    )+};
}

/// Defines enums without data, each packed as one byte.
macro_rules! packed_enums {
    ($($(#[doc = $text:literal])+ $type:ident {
        $(#[doc = $first_text:literal])+ $first:ident,
        $($(#[doc = $variant_text:literal])+ $variant:ident,)*
    })+) => {$(
        $(#[doc = $text])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $type {
            $(#[doc = $first_text])+
            #[default]
            $first,
            $($(#[doc = $variant_text])+ $variant,)*
        }

        impl $crate::packing::Packed for $type {
            fn put(&self, bytes: &mut Vec<u8>) {
                bytes.push(*self as u8);
            }

            fn take(bytes: &mut &[u8]) -> $type {
                let all = [$type::$first, $($type::$variant,)*];
                all[usize::from(<u8 as $crate::packing::Packed>::take(bytes))]
            }
        }
    )+};
}

pub(crate) use packed_enums;
pub(crate) use packed_structs;

#[cfg(test)]
mod tests {
    use super::*;

    packed_enums! {
        /// A color.
        Color {
            /// Red.
            Red,
            /// Green.
            Green,
        }
    }

    packed_structs! {
        /// A pair.
        Pair {
            /// Some colors.
            colors: [Color; 2],
            /// A number.
            number: Option<u8>,
            /// A flag.
            flag: bool,
        }
    }

    #[test]
    fn values_are_read_as_they_were_written() {
        let pairs = [
            Pair::default(),
            Pair {
                colors: [Color::Green, Color::Red],
                number: Some(7),
                flag: true,
            },
        ];
        let mut bytes = Vec::new();
        pairs.put(&mut bytes);
        let mut rest = &bytes[..];
        assert_eq!(<[Pair; 2]>::take(&mut rest), pairs);
        assert!(rest.is_empty());
    }
}
