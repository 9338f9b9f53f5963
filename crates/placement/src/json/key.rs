//! The bytes of a `jsonb` in keys: equal values have equal bytes, and their order is that of the
//! values.
//!
//! | part | bytes |
//! |---|---|
//! | a whole value | `00` empty array, `01` scalar, `02` array, `03` object; then the part |
//! | null | `00` |
//! | string | `01`, its bytes, then `00`: no text of a `jsonb` has the character of number 0 |
//! | number | `02`, the bytes of a numeric |
//! | boolean | `03`, `00` or `01` |
//! | array | `04`, the number of items in 4 bytes, big endian, and the items |
//! | object | `05`, the number of keys in 4 bytes, big endian, and each key and its value |

use alloc::string::String;
use alloc::vec::Vec;

use super::{JSON_DEPTH_MAX, Json, key_order};
use crate::numeric::Numeric;

const TEXT_END: u8 = 0x00;

impl Json {
    /// Passes the bytes of a whole value in keys to `write`.
    pub(crate) fn write_key(&self, write: &mut dyn FnMut(&[u8])) {
        write(&[self.root_rank()]);
        self.write_part(write);
    }

    fn write_part(&self, write: &mut dyn FnMut(&[u8])) {
        write(&[self.rank()]);
        let count = |members: usize| {
            let count = u32::try_from(members).expect("a row is smaller than 4 GiB");
            count.to_be_bytes()
        };
        match self {
            Json::Null => {}
            Json::Bool(value) => write(&[u8::from(*value)]),
            Json::Number(value) => value.as_ref().write_key(write),
            Json::String(text) => write_text(text, write),
            Json::Array(items) => {
                write(&count(items.len()));
                for item in items {
                    item.write_part(write);
                }
            }
            Json::Object(pairs) => {
                write(&count(pairs.len()));
                for (key, value) in pairs {
                    write_text(key, write);
                    value.write_part(write);
                }
            }
        }
    }

    /// Returns the value of bytes in a key, and removes them. Its numbers have as few digits after
    /// the point as they need.
    ///
    /// # Errors
    /// The bytes are none of [`Json::write_key`]. Contains whether they are too few.
    pub(crate) fn read_key(rest: &mut &[u8]) -> Result<Json, bool> {
        let [root] = take(rest)?;
        let value = Json::read_part(rest, 0)?;
        match value.root_rank() == root {
            true => Ok(value),
            false => Err(false),
        }
    }

    fn read_part(rest: &mut &[u8], depth: usize) -> Result<Json, bool> {
        if depth > JSON_DEPTH_MAX {
            return Err(false);
        }
        let [rank] = take(rest)?;
        Ok(match rank {
            0 => Json::Null,
            1 => Json::String(read_text(rest)?),
            2 => {
                let number = Numeric::read_key(rest)?;
                // JSON has neither NaN nor infinities.
                if !number.as_ref().is_finite() {
                    return Err(false);
                }
                Json::Number(number)
            }
            3 => match take(rest)? {
                [0] => Json::Bool(false),
                [1] => Json::Bool(true),
                _ => return Err(false),
            },
            4 => {
                let count = u32::from_be_bytes(take(rest)?);
                let items = (0..count).map(|_| Json::read_part(rest, depth + 1));
                Json::Array(items.collect::<Result<_, _>>()?)
            }
            5 => {
                let count = u32::from_be_bytes(take(rest)?);
                let mut pairs: Vec<(String, Json)> = Vec::new();
                for _ in 0..count {
                    let key = read_text(rest)?;
                    if let Some((last, _)) = pairs.last()
                        && key_order(last, &key).is_ge()
                    {
                        return Err(false);
                    }
                    pairs.push((key, Json::read_part(rest, depth + 1)?));
                }
                Json::Object(pairs)
            }
            _ => return Err(false),
        })
    }
}

fn write_text(text: &str, write: &mut dyn FnMut(&[u8])) {
    write(text.as_bytes());
    write(&[TEXT_END]);
}

fn read_text(rest: &mut &[u8]) -> Result<String, bool> {
    let end = rest.iter().position(|byte| *byte == TEXT_END);
    let (text, tail) = rest.split_at(end.ok_or(true)?);
    *rest = &tail[1..];
    str::from_utf8(text).map(String::from).map_err(|_| false)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], bool> {
    let (head, tail) = rest.split_first_chunk::<N>().ok_or(true)?;
    *rest = tail;
    Ok(*head)
}
