//! Further functions of texts and bytes in expressions, by their names in SQL.

use crate::value::ColumnType;

/// A function of texts and bytes. It is NULL if an operand is, except [`TextFunction::ConcatWs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFunction {
    /// The number of a text's first character; 0 if there is none.
    Ascii,
    /// The number of bits of a text or of bytes.
    BitLength,
    /// The character with a number.
    Chr,
    /// All texts after the first one, with the first one between them. Texts that are NULL are left
    /// out.
    ConcatWs,
    /// The bytes that a text in a named encoding stands for.
    Decode,
    /// Bytes as a text in a named encoding: `hex`, `base64` or `escape`.
    Encode,
    /// A text in which each word begins with a capital letter, and has no other.
    Initcap,
    /// A text that is filled at its start, or cut at its end, to a number of characters.
    Lpad,
    /// The MD5 of a text or of bytes, in hexadecimal digits.
    Md5,
    /// A text as a literal of SQL.
    QuoteLiteral,
    /// How many parts of a text match a regular expression.
    RegexpCount,
    /// Whether a part of a text matches a regular expression. A third operand has flags.
    RegexpLike,
    /// A text in which what matches a regular expression is replaced. A fourth operand has flags.
    RegexpReplace,
    /// The first part of a text that matches a regular expression.
    RegexpSubstr,
    /// A text so many times.
    Repeat,
    /// A text from its end to its start.
    Reverse,
    /// A text that is filled or cut at its end to a number of characters.
    Rpad,
    /// The SHA-224 of bytes.
    Sha224,
    /// The SHA-256 of bytes.
    Sha256,
    /// The SHA-384 of bytes.
    Sha384,
    /// The SHA-512 of bytes.
    Sha512,
    /// The part of a text with a number, between separators; from the end if it is negative.
    SplitPart,
    /// Whether a text begins with another one.
    StartsWith,
    /// The two's complement of an integer in hexadecimal digits.
    ToHex,
    /// A text in which each character of a second text is replaced by the one at its place in a
    /// third text, or removed.
    Translate,
}

impl TextFunction {
    /// All functions.
    pub const ALL: [TextFunction; 25] = [
        TextFunction::Ascii,
        TextFunction::BitLength,
        TextFunction::Chr,
        TextFunction::ConcatWs,
        TextFunction::Decode,
        TextFunction::Encode,
        TextFunction::Initcap,
        TextFunction::Lpad,
        TextFunction::Md5,
        TextFunction::QuoteLiteral,
        TextFunction::RegexpCount,
        TextFunction::RegexpLike,
        TextFunction::RegexpReplace,
        TextFunction::RegexpSubstr,
        TextFunction::Repeat,
        TextFunction::Reverse,
        TextFunction::Rpad,
        TextFunction::Sha224,
        TextFunction::Sha256,
        TextFunction::Sha384,
        TextFunction::Sha512,
        TextFunction::SplitPart,
        TextFunction::StartsWith,
        TextFunction::ToHex,
        TextFunction::Translate,
    ];

    /// Returns the name of the function in SQL.
    pub fn name(self) -> &'static str {
        match self {
            TextFunction::Ascii => "ascii",
            TextFunction::BitLength => "bit_length",
            TextFunction::Chr => "chr",
            TextFunction::ConcatWs => "concat_ws",
            TextFunction::Decode => "decode",
            TextFunction::Encode => "encode",
            TextFunction::Initcap => "initcap",
            TextFunction::Lpad => "lpad",
            TextFunction::Md5 => "md5",
            TextFunction::QuoteLiteral => "quote_literal",
            TextFunction::RegexpCount => "regexp_count",
            TextFunction::RegexpLike => "regexp_like",
            TextFunction::RegexpReplace => "regexp_replace",
            TextFunction::RegexpSubstr => "regexp_substr",
            TextFunction::Repeat => "repeat",
            TextFunction::Reverse => "reverse",
            TextFunction::Rpad => "rpad",
            TextFunction::Sha224 => "sha224",
            TextFunction::Sha256 => "sha256",
            TextFunction::Sha384 => "sha384",
            TextFunction::Sha512 => "sha512",
            TextFunction::SplitPart => "split_part",
            TextFunction::StartsWith => "starts_with",
            TextFunction::ToHex => "to_hex",
            TextFunction::Translate => "translate",
        }
    }

    /// Returns the type of the function's results.
    pub fn result_type(self) -> ColumnType {
        match self {
            TextFunction::Ascii | TextFunction::BitLength | TextFunction::RegexpCount => {
                ColumnType::Int32
            }
            TextFunction::RegexpLike | TextFunction::StartsWith => ColumnType::Bool,
            TextFunction::Decode
            | TextFunction::Sha224
            | TextFunction::Sha256
            | TextFunction::Sha384
            | TextFunction::Sha512 => ColumnType::Bytes,
            _ => ColumnType::Text,
        }
    }

    /// Returns the type of an operand; none if it may be of several types.
    pub fn operand_type(self, place: usize) -> Option<ColumnType> {
        match (self, place) {
            (TextFunction::BitLength | TextFunction::Md5 | TextFunction::ToHex, _) => None,
            (TextFunction::ConcatWs, 1..) => None,
            (TextFunction::Chr, _) => Some(ColumnType::Int32),
            (TextFunction::Lpad | TextFunction::Rpad | TextFunction::Repeat, 1)
            | (TextFunction::SplitPart, 2) => Some(ColumnType::Int32),
            (TextFunction::Encode, 0)
            | (
                TextFunction::Sha224
                | TextFunction::Sha256
                | TextFunction::Sha384
                | TextFunction::Sha512,
                _,
            ) => Some(ColumnType::Bytes),
            _ => Some(ColumnType::Text),
        }
    }

    /// Returns whether the function takes an operand of a type at a place.
    pub fn takes_type(self, place: usize, found: ColumnType) -> bool {
        match self {
            TextFunction::BitLength | TextFunction::Md5 => {
                matches!(found, ColumnType::Text | ColumnType::Bytes)
            }
            TextFunction::ToHex => matches!(found, ColumnType::Int32 | ColumnType::Int64),
            _ => self
                .operand_type(place)
                .is_none_or(|wanted| found == wanted),
        }
    }

    /// Returns whether the second operand is a regular expression, and the place of its flags.
    pub fn pattern_flags(self) -> Option<usize> {
        match self {
            TextFunction::RegexpCount | TextFunction::RegexpLike | TextFunction::RegexpSubstr => {
                Some(2)
            }
            TextFunction::RegexpReplace => Some(3),
            _ => None,
        }
    }

    /// Returns whether the function takes so many operands.
    pub fn takes(self, count: usize) -> bool {
        match self {
            TextFunction::ConcatWs => count > 1,
            TextFunction::Lpad | TextFunction::RegexpLike | TextFunction::Rpad => {
                count == 2 || count == 3
            }
            TextFunction::RegexpReplace => count == 3 || count == 4,
            TextFunction::SplitPart | TextFunction::Translate => count == 3,
            TextFunction::Decode
            | TextFunction::Encode
            | TextFunction::RegexpCount
            | TextFunction::RegexpSubstr
            | TextFunction::Repeat
            | TextFunction::StartsWith => count == 2,
            _ => count == 1,
        }
    }
}
